//! Completions whose progress a handler watches while the operation holds them.
//!
//! ```text
//!   write(msg, done) ──► handler: watched.wrap(done) ──► write_with(msg, wrapped) ──► transport
//!                             │  is_done, fail                                          │
//!                             └───────────────► done ◄──────────── the result ◄─────────┘
//! ```
//!
//! The caller's completion is kept in memory that the handler and the operation share. The first result goes to it;
//! later ones are ignored. A cancel of the caller's future passes through: a wrapped write is skipped as it would be
//! without the handler.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use waterwheel_executor::Error;

use crate::pipeline::completion::Completion;

/// Watches one operation at a time: whether its completion was called, and a way to fail it early.
///
/// A handler that limits the time of operations, or counts those in progress, wraps the completion it was given and
/// passes the wrapped one on. Wrapping allocates nothing if the wrapped completion of the operation before is gone.
///
/// ```
/// use waterwheel_channel::{Completion, Ctx, Handler, HandlerResult, Msg, WatchedCompletion};
///
/// /// Passes one write at a time on, and refuses others meanwhile.
/// #[derive(Default)]
/// struct OneWrite(WatchedCompletion);
///
/// impl Handler for OneWrite {
///     fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
///         if !self.0.is_done() {
///             return Err(waterwheel_executor::Error::new("a write is in progress"));
///         }
///         ctx.write_with(msg, self.0.wrap(done.take()));
///         Ok(())
///     }
/// }
/// ```
#[derive(Default)]
pub struct WatchedCompletion(Rc<WatchedState>);

/// The caller's completion, shared with the operation. Only the loop's thread touches it.
#[derive(Default)]
pub(super) struct WatchedState(RefCell<Option<Completion>>);

impl WatchedCompletion {
    /// Creates a watch without an operation; it counts as done.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a completion that passes its result to `done`, and watches it from now on. An operation that was
    /// watched before goes on unwatched.
    pub fn wrap(&mut self, done: Completion) -> Completion {
        if Rc::strong_count(&self.0) > 1 {
            self.0 = Rc::default();
        }
        *self.0.0.borrow_mut() = Some(done);
        Completion::watched(self.0.clone())
    }

    /// True if the operation has its result, and before the first operation.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.0.0.borrow().is_none()
    }

    /// Fails the operation's completion now, unless it has a result. The operation itself is not stopped; its own
    /// result is ignored.
    pub fn fail(&self, error: Error) {
        self.0.complete(Err(error));
    }
}

impl WatchedState {
    /// Completes the caller's completion, if it has no result yet. Nothing is borrowed while it is called.
    pub(super) fn complete(&self, result: Result<(), Error>) {
        let done = self.0.borrow_mut().take();
        if let Some(done) = done {
            done.complete(result);
        }
    }

    /// True if no code will see the result.
    pub(super) fn is_detached(&self) -> bool {
        self.0.borrow().as_ref().is_some_and(|done| done.is_none() || done.is_detached())
    }

    pub(super) fn is_required(&self) -> bool {
        self.0.borrow().as_ref().is_some_and(Completion::is_required)
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.0.borrow().as_ref().is_some_and(Completion::is_cancelled)
    }

    pub(super) fn on_cancel(&self, f: impl FnOnce() + Send + 'static) {
        // `f` is called here if the future was cancelled before: nothing is borrowed then. A result that came meanwhile
        // would be ignored by the cancelled future anyway.
        let done = self.0.borrow_mut().take();
        if let Some(mut done) = done {
            done.on_cancel(f);
            *self.0.borrow_mut() = Some(done);
        }
    }

    /// Marks the operation as begun. An operation that was failed early is performed all the same.
    pub(super) fn begin(&self) -> bool {
        self.0.borrow_mut().as_mut().is_none_or(Completion::begin)
    }
}

impl fmt::Debug for WatchedCompletion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchedCompletion").field("is_done", &self.is_done()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k07_a_watch_reuses_its_memory_unless_the_operation_still_holds_it() {
        let mut watch = WatchedCompletion::new();
        assert!(watch.is_done());
        let first = watch.wrap(Completion::none());
        let place = Rc::as_ptr(&watch.0);
        assert!(!watch.is_done());
        first.succeed();
        assert!(watch.is_done());
        let second = watch.wrap(Completion::none());
        assert_eq!(Rc::as_ptr(&watch.0), place);
        watch.fail(Error::new("late"));
        assert!(watch.is_done());
        let third = watch.wrap(Completion::none());
        assert_ne!(Rc::as_ptr(&watch.0), place, "the second operation still has it");
        second.succeed();
        assert!(!watch.is_done(), "the late result of another operation");
        drop(third);
        assert!(watch.is_done(), "a dropped completion has failed");
    }

    #[test]
    fn k07_a_completion_stays_four_words() {
        assert_eq!(size_of::<Completion>(), 4 * size_of::<usize>());
    }
}
