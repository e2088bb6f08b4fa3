//! Replies and pushes as lines.
//!
//! A receiver may be a terminal, which obeys control characters: they are written as in strings of JSON.

use std::fmt::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::command::{AnswerForm, HELP};
use crate::engine::publication::{Publication, PublicationPayload};
use crate::engine::{HistoryPage, PresencePage};
use crate::error_code::GatewayError;
use crate::session::reply::{GatewayReply, Push};

/// The first line of the gateway.
pub(super) const HELLO: &str = "HELLO HELP lists the commands\n";

/// The question to a client that has been silent.
pub(super) const PING: &str = "PING\n";

/// Returns the lines that answer a command.
pub(super) fn answer(form: AnswerForm, answer: Result<&GatewayReply, &GatewayError>) -> String {
    match (form, answer) {
        (AnswerForm::Help, Ok(_)) => {
            let mut out = HELP.join("\n");
            out.push_str("\nOK\n");
            out
        }
        (AnswerForm::Pong, Ok(_)) => String::from("PONG\n"),
        (_, Ok(reply)) => ok(reply),
        (_, Err(error)) => {
            let mut out = format!("ERR {} ", error.code.name());
            put_text(&mut out, &error.message);
            out.push('\n');
            out
        }
    }
}

fn ok(reply: &GatewayReply) -> String {
    let flag = |is_set, word| if is_set { word } else { "" };
    match reply {
        GatewayReply::Done | GatewayReply::PublishedBatch(_) => String::from("OK\n"),
        GatewayReply::Connected { user: Some(user), .. } => format!("OK hello {user}\n"),
        GatewayReply::Connected { client, user: None } => format!("OK hello {client}\n"),
        GatewayReply::Subscribed { position, recovered, gap } => {
            format!("OK {position} {recovered}{}\n", flag(*gap, " gap"))
        }
        GatewayReply::Published { position, receivers } => format!("OK {position} {receivers}\n"),
        GatewayReply::History(page) => {
            let HistoryPage { publications, position, has_gap, has_more } = page;
            let (count, gap, more) =
                (publications.len(), flag(*has_gap, " gap"), flag(*has_more, " more"));
            let mut out = format!("OK {position} {count}{gap}{more}\n");
            publications.iter().for_each(|publication| put_message(&mut out, publication));
            out
        }
        GatewayReply::Presence(PresencePage { clients, count }) => {
            let mut out = format!("OK {count}");
            for member in clients {
                let _ = write!(out, " {}", member.client);
                if let Some(user) = &member.user {
                    let _ = write!(out, ":{user}");
                }
            }
            out.push('\n');
            out
        }
    }
}

/// Returns the line of a publication.
pub(super) fn message(publication: &Publication) -> String {
    let mut out = String::with_capacity(64 + publication.payload.len());
    put_message(&mut out, publication);
    out
}

/// Returns the line of a push; `None` for those that only other protocols ask for.
pub(super) fn push(push: &Push) -> Option<String> {
    let mut out = String::new();
    match push {
        Push::Publication(delivery) => return Some(message(delivery.publication())),
        Push::Presence { .. } => return None,
        Push::Missed { count, position: None } => {
            let _ = write!(out, "MISSED {count}");
        }
        Push::Missed { count, position: Some(position) } => {
            let _ = write!(out, "MISSED {count} {position}");
        }
        Push::Direct { from, text } => {
            let _ = write!(out, "PUSH {from} ");
            put_text(&mut out, text);
        }
        Push::Unsubscribed { filter, error } => {
            let _ = write!(out, "UNSUB {filter} ");
            put_text(&mut out, &error.message);
        }
        Push::Closing { error, .. } => {
            out.push_str("BYE ");
            put_text(&mut out, &error.message);
        }
    }
    out.push('\n');
    Some(out)
}

fn put_message(out: &mut String, publication: &Publication) {
    let from = publication.from.as_deref().unwrap_or("-");
    let _ = write!(out, "MSG {} {from} ", publication.topic);
    match &publication.payload {
        PublicationPayload::Text(text) => put_text(out, text),
        PublicationPayload::Json(json) => put_json(out, json),
        PublicationPayload::Bytes(bytes) => out.push_str(&STANDARD.encode(bytes)),
    }
    out.push('\n');
}

/// Writes a text: control characters other than tabs as escapes, and backslashes doubled.
fn put_text(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            c => put_visible(out, c),
        }
    }
}

/// Writes JSON, which has its escapes already.
fn put_json(out: &mut String, json: &str) {
    json.chars().for_each(|c| put_visible(out, c));
}

fn put_visible(out: &mut String, c: char) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        c if c.is_control() && c != '\t' => {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        }
        c => out.push(c),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::engine::position::Position;
    use crate::protocols::lines::command::read_line;
    use crate::session::limits::GatewayLimits;
    use crate::topic::limits::TopicLimits;
    use crate::topic::name::Topic;

    fn line_of(payload: PublicationPayload) -> String {
        message(&Publication {
            topic: Topic::parse("a", &TopicLimits::default()).unwrap(),
            position: Position { epoch: 1, sequence: 2 },
            payload,
            from: None,
            time: 3,
        })
    }

    proptest! {
        #[test]
        fn g01_every_publication_is_one_line_without_control_characters(text in "[\\PC\\pC]*") {
            let json = serde_json::to_string(&text).unwrap();
            let is_control = |c: char| c.is_control() && c != '\t';
            for payload in [
                PublicationPayload::Text(text.clone().into()),
                PublicationPayload::Json(json.into()),
                PublicationPayload::Bytes(text.clone().into_bytes().into()),
            ] {
                let line = line_of(payload.clone());
                let line = line.strip_suffix('\n').unwrap();
                prop_assert!(!line.contains(is_control), "{line:?}");
                if let PublicationPayload::Json(_) = payload {
                    let json: Value = serde_json::from_str(line.strip_prefix("MSG a - ").unwrap()).unwrap();
                    prop_assert_eq!(json.as_str(), Some(text.as_str()));
                }
            }
        }

        #[test]
        fn r04_no_line_of_a_client_panics_and_its_error_is_one_line(
            line in "(SUB|PUB|HISTORY|USER|PUSH|.{0,3}) {0,2}[\\PC\\pC]{0,40}"
        ) {
            if let Err(error) = read_line(&line, &GatewayLimits::default()) {
                let reply = answer(AnswerForm::Ok, Err(&error));
                let reply = reply.strip_suffix('\n').unwrap();
                prop_assert!(!reply.contains(|c: char| c.is_control() && c != '\t'), "{reply:?}");
            }
        }
    }
}
