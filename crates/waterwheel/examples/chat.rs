//! A chat server: each line of a client is sent to all others.
//!
//! ```sh
//! cargo run --release -p waterwheel --example chat -- 7000
//! nc localhost 7000        # in two other terminals: a name first, then lines; /quit leaves
//! ```
//!
//! Shows a line codec, and a `ChannelGroup` to write to channels of all loops at once; a closed channel leaves its
//! group by itself. A client that does not read misses lines and costs no memory beyond the high-water mark.

use std::error::Error;

use waterwheel::bytes::Bytes;
use waterwheel::channel::{
    Channel, ChannelGroup, Ctx, EventLoopGroup, HandlerResult, In, InboundHandler, ServerBootstrap,
    matchers,
};
use waterwheel::codec::{LineDecoder, LineEncoder};
use waterwheel::executor;
use waterwheel::net::{Auto, Tcp};

const LONGEST_LINE: usize = 1024;

/// Sends a line to all other members whose channels are writable.
fn broadcast(room: &ChannelGroup, from: &Channel, line: String) {
    let (others, writable) = (matchers::all_but(from), matchers::writable());
    room.matching(|member| others(member) && writable(member)).send(Bytes::from(line));
}

/// The handler of one connection.
struct Member {
    room: ChannelGroup,
    name: Option<String>,
}

impl InboundHandler for Member {
    type In = String;

    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.write_and_flush("What is your name?");
        ctx.fire_active();
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, line: String) -> HandlerResult {
        let (me, line) = (ctx.channel(), line.trim());
        match &self.name {
            _ if line == "/quit" => ctx.close(),
            _ if line.is_empty() => {}
            None => {
                self.name = Some(line.to_owned());
                self.room.add(&me);
                ctx.write_and_flush(format!("Hello {line}."));
                broadcast(&self.room, &me, format!("* {line} is here"));
            }
            Some(name) => broadcast(&self.room, &me, format!("{name}: {line}")),
        }
        Ok(())
    }

    /// Answers a line that is too long or not UTF-8 with the error; decoding continues with the next line.
    fn on_error(&mut self, ctx: &Ctx<'_>, error: executor::Error) -> HandlerResult {
        ctx.write_and_flush(format!("! {error}"));
        Ok(())
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        if let Some(name) = self.name.take() {
            broadcast(&self.room, &ctx.channel(), format!("* {name} has gone"));
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "7000".into());
    let port: u16 = port.parse().map_err(|_| format!("{port} is not a port number"))?;
    let group = EventLoopGroup::builder(Auto).name("chat").build()?;
    let room = ChannelGroup::new("room");
    let server = ServerBootstrap::new(&group, Tcp)
        .child_initialiser(move |edit| {
            edit.add_codec("lines", LineDecoder::new(LONGEST_LINE).text(), LineEncoder::new())?;
            edit.add_last("member", In(Member { room: room.clone(), name: None }))?;
            Ok(())
        })
        .bind(("127.0.0.1", port))
        .join()?;
    println!("listening on {}", server.local_address().ok_or("the server is not bound")?);
    Ok(server.closed().join()?)
}
