//! Groups of event loops.

use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::ops::Deref;

use waterwheel_executor::{EventExecutorGroup, PromiseFuture, Rejected};

use crate::driver::{Interest, OpenDriver};
use crate::event_loop::builder::EventLoopGroupBuilder;
use crate::event_loop::command::LoopCommand;
use crate::event_loop::handle::EventLoop;
use crate::foreign::{Foreign, ForeignHandle, ForeignHandler};

/// Several event loops behind one handle. It is an [`EventExecutorGroup`] and offers all that one
/// does: each submission goes to one of the loops, a shutdown to all.
///
/// ```
/// use std::time::Duration;
/// use waterwheel_channel::driver::TaskOnly;
/// use waterwheel_channel::EventLoopGroup;
///
/// let group = EventLoopGroup::builder(TaskOnly).threads(2).name("io").build()?;
/// assert_ne!(group.next(), group.next());
/// group.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct EventLoopGroup {
    executors: EventExecutorGroup<LoopCommand>,
}

impl EventLoopGroup {
    /// Starts to build a group whose loops wait in drivers of this kind.
    pub fn builder(driver: impl OpenDriver + 'static) -> EventLoopGroupBuilder {
        EventLoopGroupBuilder::new(driver)
    }

    pub(crate) fn new(executors: EventExecutorGroup<LoopCommand>) -> Self {
        Self { executors }
    }

    /// A handle that does not keep the group alive: see [`EventExecutorGroup::without_lease`].
    #[must_use]
    pub fn without_lease(&self) -> Self {
        Self::new(self.executors.without_lease())
    }

    /// The loop that the group's chooser picks for the next piece of work.
    #[must_use]
    pub fn next(&self) -> EventLoop {
        EventLoop::new(self.executors.next())
    }

    /// The loop for work that belongs to `key`.
    #[must_use]
    pub fn next_for(&self, key: &impl Hash) -> EventLoop {
        EventLoop::new(self.executors.next_for(key))
    }

    /// As [`EventLoop::spawn`], on the next loop.
    ///
    /// # Errors
    /// [`Rejected`] with the future.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> Result<PromiseFuture<F::Output>, Rejected<F>>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.next().spawn(future)
    }

    /// As [`EventLoop::register_foreign`], with the next loop.
    #[track_caller]
    pub fn register_foreign<T: Send + Sync + 'static>(
        &self,
        foreign: Foreign<T>,
        interest: Interest,
        handler: impl ForeignHandler<T> + Send,
    ) -> PromiseFuture<ForeignHandle> {
        self.next().register_foreign(foreign, interest, handler)
    }

    /// The loops, in order.
    pub fn children(&self) -> impl ExactSizeIterator<Item = EventLoop> + '_ {
        self.executors.children().map(EventLoop::new)
    }
}

/// A group of event loops is a group of executors.
impl Deref for EventLoopGroup {
    type Target = EventExecutorGroup<LoopCommand>;

    fn deref(&self) -> &Self::Target {
        &self.executors
    }
}

impl fmt::Debug for EventLoopGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.executors.fmt(f)
    }
}
