//! The operations of NATS.

use std::fmt::Write as _;

use bytes::{BufMut, Bytes, BytesMut};
use waterwheel_channel::Message;

use super::error::NatsError;
use super::headers::{NatsHeaders, unwritable};

/// An operation: what a client or a server of NATS sends.
///
/// ```
/// use waterwheel_codec::{NatsMessage, NatsOperation};
///
/// let publish = NatsOperation::Publish(NatsMessage::new("news.de", "hello"));
/// let mut wire = Default::default();
/// publish.encode(&mut wire)?;
/// assert_eq!(wire, "PUB news.de 5\r\nhello\r\n");
/// # Ok::<(), waterwheel_codec::NatsError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NatsOperation {
    /// `INFO`: the state of a server, as JSON. Sent by servers.
    Info(Bytes),
    /// `CONNECT`: the options and credentials of a client, as JSON. Sent by clients.
    Connect(Bytes),
    /// `PUB` and `HPUB`: a message to publish. Sent by clients.
    Publish(NatsMessage),
    /// `MSG` and `HMSG`: a message for a subscription. Sent by servers.
    Deliver {
        /// The id of the subscription.
        subscription: Bytes,
        /// The message.
        message: NatsMessage,
    },
    /// `SUB`. Sent by clients.
    Subscribe {
        /// The subject, which may have the wildcards `*` and `>`.
        subject: Bytes,
        /// The queue group, whose members share the messages.
        queue: Option<Bytes>,
        /// The id of the subscription, chosen by the client.
        subscription: Bytes,
    },
    /// `UNSUB`. Sent by clients.
    Unsubscribe {
        /// The id of the subscription.
        subscription: Bytes,
        /// The number of messages, counted from the beginning, after which the subscription ends; `None`: at once.
        max_messages: Option<u64>,
    },
    /// `PING`, which the other side answers.
    Ping,
    /// `PONG`.
    Pong,
    /// `+OK`, the answer of servers to each operation of a verbose client.
    Ok,
    /// `-ERR`: the text without its quotes. Sent by servers.
    Error(Bytes),
}

/// A message with its subject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NatsMessage {
    /// The subject.
    pub subject: Bytes,
    /// The subject for an answer.
    pub reply: Option<Bytes>,
    /// The headers.
    pub headers: Option<NatsHeaders>,
    /// The content.
    pub payload: Bytes,
}

impl NatsMessage {
    /// Creates a message without headers that wants no answer.
    #[must_use]
    pub fn new(subject: impl Into<Bytes>, payload: impl Into<Bytes>) -> Self {
        Self { subject: subject.into(), payload: payload.into(), ..Self::default() }
    }

    /// Returns the same message with a subject for an answer.
    #[must_use]
    pub fn with_reply(mut self, reply: impl Into<Bytes>) -> Self {
        self.reply = Some(reply.into());
        self
    }

    /// Returns the same message with headers.
    #[must_use]
    pub fn with_headers(mut self, headers: NatsHeaders) -> Self {
        self.headers = Some(headers);
        self
    }
}

impl NatsOperation {
    /// Appends the wire bytes.
    ///
    /// # Errors
    /// A subject, an id or a queue group is empty or has white space, or a line has a line end. Nothing is appended.
    pub fn encode(&self, dst: &mut BytesMut) -> Result<(), NatsError> {
        self.check()?;
        self.put(dst, &mut |dst, bytes| dst.put_slice(bytes));
        Ok(())
    }

    /// Returns the headers and the payload, if the operation has a message.
    pub(super) fn message(&self) -> Option<&NatsMessage> {
        match self {
            NatsOperation::Publish(message) | NatsOperation::Deliver { message, .. } => {
                Some(message)
            }
            _ => None,
        }
    }

    /// Checks that the operation is read as it is written.
    pub(super) fn check(&self) -> Result<(), NatsError> {
        match self {
            NatsOperation::Info(options) | NatsOperation::Connect(options) => {
                let is_padded = options.trim_ascii().len() != options.len();
                if options.is_empty() || is_padded || has_line_end(options) {
                    return Err(unwritable("options", options));
                }
                Ok(())
            }
            NatsOperation::Publish(message) => check_message(message),
            NatsOperation::Deliver { subscription, message } => {
                check_word("the id of a subscription", subscription)?;
                check_message(message)
            }
            NatsOperation::Subscribe { subject, queue, subscription } => {
                check_word("a subject", subject)?;
                check_word("the id of a subscription", subscription)?;
                queue.as_ref().map_or(Ok(()), |queue| check_word("a queue group", queue))
            }
            NatsOperation::Unsubscribe { subscription, .. } => {
                check_word("the id of a subscription", subscription)
            }
            NatsOperation::Error(text) if has_line_end(text) => Err(unwritable("an error", text)),
            _ => Ok(()),
        }
    }

    /// Appends the wire bytes of a checked operation; `part` appends headers and payload.
    pub(super) fn put(&self, dst: &mut BytesMut, part: &mut impl FnMut(&mut BytesMut, &Bytes)) {
        match self {
            NatsOperation::Info(options) => put_words(dst, &[b"INFO", options]),
            NatsOperation::Connect(options) => put_words(dst, &[b"CONNECT", options]),
            NatsOperation::Publish(message) => {
                let verb = if message.headers.is_some() { b"HPUB".as_slice() } else { b"PUB" };
                put_words(dst, &[verb, &message.subject]);
                put_message(message, dst, part);
            }
            NatsOperation::Deliver { subscription, message } => {
                let verb = if message.headers.is_some() { b"HMSG".as_slice() } else { b"MSG" };
                put_words(dst, &[verb, &message.subject, subscription]);
                put_message(message, dst, part);
            }
            NatsOperation::Subscribe { subject, queue: None, subscription } => {
                put_words(dst, &[b"SUB", subject, subscription]);
            }
            NatsOperation::Subscribe { subject, queue: Some(queue), subscription } => {
                put_words(dst, &[b"SUB", subject, queue, subscription]);
            }
            NatsOperation::Unsubscribe { subscription, max_messages } => {
                put_words(dst, &[b"UNSUB", subscription]);
                if let Some(max) = max_messages {
                    put_number(dst, *max);
                }
            }
            NatsOperation::Ping => dst.put_slice(b"PING"),
            NatsOperation::Pong => dst.put_slice(b"PONG"),
            NatsOperation::Ok => dst.put_slice(b"+OK"),
            NatsOperation::Error(text) => {
                dst.put_slice(b"-ERR '");
                dst.put_slice(text);
                dst.put_u8(b'\'');
            }
        }
        dst.put_slice(b"\r\n");
    }
}

impl Message for NatsOperation {
    fn size_hint(&self) -> usize {
        const LINE: usize = 32;
        let message = |message: &NatsMessage| {
            let headers = message.headers.as_ref().map_or(0, |headers| headers.wire().len());
            message.subject.len() + headers + message.payload.len()
        };
        LINE + self.message().map_or(0, message)
    }
}

/// Appends the end of the control line, the headers and the payload, without the line end behind it.
fn put_message(
    message: &NatsMessage,
    dst: &mut BytesMut,
    part: &mut impl FnMut(&mut BytesMut, &Bytes),
) {
    if let Some(reply) = &message.reply {
        dst.put_u8(b' ');
        dst.put_slice(reply);
    }
    let headers = message.headers.as_ref().map(NatsHeaders::wire);
    if let Some(headers) = headers {
        put_number(dst, headers.len() as u64);
    }
    put_number(dst, (headers.map_or(0, Bytes::len) + message.payload.len()) as u64);
    dst.put_slice(b"\r\n");
    if let Some(headers) = headers {
        part(dst, headers);
    }
    part(dst, &message.payload);
}

fn put_words(dst: &mut BytesMut, words: &[&[u8]]) {
    for (index, word) in words.iter().enumerate() {
        if index > 0 {
            dst.put_u8(b' ');
        }
        dst.put_slice(word);
    }
}

fn put_number(dst: &mut BytesMut, number: u64) {
    // Writing to a buffer that grows does not fail.
    let _ = write!(dst, " {number}");
}

fn check_message(message: &NatsMessage) -> Result<(), NatsError> {
    check_word("a subject", &message.subject)?;
    message.reply.as_ref().map_or(Ok(()), |reply| check_word("the subject for an answer", reply))
}

fn check_word(what: &'static str, word: &[u8]) -> Result<(), NatsError> {
    let is_wrong = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    if word.is_empty() || word.iter().any(is_wrong) {
        return Err(unwritable(what, word));
    }
    Ok(())
}

fn has_line_end(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b'\r' | b'\n'))
}
