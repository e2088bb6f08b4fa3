//! Errors of futures and of blocking waits.

use std::any::Any;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;

use crate::queue::rejection::{RejectReason, Rejected};
use crate::raw::origin::Origin;

/// The reason why a future failed. One word and cheap to clone: every consumer of a shared future gets it.
///
/// ```
/// use waterwheel_executor::{Error, ErrorKind};
///
/// let error = Error::new(std::io::Error::other("disk on fire"));
/// assert_eq!(error.to_string(), "disk on fire");
/// assert!(matches!(error.kind(), ErrorKind::Other(_)));
/// ```
#[derive(Clone)]
pub struct Error(Arc<ErrorKind>);

/// The kinds of failure of an [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The future was cancelled before it completed.
    #[error("cancelled")]
    Cancelled,
    /// User code panicked.
    #[error("code from {origin} panicked: {message}")]
    Panicked {
        /// Where the code came from: a label or a source line.
        origin: Origin,
        /// The panic's message.
        message: String,
    },
    /// The promise was dropped without being completed.
    #[error("the promise created at {created} was dropped uncompleted")]
    PromiseDropped {
        /// Where the promise was created.
        created: &'static Location<'static>,
    },
    /// The value was taken before, by an earlier await or join of the same future.
    #[error("the value of the promise created at {created} was already taken")]
    AlreadyTaken {
        /// Where the promise was created.
        created: &'static Location<'static>,
    },
    /// A blocking wait on this thread would deadlock.
    #[error(transparent)]
    WouldDeadlock(#[from] WouldDeadlock),
    /// The loop of an executor died: it panicked, or its thread supplier dropped it.
    #[error("the loop of executor `{executor}` died: {cause}")]
    LoopDied {
        /// The executor's name.
        executor: String,
        /// The reason why the loop died.
        cause: String,
    },
    /// A task was not accepted.
    #[error("task rejected: {0}")]
    Rejected(#[from] RejectReason),
    /// The first of several futures was requested from an empty list.
    #[error("the first of an empty set of futures was asked for")]
    NothingToWaitFor,
    /// The object of the operation, such as a connection, is closed.
    #[error(transparent)]
    Closed(Box<dyn std::error::Error + Send + Sync>),
    /// An error of the user's own type.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

/// A refused blocking wait: the waiting thread is the one that has to do the work, or one that must never
/// block.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("waiting here would block the thread of executor `{executor}`: use a listener or `.await`")]
pub struct WouldDeadlock {
    /// The executor whose thread would block.
    pub executor: String,
}

/// The reason why a blocking wait returned without the result.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum WaitError {
    /// See [`WouldDeadlock`].
    #[error(transparent)]
    WouldDeadlock(#[from] WouldDeadlock),
    /// The timeout was reached first.
    #[error("the timeout was reached before completion")]
    TimedOut,
}

impl Error {
    /// Wraps an error of the user's own type.
    pub fn new(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        ErrorKind::Other(error.into()).into()
    }

    /// Wraps an error that says that an object is closed: see [`is_closed`](Self::is_closed).
    pub fn closed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        ErrorKind::Closed(error.into()).into()
    }

    /// Returns the kind of failure.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }

    /// Returns the first error of type `E` in the chain of sources: the wrapped error, or one of its causes.
    ///
    /// ```
    /// use std::io;
    /// use waterwheel_executor::Error;
    ///
    /// let error = Error::new(io::Error::from(io::ErrorKind::ConnectionRefused));
    /// assert_eq!(error.find::<io::Error>().unwrap().kind(), io::ErrorKind::ConnectionRefused);
    /// assert!(error.find::<std::fmt::Error>().is_none());
    /// ```
    #[must_use]
    pub fn find<E: std::error::Error + 'static>(&self) -> Option<&E> {
        let mut next: Option<&(dyn std::error::Error + 'static)> = match &*self.0 {
            ErrorKind::Other(error) | ErrorKind::Closed(error) => Some(&**error),
            kind => Some(kind),
        };
        while let Some(error) = next {
            // A wrapped `Error` may itself carry another error in its box.
            if let Some(inner) = error.downcast_ref::<Error>() {
                return inner.find();
            }
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            next = error.source();
        }
        None
    }

    /// Returns the kind of the I/O error that this error wraps or was caused by.
    ///
    /// ```
    /// use std::io;
    /// use waterwheel_executor::Error;
    ///
    /// let error = Error::from(io::Error::from(io::ErrorKind::ConnectionReset));
    /// assert_eq!(error.io_kind(), Some(io::ErrorKind::ConnectionReset));
    /// assert_eq!(Error::new("no I/O").io_kind(), None);
    /// ```
    #[must_use]
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        self.find::<io::Error>().map(io::Error::kind)
    }

    /// True for an I/O error that says that the peer of a connection is gone: reset, broken pipe, aborted, timed out.
    ///
    /// ```
    /// use std::io;
    /// use waterwheel_executor::Error;
    ///
    /// assert!(Error::from(io::Error::from(io::ErrorKind::ConnectionReset)).is_connection_lost());
    /// assert!(!Error::from(io::Error::from(io::ErrorKind::NotFound)).is_connection_lost());
    /// ```
    #[must_use]
    pub fn is_connection_lost(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, TimedOut};
        matches!(self.io_kind(), Some(BrokenPipe | ConnectionAborted | ConnectionReset | TimedOut))
    }

    /// True if the object of the operation is closed, so that no further operation on it can succeed. The cause
    /// of the close, if it is known, is a source of this error.
    ///
    /// ```
    /// use waterwheel_executor::Error;
    ///
    /// let error = Error::closed("the shop is closed");
    /// assert!(error.is_closed() && Error::new(error).is_closed());
    /// assert!(!Error::new("the shop is closed").is_closed());
    /// ```
    #[must_use]
    pub fn is_closed(&self) -> bool {
        match &*self.0 {
            ErrorKind::Closed(_) => true,
            ErrorKind::Other(error) => error.downcast_ref::<Error>().is_some_and(Error::is_closed),
            _ => false,
        }
    }

    /// True if the future was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(*self.0, ErrorKind::Cancelled)
    }

    pub(crate) fn cancelled() -> Self {
        ErrorKind::Cancelled.into()
    }
}

/// Returns the text of a panic payload, or a fixed text if it has none. Drops the payload, even if its
/// destructor panics.
pub(crate) fn take_panic_message(payload: Box<dyn Any + Send>) -> String {
    let message = if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without a message".to_owned()
    };
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again); // Not dropped: its destructor may panic once more.
    }
    message
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self(Arc::new(kind))
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::new(error)
    }
}

/// Drops the closure. A caller that wants it back calls `into_task` first.
impl<F> From<Rejected<F>> for Error {
    fn from(rejected: Rejected<F>) -> Self {
        ErrorKind::Rejected(rejected.reason().clone()).into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&*self.0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_word() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
        assert_eq!(size_of::<Result<(), Error>>(), size_of::<usize>());
    }

    #[test]
    fn a_panic_message_is_read_from_the_usual_payloads() {
        assert_eq!(take_panic_message(Box::new("text")), "text");
        assert_eq!(take_panic_message(Box::new(String::from("owned"))), "owned");
        assert_eq!(take_panic_message(Box::new(7u8)), "a panic without a message");
    }
}
