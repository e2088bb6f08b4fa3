//! `RemoteCompletion`: a completion that may be used on other threads than the loop's.

use std::fmt;
use std::mem;
use std::sync::Arc;

use waterwheel_executor::{Error, Promise};

use super::link::{Emission, OffloadLink};
use crate::channel::error::ChannelError;

/// A [`Completion`](crate::Completion) that is `Send`: receives the result of one outbound operation.
///
/// A handler that receives a completion passes it to the operation it requests ([`take`](Self::take)),
/// completes it, or keeps it for later. If the handler's method returns an error and has not taken the
/// completion, the completion fails with that error. A completion that is dropped without a result
/// fails.
///
/// A promise is moved between the threads. A closure, which only the loop may call, stays on the loop
/// and is called there, in order with the handler's emissions.
#[must_use = "a completion that is dropped fails"]
#[derive(Default)]
pub struct RemoteCompletion(RemoteCompletionKind);

#[derive(Default)]
enum RemoteCompletionKind {
    #[default]
    Ignored,
    Promise(Promise<()>),
    /// The completion stayed on the loop, under this number.
    KeptOnLoop(Arc<OffloadLink>, u64),
}

/// The receiver of the result, back on the loop.
pub(super) enum CompletionTarget {
    Ignored,
    Promise(Promise<()>),
    KeptOnLoop(u64),
}

impl RemoteCompletion {
    /// Returns a completion that ignores the result.
    pub const fn none() -> Self {
        Self(RemoteCompletionKind::Ignored)
    }

    pub(super) fn kept_on_loop(link: &Arc<OffloadLink>, number: u64) -> Self {
        Self(RemoteCompletionKind::KeptOnLoop(link.clone(), number))
    }

    /// Takes the completion, leaving [`none`](Self::none) in its place. The caller is responsible for
    /// it from then on.
    pub fn take(&mut self) -> Self {
        mem::take(self)
    }

    /// True if the result is ignored.
    #[must_use]
    pub fn is_none(&self) -> bool {
        matches!(self.0, RemoteCompletionKind::Ignored)
    }

    /// True for a promise whose future was dropped: no code will see the result.
    pub(super) fn is_detached(&self) -> bool {
        matches!(
            &self.0,
            RemoteCompletionKind::Promise(it) if it.is_detached() && !it.is_cancelled()
        )
    }

    /// Completes the operation successfully.
    pub fn succeed(self) {
        self.complete(Ok(()));
    }

    /// Completes the operation with an error.
    pub fn fail(self, error: Error) {
        self.complete(Err(error));
    }

    /// Completes the operation with `result`.
    pub fn complete(mut self, result: Result<(), Error>) {
        match mem::take(&mut self.0) {
            RemoteCompletionKind::Ignored => {}
            RemoteCompletionKind::Promise(promise) => {
                promise.complete(result);
            }
            RemoteCompletionKind::KeptOnLoop(link, number) => {
                link.emit(Emission::Complete(number, result))
            }
        }
    }

    /// True if the future of the promise was cancelled. Only a promise can be cancelled.
    pub(super) fn is_cancelled(&self) -> bool {
        matches!(&self.0, RemoteCompletionKind::Promise(promise) if promise.is_cancelled())
    }

    /// Converts the completion to its receiver, back on the loop.
    pub(super) fn into_target(mut self) -> CompletionTarget {
        match mem::take(&mut self.0) {
            RemoteCompletionKind::Ignored => CompletionTarget::Ignored,
            RemoteCompletionKind::Promise(promise) => CompletionTarget::Promise(promise),
            RemoteCompletionKind::KeptOnLoop(_, number) => CompletionTarget::KeptOnLoop(number),
        }
    }
}

impl From<Promise<()>> for RemoteCompletion {
    fn from(promise: Promise<()>) -> Self {
        Self(RemoteCompletionKind::Promise(promise))
    }
}

impl Drop for RemoteCompletion {
    fn drop(&mut self) {
        // A promise that is dropped fails by itself.
        if let RemoteCompletionKind::KeptOnLoop(..) = self.0 {
            self.take().fail(Error::new(ChannelError::CompletionDropped));
        }
    }
}

impl fmt::Debug for RemoteCompletion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            RemoteCompletionKind::Ignored => f.write_str("RemoteCompletion(none)"),
            RemoteCompletionKind::Promise(promise) => write!(f, "RemoteCompletion({promise:?})"),
            RemoteCompletionKind::KeptOnLoop(_, number) => {
                write!(f, "RemoteCompletion(number {number})")
            }
        }
    }
}
