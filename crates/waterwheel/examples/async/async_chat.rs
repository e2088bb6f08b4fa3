//! A chat server whose connections are async functions: each line of a client is sent to all others.
//!
//! ```sh
//! cargo run --release -p waterwheel --example async_chat -- 7000
//! nc localhost 7000        # in two other terminals: a name first, then lines; /quit leaves
//! ```
//!
//! Each connection is two futures on its loop: one reads lines, one writes what the others say. Between them is a
//! bounded queue of `tokio::sync`, which needs no tokio runtime; `tokio::select!` neither. A client that reads slowly
//! misses lines beyond [`QUEUE`], and is told how many. Ctrl-C and SIGTERM say good-bye to every client.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use waterwheel::async_bridge::{AsyncChannel, AsyncReader, AsyncWriter, Serve};
use waterwheel::channel::{Channel, ChannelId, DrainOptions, EventLoopGroup, ServerBootstrap};
use waterwheel::codec::{LineDecoder, LineEncoder};
use waterwheel::executor;
use waterwheel::net::{Auto, Tcp, Terminate};

const LONGEST_LINE: usize = 1024;

/// The number of lines that wait for a client that reads slowly.
const QUEUE: usize = 64;

/// The members of the chat, on all loops.
#[derive(Clone, Default)]
struct Room(Arc<Mutex<HashMap<ChannelId, Queue>>>);

/// The lines that wait for one member.
struct Queue {
    lines: mpsc::Sender<String>,
    missed: usize,
}

/// A place in the room. Dropping it leaves the room, however the connection has ended.
struct Member {
    room: Room,
    id: ChannelId,
    name: String,
}

impl Room {
    fn enter(&self, channel: &Channel, name: String) -> (Member, mpsc::Receiver<String>) {
        let (lines, heard) = mpsc::channel(QUEUE);
        let member = Member { room: self.clone(), id: channel.id(), name };
        self.members().insert(member.id, Queue { lines, missed: 0 });
        (member, heard)
    }

    fn members(&self) -> std::sync::MutexGuard<'_, HashMap<ChannelId, Queue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    /// Sends a line to all others, and waits for nobody.
    fn say(&self, line: &str) {
        for (_, queue) in self.room.members().iter_mut().filter(|(id, _)| **id != self.id) {
            queue.push(line);
        }
    }

    /// Leaves the room. Returns false if the member had left before.
    fn leave(&self) -> bool {
        self.room.members().remove(&self.id).is_some()
    }

    /// Sends a line to this member alone, behind those that wait already.
    fn tell(&self, line: &str) {
        if let Some(queue) = self.room.members().get_mut(&self.id) {
            queue.push(line);
        }
    }
}

impl Queue {
    fn push(&mut self, line: &str) {
        if self.missed > 0
            && self.lines.try_send(format!("! you missed {} lines", self.missed)).is_ok()
        {
            self.missed = 0;
        }
        if self.lines.try_send(line.to_owned()).is_err() {
            self.missed += 1;
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if self.leave() {
            self.say(&format!("* {} has gone", self.name));
        }
    }
}

/// One connection, from its first line to its last.
async fn talk(room: Room, mut connection: AsyncChannel<String>) -> Result<(), executor::Error> {
    connection.send("What is your name?".into()).await?;
    let Some(name) = connection.try_next().await? else { return Ok(()) };
    let (member, heard) = room.enter(connection.channel(), name);
    member.tell(&format!("Hello {}.", member.name));
    member.say(&format!("* {} is here", member.name));

    let scope = connection.scope().clone();
    let (reader, writer) = connection.split();
    scope.spawn(write_lines(heard, writer)); // Ends with the channel, like this function.
    read_lines(member, reader).await
}

/// Passes on what the client says. When this returns, the member leaves the room, which ends its queue.
async fn read_lines(
    member: Member,
    mut reader: AsyncReader<String>,
) -> Result<(), executor::Error> {
    let mut draining = reader.draining();
    loop {
        tokio::select! {
            line = reader.next() => match line {
                None => return Ok(()),
                Some(Ok(line)) if line.trim() == "/quit" => return Ok(()),
                Some(Ok(line)) => member.say(&format!("{}: {line}", member.name)),
                // A line that is too long or not UTF-8; the next one is read.
                Some(Err(error)) => member.tell(&format!("! {error}")),
            },
            () = &mut draining => {
                member.tell("* the server goes down, good bye");
                member.leave(); // Without a word: the others leave too.
                return Ok(());
            }
        }
    }
}

/// Writes what was said, at the pace of the client. Dropping the writer, after the last line, closes the connection.
async fn write_lines(
    mut heard: mpsc::Receiver<String>,
    mut writer: AsyncWriter<String>,
) -> Result<(), executor::Error> {
    let _hold = writer.channel().hold(); // A drain waits for the good-bye.
    while let Some(line) = heard.recv().await {
        writer.send(line).await?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "7000".into());
    let port: u16 = port.parse().map_err(|_| format!("{port} is not a port number"))?;
    let group = EventLoopGroup::builder(Auto).name("chat").build()?;
    let room = Room::default();
    let server = ServerBootstrap::new(&group, Tcp)
        .child_initialiser(|edit| {
            edit.add_codec("lines", LineDecoder::new(LONGEST_LINE).text(), LineEncoder::new())?;
            Ok(())
        })
        .serve(move |connection| talk(room.clone(), connection))
        .bind(("127.0.0.1", port))
        .join()?;
    Terminate::new()?.drain(&group, DrainOptions::within(Duration::from_secs(5)));
    println!("listening on {}", server.local_address().ok_or("the server is not bound")?);
    group.termination().join()?;
    Ok(())
}
