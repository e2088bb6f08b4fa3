//! A client's connection, and the events of its channel.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use bytes::Bytes;
use waterwheel::channel::{
    AddressSpec, Bootstrap, Channel, ChannelOptions, Ctx, HalfClosed, Handler, HandlerResult, Msg,
};
use waterwheel::executor::{Error, PromiseFuture};

use crate::tls_traffic::TlsConfigs;

/// Limit of every wait: far longer than a busy machine needs.
pub(crate) const WAIT_LIMIT: Duration = Duration::from_secs(30);

/// A client's channel, with a handler that sends its events to the scenario.
pub(crate) struct ClientConnection {
    pub(crate) channel: Channel,
    events: Receiver<ClientEvent>,
    /// True if the channel reads only when [`receive`](Self::receive) asks for it (no auto-read).
    reads_manually: bool,
}

/// An event of a client's channel.
#[derive(Debug)]
enum ClientEvent {
    Read(Bytes),
    RoundOver,
    PeerFinished,
    Failed(Error),
    Inactive,
}

/// How a connection has ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEnd {
    /// The connection has not ended.
    Open,
    /// The peer has shut down its output (FIN).
    Finished,
    /// The connection failed, or was closed.
    Broken(String),
}

impl ClientConnection {
    /// Connects with this bootstrap, whose options and initialiser are set here, and begins TLS if asked to.
    pub(crate) fn connect(
        clients: Bootstrap,
        to: AddressSpec,
        options: ChannelOptions,
        tls: Option<Arc<TlsConfigs>>,
    ) -> Result<Self, Error> {
        let (sender, events) = channel();
        let reads_manually = !options.auto_read;
        let options = ChannelOptions { allow_half_closure: true, ..options };
        let clients = clients.options(options).initialiser(move |edit| {
            if let Some(tls) = &tls {
                edit.add_last("tls", tls.client_handler())?;
            }
            Ok(edit.add_last("tap", EventTap(sender.clone())).map(drop)?)
        });
        Ok(Self { channel: get(clients.connect(to))?, events, reads_manually })
    }

    /// Receives the next `len` bytes, or fewer if the connection ends before.
    #[track_caller]
    pub(crate) fn receive(&self, len: usize) -> (Vec<u8>, ConnectionEnd) {
        let mut read = Vec::new();
        if self.reads_manually && len > 0 {
            self.channel.read();
        }
        while read.len() < len {
            let event = self.events.recv_timeout(WAIT_LIMIT);
            match event.unwrap_or_else(|_| self.fail_on_timeout(read.len(), len)) {
                ClientEvent::Read(bytes) => read.extend_from_slice(&bytes),
                ClientEvent::RoundOver if self.reads_manually && read.len() < len => {
                    self.channel.read()
                }
                ClientEvent::RoundOver => {}
                ClientEvent::PeerFinished => return (read, ConnectionEnd::Finished),
                ClientEvent::Failed(error) => {
                    return (read, ConnectionEnd::Broken(error.to_string()));
                }
                ClientEvent::Inactive => {
                    return (read, ConnectionEnd::Broken("inactive".to_owned()));
                }
            }
        }
        (read, ConnectionEnd::Open)
    }

    #[track_caller]
    fn fail_on_timeout(&self, received: usize, len: usize) -> ! {
        panic!("timed out after {received} of {len} bytes on {:?}", self.channel)
    }

    /// Closes the channel, and waits until it is closed.
    #[track_caller]
    pub(crate) fn close(self) {
        drop(self.channel.close());
        self.channel.closed().wait_timeout(WAIT_LIMIT).expect("the channel closes in time");
    }
}

/// Waits for a future, with a limit.
#[track_caller]
pub(crate) fn get<T: Send + 'static>(future: PromiseFuture<T>) -> Result<T, Error> {
    future.wait_timeout(WAIT_LIMIT).expect("the future completes in time");
    future.join()
}

/// Sends the channel's events to the scenario.
struct EventTap(Sender<ClientEvent>);

impl EventTap {
    fn send(&self, event: ClientEvent) -> HandlerResult {
        // The scenario may have stopped receiving.
        let _ = self.0.send(event);
        Ok(())
    }
}

impl Handler for EventTap {
    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.send(ClientEvent::Read(msg.into_bytes().expect("the message is bytes")))
    }

    fn on_read_complete(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.send(ClientEvent::RoundOver)
    }

    fn on_user_event(&mut self, _: &Ctx<'_>, event: Msg) -> HandlerResult {
        match event.get::<HalfClosed>() {
            Some(HalfClosed::Input) => self.send(ClientEvent::PeerFinished),
            _ => Ok(()),
        }
    }

    fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
        self.send(ClientEvent::Failed(error))
    }

    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.send(ClientEvent::Inactive)
    }
}
