//! Building a group.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::executor::EventExecutor;
use crate::executor::builder::{BuildError, EventExecutorBuilder};
use crate::group::EventExecutorGroup;
use crate::group::chooser::{Chooser, RoundRobin};
use crate::group::members::GroupParts;
use crate::queue::rejection::{Reject, RejectionPolicy};
use crate::report::Reporter;
use crate::report::log_reporter::LogReporter;
use crate::thread::{ThreadFactory, ThreadSupplier};
use crate::watchdog::Watchdog;

/// Gathers the properties of an [`EventExecutorGroup`]; [`build`](Self::build) checks them.
#[must_use]
pub struct EventExecutorGroupBuilder {
    threads: usize,
    siblings: Siblings,
    chooser: Box<dyn Chooser>,
    grows: bool,
    attachment: Option<Arc<dyn Any + Send + Sync>>,
}

/// What all children of a group have in common.
pub(crate) struct Siblings {
    name: String,
    bound: Option<u32>,
    timer_bound: Option<usize>,
    policy: Arc<dyn RejectionPolicy>,
    supplier: Option<Arc<dyn ThreadSupplier>>,
    reporter: Arc<dyn Reporter>,
    watchdog: Option<Watchdog>,
    /// How many there were so far: each has a name of its own.
    made: AtomicUsize,
}

/// How many children a group has when nothing is said: two for each core.
#[must_use]
pub fn default_threads() -> usize {
    2 * std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

impl EventExecutorGroupBuilder {
    pub(crate) fn new() -> Self {
        Self {
            threads: default_threads(),
            siblings: Siblings {
                name: "group".to_owned(),
                bound: None,
                timer_bound: None,
                policy: Arc::new(Reject),
                supplier: None,
                reporter: Arc::new(LogReporter),
                watchdog: None,
                made: AtomicUsize::new(0),
            },
            chooser: Box::new(RoundRobin::default()),
            grows: false,
            attachment: None,
        }
    }

    /// How many children; zero is an error. Default: [`default_threads`].
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// The name: children are `name-0`, `name-1`, …, their threads `name-pool-n`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.siblings.name = name.into();
        self
    }

    /// At most this many user tasks may wait at each child: from 16 on, see
    /// [`queue_bound`](EventExecutorBuilder::queue_bound) of a single executor.
    pub fn queue_bound(mut self, bound: u32) -> Self {
        self.siblings.bound = Some(bound);
        self
    }

    /// At most this many timers may be pending at each child: see
    /// [`timer_bound`](EventExecutorBuilder::timer_bound) of a single executor.
    pub fn timer_bound(mut self, bound: usize) -> Self {
        self.siblings.timer_bound = Some(bound);
        self
    }

    /// What happens to a submission that finds the queue full. Default: [`Reject`].
    pub fn rejection(mut self, policy: impl RejectionPolicy + 'static) -> Self {
        self.siblings.policy = Arc::new(policy);
        self
    }

    /// Where the threads come from. Default: a [`ThreadFactory`] with the group's name. For threads
    /// pinned to cores give one with [`pin_to`](ThreadFactory::pin_to).
    pub fn thread_supplier(mut self, supplier: Arc<dyn ThreadSupplier>) -> Self {
        self.siblings.supplier = Some(supplier);
        self
    }

    /// Who is told of faults. Default: the log.
    pub fn reporter(mut self, reporter: Arc<dyn Reporter>) -> Self {
        self.siblings.reporter = reporter;
        self
    }

    /// Who picks the child for the next piece of work. Default: [`RoundRobin`].
    pub fn chooser(mut self, chooser: impl Chooser + 'static) -> Self {
        self.chooser = Box::new(chooser);
        self
    }

    /// All children are watched by this one. Default: by none.
    pub fn watchdog(mut self, watchdog: &Watchdog) -> Self {
        self.siblings.watchdog = Some(watchdog.clone());
        self
    }

    /// The group may [grow](EventExecutorGroup::grow) after it was built.
    pub fn growing(mut self) -> Self {
        self.grows = true;
        self
    }

    /// Attaches something of the layer above, for
    /// [`attachment_of`](crate::engine::attachment_of) to find.
    pub fn attach(mut self, attachment: Arc<dyn Any + Send + Sync>) -> Self {
        self.attachment = Some(attachment);
        self
    }

    /// Builds a group of executors without I/O.
    ///
    /// # Errors
    /// [`BuildError`] names the property that makes no sense.
    pub fn build(self) -> Result<EventExecutorGroup, BuildError> {
        self.build_with(EventExecutorBuilder::build)
    }

    /// Builds a group whose children `build` makes, each from a prepared builder: the seam for groups
    /// of event loops. From then on a child lives as long as there are handles of the group: one that
    /// `build` kept for itself does not count.
    ///
    /// # Errors
    /// For zero threads, or the error of the first child that could not be built: then those before
    /// it have been shut down and have terminated.
    pub fn build_with<X: Send + 'static, E: From<BuildError>>(
        self,
        mut build: impl FnMut(EventExecutorBuilder) -> Result<EventExecutor<X>, E>,
    ) -> Result<EventExecutorGroup<X>, E> {
        if self.threads == 0 {
            return Err(BuildError::NoThreads.into());
        }
        let mut siblings = self.siblings;
        siblings.supplier.get_or_insert_with(|| Arc::new(ThreadFactory::new(&*siblings.name)));
        let mut children = Vec::with_capacity(self.threads);
        for _ in 0..self.threads {
            match build(siblings.next()).and_then(|child| new(child, &children)) {
                Ok(child) => children.push(child),
                Err(error) => {
                    end_all(&children);
                    return Err(error);
                }
            }
        }
        let siblings = self.grows.then_some(siblings);
        let parts = GroupParts { chooser: self.chooser, siblings, attachment: self.attachment };
        Ok(EventExecutorGroup::of(children, parts))
    }

    /// The builder of a single executor with these properties and the group's name.
    pub fn into_single(self) -> EventExecutorBuilder {
        self.siblings.named(self.siblings.name.clone())
    }
}

impl Siblings {
    /// The builder of one more.
    pub(crate) fn next(&self) -> EventExecutorBuilder {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        self.named(format!("{}-{number}", self.name))
    }

    fn named(&self, name: String) -> EventExecutorBuilder {
        let mut builder = EventExecutorBuilder::new()
            .name(name)
            .rejection(self.policy.clone())
            .reporter(self.reporter.clone());
        if let Some(bound) = self.bound {
            builder = builder.queue_bound(bound);
        }
        if let Some(bound) = self.timer_bound {
            builder = builder.timer_bound(bound);
        }
        if let Some(watchdog) = &self.watchdog {
            builder = builder.watchdog(watchdog);
        }
        match &self.supplier {
            Some(supplier) => builder.thread_supplier(supplier.clone()),
            None => builder,
        }
    }
}

/// A child must be nobody's yet.
pub(crate) fn new<X: Send + 'static, E: From<BuildError>>(
    child: EventExecutor<X>,
    others: &[EventExecutor<X>],
) -> Result<EventExecutor<X>, E> {
    if child.shared().group_id().is_some() || others.contains(&child) {
        return Err(BuildError::AlreadyInGroup { executor: child.name().to_owned() }.into());
    }
    Ok(child)
}

/// Shuts the children of a group that is not to be down, and waits for them.
fn end_all<X: Send + 'static>(children: &[EventExecutor<X>]) {
    for child in children {
        drop(child.shutdown());
    }
    for child in children {
        // Refused only on the thread of a loop that must never block: then they end by themselves.
        let _ = child.join();
    }
}

impl fmt::Debug for EventExecutorGroupBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventExecutorGroupBuilder")
            .field("name", &self.siblings.name)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}
