//! A chat room within one process: local channels on two event loops, joined by a `ChannelGroup`.
//! Run it with `cargo run -p waterwheel --example local_chat`.
//!
//! ```text
//!   client ══ local connection ══ member ──► room: every member's channel, on any loop
//! ```

use std::error::Error;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use waterwheel::channel::driver::TaskOnly;
use waterwheel::channel::local::{self, Connection};
use waterwheel::channel::{
    Address, ChannelGroup, Ctx, EventLoopGroup, Handler, HandlerResult, Msg, NewChannel,
};

/// The server's handler: registers each accepted connection.
struct AcceptHandler(ChannelGroup, EventLoopGroup);

impl Handler for AcceptHandler {
    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        if let Ok(connection) = msg.take::<NewChannel>() {
            let room = self.0.clone();
            drop(self.1.register(connection.initialiser(|edit| {
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
        self.0.send("a new member has joined".to_owned());
        Ok(())
    }

    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let _ = msg.take::<String>().map(|line| self.0.send(line));
        Ok(())
    }
}

/// The client's end: forwards received lines to the main thread.
struct ForwardLines(Sender<String>);

impl Handler for ForwardLines {
    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let _ = msg.take::<String>().map(|line| self.0.send(line));
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let loops = EventLoopGroup::builder(TaskOnly).threads(2).build()?;
    let accept = AcceptHandler(ChannelGroup::new("chat"), loops.clone());
    let server = loops.register(local::listen("chat")?.initialiser(|edit| {
        edit.add_last("accept", accept)?;
        Ok(())
    }));
    let server = server.join()?;
    for (name, line) in [("ann", "is anybody here?"), ("bob", "I am")] {
        let (lines, received) = mpsc::channel();
        let client = NewChannel::new(Connection::new()).initialiser(|edit| {
            edit.add_last("forward", ForwardLines(lines))?;
            Ok(())
        });
        let client = loops.register(client).join()?;
        client.connect(Address::local("chat")).join()?;
        client.write_and_flush(format!("{name}: {line}")).join()?;
        for _ in 0..2 {
            println!("{name} received: {}", received.recv_timeout(Duration::from_secs(5))?);
        }
    }
    server.close().join()?;
    loops.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?.join()?;
    Ok(())
}
