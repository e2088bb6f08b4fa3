//! A response as bytes: its head, and its body if that is at hand.

use std::mem;

use http::{HeaderMap, StatusCode, header};
use waterwheel_channel::Ctx;
use waterwheel_executor::engine::{drop_in_turn, run_user_code};
use waterwheel_executor::{Error, UserCode};

use super::body_writer::BodyWriter;
use super::exchange::RequestFacts;
use super::loop_state::LoopShared;
use crate::body::outgoing::{BodyRepr, UpgradeInitialiser};
use crate::outbound::output::Output;
use crate::protocol::encoder::{ConnectionField, ResponseFields, encode_response};
use crate::protocol::fields::has_element;
use crate::protocol::framing::{BodyFraming, may_have_body};
use crate::service::into_response::IntoResponse;
use crate::service::service::Response;

/// The work that is left after the head of a response.
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
    mut response: Response,
    out: &mut Output<'_>,
) -> AnswerRest {
    if let Some(what) = misfit(&response, facts) {
        response = Error::new(InvalidAnswer { status: response.status(), what }).into_response();
    }
    let length = known_length(shared, facts, &mut response);
    if !response.extensions().is_empty()
        && let Some(error) = response.extensions_mut().remove::<Error>()
    {
        out.ctx().fire_error(error);
    }
    let body = mem::take(response.body_mut());
    facts.status = response.status();
    let plan = plan_answer(response.status(), response.headers(), length, facts);
    encode_head(shared, &response, body.content_type(), &plan, out);
    match (body.into_repr(), plan.sends_body) {
        (BodyRepr::Upgrade(initialiser), _) => AnswerRest::Upgrade(initialiser),
        (BodyRepr::Empty, _) => AnswerRest::Nothing,
        (BodyRepr::Source(source), false) => {
            drop_in_turn(source);
            AnswerRest::Nothing
        }
        (_, false) => AnswerRest::Nothing,
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

/// Encodes the head of a response, with the fields that the server adds.
#[inline]
fn encode_head(
    shared: &LoopShared,
    response: &Response,
    content_type: Option<&'static str>,
    plan: &AnswerPlan,
    out: &mut Output<'_>,
) {
    let now = out.ctx().now();
    // Nothing of the user's runs while the fields are borrowed.
    let mut standing = shared.fields.borrow_mut();
    let server = standing.at(now);
    let fields = ResponseFields { headers: response.headers(), content_type, server };
    encode_response(response.status(), &fields, plan.framing, plan.connection, out.small_parts());
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
    length: Option<u64>,
    facts: &mut RequestFacts,
) -> AnswerPlan {
    if is_upgrade(status, facts) {
        let connection = match status {
            StatusCode::SWITCHING_PROTOCOLS => ConnectionField::Upgrade,
            _ => ConnectionField::Absent,
        };
        return AnswerPlan { framing: BodyFraming::None, connection, sends_body: false };
    }
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
    let connection = ConnectionField::of_response(facts.closes, facts.is_http10, headers);
    AnswerPlan { framing, connection, sends_body }
}

/// True if HTTP ends on this connection with the head of the response.
fn is_upgrade(status: StatusCode, facts: &RequestFacts) -> bool {
    status == StatusCode::SWITCHING_PROTOCOLS || (facts.is_connect && status.is_success())
}

/// The error of a service that answers with an interim status, or changes the protocol without the next one.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("a service answered with status {status} and {what}: the client gets status 500")]
struct InvalidAnswer {
    status: StatusCode,
    what: &'static str,
}

/// Returns what is wrong with a response that cannot be sent: after it the connection would be in no known state.
#[inline]
fn misfit(response: &Response, facts: &RequestFacts) -> Option<&'static str> {
    let status = response.status();
    match (is_upgrade(status, facts), response.body().is_upgrade()) {
        (true, true) => None,
        (false, false) if !status.is_informational() => None,
        (_, true) => Some("the pipeline of another protocol"),
        (_, false) => Some("no pipeline of another protocol"),
    }
}

/// Returns the length of the body. If its source panics, the response becomes one of status 500, with which the connection
/// ends.
#[inline]
fn known_length(
    shared: &LoopShared,
    facts: &mut RequestFacts,
    response: &mut Response,
) -> Option<u64> {
    if !response.body().is_source() {
        return response.body().exact_len();
    }
    match run_user_code(UserCode::Future, shared.origin, || response.body().exact_len()) {
        Ok(length) => length,
        Err(_reported) => {
            facts.closes = true;
            drop_in_turn(mem::replace(response, StatusCode::INTERNAL_SERVER_ERROR.into_response()));
            response.body().exact_len()
        }
    }
}
