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

    /// Starts to build a group that has a loop, and a thread, for each channel: with the blocking driver,
    /// or with any other. Loops are built when channels need them. One whose channel is closed, and with
    /// which nothing else is registered, waits for the next channel; they all end with the group.
    ///
    /// Whatever makes channels (bootstraps, [`register`](Self::register)) takes a loop for each, and so does
    /// [`register_foreign`](Self::register_foreign); tasks go to the loops that are there, which is at least
    /// one. How many channels there may be says [`max_channels`](EventLoopGroupBuilder::max_channels).
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

    /// As [`EventLoop::register_foreign`], with the next loop; in a group with a loop for each channel, with
    /// one of its own.
    #[track_caller]
    pub fn register_foreign<T: Send + Sync + 'static>(
        &self,
        foreign: Foreign<T>,
        interest: Interest,
        handler: impl ForeignHandler<T> + Send,
    ) -> PromiseFuture<ForeignHandle> {
        match self.find_loop() {
            Ok((at, lease)) => at.register_foreign_at(lease, foreign, interest, handler),
            Err(error) => self.next().failed(error),
        }
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
