//! Completions: the receiver of the result of an outbound operation.

use std::fmt;
use std::mem;
use std::rc::{Rc, Weak};

use waterwheel_executor::engine::run_as;
use waterwheel_executor::{Error, Origin, Promise, UserCode};

use crate::channel::core::ChannelCore;
use crate::channel::error::ChannelError;
use crate::pipeline::watched_completion::WatchedState;

/// Receives the result of one outbound operation: a write, a close, a connect, ….
///
/// A completion is one of three: [none](Self::none), for a caller that does not want the result, which
/// costs nothing; a [closure](Self::local) called on the loop; or a [`Promise`], whose future may be
/// awaited on any thread.
///
/// A handler that receives a completion passes it to the operation it requests ([`take`](Self::take)),
/// completes it, or keeps it for later. If the handler's method returns an error and has not taken the
/// completion, the completion fails with that error. A completion that is dropped without a result
/// fails.
///
/// ```
/// use waterwheel_channel::{Completion, Ctx, Handler, HandlerResult, Msg};
/// use waterwheel_executor::Error;
///
/// /// Writes the length of a text, then the text.
/// struct Prefix;
///
/// impl Handler for Prefix {
///     fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
///         let text = match msg.take::<String>() {
///             Ok(text) => text,
///             Err(other) => {
///                 ctx.write_with(other, done.take());
///                 return Ok(());
///             }
///         };
///         if text.is_empty() {
///             return Err(Error::new("nothing to write")); // `done` fails with this error.
///         }
///         ctx.write(text.len() as u64);
///         ctx.write_with(text, done.take()); // Completed when the last part is written.
///         Ok(())
///     }
/// }
/// ```
#[must_use = "a completion that is dropped fails"]
#[derive(Default)]
pub struct Completion(CompletionKind);

#[derive(Default)]
enum CompletionKind {
    #[default]
    Ignored,
    Local(Origin, Box<dyn FnOnce(Result<(), Error>)>),
    Shared(Promise<()>),
    /// The completion of a caller, which a handler watches.
    Watched(Rc<WatchedState>),
    /// The completion of a message that must not be missing, such as a part that others follow.
    Part(Weak<ChannelCore>),
}

impl Completion {
    /// Returns a completion that ignores the result.
    pub const fn none() -> Self {
        Self(CompletionKind::Ignored)
    }

    /// Returns a completion that calls `f` with the result, on the loop.
    #[track_caller]
    pub fn local(f: impl FnOnce(Result<(), Error>) + 'static) -> Self {
        Self(CompletionKind::Local(Origin::here(), Box::new(f)))
    }

    pub(super) fn watched(state: Rc<WatchedState>) -> Self {
        Self(CompletionKind::Watched(state))
    }

    /// Returns a completion for a message that must not be missing, such as a part of a longer one. If it is refused,
    /// the channel is closed: messages before it may have been sent, and those after it must not follow.
    pub(super) fn of_part(core: &Rc<ChannelCore>) -> Self {
        Self(CompletionKind::Part(Rc::downgrade(core)))
    }

    /// Takes the completion, leaving [`none`](Self::none) in its place. The caller is responsible for
    /// it from then on.
    pub fn take(&mut self) -> Self {
        mem::take(self)
    }

    /// True if the result is ignored.
    #[must_use]
    pub fn is_none(&self) -> bool {
        matches!(self.0, CompletionKind::Ignored)
    }

    /// True for the completion of a message whose refusal closes the channel, also if a handler watches it.
    pub(crate) fn is_required(&self) -> bool {
        match &self.0 {
            CompletionKind::Part(_) => true,
            CompletionKind::Watched(state) => state.is_required(),
            CompletionKind::Ignored | CompletionKind::Local(..) | CompletionKind::Shared(_) => {
                false
            }
        }
    }

    /// True for the completion of a message whose refusal closes the channel, and that no handler watches.
    pub(crate) fn is_part(&self) -> bool {
        matches!(self.0, CompletionKind::Part(_))
    }

    /// True for a promise whose future was dropped: no code will see the result.
    pub(crate) fn is_detached(&self) -> bool {
        match &self.0 {
            CompletionKind::Shared(promise) => promise.is_detached() && !promise.is_cancelled(),
            CompletionKind::Watched(state) => state.is_detached(),
            CompletionKind::Ignored | CompletionKind::Local(..) | CompletionKind::Part(_) => false,
        }
    }

    /// Completes the operation successfully.
    pub fn succeed(self) {
        self.complete(Ok(()));
    }

    /// Completes the operation with an error.
    pub fn fail(self, error: Error) {
        self.complete(Err(error));
    }

    /// Completes the operation with `result`. A panic of the closure is caught and reported.
    pub fn complete(mut self, result: Result<(), Error>) {
        match mem::take(&mut self.0) {
            CompletionKind::Ignored => {}
            CompletionKind::Local(origin, f) => {
                let _ = run_as(UserCode::Listener, origin, || f(result));
            }
            CompletionKind::Shared(promise) => {
                promise.complete(result);
            }
            CompletionKind::Watched(state) => state.complete(result),
            CompletionKind::Part(core) => close_if_refused(&core, result),
        }
    }

    /// Returns the promise.
    ///
    /// # Errors
    /// Returns the completion unchanged if it is not a promise.
    pub(crate) fn into_promise(mut self) -> Result<Promise<()>, Self> {
        match mem::take(&mut self.0) {
            CompletionKind::Shared(promise) => Ok(promise),
            other => Err(Self(other)),
        }
    }

    /// Calls `f` when the operation is cancelled, on the thread that cancels it, or here if it was cancelled
    /// before. A later call replaces the closure of an earlier one. Only a promise can be cancelled. For a
    /// handler that keeps the completion while it works, to stop that work.
    pub fn on_cancel(&mut self, f: impl FnOnce() + Send + 'static) {
        match &mut self.0 {
            CompletionKind::Shared(promise) => promise.on_cancel(f),
            CompletionKind::Watched(state) => state.on_cancel(f),
            CompletionKind::Ignored | CompletionKind::Local(..) | CompletionKind::Part(_) => {}
        }
    }

    /// True if the completion is a promise whose future was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        match &self.0 {
            CompletionKind::Shared(promise) => promise.is_cancelled(),
            CompletionKind::Watched(state) => state.is_cancelled(),
            CompletionKind::Ignored | CompletionKind::Local(..) | CompletionKind::Part(_) => false,
        }
    }

    /// Marks the operation as begun, so that it can no longer be cancelled. Returns `false` if it was
    /// cancelled before: then it must not be performed. For handlers that write a message in several
    /// parts: without this call, a cancel could remove the last part after the others were written.
    pub fn begin(&mut self) -> bool {
        match &mut self.0 {
            CompletionKind::Ignored | CompletionKind::Local(..) | CompletionKind::Part(_) => true,
            CompletionKind::Shared(promise) => promise.set_uncancellable(),
            CompletionKind::Watched(state) => state.begin(),
        }
    }
}

fn close_if_refused(core: &Weak<ChannelCore>, result: Result<(), Error>) {
    if let Err(error) = result
        && !is_end_of_output(&error)
        && let Some(core) = core.upgrade()
        && core.channel().is_open()
    {
        core.close(Some(error), Completion::none());
    }
}

/// True for the error of a write after the close or after a shutdown of the output: the peer knows that nothing follows.
pub(crate) fn is_end_of_output(error: &Error) -> bool {
    matches!(error.find(), Some(ChannelError::OutputShutDown)) || error.is_closed()
}

impl From<Promise<()>> for Completion {
    fn from(promise: Promise<()>) -> Self {
        Self(CompletionKind::Shared(promise))
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        // A promise that is dropped fails by itself.
        if !matches!(self.0, CompletionKind::Ignored | CompletionKind::Shared(_)) {
            self.take().fail(Error::new(ChannelError::CompletionDropped));
        }
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            CompletionKind::Ignored => f.write_str("Completion(none)"),
            CompletionKind::Local(origin, _) => write!(f, "Completion({origin})"),
            CompletionKind::Shared(promise) => write!(f, "Completion({promise:?})"),
            CompletionKind::Watched(_) => f.write_str("Completion(watched)"),
            CompletionKind::Part(_) => f.write_str("Completion(part)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    #[test]
    fn c07_a_completion_that_is_dropped_fails() {
        let results = Rc::new(RefCell::new(Vec::new()));
        let log = results.clone();
        let completion = Completion::local(move |result| log.borrow_mut().push(result.is_ok()));
        drop(completion);
        assert_eq!(*results.borrow(), [false]);
        let log = results.clone();
        let mut completion = Completion::local(move |result| log.borrow_mut().push(result.is_ok()));
        completion.take().succeed();
        drop(completion);
        assert_eq!(*results.borrow(), [false, true], "completed once");
    }
}
