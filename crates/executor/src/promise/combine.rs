//! Futures that are made of other futures.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use super::future::{Canceller, PromiseFuture};
use super::promise::{Promise, promise, report_panic};
use crate::engine::current::ExecutorId;
use crate::error::ErrorKind;
use crate::raw::origin::Origin;
use crate::report::UserCode;

impl<T: Send + 'static> PromiseFuture<T> {
    /// Returns a future for `f` of the value; `f` runs on the executor. A failure passes through; a panic in
    /// `f` fails the new future. Cancelling the new future cancels this one.
    #[track_caller]
    pub fn map<U: Send + 'static>(
        self,
        f: impl FnOnce(T) -> U + Send + 'static,
    ) -> PromiseFuture<U> {
        let origin = Origin::here();
        let (promise, future) = self.derive_promise();
        self.on_complete(move |outcome| match outcome {
            Ok(value) => {
                promise.run(UserCode::Listener, origin, move || f(value));
            }
            Err(error) => promise.complete_like(Err(error)),
        });
        future
    }

    /// Returns a future for the outcome of the future that `f` makes of the value; `f` runs on the executor, as
    /// for [`map`](Self::map). Cancelling the new future cancels whichever of the two is under way.
    #[track_caller]
    pub fn then<U: Send + 'static>(
        self,
        f: impl FnOnce(T) -> PromiseFuture<U> + Send + 'static,
    ) -> PromiseFuture<U> {
        let origin = Origin::here();
        let (mut promise, future) = self.derive_promise();
        self.on_complete(move |outcome| {
            let value = match outcome {
                Ok(value) => value,
                Err(error) => return promise.complete_like(Err(error)),
            };
            if promise.is_cancelled() {
                return;
            }
            match catch_unwind(AssertUnwindSafe(move || f(value))) {
                Ok(next) => {
                    let canceller = next.canceller();
                    promise.on_cancel(move || {
                        canceller.cancel();
                    });
                    next.on_complete(move |outcome| promise.complete_like(outcome));
                }
                Err(payload) => {
                    promise.set_failure(report_panic(UserCode::Listener, origin, payload));
                }
            }
        });
        future
    }

    /// Makes a promise on the same executor. Cancelling its future cancels this future.
    #[track_caller]
    fn derive_promise<U: Send + 'static>(&self) -> (Promise<U>, PromiseFuture<U>) {
        let (mut promise, future) = promise(self.executor());
        let canceller = self.canceller();
        promise.on_cancel(move || {
            canceller.cancel();
        });
        (promise, future)
    }
}

/// Returns a future for the values of all futures, in their order; the first failure fails it. Cancelling the
/// returned future cancels all of them. Its listeners run on the executor with this id.
#[track_caller]
pub(crate) fn all<T: Send + 'static>(
    executor: ExecutorId,
    futures: impl IntoIterator<Item = PromiseFuture<T>>,
) -> PromiseFuture<Vec<T>> {
    struct Gathering<T: Send + 'static> {
        values: Vec<Option<T>>,
        missing: usize,
        promise: Option<Promise<Vec<T>>>,
    }
    let futures: Vec<_> = futures.into_iter().collect();
    let (mut promise, future) = promise(executor);
    promise.on_cancel(cancel_each(&futures));
    if futures.is_empty() {
        promise.set_success(Vec::new());
        return future;
    }
    let gathering = Arc::new(Mutex::new(Gathering {
        values: futures.iter().map(|_| None).collect(),
        missing: futures.len(),
        promise: Some(promise),
    }));
    for (at, future) in futures.into_iter().enumerate() {
        let gathering = gathering.clone();
        future.on_complete(move |outcome| {
            let mut state = gathering.lock().unwrap_or_else(PoisonError::into_inner);
            let complete = match outcome {
                Ok(value) => {
                    state.values[at] = Some(value);
                    state.missing -= 1;
                    (state.missing == 0).then(|| Ok(state.values.drain(..).flatten().collect()))
                }
                Err(error) => Some(Err(error)),
            };
            // The promise is completed outside of the lock, because completing may call listeners.
            let promise = complete.is_some().then(|| state.promise.take()).flatten();
            drop(state);
            if let (Some(promise), Some(outcome)) = (promise, complete) {
                promise.complete_like(outcome);
            }
        });
    }
    future
}

/// Returns a future for the outcome of the future that completes first, success or failure; it fails at once if
/// `futures` is empty. Cancelling the returned future cancels all of them; a completion cancels no other future.
#[track_caller]
pub(crate) fn first<T: Send + 'static>(
    executor: ExecutorId,
    futures: impl IntoIterator<Item = PromiseFuture<T>>,
) -> PromiseFuture<T> {
    let futures: Vec<_> = futures.into_iter().collect();
    let (mut promise, future) = promise(executor);
    promise.on_cancel(cancel_each(&futures));
    if futures.is_empty() {
        promise.set_failure(ErrorKind::NothingToWaitFor.into());
        return future;
    }
    let winner = Arc::new(Mutex::new(Some(promise)));
    for future in futures {
        let winner = winner.clone();
        future.on_complete(move |outcome| {
            let promise = winner.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(promise) = promise {
                promise.complete_like(outcome);
            }
        });
    }
    future
}

fn cancel_each<T: Send + 'static>(futures: &[PromiseFuture<T>]) -> impl FnOnce() + Send + 'static {
    let cancellers: Vec<Canceller> = futures.iter().map(PromiseFuture::canceller).collect();
    move || {
        for canceller in cancellers {
            canceller.cancel();
        }
    }
}
