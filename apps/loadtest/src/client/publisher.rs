//! `LoadPublisher`: a client that publishes, and keeps account of the answers.

use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;

use waterwheel::channel::{Channel, HandlerResult};
use waterwheel::executor::{Error, Nanos};
use waterwheel::websocket::{CloseOutcome, WebSocketContext, WebSocketHandler, WebSocketMessage};

use super::connector::LoadConnector;
use crate::delivery::ledger::PublicationLedger;
use crate::error::LoadError;
use crate::wire::command::PublishTemplate;
use crate::wire::server_message::{Received, read};

/// Bytes that may wait for a gateway that does not read; publications beyond them are skipped and counted.
const MAX_PENDING: usize = 16 * 1024 * 1024;

/// A publisher, over all of its connections. Belongs to the loop of the generator.
pub(crate) struct LoadPublisher {
    index: usize,
    ledger: RefCell<PublicationLedger>,
    channel: RefCell<Option<Channel>>,
    /// Publications that were due while there was no connection, or too much waited.
    skipped: Cell<u64>,
    /// Answers that fit no command.
    unexpected: Cell<u64>,
    last_refusal: RefCell<Option<String>>,
}

impl LoadPublisher {
    /// Returns a publisher without a connection.
    pub(crate) fn new(index: usize) -> Rc<Self> {
        Rc::new(Self {
            index,
            ledger: RefCell::default(),
            channel: RefCell::default(),
            skipped: Cell::new(0),
            unexpected: Cell::new(0),
            last_refusal: RefCell::default(),
        })
    }

    /// Connects.
    pub(crate) async fn open(self: &Rc<Self>, connector: &LoadConnector) -> Result<(), LoadError> {
        let connection = PublisherConnection(self.clone());
        let channel = connector.request(self.index).connect_with(connection).await;
        let channel = channel.map_err(|cause| LoadError::Connect {
            client: self.index,
            url: connector.url(self.index).to_owned(),
            cause,
        })?;
        if channel.is_open() {
            drop(self.channel.replace(Some(channel)));
        }
        Ok(())
    }

    /// Returns the connection, if there is one.
    pub(crate) fn channel(&self) -> Option<Channel> {
        self.channel.borrow().clone()
    }

    /// Publishes; `intended` is the time from which its way is measured.
    pub(crate) fn publish(&self, template: &PublishTemplate, intended: Nanos) {
        match self.channel().filter(|channel| channel.pending_bytes() < MAX_PENDING) {
            Some(channel) => {
                // Nothing is borrowed while it is sent: a write that fails closes the channel, which calls `on_close`.
                let number = self.ledger.borrow_mut().send();
                channel.send(WebSocketMessage::text(template.command(number, intended)));
            }
            None => self.skipped.set(self.skipped.get() + 1),
        }
    }

    /// Returns the account of the publications.
    pub(crate) fn ledger(&self) -> RefMut<'_, PublicationLedger> {
        self.ledger.borrow_mut()
    }

    /// Returns how many publications were due while they could not be sent.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped.get()
    }

    /// Returns how many answers fit no command.
    pub(crate) fn unexpected(&self) -> u64 {
        self.unexpected.get()
    }

    /// Returns the last error of the gateway.
    pub(crate) fn last_refusal(&self) -> Option<String> {
        self.last_refusal.borrow().clone()
    }
}

/// The handler of one connection of a publisher.
struct PublisherConnection(Rc<LoadPublisher>);

impl WebSocketHandler for PublisherConnection {
    fn on_message(&mut self, _: &WebSocketContext<'_>, message: WebSocketMessage) -> HandlerResult {
        let publisher = &self.0;
        let received = match &message {
            WebSocketMessage::Text(text) => read(text),
            _ => None,
        };
        let is_expected = match received {
            Some(Received::Answer(id, answer)) => {
                if let Err(error) = &answer {
                    let why = format!("{}: {}", error.name, error.message);
                    publisher.last_refusal.replace(Some(why));
                }
                publisher.ledger.borrow_mut().answer(id, answer.is_ok())
            }
            Some(Received::Other) => true,
            _ => false,
        };
        if !is_expected {
            publisher.unexpected.set(publisher.unexpected.get() + 1);
        }
        Ok(())
    }

    fn on_close(&mut self, _: &WebSocketContext<'_>, _: &CloseOutcome) {
        let ended = self.0.channel.take();
        self.0.ledger.borrow_mut().lose_unanswered();
        drop(ended);
    }

    /// Does nothing: how the connection ends is counted.
    fn on_error(&mut self, _: &WebSocketContext<'_>, _: Error) {}
}
