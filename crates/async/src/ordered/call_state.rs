//! The requests of a connection that are under way: calls, answers that wait for an earlier one, requests that wait.

use std::collections::VecDeque;
use std::mem;
use std::task::Waker;

use waterwheel_channel::{Hold, Msg, ReadPause};
use waterwheel_executor::engine::drop_in_turn;

use super::call_slot::{CallFailure, CallSlot};

/// How many empty places a connection keeps for its next calls. One is enough for calls that are ready at their first
/// poll; the others serve a few pending calls at a time without an allocation.
const KEPT_SLOTS: usize = 4;

/// The room that an empty queue keeps.
const KEPT_ROOM: usize = 32;

/// The requests of a connection. Fields are used on the loop only.
pub(super) struct CallState<F, Request, Response> {
    /// The requests under way, in order.
    pub(super) calls: VecDeque<Call<F, Response>>,
    /// Requests that were read and have not begun, in order.
    pub(super) held: VecDeque<Request>,
    spare: Vec<CallSlot<F>>,
    pub(super) phase: AnswerPhase,
    /// True if an answer was written and not flushed.
    pub(super) has_unflushed: bool,
    pub(super) pause: Option<ReadPause>,
    /// Makes a drain of the loop wait.
    pub(super) hold: Option<Hold>,
    /// The event that announces the end of the peer's data, kept until everything is answered.
    pub(super) input_over: Option<Msg>,
    pub(super) has_driver: bool,
    /// The waker of the driver, from its first poll on.
    pub(super) driver: Option<Waker>,
}

/// One request under way.
pub(super) enum Call<F, Response> {
    Running(CallSlot<F>),
    /// Waits for the answers before it.
    Answered(Response),
    /// The end of the connection waits for the answers before it.
    Failed(CallFailure),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerPhase {
    /// Requests are answered.
    Open,
    /// A call has failed: those before it are answered, and none begins any more.
    Failing,
    /// Nothing is answered any more: the channel is about to be closed, or its output is shut down.
    Over,
}

impl<F, Request: 'static, Response: 'static> CallState<F, Request, Response> {
    pub(super) fn new() -> Self {
        Self {
            calls: VecDeque::new(),
            held: VecDeque::new(),
            spare: Vec::new(),
            phase: AnswerPhase::Open,
            has_unflushed: false,
            pause: None,
            hold: None,
            input_over: None,
            has_driver: false,
            driver: None,
        }
    }

    /// True if no request waits for anything.
    pub(super) fn is_idle(&self) -> bool {
        self.calls.is_empty() && self.held.is_empty()
    }

    pub(super) fn take_spare(&mut self) -> Option<CallSlot<F>> {
        self.spare.pop()
    }

    /// Drops the future of a call that is done, and keeps its place if few are kept.
    pub(super) fn recycle(&mut self, mut slot: CallSlot<F>) {
        slot.clear();
        if self.spare.len() < KEPT_SLOTS {
            self.spare.push(slot);
        }
    }

    /// Ends everything after the call at `failed`, which could not be answered in order.
    pub(super) fn fail_after(&mut self, failed: usize) {
        self.phase = AnswerPhase::Failing;
        let rest = self.calls.split_off(failed + 1);
        rest.into_iter().for_each(drop_call);
        self.drop_held();
    }

    /// Drops everything that waits.
    pub(super) fn cancel(&mut self) {
        self.phase = AnswerPhase::Over;
        mem::take(&mut self.calls).into_iter().for_each(drop_call);
        self.drop_held();
    }

    fn drop_held(&mut self) {
        mem::take(&mut self.held).into_iter().for_each(drop_in_turn);
    }

    /// Frees the memory of a burst.
    pub(super) fn shrink(&mut self) {
        if self.calls.is_empty() && self.calls.capacity() > KEPT_ROOM {
            self.calls.shrink_to(KEPT_ROOM);
        }
        if self.held.is_empty() && self.held.capacity() > KEPT_ROOM {
            self.held.shrink_to(KEPT_ROOM);
        }
    }
}

/// Drops a call; a panic of a destructor does not keep the others.
fn drop_call<F, Response: 'static>(call: Call<F, Response>) {
    match call {
        Call::Running(slot) => drop(slot),
        Call::Answered(response) => drop_in_turn(response),
        Call::Failed(_) => {}
    }
}
