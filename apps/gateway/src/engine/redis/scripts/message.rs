//! The forms of publications and changes of presence on their way through Redis.
//!
//! ```text
//!   entry of a stream    KIND TIME LENGTH\nFROM PAYLOAD       LENGTH is that of FROM, or - for none
//!   published message    mEPOCH-SEQUENCE TOPIC\n ENTRY
//!                        pEPOCH-NUMBER TOPIC\n +|- LENGTH CLIENT =USER
//! ```
//!
//! The parts follow each other without the spaces that are shown between them after `\n`, LENGTH aside. Other programs can
//! publish to the channels too: a message of another form is dropped.

use std::sync::Arc;

use waterwheel::bytes::Bytes;
use waterwheel::websocket::ByteString;

use crate::engine::PresentClient;
use crate::engine::position::Position;
use crate::engine::publication::{NewPublication, Publication, PublicationPayload};
use crate::topic::limits::TopicLimits;
use crate::topic::name::Topic;

/// Longest topic that is accepted from other gateways, whose limits may be greater than ours.
const TOPIC_LIMITS: TopicLimits =
    TopicLimits { max_bytes: 4096, max_segments: 256, max_wildcards: 0 };

/// A message that a script has published.
#[derive(Debug, PartialEq)]
pub(in crate::engine::redis) enum RedisMessage {
    Publication(Publication),
    Presence {
        /// The epoch, and the number of the change.
        place: Position,
        topic: Topic,
        member: PresentClient,
        is_present: bool,
    },
}

/// Returns the entry of a publication.
pub(in crate::engine::redis) fn encode_entry(new: &NewPublication) -> Vec<u8> {
    let (kind, payload): (_, &[u8]) = match &new.payload {
        PublicationPayload::Json(text) => ('j', text.as_bytes()),
        PublicationPayload::Text(text) => ('t', text.as_bytes()),
        PublicationPayload::Bytes(bytes) => ('b', bytes),
    };
    let from = new.from.as_deref();
    let length = from.map_or_else(|| "-".to_owned(), |from| from.len().to_string());
    let mut entry = format!("{kind} {} {length}\n", new.time).into_bytes();
    entry.reserve(from.map_or(0, str::len) + payload.len());
    entry.extend_from_slice(from.unwrap_or_default().as_bytes());
    entry.extend_from_slice(payload);
    entry
}

/// Reads an entry. The payload is a copy, because the read buffer that it is a part of may be much larger.
pub(in crate::engine::redis) fn decode_entry(
    entry: &[u8],
    topic: Topic,
    position: Position,
) -> Option<Publication> {
    let (head, rest) = split_line(entry)?;
    let mut words = head.split(' ');
    let kind = words.next()?;
    let time = words.next()?.parse().ok()?;
    let (from, payload) = match words.next()? {
        "-" => (None, rest),
        length => {
            let (from, payload) = rest.split_at_checked(length.parse().ok()?)?;
            (Some(Arc::from(std::str::from_utf8(from).ok()?)), payload)
        }
    };
    let bytes = Bytes::copy_from_slice(payload);
    let payload = match kind {
        "j" => PublicationPayload::Json(ByteString::try_from(bytes).ok()?),
        "t" => PublicationPayload::Text(ByteString::try_from(bytes).ok()?),
        "b" => PublicationPayload::Bytes(bytes),
        _ => return None,
    };
    Some(Publication { topic, position, payload, from, time })
}

/// Reads a topic that another gateway has accepted.
pub(in crate::engine::redis) fn decode_topic(text: &[u8]) -> Option<Topic> {
    Topic::parse(std::str::from_utf8(text).ok()?, &TOPIC_LIMITS).ok()
}

/// Reads the client and the user of a note.
pub(in crate::engine::redis) fn decode_member(client: &[u8], user: &[u8]) -> Option<PresentClient> {
    let client = std::str::from_utf8(client).ok()?.into();
    let user = match std::str::from_utf8(user).ok()? {
        "" => None,
        user => Some(user.strip_prefix('=')?.into()),
    };
    Some(PresentClient { client, user })
}

/// Returns the user of a note.
pub(in crate::engine::redis) fn encode_user(user: Option<&str>) -> String {
    user.map_or_else(String::new, |user| format!("={user}"))
}

/// Reads a published message.
pub(in crate::engine::redis) fn decode_message(message: &[u8]) -> Option<RedisMessage> {
    let (head, rest) = split_line(message)?;
    let (place, topic) = head.split_once(' ')?;
    let topic = decode_topic(topic.as_bytes())?;
    if let Some(position) = place.strip_prefix('m') {
        let publication = decode_entry(rest, topic, position.parse().ok()?)?;
        return Some(RedisMessage::Publication(publication));
    }
    let place = place.strip_prefix('p')?.parse().ok()?;
    let (sign, rest) = rest.split_first()?;
    let is_present = match sign {
        b'+' => true,
        b'-' => false,
        _ => return None,
    };
    let space = rest.iter().position(|byte| *byte == b' ')?;
    let length: usize = std::str::from_utf8(&rest[..space]).ok()?.parse().ok()?;
    let (client, user) = rest[space + 1..].split_at_checked(length)?;
    let member = decode_member(client, user)?;
    Some(RedisMessage::Presence { place, topic, member, is_present })
}

fn split_line(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((std::str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(text: &str) -> Topic {
        Topic::parse(text, &TopicLimits::default()).unwrap()
    }

    #[test]
    fn g08_every_publication_is_read_from_its_message_as_it_was() {
        let payloads = [
            PublicationPayload::Json("[1,\"ä\"]".into()),
            PublicationPayload::Text("a\r\nb\0".into()),
            PublicationPayload::Bytes(Bytes::from((0..=255).collect::<Vec<u8>>())),
            PublicationPayload::Text("".into()),
        ];
        for payload in payloads {
            for from in [None, Some("".into()), Some("ann\n 3".into())] {
                let new = NewPublication {
                    topic: topic("a.ä"),
                    payload: payload.clone(),
                    from,
                    time: 17,
                };
                let entry = encode_entry(&new);
                let mut message = b"m0000001f-1832519379627777 a.\xc3\xa4\n".to_vec();
                message.extend_from_slice(&entry);
                let position = Position { epoch: 0x1f, sequence: 1_832_519_379_627_777 };
                let NewPublication { topic, payload, from, time } = new;
                let expected = Publication { topic, position, payload, from, time };
                let read = decode_message(&message);
                assert_eq!(read, Some(RedisMessage::Publication(expected)));
                // A part of a message is another publication at most, and never a panic.
                (0..message.len()).for_each(|end| drop(decode_message(&message[..end])));
            }
        }
    }

    #[test]
    fn g08_changes_of_presence_are_read_from_their_messages() {
        let place = Position { epoch: 1, sequence: 2 };
        let message =
            |user: &str, sign| format!("p00000001-2 room\n{sign}3 c 1{user}").into_bytes();
        for (user, sign, is_present) in [(None, '+', true), (Some("=b\nc"), '-', false)] {
            let member = PresentClient { client: "c 1".into(), user: user.map(Into::into) };
            let read = decode_message(&message(&encode_user(user), sign));
            let topic = topic("room");
            assert_eq!(read, Some(RedisMessage::Presence { place, topic, member, is_present }));
        }
    }

    #[test]
    fn g08_messages_of_other_programs_are_dropped() {
        for message in [
            "",
            "hello",
            "hello\nworld",
            "m1-1 a\nj 1 -\n1",
            "m00000001-1 a\nx 1 -\n1",
            "m00000001-1 a\nj 1 9\n1",
            "m00000001-1 *\nj 1 -\n1",
            "p00000001-1 a\n*1 c",
            "p00000001-1 a\n+9 c",
            "p00000001-1 a\n+1 cuser",
        ] {
            assert_eq!(decode_message(message.as_bytes()), None, "{message:?}");
        }
    }
}
