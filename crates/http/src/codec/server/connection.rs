//! The state that both slots of a server's codec share: the requests in flight, and how the connection ends.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use waterwheel_channel::{Ctx, Cumulation, Hold, LocalCtx, ReadPause};
use waterwheel_executor::{Error, Nanos};

use super::answer_plan::AskedRequest;
use super::answers::AnswerInProgress;
use super::builder::ServerCodecOptions;
use super::connection_flags::{CodecPhase, ConnectionFlags};
use crate::codec::messages::{BodyEnd, RequestRefused};
use crate::protocol::error::{Malformation, MessageError};
use crate::protocol::framing::BodyFraming;
use crate::protocol::request_decoder::{RequestDecoder, RequestEvent};
use crate::protocol::request_head::RequestHead;
use crate::server::options::MAX_SKIPPED;

/// The state of a connection. Nothing of it is borrowed while a handler is called.
pub(super) struct ServerConnection {
    pub(super) options: ServerCodecOptions,
    /// Absent while requests are decoded, and once the connection is over.
    decoding: Cell<Option<Box<Decoding>>>,
    /// Requests without a complete answer, in order.
    requests: RefCell<VecDeque<AskedRequest>>,
    /// The answer whose head is written.
    pub(super) answer: Cell<Option<AnswerInProgress>>,
    flags: Cell<ConnectionFlags>,
    /// The time of the last look at a connection that is ending.
    lingers_since: Cell<Nanos>,
    /// The context of the decoder's slot.
    decoder_slot: RefCell<Option<LocalCtx>>,
    pause: Cell<Option<ReadPause>>,
    /// Makes a drain of the loop wait.
    hold: Cell<Option<Hold>>,
}

/// The decoder, with the bytes that it has not decoded.
struct Decoding {
    decoder: RequestDecoder,
    unread: Cumulation,
    has_unread: bool,
}

/// The tag of the timer that ends the wait for the client's end.
const LINGER_TIMER: u32 = 0;

impl ServerConnection {
    pub(super) fn new(options: ServerCodecOptions) -> Self {
        let decoder = RequestDecoder::new(options.limits);
        let decoding = Decoding { decoder, unread: Cumulation::default(), has_unread: false };
        Self {
            options,
            decoding: Cell::new(Some(Box::new(decoding))),
            requests: RefCell::default(),
            answer: Cell::default(),
            flags: Cell::default(),
            lingers_since: Cell::default(),
            decoder_slot: RefCell::default(),
            pause: Cell::default(),
            hold: Cell::default(),
        }
    }

    pub(super) fn flags(&self) -> ConnectionFlags {
        self.flags.get()
    }

    fn update(&self, change: impl FnOnce(&mut ConnectionFlags)) {
        let mut flags = self.flags.get();
        change(&mut flags);
        self.flags.set(flags);
    }

    pub(super) fn set_decoder_slot(&self, ctx: &Ctx<'_>) {
        *self.decoder_slot.borrow_mut() = Some(ctx.to_local());
    }

    /// True if the next request may be decoded.
    fn may_begin(&self, ctx: &Ctx<'_>) -> bool {
        let flags = self.flags();
        !(flags.is_last || flags.is_draining || flags.upgrading.is_some())
            && self.requests.borrow().len() < self.options.max_pipelined
            && ctx.is_writable()
    }

    fn may_decode(&self, ctx: &Ctx<'_>, decoder: &RequestDecoder) -> bool {
        let flags = self.flags();
        flags.phase == CodecPhase::Open
            && !flags.is_refused
            && !ctx.is_removed()
            && (decoder.is_in_body() || self.may_begin(ctx))
    }

    /// Decodes new bytes behind those that were kept, and passes the parts on. Returns true if there were any.
    pub(super) fn decode(self: &Rc<Self>, ctx: &Ctx<'_>, bytes: Bytes) -> bool {
        let Some(mut decoding) = self.decoding.take() else { return false };
        let mut buf = decoding.unread.append(bytes);
        let (mut has_passed, mut error) = (false, None);
        while self.may_decode(ctx, &decoding.decoder) {
            match decoding.decoder.decode(&mut buf) {
                Ok(Some(event)) => {
                    has_passed = true;
                    self.pass_on(ctx, &decoding.decoder, event);
                }
                Ok(None) => break,
                Err(refused) => {
                    error = Some(refused);
                    break;
                }
            }
        }
        let is_head = decoding.decoder.is_head_method();
        let flags = self.flags();
        let is_dropped = flags.phase == CodecPhase::Closing || flags.is_refused || error.is_some();
        if ctx.is_removed() && !is_dropped {
            if !buf.is_empty() {
                ctx.fire_read(buf);
            }
            return true;
        }
        if is_dropped {
            buf.clear();
        }
        decoding.has_unread = !buf.is_empty();
        decoding.unread.keep(buf);
        self.decoding.set(Some(decoding));
        match error {
            Some(error) => self.refuse(ctx, error, is_head),
            None => self.tell_to_go_on(ctx),
        }
        self.settle(ctx);
        has_passed
    }

    fn pass_on(&self, ctx: &Ctx<'_>, decoder: &RequestDecoder, event: RequestEvent) {
        match event {
            RequestEvent::Head(head) => self.begin_request(ctx, head, decoder.is_in_body()),
            RequestEvent::Data(bytes) => self.continue_body(ctx, bytes),
            RequestEvent::End(trailers) => {
                self.update(|flags| flags.receiving = None);
                ctx.fire_read(BodyEnd { trailers });
            }
        }
    }

    fn continue_body(&self, ctx: &Ctx<'_>, bytes: Bytes) {
        let len = bytes.len() as u64;
        let receiving = self.flags().receiving;
        let is_in_flight = self.change_last(receiving, |facts| facts.awaits_continue = false);
        self.update(|flags| {
            flags.body_left = flags.body_left.map(|left| left.saturating_sub(len));
            flags.skipped += if is_in_flight { 0 } else { len };
        });
        if self.flags().skipped > MAX_SKIPPED {
            return self.begin_close(ctx);
        }
        ctx.fire_read(bytes);
    }

    fn begin_request(&self, ctx: &Ctx<'_>, head: RequestHead, has_body: bool) {
        let number = self.flags().next_number;
        let mut facts = AskedRequest::of(&head, number);
        facts.may_continue = self.options.continues_by_itself;
        self.update(|flags| {
            flags.next_number += 1;
            flags.is_last = facts.closes;
            flags.receiving = has_body.then_some(number);
            flags.skipped = 0;
            flags.body_left = match head.framing() {
                BodyFraming::Length(length) => Some(length),
                _ => None,
            };
            // What follows may be another protocol.
            flags.upgrading = (head.wants_upgrade() || facts.is_connect).then_some(number);
        });
        let is_first = {
            let mut requests = self.requests.borrow_mut();
            requests.push_back(facts);
            requests.len() == 1
        };
        if is_first {
            self.hold.set(Some(ctx.hold()));
        }
        ctx.fire_read(head);
        if !has_body {
            ctx.fire_read(BodyEnd::default());
        }
    }

    /// Changes the facts of this request if it is the last one that has no complete answer.
    fn change_last(&self, number: Option<u64>, change: impl FnOnce(&mut AskedRequest)) -> bool {
        let mut requests = self.requests.borrow_mut();
        match requests.back_mut() {
            Some(facts) if Some(facts.number) == number => {
                change(facts);
                true
            }
            _ => false,
        }
    }

    /// Returns the request whose turn it is.
    pub(super) fn front(&self) -> Option<AskedRequest> {
        self.requests.borrow().front().copied()
    }

    /// Notes that the client is to be told to go on with the body that it holds back; tells it if it is its turn.
    pub(super) fn want_body(&self, ctx: &Ctx<'_>) {
        let receiving = self.flags().receiving;
        self.change_last(receiving, |facts| facts.may_continue = true);
        // While requests are decoded, the body may be at hand.
        if let Some(decoding) = self.decoding.take() {
            self.decoding.set(Some(decoding));
            self.tell_to_go_on(ctx);
        }
    }

    /// Takes the request for `100 Continue` that is to be written now: the client waits for it, and no answer is in the
    /// way.
    pub(super) fn take_go_on(&self) -> bool {
        let receiving = self.flags().receiving;
        let mut requests = self.requests.borrow_mut();
        match requests.front_mut() {
            Some(facts)
                if facts.awaits_continue
                    && facts.may_continue
                    && Some(facts.number) == receiving =>
            {
                facts.awaits_continue = false;
                true
            }
            _ => false,
        }
    }

    /// True if the rest of this request's body may never come, or is not worth reading, so that nothing can follow it.
    pub(super) fn must_close_after(&self, facts: &AskedRequest) -> bool {
        let flags = self.flags();
        flags.receiving == Some(facts.number)
            && (facts.awaits_continue || flags.body_left > Some(MAX_SKIPPED))
    }

    /// True if the answer to the only request in flight is the last one.
    pub(super) fn ends_after_answer(&self) -> bool {
        self.flags().is_draining && self.requests.borrow().len() == 1
    }

    /// Refuses the message that is being decoded: it is answered when all before it are.
    pub(super) fn refuse(self: &Rc<Self>, ctx: &Ctx<'_>, error: MessageError, is_head: bool) {
        let flags = self.flags();
        let receiving = flags.receiving;
        self.update(|flags| {
            flags.is_refused = true;
            flags.receiving = None;
        });
        let is_answered = match receiving {
            None => {
                let facts = AskedRequest::of_refused(flags.next_number, is_head, error);
                self.requests.borrow_mut().push_back(facts);
                false
            }
            Some(_) => !self.change_last(receiving, |facts| facts.refused = Some(error)),
        };
        ctx.fire_user_event(RequestRefused(error));
        if self.flags().phase != CodecPhase::Open {
            return;
        }
        if is_answered {
            self.begin_close(ctx);
        } else {
            self.answer_refused(ctx);
        }
    }

    /// Notes that the answer whose turn it was is complete; `is_upgrade` if another protocol follows.
    pub(super) fn end_answer(self: &Rc<Self>, ctx: &Ctx<'_>, is_upgrade: bool, closes: bool) {
        let Some(facts) = self.requests.borrow_mut().pop_front() else { return };
        if is_upgrade {
            self.update(|flags| flags.phase = CodecPhase::Upgraded);
            self.hold.take();
            self.set_pause(ctx, true);
            return;
        }
        if self.flags().upgrading == Some(facts.number) {
            self.update(|flags| flags.upgrading = None);
        }
        if closes {
            return self.begin_close(ctx);
        }
        self.answer_refused(ctx);
        self.tell_to_go_on(ctx);
        self.resume();
        self.settle(ctx);
    }

    /// Decodes what was kept, if there is room again.
    pub(super) fn resume(self: &Rc<Self>) {
        let Some(decoding) = self.decoding.take() else { return };
        let has_unread = decoding.has_unread;
        self.decoding.set(Some(decoding));
        let slot = self.decoder_slot.borrow().clone();
        if !has_unread || self.flags().phase != CodecPhase::Open {
            return;
        }
        let Some(slot) = slot else { return };
        let connection = self.clone();
        // A slot that is gone has passed on what was kept.
        let _ = slot.run(move |ctx| {
            if connection.decode(ctx, Bytes::new()) && !ctx.is_in_read_round() {
                ctx.fire_read_complete();
            }
        });
    }

    /// Adjusts the pause of reads and the guard against drains; closes a connection that is idle and is to end.
    pub(super) fn settle(self: &Rc<Self>, ctx: &Ctx<'_>) {
        if self.flags().phase != CodecPhase::Open {
            return;
        }
        // On the stack, requests are still decoded: that call settles.
        let Some(decoding) = self.decoding.take() else { return };
        let (is_in_body, is_between) = (decoding.decoder.is_in_body(), decoding.decoder.is_idle());
        let has_unread = decoding.has_unread;
        let is_head = decoding.decoder.is_head_method();
        self.decoding.set(Some(decoding));
        let flags = self.flags();
        let is_idle = self.requests.borrow().is_empty();
        if flags.is_input_over && !is_between && !flags.is_refused && (is_in_body || is_idle) {
            return self.refuse(ctx, Malformation::Truncated.into(), is_head);
        }
        let is_idle_drain = flags.is_draining && ctx.channel().pending_bytes() == 0;
        if is_idle && is_idle_drain {
            self.end();
            return ctx.close();
        }
        if is_idle && (flags.is_draining || (flags.is_input_over && !has_unread)) {
            return self.begin_close(ctx);
        }
        if is_idle {
            self.hold.take();
        }
        self.set_pause(ctx, !is_in_body && !self.may_begin(ctx));
    }

    fn set_pause(&self, ctx: &Ctx<'_>, pauses: bool) {
        match (pauses, self.pause.take()) {
            (true, None) if ctx.is_active() => self.pause.set(Some(ctx.pause_reads())),
            (true, pause) => self.pause.set(pause),
            (false, pause) => drop(pause),
        }
    }

    /// Begins no further requests; closes an idle connection.
    pub(super) fn on_drain(self: &Rc<Self>, ctx: &Ctx<'_>) {
        self.update(|flags| flags.is_draining = true);
        self.settle(ctx);
    }

    /// Notes that the client has finished sending: what is complete is answered.
    pub(super) fn on_input_over(self: &Rc<Self>, ctx: &Ctx<'_>) {
        self.update(|flags| flags.is_input_over = true);
        match self.flags().phase {
            CodecPhase::Open => self.settle(ctx),
            // The client has seen the end of the answers.
            CodecPhase::Closing => ctx.shutdown_output(),
            CodecPhase::Upgraded => {}
        }
    }

    pub(super) fn on_timer(&self, ctx: &Ctx<'_>, tag: u32) {
        if tag != LINGER_TIMER {
            return;
        }
        let since = self.lingers_since.replace(ctx.now());
        // A client that reads slowly, but reads, gets the rest.
        if ctx.channel().pending_bytes() > 0 && ctx.last_write() >= Some(since) {
            ctx.schedule(self.options.linger, LINGER_TIMER);
        } else {
            ctx.close();
        }
    }

    /// Ends the connection after the answers that are written: the output at once, the input when the client has
    /// finished or had its time, so that no RST overtakes the last answer.
    pub(super) fn begin_close(&self, ctx: &Ctx<'_>) {
        self.end();
        // Recorded from the first call on.
        let _ = ctx.last_write();
        ctx.flush();
        ctx.shutdown_output();
        self.lingers_since.set(ctx.now());
        ctx.schedule(self.options.linger, LINGER_TIMER);
    }

    /// Cuts the connection off in the middle of an answer: the client sees that it is not complete.
    pub(super) fn give_up(&self, ctx: &Ctx<'_>, error: Error) {
        self.end();
        ctx.flush();
        ctx.close_because(error);
    }

    /// Answers and decodes nothing more.
    pub(super) fn end(&self) {
        self.update(|flags| flags.phase = CodecPhase::Closing);
        self.requests.borrow_mut().clear();
        self.answer.set(None);
        drop((self.pause.take(), self.hold.take()));
    }

    /// Takes the bytes that were not decoded: the codec is removed.
    pub(super) fn take_unread(&self) -> Bytes {
        let unread = self.decoding.take().map(|mut decoding| decoding.unread.take());
        unread.filter(|_| self.flags().phase != CodecPhase::Closing).unwrap_or_default()
    }
}
