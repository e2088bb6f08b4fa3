//! The echo server with blocking I/O and one thread per connection, with an ordinary handler.
//!
//! ```sh
//! cargo run --release -p waterwheel --example blocking_echo -- --max 100 7000
//! nc localhost 7000        # in another terminal
//! ```
//!
//! `--max N` limits the connections and threads (default: 200). Further connections are closed at once. A thread whose
//! connection has ended serves the next one.

use std::error::Error;

use waterwheel::channel::{Ctx, EventLoopGroup, Handler, HandlerResult, Msg, ServerBootstrap};
use waterwheel::net::{Blocking, Tcp};

struct Echo;

impl Handler for Echo {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let thread = std::thread::current();
        println!("{} is served by {}", peer(ctx), thread.name().unwrap_or("a thread"));
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.write(msg);
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.flush();
        Ok(())
    }
}

fn peer(ctx: &Ctx<'_>) -> String {
    ctx.channel().peer_address().map_or("an unknown peer".into(), |address| address.to_string())
}

fn main() -> Result<(), Box<dyn Error>> {
    let Options { port, max } = Options::from_args()?;
    // One more for the listening channel.
    let group = EventLoopGroup::per_channel(Blocking).max_channels(max + 1).name("echo").build()?;
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
    max: usize,
}

impl Options {
    /// `[--max N] PORT`
    fn from_args() -> Result<Self, Box<dyn Error>> {
        let mut options = Options { port: 7000, max: 200 };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--max" => options.max = args.next().ok_or("--max N")?.parse()?,
                port => {
                    options.port =
                        port.parse().map_err(|_| format!("{port} is not a port number"))?
                }
            }
        }
        Ok(options)
    }
}
