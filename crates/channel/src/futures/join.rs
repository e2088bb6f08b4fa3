//! The handle that `spawn_local` returns.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use waterwheel_executor::{Error, ErrorKind};

use super::spawned::FutureWaker;
use crate::event_loop::local_loop::LocalLoop;

/// A future that returns the outcome of a future spawned on the same loop. If the handle is dropped, the spawned future
/// continues to run.
pub struct LocalJoin<T> {
    outcome: JoinSlot<T>,
    future_waker: Arc<FutureWaker>,
}

impl<T> LocalJoin<T> {
    pub(crate) fn new(outcome: JoinSlot<T>, future_waker: Arc<FutureWaker>) -> Self {
        Self { outcome, future_waker }
    }

    pub(super) fn future_waker(&self) -> &Arc<FutureWaker> {
        &self.future_waker
    }

    /// Makes the loop drop the spawned future soon; awaiting this handle then returns `Cancelled`. Has no effect
    /// if the spawned future has completed.
    pub fn abort(&self) {
        self.future_waker.abort();
    }

    /// Polls the spawned future at once, on its loop, inside of the present call instead of in the task phase: for code
    /// that has made ready what the future waits for, and knows that nothing of its own is borrowed. Returns false if
    /// the future is being polled, has completed or was dropped.
    pub fn poll_now(&self, here: &LocalLoop) -> bool {
        here.futures().poll_now(here.sender(), &self.future_waker)
    }

    /// True if this waker wakes the spawned future.
    #[must_use]
    pub fn is_woken_by(&self, waker: &Waker) -> bool {
        std::ptr::addr_eq(waker.data(), Arc::as_ptr(&self.future_waker))
    }

    /// True if the spawned future has completed or was dropped.
    #[must_use]
    pub fn is_done(&self) -> bool {
        !matches!(&*self.outcome.0.borrow(), JoinState::Running(_))
    }
}

impl<T> Future for LocalJoin<T> {
    type Output = Result<T, Error>;

    /// # Panics
    /// If the handle is polled again after it has returned `Ready`.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Cloned and dropped outside of the borrow: the waker's code may be the user's.
        let waker = context.waker().clone();
        let before = {
            let mut state = self.outcome.0.borrow_mut();
            let next = match &*state {
                JoinState::Running(_) => JoinState::Running(Some(waker)),
                JoinState::Done(_) | JoinState::Taken => JoinState::Taken,
            };
            std::mem::replace(&mut *state, next)
        };
        match before {
            JoinState::Done(result) => Poll::Ready(result),
            JoinState::Taken => panic!("a LocalJoin was polled again after it had returned Ready"),
            JoinState::Running(_) => Poll::Pending,
        }
    }
}

impl<T> fmt::Debug for LocalJoin<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalJoin").field("is_done", &self.is_done()).finish_non_exhaustive()
    }
}

/// The outcome of a spawned future, shared with its `LocalJoin`. Both are on the loop.
pub(crate) struct JoinSlot<T>(Rc<RefCell<JoinState<T>>>);

enum JoinState<T> {
    /// The future has not completed. Holds the waker of the `LocalJoin` if that was polled.
    Running(Option<Waker>),
    Done(Result<T, Error>),
    /// The `LocalJoin` has returned the outcome.
    Taken,
}

impl<T> JoinSlot<T> {
    pub(crate) fn new() -> Self {
        Self(Rc::new(RefCell::new(JoinState::Running(None))))
    }

    /// Returns the completer. If the completer is dropped before it has set the outcome, the outcome is `Cancelled`.
    pub(crate) fn completer(&self) -> JoinCompleter<T> {
        JoinCompleter(Some(Self(self.0.clone())))
    }
}

/// Sets the outcome of a spawned future.
pub(crate) struct JoinCompleter<T>(Option<JoinSlot<T>>);

impl<T> JoinCompleter<T> {
    pub(crate) fn complete(mut self, result: Result<T, Error>) {
        self.set(result);
    }

    fn set(&mut self, result: Result<T, Error>) {
        let Some(outcome) = self.0.take() else { return };
        let before = outcome.0.replace(JoinState::Done(result));
        if let JoinState::Running(Some(waker)) = before {
            waker.wake();
        }
    }
}

impl<T> Drop for JoinCompleter<T> {
    fn drop(&mut self) {
        self.set(Err(ErrorKind::Cancelled.into()));
    }
}
