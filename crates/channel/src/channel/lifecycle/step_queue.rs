//! What a channel announces from its loop only (rule 8): step by step, in order.

use std::cell::Cell;
use std::rc::Rc;

use crate::channel::core::{ChannelCore, DeferredWork};
use crate::channel::lifecycle::half_closure::HalfClosed;
use crate::pipeline::dispatch::event::{
    Active, Event, Inactive, ReadComplete, Registered, Unregistered,
};
use crate::pipeline::slots::slot_list::HEAD;

/// Something that is announced from the loop only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LifecycleStep {
    Registered,
    Active,
    /// It was registered again: reading goes on.
    ReadAgain,
    /// It left in the middle of a round of reads.
    RoundOver,
    /// One direction is over.
    InputOver,
    OutputOver,
    /// The close future, and those who asked for the close.
    Closed,
    Inactive,
    Unregistered,
    /// The handlers are to be removed, when all of them have learnt of the above.
    OffloadMarker,
    RemoveHandlers,
    /// The loop forgets it.
    Gone,
}

impl LifecycleStep {
    const ALL: &[LifecycleStep] = &[
        LifecycleStep::Registered,
        LifecycleStep::Active,
        LifecycleStep::ReadAgain,
        LifecycleStep::RoundOver,
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

// Found by its number: one that is out of its place would be taken for another.
const _: () = {
    let mut number = 0;
    while number < LifecycleStep::ALL.len() {
        assert!(LifecycleStep::ALL[number] as usize == number);
        number += 1;
    }
    assert!(number == LifecycleStep::Gone as usize + 1);
};

/// How many steps are taken before others have their turn: a channel may come and go for ever. A whole
/// life has nine.
const STEPS_PER_ROUND: usize = 16;

/// The next steps, in order: as many as four bits each have room for, which is more than a life has. A
/// channel that comes and goes in one call may need more; they find a place elsewhere.
#[derive(Default)]
pub(in crate::channel) struct StepQueue(Cell<u64>);

impl StepQueue {
    /// Appends a step. `false`: there is no room.
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

    /// True if some have not found a place in the short queue.
    #[inline]
    fn has_overflow_steps(&self) -> bool {
        self.cold.is_created() && self.cold.get().is_some_and(|cold| !cold.steps.is_empty())
    }

    pub(in crate::channel) fn run_steps(self: &Rc<Self>) {
        for _ in 0..STEPS_PER_ROUND {
            // A step may lead to completions, and those come before the steps they led to.
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
                LifecycleStep::RoundOver => self.announce(ReadComplete),
                LifecycleStep::InputOver => self.half_closed(HalfClosed::Input),
                LifecycleStep::OutputOver => self.half_closed(HalfClosed::Output),
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

    /// Tells the handlers, if one of them stops for it.
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
