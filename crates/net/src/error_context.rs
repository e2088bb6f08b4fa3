//! Errors of the kernel with a word on what was being done.

use std::io;

use rustix::io::Errno;

/// An error of the kernel's, and what it kept from happening. Its number is found by `source`.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
struct ErrorContext {
    what: String,
    source: io::Error,
}

/// Says of an error what it kept from happening; its kind stays.
pub(crate) fn context(what: impl Into<String>) -> impl FnOnce(io::Error) -> io::Error {
    move |source| io::Error::new(source.kind(), ErrorContext { what: what.into(), source })
}

/// The kernel's number of an error, whatever was said of it since.
pub(crate) fn errno(error: &io::Error) -> Option<Errno> {
    let within = || {
        let context = error.get_ref()?.downcast_ref::<ErrorContext>()?;
        Errno::from_io_error(&context.source)
    };
    Errno::from_io_error(error).or_else(within)
}
