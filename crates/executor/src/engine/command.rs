//! The entries of a loop's queue: everything that can be asked of a loop, in one order.

use std::fmt;

use crate::clock::Nanos;
use crate::engine::hooks::{HookId, ShutdownHook};
use crate::promise::AnyPromise;
use crate::queue::admission::QueueDepth;
use crate::raw::task::Task;
use crate::timer::entry::TimerRef;

/// An entry of a loop's queue. It has two variants only: the second is encoded in a niche of the task's first
/// word, so that an entry is no larger than a task (40 bytes).
pub(crate) enum Command<X> {
    /// A user's task: the only kind that counts against the queue bound.
    Run(Task),
    System(SystemCommand<X>),
}

/// A command that is not a task. `X` is the command type of the layer above: an event loop's commands are values
/// ([`InlineCall`](crate::raw::call::InlineCall)), not boxed closures.
pub(crate) enum SystemCommand<X> {
    /// Calls the listeners of a promise.
    Notify(AnyPromise),
    /// Puts a timer into the wheel.
    Schedule(Nanos, TimerRef),
    /// Removes a cancelled timer from the wheel.
    ClearTimer(AnyPromise),
    /// Fires a timer that is due. Queued by the loop itself, not counted.
    Due(WheelEntry<X>),
    /// Calls listeners that were nested too deep. Queued by the loop itself: not counted, never refused.
    NotifyNested(AnyPromise),
    AddHook(Box<ShutdownHook>),
    RemoveHook(HookId),
    /// Makes the loop turn, and does nothing else.
    Wake,
    Extension(X),
    /// An extension command that adds to the lasting load of the loop
    /// ([`ExecutorAttachment::load`](crate::ExecutorAttachment)).
    Lasting(X),
}

impl<X> Command<X> {
    /// Returns how the command counts in the admission word.
    pub(crate) fn depth(&self) -> QueueDepth {
        match self {
            Command::Run(_) => QueueDepth::ONE_USER,
            Command::System(SystemCommand::NotifyNested(_) | SystemCommand::Due(_)) => {
                QueueDepth::NONE
            }
            Command::System(_) => QueueDepth::ONE_SYSTEM,
        }
    }

    /// True if performing this command adds to the lasting load: its admission is returned first, so that
    /// a chooser does not count the same work twice.
    pub(crate) fn is_lasting(&self) -> bool {
        matches!(self, Command::System(SystemCommand::Lasting(_)))
    }
}

impl<X> fmt::Debug for Command<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Command::Run(_) => "Run",
            Command::System(SystemCommand::Notify(_)) => "Notify",
            Command::System(SystemCommand::Schedule(..)) => "Schedule",
            Command::System(SystemCommand::ClearTimer(_)) => "ClearTimer",
            Command::System(SystemCommand::Due(_)) => "Due",
            Command::System(SystemCommand::NotifyNested(_)) => "NotifyNested",
            Command::System(SystemCommand::AddHook(_)) => "AddHook",
            Command::System(SystemCommand::RemoveHook(_)) => "RemoveHook",
            Command::System(SystemCommand::Wake) => "Wake",
            Command::System(SystemCommand::Extension(_)) => "Extension",
            Command::System(SystemCommand::Lasting(_)) => "Lasting",
        })
    }
}

/// An entry of a loop's timer wheel.
pub(crate) enum WheelEntry<X> {
    /// A timer of a user: a closure in the same allocation as its promise.
    Timer(TimerRef),
    /// A command of the layer above. Unlike a timer it has no closure and no promise, is cancelled by its
    /// `TimerKey`, and allocates nothing.
    Extension(X),
}

impl<X> WheelEntry<X> {
    /// Clears the recorded wheel position of a timer that was taken out because it is due: a later cancel finds
    /// nothing to remove.
    pub(crate) fn clear_wheel_position(&self) {
        if let WheelEntry::Timer(timer) = self {
            timer.wheel_position().take();
        }
    }
}

/// The extension type of a loop without extension commands. It has no values.
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
