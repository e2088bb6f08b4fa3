//! The calls of a connection: those that wait to be written, and those that wait for their answers. Redis answers in order.
//!
//! Redis works off what it has read of a pipeline before it sends the first answer, and ends the connection of a subscriber with
//! too much unsent output. So of the calls with long answers, some are on their way at a time, and the others wait for them:
//! many clients resume at once when a gateway has died.

use std::collections::VecDeque;

use waterwheel::bytes::BytesMut;
use waterwheel::codec::{RespCommand, RespValue};
use waterwheel::executor::Promise;

use crate::engine::EngineError;
use crate::engine::redis::limits::{BYTES_PER_WRITE, MAX_CALL_BYTES, MAX_CALLS, MAX_READS};
use crate::engine::redis::scripts::RedisScript;

/// The answer to a call.
pub(in crate::engine::redis) type Answer = Result<RespValue, EngineError>;

/// A command, and what happens with its answer.
pub(in crate::engine::redis) struct RedisCall {
    pub(in crate::engine::redis) command: RespCommand,
    /// The script that the command calls, if it calls one.
    pub(in crate::engine::redis) script: Option<RedisScript>,
    /// True if the answer may be long.
    pub(in crate::engine::redis) is_read: bool,
    pub(in crate::engine::redis) expected: ExpectedAnswer,
}

/// The answer that Redis gives to a command.
pub(in crate::engine::redis) enum ExpectedAnswer {
    /// One value, for a future.
    Value(Promise<Answer>),
    /// One value that changes nothing.
    Ignored,
    /// The answer to a beat.
    Beat,
    /// A confirmation for each channel, as a push; or one error.
    Confirmations(usize),
}

/// The calls of a connection.
#[derive(Default)]
pub(in crate::engine::redis) struct CallQueue {
    waiting: VecDeque<RedisCall>,
    written: VecDeque<RedisCall>,
    /// Reads that wait for others.
    held_reads: VecDeque<RedisCall>,
    /// Reads that are not held.
    reads: usize,
    bytes: usize,
}

impl CallQueue {
    /// True if calls of the users of the engine have to be refused.
    pub(in crate::engine::redis) fn is_full(&self) -> bool {
        self.len() >= MAX_CALLS || self.bytes >= MAX_CALL_BYTES
    }

    /// Returns the number of calls without an answer.
    pub(in crate::engine::redis) fn len(&self) -> usize {
        self.waiting.len() + self.written.len() + self.held_reads.len()
    }

    /// True if no call waits for an answer.
    pub(in crate::engine::redis) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a call.
    pub(in crate::engine::redis) fn push(&mut self, call: RedisCall) {
        self.bytes += call.command.wire().len();
        if call.is_read && self.reads == MAX_READS {
            self.held_reads.push_back(call);
            return;
        }
        self.reads += usize::from(call.is_read);
        self.waiting.push_back(call);
    }

    /// True if calls wait to be written.
    pub(in crate::engine::redis) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Appends commands that wait to `wire`, up to a number of bytes. From then on they wait for their answers.
    pub(in crate::engine::redis) fn take_wire(&mut self, wire: &mut BytesMut) {
        while wire.len() < BYTES_PER_WRITE
            && let Some(call) = self.waiting.pop_front()
        {
            wire.extend_from_slice(call.command.wire());
            self.written.push_back(call);
        }
    }

    /// Removes the call that an answer belongs to. A read that was held may be written then.
    pub(in crate::engine::redis) fn take_answered(&mut self) -> Option<RedisCall> {
        let call = self.written.pop_front()?;
        self.bytes -= call.command.wire().len();
        if call.is_read {
            self.reads -= 1;
            self.release_read();
        }
        Some(call)
    }

    fn release_read(&mut self) {
        while let Some(next) = self.held_reads.pop_front() {
            match &next.expected {
                // The caller has given up.
                ExpectedAnswer::Value(promise) if promise.is_detached() => {
                    self.bytes -= next.command.wire().len();
                }
                _ => {
                    self.reads += 1;
                    self.waiting.push_back(next);
                    return;
                }
            }
        }
    }

    /// Notes the confirmation of a channel. Returns false if none is expected now.
    pub(in crate::engine::redis) fn confirm_channel(&mut self) -> bool {
        let Some(RedisCall { expected: ExpectedAnswer::Confirmations(missing), .. }) =
            self.written.front_mut()
        else {
            return false;
        };
        *missing -= 1;
        if *missing == 0 {
            self.take_answered();
        }
        true
    }

    /// Removes all calls, for the end of the connection.
    pub(in crate::engine::redis) fn take_all(&mut self) -> Vec<RedisCall> {
        (self.bytes, self.reads) = (0, 0);
        let mut all: Vec<_> = std::mem::take(&mut self.written).into();
        all.extend(std::mem::take(&mut self.waiting));
        all.extend(std::mem::take(&mut self.held_reads));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(words: &[&str], expected: ExpectedAnswer) -> RedisCall {
        RedisCall { command: RespCommand::new(words), script: None, is_read: false, expected }
    }

    #[test]
    fn g08_calls_are_written_and_answered_in_order() {
        let mut calls = CallQueue::default();
        calls.push(call(&["PING"], ExpectedAnswer::Ignored));
        calls.push(call(&["SUBSCRIBE", "a", "b"], ExpectedAnswer::Confirmations(2)));
        calls.push(call(&["GET", "a"], ExpectedAnswer::Ignored));
        assert!(calls.take_answered().is_none(), "nothing was written");
        let mut wire = BytesMut::new();
        calls.take_wire(&mut wire);
        assert!(
            wire.starts_with(b"*1\r\n$4\r\nPING\r\n*3\r\n")
                && wire.ends_with(b"GET\r\n$1\r\na\r\n")
        );
        assert!(!calls.confirm_channel(), "the answer to PING comes first");
        assert!(calls.take_answered().unwrap().command.is("PING"));
        assert!(calls.confirm_channel() && calls.confirm_channel());
        assert!(!calls.confirm_channel());
        assert!(calls.take_answered().unwrap().command.is("GET"));
        assert!(calls.is_empty() && calls.bytes == 0);
    }

    #[test]
    fn g08_reads_wait_for_each_other_and_nothing_else_does() {
        let mut calls = CallQueue::default();
        let read = || RedisCall { is_read: true, ..call(&["GET", "a"], ExpectedAnswer::Ignored) };
        (0..MAX_READS + 2).for_each(|_| calls.push(read()));
        calls.push(call(&["PING"], ExpectedAnswer::Ignored));
        let taken = |calls: &mut CallQueue| {
            let mut wire = BytesMut::new();
            calls.take_wire(&mut wire);
            (wire.len() / read().command.wire().len(), wire.ends_with(b"PING\r\n"))
        };
        assert_eq!(taken(&mut calls), (MAX_READS, true));
        assert!(!calls.is_waiting());
        assert_eq!(calls.len(), MAX_READS + 3);
        for _ in 0..2 {
            assert!(calls.take_answered().unwrap().is_read && calls.is_waiting());
            assert_eq!(taken(&mut calls), (1, false));
        }
        while let Some(answered) = calls.take_answered() {
            assert!(answered.is_read || answered.command.is("PING"));
        }
        assert!(calls.is_empty() && calls.reads == 0 && calls.bytes == 0);
    }

    #[test]
    fn g08_calls_are_limited_by_number_and_bytes() {
        let mut calls = CallQueue::default();
        for _ in 0..MAX_CALLS {
            assert!(!calls.is_full());
            calls.push(call(&["PING"], ExpectedAnswer::Ignored));
        }
        assert!(calls.is_full());
        assert_eq!(calls.take_all().len(), MAX_CALLS);
        let long = "x".repeat(MAX_CALL_BYTES / 2);
        for is_full in [false, true] {
            calls.push(call(&["SET", "a", &long], ExpectedAnswer::Ignored));
            assert_eq!(calls.is_full(), is_full);
        }
        let mut wire = BytesMut::new();
        calls.take_wire(&mut wire);
        assert!(wire.len() < MAX_CALL_BYTES, "one long command at a time");
    }
}
