//! Files and ancillary messages among the bytes of a stream (C07, C13).
//!
//! ```text
//!   bytes ── piece, then its bytes ── piece, then its bytes ── …
//!   ▲                 ▲
//!   │                 └ move to the front when their piece was sent
//!   └ given to the driver in one gathering write (writev)
//! ```
//!
//! A driver gets the bytes before the next piece, then that piece. The bytes at the front are kept by the owner
//! of this queue: a stream without files and ancillary messages consists of its bytes alone.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::base::queue_capacity::shrink_if_empty;
use crate::channel::writing::drop_queue::DropQueue;
use crate::driver::OutQueue;
use crate::payload::{AncillaryMessage, FileRegion};
use crate::pipeline::Msg;

#[derive(Default)]
pub(super) struct StreamPieces {
    parts: VecDeque<PieceAndBytes>,
    /// The number of flushed pieces, which may be sent.
    flushed: usize,
}

struct PieceAndBytes {
    /// A piece that is not empty.
    piece: StreamPiece,
    /// The bytes after the piece.
    bytes: OutQueue,
}

/// A part of a stream that a driver sends in a call of its own.
pub(super) enum StreamPiece {
    /// A file region. Its pending size stays the same until all of it is sent.
    File(FileRegion),
    /// Bytes with file descriptors. The pending size is the rest of the bytes, plus a constant for each descriptor
    /// until the first byte is sent.
    AncillaryMessage(AncillaryMessage),
}

impl StreamPiece {
    /// Converts a message, or returns it if it is neither a file nor an ancillary message.
    pub(super) fn of(msg: Msg) -> Result<Self, Msg> {
        match msg.take::<FileRegion>() {
            Ok(file) => Ok(StreamPiece::File(file)),
            Err(msg) => msg.take().map(StreamPiece::AncillaryMessage),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            StreamPiece::File(file) => file.is_empty(),
            StreamPiece::AncillaryMessage(ancillary) => ancillary.bytes.is_empty(),
        }
    }

    /// Removes `n` sent bytes. Returns the pending bytes that this has freed.
    fn advance(&mut self, n: usize, drop_queue: &mut DropQueue) -> usize {
        match self {
            StreamPiece::File(file) => {
                file.advance(n);
                if file.is_empty() { FileRegion::PENDING_BYTES } else { 0 }
            }
            StreamPiece::AncillaryMessage(ancillary) => {
                let freed = n + ancillary.passed_pending_bytes();
                let passed = ancillary.advance(n);
                if !passed.is_empty() {
                    drop_queue.push(AncillaryMessage::new(Bytes::new(), passed).into());
                }
                freed
            }
        }
    }
}

impl From<StreamPiece> for Msg {
    fn from(piece: StreamPiece) -> Self {
        match piece {
            StreamPiece::File(file) => file.into(),
            StreamPiece::AncillaryMessage(ancillary) => ancillary.into(),
        }
    }
}

impl StreamPieces {
    /// Returns the next piece, if no bytes are before it and it is flushed.
    pub(super) fn next(&self, front: &OutQueue) -> Option<&StreamPiece> {
        let part = self.parts.front().filter(|_| self.flushed > 0 && front.is_empty());
        part.map(|part| &part.piece)
    }

    pub(super) fn is_ancillary_next(&self, front: &OutQueue) -> bool {
        matches!(self.next(front), Some(StreamPiece::AncillaryMessage(_)))
    }

    /// Removes the ancillary message that is next and will not be sent.
    pub(super) fn take_ancillary(&mut self, front: &mut OutQueue) -> Option<AncillaryMessage> {
        if !self.is_ancillary_next(front) {
            return None;
        }
        match self.take_front(front)? {
            StreamPiece::AncillaryMessage(ancillary) => Some(ancillary),
            StreamPiece::File(_) => None,
        }
    }

    fn take_front(&mut self, front: &mut OutQueue) -> Option<StreamPiece> {
        let PieceAndBytes { piece, bytes } = self.parts.pop_front()?;
        *front = bytes;
        self.flushed -= 1;
        Some(piece)
    }

    /// Returns the queue that bytes are appended to.
    pub(super) fn last<'a>(&'a mut self, front: &'a mut OutQueue) -> &'a mut OutQueue {
        self.parts.back_mut().map_or(front, |part| &mut part.bytes)
    }

    /// Appends an unflushed piece, unless it is empty.
    pub(super) fn push_unflushed(&mut self, piece: StreamPiece) {
        if !piece.is_empty() {
            self.parts.push_back(PieceAndBytes { piece, bytes: OutQueue::new() });
        }
    }

    /// Flushes all pieces, and the bytes after them.
    pub(super) fn flush(&mut self) {
        // The bytes after a piece that was flushed before may be unflushed.
        let from = self.flushed.saturating_sub(1);
        self.parts.range_mut(from..).for_each(|part| part.bytes.flush());
        self.flushed = self.parts.len();
    }

    /// Removes and returns the unflushed bytes and pieces, which stay unflushed.
    pub(super) fn split_unflushed(&mut self, front: &mut OutQueue) -> (OutQueue, StreamPieces) {
        let parts = self.parts.split_off(self.flushed);
        // Nothing is unflushed before a flushed piece.
        (self.last(front).split_unflushed(), StreamPieces { parts, flushed: 0 })
    }

    /// Returns all messages, flushed or not.
    pub(super) fn into_messages(self, front: OutQueue) -> impl Iterator<Item = Msg> {
        let parts = self.parts.into_iter().flat_map(|PieceAndBytes { piece, bytes }| {
            std::iter::once(Msg::from(piece)).chain(bytes.into_chunks().map(Msg::from))
        });
        front.into_chunks().map(Msg::from).chain(parts)
    }

    /// Removes `n` written bytes, and moves fully written chunks and pieces to `drop_queue`. Returns the pending bytes
    /// that this has freed.
    ///
    /// # Panics
    /// If fewer than `n` bytes are queued before the next piece or in it.
    pub(super) fn advance(
        &mut self,
        front: &mut OutQueue,
        n: usize,
        drop_queue: &mut DropQueue,
    ) -> usize {
        let next = self.parts.front_mut().filter(|_| self.flushed > 0 && front.is_empty());
        let Some(part) = next else {
            front.advance_with(n, |chunk| drop_queue.push(chunk.into()));
            if let Some(last) = front.take_written_chunk() {
                drop_queue.push(last.into());
            }
            return n;
        };
        let freed = part.piece.advance(n, drop_queue);
        if part.piece.is_empty()
            && let Some(piece) = self.take_front(front)
        {
            drop_queue.push(piece.into());
        }
        freed
    }

    /// Shrinks the queue after a burst.
    pub(super) fn shrink_if_empty(&mut self) {
        shrink_if_empty(&mut self.parts);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    /// The bytes at the front and the pieces, as a stream has them.
    #[derive(Default)]
    struct TestStream(OutQueue, StreamPieces);

    impl TestStream {
        /// Creates a stream from letters: small letters are bytes, capitals are ancillary messages of one byte,
        /// digits are files of that many bytes.
        fn of(what: &str) -> Self {
            let mut stream = Self::default();
            stream.push_unflushed(what);
            stream
        }

        fn push_unflushed(&mut self, what: &str) {
            for letter in what.chars() {
                let bytes = Bytes::from(letter.to_string());
                match letter.to_digit(10) {
                    Some(len) => self.1.push_unflushed(StreamPiece::File(file(len.into()))),
                    None if letter.is_uppercase() => {
                        self.1.push_unflushed(StreamPiece::AncillaryMessage(
                            AncillaryMessage::new(bytes, Vec::new()),
                        ));
                    }
                    None => self.1.last(&mut self.0).push_unflushed(bytes),
                }
            }
        }

        fn flush(&mut self) {
            self.0.flush();
            self.1.flush();
        }

        fn split_unflushed(&mut self) -> Self {
            let (front, files) = self.1.split_unflushed(&mut self.0);
            Self(front, files)
        }

        fn advance(&mut self, n: usize) -> usize {
            self.1.advance(&mut self.0, n, &mut DropQueue::default())
        }

        fn shown(self) -> String {
            let messages = self.1.into_messages(self.0).map(|msg| match msg.into_bytes() {
                Ok(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
                Err(msg) => match StreamPiece::of(msg).unwrap() {
                    StreamPiece::File(file) => file.len().to_string(),
                    StreamPiece::AncillaryMessage(ancillary) => {
                        String::from_utf8(ancillary.bytes.to_vec()).unwrap()
                    }
                },
            });
            messages.collect()
        }

        /// Returns the parts that a driver gets, call by call.
        fn written(&mut self) -> Vec<String> {
            let mut written = Vec::new();
            loop {
                if let Some(StreamPiece::AncillaryMessage(ancillary)) = self.1.next(&self.0) {
                    written.push(String::from_utf8(ancillary.bytes.to_vec()).unwrap());
                    assert_eq!(self.advance(1), 1);
                } else if let Some(StreamPiece::File(file)) = self.1.next(&self.0) {
                    let len = file.len();
                    written.push(len.to_string());
                    for left in (0..len).rev() {
                        let expected = if left == 0 { FileRegion::PENDING_BYTES } else { 0 };
                        assert_eq!(self.advance(1), expected);
                    }
                } else if !self.0.is_empty() {
                    let bytes: Vec<u8> = self.0.chunks().flatten().copied().collect();
                    assert_eq!(self.advance(bytes.len()), bytes.len());
                    written.push(String::from_utf8(bytes).unwrap());
                } else {
                    return written;
                }
            }
        }
    }

    fn file(len: u64) -> FileRegion {
        FileRegion::new(File::open("Cargo.toml").unwrap(), ..len).unwrap()
    }

    #[test]
    fn c07_bytes_files_and_ancillary_messages_come_in_order() {
        let mut stream = TestStream::of("ab2cD3E4FdefG05");
        stream.flush();
        let expected = ["ab", "2", "c", "D", "3", "E", "4", "F", "def", "G", "5"];
        assert_eq!(stream.written(), expected);
        stream.push_unflushed("g6");
        stream.flush();
        assert_eq!(stream.written(), ["g", "6"]);
    }

    #[test]
    fn c07_unflushed_parts_are_not_given_to_a_driver_wherever_the_flush_mark_is() {
        let all = "ab2cP34deQR5";
        for mark in 0..=all.len() {
            let mut stream = TestStream::of(&all[..mark]);
            stream.flush();
            stream.push_unflushed(&all[mark..]);
            assert_eq!(stream.written().concat(), all[..mark]);
            stream.flush();
            assert_eq!(stream.written().concat(), all[mark..]);
        }
    }

    #[test]
    fn c07_unflushed_parts_are_taken_out_wherever_the_flush_mark_is() {
        let all = "ab2cP34deQR5";
        for mark in 0..=all.len() {
            let mut flushed = TestStream::of(&all[..mark]);
            flushed.flush();
            flushed.push_unflushed(&all[mark..]);
            let mut unflushed = flushed.split_unflushed();
            assert_eq!(unflushed.written(), [""; 0], "there too it is unflushed");
            assert_eq!(unflushed.shown(), all[mark..]);
            assert_eq!(flushed.written().concat(), all[..mark]);
        }
    }

    #[test]
    fn c13_descriptors_leave_with_the_first_byte_of_an_ancillary_message_sent_in_parts() {
        let mut stream = TestStream::default();
        stream.1.push_unflushed(StreamPiece::AncillaryMessage(AncillaryMessage::new(
            "abc",
            vec![crate::driver::Io::new(7_u8)],
        )));
        stream.flush();
        for (sent, left) in [(1 + AncillaryMessage::PASSED_PENDING_BYTES, "bc"), (1, "c")] {
            assert_eq!(stream.advance(1), sent);
            let Some(StreamPiece::AncillaryMessage(ancillary)) = stream.1.next(&stream.0) else {
                panic!("more is left")
            };
            assert_eq!((&*ancillary.bytes, ancillary.passed.len()), (left.as_bytes(), 0));
        }
        stream.advance(1);
        assert!(stream.1.next(&stream.0).is_none());
    }

    #[test]
    #[should_panic(expected = "reported 4 bytes sent, but 3 are left in the region")]
    fn a_driver_cannot_send_more_than_the_file() {
        let mut stream = TestStream::of("3a");
        stream.flush();
        stream.advance(4);
    }
}
