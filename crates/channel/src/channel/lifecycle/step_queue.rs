//! Lifecycle events, which are announced from the loop only (rule 8): a queue of steps, run in order.

use std::cell::Cell;
use std::rc::Rc;

use crate::channel::core::{ChannelCore, DeferredWork};
use crate::channel::lifecycle::half_closure::HalfClosed;
use crate::pipeline::dispatch::event::{
    Active, Event, Inactive, ReadComplete, Registered, Unregistered,
};
use crate::pipeline::slots::slot_list::HEAD;

/// A step of a channel's life that runs from the loop only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LifecycleStep {
    Registered,
    Active,
    /// Reads continue after the channel was registered again.
    ReadAgain,
    /// The channel was deregistered in the middle of a round of reads.
    RoundAborted,
    /// The input is over (half-close).
    InputOver,
    /// The output is over (half-close).
    OutputOver,
    /// Completes the close future and the requests to close.
    Closed,
    Inactive,
    Unregistered,
    /// Sends a marker through offloaded handlers, after the events above. The handlers are removed when it has passed.
    OffloadMarker,
    RemoveHandlers,
    /// Removes the channel from its loop.
    Gone,
}

impl LifecycleStep {
    const ALL: &[LifecycleStep] = &[
        LifecycleStep::Registered,
        LifecycleStep::Active,
        LifecycleStep::ReadAgain,
        LifecycleStep::RoundAborted,
        LifecycleStep::InputOver,
        LifecycleStep::OutputOver,
        LifecycleStep::Closed,
        LifecycleStep::Inactive,
        LifecycleStep::Unregistered,
        LifecycleStep::OffloadMarker,
        LifecycleStep::RemoveHandlers,
        LifecycleStep::Gone,
    ];
}

// Steps are looked up by number: a step at a wrong index would be taken for another step.
const _: () = {
    let mut number = 0;
    while number < LifecycleStep::ALL.len() {
        assert!(LifecycleStep::ALL[number] as usize == number);
        number += 1;
    }
    assert!(number == LifecycleStep::Gone as usize + 1);
};

/// Steps per round, before other channels run: a channel may be registered and deregistered forever. A channel
/// with one registration has at most ten steps in its life.
const STEPS_PER_ROUND: usize = 16;

/// The next steps, in order, with four bits each: room for sixteen, more than a channel with one registration has.
/// A channel that is registered and deregistered repeatedly in one call may need more: the overflow queue has the rest.
#[derive(Default)]
pub(in crate::channel) struct StepQueue(Cell<u64>);

impl StepQueue {
    /// Appends a step. Returns false if the queue is full.
    fn push(&self, step: LifecycleStep) -> bool {
        let (queue, number) = (self.0.get(), step as u64 + 1);
        let used = (u64::BITS - queue.leading_zeros()).next_multiple_of(4);
        if used < u64::BITS {
            self.0.set(queue | number << used);
        }
        used < u64::BITS
    }

    fn pop(&self) -> Option<LifecycleStep> {
        let queue = self.0.get();
        self.0.set(queue >> 4);
        let number = (queue & 0xf) as usize;
        LifecycleStep::ALL.get(number.wrapping_sub(1)).copied()
    }
}

impl ChannelCore {
    pub(in crate::channel) fn queue_step(self: &Rc<Self>, step: LifecycleStep) {
        if self.has_overflow_steps() || !self.steps.push(step) {
            self.cold.get_or_create().steps.push_back(step);
        }
        self.mark_deferred(DeferredWork::STEPS);
    }

    /// True if steps are in the overflow queue.
    #[inline]
    fn has_overflow_steps(&self) -> bool {
        self.cold.is_created() && self.cold.get().is_some_and(|cold| !cold.steps.is_empty())
    }

    pub(in crate::channel) fn run_steps(self: &Rc<Self>) {
        for _ in 0..STEPS_PER_ROUND {
            // A step may queue completions, which run before the steps that they cause.
            self.run_completions();
            let Some(step) = self.next_step() else { return };
            match step {
                LifecycleStep::Registered => self.announce(Registered),
                LifecycleStep::Active => self.enter(|core| {
                    core.send_through(Active);
                    core.read_if_auto();
                    core.begin_requested_read();
                }),
                LifecycleStep::ReadAgain => self.enter(|core| {
                    core.read_if_auto();
                    core.begin_requested_read();
                }),
                LifecycleStep::RoundAborted => self.announce(ReadComplete),
                LifecycleStep::InputOver => self.announce_half_closed(HalfClosed::Input),
                LifecycleStep::OutputOver => self.announce_half_closed(HalfClosed::Output),
                LifecycleStep::Closed => self.notify_closed(),
                LifecycleStep::Inactive => self.announce(Inactive),
                LifecycleStep::Unregistered => self.announce(Unregistered),
                LifecycleStep::OffloadMarker => self.send_marker_from(HEAD),
                LifecycleStep::RemoveHandlers => self.remove_all_handlers(),
                LifecycleStep::Gone => {
                    self.here.channels().remove(self.token());
                    self.here.release_lease_if_unused();
                    self.here.counters().set_channels(self.here.channels().len());
                    self.shared.attributes.drop_companions();
                }
            }
        }
        self.mark_deferred(DeferredWork::STEPS);
    }

    /// Dispatches the event, if a handler stops for it.
    fn announce<E: Event>(self: &Rc<Self>, event: E) {
        if self.pipeline.may_stop_for(E::BIT) {
            self.enter(|core| core.send_from(HEAD, event));
        } else {
            event.reach_end(self);
        }
    }

    fn next_step(&self) -> Option<LifecycleStep> {
        self.steps.pop().or_else(|| {
            if self.has_overflow_steps() {
                self.cold.get_or_create().steps.pop_front()
            } else {
                None
            }
        })
    }
}
