//! A client that has a channel of its own: WebSocket, and lines.
//!
//! ```text
//!   handler ── on_input ──► inputs ──► ClientWire ── commands ──► Session ──► hub, engine
//!   channel ◄── write_turn ◄── ClientQueue ◄── answers, pushes ─────┘
//! ```
//!
//! # Rules
//!
//! 1. Answers and pushes are queued, and written by the handler or at the end of the turn ([`turn_end`](super::turn_end)), while
//!    the channel is writable.
//! 2. What has been read waits while the session has as many commands as a client may have, or the queue has no room; then
//!    reads are paused. So at most one round of reads waits.
//! 3. A close writes everything that waits, whether or not the channel is writable: the queue has limits.
//! 4. The session has the connection, and the connection the session: [`release`](ChannelClient::release) parts them, when
//!    the handler goes.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use waterwheel::channel::{Ctx, LocalCtx, Msg, ReadPause};

use super::client_queue::{ClientQueue, MissedPushes, QueueOutcome, WaitingMessage};
use super::options::ProtocolOptions;
use super::turn_end::{TurnEnd, call_at_turn_end};
use crate::client_protocol::ClientProtocol;
use crate::error_code::{ErrorCode, GatewayError};
use crate::metrics::counters::ClientCounters;
use crate::session::connection::{ClientConnection, CommandId};
use crate::session::core::GatewayCore;
use crate::session::delivery::Delivery;
use crate::session::reply::{GatewayReply, Push};
use crate::session::{Session, SessionStart};

/// How a protocol reads commands and writes to a client.
pub(super) trait ClientWire: 'static {
    /// An input of the handler: a message or a line.
    type Input: 'static;

    /// The protocol.
    const PROTOCOL: ClientProtocol;

    /// Passes the commands of an input to the session.
    fn execute(&self, session: &Session, input: Self::Input);

    /// Encodes the answer to a command.
    fn answer(
        &self,
        id: Option<CommandId>,
        answer: Result<&GatewayReply, &GatewayError>,
    ) -> WireAnswer;

    /// Encodes a push other than a publication, with its number of bytes; `None`: the protocol has none of this kind.
    fn push(&self, push: &Push) -> Option<(Msg, usize)>;

    /// Encodes a publication, once for all clients.
    fn publication(&self, delivery: &Delivery) -> Msg;

    /// Writes the last message, and closes the channel.
    fn close(&self, ctx: &Ctx<'_>, reason: &ClosingReason);
}

/// The form of an answer.
pub(super) enum WireAnswer {
    /// A message, with its number of bytes.
    Message(Msg, usize),
    /// The client is not told.
    Nothing,
    /// The client has asked to end the connection, for this reason.
    End(&'static str),
}

/// Why a connection is closed.
#[derive(Clone, Debug)]
pub(super) struct ClosingReason {
    pub(super) error: GatewayError,
    pub(super) may_reconnect: bool,
}

/// The connection of a client. On the client's loop.
pub(super) struct ChannelClient<W: ClientWire> {
    this: Weak<Self>,
    wire: W,
    counters: Arc<ClientCounters>,
    /// The context of the handler.
    ctx: LocalCtx,
    session: RefCell<Option<Rc<Session>>>,
    queue: RefCell<ClientQueue<Msg>>,
    closing: RefCell<Option<ClosingReason>>,
    /// The inputs that were read and are not executed yet.
    inputs: RefCell<VecDeque<W::Input>>,
    /// Keeps the channel from reading while there are some.
    pause: RefCell<Option<ReadPause>>,
    /// True while the session takes no commands.
    is_paused: Cell<bool>,
    /// True if the client is called at the end of the turn.
    is_scheduled: Cell<bool>,
    /// True once the last message was written.
    has_closed: Cell<bool>,
}

impl<W: ClientWire> ChannelClient<W> {
    /// Creates the connection of the handler with this context.
    pub(super) fn new(
        core: &Arc<GatewayCore>,
        options: &ProtocolOptions,
        wire: W,
        ctx: &Ctx<'_>,
    ) -> Rc<Self> {
        Rc::new_cyclic(|this| Self {
            this: this.clone(),
            wire,
            counters: core.counters().on_this_loop(),
            ctx: ctx.to_local(),
            session: RefCell::default(),
            queue: RefCell::new(ClientQueue::new(options)),
            closing: RefCell::default(),
            inputs: RefCell::default(),
            pause: RefCell::default(),
            is_paused: Cell::default(),
            is_scheduled: Cell::default(),
            has_closed: Cell::default(),
        })
    }

    /// Opens the session. If it is refused, the client is told, and closed.
    pub(super) fn open_session(self: &Rc<Self>, core: &Arc<GatewayCore>, start: SessionStart) {
        match Session::open(core, start, self.clone()) {
            Ok(session) => drop(self.session.replace(Some(Rc::new(session)))),
            Err(error) => {
                let may_reconnect = matches!(
                    error.code,
                    ErrorCode::TooManyClients | ErrorCode::Closing | ErrorCode::RateExceeded
                );
                self.close(error, may_reconnect);
            }
        }
    }

    pub(super) fn wire(&self) -> &W {
        &self.wire
    }

    /// Returns the session; `None` if it was refused, or the connection has ended.
    pub(super) fn session(&self) -> Option<Rc<Session>> {
        self.session.borrow().clone()
    }

    /// True if a command that comes now is executed at once.
    fn may_execute(&self) -> bool {
        !self.is_paused.get() && self.is_ready()
    }

    /// Executes an input, or keeps it until the session takes commands.
    pub(super) fn on_input(&self, ctx: &Ctx<'_>, input: W::Input) {
        if self.closing.borrow().is_some() {
            return; // Nobody would be told the answer.
        }
        if self.inputs.borrow().is_empty() && self.may_execute() {
            return self.execute(input);
        }
        self.inputs.borrow_mut().push_back(input);
        self.pause.borrow_mut().get_or_insert_with(|| ctx.pause_reads());
    }

    /// Sends a message of the protocol itself, in its place among the others.
    pub(super) fn send_notice(&self, message: impl Into<Msg>, bytes: usize) {
        self.queue.borrow_mut().push_notice(message.into(), bytes);
        self.schedule();
    }

    /// Writes what waits, as far as the channel takes it, and executes what was read, as far as the session takes it.
    pub(super) fn write_turn(&self, ctx: &Ctx<'_>) {
        self.is_scheduled.set(false);
        loop {
            self.write_waiting(ctx);
            if let Some(session) = self.session() {
                session.resume();
            }
            if !self.execute_inputs() {
                break;
            }
        }
        // Reads go on when nothing waits any more.
        if self.inputs.borrow().is_empty() {
            // The room of a burst is given back.
            let (inputs, pause) = (self.inputs.take(), self.pause.take());
            drop((inputs, pause));
        }
        ctx.flush();
    }

    /// Writes everything that waits: the channel is about to be closed by others.
    pub(super) fn write_all(&self, ctx: &Ctx<'_>) {
        while !self.has_closed.get() && self.write_next(ctx) {}
        ctx.flush();
    }

    /// Ends the session.
    pub(super) fn release(&self) {
        self.has_closed.set(true);
        let session = self.session.take();
        drop(session);
        let inputs = self.inputs.take();
        drop((inputs, self.pause.take()));
        self.queue.borrow_mut().clear();
    }

    fn execute(&self, input: W::Input) {
        if let Some(session) = self.session() {
            self.wire.execute(&session, input);
        }
    }

    /// Executes what was read, as far as the session takes it. Returns true if that was anything.
    fn execute_inputs(&self) -> bool {
        let mut has_executed = false;
        while self.closing.borrow().is_none() && self.may_execute() {
            let next = self.inputs.borrow_mut().pop_front();
            let Some(input) = next else { break };
            self.execute(input);
            has_executed = true;
        }
        has_executed
    }

    fn write_waiting(&self, ctx: &Ctx<'_>) {
        let is_closing = self.closing.borrow().is_some();
        while !self.has_closed.get() && (is_closing || ctx.is_writable()) && self.write_next(ctx) {}
        if !is_closing || self.has_closed.replace(true) {
            return;
        }
        let unread = self.inputs.take();
        drop(unread);
        let reason = self.closing.borrow().clone();
        if let Some(reason) = reason {
            self.wire.close(ctx, &reason);
        }
    }

    /// Writes the next message. Returns false if there is none.
    fn write_next(&self, ctx: &Ctx<'_>) -> bool {
        let next = self.queue.borrow_mut().take();
        let message = match next {
            None => return false,
            Some(WaitingMessage::Encoded(message, _)) => message,
            Some(WaitingMessage::Publication(delivery)) => self.wire.publication(&delivery),
            Some(WaitingMessage::Missed(MissedPushes { count, position })) => {
                match self.wire.push(&Push::Missed { count, position }) {
                    Some((message, _)) => message,
                    None => return true,
                }
            }
        };
        ctx.write(message);
        true
    }

    fn schedule(&self) {
        if !self.is_scheduled.replace(true)
            && let Some(this) = self.this.upgrade()
        {
            call_at_turn_end(this);
        }
    }

    fn on_pushed(&self, outcome: QueueOutcome) {
        match outcome {
            QueueOutcome::Queued => self.schedule(),
            QueueOutcome::Dropped => self.counters.count_missed(W::PROTOCOL, 1),
            QueueOutcome::Full => {
                self.counters.count_refusal(ErrorCode::ClientTooSlow);
                self.queue.borrow_mut().clear();
                self.close(too_slow(), true);
            }
        }
    }
}

/// Returns the error of a client that is disconnected because it reads too slowly.
pub(super) fn too_slow() -> GatewayError {
    GatewayError::new(ErrorCode::ClientTooSlow, "this client reads too slowly: its queue is full")
}

impl<W: ClientWire> ClientConnection for ChannelClient<W> {
    fn answer(&self, id: Option<CommandId>, answer: Result<&GatewayReply, &GatewayError>) {
        if self.closing.borrow().is_some() {
            return;
        }
        let encoded = match self.wire.answer(id, answer) {
            WireAnswer::Message(message, bytes) => Some((message, bytes)),
            WireAnswer::Nothing => None,
            WireAnswer::End(reason) => {
                return self.close(GatewayError::new(ErrorCode::Closing, reason), true);
            }
        };
        self.queue.borrow_mut().push_answer(answer.ok(), encoded);
        self.schedule();
    }

    fn push(&self, push: &Push) {
        if self.closing.borrow().is_some() || self.has_closed.get() {
            return;
        }
        match push {
            Push::Publication(delivery) => {
                let outcome = self.queue.borrow_mut().push_publication(delivery);
                self.on_pushed(outcome);
            }
            Push::Missed { count, position } => {
                let missed = MissedPushes { count: *count, position: *position };
                let outcome = self.queue.borrow_mut().push_missed(missed);
                self.on_pushed(outcome);
            }
            Push::Unsubscribed { .. } | Push::Closing { .. } => {
                if let Some((message, bytes)) = self.wire.push(push) {
                    self.send_notice(message, bytes);
                }
            }
            Push::Presence { .. } | Push::Direct { .. } => {
                if let Some((message, bytes)) = self.wire.push(push) {
                    let outcome = self.queue.borrow_mut().push_other(message, bytes);
                    self.on_pushed(outcome);
                }
            }
        }
    }

    fn is_ready(&self) -> bool {
        self.queue.borrow().has_room()
    }

    fn pause_commands(&self, is_paused: bool) {
        self.is_paused.set(is_paused);
        if !is_paused && !self.inputs.borrow().is_empty() {
            self.schedule();
        }
    }

    fn close(&self, error: GatewayError, may_reconnect: bool) {
        let is_first = self.closing.borrow().is_none();
        if is_first {
            self.closing.replace(Some(ClosingReason { error, may_reconnect }));
            self.schedule();
        }
    }
}

impl<W: ClientWire> TurnEnd for ChannelClient<W> {
    fn on_turn_end(self: Rc<Self>) {
        let ctx = self.ctx.clone();
        // Gone: there is nobody to write to.
        let _ = ctx.run(move |ctx| self.write_turn(ctx));
    }
}
