//! The calls of a connection: those that wait to be written, and those that wait for their answers. Redis answers in order.

use std::collections::VecDeque;

use waterwheel::bytes::BytesMut;
use waterwheel::codec::{RespCommand, RespValue};
use waterwheel::executor::Promise;

use crate::engine::EngineError;
use crate::engine::redis::limits::{BYTES_PER_WRITE, MAX_CALL_BYTES, MAX_CALLS};
use crate::engine::redis::scripts::RedisScript;

/// The answer to a call.
pub(in crate::engine::redis) type Answer = Result<RespValue, EngineError>;

/// A command, and what happens with its answer.
pub(in crate::engine::redis) struct RedisCall {
    pub(in crate::engine::redis) command: RespCommand,
    /// The script that the command calls, if it calls one.
    pub(in crate::engine::redis) script: Option<RedisScript>,
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
    bytes: usize,
}

impl CallQueue {
    /// True if calls of the users of the engine have to be refused.
    pub(in crate::engine::redis) fn is_full(&self) -> bool {
        self.len() >= MAX_CALLS || self.bytes >= MAX_CALL_BYTES
    }

    /// Returns the number of calls without an answer.
    pub(in crate::engine::redis) fn len(&self) -> usize {
        self.waiting.len() + self.written.len()
    }

    /// True if no call waits for an answer.
    pub(in crate::engine::redis) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a call.
    pub(in crate::engine::redis) fn push(&mut self, call: RedisCall) {
        self.bytes += call.command.wire().len();
        self.waiting.push_back(call);
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

    /// Removes the call that an answer belongs to.
    pub(in crate::engine::redis) fn take_answered(&mut self) -> Option<RedisCall> {
        let call = self.written.pop_front()?;
        self.bytes -= call.command.wire().len();
        Some(call)
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
        self.bytes = 0;
        let mut all: Vec<_> = std::mem::take(&mut self.written).into();
        all.extend(std::mem::take(&mut self.waiting));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(words: &[&str], expected: ExpectedAnswer) -> RedisCall {
        RedisCall { command: RespCommand::new(words), script: None, expected }
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
