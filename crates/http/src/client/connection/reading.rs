//! The response as it is read, part by part.

use std::rc::Rc;

use bytes::Bytes;
use http::StatusCode;
use waterwheel_channel::Ctx;

use super::call::{CallFailure, ReceivedResponse};
use super::exchange::{ClientExchange, RequestProgress, ResponseProgress};
use super::link::ConnectionLink;
use crate::body::error::BodyError;
use crate::body::incoming::Incoming;
use crate::body::pipe::BodyPipe;
use crate::protocol::error::{Malformation, MessageError};
use crate::protocol::framing::BodyFraming;
use crate::protocol::response_decoder::{ResponseEvent, ResponseHead};

/// The number of interim responses (1xx) that may precede a response.
pub(in crate::client) const MAX_INTERIM: u32 = 16;

/// The largest rest of a response that is read and dropped so that its connection can be used again.
pub(in crate::client) const MAX_DROPPED_REST: u64 = 64 * 1024;

impl ConnectionLink {
    /// Decodes what was read.
    pub(super) fn on_bytes(self: &Rc<Self>, ctx: &Ctx<'_>, bytes: Bytes) {
        self.ticker.count_read();
        let mut state = self.state.borrow_mut();
        let Some(exchange) = &mut state.exchange else {
            // A response that nobody has asked for.
            drop(state);
            return ctx.close();
        };
        exchange.has_bytes = true;
        if exchange.response == ResponseProgress::Complete {
            // Bytes behind a response answer no request. They end the one that is still sent, because nothing would read
            // them before its end.
            exchange.keeps_alive = false;
            drop(state);
            return self.settle(ctx);
        }
        let mut bytes = state.unread.append(bytes);
        loop {
            if state.exchange.as_ref().is_none_or(|it| it.response == ResponseProgress::Upgraded) {
                break;
            }
            let decoded = state.decoder.decode(&mut bytes);
            drop(state);
            match decoded {
                Ok(Some(event)) => self.on_event(ctx, event, !bytes.is_empty()),
                Ok(None) => {
                    state = self.state.borrow_mut();
                    break;
                }
                Err(error) => return self.fail_malformed(ctx, error),
            }
            state = self.state.borrow_mut();
        }
        if state.exchange.is_some() {
            state.unread.keep(bytes);
        }
    }

    fn on_event(self: &Rc<Self>, ctx: &Ctx<'_>, event: ResponseEvent, has_rest: bool) {
        match event {
            ResponseEvent::Interim(head) => self.on_interim(ctx, head.status),
            ResponseEvent::Head(head) => self.on_head(ctx, head, has_rest),
            ResponseEvent::Data(data) => {
                let pipe = self.state.borrow().exchange.as_ref().and_then(|it| it.pipe.clone());
                if pipe.is_some_and(|pipe| !pipe.push(ctx, data)) {
                    self.on_body_dropped(ctx);
                }
            }
            ResponseEvent::End(trailers) => {
                let mut state = self.state.borrow_mut();
                let Some(exchange) = &mut state.exchange else { return };
                exchange.response = ResponseProgress::Complete;
                exchange.keeps_alive &= !has_rest;
                let pipe = exchange.pipe.clone();
                drop(state);
                if let Some(pipe) = pipe {
                    pipe.finish(trailers);
                    // What waits is bounded; the connection is used again before it is read.
                    pipe.end_pause();
                }
                self.settle(ctx);
            }
        }
    }

    fn on_interim(self: &Rc<Self>, ctx: &Ctx<'_>, status: StatusCode) {
        let mut state = self.state.borrow_mut();
        let Some(exchange) = &mut state.exchange else { return };
        exchange.interim_responses += 1;
        if exchange.interim_responses > MAX_INTERIM {
            drop(state);
            return self.fail(ctx, CallFailure::TooManyInterim, BodyError::Aborted);
        }
        drop(state);
        if status == StatusCode::CONTINUE {
            self.send_awaited_body(ctx);
        }
    }

    /// Begins with a body that waits for `100 Continue`.
    pub(super) fn send_awaited_body(self: &Rc<Self>, ctx: &Ctx<'_>) {
        let mut state = self.state.borrow_mut();
        let Some(exchange) = &mut state.exchange else { return };
        if let Some(sender) = &mut exchange.sender {
            sender.awaits_continue = false;
        }
        if let Some(timer) = exchange.timers.proceed.take() {
            ctx.cancel(timer);
        }
        drop(state);
        self.drive(ctx);
        ctx.flush();
    }

    fn on_head(self: &Rc<Self>, ctx: &Ctx<'_>, head: ResponseHead, has_rest: bool) {
        let channel = self.channel();
        let mut state = self.state.borrow_mut();
        let Some(exchange) = &mut state.exchange else { return };
        let is_upgraded = match head.status {
            StatusCode::SWITCHING_PROTOCOLS if exchange.wants_upgrade => true,
            StatusCode::SWITCHING_PROTOCOLS => {
                drop(state);
                return self.fail_malformed(ctx, Malformation::StatusLine.into());
            }
            status => exchange.is_connect && status.is_success(),
        };
        let timers = [exchange.timers.head.take(), exchange.timers.proceed.take()];
        for timer in timers.into_iter().flatten() {
            ctx.cancel(timer);
        }
        let unsent = stop_sending(exchange, head.status, is_upgraded);
        exchange.keeps_alive &= head.keeps_alive;
        let has_body = !matches!(head.framing, BodyFraming::None | BodyFraming::Length(0));
        exchange.response = match (is_upgraded, has_body) {
            (true, _) => ResponseProgress::Upgraded,
            (false, true) => ResponseProgress::Body,
            (false, false) => ResponseProgress::Complete,
        };
        if exchange.response == ResponseProgress::Complete {
            exchange.keeps_alive &= !has_rest;
        } else {
            exchange.pipe = Some(self.new_pipe(head.framing, is_upgraded));
            exchange.timers.whole = self.schedule_whole(ctx, exchange.limits.whole);
        }
        if is_upgraded {
            exchange.pause = Some(ctx.pause_reads());
        }
        let (pipe, outcome) = (exchange.pipe.clone(), exchange.outcome.clone());
        drop(state);
        drop(unsent);
        let body = Incoming::new(pipe, channel);
        outcome.complete(Ok(ReceivedResponse { head, body, is_upgraded }));
        self.settle(ctx);
    }

    /// Returns the pipe of a body. That of an upgrade has no bytes: it tells when the response is dropped.
    fn new_pipe(&self, framing: BodyFraming, is_upgraded: bool) -> Rc<BodyPipe> {
        let length = match framing {
            BodyFraming::Length(length) => Some(length),
            _ => None,
        };
        let pipe = BodyPipe::new(length, false);
        pipe.wake_on_abandon(&self.driver_waker());
        if is_upgraded {
            pipe.finish(None);
        }
        Rc::new(pipe)
    }

    /// Goes on without a reader of the body: reads a short rest, and closes the connection otherwise.
    pub(super) fn on_body_dropped(&self, ctx: &Ctx<'_>) {
        let mut state = self.state.borrow_mut();
        let Some(exchange) = &mut state.exchange else { return };
        let Some(pipe) = &exchange.pipe else { return };
        let is_short = pipe.remaining().is_some_and(|rest| rest <= MAX_DROPPED_REST);
        match exchange.response {
            ResponseProgress::Complete => {}
            ResponseProgress::Body if is_short && exchange.keeps_alive => {
                if exchange.timers.drain.is_none() {
                    exchange.timers.drain = Some(self.schedule_drain(ctx));
                }
            }
            _ => {
                drop(state);
                self.discard(ctx);
            }
        }
    }

    fn fail_malformed(&self, ctx: &Ctx<'_>, error: MessageError) {
        self.fail(ctx, CallFailure::Malformed(error), BodyError::Refused(error));
    }
}

/// Stops a request whose response has come before its end. A successful one may belong to a server that answers while it
/// reads; with every other the rest is not wanted. Returns what is to be dropped outside of the borrow.
fn stop_sending(
    exchange: &mut ClientExchange,
    status: StatusCode,
    is_upgraded: bool,
) -> Option<super::request_sender::RequestSender> {
    let is_waiting = exchange.sender.as_ref().is_some_and(|sender| sender.awaits_continue);
    let goes_on = status.is_success() && !is_upgraded && !is_waiting;
    if exchange.request != RequestProgress::Sending || goes_on {
        return None;
    }
    exchange.request = RequestProgress::GivenUp;
    exchange.sender.take()
}
