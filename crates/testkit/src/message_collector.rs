//! A handler that collects the inbound messages of one type, for tests of pipelines (O04).
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

/// A handler that takes inbound messages of type `T` out of a pipeline and keeps them for the test. Messages of other
/// types are passed on. Clones share the collected messages: the test keeps one clone and adds another to the
/// pipeline, which may be on another thread. See the [module's documentation](self).
pub struct MessageCollector<T>(Arc<CollectedMessages<T>>);

/// The messages, shared by the loops that push and the test that takes. Both hold the lock for one push or take.
struct CollectedMessages<T> {
    messages: Mutex<Vec<T>>,
    arrived: Condvar,
}

impl<T: Message> MessageCollector<T> {
    /// Creates an empty collector.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(CollectedMessages { messages: Mutex::default(), arrived: Condvar::new() }))
    }

    /// Takes all collected messages, in the order of their arrival.
    #[must_use = "to make room only, drop them"]
    pub fn take(&self) -> Vec<T> {
        mem::take(&mut *self.lock())
    }

    /// Returns how many messages have been collected and not taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// True if no message has been collected since the last take.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Blocks until there are at least `count` messages, and takes all of them. For pipelines on other threads: an
    /// embedded channel runs only inside the test's own calls.
    ///
    /// # Panics
    /// If fewer have arrived after `limit`.
    #[must_use = "to make room only, drop them"]
    #[track_caller]
    pub fn wait_for(&self, count: usize, limit: Duration) -> Vec<T> {
        let too_few = |messages: &mut Vec<T>| messages.len() < count;
        let waited = self.0.arrived.wait_timeout_while(self.lock(), limit, too_few);
        let (mut messages, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let found = messages.len();
        assert!(found >= count, "{found} of {count} messages arrived within {limit:?}");
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
        self.0.arrived.notify_all();
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
