//! The values that commands and bodies of HTTP have in common: topics, positions, publications.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;
use waterwheel::websocket::ByteString;

use super::fields::{Fields, invalid, shown};
use crate::engine::position::Position;
use crate::engine::publication::PublicationPayload;
use crate::error_code::{ErrorCode, GatewayError};
use crate::session::command::PublishItem;
use crate::session::limits::GatewayLimits;
use crate::topic::filter::TopicFilter;
use crate::topic::name::{InvalidTopic, Topic};

/// How deep published JSON may be nested: readers with a stack fail beyond 128, serde_json among them, and the message around
/// it has a few levels of its own.
const MAX_DEPTH: usize = 100;

/// Reads a topic.
pub(in crate::protocols) fn topic(
    text: &str,
    limits: &GatewayLimits,
) -> Result<Topic, GatewayError> {
    Topic::parse(text, &limits.topic).map_err(|error| invalid_topic(&error))
}

/// Reads a filter.
pub(in crate::protocols) fn filter(
    text: &str,
    limits: &GatewayLimits,
) -> Result<TopicFilter, GatewayError> {
    TopicFilter::parse(text, &limits.topic).map_err(|error| invalid_topic(&error))
}

/// Reads a position.
pub(in crate::protocols) fn position(text: &str) -> Result<Position, GatewayError> {
    text.parse().map_err(|error| invalid(format!("`since` is {}; {error}", shown(text))))
}

/// Reads an object `{"topic":…,"data":…}`, with `text` or `base64` instead of `data`.
pub(in crate::protocols) fn publication(
    object: &'static str,
    value: &RawValue,
    limits: &GatewayLimits,
) -> Result<PublishItem, GatewayError> {
    let fields = Fields::read(object, value, &["topic", "data", "text", "base64"])?;
    let topic = topic(&fields.required_text("topic")?, limits)?;
    let contents = (fields.raw("data"), fields.text("text")?, fields.text("base64")?);
    let payload = match contents {
        (Some(data), None, None) => json(data)?,
        (None, Some(text), None) => PublicationPayload::Text(text.into()),
        (None, None, Some(base64)) => match STANDARD.decode(base64) {
            Ok(bytes) => PublicationPayload::Bytes(bytes.into()),
            Err(_) => return Err(invalid("`base64` must be base64 with padding")),
        },
        _ => return Err(invalid("a publication has one of `data`, `text` and `base64`")),
    };
    Ok(PublishItem { topic, payload })
}

/// Returns the payload of a JSON value.
pub(in crate::protocols) fn json(value: &RawValue) -> Result<PublicationPayload, GatewayError> {
    let text = value.get();
    if is_too_deep(text) {
        return Err(invalid(format!("`data` is nested more than {MAX_DEPTH} deep")));
    }
    // Line ends stand between values only: in strings they are escaped.
    let text = match text.contains(['\r', '\n']) {
        true => text.replace(['\r', '\n'], ""),
        false => text.to_owned(),
    };
    Ok(PublicationPayload::Json(ByteString::from(text)))
}

/// True if valid JSON is nested too deep.
fn is_too_deep(json: &str) -> bool {
    let (mut depth, mut is_in_string, mut is_escaped) = (0_usize, false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => is_in_string = !is_in_string,
            _ if is_in_string => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth -= 1,
            _ => {}
        }
        if depth > MAX_DEPTH {
            return true;
        }
    }
    false
}

fn invalid_topic(error: &InvalidTopic) -> GatewayError {
    let code = match error {
        InvalidTopic::TooLong { .. }
        | InvalidTopic::TooManySegments { .. }
        | InvalidTopic::TooManyWildcards { .. } => ErrorCode::TopicTooLong,
        _ => ErrorCode::InvalidTopic,
    };
    GatewayError::new(code, error.to_string())
}
