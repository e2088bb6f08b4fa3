//! An echo server with one listening socket per event loop (SO_REUSEPORT).
//!
//! ```sh
//! cargo run --release -p waterwheel --example reuseport_echo -- 7000 4
//! nc localhost 7000        # in another terminal: the first line names the serving thread
//! ```
//!
//! Each loop (the second argument is their number; default: one per core) has its own listening socket at the same
//! address. The kernel distributes connections over them, and a connection stays on the loop that accepted it. The
//! loops share a limit of a thousand connections; further ones wait in the kernel's backlog.

use std::error::Error;
use std::thread;

use waterwheel::channel::{
    ConnectionLimit, Ctx, EventLoopGroup, Handler, HandlerResult, Msg, ServerBootstrap,
};
use waterwheel::net::{Auto, Tcp};

const MAX_CONNECTIONS: usize = 1000;

/// Sends a greeting, then echoes.
struct Echo(ConnectionLimit);

impl Handler for Echo {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let thread = thread::current();
        let name = thread.name().unwrap_or("an unnamed thread");
        let here = format!("{name} serves you, one of {} connections\n", self.0.open());
        ctx.write_and_flush(waterwheel::bytes::Bytes::from(here));
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

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let port: u16 = args.next().map_or(Ok(7000), |port| port.parse())?;
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    let loops: usize = args.next().map_or_else(|| Ok(cores()), |loops| loops.parse())?;
    let group = EventLoopGroup::builder(Auto).threads(loops).name("echo").build()?;
    let limit = ConnectionLimit::new(MAX_CONNECTIONS);
    let counted = limit.clone();
    let servers = ServerBootstrap::new(&group, Tcp)
        .connection_limit(&limit)
        .child_initialiser(move |edit| {
            edit.add_last("echo", Echo(counted.clone()))?;
            Ok(())
        })
        .bind_on_each_loop(("127.0.0.1", port))
        .join()?;
    println!("listening on {}", servers.local_address().ok_or("the servers are not bound")?);
    servers.closed().join()?;
    Ok(())
}
