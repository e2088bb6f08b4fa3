//! The connection of a client of server-sent events, as its session sees it.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::task::{Context, Waker};

use waterwheel::http::{EncodedEvent, ServerEvent};

use super::opening::EventsOpening;
use crate::client_protocol::ClientProtocol;
use crate::engine::position::Position;
use crate::engine::publication::Publication;
use crate::error_code::{ErrorCode, GatewayError};
use crate::metrics::counters::ClientCounters;
use crate::protocols::channel_client::{ClosingReason, too_slow};
use crate::protocols::client_queue::{ClientQueue, MissedPushes, QueueOutcome, WaitingMessage};
use crate::protocols::json::encoding;
use crate::protocols::options::ProtocolOptions;
use crate::session::connection::{ClientConnection, CommandId};
use crate::session::core::GatewayCore;
use crate::session::delivery::Delivery;
use crate::session::reply::{GatewayReply, Push};

/// The connection of a client of server-sent events. On the loop of the client: the session fills the queue, and the stream
/// takes from it while the channel has room.
pub(super) struct EventsConnection {
    counters: Arc<ClientCounters>,
    queue: RefCell<ClientQueue<EncodedEvent>>,
    /// Present until all subscriptions are made.
    opening: RefCell<Option<EventsOpening>>,
    closing: RefCell<Option<ClosingReason>>,
    /// True once the last event was taken.
    has_closed: Cell<bool>,
    reader: RefCell<Option<Waker>>,
}

/// The state of a stream that takes an event.
pub(super) enum NextEvent {
    Event(EncodedEvent),
    Waits,
    End,
}

impl EventsConnection {
    pub(super) fn new(
        core: &Arc<GatewayCore>,
        options: &ProtocolOptions,
        opening: EventsOpening,
    ) -> Self {
        Self {
            counters: core.counters().on_this_loop(),
            queue: RefCell::new(ClientQueue::new(options)),
            opening: RefCell::new(Some(opening)),
            closing: RefCell::default(),
            has_closed: Cell::default(),
            reader: RefCell::default(),
        }
    }

    /// Returns the next event, or keeps the waker of the stream.
    pub(super) fn next(&self, cx: &Context<'_>) -> NextEvent {
        if let Some(event) = self.take() {
            return NextEvent::Event(event);
        }
        if self.has_closed.get() {
            return NextEvent::End;
        }
        let closing = self.closing.borrow().clone();
        if let Some(ClosingReason { error, may_reconnect }) = closing {
            self.has_closed.set(true);
            return NextEvent::Event(push_event(&Push::Closing { error, may_reconnect }));
        }
        self.wait(cx);
        NextEvent::Waits
    }

    /// Keeps the waker that is woken by the next change.
    pub(super) fn wait(&self, cx: &Context<'_>) {
        let before = self.reader.replace(Some(cx.waker().clone()));
        drop(before);
    }

    /// Takes the answer to the last subscription, once it has come; the reason if the connection is closed meanwhile.
    pub(super) fn take_answer(&self) -> Option<Result<(), GatewayError>> {
        if let Some(closing) = &*self.closing.borrow() {
            return Some(Err(closing.error.clone()));
        }
        self.opening.borrow_mut().as_mut().and_then(EventsOpening::take_answer)
    }

    /// Ends the opening: its events come first.
    pub(super) fn begin(&self, client: &str, since: Option<Position>) {
        let opening = self.opening.take();
        let beginning = opening.and_then(|opening| opening.into_beginning(client, since));
        let Some((event, position, recovered)) = beginning else { return };
        let mut queue = self.queue.borrow_mut();
        let (bytes, count) = (event.bytes().len(), recovered.len());
        let reply = GatewayReply::Subscribed { position, recovered: count, gap: false };
        queue.push_answer(Some(&reply), Some((event, bytes)));
        for delivery in &recovered {
            queue.push_publication(delivery);
        }
    }

    fn take(&self) -> Option<EncodedEvent> {
        let taken = self.queue.borrow_mut().take()?;
        Some(match taken {
            WaitingMessage::Encoded(event, _) => event,
            WaitingMessage::Publication(delivery) => message_event(&delivery),
            WaitingMessage::Missed(MissedPushes { count, position }) => {
                push_event(&Push::Missed { count, position })
            }
        })
    }

    fn wake(&self) {
        let reader = self.reader.take();
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    fn on_pushed(&self, outcome: QueueOutcome) {
        match outcome {
            QueueOutcome::Queued => self.wake(),
            QueueOutcome::Dropped => self.counters.count_missed(ClientProtocol::Events, 1),
            QueueOutcome::Full => {
                self.counters.count_refusal(ErrorCode::ClientTooSlow);
                self.queue.borrow_mut().clear();
                self.close(too_slow(), true);
            }
        }
    }
}

impl ClientConnection for EventsConnection {
    fn answer(&self, _: Option<CommandId>, answer: Result<&GatewayReply, &GatewayError>) {
        if let Some(opening) = &mut *self.opening.borrow_mut() {
            opening.on_answer(answer);
        }
        self.wake();
    }

    fn push(&self, push: &Push) {
        if self.closing.borrow().is_some() {
            return;
        }
        match push {
            Push::Publication(delivery) => {
                if let Some(opening) = &mut *self.opening.borrow_mut() {
                    return opening.on_publication(delivery);
                }
                let outcome = self.queue.borrow_mut().push_publication(delivery);
                self.on_pushed(outcome);
            }
            Push::Missed { count, position } => {
                if let Some(opening) = &mut *self.opening.borrow_mut() {
                    return opening.on_missed();
                }
                let missed = MissedPushes { count: *count, position: *position };
                let outcome = self.queue.borrow_mut().push_missed(missed);
                self.on_pushed(outcome);
            }
            Push::Unsubscribed { .. } | Push::Closing { .. } => {
                let event = push_event(push);
                let bytes = event.bytes().len();
                self.queue.borrow_mut().push_notice(event, bytes);
                self.wake();
            }
            Push::Presence { .. } | Push::Direct { .. } => {
                let event = push_event(push);
                let bytes = event.bytes().len();
                let outcome = self.queue.borrow_mut().push_other(event, bytes);
                self.on_pushed(outcome);
            }
        }
    }

    /// The commands are those of the request.
    fn is_ready(&self) -> bool {
        true
    }

    fn pause_commands(&self, _: bool) {}

    fn close(&self, error: GatewayError, may_reconnect: bool) {
        let is_first = self.closing.borrow().is_none();
        if is_first {
            self.closing.replace(Some(ClosingReason { error, may_reconnect }));
            self.wake();
        }
    }
}

/// Returns the event of a publication, encoded once for all clients.
fn message_event(delivery: &Delivery) -> EncodedEvent {
    let encode = |publication: &Publication| {
        let event = ServerEvent::new(encoding::message(publication));
        let id = publication.position.to_string();
        event.id(id).unwrap_or_else(|_| unreachable!("a position has no line end")).encode()
    };
    delivery.event(encode).clone()
}

/// Returns the event of a push, with its kind as name.
fn push_event(push: &Push) -> EncodedEvent {
    let name = match push {
        Push::Publication(_) => "message",
        Push::Missed { .. } => "missed",
        Push::Presence { .. } => "presence",
        Push::Direct { .. } => "direct",
        Push::Unsubscribed { .. } => "unsubscribed",
        Push::Closing { .. } => "closing",
    };
    let event = ServerEvent::new(encoding::push(push)).name(name);
    event.unwrap_or_else(|_| unreachable!("no name has a line end")).encode()
}
