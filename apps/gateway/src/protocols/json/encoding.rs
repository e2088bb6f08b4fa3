//! Answers, pushes and bodies as JSON.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::engine::position::Position;
use crate::engine::publication::{Publication, PublicationPayload};
use crate::engine::{HistoryPage, PresencePage, PresentClient};
use crate::error_code::GatewayError;
use crate::session::connection::CommandId;
use crate::session::reply::{GatewayReply, Push, TopicReport};

/// Returns the message with the answer to a command; `None` if a command without id has succeeded. `ping` is the time
/// between pings that clients are told.
pub(in crate::protocols) fn answer(
    id: Option<CommandId>,
    answer: Result<&GatewayReply, &GatewayError>,
    ping: Duration,
) -> Option<String> {
    let mut out = JsonObject::new();
    match (id, &answer) {
        (Some(id), _) => out.number("id", id),
        (None, Err(_)) => {}
        (None, Ok(_)) => return None,
    }
    match answer {
        Ok(reply) => out.raw("ok", &reply_body(reply, ping)),
        Err(error) => out.raw("error", &error_value(error)),
    }
    Some(out.end())
}

/// Returns the value of `ok` in an answer, which is the body of an answer of HTTP too.
pub(in crate::protocols) fn reply_body(reply: &GatewayReply, ping: Duration) -> String {
    let mut out = JsonObject::new();
    match reply {
        GatewayReply::Done => {}
        GatewayReply::Connected { client, user } => {
            out.text("client", client);
            out.optional_text("user", user.as_ref());
            out.text("version", env!("CARGO_PKG_VERSION"));
            out.number("ping", ping.as_secs().max(1));
        }
        GatewayReply::Subscribed { position, recovered, gap } => {
            out.position("position", *position);
            out.number("recovered", *recovered);
            out.flag("gap", *gap);
        }
        GatewayReply::Published { position, .. } => out.position("position", *position),
        GatewayReply::PublishedBatch(results) => {
            out.array("results", results, |result| match result {
                Ok(position) => {
                    let mut out = JsonObject::new();
                    out.position("position", *position);
                    out.end()
                }
                Err(error) => error_body(error),
            });
        }
        GatewayReply::History(page) => put_history(&mut out, page),
        GatewayReply::Presence(page) => put_presence(&mut out, page),
    }
    out.end()
}

/// Returns an object with an error.
pub(in crate::protocols) fn error_body(error: &GatewayError) -> String {
    let mut out = JsonObject::new();
    out.raw("error", &error_value(error));
    out.end()
}

/// Returns the data of the first event of a stream.
pub(in crate::protocols) fn open_event(client: &str, position: Position, gap: bool) -> String {
    let mut out = JsonObject::new();
    out.text("client", client);
    out.position("position", position);
    out.flag("gap", gap);
    out.end()
}

/// Returns the body with the topics of the gateway.
pub(in crate::protocols) fn topics_body(report: &TopicReport) -> String {
    let mut out = JsonObject::new();
    out.array("topics", &report.topics, |(facts, subscribers)| {
        let mut out = JsonObject::new();
        out.text("topic", facts.topic.as_str());
        out.number("subscribers", subscribers);
        out.number("published", facts.published);
        out.number("history", facts.history);
        out.number("rate", (facts.rate * 1_000.0).round() / 1_000.0);
        out.end()
    });
    out.flag("more", report.has_more);
    out.end()
}

/// Returns the push of a publication.
pub(in crate::protocols) fn message(publication: &Publication) -> String {
    let mut out = JsonObject::with_capacity(128 + publication.payload.len());
    out.text("push", "message");
    put_publication(&mut out, publication);
    out.end()
}

/// Returns a push.
pub(in crate::protocols) fn push(push: &Push) -> String {
    let mut out = JsonObject::new();
    match push {
        Push::Publication(delivery) => return message(delivery.publication()),
        Push::Missed { count, position } => {
            out.text("push", "missed");
            out.number("count", count);
            if let Some(position) = position {
                out.position("position", *position);
            }
        }
        Push::Presence { topic, member, is_present } => {
            out.text("push", if *is_present { "join" } else { "leave" });
            out.text("topic", topic.as_str());
            put_member(&mut out, member);
        }
        Push::Direct { from, text } => {
            out.text("push", "direct");
            out.text("from", from);
            out.text("text", text);
        }
        Push::Unsubscribed { filter, error } => {
            out.text("push", "unsubscribed");
            out.text("topic", filter.as_str());
            out.raw("error", &error_value(error));
        }
        Push::Closing { error, may_reconnect } => {
            out.text("push", "closing");
            out.text("reason", &error.message);
            out.flag("reconnect", *may_reconnect);
        }
    }
    out.end()
}

fn put_history(out: &mut JsonObject, page: &HistoryPage) {
    out.array("publications", &page.publications, |publication| {
        let mut out = JsonObject::with_capacity(128 + publication.payload.len());
        put_publication(&mut out, publication);
        out.end()
    });
    out.position("position", page.position);
    out.flag("gap", page.has_gap);
    out.flag("more", page.has_more);
}

fn put_presence(out: &mut JsonObject, page: &PresencePage) {
    out.array("clients", &page.clients, |member| {
        let mut out = JsonObject::new();
        put_member(&mut out, member);
        out.end()
    });
    out.number("count", page.count);
}

fn put_member(out: &mut JsonObject, member: &PresentClient) {
    out.text("client", &member.client);
    out.optional_text("user", member.user.as_ref());
}

fn put_publication(out: &mut JsonObject, publication: &Publication) {
    let Publication { topic, position, payload, from, time } = publication;
    out.text("topic", topic.as_str());
    match payload {
        PublicationPayload::Json(json) => out.raw("data", json),
        PublicationPayload::Text(text) => out.text("text", text),
        PublicationPayload::Bytes(bytes) => out.text("base64", &STANDARD.encode(bytes)),
    }
    out.position("position", *position);
    out.optional_text("from", from.as_ref());
    out.number("time", time);
}

fn error_value(error: &GatewayError) -> String {
    let mut out = JsonObject::new();
    out.number("code", error.code.number());
    out.text("name", error.code.name());
    out.text("message", &error.message);
    out.end()
}

/// An object of JSON that is being written.
struct JsonObject(String);

impl JsonObject {
    fn new() -> Self {
        Self::with_capacity(64)
    }

    fn with_capacity(capacity: usize) -> Self {
        let mut out = String::with_capacity(capacity);
        out.push('{');
        Self(out)
    }

    fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }

    /// Writes the name of a member, which needs no escapes.
    fn name(&mut self, name: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0.push('"');
        self.0.push_str(name);
        self.0.push_str("\":");
    }

    /// Writes a value that is JSON.
    fn raw(&mut self, name: &str, json: &str) {
        self.name(name);
        self.0.push_str(json);
    }

    fn text(&mut self, name: &str, text: &str) {
        self.name(name);
        put_string(&mut self.0, text);
    }

    fn optional_text(&mut self, name: &str, text: Option<&Arc<str>>) {
        if let Some(text) = text {
            self.text(name, text);
        }
    }

    /// Writes a finite number.
    fn number(&mut self, name: &str, number: impl std::fmt::Display) {
        self.name(name);
        let _ = write!(self.0, "{number}");
    }

    fn flag(&mut self, name: &str, is_set: bool) {
        self.raw(name, if is_set { "true" } else { "false" });
    }

    fn position(&mut self, name: &str, position: Position) {
        self.name(name);
        let _ = write!(self.0, "\"{position}\"");
    }

    fn array<T>(&mut self, name: &str, items: &[T], encode: impl Fn(&T) -> String) {
        self.name(name);
        self.0.push('[');
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.0.push(',');
            }
            self.0.push_str(&encode(item));
        }
        self.0.push(']');
    }
}

/// Writes a string with its quotes. Copies what needs no escapes in one piece.
fn put_string(out: &mut String, text: &str) {
    out.push('"');
    let mut copied = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..=0x1f | 0x7f => "",
            _ => continue,
        };
        out.push_str(&text[copied..at]);
        copied = at + 1;
        match escape {
            "" => drop(write!(out, "\\u{byte:04x}")),
            escape => out.push_str(escape),
        }
    }
    out.push_str(&text[copied..]);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::topic::limits::TopicLimits;
    use crate::topic::name::Topic;

    proptest! {
        #[test]
        fn g01_every_text_is_a_string_of_json_and_reads_back_as_it_was(text in ".*|[\\PC\\pC]*") {
            let publication = Publication {
                topic: Topic::parse("a", &TopicLimits::default()).unwrap(),
                position: Position { epoch: 1, sequence: 2 },
                payload: PublicationPayload::Text(text.clone().into()),
                from: Some("ann".into()),
                time: 3,
            };
            let encoded = message(&publication);
            prop_assert!(!encoded.bytes().any(|byte| byte < 0x20), "one line: {encoded}");
            let value: Value = serde_json::from_str(&encoded).unwrap();
            prop_assert_eq!(value["text"].as_str(), Some(text.as_str()));
        }
    }
}
