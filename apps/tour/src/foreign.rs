//! A descriptor that is no channel's: the loop owns it, and calls when it is ready.

use std::error::Error as StdError;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::mpsc::{self, Receiver, Sender};

use waterwheel::channel::driver::{Interest, Readiness};
use waterwheel::channel::{EventLoop, ForeignContext, ForeignHandler};
use waterwheel::executor::Error;
use waterwheel::net::foreign;

use crate::Outcome;
use crate::show::{LIMIT, thread_name};

pub(crate) fn visit(event_loop: &EventLoop) -> Outcome {
    let mut pipe = Pipe::watched_by(event_loop)?;
    for word in ["turn", "by", "turn"] {
        pipe.writer.write_all(word.as_bytes())?;
        println!("  {}", pipe.next_word()?);
    }
    let Pipe { writer, words } = pipe;
    drop(writer); // The end of the pipe: its registration ends itself.
    println!("  {}", words.recv_timeout(LIMIT)?);
    Ok(())
}

/// A pipe whose reading end is with a loop.
pub(crate) struct Pipe {
    writer: PipeWriter,
    words: Receiver<String>,
}

impl Pipe {
    pub(crate) fn watched_by(event_loop: &EventLoop) -> Result<Self, Box<dyn StdError>> {
        let (reader, writer) = io::pipe()?;
        let (told, words) = mpsc::channel();
        let registered =
            event_loop.register_foreign(foreign(reader), Interest::READABLE, Listener { told });
        registered.join()?;
        Ok(Self { writer, words })
    }

    /// What its listener says next.
    pub(crate) fn next_word(&self) -> Result<String, Box<dyn StdError>> {
        Ok(self.words.recv_timeout(LIMIT)?)
    }
}

/// Lives on the loop, and says what it hears there.
struct Listener {
    told: Sender<String>,
}

impl ForeignHandler<PipeReader> for Listener {
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
        self.told.send(format!("{word:?}, read on {}", thread_name())).map_err(Error::new)
    }

    fn on_unregistered(&mut self, _: &PipeReader, cause: Option<Error>) {
        let cause = cause.map_or("as it asked to be".to_owned(), |cause| cause.to_string());
        let _ = self.told.send(format!("unregistered: {cause}"));
    }
}
