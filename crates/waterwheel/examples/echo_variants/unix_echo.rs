//! An echo server on a Unix socket: prints the credentials of its clients and echoes bytes and file descriptors.
//!
//! ```sh
//! cargo run --release -p waterwheel --example unix_echo -- /tmp/echo.sock
//! nc -U /tmp/echo.sock     # in another terminal
//! ```
//!
//! `@name` instead of a path binds an abstract name, without a file. Ctrl-C ends the server and removes its socket
//! file.

use std::error::Error;
use std::time::Duration;

use waterwheel::channel::driver::SocketOption;
use waterwheel::channel::{
    AncillaryMessage, Ctx, DrainOptions, EventLoopGroup, Handler, HandlerResult, Msg,
    ServerBootstrap,
};
use waterwheel::net::{Auto, Terminate, Unix};

struct Echo;

impl Handler for Echo {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        println!("connected: {}", ctx.peer_credentials()?);
        Ok(())
    }

    /// Echoes bytes, and bytes with file descriptors (SCM_RIGHTS).
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        if let Some(ancillary) = msg.get::<AncillaryMessage>() {
            println!("passed: {}", ancillary.passed.len());
        }
        ctx.write(msg);
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.flush();
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let path =
        std::env::args().nth(1).ok_or("usage: unix_echo PATH, or @NAME for an abstract name")?;
    let group = EventLoopGroup::builder(Auto).threads(1).name("echo").build()?;
    let server = ServerBootstrap::new(&group, Unix)
        .child_socket_option(SocketOption::ReceivePassed(true))
        .child_initialiser(|edit| {
            edit.add_last("echo", Echo)?;
            Ok(())
        })
        .bind(format!("unix:{path}"))
        .join()?;
    println!("listening on {}", server.local_address().ok_or("the server is not bound")?);
    let drain = DrainOptions::within(Duration::from_secs(1));
    let drain = drain.shutdown(Duration::ZERO, Duration::from_secs(5))?;
    Terminate::new()?.drain(&group, drain);
    group.termination().join()?;
    Ok(())
}
