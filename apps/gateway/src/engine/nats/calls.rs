//! Calls that are answered when the gateway has read the stream up to where it was when they came.
//!
//! One question for the end of the stream serves all calls that came before it was asked: however many clients resume at once, few
//! questions are under way.

use std::collections::VecDeque;
use std::mem;

use waterwheel::executor::Nanos;

use super::events::CallPromise;
use crate::engine::position::Position;
use crate::engine::{HistoryPage, HistoryQuery, TopicPage};
use crate::topic::filter::TopicFilter;

/// A call that waits.
pub(super) enum WaitingCall {
    Subscribe(TopicFilter, CallPromise<Position>),
    History(HistoryQuery, CallPromise<HistoryPage>),
    Topics(usize, CallPromise<TopicPage>),
}

/// The calls that wait, in the order in which they came.
#[derive(Default)]
pub(super) struct WaitingCalls {
    /// Calls that no question includes.
    new: Vec<(Nanos, WaitingCall)>,
    /// Calls of the question that is under way.
    asked: Vec<(Nanos, WaitingCall)>,
    /// Calls whose end of the stream is known.
    known: VecDeque<(u64, Nanos, WaitingCall)>,
}

impl WaitingCalls {
    /// Adds a call with its time limit.
    pub(super) fn push(&mut self, until: Nanos, call: WaitingCall) {
        self.new.push((until, call));
    }

    /// True if a question is to be asked; its calls are noted.
    pub(super) fn begin_question(&mut self) -> bool {
        let must_ask = self.asked.is_empty() && !self.new.is_empty();
        if must_ask {
            self.asked = mem::take(&mut self.new);
        }
        must_ask
    }

    /// Takes the answer: the end of the stream.
    pub(super) fn end_question(&mut self, last: u64) {
        let asked = mem::take(&mut self.asked);
        self.known.extend(asked.into_iter().map(|(until, call)| (last, until, call)));
    }

    /// Notes that the calls of the question have to ask again: the stream was replaced meanwhile.
    pub(super) fn repeat_question(&mut self) {
        let asked = mem::take(&mut self.asked);
        self.new.splice(..0, asked);
    }

    /// Returns the calls of a question that has failed.
    pub(super) fn fail_question(&mut self) -> Vec<WaitingCall> {
        mem::take(&mut self.asked).into_iter().map(|(_, call)| call).collect()
    }

    /// Removes the next call that may be answered once the stream was read up to `last`.
    pub(super) fn take_ready(&mut self, last: u64) -> Option<WaitingCall> {
        self.known.pop_front_if(|(end, ..)| *end <= last).map(|(.., call)| call)
    }

    /// Removes a call whose time is over. Calls have the same limit, so the oldest is the first.
    pub(super) fn take_expired(&mut self, now: Nanos) -> Option<WaitingCall> {
        if let Some((.., call)) = self.known.pop_front_if(|(_, until, _)| *until <= now) {
            return Some(call);
        }
        let is_expired = self.new.first().is_some_and(|(until, _)| *until <= now);
        is_expired.then(|| self.new.remove(0).1)
    }

    /// Removes all calls.
    pub(super) fn take_all(&mut self) -> Vec<WaitingCall> {
        let known = mem::take(&mut self.known).into_iter().map(|(.., call)| call);
        let asked = mem::take(&mut self.asked).into_iter();
        let new = mem::take(&mut self.new).into_iter();
        known.chain(asked.chain(new).map(|(_, call)| call)).collect()
    }

    /// Returns the time limit of the oldest call.
    pub(super) fn oldest_limit(&self) -> Option<Nanos> {
        let known = self.known.front().map(|(_, until, _)| *until);
        let firsts = [&self.asked, &self.new].map(|calls| calls.first().map(|(until, _)| *until));
        known.into_iter().chain(firsts.into_iter().flatten()).min()
    }

    /// Returns the number of calls.
    pub(super) fn len(&self) -> usize {
        self.new.len() + self.asked.len() + self.known.len()
    }
}
