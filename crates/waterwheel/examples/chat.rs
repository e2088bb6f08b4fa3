//! A chat room: what one says in a line, all others hear.
//!
//! ```sh
//! cargo run --release -p waterwheel --example chat -- 7000
//! nc localhost 7000        # in two other terminals: a name first, then lines; /quit leaves
//! ```
//!
//! It shows lines instead of bytes, and writing to channels of other loops: a `Channel` is a handle for any
//! thread. Who does not read what is said misses lines, and costs no memory beyond the water marks.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex};

use waterwheel::bytes::Bytes;
use waterwheel::channel::{
    Channel, ChannelId, Ctx, EventLoopGroup, HandlerResult, In, InboundHandler, ServerBootstrap,
};
use waterwheel::codec::{LineDecoder, LineEncoder};
use waterwheel::executor;
use waterwheel::net::{Auto, Tcp};

const LONGEST_LINE: usize = 1024;

/// Those who have said their name.
type Room = Arc<Mutex<HashMap<ChannelId, Channel>>>;

/// The handles are copied first: nothing is locked while somebody is written to.
fn say(room: &Room, from: ChannelId, line: String) {
    let members = room.lock().expect("nobody panics in here").clone();
    let line = Bytes::from(line);
    for member in members.into_values().filter(|member| member.id() != from) {
        if member.is_writable() {
            member.send(line.clone());
        }
    }
}

/// One connection, on its loop.
struct Member {
    room: Room,
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
        let (id, line) = (ctx.channel().id(), line.trim());
        match &self.name {
            _ if line == "/quit" => ctx.close(),
            _ if line.is_empty() => {}
            None => {
                self.name = Some(line.to_owned());
                self.room.lock().expect("nobody panics in here").insert(id, ctx.channel());
                ctx.write_and_flush(format!("Hello {line}."));
                say(&self.room, id, format!("* {line} is here"));
            }
            Some(name) => say(&self.room, id, format!("{name}: {line}")),
        }
        Ok(())
    }

    /// A line that is too long, or no text: its sender is told, and may go on.
    fn on_error(&mut self, ctx: &Ctx<'_>, error: executor::Error) -> HandlerResult {
        ctx.write_and_flush(format!("! {error}"));
        Ok(())
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        let id = ctx.channel().id();
        self.room.lock().expect("nobody panics in here").remove(&id);
        if let Some(name) = self.name.take() {
            say(&self.room, id, format!("* {name} has gone"));
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "7000".into());
    let port: u16 = port.parse().map_err(|_| format!("no port: {port}"))?;
    let group = EventLoopGroup::builder(Auto).name("chat").build()?;
    let room = Room::default();
    let server = ServerBootstrap::new(&group, Tcp)
        .child_initialiser(move |edit| {
            edit.add_codec("lines", LineDecoder::new(LONGEST_LINE).text(), LineEncoder::new())?;
            edit.add_last("member", In(Member { room: room.clone(), name: None }))?;
            Ok(())
        })
        .bind(("127.0.0.1", port))
        .join()?;
    println!("listening on {}", server.local_address().ok_or("it is bound")?);
    Ok(server.closed().join()?)
}
