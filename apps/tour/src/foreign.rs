//! A foreign file descriptor, one that belongs to no channel: the loop owns it and calls a handler when it is ready.

use std::error::Error as StdError;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::mpsc::{self, Receiver, Sender};

use waterwheel::channel::driver::{Interest, Readiness};
use waterwheel::channel::{EventLoop, ForeignContext, ForeignHandler};
use waterwheel::executor::Error;
use waterwheel::net::foreign;

use crate::TourResult;
use crate::show::{LIMIT, thread_name};

pub(crate) fn run(event_loop: &EventLoop) -> TourResult {
    let mut pipe = Pipe::watched_by(event_loop)?;
    for word in ["turn", "by", "turn"] {
        pipe.writer.write_all(word.as_bytes())?;
        println!("  {}", pipe.next_message()?);
    }
    let Pipe { writer, words } = pipe;
    drop(writer); // EOF: the handler unregisters itself.
    println!("  {}", words.recv_timeout(LIMIT)?);
    Ok(())
}

/// A pipe whose reading end is registered with a loop.
pub(crate) struct Pipe {
    writer: PipeWriter,
    words: Receiver<String>,
}

impl Pipe {
    pub(crate) fn watched_by(event_loop: &EventLoop) -> Result<Self, Box<dyn StdError>> {
        let (reader, writer) = io::pipe()?;
        let (messages, words) = mpsc::channel();
        let registered = event_loop.register_foreign(
            foreign(reader),
            Interest::READABLE,
            PipeHandler { messages },
        );
        registered.join()?;
        Ok(Self { writer, words })
    }

    /// Waits for the next message of the handler.
    pub(crate) fn next_message(&self) -> Result<String, Box<dyn StdError>> {
        Ok(self.words.recv_timeout(LIMIT)?)
    }
}

/// Runs on the loop and sends what it reads to the main thread.
struct PipeHandler {
    messages: Sender<String>,
}

impl ForeignHandler<PipeReader> for PipeHandler {
    fn on_ready(
        &mut self,
        mut reader: &PipeReader,
        _: Readiness,
        context: &ForeignContext,
    ) -> Result<(), Error> {
        let mut bytes = [0; 64];
        let read = reader.read(&mut bytes)?;
        if read == 0 {
            context.unregister();
            return Ok(());
        }
        let word = String::from_utf8_lossy(&bytes[..read]);
        self.messages.send(format!("{word:?}, read on {}", thread_name())).map_err(Error::new)
    }

    fn on_unregistered(&mut self, _: &PipeReader, cause: Option<Error>) {
        let cause = cause.map_or("as requested".to_owned(), |cause| cause.to_string());
        let _ = self.messages.send(format!("unregistered: {cause}"));
    }
}
