//! The commands in a message.

use serde_json::value::RawValue;

use super::fields::{Fields, Members, invalid, shown};
use super::items;
use crate::error_code::{ErrorCode, GatewayError};
use crate::session::command::GatewayCommand;
use crate::session::connection::CommandId;
use crate::session::limits::GatewayLimits;

/// The largest id: the largest integer that every reader of JSON can hold.
const MAX_ID: u64 = 1 << 53;

/// The names of the commands, for errors.
const COMMANDS: &str = "connect, subscribe, unsubscribe, publish, history, presence, ping";

/// A command of a message, or what is wrong with it.
#[derive(Debug, PartialEq)]
pub(in crate::protocols) struct ReceivedCommand {
    pub(in crate::protocols) id: Option<CommandId>,
    pub(in crate::protocols) command: Result<GatewayCommand, GatewayError>,
}

/// Reads a message: a command, or an array of commands.
///
/// # Errors
/// `malformed`, `batch_too_large`: nothing of the message is a command.
pub(in crate::protocols) fn read_message(
    text: &str,
    limits: &GatewayLimits,
) -> Result<Vec<ReceivedCommand>, GatewayError> {
    let message: &RawValue = serde_json::from_str(text).map_err(|error| not_json(&error))?;
    match message.get().as_bytes().first() {
        Some(b'{') => Ok(vec![read_command(message, limits)]),
        Some(b'[') => {
            let commands = elements(message, limits, "commands")?;
            if commands.is_empty() {
                return Err(malformed("an array of commands is not empty"));
            }
            Ok(commands.into_iter().map(|command| read_command(command, limits)).collect())
        }
        _ => Err(malformed("a message is an object, or an array of objects")),
    }
}

/// Returns the elements of an array, not more than a batch may have.
pub(in crate::protocols) fn elements<'a>(
    array: &'a RawValue,
    limits: &GatewayLimits,
    what: &str,
) -> Result<Vec<&'a RawValue>, GatewayError> {
    let elements: Vec<&RawValue> =
        serde_json::from_str(array.get()).map_err(|error| not_json(&error))?;
    let (count, limit) = (elements.len(), limits.batch);
    match count <= limit {
        true => Ok(elements),
        false => Err(GatewayError::new(
            ErrorCode::BatchTooLarge,
            format!("a batch has at most {limit} {what}; this one has {count}"),
        )),
    }
}

/// Returns the error of a text that is not JSON.
pub(in crate::protocols) fn not_json(error: &serde_json::Error) -> GatewayError {
    malformed(format!("not JSON: line {}, column {}", error.line(), error.column()))
}

fn malformed(message: impl Into<String>) -> GatewayError {
    GatewayError::new(ErrorCode::Malformed, message.into())
}

fn read_command(object: &RawValue, limits: &GatewayLimits) -> ReceivedCommand {
    let members = match serde_json::from_str::<Members<'_>>(object.get()) {
        Ok(Members(members)) => members,
        Err(_) => {
            let command = Err(malformed("a command is an object with few members"));
            return ReceivedCommand { id: None, command };
        }
    };
    let (ids, commands): (Vec<_>, Vec<_>) = members.into_iter().partition(|(name, _)| name == "id");
    let id = match ids.as_slice() {
        [] => Ok(None),
        [(_, value)] => read_id(value).map(Some),
        _ => Err(invalid("`id` is there twice")),
    };
    match (id, commands.as_slice()) {
        (Err(error), _) => ReceivedCommand { id: None, command: Err(error) },
        (Ok(id), [(name, body)]) => ReceivedCommand { id, command: read_body(name, body, limits) },
        (Ok(id), []) => {
            let message = format!("a command has one of the members {COMMANDS}");
            ReceivedCommand { id, command: Err(malformed(message)) }
        }
        (Ok(id), [(first, _), (second, _), ..]) => {
            let (first, second) = (shown(first), shown(second));
            let message = format!("a command has one member beside `id`, not {first} and {second}");
            ReceivedCommand { id, command: Err(malformed(message)) }
        }
    }
}

fn read_id(value: &RawValue) -> Result<CommandId, GatewayError> {
    match serde_json::from_str::<u64>(value.get()) {
        Ok(id) if id <= MAX_ID => Ok(id),
        _ => Err(invalid(format!("`id` must be an integer from 0 to {MAX_ID}"))),
    }
}

fn read_body(
    name: &str,
    body: &RawValue,
    limits: &GatewayLimits,
) -> Result<GatewayCommand, GatewayError> {
    Ok(match name {
        "connect" => {
            let fields = Fields::read("connect", body, &["token", "name"])?;
            GatewayCommand::Connect { token: fields.text("token")?, name: fields.text("name")? }
        }
        "subscribe" => {
            let fields = Fields::read("subscribe", body, &["topic", "since", "presence"])?;
            let since = fields.text("since")?;
            GatewayCommand::Subscribe {
                filter: items::filter(&fields.required_text("topic")?, limits)?,
                since: since.map(|since| items::position(&since)).transpose()?,
                presence: fields.flag("presence")?,
            }
        }
        "unsubscribe" => {
            let fields = Fields::read("unsubscribe", body, &["topic"])?;
            let filter = items::filter(&fields.required_text("topic")?, limits)?;
            GatewayCommand::Unsubscribe { filter }
        }
        "publish" if body.get().starts_with('[') => {
            let entries = elements(body, limits, "publications")?;
            let read = |entry: &RawValue| items::publication("publish", entry, limits);
            GatewayCommand::PublishBatch(entries.into_iter().map(read).collect())
        }
        "publish" => GatewayCommand::Publish(items::publication("publish", body, limits)?),
        "history" => {
            let fields = Fields::read("history", body, &["topic", "since", "limit"])?;
            let since = fields.text("since")?;
            GatewayCommand::History {
                filter: items::filter(&fields.required_text("topic")?, limits)?,
                since: since.map(|since| items::position(&since)).transpose()?,
                limit: fields.count("limit")?,
            }
        }
        "presence" => {
            let fields = Fields::read("presence", body, &["topic"])?;
            GatewayCommand::Presence {
                topic: items::topic(&fields.required_text("topic")?, limits)?,
            }
        }
        "ping" => {
            Fields::read("ping", body, &[])?;
            GatewayCommand::Ping
        }
        name => {
            let message =
                format!("there is no command {}; the commands are {COMMANDS}", shown(name));
            return Err(GatewayError::new(ErrorCode::UnknownCommand, message));
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::engine::publication::PublicationPayload;

    /// Texts of the characters that JSON is made of, and some names of commands and fields.
    fn texts() -> impl Strategy<Value = String> {
        let parts = prop_oneof![
            "[\\[\\]{}:,\"\\\\ 0-9.eE+-]{0,6}",
            prop_oneof![
                "\"id\":1,",
                "\"publish\":",
                "\"topic\":\"a\"",
                "\"data\":",
                "null",
                "\\\\u0"
            ],
            ".{0,4}",
        ];
        prop::collection::vec(parts, 0..20).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn r04_no_text_of_a_client_panics_and_what_is_published_is_json(text in texts()) {
            let limits = GatewayLimits::default();
            let Ok(commands) = read_message(&text, &limits) else { return Ok(()) };
            for command in commands {
                if let Ok(GatewayCommand::Publish(item)) = command.command
                    && let PublicationPayload::Json(json) = item.payload
                {
                    prop_assert!(serde_json::from_str::<&RawValue>(&json).is_ok());
                    prop_assert!(!json.contains(['\r', '\n']));
                }
            }
        }
    }
}
