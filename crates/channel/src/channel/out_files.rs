//! The files among what a stream is to write (C07).
//!
//! ```text
//!   bytes ── file, then its bytes ── file, then its bytes ── …
//!   ▲                ▲
//!   │                └ move to the front when their file was sent
//!   └ what a driver is given, to be gathered in one write
//! ```
//!
//! A driver is given bytes up to the next file, then that file. The bytes at the front are kept by whoever
//! has these: a stream without files is its bytes, and nothing else.

use std::collections::VecDeque;

use crate::driver::OutQueue;
use crate::file_region::FileRegion;
use crate::pipeline::Msg;

#[derive(Default)]
pub(super) struct OutFiles {
    parts: VecDeque<Part>,
    /// How many of the files may be sent; the others are held back until they are flushed.
    released: usize,
}

struct Part {
    /// Not empty.
    file: FileRegion,
    /// What follows it.
    bytes: OutQueue,
}

/// So much was written.
pub(super) struct Progress {
    /// So much lighter is what is left.
    pub(super) lighter: usize,
    /// It was of a file.
    pub(super) of_file: bool,
}

impl OutFiles {
    /// The file that is next, if it is one.
    pub(super) fn next(&self, front: &OutQueue) -> Option<&FileRegion> {
        let part = self.parts.front().filter(|_| self.released > 0 && front.is_empty());
        part.map(|part| &part.file)
    }

    /// Where bytes are appended.
    pub(super) fn last<'a>(&'a mut self, front: &'a mut OutQueue) -> &'a mut OutQueue {
        self.parts.back_mut().map_or(front, |part| &mut part.bytes)
    }

    /// Appends a file that is not to be sent yet, unless it is empty.
    pub(super) fn hold(&mut self, file: FileRegion) {
        if !file.is_empty() {
            self.parts.push_back(Part { file, bytes: OutQueue::new() });
        }
    }

    /// What was held back is to be written, as are the bytes at the front.
    pub(super) fn release(&mut self) {
        // What follows a file that was released before may have been held back.
        let from = self.released.saturating_sub(1);
        self.parts.range_mut(from..).for_each(|part| part.bytes.release());
        self.released = self.parts.len();
    }

    /// Takes out what is held back; there too it is held.
    pub(super) fn split_held(&mut self, front: &mut OutQueue) -> (OutQueue, OutFiles) {
        let parts = self.parts.split_off(self.released);
        // Before a file that is not held back nothing is.
        (self.last(front).split_held(), OutFiles { parts, released: 0 })
    }

    /// All of it, held back or not.
    pub(super) fn into_messages(self, front: OutQueue) -> impl Iterator<Item = Msg> {
        let parts = self.parts.into_iter().flat_map(|Part { file, bytes }| {
            std::iter::once(Msg::from(file)).chain(bytes.into_chunks().map(Msg::from))
        });
        front.into_chunks().map(Msg::from).chain(parts)
    }

    /// Takes the first `n` bytes out: they were written.
    ///
    /// # Panics
    /// If there are fewer, before the next file or in it.
    pub(super) fn advance(&mut self, front: &mut OutQueue, n: usize) -> Progress {
        let next = self.parts.front_mut().filter(|_| self.released > 0 && front.is_empty());
        let Some(part) = next else {
            front.advance(n);
            return Progress { lighter: n, of_file: false };
        };
        part.file.advance(n);
        if !part.file.is_empty() {
            return Progress { lighter: 0, of_file: true };
        }
        if let Some(part) = self.parts.pop_front() {
            *front = part.bytes;
            self.released -= 1;
        }
        Progress { lighter: FileRegion::WEIGHT, of_file: true }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use bytes::Bytes;

    use super::*;

    /// The two of them, as a stream has them.
    #[derive(Default)]
    struct Both(OutQueue, OutFiles);

    impl Both {
        /// Letters are bytes, digits are files of so many.
        fn of(what: &str) -> Self {
            let mut both = Self::default();
            both.hold(what);
            both
        }

        fn hold(&mut self, what: &str) {
            for letter in what.chars() {
                match letter.to_digit(10) {
                    Some(len) => self.1.hold(file(len.into())),
                    None => self.1.last(&mut self.0).hold(Bytes::from(letter.to_string())),
                }
            }
        }

        fn release(&mut self) {
            self.0.release();
            self.1.release();
        }

        fn split_held(&mut self) -> Self {
            let (front, files) = self.1.split_held(&mut self.0);
            Self(front, files)
        }

        fn shown(self) -> String {
            let messages = self.1.into_messages(self.0).map(|msg| match msg.into_bytes() {
                Ok(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
                Err(msg) => msg.take::<FileRegion>().unwrap().len().to_string(),
            });
            messages.collect()
        }

        /// What a driver is given, one after the other, until there is nothing.
        fn written(&mut self) -> Vec<String> {
            let mut written = Vec::new();
            loop {
                if let Some(len) = self.1.next(&self.0).map(FileRegion::len) {
                    written.push(len.to_string());
                    for left in (0..len).rev() {
                        let progress = self.1.advance(&mut self.0, 1);
                        let expected = if left == 0 { FileRegion::WEIGHT } else { 0 };
                        assert_eq!((progress.lighter, progress.of_file), (expected, true));
                    }
                } else if !self.0.is_empty() {
                    let bytes: Vec<u8> = self.0.chunks().flatten().copied().collect();
                    let progress = self.1.advance(&mut self.0, bytes.len());
                    assert_eq!((progress.lighter, progress.of_file), (bytes.len(), false));
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
    fn c07_bytes_and_files_come_in_order() {
        let mut both = Both::of("ab2c34def05");
        both.release();
        assert_eq!(both.written(), ["ab", "2", "c", "3", "4", "def", "5"]);
        both.hold("g6");
        both.release();
        assert_eq!(both.written(), ["g", "6"]);
    }

    #[test]
    fn c07_what_is_held_back_is_not_given_to_a_driver_wherever_the_mark_is() {
        let all = "ab2c34de5";
        for mark in 0..=all.len() {
            let mut both = Both::of(&all[..mark]);
            both.release();
            both.hold(&all[mark..]);
            assert_eq!(both.written().concat(), all[..mark]);
            both.release();
            assert_eq!(both.written().concat(), all[mark..]);
        }
    }

    #[test]
    fn c07_what_is_held_back_is_taken_out_wherever_the_mark_is() {
        let all = "ab2c34de5";
        for mark in 0..=all.len() {
            let mut flushed = Both::of(&all[..mark]);
            flushed.release();
            flushed.hold(&all[mark..]);
            let mut held = flushed.split_held();
            assert_eq!(held.written(), [""; 0], "there too it is held");
            assert_eq!(held.shown(), all[mark..]);
            assert_eq!(flushed.written().concat(), all[..mark]);
        }
    }

    #[test]
    #[should_panic(expected = "4 bytes sent of 3")]
    fn more_than_the_file_cannot_have_been_sent() {
        let mut both = Both::of("3a");
        both.release();
        both.1.advance(&mut both.0, 4);
    }
}
