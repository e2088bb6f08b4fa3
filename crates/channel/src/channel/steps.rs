//! What a channel announces from its loop only (rule 8): step by step, in order.

use std::cell::Cell;
use std::rc::Rc;

use super::core::{ChannelCore, Work};
use super::half_closure::HalfClosed;
use crate::pipeline::event::{Active, Event, Inactive, ReadComplete, Registered, Unregistered};
use crate::pipeline::slots::HEAD;

/// Something that is announced from the loop only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
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
    LastMail,
    RemoveHandlers,
    /// The loop forgets it.
    Gone,
}

impl Step {
    const ALL: &[Step] = &[
        Step::Registered,
        Step::Active,
        Step::ReadAgain,
        Step::RoundOver,
        Step::InputOver,
        Step::OutputOver,
        Step::Closed,
        Step::Inactive,
        Step::Unregistered,
        Step::LastMail,
        Step::RemoveHandlers,
        Step::Gone,
    ];
}

// Found by its number: one that is out of its place would be taken for another.
const _: () = {
    let mut number = 0;
    while number < Step::ALL.len() {
        assert!(Step::ALL[number] as usize == number);
        number += 1;
    }
    assert!(number == Step::Gone as usize + 1);
};

/// How many steps are taken before others have their turn: a channel may come and go for ever. A whole
/// life has nine.
const STEPS_PER_ROUND: usize = 16;

/// The next steps, in order: as many as four bits each have room for, which is more than a life has. A
/// channel that comes and goes in one call may need more; they find a place elsewhere.
#[derive(Default)]
pub(super) struct Steps(Cell<u64>);

impl Steps {
    /// Appends a step. `false`: there is no room.
    fn push(&self, step: Step) -> bool {
        let (queue, number) = (self.0.get(), step as u64 + 1);
        let used = (u64::BITS - queue.leading_zeros()).next_multiple_of(4);
        if used < u64::BITS {
            self.0.set(queue | number << used);
        }
        used < u64::BITS
    }

    fn pop(&self) -> Option<Step> {
        let queue = self.0.get();
        self.0.set(queue >> 4);
        let number = (queue & 0xf) as usize;
        Step::ALL.get(number.wrapping_sub(1)).copied()
    }
}

impl ChannelCore {
    pub(super) fn step(self: &Rc<Self>, step: Step) {
        if self.has_more_steps() || !self.steps.push(step) {
            self.rare.make().steps.push_back(step);
        }
        self.mark(Work::STEPS);
    }

    /// True if some have not found a place in the short queue.
    #[inline]
    fn has_more_steps(&self) -> bool {
        self.rare.has_value() && self.rare.look().is_some_and(|rare| !rare.steps.is_empty())
    }

    pub(super) fn take_steps(self: &Rc<Self>) {
        for _ in 0..STEPS_PER_ROUND {
            // A step may lead to completions, and those come before the steps they led to.
            self.tell_completions();
            let Some(step) = self.next_step() else { return };
            match step {
                Step::Registered => self.announce(Registered),
                Step::Active => self.enter(|core| {
                    core.go_through(Active);
                    core.read_if_auto();
                    core.begin_kept_read();
                }),
                Step::ReadAgain => self.enter(|core| {
                    core.read_if_auto();
                    core.begin_kept_read();
                }),
                Step::RoundOver => self.announce(ReadComplete),
                Step::InputOver => self.half_closed(HalfClosed::Input),
                Step::OutputOver => self.half_closed(HalfClosed::Output),
                Step::Closed => self.tell_closed(),
                Step::Inactive => self.announce(Inactive),
                Step::Unregistered => self.announce(Unregistered),
                Step::LastMail => self.follow_last_mail(HEAD),
                Step::RemoveHandlers => self.remove_all_handlers(),
                Step::Gone => {
                    self.here.channels().forget(self.token());
                    self.here.vacate();
                    self.here.counters().channels(self.here.channels().len());
                    self.shared.attributes.drop_companions();
                }
            }
        }
        self.mark(Work::STEPS);
    }

    /// Tells the handlers, if one of them stops for it.
    fn announce<E: Event>(self: &Rc<Self>, event: E) {
        if self.handlers.may_stop_for(E::BIT) {
            self.enter(|core| core.go(HEAD, event));
        } else {
            event.arrive(self);
        }
    }

    fn next_step(&self) -> Option<Step> {
        self.steps.pop().or_else(|| {
            if self.has_more_steps() { self.rare.make().steps.pop_front() } else { None }
        })
    }
}
