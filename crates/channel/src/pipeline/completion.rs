//! Whom to tell what became of an outbound operation.

use std::fmt;
use std::mem;

use waterwheel_executor::engine::run_as;
use waterwheel_executor::{Error, Origin, Promise, UserCode};

use crate::channel::error::ChannelError;

/// Told once what became of a write, a close, a connect. Nobody, a closure on the loop, or a promise
/// for any thread; asking for nothing costs nothing.
///
/// A handler that is given one passes it on with what it emits ([`take`](Self::take)), completes it,
/// or keeps it for later. If the handler's method returns an error while the completion is still in
/// its place, it gets that error; one that is dropped uncompleted fails.
///
/// ```
/// use waterwheel_channel::{Completion, Ctx, Handler, HandlerResult, Msg};
/// use waterwheel_executor::Error;
///
/// /// Writes text with its length before it.
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
///             return Err(Error::new("nothing to write")); // `done` is told so.
///         }
///         ctx.write(text.len() as u64);
///         ctx.write_with(text, done.take()); // Done when the last part is.
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
}

impl Completion {
    /// Nobody wants to know.
    pub const fn none() -> Self {
        Self(CompletionKind::Ignored)
    }

    /// Calls `f` on the loop.
    #[track_caller]
    pub fn local(f: impl FnOnce(Result<(), Error>) + 'static) -> Self {
        Self(CompletionKind::Local(Origin::here(), Box::new(f)))
    }

    /// Takes it out of its place: the caller sees to it from now on.
    pub fn take(&mut self) -> Self {
        mem::take(self)
    }

    /// Whether nobody wants to know.
    #[must_use]
    pub fn is_none(&self) -> bool {
        matches!(self.0, CompletionKind::Ignored)
    }

    /// True if it is a promise whose future was dropped, so that nobody will learn what it is told.
    pub(crate) fn is_detached(&self) -> bool {
        matches!(
            &self.0,
            CompletionKind::Shared(promise) if promise.is_detached() && !promise.is_cancelled()
        )
    }

    /// It is done.
    pub fn succeed(self) {
        self.complete(Ok(()));
    }

    /// It failed.
    pub fn fail(self, error: Error) {
        self.complete(Err(error));
    }

    /// It ended in this way. A panic of the closure is caught and reported.
    pub fn complete(mut self, result: Result<(), Error>) {
        match mem::take(&mut self.0) {
            CompletionKind::Ignored => {}
            CompletionKind::Local(origin, f) => {
                let _ = run_as(UserCode::Listener, origin, || f(result));
            }
            CompletionKind::Shared(promise) => {
                promise.complete(result);
            }
        }
    }

    /// The promise, if it is one.
    ///
    /// # Errors
    /// Itself, if it is something else.
    pub(crate) fn into_promise(mut self) -> Result<Promise<()>, Self> {
        match mem::take(&mut self.0) {
            CompletionKind::Shared(promise) => Ok(promise),
            other => Err(Self(other)),
        }
    }

    /// Calls `f` when it is cancelled, on whichever thread does that. Only a promise can be.
    pub(crate) fn on_cancel(&mut self, f: impl FnOnce() + Send + 'static) {
        if let CompletionKind::Shared(promise) = &mut self.0 {
            promise.on_cancel(f);
        }
    }

    /// Whether the one who waits has cancelled it.
    pub(crate) fn is_cancelled(&self) -> bool {
        matches!(&self.0, CompletionKind::Shared(promise) if promise.is_cancelled())
    }

    /// Marks the operation as begun: it cannot be cancelled any more. Returns `false` if it was cancelled before;
    /// then it is not to be performed. For handlers that write a message in several parts: without it, a
    /// cancel could take the last part out from behind the others.
    pub fn begin(&mut self) -> bool {
        match &mut self.0 {
            CompletionKind::Ignored | CompletionKind::Local(..) => true,
            CompletionKind::Shared(promise) => promise.set_uncancellable(),
        }
    }
}

impl From<Promise<()>> for Completion {
    fn from(promise: Promise<()>) -> Self {
        Self(CompletionKind::Shared(promise))
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        // A promise looks after itself.
        if let CompletionKind::Local(..) = self.0 {
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
        let told = Rc::new(RefCell::new(Vec::new()));
        let log = told.clone();
        let completion = Completion::local(move |result| log.borrow_mut().push(result.is_ok()));
        drop(completion);
        assert_eq!(*told.borrow(), [false]);
        let log = told.clone();
        let mut completion = Completion::local(move |result| log.borrow_mut().push(result.is_ok()));
        completion.take().succeed();
        drop(completion);
        assert_eq!(*told.borrow(), [false, true], "told once");
    }
}
