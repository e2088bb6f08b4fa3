//! Publications as messages of NATS: the payload as it is, and headers that say what it is.
//!
//! A message without these headers, published by a program beside the gateways, is JSON if it is that and one line, else text
//! if it is UTF-8, else bytes.

use std::sync::Arc;

use serde::de::IgnoredAny;
use waterwheel::bytes::Bytes;
use waterwheel::codec::{NatsHeaders, NatsMessage};
use waterwheel::websocket::ByteString;

use crate::engine::publication::{NewPublication, PublicationPayload};

const KIND: &str = "Waterwheel-Kind";
const FROM: &str = "Waterwheel-From";
const TIME: &str = "Waterwheel-Time";

/// The facts of a publication that its message tells.
pub(in crate::engine::nats) struct Envelope {
    pub(in crate::engine::nats) payload: PublicationPayload,
    pub(in crate::engine::nats) from: Option<Arc<str>>,
    /// Milliseconds since 1970, if the publisher said so.
    pub(in crate::engine::nats) time: Option<u64>,
}

/// Makes the message of a publication.
pub(in crate::engine::nats) fn to_message(
    subject: String,
    publication: &NewPublication,
) -> NatsMessage {
    let (kind, payload) = match &publication.payload {
        PublicationPayload::Json(text) => ("json", bytes_of(text)),
        PublicationPayload::Text(text) => ("text", bytes_of(text)),
        PublicationPayload::Bytes(bytes) => ("bytes", bytes.clone()),
    };
    let time = publication.time.to_string();
    let from = publication.from.as_deref().map(escape);
    let mut fields = vec![(KIND, kind), (TIME, &time)];
    if let Some(from) = &from {
        fields.push((FROM, from));
    }
    let message = NatsMessage::new(subject, payload);
    match NatsHeaders::new(&fields) {
        Ok(headers) => message.with_headers(headers),
        // Unreachable: the names are constants, and the values have neither white space nor control characters.
        Err(_) => message,
    }
}

/// Reads a message.
pub(in crate::engine::nats) fn from_message(message: &NatsMessage) -> Envelope {
    let header = |name| {
        let value = message.headers.as_ref().and_then(|headers| headers.get(name));
        value.and_then(|value| str::from_utf8(value).ok())
    };
    let payload = payload_of(header(KIND), &message.payload);
    let from = header(FROM).and_then(unescape).map(Arc::from);
    Envelope { payload, from, time: header(TIME).and_then(|time| time.parse().ok()) }
}

fn payload_of(kind: Option<&str>, bytes: &Bytes) -> PublicationPayload {
    // A copy: the message was cut out of a read buffer.
    let bytes = Bytes::copy_from_slice(bytes);
    if kind == Some("bytes") {
        return PublicationPayload::Bytes(bytes);
    }
    let is_one_line = !bytes.iter().any(|byte| matches!(byte, b'\r' | b'\n'));
    let Ok(text) = ByteString::try_from(bytes.clone()) else {
        return PublicationPayload::Bytes(bytes);
    };
    match kind {
        Some("text") => PublicationPayload::Text(text),
        // The server is as trustworthy as its other publishers: what claims to be JSON is checked.
        _ if is_one_line && serde_json::from_str::<IgnoredAny>(&text).is_ok() => {
            PublicationPayload::Json(text)
        }
        _ => PublicationPayload::Text(text),
    }
}

fn bytes_of(text: &ByteString) -> Bytes {
    text.clone().into_bytes()
}

/// Escapes what a header cannot hold: white space at the ends, control characters.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '%' => escaped.push_str("%25"),
            c if c.is_whitespace() || c.is_control() => {
                escaped.push_str(&format!("%{:06X}", u32::from(c)));
            }
            c => escaped.push(c),
        }
    }
    escaped
}

fn unescape(escaped: &str) -> Option<String> {
    let mut parts = escaped.split('%');
    let mut text = parts.next()?.to_owned();
    for part in parts {
        let rest = match part.strip_prefix("25") {
            Some(rest) => {
                text.push('%');
                rest
            }
            None => {
                text.push(char::from_u32(u32::from_str_radix(part.get(..6)?, 16).ok()?)?);
                &part[6..]
            }
        };
        text.push_str(rest);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topic::limits::TopicLimits;
    use crate::topic::name::Topic;

    fn publication(payload: PublicationPayload, from: Option<&str>) -> NewPublication {
        let topic = Topic::parse("a", &TopicLimits::default()).unwrap();
        NewPublication { topic, payload, from: from.map(Into::into), time: 1_760_000_000_123 }
    }

    #[test]
    fn g08_a_publication_is_read_from_its_message_as_it_was() {
        let payloads = [
            PublicationPayload::Json("{\"a\":1}".into()),
            PublicationPayload::Text("{\"a\":1}".into()),
            PublicationPayload::Text("a\r\nb".into()),
            PublicationPayload::Bytes(Bytes::from_static(b"{}")),
            PublicationPayload::Bytes(Bytes::from_static(b"\xff")),
        ];
        for payload in payloads {
            for from in [None, Some("ann"), Some(""), Some(" a%b\r\n\u{a0}25%ü ")] {
                let new = publication(payload.clone(), from);
                let envelope = from_message(&to_message("s".to_owned(), &new));
                assert_eq!(envelope.payload, payload);
                assert_eq!(envelope.from.as_deref(), from);
                assert_eq!(envelope.time, Some(new.time));
            }
        }
    }

    #[test]
    fn g08_a_message_of_another_program_is_json_text_or_bytes() {
        let read = |payload: &'static [u8]| {
            let envelope = from_message(&NatsMessage::new("s", payload));
            assert!(envelope.from.is_none() && envelope.time.is_none());
            envelope.payload
        };
        assert_eq!(read(b"[1]"), PublicationPayload::Json("[1]".into()));
        assert_eq!(read(b"[1,\n2]"), PublicationPayload::Text("[1,\n2]".into()));
        assert_eq!(read(b"hello"), PublicationPayload::Text("hello".into()));
        assert_eq!(read(b"\xff"), PublicationPayload::Bytes(Bytes::from_static(b"\xff")));
        let headers = NatsHeaders::new(&[(KIND, "json"), (FROM, "%zz"), (TIME, "x")]).unwrap();
        let message = NatsMessage::new("s", "{").with_headers(headers);
        let envelope = from_message(&message);
        assert_eq!(envelope.payload, PublicationPayload::Text("{".into()), "claimed, and no JSON");
        assert!(envelope.from.is_none() && envelope.time.is_none());
    }
}
