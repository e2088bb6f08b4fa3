//! The memory that the stream reads of a loop are carved from.

use std::io;
use std::os::fd::BorrowedFd;

use bytes::{Bytes, BytesMut};

use crate::sockets::ancillary::{self, AncillaryRead};
use crate::sockets::socket::Socket;
use crate::sys;

/// 64 KiB: 32 reads of the default 2 KiB for one allocation. Larger reads no longer save a measurable number of
/// system calls.
const BLOCK_SIZE: usize = 64 * 1024;

/// The block that reads are carved from, one after the other. A block is reused when no part of it is held any
/// more; code that keeps a few bytes of a read for long should copy them.
#[derive(Debug, Default)]
pub(super) struct ReadBlock {
    /// The unused part of the block. Its length is always zero.
    free: BytesMut,
}

impl ReadBlock {
    /// Receives at most `size` bytes. An empty result is the end of the stream.
    #[inline]
    pub(super) fn recv(&mut self, fd: BorrowedFd<'_>, size: usize) -> rustix::io::Result<Bytes> {
        if self.free.capacity() < size {
            self.refill(size);
        }
        sys::recv(fd, &mut self.free, size)
    }

    /// Receives at most `size` bytes and their ancillary data.
    pub(super) fn recv_ancillary(
        &mut self,
        socket: &Socket,
        size: usize,
    ) -> io::Result<(Bytes, AncillaryRead)> {
        if self.free.capacity() < size {
            self.refill(size);
        }
        // Taken out of the field, so that the field is empty even if this function panics.
        let mut block = std::mem::take(&mut self.free);
        block.resize(size, 0);
        let received = ancillary::receive(socket, &mut block, false);
        block.truncate(received.as_ref().map_or(0, |received| received.whole));
        let bytes = block.split().freeze();
        self.free = block;
        received.map(|received| (bytes, received))
    }

    #[cold]
    fn refill(&mut self, size: usize) {
        self.free.reserve(size.max(BLOCK_SIZE));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn reads_are_carved_one_after_the_other_without_overlap() {
        let (mut there, here) = UnixStream::pair().unwrap();
        let mut block = ReadBlock::default();
        there.write_all(b"abcdefgh").unwrap();
        let reads = [3, 1, 100].map(|size| block.recv(here.as_fd(), size).unwrap());
        assert_eq!(reads, ["abc", "d", "efgh"].map(Bytes::from));
        assert_eq!(reads[0].as_ptr().wrapping_add(3), reads[1].as_ptr(), "both in one block");
        drop(there);
        assert!(block.recv(here.as_fd(), 1).unwrap().is_empty());
    }

    #[test]
    fn a_block_is_reused_unless_a_part_of_it_is_held() {
        let (mut there, here) = UnixStream::pair().unwrap();
        let mut block = ReadBlock::default();
        let mut read = |text: &str, size| {
            there.write_all(text.as_bytes()).unwrap();
            block.recv(here.as_fd(), size).unwrap()
        };
        let first = read("a", BLOCK_SIZE).as_ptr();
        let second = read("b", BLOCK_SIZE);
        assert_eq!(second.as_ptr(), first, "the same memory again");
        let third = read("c", BLOCK_SIZE);
        assert_ne!(third.as_ptr(), first);
        assert_eq!((second, third), (Bytes::from("b"), Bytes::from("c")));
    }
}
