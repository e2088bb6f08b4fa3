//! A server and a client of the time protocol (RFC 868) over UDP: the answer is in seconds since 1900.
//!
//! ```sh
//! cargo run --release -p waterwheel --example time -- 7037
//! cargo run --release -p waterwheel --example time -- --ask localhost:7037     # in another terminal
//! ```
//!
//! It shows channels of datagrams, and a client that asks again: datagrams get lost.

use std::error::Error;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, SystemTime};

use waterwheel::channel::{
    Bootstrap, Ctx, Datagram, EventLoopGroup, HandlerResult, In, InboundHandler,
};
use waterwheel::net::{Auto, Udp};

/// From 1900 to 1970.
const SECONDS_BEFORE_UNIX: u64 = 2_208_988_800;

/// The client asks five times, and waits so long for each answer.
const PATIENCE: Duration = Duration::from_millis(500);

/// Tells the time to whoever asks. All of them are served by one channel.
struct Tell;

impl InboundHandler for Tell {
    type In = Datagram;

    fn on_read(&mut self, ctx: &Ctx<'_>, question: Datagram) -> HandlerResult {
        let since_1970 = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs());
        let seconds = (since_1970 + SECONDS_BEFORE_UNIX) as u32; // It begins anew in 2036.
        ctx.write_and_flush(question.answer(seconds.to_be_bytes().to_vec()));
        Ok(())
    }
}

/// Asks until there is an answer, or nobody seems to be there.
struct Ask(Sender<u32>);

impl InboundHandler for Ask {
    type In = Datagram;

    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.on_timer(ctx, 5)
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, tries_left: u32) -> HandlerResult {
        if tries_left == 0 {
            ctx.close();
        } else {
            ctx.write_and_flush(Datagram::new(""));
            ctx.schedule(PATIENCE, tries_left - 1);
        }
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, answer: Datagram) -> HandlerResult {
        if let Ok(seconds) = answer.bytes()[..].try_into() {
            let _ = self.0.send(u32::from_be_bytes(seconds)); // Main waits for it.
            ctx.close();
        }
        Ok(())
    }

    /// The system says that nobody listens there. Somebody may, the next time.
    fn on_error(&mut self, _: &Ctx<'_>, _: waterwheel::executor::Error) -> HandlerResult {
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let group = EventLoopGroup::builder(Auto).name("time").threads(1).build()?;
    match args.next().unwrap_or_else(|| "7037".into()).as_str() {
        "--ask" => {
            let whom = args.next().unwrap_or_else(|| "localhost:7037".into());
            let (tell, told) = channel();
            let ask = Bootstrap::new(&group, Udp).initialiser(move |edit| {
                edit.add_last("ask", In(Ask(tell.clone())))?;
                Ok(())
            });
            ask.connect(whom).join()?;
            drop(ask); // It could make others, which could tell.
            println!("{} seconds since 1900", told.recv().map_err(|_| "nobody answers")?);
        }
        port => {
            let port: u16 = port.parse().map_err(|_| format!("no port: {port}"))?;
            let tell = Bootstrap::new(&group, Udp).initialiser(|edit| {
                edit.add_last("tell", In(Tell))?;
                Ok(())
            });
            let server = tell.bind(("127.0.0.1", port)).join()?;
            println!("listening on {}", server.local_address().ok_or("it is bound")?);
            server.closed().join()?;
        }
    }
    Ok(())
}
