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

/// A handle to several event loops. It dereferences to an [`EventExecutorGroup`]: one of the loops runs each task,
/// and a shutdown ends all loops.
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
    /// Returns a builder for a group whose loops wait in drivers that `driver` opens.
    pub fn builder(driver: impl OpenDriver + 'static) -> EventLoopGroupBuilder {
        EventLoopGroupBuilder::new(driver)
    }

    /// Returns a builder for a group with one loop and one thread for each channel, typically with the blocking
    /// driver. Loops are built when channels need them. A loop whose channel is closed, and which has no other
    /// registration, is reused for the next channel. All loops end with the group.
    ///
    /// Every call that creates a channel (bootstraps, [`register`](Self::register)) takes one loop for the channel.
    /// [`register_foreign`](Self::register_foreign) takes one loop for the descriptor.
    /// Tasks run on the existing loops; the group always has at least one.
    /// [`max_channels`](EventLoopGroupBuilder::max_channels) limits the number of channels.
    ///
    /// ```
    /// use std::time::Duration;
    /// use waterwheel_channel::driver::TaskOnly;
    /// use waterwheel_channel::{EventLoopGroup, NewChannel, TooManyChannels, local};
    /// use waterwheel_executor::ErrorKind;
    ///
    /// let group = EventLoopGroup::per_channel(TaskOnly).max_channels(2).name("each").build()?;
    /// let new = || NewChannel::new(local::Connection::new());
    /// let (one, other) = (group.register(new()).join()?, group.register(new()).join()?);
    /// assert_ne!(one.event_loop(), other.event_loop());
    /// let refused = group.register(new()).join().unwrap_err();
    /// let limit = TooManyChannels { max: 2 };
    /// assert!(matches!(refused.kind(), ErrorKind::Other(why) if why.downcast_ref() == Some(&limit)));
    /// # group.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?.join()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn per_channel(driver: impl OpenDriver + 'static) -> EventLoopGroupBuilder {
        EventLoopGroupBuilder::per_channel(driver)
    }

    pub(crate) fn new(executors: EventExecutorGroup<LoopCommand>) -> Self {
        Self { executors }
    }

    /// Returns a handle that does not keep the group alive: see [`EventExecutorGroup::without_lease`].
    #[must_use]
    pub fn without_lease(&self) -> Self {
        Self::new(self.executors.without_lease())
    }

    /// Returns the loop that the group's chooser picks for the next task.
    #[must_use]
    pub fn next(&self) -> EventLoop {
        EventLoop::new(self.executors.next())
    }

    /// Returns the loop for tasks that belong to `key`.
    #[must_use]
    pub fn next_for(&self, key: &impl Hash) -> EventLoop {
        EventLoop::new(self.executors.next_for(key))
    }

    /// Runs a future on the next loop: see [`EventLoop::spawn`].
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

    /// Runs the future that `make` returns on the next loop: see [`EventLoop::spawn_with`].
    ///
    /// # Errors
    /// [`Rejected`] with `make`.
    #[track_caller]
    pub fn spawn_with<M, F>(&self, make: M) -> Result<PromiseFuture<F::Output>, Rejected<M>>
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future<Output: Send> + 'static,
    {
        self.next().spawn_with(make)
    }

    /// Registers a foreign descriptor with the next loop: see [`EventLoop::register_foreign`]. In a group with one
    /// loop for each channel, the descriptor gets a loop of its own.
    #[track_caller]
    pub fn register_foreign<T: Send + Sync + 'static>(
        &self,
        foreign: Foreign<T>,
        interest: Interest,
        handler: impl ForeignHandler<T> + Send,
    ) -> PromiseFuture<ForeignHandle> {
        match self.loop_for_channel() {
            Ok((at, lease)) => at.register_foreign_with_lease(lease, foreign, interest, handler),
            Err(error) => self.next().failed(error),
        }
    }

    /// Iterates over the loops, in order.
    pub fn children(&self) -> impl ExactSizeIterator<Item = EventLoop> + '_ {
        self.executors.children().map(EventLoop::new)
    }
}

/// Offers all methods of a group of executors.
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
