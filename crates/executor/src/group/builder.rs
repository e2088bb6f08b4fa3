//! The builder of groups.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::executor::EventExecutor;
use crate::executor::builder::{BuildError, EventExecutorBuilder};
use crate::group::EventExecutorGroup;
use crate::group::chooser::{Chooser, RoundRobin};
use crate::group::shared::GroupParts;
use crate::queue::rejection::{Reject, RejectionPolicy};
use crate::report::Reporter;
use crate::report::log_reporter::LogReporter;
use crate::thread::{ThreadFactory, ThreadSupplier};
use crate::watchdog::Watchdog;

/// Gathers the properties of an [`EventExecutorGroup`]; [`build`](Self::build) checks them.
#[must_use]
pub struct EventExecutorGroupBuilder {
    threads: usize,
    template: ChildTemplate,
    chooser: Box<dyn Chooser>,
    grows: bool,
    attachment: Option<Arc<dyn Any + Send + Sync>>,
}

/// The properties that all children of a group have in common. Makes the builders of its children.
pub(crate) struct ChildTemplate {
    name: String,
    bound: Option<u32>,
    timer_bound: Option<usize>,
    policy: Arc<dyn RejectionPolicy>,
    supplier: Option<Arc<dyn ThreadSupplier>>,
    reporter: Arc<dyn Reporter>,
    watchdog: Option<Watchdog>,
    /// How many children were built so far: each gets a number in its name.
    built: AtomicUsize,
}

/// Returns the default number of children of a group: two for each core.
#[must_use]
pub fn default_threads() -> usize {
    2 * std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

impl EventExecutorGroupBuilder {
    pub(crate) fn new() -> Self {
        Self {
            threads: default_threads(),
            template: ChildTemplate {
                name: "group".to_owned(),
                bound: None,
                timer_bound: None,
                policy: Arc::new(Reject),
                supplier: None,
                reporter: Arc::new(LogReporter),
                watchdog: None,
                built: AtomicUsize::new(0),
            },
            chooser: Box::new(RoundRobin::default()),
            grows: false,
            attachment: None,
        }
    }

    /// Sets the number of children; zero is an error. Default: [`default_threads`].
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets the name: children are named `name-0`, `name-1`, …, their threads `name-pool-n`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.template.name = name.into();
        self
    }

    /// Sets how many user tasks may be queued at each child, at least 16: see
    /// [`queue_bound`](EventExecutorBuilder::queue_bound) of a single executor.
    pub fn queue_bound(mut self, bound: u32) -> Self {
        self.template.bound = Some(bound);
        self
    }

    /// Sets how many timers may be pending at each child: see
    /// [`timer_bound`](EventExecutorBuilder::timer_bound) of a single executor.
    pub fn timer_bound(mut self, bound: usize) -> Self {
        self.template.timer_bound = Some(bound);
        self
    }

    /// Sets the policy for submissions that find the queue full. Default: [`Reject`].
    pub fn rejection(mut self, policy: impl RejectionPolicy + 'static) -> Self {
        self.template.policy = Arc::new(policy);
        self
    }

    /// Sets the supplier of the threads. Default: a [`ThreadFactory`] with the group's name. For threads that
    /// are pinned to cores, use a factory with [`pin_to`](ThreadFactory::pin_to).
    pub fn thread_supplier(mut self, supplier: Arc<dyn ThreadSupplier>) -> Self {
        self.template.supplier = Some(supplier);
        self
    }

    /// Sets the reporter of faults. Default: the [`LogReporter`].
    pub fn reporter(mut self, reporter: Arc<dyn Reporter>) -> Self {
        self.template.reporter = reporter;
        self
    }

    /// Sets the chooser, which picks the child for the next piece of work. Default: [`RoundRobin`].
    pub fn chooser(mut self, chooser: impl Chooser + 'static) -> Self {
        self.chooser = Box::new(chooser);
        self
    }

    /// Sets the watchdog that watches all children. Default: none.
    pub fn watchdog(mut self, watchdog: &Watchdog) -> Self {
        self.template.watchdog = Some(watchdog.clone());
        self
    }

    /// Lets the group [grow](EventExecutorGroup::grow) after it was built.
    pub fn growing(mut self) -> Self {
        self.grows = true;
        self
    }

    /// Attaches a value of the layer above, which [`attachment_of`](crate::engine::attachment_of) returns.
    pub fn attach(mut self, attachment: Arc<dyn Any + Send + Sync>) -> Self {
        self.attachment = Some(attachment);
        self
    }

    /// Builds a group of executors without I/O.
    ///
    /// # Errors
    /// [`BuildError`] says which property is invalid.
    pub fn build(self) -> Result<EventExecutorGroup, BuildError> {
        self.build_with(EventExecutorBuilder::build)
    }

    /// Builds a group and calls `build` for each child, with a prepared builder: for groups of event loops.
    /// From then on the handles of the group keep a child alive: a handle that `build` kept for itself does not
    /// count.
    ///
    /// # Errors
    /// [`BuildError::NoThreads`] for zero threads, or the error of the first child that could not be built; the
    /// children built before have then been shut down and have terminated.
    pub fn build_with<X: Send + 'static, E: From<BuildError>>(
        self,
        mut build: impl FnMut(EventExecutorBuilder) -> Result<EventExecutor<X>, E>,
    ) -> Result<EventExecutorGroup<X>, E> {
        if self.threads == 0 {
            return Err(BuildError::NoThreads.into());
        }
        let mut template = self.template;
        template.supplier.get_or_insert_with(|| Arc::new(ThreadFactory::new(&*template.name)));
        let mut children = Vec::with_capacity(self.threads);
        for _ in 0..self.threads {
            match build(template.next_builder())
                .and_then(|child| ensure_new_child(child, &children))
            {
                Ok(child) => children.push(child),
                Err(error) => {
                    shut_down_and_join(&children);
                    return Err(error);
                }
            }
        }
        let template = self.grows.then_some(template);
        let parts = GroupParts { chooser: self.chooser, template, attachment: self.attachment };
        Ok(EventExecutorGroup::of(children, parts))
    }

    /// Returns the builder of a single executor with these properties and the group's name.
    pub fn into_single(self) -> EventExecutorBuilder {
        self.template.builder_named(self.template.name.clone())
    }
}

impl ChildTemplate {
    /// Returns the builder of the next child.
    pub(crate) fn next_builder(&self) -> EventExecutorBuilder {
        let number = self.built.fetch_add(1, Ordering::Relaxed);
        self.builder_named(format!("{}-{number}", self.name))
    }

    fn builder_named(&self, name: String) -> EventExecutorBuilder {
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

/// Checks that a child is not in a group yet.
pub(crate) fn ensure_new_child<X: Send + 'static, E: From<BuildError>>(
    child: EventExecutor<X>,
    others: &[EventExecutor<X>],
) -> Result<EventExecutor<X>, E> {
    if child.shared().group_id().is_some() || others.contains(&child) {
        return Err(BuildError::AlreadyInGroup { executor: child.name().to_owned() }.into());
    }
    Ok(child)
}

/// Shuts down the children of a group that could not be built, and waits for them.
fn shut_down_and_join<X: Send + 'static>(children: &[EventExecutor<X>]) {
    for child in children {
        drop(child.shutdown());
    }
    for child in children {
        // The join fails only on the thread of a loop that must never block; the children then end by themselves.
        let _ = child.join();
    }
}

impl fmt::Debug for EventExecutorGroupBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventExecutorGroupBuilder")
            .field("name", &self.template.name)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}
