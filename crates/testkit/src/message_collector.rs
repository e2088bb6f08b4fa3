//! A handler that gathers the messages of one type, for tests of pipelines (O04).
//!
//! ```
//! use waterwheel_channel::In;
//! use waterwheel_testkit::message_collector::MessageCollector;
//! use waterwheel_testkit::embedded::Embedded;
//!
//! let numbers = MessageCollector::<u32>::new();
//! let mut channel = Embedded::new(|edit| {
//!     edit.add_last("numbers", In(numbers.clone()))?;
//!     Ok(())
//! })?;
//! channel.write_inbound(1u32);
//! channel.write_inbound(String::from("passes"));
//! channel.write_inbound(2u32);
//! assert_eq!(numbers.take(), [1, 2]);
//! assert_eq!(channel.read_inbound::<String>().unwrap(), "passes");
//! # Ok::<(), waterwheel_executor::Error>(())
//! ```

use std::fmt;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use waterwheel_channel::{Ctx, Events, HandlerResult, InboundHandler, Message, Types};

/// Takes the inbound messages of type `T` out of a pipeline and keeps them for the test; messages of other types
/// pass. Clones share what was gathered, so that a clone in the pipeline fills the one that the test holds, also if
/// the pipeline is on another thread. See the [module's documentation](self).
pub struct MessageCollector<T>(Arc<Gathered<T>>);

/// Filled by the loops of the pipelines it is in, emptied by the test; either holds the lock for a push or a take.
struct Gathered<T> {
    messages: Mutex<Vec<T>>,
    came: Condvar,
}

impl<T: Message> MessageCollector<T> {
    /// Creates a collector that has gathered nothing.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Gathered { messages: Mutex::default(), came: Condvar::new() }))
    }

    /// Takes all messages out, in the order they came in.
    #[must_use = "to make room only, drop them"]
    pub fn take(&self) -> Vec<T> {
        mem::take(&mut *self.lock())
    }

    /// Returns how many messages there are to be taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until there are `count` messages at least, and takes all of them. For pipelines on other threads: an
    /// embedded channel runs in the test's own calls only.
    ///
    /// # Panics
    /// If there are fewer after `limit`.
    #[must_use = "to make room only, drop them"]
    #[track_caller]
    pub fn wait_for(&self, count: usize, limit: Duration) -> Vec<T> {
        let too_few = |messages: &mut Vec<T>| messages.len() < count;
        let waited = self.0.came.wait_timeout_while(self.lock(), limit, too_few);
        let (mut messages, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let found = messages.len();
        assert!(found >= count, "{found} messages of {count} came in within {limit:?}");
        mem::take(&mut *messages)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.0.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Message> InboundHandler for MessageCollector<T> {
    type In = T;

    fn interest(&self) -> Events {
        Events::READ
    }

    fn fires(&self) -> Types {
        Types::NONE
    }

    fn answers(&self) -> Types {
        Types::NONE
    }

    fn on_read(&mut self, _: &Ctx<'_>, msg: T) -> HandlerResult {
        self.lock().push(msg);
        self.0.came.notify_all();
        Ok(())
    }
}

impl<T: Message> Default for MessageCollector<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for MessageCollector<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Message + fmt::Debug> fmt::Debug for MessageCollector<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MessageCollector").field(&*self.lock()).finish()
    }
}
