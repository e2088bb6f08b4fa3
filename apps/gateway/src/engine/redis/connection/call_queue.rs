//! The calls of a connection: those that wait to be written, and those that wait for their answers. Redis answers in order.
//!
//! Redis works off what it has read of a pipeline before it sends the first answer, and ends the connection of a subscriber with
//! too much unsent output. So of the calls with long answers, some are on their way at a time, and the others wait for them:
//! many clients resume at once when a gateway has died.

use std::collections::VecDeque;

use waterwheel::bytes::BytesMut;
use waterwheel::codec::{RespCommand, RespValue};
use waterwheel::executor::{Nanos, Promise};

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
    waiting: VecDeque<QueuedCall>,
    written: VecDeque<QueuedCall>,
    /// Reads that wait for others.
    held_reads: VecDeque<QueuedCall>,
    /// Reads that are not held.
    reads: usize,
    bytes: usize,
}

/// A call, and when it was made.
struct QueuedCall {
    call: RedisCall,
    since: Nanos,
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

    /// Adds a call that is made now.
    pub(in crate::engine::redis) fn push(&mut self, call: RedisCall, now: Nanos) {
        self.bytes += call.command.wire().len();
        let queued = QueuedCall { call, since: now };
        if queued.call.is_read && self.reads == MAX_READS {
            self.held_reads.push_back(queued);
            return;
        }
        self.reads += usize::from(queued.call.is_read);
        self.waiting.push_back(queued);
    }

    /// Returns when the oldest call without an answer was made. A read that was held is behind calls that are younger than it;
    /// of these, the one that is answered first counts until then.
    pub(in crate::engine::redis) fn oldest(&self) -> Option<Nanos> {
        let heads = [&self.written, &self.waiting, &self.held_reads].map(VecDeque::front);
        heads.into_iter().flatten().map(|queued| queued.since).min()
    }

    /// True if calls wait to be written.
    pub(in crate::engine::redis) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Appends commands that wait to `wire`, up to a number of bytes. From then on they wait for their answers.
    pub(in crate::engine::redis) fn take_wire(&mut self, wire: &mut BytesMut) {
        while wire.len() < BYTES_PER_WRITE
            && let Some(queued) = self.waiting.pop_front()
        {
            wire.extend_from_slice(queued.call.command.wire());
            self.written.push_back(queued);
        }
    }

    /// Removes the call that an answer belongs to. A read that was held may be written then.
    pub(in crate::engine::redis) fn take_answered(&mut self) -> Option<RedisCall> {
        let QueuedCall { call, .. } = self.written.pop_front()?;
        self.bytes -= call.command.wire().len();
        if call.is_read {
            self.reads -= 1;
            self.release_read();
        }
        Some(call)
    }

    fn release_read(&mut self) {
        while let Some(next) = self.held_reads.pop_front() {
            match &next.call.expected {
                // The caller has given up.
                ExpectedAnswer::Value(promise) if promise.is_detached() => {
                    self.bytes -= next.call.command.wire().len();
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
        let Some(ExpectedAnswer::Confirmations(missing)) =
            self.written.front_mut().map(|queued| &mut queued.call.expected)
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
        let [written, waiting, held] =
            [&mut self.written, &mut self.waiting, &mut self.held_reads].map(std::mem::take);
        written.into_iter().chain(waiting).chain(held).map(|queued| queued.call).collect()
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
        calls.push(call(&["PING"], ExpectedAnswer::Ignored), Nanos(0));
        calls.push(call(&["SUBSCRIBE", "a", "b"], ExpectedAnswer::Confirmations(2)), Nanos(0));
        calls.push(call(&["GET", "a"], ExpectedAnswer::Ignored), Nanos(0));
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
        (0..MAX_READS + 2).for_each(|_| calls.push(read(), Nanos(0)));
        calls.push(call(&["PING"], ExpectedAnswer::Ignored), Nanos(0));
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
            calls.push(call(&["PING"], ExpectedAnswer::Ignored), Nanos(0));
        }
        assert!(calls.is_full());
        assert_eq!(calls.take_all().len(), MAX_CALLS);
        let long = "x".repeat(MAX_CALL_BYTES / 2);
        for is_full in [false, true] {
            calls.push(call(&["SET", "a", &long], ExpectedAnswer::Ignored), Nanos(0));
            assert_eq!(calls.is_full(), is_full);
        }
        let mut wire = BytesMut::new();
        calls.take_wire(&mut wire);
        assert!(wire.len() < MAX_CALL_BYTES, "one long command at a time");
    }

    #[test]
    fn g08_the_oldest_call_is_found_wherever_it_waits() {
        let mut calls = CallQueue::default();
        assert_eq!(calls.oldest(), None);
        let read = || RedisCall { is_read: true, ..call(&["GET", "a"], ExpectedAnswer::Ignored) };
        (0..=MAX_READS as u64).for_each(|at| calls.push(read(), Nanos(at)));
        calls.push(call(&["PING"], ExpectedAnswer::Ignored), Nanos(50));
        assert_eq!(calls.oldest(), Some(Nanos(0)), "not written");
        calls.take_wire(&mut BytesMut::new());
        assert_eq!(calls.oldest(), Some(Nanos(0)), "written");
        // The answer to the first read releases the one that was held; it is written after the others.
        for at in 1..MAX_READS as u64 {
            assert!(calls.take_answered().is_some());
            assert_eq!(calls.oldest(), Some(Nanos(at)));
        }
        calls.take_wire(&mut BytesMut::new());
        assert!(calls.take_answered().is_some_and(|answered| answered.is_read));
        assert_eq!(calls.oldest(), Some(Nanos(50)), "the next to be answered");
        assert!(calls.take_answered().is_some_and(|answered| answered.command.is("PING")));
        assert_eq!(calls.oldest(), Some(Nanos(MAX_READS as u64)));
        assert!(calls.take_answered().is_some() && calls.oldest().is_none());
    }
}
