//! Promises that report progress.

use std::collections::VecDeque;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

use super::any::{AnyPromise, ErasedPromise};
use super::future::PromiseFuture;
use super::observers::call_listener;
use super::promise::{Promise, promise};
use crate::engine::current::{self, ExecutorId};
use crate::engine::registry::deliver;
use crate::error::Error;
use crate::raw::block::{Allocator, AsDyn, CountedBlock, Ref};
use crate::raw::origin::Origin;

/// Makes a progressive promise and its future. Listeners run on the executor with this id.
#[track_caller]
pub(crate) fn progressive_promise<T: Send + 'static>(
    executor: ExecutorId,
) -> (ProgressivePromise<T>, ProgressiveFuture<T>) {
    let (promise, future) = promise(executor);
    let (reports, future_reports) = Ref::pair(
        Allocator::Global,
        || ProgressReports { executor, state: Mutex::default() },
        || (),
    );
    let promise = Some(promise);
    (
        ProgressivePromise { promise, reports, last: 0 },
        ProgressiveFuture { future, reports: future_reports },
    )
}

/// The progress of a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The amount of work done so far.
    pub done: u64,
    /// The total amount of work, if known.
    pub total: Option<u64>,
}

/// The reason why a reported progress was refused.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvalidProgress {
    /// The reported progress exceeds the reported total.
    #[error("progress {done} is beyond the total of {total}")]
    BeyondTotal {
        /// The reported progress.
        done: u64,
        /// The reported total.
        total: u64,
    },
    /// The reported progress is less than the progress reported before.
    #[error("progress went back from {before} to {done}")]
    Backwards {
        /// The reported progress.
        done: u64,
        /// The progress reported before.
        before: u64,
    },
    /// The promise was cancelled.
    #[error("the promise was cancelled")]
    Cancelled,
    /// The promise was completed.
    #[error("the promise was completed")]
    Completed,
}

/// A [`Promise`] that reports progress until it is completed.
///
/// ```
/// use waterwheel_executor::EventExecutor;
///
/// let executor = EventExecutor::builder().build()?;
/// let (mut promise, mut future) = executor.new_progressive_promise();
/// future.add_progress_listener(|p| println!("{} of {:?}", p.done, p.total));
/// promise.set_progress(512, Some(1024))?;
/// promise.set_success("copied");
/// assert_eq!(future.into_future().join()?, "copied");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ProgressivePromise<T: Send + 'static> {
    /// `None` once the promise was completed.
    promise: Option<Promise<T>>,
    reports: Ref<ProgressReports, dyn ErasedPromise>,
    last: u64,
}

impl<T: Send + 'static> ProgressivePromise<T> {
    /// Reports progress: the progress listeners are called in order, on the executor.
    ///
    /// # Errors
    /// [`InvalidProgress`] if `done` is above `total` or below an earlier `done`, or if the promise was cancelled or
    /// completed.
    pub fn set_progress(&mut self, done: u64, total: Option<u64>) -> Result<(), InvalidProgress> {
        match &self.promise {
            None => return Err(InvalidProgress::Completed),
            Some(promise) if promise.is_cancelled() => return Err(InvalidProgress::Cancelled),
            Some(_) => {}
        }
        if let Some(total) = total.filter(|total| done > *total) {
            return Err(InvalidProgress::BeyondTotal { done, total });
        }
        if done < self.last {
            return Err(InvalidProgress::Backwards { done, before: self.last });
        }
        self.last = done;
        if self.reports.push(Progress { done, total }) {
            deliver(self.reports.executor, self.reports.any().clone());
        }
        Ok(())
    }

    /// Completes the promise with a value. If the promise was completed or cancelled before, drops the value and
    /// returns false.
    pub fn set_success(self, value: T) -> bool {
        self.complete(Ok(value))
    }

    /// Completes the promise with an error. Returns false if it had been completed or cancelled.
    pub fn set_failure(self, error: Error) -> bool {
        self.complete(Err(error))
    }

    /// Completes the promise with a result. Returns false if it had been completed or cancelled.
    pub fn complete(mut self, outcome: Result<T, Error>) -> bool {
        self.try_complete(outcome).is_ok()
    }

    /// Completes the promise with a value, or hands the value back: see [`Promise::try_success`].
    ///
    /// # Errors
    /// The value, if the promise was completed or cancelled before.
    pub fn try_success(&mut self, value: T) -> Result<(), T> {
        self.try_complete(Ok(value)).map_err(|back| match back {
            Ok(value) => value,
            Err(_) => unreachable!("a value is handed back as a value"),
        })
    }

    /// Completes the promise with an error, or hands the error back: see [`Promise::try_failure`].
    ///
    /// # Errors
    /// The error, if the promise was completed or cancelled before.
    pub fn try_failure(&mut self, error: Error) -> Result<(), Error> {
        self.try_complete(Err(error)).map_err(|back| match back {
            Err(error) => error,
            Ok(_) => unreachable!("an error is handed back as an error"),
        })
    }

    /// Completes the promise with a result, or hands the result back if the promise was completed or cancelled before.
    ///
    /// # Errors
    /// The result, if the promise was completed or cancelled before.
    pub fn try_complete(&mut self, outcome: Result<T, Error>) -> Result<(), Result<T, Error>> {
        if !self.set_uncancellable() {
            return Err(outcome);
        }
        let Some(promise) = self.promise.take() else { return Err(outcome) };
        if current::is_listener_thread(self.reports.executor) {
            // Completing on the executor calls listeners in place. Undelivered progress is delivered before the
            // completion, whether another thread queued it or a call further up this stack is delivering it.
            self.reports.finish(move || {
                promise.complete(outcome);
            });
        } else {
            promise.complete(outcome);
        }
        Ok(())
    }

    /// Calls `f` if the future is cancelled: see [`Promise::on_cancel`].
    #[track_caller]
    pub fn on_cancel(&mut self, f: impl FnOnce() + Send + 'static) {
        if let Some(promise) = &mut self.promise {
            promise.on_cancel(f);
        }
    }

    /// Makes the promise uncancellable: see [`Promise::set_uncancellable`].
    pub fn set_uncancellable(&mut self) -> bool {
        self.promise.as_mut().is_none_or(Promise::set_uncancellable)
    }

    /// True if the promise was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.promise.as_ref().is_some_and(Promise::is_cancelled)
    }
}

/// The future of a [`ProgressivePromise`]: a [`PromiseFuture`] with progress listeners.
#[derive(Debug)]
#[must_use = "dropping a future detaches it"]
pub struct ProgressiveFuture<T: Send + 'static> {
    future: PromiseFuture<T>,
    reports: Ref<ProgressReports, dyn ErasedPromise>,
}

impl<T: Send + 'static> ProgressiveFuture<T> {
    /// Calls `listener` on the executor with every progress from now on.
    #[track_caller]
    pub fn add_progress_listener(&mut self, listener: impl FnMut(Progress) + Send + 'static) {
        let listener = (Origin::here(), Box::new(listener) as ProgressListener);
        self.reports.state().listeners.push(listener);
    }
}

/// Returns the plain future, for `.await` or `join`. Progress listeners stay registered.
impl<T: Send + 'static> IntoFuture for ProgressiveFuture<T> {
    type Output = Result<T, Error>;
    type IntoFuture = PromiseFuture<T>;

    fn into_future(self) -> PromiseFuture<T> {
        self.future
    }
}

impl<T: Send + 'static> Deref for ProgressiveFuture<T> {
    type Target = PromiseFuture<T>;

    fn deref(&self) -> &Self::Target {
        &self.future
    }
}

impl<T: Send + 'static> DerefMut for ProgressiveFuture<T> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.future
    }
}

type ProgressListener = Box<dyn FnMut(Progress) + Send>;

/// Queued progress and its listeners. The promise's thread queues progress, the executor delivers it; no lock is
/// held while listeners run.
struct ProgressReports {
    executor: ExecutorId,
    state: Mutex<ProgressQueue>,
}

#[derive(Default)]
struct ProgressQueue {
    listeners: Vec<(Origin, ProgressListener)>,
    waiting: VecDeque<Progress>,
    is_draining: bool,
    /// The completion, if it was requested while progress was being delivered.
    after: Option<Box<dyn FnOnce() + Send>>,
}

impl ProgressReports {
    /// Queues a progress, if there are listeners. Returns true if the queue was empty: the caller must deliver it.
    fn push(&self, progress: Progress) -> bool {
        let mut state = self.state();
        let is_observed = !state.listeners.is_empty() || state.is_draining;
        let is_first = state.waiting.is_empty();
        if is_observed {
            state.waiting.push_back(progress);
        }
        is_observed && is_first
    }

    /// Delivers the remaining progress, then calls `complete`.
    fn finish(&self, complete: impl FnOnce() + Send + 'static) {
        self.state().after = Some(Box::new(complete));
        self.run_listeners();
    }

    fn run_listeners(&self) {
        let mut state = self.state();
        if std::mem::replace(&mut state.is_draining, true) {
            return; // A listener reported progress: the outer call delivers it.
        }
        while let Some(progress) = state.waiting.pop_front() {
            let mut listeners = std::mem::take(&mut state.listeners);
            drop(state);
            for (origin, listener) in &mut listeners {
                call_listener(*origin, || listener(progress));
            }
            state = self.state();
            listeners.append(&mut state.listeners); // Listeners added meanwhile follow the earlier ones.
            state.listeners = listeners;
        }
        state.is_draining = false;
        let after = state.after.take();
        drop(state);
        if let Some(complete) = after {
            complete();
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, ProgressQueue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A block that implements [`ErasedPromise`], so that progress is queued on the executor as promises are.
type ProgressBlock = CountedBlock<ProgressReports, (), dyn ErasedPromise>;

impl ErasedPromise for ProgressBlock {
    fn notify(&self) {
        self.head().run_listeners();
    }

    fn cancel(&self, _: &AnyPromise) -> bool {
        false
    }
}

impl AsDyn<dyn ErasedPromise> for ProgressBlock {
    fn as_dyn(&self) -> &(dyn ErasedPromise + 'static) {
        self
    }
}

impl fmt::Debug for ProgressReports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgressReports")
    }
}
