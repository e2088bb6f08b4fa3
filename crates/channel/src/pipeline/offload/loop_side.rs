//! The loop's side: what comes back from an offloaded handler goes on from its slot.

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

/// How many emissions of a handler are seen to before others have their turn.
const EMISSIONS_PER_COMMAND: usize = 256;

/// What a channel keeps for its offloaded handlers.
#[derive(Default)]
pub(crate) struct OffloadState {
    /// Which executor of a group they were given: all of a channel's the same. A group goes by the
    /// name of its first child.
    pinned: Vec<(ExecutorId, EventExecutor)>,
    /// Completions whose numbers are on their way.
    kept: HashMap<u64, Completion>,
    next_number: u64,
}

impl OffloadState {
    fn pinned_to(&self, group: ExecutorId) -> Option<EventExecutor> {
        let found = self.pinned.iter().find(|(known, _)| *known == group);
        found.map(|(_, executor)| executor.clone())
    }
}

/// When the loop has seen to emissions, even if a handler has panicked meanwhile, it comes again if
/// there is more.
struct EmissionBatch<'a> {
    core: &'a Rc<ChannelCore>,
    link: &'a Arc<OffloadLink>,
}

impl Drop for EmissionBatch<'_> {
    fn drop(&mut self) {
        self.link.finish_emission_batch();
        // In this order: what becomes lighter after this look calls the loop again.
        self.core.update_backpressure(self.link);
    }
}

impl ChannelCore {
    /// The executor of this group for this channel's handlers.
    pub(super) fn pin_executor(&self, group: &EventExecutorGroup) -> EventExecutor {
        let choose = || group.next_for(&self.channel().id());
        let Some(key) = group.children().next().map(|first| first.id()) else { return choose() };
        if let Some(executor) = self.offload_state().pinned_to(key) {
            return executor;
        }
        // The chooser is the user's: nothing is borrowed, and it may have pinned the group itself meanwhile.
        let executor = choose();
        let mut offload_state = self.offload_state();
        offload_state.pinned_to(key).unwrap_or_else(|| {
            offload_state.pinned.push((key, executor.clone()));
            executor
        })
    }

    /// Keeps what cannot travel, and gives something that can.
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

    /// What has travelled, or was kept for it.
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

    /// Why nothing goes out from a slot that is gone.
    fn gone_or_closed(&self) -> Error {
        if self.channel().is_open() { ChannelError::Gone.into() } else { self.closed_error() }
    }

    /// Sees to what a handler has emitted. From the loop.
    pub(crate) fn process_emissions(self: &Rc<Self>, link: &Arc<OffloadLink>) {
        let _batch = EmissionBatch { core: self, link };
        for _ in 0..EMISSIONS_PER_COMMAND {
            let Some(emission) = link.next_emission() else { break };
            let at = self.pipeline.slots.borrow().find(link.slot());
            match (emission, at) {
                (Emission::Event(event), Some(at)) => event.forward_from(self, at),
                (Emission::Event(event), None) => event.fail(&self.gone_or_closed()),
                (Emission::Complete(number, result), _) => {
                    self.complete_later(self.take_kept(number), result);
                }
                (Emission::Marker, Some(at)) => self.send_marker_from(at),
                (Emission::Exited(exit), Some(_)) => *link.exit() = Some(exit),
                (Emission::Exited(_), None) => link.drop_commands(),
                (Emission::Marker, None) => self.send_marker_from(HEAD),
            }
        }
        self.finish_exit(link);
    }

    /// Looks again at how much waits at a handler.
    pub(super) fn update_backpressure(self: &Rc<Self>, link: &OffloadLink) {
        match link.take_overflow_change() {
            Some(true) => self.add_overflow(),
            Some(false) => self.remove_overflow(),
            None => {}
        }
        self.check_high_mark();
        self.check_low_mark();
        self.notify_watchers();
    }

    /// If the handler is gone: sees to the letters it has not read, and takes its slot away. Whatever
    /// panics meanwhile, the next visit goes on with the rest.
    fn finish_exit(self: &Rc<Self>, link: &Arc<OffloadLink>) {
        let Some(exit) = link.exit().clone() else { return };
        let at = self.pipeline.slots.borrow().find(link.slot());
        let Some(at) = at else { return link.drop_commands() };
        while let Some(command) = link.next_command() {
            match (command, &exit) {
                (HandlerCommand::Event(event), HandlerExit::Removed) => {
                    event.forward_from(self, at)
                }
                (HandlerCommand::Event(event), _) if event.passes_failed_handler() => {
                    event.forward_from(self, at)
                }
                (
                    HandlerCommand::Event(event),
                    HandlerExit::Failed(error) | HandlerExit::Panicked(error),
                ) => {
                    event.fail(error);
                }
                (HandlerCommand::Marker, _) => self.send_marker_from(at),
                (HandlerCommand::Added | HandlerCommand::Removed, _) => {}
            }
        }
        if let HandlerExit::Failed(error) = &exit {
            *link.exit() = Some(HandlerExit::Panicked(error.clone())); // Told once.
            self.send_from(at, Failure(error.clone()));
        }
        *link.exit() = None;
        let handler = self.pipeline.slots.borrow_mut().at_mut(at).handler.take();
        self.discard_slot(at, handler);
        // What destructors have written to the place meanwhile nobody reads.
        link.drop_commands();
        if let HandlerExit::Failed(error) | HandlerExit::Panicked(error) = exit {
            // What it flushed before may have come in the same visit.
            self.write_out();
            self.close(Some(error), Completion::none());
        }
    }

    /// A removed slot stays in its place until its handler has left: what comes meanwhile waits there.
    pub(super) fn let_slot_linger(&self, at: u32) {
        let mut slots = self.pipeline.slots.borrow_mut();
        let slot = slots.at_mut(at);
        slot.state = SlotState::Lingering;
        slots.set_stops_for(at, Events::ALL);
        self.pipeline.add_stop_events(Events::ALL);
    }

    /// Sends a last letter through one offloaded handler after the other, from this slot inward; when
    /// it has been through all, nothing is on its way any more.
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
