//! The loop's side of offloading: emissions of an offloaded handler continue from its slot.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use waterwheel_executor::{Error, EventExecutor, EventExecutorGroup, ExecutorId};

use super::link::{Emission, HandlerCommand, HandlerExit, OffloadLink};
use super::remote_completion::{CompletionTarget, RemoteCompletion};
use crate::channel::core::ChannelCore;
use crate::channel::error::ChannelError;
use crate::pipeline::completion::Completion;
use crate::pipeline::dispatch::event::Failure;
use crate::pipeline::event_set::Events;
use crate::pipeline::slots::slot::SlotState;
use crate::pipeline::slots::slot_list::HEAD;

/// The number of emissions of a handler that are processed before others get a turn.
const EMISSIONS_PER_COMMAND: usize = 256;

/// The state that a channel keeps for its offloaded handlers.
#[derive(Default)]
pub(crate) struct OffloadState {
    /// The executor of each group that this channel's handlers run on: all handlers of a channel that use the same
    /// group share one. A group is identified by the id of its first child.
    pinned: Vec<(ExecutorId, EventExecutor)>,
    /// Completions that stayed on the loop, by the number that was sent in their place.
    kept: HashMap<u64, Completion>,
    next_number: u64,
}

impl OffloadState {
    fn pinned_to(&self, group: ExecutorId) -> Option<EventExecutor> {
        let found = self.pinned.iter().find(|(known, _)| *known == group);
        found.map(|(_, executor)| executor.clone())
    }
}

/// A batch of emissions on the loop. Its destructor schedules the next batch if there are more, even if a handler has
/// panicked meanwhile.
struct EmissionBatch<'a> {
    core: &'a Rc<ChannelCore>,
    link: &'a Arc<OffloadLink>,
}

impl Drop for EmissionBatch<'_> {
    fn drop(&mut self) {
        self.link.finish_emission_batch();
        // In this order: a write that leaves the queue after this check calls the loop again.
        self.core.update_backpressure(self.link);
    }
}

impl ChannelCore {
    /// Returns the executor of this group that runs this channel's handlers.
    pub(super) fn pin_executor(&self, group: &EventExecutorGroup) -> EventExecutor {
        let choose = || group.next_for(&self.channel().id());
        let Some(key) = group.children().next().map(|first| first.id()) else { return choose() };
        if let Some(executor) = self.offload_state().pinned_to(key) {
            return executor;
        }
        // The chooser is user code: nothing is borrowed, and it may have pinned the group itself.
        let executor = choose();
        let mut offload_state = self.offload_state();
        offload_state.pinned_to(key).unwrap_or_else(|| {
            offload_state.pinned.push((key, executor.clone()));
            executor
        })
    }

    /// Converts a completion to one that is `Send`: a promise is moved, any other stays on the loop under a number.
    pub(super) fn keep_completion(
        &self,
        link: &Arc<OffloadLink>,
        done: Completion,
    ) -> RemoteCompletion {
        if done.is_none() {
            return RemoteCompletion::none();
        }
        match done.into_promise() {
            Ok(promise) => promise.into(),
            Err(done) => {
                let mut offload_state = self.offload_state();
                let number = offload_state.next_number;
                offload_state.next_number += 1;
                offload_state.kept.insert(number, done);
                RemoteCompletion::kept_on_loop(link, number)
            }
        }
    }

    /// Converts a remote completion back, on the loop.
    pub(super) fn restore_completion(&self, done: RemoteCompletion) -> Completion {
        match done.into_target() {
            CompletionTarget::Ignored => Completion::none(),
            CompletionTarget::Promise(promise) => promise.into(),
            CompletionTarget::KeptOnLoop(number) => self.take_kept(number),
        }
    }

    fn take_kept(&self, number: u64) -> Completion {
        self.offload_state().kept.remove(&number).unwrap_or_default()
    }

    /// Returns the error for an emission whose slot is gone.
    fn gone_or_closed_error(&self) -> Error {
        if self.channel().is_open() { ChannelError::Gone.into() } else { self.closed_error() }
    }

    /// Processes a batch of emissions of an offloaded handler. Called by the loop.
    pub(crate) fn process_emissions(self: &Rc<Self>, link: &Arc<OffloadLink>) {
        let _batch = EmissionBatch { core: self, link };
        for _ in 0..EMISSIONS_PER_COMMAND {
            let Some(emission) = link.next_emission() else { break };
            let at = self.pipeline.slots.borrow().find(link.slot());
            match (emission, at) {
                (Emission::Event(event), Some(at)) => event.forward_from(self, at),
                (Emission::Event(event), None) => event.fail(&self.gone_or_closed_error()),
                (Emission::Complete(number, Ok(())), _) => {
                    self.complete_later(self.take_kept(number), Ok(()));
                }
                (Emission::Complete(number, Err(error)), at) => {
                    self.fail_operation_at(at.unwrap_or(HEAD), self.take_kept(number), error);
                }
                (Emission::Marker, Some(at)) => self.send_marker_from(at),
                (Emission::Exited(exit), Some(_)) => *link.exit() = Some(exit),
                (Emission::Exited(_), None) => link.drop_commands(),
                (Emission::Marker, None) => self.send_marker_from(HEAD),
            }
        }
        self.finish_exit(link);
    }

    /// Updates the writability of the channel by the number of writes queued for a handler.
    pub(super) fn update_backpressure(self: &Rc<Self>, link: &OffloadLink) {
        match link.take_overflow_change() {
            Some(true) => self.add_unwritable_reason(),
            Some(false) => self.remove_unwritable_reason(),
            None => {}
        }
        self.check_high_mark();
        self.check_low_mark();
        self.notify_watchers();
    }

    /// If the handler is gone, processes the commands it has not run, and discards its slot. If something panics
    /// meanwhile, the next batch continues with the rest.
    fn finish_exit(self: &Rc<Self>, link: &Arc<OffloadLink>) {
        let Some(exit) = link.exit().clone() else { return };
        let at = self.pipeline.slots.borrow().find(link.slot());
        let Some(at) = at else { return link.drop_commands() };
        while let Some(command) = link.next_command() {
            match (command, &exit) {
                (HandlerCommand::Event(event), HandlerExit::Removed) => {
                    event.forward_from(self, at)
                }
                (HandlerCommand::Event(event), _) if event.may_pass_failed_handler() => {
                    event.forward_from(self, at)
                }
                (
                    HandlerCommand::Event(event),
                    HandlerExit::Failed(error) | HandlerExit::Panicked(error),
                ) => {
                    event.fail(error);
                }
                (HandlerCommand::Marker, _) => self.send_marker_from(at),
                (HandlerCommand::Add | HandlerCommand::Remove, _) => {}
            }
        }
        if let HandlerExit::Failed(error) = &exit {
            *link.exit() = Some(HandlerExit::Panicked(error.clone())); // The error is fired once.
            self.send_from(at, Failure(error.clone()));
        }
        *link.exit() = None;
        let handler = self.pipeline.slots.borrow_mut().at_mut(at).handler.take();
        self.discard_slot(at, handler);
        // Destructors may have sent further commands, which no task runs.
        link.drop_commands();
        if let HandlerExit::Failed(error) | HandlerExit::Panicked(error) = exit {
            // Send the messages that the handler flushed before: the flush may have been in the same batch.
            self.write_out();
            self.close(Some(error), Completion::none());
        }
    }

    /// Keeps a removed slot in its place until its handler has exited; events that arrive meanwhile queue there.
    pub(super) fn let_slot_linger(&self, at: u32) {
        let mut slots = self.pipeline.slots.borrow_mut();
        let slot = slots.at_mut(at);
        slot.state = SlotState::Lingering;
        slots.set_stops_for(at, Events::ALL);
        self.pipeline.add_stop_events(Events::ALL);
    }

    /// Sends a marker through the offloaded handlers one after the other, from this slot inward. When it has passed
    /// all of them, no event is in flight, and the handlers are removed.
    pub(crate) fn send_marker_from(self: &Rc<Self>, from: u32) {
        let next = {
            let slots = self.pipeline.slots.borrow();
            let mut after = slots.linked_after(from);
            after.find_map(|at| slots.at(at).info()?.link())
        };
        match next {
            Some(link) => link.send_command(HandlerCommand::Marker),
            None => self.remove_handlers_later(),
        }
    }
}
