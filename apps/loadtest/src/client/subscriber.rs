//! `LoadSubscriber`: a client that subscribes to one topic, and checks what it receives.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use waterwheel::channel::{Channel, HandlerResult, LocalLoop, Message, Msg, timeout};
use waterwheel::executor::{Error, Nanos, Promise};
use waterwheel::websocket::{CloseOutcome, WebSocketContext, WebSocketHandler, WebSocketMessage};

use super::connection_counts::ConnectionCounts;
use super::connector::LoadConnector;
use crate::delivery::meter::DeliveryMeter;
use crate::delivery::tracker::SequenceTracker;
use crate::error::LoadError;
use crate::wire::command::{SUBSCRIBE_ID, subscribe};
use crate::wire::server_message::{PublicationStamp, Received, read};

/// A subscriber, over all of its connections. Belongs to the loop of the generator; shared by its connection and the scenario.
pub(crate) struct LoadSubscriber {
    index: usize,
    topic: Rc<str>,
    meter: Rc<DeliveryMeter>,
    counts: Rc<ConnectionCounts>,
    /// The received publications of each publisher.
    trackers: RefCell<Vec<SequenceTracker>>,
    /// The position of the last publication, or of the subscription; empty before the first.
    position: RefCell<String>,
    channel: RefCell<Option<Channel>>,
    is_open: Cell<bool>,
    /// True if the scenario ends the connection itself.
    is_end_wanted: Cell<bool>,
    gaps: Cell<u64>,
    missed: Cell<u64>,
}

/// The parts of a run that a subscriber needs.
pub(crate) struct SubscriberParts {
    pub(crate) topic: Rc<str>,
    pub(crate) meter: Rc<DeliveryMeter>,
    pub(crate) counts: Rc<ConnectionCounts>,
    /// A tracker for each publisher.
    pub(crate) trackers: Vec<SequenceTracker>,
}

impl LoadSubscriber {
    /// Returns a subscriber without a connection.
    pub(crate) fn new(index: usize, parts: SubscriberParts) -> Rc<Self> {
        let SubscriberParts { topic, meter, counts, trackers } = parts;
        Rc::new(Self {
            index,
            topic,
            meter,
            counts,
            trackers: RefCell::new(trackers),
            position: RefCell::default(),
            channel: RefCell::default(),
            is_open: Cell::new(false),
            is_end_wanted: Cell::new(false),
            gaps: Cell::new(0),
            missed: Cell::new(0),
        })
    }

    /// Connects and subscribes, from the last position on if there is one, and waits for the answer.
    pub(crate) async fn open(self: &Rc<Self>, connector: &LoadConnector) -> Result<(), LoadError> {
        let here = LocalLoop::current().ok_or_else(|| Error::closed("no event loop runs here"))?;
        let (promise, answered) = here.handle().new_promise();
        self.is_end_wanted.set(false);
        let connection = SubscriberConnection { subscriber: self.clone(), answered: Some(promise) };
        let channel = connector.request(self.index).connect_with(connection).await;
        let channel = channel.map_err(|cause| LoadError::Connect {
            client: self.index,
            url: connector.url(self.index).to_owned(),
            cause,
        })?;
        drop(self.channel.replace(Some(channel.clone())));
        let limit = connector.timeout();
        let failed = match timeout(limit, answered).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(cause)) => LoadError::Subscribe { client: self.index, cause },
            Err(_) => LoadError::NoAnswer { client: self.index, limit },
        };
        self.cut();
        Err(failed)
    }

    /// Ends the connection as a network does that breaks: without a Close.
    pub(crate) fn cut(&self) {
        self.is_end_wanted.set(true);
        let channel = self.channel.borrow().clone();
        if let Some(channel) = channel {
            channel.fire_user_event(Msg::new(CutConnection));
        }
    }

    /// Ends the connection with the closing handshake, and waits for the end.
    pub(crate) async fn close(&self) {
        self.is_end_wanted.set(true);
        let channel = self.channel.borrow().clone();
        if let Some(channel) = channel {
            // Fails if the connection has ended before.
            let _ = channel.close().await;
        }
    }

    /// True while the subscription is active.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.get()
    }

    /// Returns how often the gateway told that publications before a position are lost.
    pub(crate) fn gaps(&self) -> u64 {
        self.gaps.get()
    }

    /// Returns how many publications the gateway told to have dropped for this client.
    pub(crate) fn missed(&self) -> u64 {
        self.missed.get()
    }

    /// Calls `f` with what was received of each publisher.
    pub(crate) fn with_trackers<T>(&self, f: impl FnOnce(&[SequenceTracker]) -> T) -> T {
        f(&self.trackers.borrow())
    }

    fn note_publication(&self, stamp: PublicationStamp, position: &str) {
        let mut trackers = self.trackers.borrow_mut();
        let Some(tracker) = trackers.get_mut(stamp.publisher) else {
            return self.meter.note_unreadable();
        };
        let arrival = tracker.note(stamp.number);
        drop(trackers);
        self.set_position(position);
        self.meter.note(Nanos(stamp.intended), arrival);
    }

    fn set_position(&self, position: &str) {
        let mut last = self.position.borrow_mut();
        last.clear();
        last.push_str(position);
    }
}

/// The user event that makes a connection end at once.
struct CutConnection;

impl Message for CutConnection {}

/// The handler of one connection of a subscriber.
struct SubscriberConnection {
    subscriber: Rc<LoadSubscriber>,
    /// Completed by the answer to the subscription.
    answered: Option<Promise<()>>,
}

impl SubscriberConnection {
    fn complete(&mut self, outcome: Result<(), Error>) {
        if let Some(promise) = self.answered.take() {
            promise.complete(outcome);
        }
    }
}

impl WebSocketHandler for SubscriberConnection {
    fn on_open(&mut self, socket: &WebSocketContext<'_>) -> HandlerResult {
        let position = self.subscriber.position.borrow();
        let since = (!position.is_empty()).then_some(position.as_str());
        socket.send_text(&subscribe(&self.subscriber.topic, since))?;
        Ok(())
    }

    fn on_message(&mut self, _: &WebSocketContext<'_>, message: WebSocketMessage) -> HandlerResult {
        let subscriber = &self.subscriber;
        let received = match &message {
            WebSocketMessage::Text(text) => read(text),
            _ => None,
        };
        match received {
            Some(Received::Publication(stamp, position)) => {
                subscriber.note_publication(stamp, &position);
            }
            Some(Received::Missed(count)) => {
                subscriber.missed.set(subscriber.missed.get() + count);
            }
            Some(Received::Answer(SUBSCRIBE_ID, Ok(body))) if self.answered.is_some() => {
                // A subscription that resumes keeps its position until the recovered publications have moved it: the
                // connection may be lost again before they have come.
                if subscriber.position.borrow().is_empty() || body.gap {
                    subscriber.set_position(body.position.as_deref().unwrap_or_default());
                }
                subscriber.gaps.set(subscriber.gaps.get() + u64::from(body.gap));
                subscriber.is_open.set(true);
                subscriber.counts.note_open();
                self.complete(Ok(()));
            }
            Some(Received::Answer(SUBSCRIBE_ID, Err(error))) if self.answered.is_some() => {
                let why = format!("{}: {}", error.name, error.message);
                self.complete(Err(Error::new(why)));
            }
            Some(Received::Other) => {}
            Some(Received::Answer(..)) | None => subscriber.meter.note_unreadable(),
        }
        Ok(())
    }

    fn on_close(&mut self, _: &WebSocketContext<'_>, outcome: &CloseOutcome) {
        if self.subscriber.is_open.replace(false) {
            self.subscriber.counts.note_end(self.subscriber.is_end_wanted.get());
        }
        self.complete(Err(Error::closed(format!("the connection has ended: {outcome:?}"))));
    }

    fn on_user_event(&mut self, socket: &WebSocketContext<'_>, event: Msg) -> HandlerResult {
        match event.is::<CutConnection>() {
            true => socket.ctx().abort(Error::closed("cut by the scenario")),
            false => socket.ctx().fire_user_event(event),
        }
        Ok(())
    }

    /// Does nothing: how the connection ends is counted, and thousands of reports would say no more.
    fn on_error(&mut self, _: &WebSocketContext<'_>, _: Error) {}
}
