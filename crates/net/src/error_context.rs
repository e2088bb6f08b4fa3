//! Kernel errors with a description of the operation that failed.

use std::io;

use rustix::io::Errno;

/// An error of the kernel and the operation it has prevented. The errno is found through `source`.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
struct ErrorContext {
    what: String,
    source: io::Error,
}

/// Adds a description of the failed operation to an error; its kind stays the same.
pub(crate) fn context(what: impl Into<String>) -> impl FnOnce(io::Error) -> io::Error {
    move |source| io::Error::new(source.kind(), ErrorContext { what: what.into(), source })
}

/// Returns the errno of an error, also below a context.
pub(crate) fn errno(error: &io::Error) -> Option<Errno> {
    let within = || {
        let context = error.get_ref()?.downcast_ref::<ErrorContext>()?;
        Errno::from_io_error(&context.source)
    };
    Errno::from_io_error(error).or_else(within)
}
