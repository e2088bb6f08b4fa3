//! What can be asked of a loop. One queue carries it all, in order.

use std::fmt;
use std::sync::Arc;

use crate::admission::Depth;
use crate::clock::Nanos;
use crate::hooks::{Hook, HookId};
use crate::raw::task::Task;
use crate::registry::Notify;
use crate::timer::entry::Timer;

/// An entry of a loop's queue. `X` is what a layer above adds: an event loop's channel commands
/// travel as values, not as boxed closures.
pub(crate) enum Command<X> {
    /// A user's task: the only kind that counts against the queue's bound.
    Run(Task),
    /// Call the listeners of a promise.
    Notify(Arc<dyn Notify>),
    /// Put a timer into the heap.
    Schedule(Nanos, Arc<dyn Timer>),
    /// Clear the place of a cancelled timer.
    ClearTimer(Arc<dyn Timer>),
    /// A timer is due: queued by the loop itself, not counted.
    Due(Due<X>),
    /// Listeners nested too deep, queued by the loop itself: not counted, never refused.
    NotifyNested(Arc<dyn Notify>),
    AddHook(Hook),
    RemoveHook(HookId),
    /// Nothing: a reason to look.
    Wake,
    Extension(X),
}

impl<X> Command<X> {
    /// How it counts in the admission word.
    pub(crate) fn weight(&self) -> Depth {
        match self {
            Command::Run(_) => Depth::ONE_USER,
            Command::NotifyNested(_) | Command::Due(_) => Depth::NONE,
            _ => Depth::ONE_SYSTEM,
        }
    }
}

impl<X> fmt::Debug for Command<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Command::Run(_) => "Run",
            Command::Notify(_) => "Notify",
            Command::Schedule(..) => "Schedule",
            Command::ClearTimer(_) => "ClearTimer",
            Command::Due(_) => "Due",
            Command::NotifyNested(_) => "NotifyNested",
            Command::AddHook(_) => "AddHook",
            Command::RemoveHook(_) => "RemoveHook",
            Command::Wake => "Wake",
            Command::Extension(_) => "Extension",
        })
    }
}

/// What a loop's heap holds.
pub(crate) enum Due<X> {
    /// A closure, with the handle that cancels it.
    Timer(Arc<dyn Timer>),
    /// A command of the layer above: no closure, no handle, no allocation.
    Extension(X),
}

/// The extension of a loop that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoExtension {}
