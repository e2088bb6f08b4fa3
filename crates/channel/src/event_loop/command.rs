//! What can be asked of an event loop beyond tasks and timers: a call with the loop, made on its thread.
//!
//! It travels as a value through the executor's queue. Whoever sends one says there and then what is to be done,
//! so that the loop knows nothing of the layers above it.

use std::fmt;

use waterwheel_executor::engine::InlineCall;

use crate::event_loop::local_loop::LocalLoop;

/// A command to an event loop. Made by this crate only.
pub struct LoopCommand(InlineCall<LocalLoop>);

impl LoopCommand {
    /// A call of up to two words: an `Arc` and a `Box`, or two tokens. It allocates nothing; a larger closure
    /// does not compile.
    #[inline]
    pub(crate) fn new(call: impl FnOnce(&LocalLoop) + Send + 'static) -> Self {
        Self(InlineCall::new(call))
    }

    /// A call of any size, which is boxed if it is larger: for what is seldom asked.
    pub(crate) fn of_any_size(call: impl FnOnce(&LocalLoop) + Send + 'static) -> Self {
        Self(InlineCall::of_any_size(call))
    }

    /// Makes the call. On the loop.
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
