//! The decoder of event streams, for clients.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};

/// An event as the code of a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedEvent {
    /// The name; `message` if the server has sent none.
    pub name: String,
    /// The data, with LF between its lines.
    pub data: String,
    /// The last id that the server has sent, with this event or an earlier one; empty without one. Events share it: a
    /// stream of short events behind a long id costs no copies.
    pub id: Arc<str>,
}

/// The reason why an event stream cannot be read on.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum EventStreamError {
    /// A line is too long.
    #[error("a line of the event stream is longer than {limit} bytes")]
    LineTooLong {
        /// The limit.
        limit: usize,
    },
    /// The data of an event is too long.
    #[error("the data of an event is longer than {limit} bytes")]
    EventTooLong {
        /// The limit.
        limit: usize,
    },
}

/// Decodes an event stream (`text/event-stream`) by the rules of the HTML standard. A state machine over bytes: knows no
/// channel.
///
/// An event that the stream ends in the middle of is dropped, as the standard says.
///
/// ```
/// use bytes::Bytes;
/// use waterwheel_http::EventDecoder;
///
/// let mut decoder = EventDecoder::new();
/// let mut bytes = Bytes::from_static(b"id: 7\ndata: hello\n\ndata: unfin");
/// let event = decoder.decode(&mut bytes)?.unwrap();
/// assert_eq!((&*event.name, &*event.data, &*event.id), ("message", "hello", "7"));
/// assert_eq!(decoder.decode(&mut bytes)?, None);
/// # Ok::<(), waterwheel_http::EventStreamError>(())
/// ```
#[derive(Clone, Debug)]
pub struct EventDecoder {
    max_line: usize,
    max_event: usize,
    start: StreamStart,
    /// True behind a CR: an LF that follows is part of the same line end.
    skips_lf: bool,
    /// The line that has not ended.
    line: Vec<u8>,
    data: String,
    name: String,
    /// The id that the next event confirms.
    next_id: Arc<str>,
    id: Arc<str>,
    retry: Option<Duration>,
    error: Option<EventStreamError>,
}

/// The progress at the start of the stream, where a byte order mark is skipped.
#[derive(Clone, Copy, Debug)]
enum StreamStart {
    /// The number of its bytes that have been seen.
    Mark(usize),
    Passed,
}

const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

impl EventDecoder {
    /// The default limit of a line.
    pub const DEFAULT_MAX_LINE: usize = 64 * 1024;
    /// The default limit of the data of an event.
    pub const DEFAULT_MAX_EVENT: usize = 1024 * 1024;

    /// Creates a decoder with the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self {
            max_line: Self::DEFAULT_MAX_LINE,
            max_event: Self::DEFAULT_MAX_EVENT,
            start: StreamStart::Mark(0),
            skips_lf: false,
            line: Vec::new(),
            data: String::new(),
            name: String::new(),
            next_id: Arc::default(),
            id: Arc::default(),
            retry: None,
            error: None,
        }
    }

    /// Sets the limit of a line, in bytes without its end.
    #[must_use]
    pub fn max_line(mut self, limit: usize) -> Self {
        self.max_line = limit;
        self
    }

    /// Sets the limit of the data of an event, in bytes, with an LF per line.
    #[must_use]
    pub fn max_event(mut self, limit: usize) -> Self {
        self.max_event = limit;
        self
    }

    /// Decodes up to the next event, and consumes the bytes of it. Returns `None` if more bytes are needed: all of
    /// `bytes` have been consumed then.
    ///
    /// # Errors
    /// A limit is exceeded. The stream cannot be read on: further calls return the same error.
    pub fn decode(&mut self, bytes: &mut Bytes) -> Result<Option<ReceivedEvent>, EventStreamError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let decoded = self.decode_lines(bytes);
        self.error = decoded.as_ref().err().copied();
        decoded
    }

    /// Returns the id that a client names when it connects again; empty without one.
    #[must_use]
    pub fn last_event_id(&self) -> &str {
        &self.id
    }

    /// Returns the time to wait before connecting again, if the server has set it.
    #[must_use]
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    fn decode_lines(
        &mut self,
        bytes: &mut Bytes,
    ) -> Result<Option<ReceivedEvent>, EventStreamError> {
        self.skip_mark(bytes);
        while !bytes.is_empty() {
            if std::mem::take(&mut self.skips_lf) && bytes[0] == b'\n' {
                bytes.advance(1);
                continue;
            }
            let end = memchr::memchr2(b'\r', b'\n', bytes);
            let part = bytes.split_to(end.unwrap_or(bytes.len()));
            if self.line.len() + part.len() > self.max_line {
                return Err(EventStreamError::LineTooLong { limit: self.max_line });
            }
            if end.is_none() {
                self.line.extend_from_slice(&part);
                break;
            }
            self.skips_lf = bytes.get_u8() == b'\r';
            let event = if self.line.is_empty() {
                self.end_line(&part)
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(&part);
                let event = self.end_line(&line);
                line.clear();
                self.line = line;
                event
            };
            if let Some(event) = event? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Skips a byte order mark, of which every byte may come by itself.
    fn skip_mark(&mut self, bytes: &mut Bytes) {
        while let StreamStart::Mark(seen) = self.start {
            let Some(&first) = bytes.first() else { return };
            if first != BYTE_ORDER_MARK[seen] {
                // The bytes belong to the first line.
                self.line.extend_from_slice(&BYTE_ORDER_MARK[..seen]);
                self.start = StreamStart::Passed;
                return;
            }
            bytes.advance(1);
            self.start = match seen + 1 {
                len if len == BYTE_ORDER_MARK.len() => StreamStart::Passed,
                seen => StreamStart::Mark(seen),
            };
        }
    }

    /// Takes a line without its end. Returns the event that it ends.
    fn end_line(&mut self, line: &[u8]) -> Result<Option<ReceivedEvent>, EventStreamError> {
        if line.is_empty() {
            return Ok(self.end_event());
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = String::from_utf8_lossy(value.strip_prefix(b" ").unwrap_or(value));
        match field {
            b"data" => self.add_data(&value)?,
            b"event" => self.name = value.into_owned(),
            b"id" if !value.contains('\0') => self.next_id = Arc::from(value),
            b"retry" => self.retry = parse_retry(&value).or(self.retry),
            // A comment, or a field of another standard.
            _ => {}
        }
        Ok(None)
    }

    fn add_data(&mut self, value: &str) -> Result<(), EventStreamError> {
        if self.data.len() + value.len() + 1 > self.max_event {
            return Err(EventStreamError::EventTooLong { limit: self.max_event });
        }
        self.data.push_str(value);
        self.data.push('\n');
        Ok(())
    }

    fn end_event(&mut self) -> Option<ReceivedEvent> {
        self.id = Arc::clone(&self.next_id);
        let mut data = std::mem::take(&mut self.data);
        let mut name = std::mem::take(&mut self.name);
        data.pop()?;
        if name.is_empty() {
            name.push_str("message");
        }
        Some(ReceivedEvent { name, data, id: Arc::clone(&self.id) })
    }
}

impl Default for EventDecoder {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns a number of milliseconds; `None` unless it is made of digits alone and fits.
fn parse_retry(value: &str) -> Option<Duration> {
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    let millis = is_number.then(|| value.parse().ok()).flatten()?;
    Some(Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream, and the names, data and ids of its events.
    type Row = (&'static [u8], &'static [(&'static str, &'static str, &'static str)]);

    type Decoded = (Vec<(String, String, String)>, Option<EventStreamError>);

    fn decode(mut decoder: EventDecoder, pieces: &[&[u8]]) -> Decoded {
        let mut events = Vec::new();
        for piece in pieces {
            let mut bytes = Bytes::copy_from_slice(piece);
            loop {
                match decoder.decode(&mut bytes) {
                    Ok(Some(event)) => events.push((event.name, event.data, event.id.to_string())),
                    Ok(None) => break,
                    Err(error) => {
                        assert_eq!(decoder.decode(&mut bytes), Err(error), "the error stays");
                        return (events, Some(error));
                    }
                }
            }
            assert!(bytes.is_empty());
        }
        (events, None)
    }

    fn check(make: impl Fn() -> EventDecoder, wire: &[u8], events: &[(&str, &str, &str)]) {
        let events = events.iter().map(|(n, d, i)| (n.to_string(), d.to_string(), i.to_string()));
        let expected: (Vec<_>, _) = (events.collect(), None);
        assert_eq!(decode(make(), &[wire]), expected, "{wire:?}");
        for cut in 0..=wire.len() {
            let (front, back) = wire.split_at(cut);
            assert_eq!(decode(make(), &[front, back]), expected, "{wire:?} cut at {cut}");
        }
        let bytes: Vec<_> = wire.chunks(1).collect();
        assert_eq!(decode(make(), &bytes), expected, "{wire:?} byte by byte");
    }

    #[test]
    fn h10_streams_are_read_by_the_rules_of_the_standard() {
        let table: [Row; 19] = [
            (b"", &[]),
            (b"\n\n\r\r\n", &[]),
            (b"data: a\n\n", &[("message", "a", "")]),
            (b"data:a\r\rdata:b\r\n\r\ndata:c\n\n", &[("message", "a", ""), ("message", "b", ""), ("message", "c", "")]),
            (b"data: YHOO\ndata: +2\ndata: 10\n\n", &[("message", "YHOO\n+2\n10", "")]),
            // The examples of the standard.
            (b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
                &[("message", "first event", "1"), ("message", "second event", ""), ("message", " third event", "")]),
            (b"data\n\ndata\ndata\n\ndata:", &[("message", "", ""), ("message", "\n", "")]),
            (b"data:test\n\ndata: test\n\n", &[("message", "test", ""), ("message", "test", "")]),
            (b"event: add\ndata: 1\n\ndata: 2\n\n", &[("add", "1", ""), ("message", "2", "")]),
            (b"event: lost\n\ndata: 2\n\n", &[("message", "2", "")]),
            (b"event: a\nevent:\ndata: 2\n\n", &[("message", "2", "")]),
            (b"id: 1\n\ndata: x\n\n", &[("message", "x", "1")]),
            (b"id: 1\nid: 2\0\ndata: x\n\n", &[("message", "x", "1")]),
            (b"\xef\xbb\xbfdata: x\n\n", &[("message", "x", "")]),
            (b"\xef\xbb\xbf\xef\xbb\xbfdata: x\n\ndata: y\n\n", &[("message", "y", "")]),
            (b"\xef\xbbdata: x\n\ndata: y\n\n", &[("message", "y", "")]),
            (b"data: \xff\xc3\n\n", &[("message", "\u{fffd}\u{fffd}", "")]),
            (b"Data: x\ndata : y\n data: z\nfoo: bar\n\n", &[]),
            (b"data: x\n", &[]),
        ];
        for (wire, events) in table {
            check(EventDecoder::new, wire, events);
        }
    }

    #[test]
    fn h10_the_time_to_wait_is_digits_alone() {
        let table = [
            ("retry: 1500\n", Some(1500)),
            ("retry:0\n", Some(0)),
            ("retry: 1\nretry: +2\nretry: 3s\nretry:\nretry: 99999999999999999999\n", Some(1)),
            ("retry:  2\n", None),
        ];
        for (wire, millis) in table {
            let mut decoder = EventDecoder::new();
            assert_eq!(decoder.decode(&mut Bytes::from_static(wire.as_bytes())), Ok(None));
            assert_eq!(decoder.retry(), millis.map(Duration::from_millis), "{wire}");
        }
    }

    #[test]
    fn h10_the_last_id_is_that_of_the_last_complete_event() {
        let mut decoder = EventDecoder::new();
        let mut bytes = Bytes::from_static(b"id: 1\ndata: x\n\nid: 2\ndata: y\n");
        assert!(decoder.decode(&mut bytes).unwrap().is_some());
        assert_eq!(decoder.decode(&mut bytes), Ok(None));
        assert_eq!(decoder.last_event_id(), "1");
    }

    #[test]
    fn h10_lines_and_events_have_limits() {
        let limited = || EventDecoder::new().max_line(7).max_event(6);
        check(limited, b"data: a\ndata: b\ndata: c\n\n", &[("message", "a\nb\nc", "")]);
        let long_line = Some(EventStreamError::LineTooLong { limit: 7 });
        let long_event = Some(EventStreamError::EventTooLong { limit: 6 });
        let table: [(&[u8], _); 4] = [
            (b"data: ab\n", long_line),
            (b":2345678", long_line),
            (b"data: a\ndata: b\ndata: c\ndata: d\n", long_event),
            (b"data: a\ndata: b\ndata: c\ndata\n", long_event),
        ];
        for (wire, error) in table {
            assert_eq!(decode(limited(), &[wire]), (vec![], error));
            let bytes: Vec<_> = wire.chunks(1).collect();
            assert_eq!(decode(limited(), &bytes), (vec![], error), "byte by byte");
        }
        let mut line = vec![b':'; EventDecoder::DEFAULT_MAX_LINE];
        assert_eq!(decode(EventDecoder::new(), &[&line]).1, None);
        line.push(b'a');
        let limit = EventDecoder::DEFAULT_MAX_LINE;
        assert_eq!(
            decode(EventDecoder::new(), &[&line]).1,
            Some(EventStreamError::LineTooLong { limit })
        );
    }
}
