//! RESP commands: a name and arguments.

use std::fmt;
use std::mem;
use std::ops::{Index, Range};

use bytes::{BufMut, Bytes, BytesMut};
use waterwheel_channel::Message;

use super::value::put_number;

/// Maximum number of arguments stored without an allocation: `SET key value EX 10 NX` has six.
const INLINE: usize = 6;

/// A command: written by clients, read by servers. The name is the first argument.
///
/// A command is stored as its wire bytes, in one buffer, with the positions of its arguments.
///
/// ```
/// use waterwheel_codec::RespCommand;
///
/// let command = RespCommand::new(&["SET", "greeting", "hello"]);
/// assert_eq!(command.wire(), "*3\r\n$3\r\nSET\r\n$8\r\ngreeting\r\n$5\r\nhello\r\n");
/// assert!(command.is("set"));
/// assert_eq!(command.len(), 3);
/// assert_eq!(&command[1], b"greeting");
/// assert_eq!(command.get(3), None);
/// // To store an argument: a slice of the same buffer, or a copy that does not keep the buffer alive.
/// assert_eq!(command.argument(2).unwrap(), "hello");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct RespCommand {
    wire: Bytes,
    spans: Spans,
}

impl RespCommand {
    /// Creates a command from its name and arguments.
    #[must_use]
    pub fn new<A: AsRef<[u8]>>(arguments: &[A]) -> Self {
        let size: usize = arguments.iter().map(|argument| argument.as_ref().len() + 16).sum();
        let mut wire = BytesMut::with_capacity(size + 16);
        let mut spans = Spans::default();
        put_number(&mut wire, b'*', arguments.len() as i64);
        for argument in arguments {
            let argument = argument.as_ref();
            put_number(&mut wire, b'$', argument.len() as i64);
            spans.push(wire.len()..wire.len() + argument.len());
            wire.put_slice(argument);
            wire.put_slice(b"\r\n");
        }
        Self { wire: wire.freeze(), spans }
    }

    pub(super) fn of_wire(wire: Bytes, spans: Spans) -> Self {
        Self { wire, spans }
    }

    /// Returns the encoded command.
    #[must_use]
    pub fn wire(&self) -> &Bytes {
        &self.wire
    }

    pub(super) fn into_wire(self) -> Bytes {
        self.wire
    }

    /// Returns the number of arguments, including the name.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// True if the command has neither name nor arguments. Decoders never return an empty command.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if this is the name of the command, ignoring case.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.get(0).is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()))
    }

    /// Returns an argument; 0 is the name.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        self.spans.get(index).map(|span| &self.wire[span])
    }

    /// Returns an argument as a slice of the read buffer: no copy, but the whole buffer stays allocated.
    #[must_use]
    pub fn argument(&self, index: usize) -> Option<Bytes> {
        self.spans.get(index).map(|span| self.wire.slice(span))
    }

    /// Returns the arguments in order, the name first.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

impl Index<usize> for RespCommand {
    type Output = [u8];

    /// # Panics
    /// If the command has fewer arguments.
    fn index(&self, index: usize) -> &[u8] {
        match self.get(index) {
            Some(argument) => argument,
            None => panic!("argument {index} of a command with {}", self.len()),
        }
    }
}

impl Message for RespCommand {
    fn size_hint(&self) -> usize {
        self.wire.len()
    }
}

impl fmt::Debug for RespCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RespCommand")?;
        f.debug_list()
            .entries(self.iter().map(|argument| argument.escape_ascii().to_string()))
            .finish()
    }
}

/// The positions of the arguments in a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Spans {
    length: usize,
    first: [Span; INLINE],
    more: Vec<Span>,
}

/// Start and end of an argument. 32 bits are enough: `RespCommandDecoder` limits the length of a command.
type Span = (u32, u32);

impl Spans {
    pub(super) fn push(&mut self, span: Range<usize>) {
        let span = (span.start as u32, span.end as u32);
        match self.first.get_mut(self.length) {
            Some(free) => *free = span,
            None => self.more.push(span),
        }
        self.length += 1;
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn take(&mut self) -> Self {
        mem::take(self)
    }

    fn get(&self, index: usize) -> Option<Range<usize>> {
        if index >= self.length {
            return None;
        }
        let span =
            if index < INLINE { self.first.get(index) } else { self.more.get(index - INLINE) };
        span.map(|&(start, end)| start as usize..end as usize)
    }
}
