//! Whom to tell what became of an operation, from another thread than the loop's.

use std::fmt;
use std::mem;
use std::sync::Arc;

use waterwheel_executor::{Error, Promise};

use super::link::{Emission, OffloadLink};
use crate::channel::error::ChannelError;

/// A [`Completion`](crate::Completion) that may go from thread to thread. Told once what became of a
/// write, a close, a connect.
///
/// A handler that is given one passes it on with what it emits ([`take`](Self::take)), completes it,
/// or keeps it for later. If the handler's method returns an error while the completion is still in
/// its place, it gets that error; one that is dropped uncompleted fails.
///
/// A promise travels as it is. What only the loop may touch, a closure say, has stayed there, and is
/// told in the order in which the handler does things.
#[must_use = "a completion that is dropped fails"]
#[derive(Default)]
pub struct RemoteCompletion(RemoteCompletionKind);

#[derive(Default)]
enum RemoteCompletionKind {
    #[default]
    Ignored,
    Promise(Promise<()>),
    /// It stayed on the loop, under this number.
    KeptOnLoop(Arc<OffloadLink>, u64),
}

/// Who is told, back on the loop.
pub(super) enum CompletionTarget {
    Ignored,
    Promise(Promise<()>),
    KeptOnLoop(u64),
}

impl RemoteCompletion {
    /// Nobody wants to know.
    pub const fn none() -> Self {
        Self(RemoteCompletionKind::Ignored)
    }

    pub(super) fn kept_on_loop(link: &Arc<OffloadLink>, number: u64) -> Self {
        Self(RemoteCompletionKind::KeptOnLoop(link.clone(), number))
    }

    /// Takes it out of its place: the caller sees to it from now on.
    pub fn take(&mut self) -> Self {
        mem::take(self)
    }

    /// Whether nobody wants to know.
    #[must_use]
    pub fn is_none(&self) -> bool {
        matches!(self.0, RemoteCompletionKind::Ignored)
    }

    /// True if it is a promise whose future was dropped, so that nobody will learn what it is told.
    pub(super) fn is_detached(&self) -> bool {
        matches!(
            &self.0,
            RemoteCompletionKind::Promise(it) if it.is_detached() && !it.is_cancelled()
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

    /// It ended in this way.
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

    /// Whether the one who waits has cancelled it. Only a promise can be.
    pub(super) fn is_cancelled(&self) -> bool {
        matches!(&self.0, RemoteCompletionKind::Promise(promise) if promise.is_cancelled())
    }

    /// On the loop again.
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
        // A promise looks after itself.
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
