//! What can be asked of a loop. One queue carries it all, in order.

use std::fmt;

use crate::clock::Nanos;
use crate::engine::hooks::{Hook, HookId};
use crate::promise::AnyPromise;
use crate::queue::admission::Depth;
use crate::raw::task::Task;
use crate::timer::entry::TimerRef;

/// An entry of a loop's queue. Two cases and no more: the second hides in a value that the task's
/// first word can never have, so that an entry is no larger than a task (40 bytes).
pub(crate) enum Command<X> {
    /// A user's task: the only kind that counts against the queue's bound.
    Run(Task),
    System(System<X>),
}

/// What is not a task. `X` is what a layer above adds: an event loop's own commands travel as
/// values ([`InlineCall`](crate::raw::call::InlineCall)), not as boxed closures.
pub(crate) enum System<X> {
    /// Call the listeners of a promise.
    Notify(AnyPromise),
    /// Put a timer into the wheel.
    Schedule(Nanos, TimerRef),
    /// Clear the place of a cancelled timer.
    ClearTimer(AnyPromise),
    /// A timer is due: queued by the loop itself, not counted.
    Due(Due<X>),
    /// Listeners nested too deep, queued by the loop itself: not counted, never refused.
    NotifyNested(AnyPromise),
    AddHook(Box<Hook>),
    RemoveHook(HookId),
    /// Nothing: a reason to look.
    Wake,
    Extension(X),
    /// An extension command that adds to the lasting load of the loop ([`Attached::load`](crate::Attached)).
    Lasting(X),
}

impl<X> Command<X> {
    /// How it counts in the admission word.
    pub(crate) fn weight(&self) -> Depth {
        match self {
            Command::Run(_) => Depth::ONE_USER,
            Command::System(System::NotifyNested(_) | System::Due(_)) => Depth::NONE,
            Command::System(_) => Depth::ONE_SYSTEM,
        }
    }

    /// True if performing this command adds to the lasting load: its admission is returned first, so that
    /// a chooser does not count the same work twice.
    pub(crate) fn adds_lasting_load(&self) -> bool {
        matches!(self, Command::System(System::Lasting(_)))
    }
}

impl<X> fmt::Debug for Command<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Command::Run(_) => "Run",
            Command::System(System::Notify(_)) => "Notify",
            Command::System(System::Schedule(..)) => "Schedule",
            Command::System(System::ClearTimer(_)) => "ClearTimer",
            Command::System(System::Due(_)) => "Due",
            Command::System(System::NotifyNested(_)) => "NotifyNested",
            Command::System(System::AddHook(_)) => "AddHook",
            Command::System(System::RemoveHook(_)) => "RemoveHook",
            Command::System(System::Wake) => "Wake",
            Command::System(System::Extension(_)) => "Extension",
            Command::System(System::Lasting(_)) => "Lasting",
        })
    }
}

/// What a loop's wheel holds.
pub(crate) enum Due<X> {
    /// A closure, with the handle that cancels it.
    Timer(TimerRef),
    /// A command of the layer above: no closure, no handle, no allocation.
    Extension(X),
}

impl<X> Due<X> {
    /// Notes that a timer was taken out of the wheel because it is due: a cancel from here on finds no place to
    /// clear.
    pub(crate) fn leave_wheel(&self) {
        if let Due::Timer(timer) = self {
            timer.place().take();
        }
    }
}

/// The extension of a loop that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoExtension {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::raw::call::InlineCall;

    #[test]
    fn a_command_is_no_larger_than_a_task() {
        assert_eq!(size_of::<Command<NoExtension>>(), size_of::<Task>());
        assert_eq!(size_of::<Command<InlineCall<()>>>(), size_of::<Task>());
    }
}
