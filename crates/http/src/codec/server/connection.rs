//! The state that both slots of a server's codec share, and its way from bytes to requests.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use waterwheel_channel::{Ctx, Cumulation, Hold, LocalCtx, ReadPause};
use waterwheel_executor::Nanos;

use super::answers::AnswerInProgress;
use super::builder::ServerCodecOptions;
use super::connection_flags::{CodecPhase, ConnectionFlags};
use super::request_queue::RequestQueue;
use crate::codec::messages::BodyEnd;
use crate::protocol::request_decoder::{RequestDecoder, RequestEvent};
use crate::protocol::request_head::RequestHead;

/// The state of a connection. Nothing of it is borrowed while a handler is called.
pub(super) struct ServerConnection {
    pub(super) options: ServerCodecOptions,
    /// Absent while requests are decoded, and once the connection is over.
    pub(super) decoding: Cell<Option<Box<Decoding>>>,
    pub(super) requests: RefCell<RequestQueue>,
    /// The answer whose head is written.
    pub(super) answer: Cell<Option<AnswerInProgress>>,
    flags: Cell<ConnectionFlags>,
    /// The time of the last look at a connection that is ending.
    pub(super) lingers_since: Cell<Nanos>,
    /// The context of the decoder's slot.
    decoder_slot: RefCell<Option<LocalCtx>>,
    pub(super) pause: Cell<Option<ReadPause>>,
    /// Makes a drain of the loop wait.
    pub(super) hold: Cell<Option<Hold>>,
}

/// The decoder, with the bytes that it has not decoded.
pub(super) struct Decoding {
    decoder: RequestDecoder,
    unread: Cumulation,
    /// True if bytes are kept that the decoder has not looked at, because no request may begin.
    has_undecoded: bool,
}

/// How far the decoder is.
#[derive(Clone, Copy, Debug)]
pub(super) struct DecodingProgress {
    pub(super) is_in_body: bool,
    /// True if nothing of a request has come since the last one.
    pub(super) is_between: bool,
    /// True if the last request line is one of HEAD.
    pub(super) is_head_method: bool,
    /// True if bytes are kept that the decoder has not looked at.
    pub(super) has_undecoded: bool,
}

impl Decoding {
    pub(super) fn take_unread(&mut self) -> Bytes {
        self.unread.take()
    }
}

impl ServerConnection {
    pub(super) fn new(options: ServerCodecOptions) -> Self {
        let decoder = RequestDecoder::new(options.limits);
        let decoding = Decoding { decoder, unread: Cumulation::default(), has_undecoded: false };
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

    pub(super) fn update(&self, change: impl FnOnce(&mut ConnectionFlags)) {
        let mut flags = self.flags.get();
        change(&mut flags);
        self.flags.set(flags);
    }

    pub(super) fn set_decoder_slot(&self, ctx: &Ctx<'_>) {
        *self.decoder_slot.borrow_mut() = Some(ctx.to_local());
    }

    /// Returns how far the decoder is; `None` while it is on the stack, and once the connection is over.
    pub(super) fn progress(&self) -> Option<DecodingProgress> {
        let decoding = self.decoding.take()?;
        let decoder = &decoding.decoder;
        let progress = DecodingProgress {
            is_in_body: decoder.is_in_body(),
            is_between: decoder.is_idle(),
            is_head_method: decoder.is_head_method(),
            has_undecoded: decoding.has_undecoded,
        };
        self.decoding.set(Some(decoding));
        Some(progress)
    }

    /// True if the next request may be decoded.
    fn may_begin(&self, ctx: &Ctx<'_>) -> bool {
        let requests = self.requests.borrow();
        requests.may_begin()
            && requests.len() < self.options.max_pipelined
            && !self.flags().is_draining
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
        let mut buf = match bytes.is_empty() {
            // Without a copy, which bytes that wait for room would have for every answer.
            true => decoding.unread.take(),
            false => decoding.unread.append(bytes),
        };
        let (mut has_passed, mut needs_more, mut error) = (false, false, None);
        while !needs_more && error.is_none() && self.may_decode(ctx, &decoding.decoder) {
            match decoding.decoder.decode(&mut buf) {
                Ok(Some(event)) => {
                    has_passed = true;
                    self.pass_on(ctx, &decoding.decoder, event);
                }
                Ok(None) => needs_more = true,
                Err(refused) => error = Some(refused),
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
        decoding.has_undecoded = !needs_more && !buf.is_empty();
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
                self.requests.borrow_mut().end_body();
                ctx.fire_read(BodyEnd { trailers });
            }
        }
    }

    fn begin_request(&self, ctx: &Ctx<'_>, head: RequestHead, has_body: bool) {
        let is_first = {
            let mut requests = self.requests.borrow_mut();
            requests.begin(&head, has_body, self.options.continues_by_itself);
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

    fn continue_body(&self, ctx: &Ctx<'_>, bytes: Bytes) {
        let is_worth_reading = self.requests.borrow_mut().receive(bytes.len() as u64);
        if is_worth_reading {
            ctx.fire_read(bytes);
        } else {
            self.begin_close(ctx);
        }
    }

    /// Notes that the client is to be told to go on with the body that it holds back; tells it if it is its turn.
    pub(super) fn want_body(&self, ctx: &Ctx<'_>) {
        self.requests.borrow_mut().want_body();
        // While requests are decoded, the body may be at hand.
        if self.progress().is_some() {
            self.tell_to_go_on(ctx);
        }
    }

    /// True if the answer to the only request in flight is the last one.
    pub(super) fn ends_after_answer(&self) -> bool {
        self.flags().is_draining && self.requests.borrow().len() == 1
    }

    /// Notes that the answer whose turn it was is complete; `is_upgrade` if another protocol follows.
    pub(super) fn end_answer(self: &Rc<Self>, ctx: &Ctx<'_>, is_upgrade: bool, closes: bool) {
        if !self.requests.borrow_mut().end_answer() {
            return;
        }
        if is_upgrade {
            self.update(|flags| flags.phase = CodecPhase::Upgraded);
            self.hold.take();
            return self.set_pause(ctx, true);
        }
        if closes {
            return self.begin_close(ctx);
        }
        self.answer_refused(ctx);
        self.tell_to_go_on(ctx);
        self.resume(ctx);
        self.settle(ctx);
    }

    /// Decodes what was kept, if there is room again.
    pub(super) fn resume(self: &Rc<Self>, ctx: &Ctx<'_>) {
        let has_undecoded = self.progress().is_some_and(|progress| progress.has_undecoded);
        if !has_undecoded || self.flags().phase != CodecPhase::Open || !self.may_begin(ctx) {
            return;
        }
        let Some(slot) = self.decoder_slot.borrow().clone() else { return };
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
        let Some(progress) = self.progress() else { return };
        if self.end_if_over(ctx, progress) {
            return;
        }
        if self.requests.borrow().is_empty() {
            self.hold.take();
        }
        self.set_pause(ctx, !progress.is_in_body && !self.may_begin(ctx));
    }

    fn set_pause(&self, ctx: &Ctx<'_>, pauses: bool) {
        match (pauses, self.pause.take()) {
            (true, None) if ctx.is_active() => self.pause.set(Some(ctx.pause_reads())),
            (true, pause) => self.pause.set(pause),
            (false, pause) => drop(pause),
        }
    }
}
