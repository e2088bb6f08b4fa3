//! Answers: an answer part by part, and those of the codec itself.

use std::rc::Rc;

use http::{HeaderMap, StatusCode};
use waterwheel_channel::{Completion, Ctx, HandlerResult};
use waterwheel_executor::Error;

use super::answer_plan::{AskedRequest, PlannedAnswer};
use super::connection::ServerConnection;
use super::connection_flags::CodecPhase;
use crate::codec::error::HttpCodecError;
use crate::codec::framed_body::FramedBody;
use crate::codec::messages::{FullResponse, full_framing};
use crate::codec::part_writer::{complete_after_parts, with_server_fields, write_parts};
use crate::outbound::output::Output;
use crate::protocol::encoder::{
    ConnectionField, ResponseFields, encode_response, encode_response_head, put_continue,
};
use crate::protocol::framing::BodyFraming;
use crate::protocol::response_decoder::ResponseHead;

/// An answer whose head is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerInProgress {
    body: FramedBody,
    is_upgrade: bool,
    closes: bool,
}

/// The type of the text of a refusal.
const REFUSAL_TYPE: &str = "text/plain; charset=utf-8";

impl ServerConnection {
    /// Writes the head of an answer, or an interim answer.
    pub(super) fn write_head(self: &Rc<Self>, ctx: &Ctx<'_>, head: &ResponseHead) -> HandlerResult {
        if head.is_interim() {
            return self.write_interim(ctx, head);
        }
        let answer = self.begin_answer(ctx, head, |_, _| Ok(()))?;
        self.answer.set(Some(answer));
        Ok(())
    }

    fn write_interim(&self, ctx: &Ctx<'_>, head: &ResponseHead) -> HandlerResult {
        if head.status == StatusCode::CONTINUE {
            self.want_body(ctx);
        } else if !self.check_turn(ctx, head)?.is_http10 {
            write_parts(ctx, |out| put_interim(head, out));
        }
        Ok(())
    }

    /// Returns the request that this head answers.
    fn check_turn(&self, ctx: &Ctx<'_>, head: &ResponseHead) -> Result<AskedRequest, Error> {
        let front = self.requests.borrow().front();
        match front {
            _ if self.flags().phase != CodecPhase::Open => {
                HttpCodecError::ConnectionEnding.refuse()
            }
            None => HttpCodecError::NoRequest { status: head.status }.refuse(),
            Some(_) if self.answer.get().is_some() => {
                self.fail(ctx, HttpCodecError::UnfinishedMessage)
            }
            Some(facts) => Ok(facts),
        }
    }

    /// Writes the head of an answer, and what `rest` puts behind it.
    fn begin_answer(
        &self,
        ctx: &Ctx<'_>,
        head: &ResponseHead,
        rest: impl FnOnce(&mut FramedBody, &mut Output<'_>) -> Result<(), HttpCodecError>,
    ) -> Result<AnswerInProgress, Error> {
        let facts = self.check_turn(ctx, head)?;
        let must_close =
            self.ends_after_answer() || self.requests.borrow().must_close_after(&facts);
        let plan = PlannedAnswer::of(head, &facts, must_close);
        if plan.is_upgrade && !self.requests.borrow().may_upgrade(&facts) {
            return HttpCodecError::UnexpectedUpgrade { status: head.status }.refuse();
        }
        let mut body = FramedBody::new(plan.framing, plan.sends_body);
        let result = write_parts(ctx, |out| {
            put_head(head, &plan, None, out);
            rest(&mut body, out)
        });
        match result {
            Ok(()) => {
                Ok(AnswerInProgress { body, is_upgrade: plan.is_upgrade, closes: plan.closes })
            }
            Err(error) => self.fail(ctx, error),
        }
    }

    /// Writes a part of the body of an answer.
    pub(super) fn write_part(
        &self,
        ctx: &Ctx<'_>,
        write: impl FnOnce(&mut FramedBody, &mut Output<'_>) -> Result<(), HttpCodecError>,
    ) -> HandlerResult {
        let Some(mut answer) = self.answer.get() else { return self.refuse_part() };
        let result = write_parts(ctx, |out| write(&mut answer.body, out));
        match result {
            Ok(()) => {
                self.answer.set(Some(answer));
                Ok(())
            }
            Err(error) => self.fail(ctx, error),
        }
    }

    /// Ends an answer.
    pub(super) fn write_end(
        self: &Rc<Self>,
        ctx: &Ctx<'_>,
        trailers: Option<&HeaderMap>,
        done: &mut Completion,
    ) -> HandlerResult {
        let Some(answer) = self.answer.get() else { return self.refuse_part() };
        if let Err(error) = write_parts(ctx, |out| answer.body.finish(trailers, out)) {
            return self.fail(ctx, error);
        }
        self.answer.set(None);
        // Nothing can be written behind the last answer.
        complete_after_parts(ctx, done);
        self.end_answer(ctx, answer.is_upgrade, answer.closes);
        Ok(())
    }

    /// Writes a whole answer.
    pub(super) fn write_full(
        self: &Rc<Self>,
        ctx: &Ctx<'_>,
        full: FullResponse,
        done: &mut Completion,
    ) -> HandlerResult {
        let FullResponse { response, trailers } = full;
        let (parts, body) = response.into_parts();
        let framing = full_framing(&body, trailers.as_deref());
        let head = ResponseHead::of_full(parts, framing);
        if head.is_interim() {
            return self.write_interim(ctx, &head);
        }
        let answer = self.begin_answer(ctx, &head, |answer, out| {
            answer.write_bytes(body, out)?;
            answer.finish(trailers.as_deref(), out)
        })?;
        complete_after_parts(ctx, done);
        self.end_answer(ctx, answer.is_upgrade, answer.closes);
        Ok(())
    }

    /// Answers the request whose turn it is, if it is refused, and ends the connection.
    pub(super) fn answer_refused(&self, ctx: &Ctx<'_>) {
        let Some(facts) = self.requests.borrow().front() else { return };
        let Some(error) = facts.refused else { return };
        if self.answer.get().is_some() {
            return self.give_up(ctx, Error::new(error));
        }
        let text = format!("{error}\n");
        let head = ResponseHead::new(error.status(), BodyFraming::Length(text.len() as u64));
        let plan = PlannedAnswer::of(&head, &facts, true);
        write_parts(ctx, |out| {
            put_head(&head, &plan, Some(REFUSAL_TYPE), out);
            if plan.sends_body {
                out.small_parts().extend_from_slice(text.as_bytes());
            }
        });
        self.begin_close(ctx);
    }

    /// Writes `100 Continue` if it is time.
    pub(super) fn tell_to_go_on(&self, ctx: &Ctx<'_>) {
        if self.answer.get().is_none() && self.requests.borrow_mut().take_go_on() {
            write_parts(ctx, |out| put_continue(out.small_parts()));
            ctx.flush();
        }
    }

    fn refuse_part(&self) -> HandlerResult {
        match self.flags().phase {
            CodecPhase::Closing => HttpCodecError::ConnectionEnding.refuse(),
            _ => HttpCodecError::NoHead.refuse(),
        }
    }

    /// Cuts the connection off: what is written cannot be taken back, nor completed.
    #[cold]
    fn fail<T>(&self, ctx: &Ctx<'_>, error: HttpCodecError) -> Result<T, Error> {
        self.give_up(ctx, Error::new(error));
        error.refuse()
    }
}

fn put_interim(head: &ResponseHead, out: &mut Output<'_>) {
    let (framing, connection) = (BodyFraming::None, ConnectionField::Absent);
    encode_response_head(head.status, &head.headers, framing, connection, out.small_parts());
}

fn put_head(
    head: &ResponseHead,
    plan: &PlannedAnswer,
    content_type: Option<&'static str>,
    out: &mut Output<'_>,
) {
    let ctx = out.ctx();
    with_server_fields(ctx, |server| {
        let fields = ResponseFields { headers: &head.headers, content_type, server };
        let dst = out.small_parts();
        encode_response(head.status, &fields, plan.framing, plan.connection, dst);
    });
}
