//! An executor whose tasks carry a label.

use std::time::Duration;

use crate::engine::command::NoExtension;
use crate::executor::EventExecutor;
use crate::promise::PromiseFuture;
use crate::queue::rejection::Rejected;
use crate::raw::origin::Origin;
use crate::timer::MissedTicks;
use crate::timer::periodic::Repeat;
use crate::wake::wake_word::Urgency;

/// An [`EventExecutor`] that labels the tasks submitted through it.
///
/// ```
/// use waterwheel_executor::EventExecutor;
///
/// let executor = EventExecutor::builder().build()?;
/// let metrics = executor.labelled("flush metrics");
/// let inside = executor.clone();
/// let doing = metrics.submit(move || inside.running().unwrap().to_string())?;
/// assert_eq!(doing.join()?, "flush metrics");
/// assert_eq!(*metrics.inner(), executor);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct LabelledExecutor<X: Send + 'static = NoExtension> {
    inner: EventExecutor<X>,
    origin: Origin,
}

impl<X: Send + 'static> LabelledExecutor<X> {
    pub(crate) fn new(inner: EventExecutor<X>, label: &'static str) -> Self {
        Self { inner, origin: Origin::labelled(label) }
    }

    /// Returns the executor without the label.
    #[must_use]
    pub fn inner(&self) -> &EventExecutor<X> {
        &self.inner
    }

    /// Queues a labelled task: see [`EventExecutor::execute`].
    ///
    /// # Errors
    /// [`Rejected`] with the closure.
    pub fn execute<F: FnOnce() + Send + 'static>(&self, task: F) -> Result<(), Rejected<F>> {
        self.inner.execute_from(self.origin, Urgency::Now, task)
    }

    /// Queues a labelled task without waking the loop: see [`EventExecutor::lazy_execute`].
    ///
    /// # Errors
    /// [`Rejected`] with the closure.
    pub fn lazy_execute<F: FnOnce() + Send + 'static>(&self, task: F) -> Result<(), Rejected<F>> {
        self.inner.execute_from(self.origin, Urgency::Lazy, task)
    }

    /// Queues a labelled task and returns a future for its value: see [`EventExecutor::submit`].
    ///
    /// # Errors
    /// [`Rejected`] with the closure.
    #[track_caller]
    pub fn submit<T, F>(&self, task: F) -> Result<PromiseFuture<T>, Rejected<F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.inner.submit_from(self.origin, task)
    }

    /// Runs a labelled task after a delay: see [`EventExecutor::schedule`].
    ///
    /// # Errors
    /// [`Rejected`] with the closure.
    #[track_caller]
    pub fn schedule<T, F>(&self, delay: Duration, task: F) -> Result<PromiseFuture<T>, Rejected<F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.inner.schedule_from(self.origin, delay, task)
    }

    /// Runs a labelled task every `period`: see [`EventExecutor::schedule_at_fixed_rate`].
    ///
    /// # Errors
    /// [`Rejected`] with the closure.
    #[track_caller]
    pub fn schedule_at_fixed_rate<F: FnMut() + Send + 'static>(
        &self,
        initial_delay: Duration,
        period: Duration,
        task: F,
    ) -> Result<PromiseFuture<()>, Rejected<F>> {
        let repeat = Repeat::Rate { period, missed: MissedTicks::CatchUp };
        self.inner.schedule_repeatedly(self.origin, initial_delay, repeat, task)
    }

    /// Runs a labelled task again and again with a pause in between: see
    /// [`EventExecutor::schedule_with_fixed_delay`].
    ///
    /// # Errors
    /// [`Rejected`] with the closure.
    #[track_caller]
    pub fn schedule_with_fixed_delay<F: FnMut() + Send + 'static>(
        &self,
        initial_delay: Duration,
        pause: Duration,
        task: F,
    ) -> Result<PromiseFuture<()>, Rejected<F>> {
        let repeat = Repeat::Delay { pause };
        self.inner.schedule_repeatedly(self.origin, initial_delay, repeat, task)
    }
}
