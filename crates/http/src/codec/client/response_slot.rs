//! The slot of the decoder.

use std::rc::Rc;

use bytes::Bytes;
use http::{Method, StatusCode};
use waterwheel_channel::{
    Ctx, Cumulation, Events, HalfClosed, Handler, HandlerResult, Msg, Signature, TypeTag,
};
use waterwheel_executor::Error;

use super::exchanges::{ClientExchanges, ClientPhase};
use crate::codec::error::HttpCodecError;
use crate::codec::messages::BodyEnd;
use crate::protocol::framing::BodyFraming;
use crate::protocol::limits::MessageLimits;
use crate::protocol::response_decoder::{ResponseDecoder, ResponseEvent, ResponseHead};

/// Decodes responses.
pub(super) struct ResponseDecodeSlot {
    exchanges: Rc<ClientExchanges>,
    decoder: ResponseDecoder,
    unread: Cumulation,
    step: ReceivingStep,
    /// True if no other response follows the one that is being decoded.
    is_last: bool,
    /// True if the current round of reads has brought bytes.
    round_had_bytes: bool,
    /// True if the current round of reads has yielded a message.
    round_had_message: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReceivingStep {
    /// Nothing of a response has come.
    Between,
    /// Bytes of a head have come, or an interim response.
    Head,
    Body,
}

impl ResponseDecodeSlot {
    pub(super) fn new(exchanges: Rc<ClientExchanges>, limits: MessageLimits) -> Self {
        Self {
            exchanges,
            decoder: ResponseDecoder::new(limits),
            unread: Cumulation::default(),
            step: ReceivingStep::Between,
            is_last: false,
            round_had_bytes: false,
            round_had_message: false,
        }
    }

    fn is_open(&self) -> bool {
        matches!(self.exchanges.phase(), ClientPhase::Open | ClientPhase::LastRequest)
    }

    /// Decodes new bytes behind those that were kept, and passes the parts on.
    fn decode(&mut self, ctx: &Ctx<'_>, bytes: Bytes) {
        let mut buf = self.unread.append(bytes);
        while self.is_open() && !ctx.is_removed() {
            if self.step == ReceivingStep::Between {
                if buf.is_empty() {
                    break;
                }
                let Some(method) = self.exchanges.front() else {
                    return self.fail(ctx, HttpCodecError::UnexpectedBytes { bytes: buf.len() });
                };
                self.decoder.expect(method);
                self.step = ReceivingStep::Head;
            }
            match self.decoder.decode(&mut buf) {
                Ok(Some(event)) => {
                    self.round_had_message = true;
                    self.pass_on(ctx, event);
                }
                Ok(None) => break,
                Err(error) => return self.fail(ctx, error),
            }
        }
        if ctx.is_removed() {
            fire_rest(ctx, buf);
        } else if self.exchanges.phase() != ClientPhase::Over {
            self.unread.keep(buf);
        }
    }

    fn pass_on(&mut self, ctx: &Ctx<'_>, event: ResponseEvent) {
        match event {
            ResponseEvent::Interim(head) => ctx.fire_read(head),
            ResponseEvent::Head(head) => self.begin_response(ctx, head),
            ResponseEvent::Data(bytes) => ctx.fire_read(bytes),
            ResponseEvent::End(trailers) => {
                ctx.fire_read(BodyEnd { trailers });
                self.end_response(ctx);
            }
        }
    }

    fn begin_response(&mut self, ctx: &Ctx<'_>, head: ResponseHead) {
        let method = self.exchanges.end();
        let is_upgrade = head.status == StatusCode::SWITCHING_PROTOCOLS
            || (method == Some(Method::CONNECT) && head.status.is_success());
        if is_upgrade {
            self.exchanges.set_phase(ClientPhase::Upgraded);
        }
        let is_answer_to_last =
            self.exchanges.phase() == ClientPhase::LastRequest && self.exchanges.count() == 0;
        self.is_last = !is_upgrade && (!head.keeps_alive || is_answer_to_last);
        let has_body = !matches!(head.framing, BodyFraming::None | BodyFraming::Length(0));
        self.step = if has_body { ReceivingStep::Body } else { ReceivingStep::Between };
        ctx.fire_read(head);
        if !has_body {
            ctx.fire_read(BodyEnd::default());
            self.end_response(ctx);
        }
    }

    fn end_response(&mut self, ctx: &Ctx<'_>) {
        self.step = ReceivingStep::Between;
        if self.is_last && self.is_open() {
            self.exchanges.set_phase(ClientPhase::Over);
            self.report_missing(ctx);
            ctx.close();
        }
    }

    /// Decodes what the end of the input completes.
    fn finish(&mut self, ctx: &Ctx<'_>) {
        if !self.is_open() {
            return;
        }
        if self.step != ReceivingStep::Between {
            match self.decoder.finish() {
                Ok(Some(event)) => self.pass_on(ctx, event),
                Ok(None) => {}
                Err(error) => return self.fail(ctx, error),
            }
        }
        if self.is_open() {
            self.exchanges.set_phase(ClientPhase::Over);
            self.report_missing(ctx);
            ctx.close();
        }
    }

    fn report_missing(&self, ctx: &Ctx<'_>) {
        let requests = self.exchanges.count();
        if requests > 0 {
            ctx.fire_error(Error::new(HttpCodecError::MissingResponses { requests }));
        }
    }

    /// Ends the connection: what follows cannot be told apart from the response.
    #[cold]
    fn fail(&mut self, ctx: &Ctx<'_>, error: impl std::error::Error + Send + Sync + 'static) {
        self.exchanges.set_phase(ClientPhase::Over);
        let error = Error::new(error);
        ctx.fire_error(error.clone());
        ctx.close_because(error);
    }
}

/// Passes bytes on to the handlers of the next protocol.
fn fire_rest(ctx: &Ctx<'_>, rest: Bytes) {
    if !rest.is_empty() {
        ctx.fire_read(rest);
        if !ctx.is_in_read_round() {
            ctx.fire_read_complete();
        }
    }
}

impl Handler for ResponseDecodeSlot {
    fn interest(&self) -> Events {
        Events::READ | Events::READ_COMPLETE | Events::USER_EVENT | Events::INACTIVE
    }

    fn signature(&self) -> Signature {
        const PARTS: &[TypeTag] =
            &[TypeTag::of::<ResponseHead>(), TypeTag::of::<Bytes>(), TypeTag::of::<BodyEnd>()];
        Signature::transparent().inbound(TypeTag::list::<Bytes>(), PARTS)
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let bytes = match msg.into_bytes() {
            Ok(bytes) => bytes,
            Err(other) => {
                ctx.fire_read(other);
                return Ok(());
            }
        };
        if ctx.is_removed() {
            fire_rest(ctx, self.unread.take());
            ctx.fire_read(bytes);
        } else if self.exchanges.phase() != ClientPhase::Over {
            self.round_had_bytes = true;
            self.decode(ctx, bytes);
        }
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let needs_more = std::mem::take(&mut self.round_had_bytes)
            & !std::mem::take(&mut self.round_had_message);
        // No other handler knows that a response is incomplete.
        if needs_more && !ctx.is_auto_read() {
            ctx.read();
        }
        ctx.fire_read_complete();
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.get() == Some(&HalfClosed::Input) {
            self.finish(ctx);
        }
        ctx.fire_user_event(event);
        Ok(())
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.finish(ctx);
        ctx.fire_inactive();
        Ok(())
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        if self.exchanges.phase() != ClientPhase::Over {
            fire_rest(ctx, self.unread.take());
        }
    }
}
