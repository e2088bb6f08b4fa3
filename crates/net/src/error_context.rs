//! Kernel errors with a description of the operation that failed.

use std::io;

use rustix::io::Errno;

/// A kernel error with a description of the failed operation. `source` returns the error with the errno.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
struct ErrorContext {
    what: String,
    source: io::Error,
}

/// Adds a description of the failed operation to an error; the error kind stays the same.
pub(crate) fn context(what: impl Into<String>) -> impl FnOnce(io::Error) -> io::Error {
    move |source| io::Error::new(source.kind(), ErrorContext { what: what.into(), source })
}

/// Returns the errno of an error, also if a context wraps the error.
pub(crate) fn errno(error: &io::Error) -> Option<Errno> {
    let within = || {
        let context = error.get_ref()?.downcast_ref::<ErrorContext>()?;
        Errno::from_io_error(&context.source)
    };
    Errno::from_io_error(error).or_else(within)
}
