//! A chat room within one process: a server, a channel per guest, each on whichever loop comes next.
//! Run it with `cargo run -p waterwheel --example local_chat`.
//!
//! ```text
//!   guest ══ local connection ══ member ──► room: every member's channel, on any loop
//! ```

use std::error::Error;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use waterwheel::channel::driver::TaskOnly;
use waterwheel::channel::local::{self, Connection};
use waterwheel::channel::{
    Address, ChannelGroup, Ctx, EventLoopGroup, Handler, HandlerResult, Msg, NewChannel,
};

/// The server's handler: lets everybody in.
struct Door(ChannelGroup, EventLoopGroup);

impl Handler for Door {
    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        if let Ok(guest) = msg.take::<NewChannel>() {
            let room = self.0.clone();
            drop(self.1.register(guest.initialiser(|edit| {
                edit.add_last("member", Member(room))?;
                Ok(())
            })));
        }
        Ok(())
    }
}

/// The server's end of one connection.
struct Member(ChannelGroup);

impl Handler for Member {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.0.add(&ctx.channel());
        self.0.send("somebody has come in".to_owned());
        Ok(())
    }

    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let _ = msg.take::<String>().map(|line| self.0.send(line));
        Ok(())
    }
}

/// The guest's end: hands out what it hears.
struct Ears(Sender<String>);

impl Handler for Ears {
    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let _ = msg.take::<String>().map(|line| self.0.send(line));
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let loops = EventLoopGroup::builder(TaskOnly).threads(2).build()?;
    let door = Door(ChannelGroup::new("chat"), loops.clone());
    let server = loops.register(local::listen("chat")?.initialiser(|edit| {
        edit.add_last("door", door)?;
        Ok(())
    }));
    let server = server.join()?;
    for (name, line) in [("ann", "is anybody here?"), ("bob", "I am")] {
        let (ears, heard) = mpsc::channel();
        let guest = NewChannel::new(Connection::new()).initialiser(|edit| {
            edit.add_last("ears", Ears(ears))?;
            Ok(())
        });
        let guest = loops.register(guest).join()?;
        guest.connect(Address::local("chat")).join()?;
        guest.write_and_flush(format!("{name}: {line}")).join()?;
        for _ in 0..2 {
            println!("{name} hears: {}", heard.recv_timeout(Duration::from_secs(5))?);
        }
    }
    server.close().join()?;
    loops.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?.join()?;
    Ok(())
}
