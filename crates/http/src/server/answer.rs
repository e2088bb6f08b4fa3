//! A response as bytes: its head, and its body if that is at hand.

use http::{HeaderMap, StatusCode, header};
use waterwheel_channel::Ctx;
use waterwheel_executor::Error;

use super::body_writer::BodyWriter;
use super::exchange::RequestFacts;
use super::loop_state::LoopShared;
use crate::body::outgoing::{Body, BodyRepr, UpgradeInitialiser};
use crate::outbound::output::Output;
use crate::protocol::encoder::{ConnectionField, ResponseFields, encode_response};
use crate::protocol::fields::has_element;
use crate::protocol::framing::{BodyFraming, may_have_body};
use crate::service::into_response::IntoResponse;
use crate::service::service::Response;

/// What is left to do after the head of a response.
pub(super) enum AnswerRest {
    Nothing,
    /// The body follows as the channel has room.
    Body(BodyWriter),
    /// Another protocol follows.
    Upgrade(UpgradeInitialiser),
}

/// Writes the head of a response, and its body if that is at hand. Sets `facts.closes` if the connection ends with this
/// response.
pub(super) fn write_answer(
    shared: &LoopShared,
    facts: &mut RequestFacts,
    response: Response,
    out: &mut Output<'_>,
) -> AnswerRest {
    let response = with_valid_status(response, facts);
    let (mut parts, body) = response.into_parts();
    if !parts.extensions.is_empty()
        && let Some(error) = parts.extensions.remove::<Error>()
    {
        out.ctx().fire_error(error);
    }
    facts.status = parts.status;
    let content_type = body.content_type();
    let plan = plan_answer(parts.status, &parts.headers, &body, facts);
    let now = out.ctx().now();
    let mut fields = shared.fields.borrow_mut();
    let fields = ResponseFields { headers: &parts.headers, content_type, server: fields.at(now) };
    encode_response(parts.status, &fields, plan.framing, plan.connection, out.small_parts());
    if parts.headers.capacity() > 0 {
        shared.keep_headers(parts.headers);
    }
    match (body.into_repr(), plan.sends_body) {
        (BodyRepr::Upgrade(initialiser), _) => AnswerRest::Upgrade(initialiser),
        (BodyRepr::Empty, _) | (_, false) => AnswerRest::Nothing,
        (BodyRepr::Bytes(bytes), true) => {
            facts.body_bytes = bytes.len() as u64;
            out.write_bytes(bytes);
            AnswerRest::Nothing
        }
        (BodyRepr::File(region), true) if is_next_to_transport(out.ctx()) => {
            facts.body_bytes = region.len();
            if !region.is_empty() {
                out.write_part(region.len(), region);
            }
            AnswerRest::Nothing
        }
        (BodyRepr::File(region), true) => {
            AnswerRest::Body(BodyWriter::of_file(region, plan.framing))
        }
        (BodyRepr::Source(source), true) => {
            AnswerRest::Body(BodyWriter::new(source, plan.framing, is_next_to_transport(out.ctx())))
        }
    }
}

/// True if no handler stands between HTTP and the transport: then the kernel can send files.
fn is_next_to_transport(ctx: &Ctx<'_>) -> bool {
    ctx.pipeline().names().first() == Some(&ctx.name())
}

/// How a response is framed.
struct AnswerPlan {
    framing: BodyFraming,
    connection: ConnectionField,
    sends_body: bool,
}

fn plan_answer(
    status: StatusCode,
    headers: &HeaderMap,
    body: &Body,
    facts: &mut RequestFacts,
) -> AnswerPlan {
    if is_upgrade(status, facts) {
        let connection = match status {
            StatusCode::SWITCHING_PROTOCOLS => ConnectionField::Upgrade,
            _ => ConnectionField::Absent,
        };
        return AnswerPlan { framing: BodyFraming::None, connection, sends_body: false };
    }
    let length = body.exact_len();
    let sends_body = !facts.is_head && may_have_body(status);
    let framing = match length {
        _ if !may_have_body(status) => BodyFraming::None,
        // The length of a body that a HEAD request does not get may stand in the fields.
        Some(0) if facts.is_head && headers.contains_key(header::CONTENT_LENGTH) => {
            BodyFraming::None
        }
        Some(length) => BodyFraming::Length(length),
        None if facts.is_head => BodyFraming::None,
        None if facts.is_http10 => BodyFraming::UntilClose,
        None => BodyFraming::Chunked,
    };
    facts.closes |= framing == BodyFraming::UntilClose
        || (!headers.is_empty() && has_element(headers, &header::CONNECTION, "close"));
    let connection = match (facts.closes, facts.is_http10) {
        (true, _) => ConnectionField::Close,
        (false, true) => ConnectionField::KeepAlive,
        (false, false) => ConnectionField::Absent,
    };
    AnswerPlan { framing, connection, sends_body }
}

/// True if HTTP ends on this connection with the head of the response.
fn is_upgrade(status: StatusCode, facts: &RequestFacts) -> bool {
    status == StatusCode::SWITCHING_PROTOCOLS || (facts.is_connect && status.is_success())
}

/// The error of a service that answers with an interim status, or changes the protocol without the next one.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("a service answered with status {status} and {body}: the client gets status 500")]
struct InvalidAnswer {
    status: StatusCode,
    body: &'static str,
}

/// Returns the response, or one of status 500 if nothing could follow it: the connection would be in no known state.
fn with_valid_status(response: Response, facts: &RequestFacts) -> Response {
    let status = response.status();
    if !status.is_informational() && !facts.is_connect {
        return match response.body().is_upgrade() {
            false => response,
            true => invalid(status, "the pipeline of another protocol"),
        };
    }
    match (is_upgrade(status, facts), response.body().is_upgrade()) {
        (true, true) => response,
        (false, false) if !status.is_informational() => response,
        (_, true) => invalid(status, "the pipeline of another protocol"),
        (_, false) => invalid(status, "no pipeline of another protocol"),
    }
}

#[cold]
fn invalid(status: StatusCode, body: &'static str) -> Response {
    Error::new(InvalidAnswer { status, body }).into_response()
}
