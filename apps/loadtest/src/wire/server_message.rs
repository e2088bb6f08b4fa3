//! The messages that the gateway sends.

use std::borrow::Cow;

use serde::Deserialize;

/// A message of the gateway: an answer, which has an `id`, or a push. Members that no scenario uses are skipped.
#[derive(Debug, Deserialize)]
pub(crate) struct ServerMessage<'a> {
    pub(crate) id: Option<u64>,
    #[serde(borrow)]
    pub(crate) ok: Option<AnswerBody<'a>>,
    #[serde(borrow)]
    pub(crate) error: Option<AnswerError<'a>>,
    #[serde(borrow)]
    pub(crate) push: Option<Cow<'a, str>>,
    pub(crate) data: Option<PublicationStamp>,
    #[serde(borrow)]
    pub(crate) position: Option<Cow<'a, str>>,
    /// How many publications were missed.
    pub(crate) count: Option<u64>,
}

/// The answer to a command that was carried out.
#[derive(Debug, Deserialize)]
pub(crate) struct AnswerBody<'a> {
    #[serde(borrow)]
    pub(crate) position: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(crate) gap: bool,
}

/// The answer to a command that was refused.
#[derive(Debug, Deserialize)]
pub(crate) struct AnswerError<'a> {
    #[serde(borrow)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) message: Cow<'a, str>,
}

/// The data of a publication of this program.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct PublicationStamp {
    /// The publisher.
    #[serde(rename = "p")]
    pub(crate) publisher: usize,
    /// The number of the publication, by publisher.
    #[serde(rename = "n")]
    pub(crate) number: u64,
    /// The intended time of the publish: nanoseconds of the monotonic clock, which all processes of the machine share.
    #[serde(rename = "t")]
    pub(crate) intended: u64,
}

/// The meaning of a message to a client.
#[derive(Debug)]
pub(crate) enum Received<'a> {
    /// A publication, with its position.
    Publication(PublicationStamp, Cow<'a, str>),
    /// The answer to the command of this id.
    Answer(u64, Result<AnswerBody<'a>, AnswerError<'a>>),
    /// The number of publications that were dropped for this client.
    Missed(u64),
    /// Another push, such as `closing`.
    Other,
}

/// Reads a message; `None` if it is none that a gateway sends to the clients of this program.
pub(crate) fn read(text: &str) -> Option<Received<'_>> {
    let message: ServerMessage<'_> = serde_json::from_str(text).ok()?;
    Some(match (message.id, message.push.as_deref()) {
        (Some(id), None) => match (message.ok, message.error) {
            (Some(body), None) => Received::Answer(id, Ok(body)),
            (None, Some(error)) => Received::Answer(id, Err(error)),
            _ => return None,
        },
        (None, Some("message")) => Received::Publication(message.data?, message.position?),
        (None, Some("missed")) => Received::Missed(message.count?),
        (None, Some(_)) => Received::Other,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g09_messages_of_the_gateway_are_understood() {
        let text = r#"{"push":"message","topic":"a","data":{"p":1,"n":2,"t":3,"x":"xx"},"position":"e-4","time":5}"#;
        let Some(Received::Publication(stamp, position)) = read(text) else {
            panic!("a publication")
        };
        assert_eq!(stamp, PublicationStamp { publisher: 1, number: 2, intended: 3 });
        assert_eq!(position, "e-4");
        let text = r#"{"id":1,"ok":{"position":"e-9","recovered":3,"gap":true}}"#;
        let Some(Received::Answer(1, Ok(body))) = read(text) else { panic!("an answer") };
        assert!(body.gap && body.position.as_deref() == Some("e-9"));
        let text = r#"{"id":7,"error":{"code":111,"name":"rate_exceeded","message":"a \"b\""}}"#;
        let Some(Received::Answer(7, Err(error))) = read(text) else { panic!("an error") };
        assert_eq!((&*error.name, &*error.message), ("rate_exceeded", "a \"b\""));
        let missed = read(r#"{"push":"missed","count":12,"position":"e-1"}"#);
        assert!(matches!(missed, Some(Received::Missed(12))));
        assert!(matches!(
            read(r#"{"push":"closing","reason":"x","reconnect":true}"#),
            Some(Received::Other)
        ));
    }

    #[test]
    fn g09_messages_of_others_are_not() {
        for text in
            ["", "[]", "{}", r#"{"id":1}"#, r#"{"push":"message","data":"hello","position":"e-1"}"#]
        {
            assert!(read(text).is_none(), "{text}");
        }
    }
}
