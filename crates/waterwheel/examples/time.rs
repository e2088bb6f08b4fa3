//! A server and a client of the time protocol (RFC 868) over UDP: the reply is in seconds since 1900.
//!
//! ```sh
//! cargo run --release -p waterwheel --example time -- 7037
//! cargo run --release -p waterwheel --example time -- --ask localhost:7037     # in another terminal
//! ```
//!
//! Shows datagram channels, and a client that retransmits: datagrams can be lost.

use std::error::Error;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, SystemTime};

use waterwheel::channel::{
    Bootstrap, Ctx, Datagram, EventLoopGroup, HandlerResult, In, InboundHandler,
};
use waterwheel::net::{Auto, Udp};

/// Seconds from 1900 to 1970.
const SECONDS_BEFORE_UNIX: u64 = 2_208_988_800;

/// The client sends up to five requests and waits this long for each reply.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Answers requests. One channel serves all clients.
struct TimeServer;

impl InboundHandler for TimeServer {
    type In = Datagram;

    fn on_read(&mut self, ctx: &Ctx<'_>, question: Datagram) -> HandlerResult {
        let since_1970 = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs());
        let seconds = (since_1970 + SECONDS_BEFORE_UNIX) as u32; // Wraps around in 2036.
        ctx.write_and_flush(question.answer(seconds.to_be_bytes().to_vec()));
        Ok(())
    }
}

/// Sends requests until a reply arrives or the retries are used up.
struct TimeClient(Sender<u32>);

impl InboundHandler for TimeClient {
    type In = Datagram;

    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.on_timer(ctx, 5)
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, tries_left: u32) -> HandlerResult {
        if tries_left == 0 {
            ctx.close();
        } else {
            ctx.write_and_flush(Datagram::new(""));
            ctx.schedule(RETRY_AFTER, tries_left - 1);
        }
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, answer: Datagram) -> HandlerResult {
        if let Ok(seconds) = answer.bytes()[..].try_into() {
            let _ = self.0.send(u32::from_be_bytes(seconds)); // The main thread receives it.
            ctx.close();
        }
        Ok(())
    }

    /// Ignores ECONNREFUSED: the server may listen by the next retry.
    fn on_error(&mut self, _: &Ctx<'_>, _: waterwheel::executor::Error) -> HandlerResult {
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let group = EventLoopGroup::builder(Auto).name("time").threads(1).build()?;
    match args.next().unwrap_or_else(|| "7037".into()).as_str() {
        "--ask" => {
            let server = args.next().unwrap_or_else(|| "localhost:7037".into());
            let (sender, reply) = channel();
            let client = Bootstrap::new(&group, Udp).initialiser(move |edit| {
                edit.add_last("ask", In(TimeClient(sender.clone())))?;
                Ok(())
            });
            client.connect(server).join()?;
            drop(client); // Drops its sender, so that `recv` fails when the client gives up.
            println!(
                "{} seconds since 1900",
                reply.recv().map_err(|_| "no reply from the server")?
            );
        }
        port => {
            let port: u16 = port.parse().map_err(|_| format!("{port} is not a port number"))?;
            let server = Bootstrap::new(&group, Udp).initialiser(|edit| {
                edit.add_last("time", In(TimeServer))?;
                Ok(())
            });
            let server = server.bind(("127.0.0.1", port)).join()?;
            println!("listening on {}", server.local_address().ok_or("the server is not bound")?);
            server.closed().join()?;
        }
    }
    Ok(())
}
