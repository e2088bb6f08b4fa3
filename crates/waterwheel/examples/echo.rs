//! An echo server.
//!
//! ```sh
//! cargo run --release -p waterwheel --example echo -- 7000
//! nc localhost 7000        # in another terminal
//! ```
//!
//! `--threads N` serves connections on N event loops (default: one, which also accepts). `--spin` makes a loop poll for a
//! while before it sleeps: lower latency for a busy core.

use std::error::Error;
use std::time::Duration;

use waterwheel::channel::{
    Ctx, EventLoopGroup, Events, Handler, HandlerResult, Msg, ServerBootstrap,
};
use waterwheel::net::{Auto, Tcp};

struct Echo;

impl Handler for Echo {
    /// Skips all other events at no cost.
    fn interest(&self) -> Events {
        Events::READ | Events::READ_COMPLETE
    }

    /// Writes the received buffer back without a copy.
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.write(msg);
        Ok(())
    }

    /// Flushes once per read round.
    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.flush();
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let Options { port, threads, spin } = Options::from_args()?;
    let mut group = EventLoopGroup::builder(Auto).threads(threads).name("echo");
    if spin {
        group = group.spin_before_sleep(Duration::from_millis(1));
    }
    let group = group.build()?;
    let server = ServerBootstrap::new(&group, Tcp)
        .child_initialiser(|edit| {
            edit.add_last("echo", Echo)?;
            Ok(())
        })
        .bind(("127.0.0.1", port))
        .join()?;
    println!("listening on {}", server.local_address().ok_or("the server is not bound")?);
    server.closed().join()?;
    Ok(())
}

struct Options {
    port: u16,
    threads: usize,
    spin: bool,
}

impl Options {
    /// `[--threads N] [--spin] PORT`
    fn from_args() -> Result<Self, Box<dyn Error>> {
        let mut options = Options { port: 7000, threads: 1, spin: false };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--threads" => options.threads = args.next().ok_or("--threads N")?.parse()?,
                "--spin" => options.spin = true,
                port => {
                    options.port =
                        port.parse().map_err(|_| format!("{port} is not a port number"))?
                }
            }
        }
        Ok(options)
    }
}
