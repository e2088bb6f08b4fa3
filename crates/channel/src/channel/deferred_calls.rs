//! Calls and completions that wait until the outermost call into a channel has returned.

use std::rc::Rc;

use waterwheel_executor::Error;

use crate::base::queue_capacity::shrink_if_empty;
use crate::channel::core::{ChannelCore, DeferredWork};
use crate::pipeline::completion::{Completion, is_end_of_output};
use crate::pipeline::dispatch::event::{AnyEvent, Failure, Flush};
use crate::pipeline::slots::slot_list::{HEAD, SlotId};

/// A call that waits to enter the channel.
pub(super) enum DeferredCall {
    /// An event: the slot (head or tail) where it starts, the event, and the bytes it counts as pending.
    Event(u32, AnyEvent, usize),
    Call(LocalCall),
}

type LocalCall = Box<dyn FnOnce(&Rc<ChannelCore>)>;

impl ChannelCore {
    #[cold]
    pub(super) fn defer_event(self: &Rc<Self>, from: u32, event: AnyEvent) {
        let bytes = event.pending_bytes();
        self.defer(DeferredCall::Event(from, event, bytes));
        self.add_pending(bytes);
    }

    #[cold]
    pub(super) fn defer(self: &Rc<Self>, entry: DeferredCall) {
        self.cold.get_or_create().calls.push_back(entry);
        self.mark_deferred(DeferredWork::CALLS);
    }

    /// Queues a slot whose backlog is too long for one round: the rest is delivered after other channels have run.
    pub(crate) fn resume_backlog_later(self: &Rc<Self>, slot: SlotId) {
        self.cold.get_or_create().backlogs.push_back(slot);
        self.mark_deferred(DeferredWork::CALLS);
    }

    pub(super) fn continue_backlogs(self: &Rc<Self>) {
        let waiting = self.cold.get_or_create().backlogs.len();
        for _ in 0..waiting {
            let Some(slot) = self.cold.get_or_create().backlogs.pop_front() else { return };
            self.enter(|core| core.resume_backlog(slot));
        }
    }

    pub(super) fn run_deferred_calls(self: &Rc<Self>) {
        let waiting = self.cold.get_or_create().calls.len();
        for _ in 0..waiting {
            let Some(entry) = self.cold.get_or_create().calls.pop_front() else { return };
            self.enter(|core| match entry {
                DeferredCall::Event(from, event, bytes) => {
                    core.remove_pending(bytes);
                    event.forward_from(core, from);
                }
                DeferredCall::Call(call) => call(core),
            });
        }
        shrink_if_empty(&mut self.cold.get_or_create().calls);
    }

    /// Completes an operation when the outermost call has returned.
    pub(crate) fn complete_later(self: &Rc<Self>, done: Completion, result: Result<(), Error>) {
        if !done.is_none() {
            self.cold.get_or_create().completions.push_back((done, result));
            self.mark_deferred(DeferredWork::COMPLETIONS);
        }
    }

    /// Fails an operation at the slot `at`. If it is the write of a message that must not be missing, earlier messages
    /// are flushed, the error is fired, and the channel is closed: now, because later messages may already be queued.
    #[cold]
    pub(crate) fn fail_operation_at(self: &Rc<Self>, at: u32, done: Completion, error: Error) {
        if done.is_required() && !is_end_of_output(&error) {
            if at != HEAD {
                self.send_from(at, Flush);
            }
            self.flush(); // A handler that keeps the flush back cannot wait any longer.
            self.send_from(at, Failure(error.clone()));
            self.close_after_writes(Some(error.clone()), Completion::none());
        }
        self.complete_later(done, Err(error));
    }

    /// Runs the completions that are queued now. Completions they cause wait for the next round.
    #[inline(always)]
    pub(super) fn run_completions(self: &Rc<Self>) {
        if self.cold.is_created() {
            self.run_queued_completions();
        }
    }

    fn run_queued_completions(self: &Rc<Self>) {
        let waiting = self.cold.get().map_or(0, |cold| cold.completions.len());
        for _ in 0..waiting {
            let Some((done, result)) = self.cold.get_or_create().completions.pop_front() else {
                return;
            };
            if let Err(error) = &result {
                self.report_operation_failure(&done, error);
            }
            done.complete(result);
        }
        if waiting > 0 {
            shrink_if_empty(&mut self.cold.get_or_create().completions);
        }
    }
}
