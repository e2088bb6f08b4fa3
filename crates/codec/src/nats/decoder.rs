//! Decodes NATS operations from a byte stream.

use std::mem;
use std::ops::Range;

use bytes::Bytes;
use memchr::memchr2;
use waterwheel_channel::{Decoder, Quoted};
use waterwheel_executor::Error;

use super::control_line::{ControlWords, is_blank, line_end, malformed, number, sizes};
use super::error::NatsError;
use super::headers::NatsHeaders;
use super::limits::NatsLimits;
use super::operation::{NatsMessage, NatsOperation};

/// Decodes the operations of a NATS stream: as a client reads them, or as a server does.
///
/// ```
/// use waterwheel_codec::{NatsDecoder, NatsLimits, NatsMessage, NatsOperation};
/// use waterwheel_testkit::decoder_verifier::DecoderVerifier;
///
/// DecoderVerifier::new(|| NatsDecoder::client(NatsLimits::default()))
///     .gives(b"PING\r\n+OK\r\n", [NatsOperation::Ping, NatsOperation::Ok])
///     .gives(
///         b"MSG news.de 7 5\r\nhello\r\n",
///         [NatsOperation::Deliver {
///             subscription: "7".into(),
///             message: NatsMessage::new("news.de", "hello"),
///         }],
///     )
///     .fails(b"SUB a 1\r\n", "NATS: 'SUB' is not an operation of a server")
///     .verify();
/// ```
///
/// Subjects and payloads are slices of the read buffer and keep it alive: copy what is stored for long.
#[derive(Clone, Debug)]
pub struct NatsDecoder {
    limits: NatsLimits,
    /// True if servers send what is decoded.
    is_client: bool,
    /// The number of bytes searched for a line end.
    searched: usize,
    /// The control line of a message whose payload is incomplete.
    head: Option<MessageHead>,
}

/// The control line of a message, as positions in the read buffer.
#[derive(Clone, Debug)]
struct MessageHead {
    subject: Range<usize>,
    subscription: Option<Range<usize>>,
    reply: Option<Range<usize>>,
    /// The size of the headers, if there are some.
    headers: Option<usize>,
    /// Where headers and payload begin, and where the payload ends.
    body: Range<usize>,
}

/// A complete control line.
enum ControlLine {
    /// The whole operation.
    Operation(NatsOperation),
    /// The head of a message, whose payload follows.
    Head(MessageHead),
}

impl NatsDecoder {
    /// Creates a decoder for what servers send.
    #[must_use]
    pub fn client(limits: NatsLimits) -> Self {
        Self { limits, is_client: true, searched: 0, head: None }
    }

    /// Creates a decoder for what clients send.
    #[must_use]
    pub fn server(limits: NatsLimits) -> Self {
        Self { is_client: false, ..Self::client(limits) }
    }

    /// Changes the limit of a payload together with its headers, which a server announces in its INFO.
    pub fn set_max_payload(&mut self, bytes: usize) {
        self.limits.payload = bytes;
    }

    /// Removes the next complete operation from the front of `buf`.
    ///
    /// # Errors
    /// The bytes at the front are not an operation. Nothing is consumed.
    #[inline]
    pub fn next_operation(&mut self, buf: &mut Bytes) -> Result<Option<NatsOperation>, NatsError> {
        let found = self.find(buf);
        if !matches!(found, Ok(None)) {
            (self.searched, self.head) = (0, None); // After an error, the next call returns the same one.
        }
        found
    }

    fn find(&mut self, buf: &mut Bytes) -> Result<Option<NatsOperation>, NatsError> {
        let head = match self.head.take() {
            Some(head) => head,
            None => {
                let Some(end) = self.find_line(buf)? else { return Ok(None) };
                match self.control_line(buf, end)? {
                    ControlLine::Operation(operation) => {
                        let _ = buf.split_to(end + 2);
                        return Ok(Some(operation));
                    }
                    ControlLine::Head(head) => head,
                }
            }
        };
        match buf.get(head.body.end..head.body.end + 2) {
            None => {
                self.head = Some(head);
                Ok(None)
            }
            Some(b"\r\n") => head.take_message(buf).map(Some),
            Some(_) => Err(NatsError::NoLineEnd { what: "payload" }),
        }
    }

    fn find_line(&mut self, buf: &[u8]) -> Result<Option<usize>, NatsError> {
        let options = if self.is_client { b'I' } else { b'C' };
        let (what, limit) = match buf.first() {
            Some(first) if first.eq_ignore_ascii_case(&options) => ("a line", self.limits.options),
            _ => ("a line", self.limits.control_line),
        };
        line_end(buf, &mut self.searched, what, limit)
    }

    fn control_line(&self, buf: &Bytes, end: usize) -> Result<ControlLine, NatsError> {
        let line = &buf[..end];
        let verb_end = memchr2(b' ', b'\t', line).unwrap_or(end);
        let verb = &line[..verb_end];
        let is = |name: &str| verb.eq_ignore_ascii_case(name.as_bytes());
        let operation = match self.is_client {
            _ if is("PING") => without_arguments(NatsOperation::Ping, line, verb_end)?,
            _ if is("PONG") => without_arguments(NatsOperation::Pong, line, verb_end)?,
            true if is("MSG") => return self.deliver(line, verb_end, false),
            true if is("HMSG") => return self.deliver(line, verb_end, true),
            true if is("+OK") => without_arguments(NatsOperation::Ok, line, verb_end)?,
            true if is("INFO") => NatsOperation::Info(options(buf, verb_end..end)?),
            true if is("-ERR") => NatsOperation::Error(unquoted(buf, verb_end..end)),
            false if is("PUB") => return self.publish(line, verb_end, false),
            false if is("HPUB") => return self.publish(line, verb_end, true),
            false if is("SUB") => subscribe(buf, line, verb_end)?,
            false if is("UNSUB") => unsubscribe(buf, line, verb_end)?,
            false if is("CONNECT") => NatsOperation::Connect(options(buf, verb_end..end)?),
            is_client => {
                let sender = if is_client { "server" } else { "client" };
                return Err(NatsError::UnknownOperation { found: Quoted::new(verb), sender });
            }
        };
        Ok(ControlLine::Operation(operation))
    }

    fn deliver(
        &self,
        line: &[u8],
        from: usize,
        has_headers: bool,
    ) -> Result<ControlLine, NatsError> {
        let words = ControlWords::split(line, from)?;
        let (subject, subscription, reply, headers, total) = match (has_headers, words.as_slice()) {
            (false, [subject, id, total]) => (subject, id, None, None, total),
            (false, [subject, id, reply, total]) => (subject, id, Some(reply), None, total),
            (true, [subject, id, headers, total]) => (subject, id, None, Some(headers), total),
            (true, [subject, id, reply, headers, total]) => {
                (subject, id, Some(reply), Some(headers), total)
            }
            _ => {
                return Err(malformed("MSG subject id [reply] size, or HMSG with two sizes", line));
            }
        };
        let (headers, total) = sizes(line, headers, total, &self.limits)?;
        Ok(ControlLine::Head(MessageHead {
            subject: subject.clone(),
            subscription: Some(subscription.clone()),
            reply: reply.cloned(),
            headers,
            body: line.len() + 2..line.len() + 2 + total,
        }))
    }

    fn publish(
        &self,
        line: &[u8],
        from: usize,
        has_headers: bool,
    ) -> Result<ControlLine, NatsError> {
        let words = ControlWords::split(line, from)?;
        let (subject, reply, headers, total) = match (has_headers, words.as_slice()) {
            (false, [subject, total]) => (subject, None, None, total),
            (false, [subject, reply, total]) => (subject, Some(reply), None, total),
            (true, [subject, headers, total]) => (subject, None, Some(headers), total),
            (true, [subject, reply, headers, total]) => {
                (subject, Some(reply), Some(headers), total)
            }
            _ => return Err(malformed("PUB subject [reply] size, or HPUB with two sizes", line)),
        };
        let (headers, total) = sizes(line, headers, total, &self.limits)?;
        Ok(ControlLine::Head(MessageHead {
            subject: subject.clone(),
            subscription: None,
            reply: reply.cloned(),
            headers,
            body: line.len() + 2..line.len() + 2 + total,
        }))
    }
}

impl MessageHead {
    /// Removes the complete message from the front of `buf`.
    fn take_message(self, buf: &mut Bytes) -> Result<NatsOperation, NatsError> {
        let body = self.body;
        let payload_start = body.start + self.headers.unwrap_or(0);
        let headers = match self.headers {
            Some(_) => Some(NatsHeaders::from_wire(buf.slice(body.start..payload_start))?),
            None => None,
        };
        let wire = buf.split_to(body.end + 2);
        let message = NatsMessage {
            subject: wire.slice(self.subject),
            reply: self.reply.map(|reply| wire.slice(reply)),
            headers,
            payload: wire.slice(payload_start..body.end),
        };
        Ok(match self.subscription {
            Some(id) => NatsOperation::Deliver { subscription: wire.slice(id), message },
            None => NatsOperation::Publish(message),
        })
    }
}

impl Decoder for NatsDecoder {
    type Out = NatsOperation;

    #[inline]
    fn decode(&mut self, buf: &mut Bytes) -> Result<Option<NatsOperation>, Error> {
        self.next_operation(buf).map_err(Error::new)
    }

    fn max_unread(&self) -> usize {
        self.limits.operation()
    }

    /// Fails if the stream ends in the middle of an operation.
    fn decode_last(&mut self, buf: &mut Bytes) -> Result<Option<NatsOperation>, Error> {
        match self.decode(buf)? {
            None if !buf.is_empty() => {
                let unread = mem::take(buf).len();
                (self.searched, self.head) = (0, None);
                Err(Error::new(NatsError::CutOff { unread }))
            }
            operation => Ok(operation),
        }
    }
}

fn subscribe(buf: &Bytes, line: &[u8], from: usize) -> Result<NatsOperation, NatsError> {
    let words = ControlWords::split(line, from)?;
    let (subject, queue, subscription) = match words.as_slice() {
        [subject, id] => (subject, None, id),
        [subject, queue, id] => (subject, Some(queue), id),
        _ => return Err(malformed("SUB subject [queue] id", line)),
    };
    let slice = |range: &Range<usize>| buf.slice(range.clone());
    Ok(NatsOperation::Subscribe {
        subject: slice(subject),
        queue: queue.map(slice),
        subscription: slice(subscription),
    })
}

fn unsubscribe(buf: &Bytes, line: &[u8], from: usize) -> Result<NatsOperation, NatsError> {
    let words = ControlWords::split(line, from)?;
    let (subscription, max_messages) = match words.as_slice() {
        [id] => (id, None),
        [id, max] => (id, Some(number(line, max)?)),
        _ => return Err(malformed("UNSUB id [number]", line)),
    };
    Ok(NatsOperation::Unsubscribe { subscription: buf.slice(subscription.clone()), max_messages })
}

/// Returns the JSON of INFO and CONNECT, whose content is the user's to parse.
fn options(buf: &Bytes, range: Range<usize>) -> Result<Bytes, NatsError> {
    let text = trimmed(buf, range.clone());
    if text.is_empty() {
        return Err(malformed("options behind INFO or CONNECT", &buf[..range.end]));
    }
    Ok(text)
}

/// Returns the text of an error without its quotes.
fn unquoted(buf: &Bytes, range: Range<usize>) -> Bytes {
    let text = trimmed(buf, range);
    match text[..] {
        [b'\'', .., b'\''] => text.slice(1..text.len() - 1),
        _ => text,
    }
}

fn trimmed(buf: &Bytes, range: Range<usize>) -> Bytes {
    let text = &buf[range];
    buf.slice_ref(text.trim_ascii())
}

fn without_arguments(
    operation: NatsOperation,
    line: &[u8],
    from: usize,
) -> Result<NatsOperation, NatsError> {
    if !line[from..].iter().copied().all(is_blank) {
        return Err(malformed("no arguments", line));
    }
    Ok(operation)
}
