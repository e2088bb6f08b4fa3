//! Events that are sent, and their encoding.

use std::fmt;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use waterwheel_executor::Error;

/// An event for the client of a stream: data, and what the client does with it.
///
/// ```
/// use waterwheel_http::ServerEvent;
///
/// let event = ServerEvent::new("first line\nsecond line").name("news")?.id("7")?;
/// let wire = "event: news\nid: 7\ndata: first line\ndata: second line\n\n";
/// assert_eq!(event.encode().bytes(), wire);
/// # Ok::<(), waterwheel_http::InvalidEvent>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerEvent {
    comment: Option<String>,
    name: Option<String>,
    id: Option<String>,
    retry: Option<Duration>,
    data: Option<String>,
}

/// The reason why a field cannot be part of an event.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvalidEvent {
    /// The name contains CR or LF.
    #[error("the name of an event has a line end at byte {at}")]
    Name {
        /// The position of the character.
        at: usize,
    },
    /// The id contains NUL, CR or LF.
    #[error("the id of an event has NUL or a line end at byte {at}")]
    Id {
        /// The position of the character.
        at: usize,
    },
}

impl From<InvalidEvent> for Error {
    fn from(error: InvalidEvent) -> Self {
        Error::new(error)
    }
}

impl ServerEvent {
    /// Creates an event with data. LF, CR and CRLF end a line of it; the client sees LF.
    #[must_use]
    pub fn new(data: impl Into<String>) -> Self {
        Self { data: Some(data.into()), ..Self::default() }
    }

    /// Creates an event without data, of which the client's code sees nothing: to set an id or the time to wait before
    /// it connects again.
    #[must_use]
    pub fn without_data() -> Self {
        Self::default()
    }

    /// Sets the name of the event; clients see `message` where it is missing or empty.
    ///
    /// # Errors
    /// The name contains a line end.
    pub fn name(mut self, name: impl Into<String>) -> Result<Self, InvalidEvent> {
        let name = name.into();
        if let Some(at) = name.find(['\r', '\n']) {
            return Err(InvalidEvent::Name { at });
        }
        self.name = Some(name);
        Ok(self)
    }

    /// Sets the id, which a client that connects again names as the last one it has seen
    /// ([`last_event_id`](crate::last_event_id)). An empty id makes the client forget it.
    ///
    /// # Errors
    /// The id contains NUL or a line end.
    pub fn id(mut self, id: impl Into<String>) -> Result<Self, InvalidEvent> {
        let id = id.into();
        if let Some(at) = id.find(['\0', '\r', '\n']) {
            return Err(InvalidEvent::Id { at });
        }
        self.id = Some(id);
        Ok(self)
    }

    /// Sets the time that the client waits before it connects again, in whole milliseconds.
    #[must_use]
    pub fn retry(mut self, time: Duration) -> Self {
        self.retry = Some(time);
        self
    }

    /// Sets a comment, which clients skip.
    #[must_use]
    pub fn comment(mut self, comment: impl Into<String>) -> Self {
        self.comment = Some(comment.into());
        self
    }

    /// Encodes the event: once for all clients that get it.
    #[must_use]
    pub fn encode(&self) -> EncodedEvent {
        let mut wire = BytesMut::with_capacity(self.size_hint());
        for line in self.comment.iter().flat_map(|comment| lines(comment)) {
            put_line(&mut wire, "", line);
        }
        if let Some(name) = &self.name {
            put_line(&mut wire, "event", name);
        }
        if let Some(id) = &self.id {
            put_line(&mut wire, "id", id);
        }
        if let Some(retry) = self.retry {
            put_line(&mut wire, "retry", &retry.as_millis().to_string());
        }
        for line in self.data.iter().flat_map(|data| lines(data)) {
            put_line(&mut wire, "data", line);
        }
        wire.put_u8(b'\n');
        EncodedEvent(wire.freeze())
    }

    /// Returns the size of an event whose texts have one line each.
    fn size_hint(&self) -> usize {
        const FIELD: usize = "retry: \n".len();
        let texts = [&self.comment, &self.name, &self.id, &self.data];
        let texts = texts.into_iter().flatten().map(|text| FIELD + text.len());
        texts.sum::<usize>() + if self.retry.is_some() { 2 * FIELD + 20 } else { FIELD }
    }
}

/// The bytes of a [`ServerEvent`]: cheap to clone, for streams that send the same event.
#[derive(Clone, PartialEq, Eq)]
pub struct EncodedEvent(Bytes);

impl EncodedEvent {
    /// A comment without text, which shows both ends that the connection is alive.
    pub(super) const HEARTBEAT: Self = Self(Bytes::from_static(b":\n\n"));

    /// Returns the bytes.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    pub(super) fn into_bytes(self) -> Bytes {
        self.0
    }
}

impl From<ServerEvent> for EncodedEvent {
    fn from(event: ServerEvent) -> Self {
        event.encode()
    }
}

impl fmt::Debug for EncodedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EncodedEvent({:?})", self.0)
    }
}

/// Writes a field. The space behind the colon is not part of the value: it keeps one that a value begins with.
fn put_line(wire: &mut BytesMut, field: &str, value: &str) {
    for part in [field, ": ", value, "\n"] {
        wire.put_slice(part.as_bytes());
    }
}

/// Splits a text at LF, CR and CRLF.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(end) = memchr::memchr2(b'\r', b'\n', text.as_bytes()) else {
            return rest.take();
        };
        let behind = &text[end..];
        rest = Some(behind.strip_prefix("\r\n").unwrap_or(&behind[1..]));
        Some(&text[..end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(event: &ServerEvent) -> String {
        String::from_utf8(event.encode().into_bytes().to_vec()).unwrap()
    }

    #[test]
    fn h10_data_is_split_into_lines_at_lf_cr_and_crlf() {
        let table = [
            ("", "data: \n\n"),
            ("a", "data: a\n\n"),
            (" a: b", "data:  a: b\n\n"),
            ("a\nb\rc\r\nd", "data: a\ndata: b\ndata: c\ndata: d\n\n"),
            ("a\n", "data: a\ndata: \n\n"),
            ("\n\r\r\n", "data: \ndata: \ndata: \ndata: \n\n"),
            ("\u{2028}\u{0}", "data: \u{2028}\u{0}\n\n"),
        ];
        for (data, wire) in table {
            assert_eq!(encoded(&ServerEvent::new(data)), wire, "{data:?}");
        }
    }

    #[test]
    fn h10_an_event_has_each_field_once() {
        let event = ServerEvent::new("d").comment("c1\nc2").retry(Duration::from_micros(1_500_999));
        let event = event.name("n").unwrap().id("").unwrap().id("7").unwrap();
        assert_eq!(encoded(&event), ": c1\n: c2\nevent: n\nid: 7\nretry: 1500\ndata: d\n\n");
        assert_eq!(encoded(&ServerEvent::without_data()), "\n");
        assert_eq!(encoded(&ServerEvent::without_data().id("").unwrap()), "id: \n\n");
    }

    #[test]
    fn h10_names_and_ids_cannot_add_lines() {
        let event = || ServerEvent::new("");
        assert_eq!(event().name("a\nb"), Err(InvalidEvent::Name { at: 1 }));
        assert_eq!(event().name("ab\r"), Err(InvalidEvent::Name { at: 2 }));
        assert_eq!(event().id("\n"), Err(InvalidEvent::Id { at: 0 }));
        assert_eq!(event().id("a\r"), Err(InvalidEvent::Id { at: 1 }));
        assert_eq!(event().id("a\0"), Err(InvalidEvent::Id { at: 1 }));
        assert!(event().name("\0").is_ok());
        let error = Error::from(InvalidEvent::Id { at: 1 });
        assert_eq!(error.find(), Some(&InvalidEvent::Id { at: 1 }));
    }
}
