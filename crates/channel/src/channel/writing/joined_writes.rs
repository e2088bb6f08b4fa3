//! Small encoded messages, joined into one part of the outbound buffer (K05).
//!
//! ```text
//!   encode ──► message ──copied──► joined: a b c │ d ──before any other use of the buffer──► outbound buffer
//!              both buffers belong to the loop     ▲
//!                                                  └ flush mark
//! ```
//!
//! A reply of a few bytes costs more as a chunk of its own, with an entry in the queue and an iovec, than as a copy.
//! The messages that encoders write during a call into a channel are collected here, and become one chunk when the
//! call ends and the channel writes. The loop has one such collection, of one channel at a time: the next channel that
//! encodes moves the bytes of the one before to its outbound buffer.
//!
//! Joined are messages of at most [`MAX_JOINED_MESSAGE`] bytes, without a completion of a caller, that pass no other
//! handler on their way to a transport that writes a stream. All others become a chunk at once.

use std::cell::RefCell;
use std::mem;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};

use crate::base::token::Token;
use crate::channel::core::{ChannelCore, DeferredWork};
use crate::channel::writing::WriteState;
use crate::pipeline::Completion;
use crate::pipeline::dispatch::event::Write;

/// The number of bytes allocated at once, and the most bytes that are joined.
const BLOCK_SIZE: usize = 4 * 1024;

/// The longest message that is copied: a payload of 512 bytes with its header. A longer one is cheaper as a chunk of
/// its own.
const MAX_JOINED_MESSAGE: usize = 640;

/// The buffers in which the encoders of a loop write. No user code runs while this is borrowed.
#[derive(Default)]
pub(crate) struct EncodeBuffers(RefCell<EncodeState>);

#[derive(Default)]
struct EncodeState {
    /// The buffer for the next message. Empty, with spare capacity; absent while a message is being encoded.
    message: BytesMut,
    /// Messages of the channel `owner` that are not in its outbound buffer yet.
    joined: BytesMut,
    /// The number of bytes of `joined` that are flushed.
    flushed: usize,
    /// The channel that the joined messages belong to.
    owner: Option<Token>,
}

impl EncodeBuffers {
    /// Takes the buffer for the next message, which is empty.
    fn begin_message(&self) -> BytesMut {
        let mut buffer = mem::take(&mut self.0.borrow_mut().message);
        if buffer.capacity() == 0 {
            buffer.reserve(BLOCK_SIZE);
        }
        buffer
    }

    /// Returns the buffer of a message that was copied or could not be encoded.
    fn discard_message(&self, mut buffer: BytesMut) {
        buffer.clear();
        self.keep(buffer);
    }

    /// Takes the message out of its buffer, and keeps the spare capacity.
    fn take_message(&self, mut buffer: BytesMut) -> Bytes {
        // A large message takes the buffer with it: otherwise the large buffer would live as long as the loop.
        if buffer.len() > BLOCK_SIZE {
            return buffer.freeze();
        }
        let message = buffer.split().freeze();
        self.keep(buffer);
        message
    }

    fn keep(&self, buffer: BytesMut) {
        if buffer.capacity() <= BLOCK_SIZE {
            self.0.borrow_mut().message = buffer;
        }
    }

    /// Appends a message to those of the same channel. Returns the message if they would be too many bytes together.
    fn append(&self, message: BytesMut) -> Result<(), BytesMut> {
        let mut state = self.0.borrow_mut();
        if state.joined.len() + message.len() > BLOCK_SIZE {
            return Err(message);
        }
        state.joined.extend_from_slice(&message);
        drop(state);
        self.discard_message(message);
        Ok(())
    }

    /// Begins the joined messages of a channel with a first one. No other channel has any.
    fn begin_joined(&self, owner: Token, message: BytesMut) {
        let mut state = self.0.borrow_mut();
        state.owner = Some(owner);
        state.flushed = 0;
        if message.capacity() > BLOCK_SIZE {
            // The encoder has reserved more than it needed: the part does not keep that memory.
            state.joined.extend_from_slice(&message);
            return;
        }
        let spare = mem::replace(&mut state.joined, message);
        drop(state);
        self.keep(spare);
    }

    fn flush(&self) {
        let mut state = self.0.borrow_mut();
        state.flushed = state.joined.len();
    }

    /// Takes the joined messages, with the number of flushed bytes. `as_copy` takes a copy of the exact size, so that
    /// bytes that stay in an outbound buffer for a while do not keep a whole block.
    fn take_joined(&self, as_copy: bool) -> (Bytes, usize) {
        let mut state = self.0.borrow_mut();
        state.owner = None;
        let flushed = mem::take(&mut state.flushed);
        let bytes = if as_copy {
            let bytes = Bytes::copy_from_slice(&state.joined);
            state.joined.clear();
            bytes
        } else {
            state.joined.split().freeze()
        };
        (bytes, flushed)
    }
}

impl ChannelCore {
    /// Returns an empty buffer to encode a message in.
    #[inline(never)]
    pub(crate) fn begin_message(&self) -> BytesMut {
        self.here.channels().encode_buffers.begin_message()
    }

    /// Drops what was encoded.
    #[cold]
    pub(crate) fn discard_message(&self, message: BytesMut) {
        self.here.channels().encode_buffers.discard_message(message);
    }

    /// Writes a message that was encoded in the loop's buffer, from the slot `from`.
    #[inline(never)]
    pub(crate) fn write_message(self: &Rc<Self>, from: u32, message: BytesMut, done: Completion) {
        if (done.is_none() || done.is_part()) && self.may_join(from, message.len()) {
            self.join_message(message);
            done.succeed(); // A joined message is not refused any more.
        } else {
            let bytes = self.here.channels().encode_buffers.take_message(message);
            self.send_from(from, Write(bytes.into(), done));
        }
    }

    /// True if a message without a completion, written by the slot `from`, would be appended to the outbound buffer
    /// as it is.
    fn may_join(self: &Rc<Self>, from: u32, size: usize) -> bool {
        if size == 0 || size > MAX_JOINED_MESSAGE {
            return false;
        }
        self.is_last_for_writes(from) && self.takes_bytes_now(size)
    }

    fn join_message(self: &Rc<Self>, message: BytesMut) {
        let buffers = &self.here.channels().encode_buffers;
        self.set_pending(self.pending() + message.len());
        let message = match self.has_joined.get() {
            true => match buffers.append(message) {
                Ok(()) => return,
                Err(message) => {
                    self.end_joining();
                    message
                }
            },
            false => {
                self.here.channels().end_joining();
                message
            }
        };
        buffers.begin_joined(self.token(), message);
        self.has_joined.set(true);
    }

    /// Moves the joined messages of this channel to its outbound buffer.
    #[inline(never)]
    pub(super) fn end_joining(&self) {
        self.has_joined.set(false);
        let mut out = self.outbound.borrow_mut();
        // Bytes that the transport does not take at once may stay for long.
        let stays = self.write_state.get() != WriteState::Free || !out.is_empty();
        let (mut bytes, flushed) = self.here.channels().encode_buffers.take_joined(stays);
        if flushed > 0 {
            let rest = bytes.split_off(flushed);
            out.push_bytes(bytes);
            // Everything before was flushed with these bytes: nothing can have been cancelled since.
            let cancelled = out.flush();
            debug_assert!(cancelled.is_none(), "an unflushed write before flushed bytes");
            bytes = rest;
        }
        if !bytes.is_empty() {
            out.push_bytes(bytes);
        }
    }

    /// Flushes a channel that has joined messages.
    #[inline(never)]
    pub(super) fn flush_joined(self: &Rc<Self>) {
        self.here.channels().encode_buffers.flush();
        if self.outbound.borrow().has_messages() {
            self.flush_awaited();
        }
        // Joined messages are below the high water mark, but bytes that handlers hold may have come after them.
        if self.pending() > self.options().water_marks.high() {
            self.write_out();
        } else {
            self.mark_deferred(DeferredWork::FLUSH);
        }
    }
}

impl crate::channel::loop_channels::LoopChannels {
    /// Moves the joined messages of whichever channel has some to its outbound buffer.
    fn end_joining(&self) {
        let owner = self.encode_buffers.0.borrow().owner;
        if let Some(owner) = owner {
            match self.find(owner) {
                Some(core) => core.end_joining(),
                // A closed channel has moved its messages before; this one was dropped with its loop's table.
                None => drop(self.encode_buffers.take_joined(false)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::BufMut;

    use super::*;

    #[test]
    fn k14_small_messages_keep_no_memory_that_their_encoder_has_reserved() {
        let buffers = EncodeBuffers::default();
        for round in 0..3 {
            let mut message = buffers.begin_message();
            assert!(message.capacity() <= BLOCK_SIZE, "in round {round}");
            message.reserve(1 << 20);
            message.put_slice(b"abc");
            buffers.begin_joined(Token::NONE, message);
            let mut second = buffers.begin_message();
            second.reserve(1 << 20);
            second.put_slice(b"def");
            assert!(buffers.append(second).is_ok());
            assert_eq!(buffers.take_joined(false), (Bytes::from_static(b"abcdef"), 0));
            let state = buffers.0.borrow();
            assert!(state.joined.capacity() + state.message.capacity() <= 2 * BLOCK_SIZE);
        }
    }
}
