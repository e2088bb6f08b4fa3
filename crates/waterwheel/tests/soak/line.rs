//! A client's connection, and what is heard on it.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use bytes::Bytes;
use waterwheel::channel::{
    AddressSpec, Bootstrap, Channel, ChannelOptions, Ctx, HalfClosed, Handler, HandlerResult, Msg,
};
use waterwheel::executor::{Error, PromiseFuture};

/// Longer than anything here takes, on a busy machine too; what takes so long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A connection of a client.
pub(crate) struct Line {
    pub(crate) channel: Channel,
    heard: Receiver<Heard>,
    /// Reads when it is asked to.
    by_hand: bool,
}

/// What has happened to a connection.
#[derive(Debug)]
enum Heard {
    Read(Bytes),
    RoundOver,
    End,
    Failed(Error),
    Inactive,
}

/// How a connection has ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It has not.
    Open,
    /// The peer has said that this was all.
    Finished,
    /// It was torn.
    Torn(String),
}

impl Line {
    /// Connects by this bootstrap, which is given its options and its pipeline.
    pub(crate) fn connect(
        clients: Bootstrap,
        to: AddressSpec,
        options: ChannelOptions,
    ) -> Result<Self, Error> {
        let (tell, heard) = channel();
        let by_hand = !options.auto_read;
        let options = ChannelOptions { allow_half_closure: true, ..options };
        let clients = clients
            .options(options)
            .initialiser(move |edit| Ok(edit.add_last("tap", Tap(tell.clone())).map(drop)?));
        Ok(Self { channel: get(clients.connect(to))?, heard, by_hand })
    }

    /// The next so many bytes, or fewer if it ends before.
    #[track_caller]
    pub(crate) fn hear(&self, len: usize) -> (Vec<u8>, End) {
        let mut read = Vec::new();
        if self.by_hand && len > 0 {
            self.channel.read();
        }
        while read.len() < len {
            let what = self.heard.recv_timeout(PATIENCE);
            match what.unwrap_or_else(|_| self.silence(read.len(), len)) {
                Heard::Read(bytes) => read.extend_from_slice(&bytes),
                Heard::RoundOver if self.by_hand && read.len() < len => self.channel.read(),
                Heard::RoundOver => {}
                Heard::End => return (read, End::Finished),
                Heard::Failed(error) => return (read, End::Torn(error.to_string())),
                Heard::Inactive => return (read, End::Torn("inactive".to_owned())),
            }
        }
        (read, End::Open)
    }

    #[track_caller]
    fn silence(&self, had: usize, len: usize) -> ! {
        panic!("silence after {had} of {len} bytes on {:?}", self.channel)
    }

    /// Closes it, and waits until it is.
    #[track_caller]
    pub(crate) fn close(self) {
        drop(self.channel.close());
        self.channel.closed().wait_timeout(PATIENCE).expect("it closes in time");
    }
}

/// Waits for a future, with a limit.
#[track_caller]
pub(crate) fn get<T: Send + 'static>(future: PromiseFuture<T>) -> Result<T, Error> {
    future.wait_timeout(PATIENCE).expect("it completes in time");
    future.join()
}

/// Tells the scene what happens.
struct Tap(Sender<Heard>);

impl Tap {
    fn tell(&self, heard: Heard) -> HandlerResult {
        // A scene that does not listen any more has its reasons.
        let _ = self.0.send(heard);
        Ok(())
    }
}

impl Handler for Tap {
    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.tell(Heard::Read(msg.into_bytes().expect("bytes are sent here")))
    }

    fn on_read_complete(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.tell(Heard::RoundOver)
    }

    fn on_user_event(&mut self, _: &Ctx<'_>, event: Msg) -> HandlerResult {
        match event.get::<HalfClosed>() {
            Some(HalfClosed::Input) => self.tell(Heard::End),
            _ => Ok(()),
        }
    }

    fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
        self.tell(Heard::Failed(error))
    }

    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.tell(Heard::Inactive)
    }
}
