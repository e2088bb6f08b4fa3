//! Commands to an event loop: closures that the loop calls on its own thread, with itself as the argument.
//!
//! A command travels as a value through the executor's queue. The sender supplies the closure, so the loop needs no
//! knowledge of the layers above it.

use std::fmt;

use waterwheel_executor::engine::InlineCall;

use crate::event_loop::local_loop::LocalLoop;

/// A command to an event loop. Only this crate creates commands.
pub struct LoopCommand(InlineCall<LocalLoop>);

impl LoopCommand {
    /// Creates a command from a closure of at most two words, such as an `Arc` and a `Box`, or two tokens. It does
    /// not allocate. A larger closure does not compile.
    #[inline]
    pub(crate) fn new(call: impl FnOnce(&LocalLoop) + Send + 'static) -> Self {
        Self(InlineCall::new(call))
    }

    /// Creates a command from a closure of any size, boxed if it exceeds two words. For rare commands.
    pub(crate) fn of_any_size(call: impl FnOnce(&LocalLoop) + Send + 'static) -> Self {
        Self(InlineCall::of_any_size(call))
    }

    /// Runs the command, on the loop.
    #[inline]
    pub(crate) fn perform(self, here: &LocalLoop) {
        self.0.call(here);
    }
}

impl fmt::Debug for LoopCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoopCommand")
    }
}
