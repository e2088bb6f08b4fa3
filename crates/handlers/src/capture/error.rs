//! Errors of captures.

use std::io;
use std::path::PathBuf;

use waterwheel_executor::Error;

/// Why a capture cannot be created, or has ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The file cannot be created.
    #[error("the capture file {} cannot be created: {source}", path.display())]
    Create {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file cannot be written, for example because the disk is full (ENOSPC).
    #[error("{name} cannot be written: {source}")]
    Write {
        /// The path of the file, or "a writer".
        name: String,
        /// The reason.
        source: io::Error,
    },
    /// The writer has panicked.
    #[error("the writer of {name} has failed: {source}")]
    WriterPanicked {
        /// The path of the file, or "a writer".
        name: String,
        /// The panic.
        source: Error,
    },
    /// The executor that writes the file cannot be created, or does not accept tasks: it has ended, or its thread
    /// cannot start.
    #[error("the executor that writes {name} is not available: {source}")]
    Executor {
        /// The path of the file, or "a writer".
        name: String,
        /// The reason.
        source: Error,
    },
    /// A limit is too small.
    #[error("`{limit}` of a capture is {value}, and must be at least {min}")]
    Limit {
        /// The method that sets the limit.
        limit: &'static str,
        /// The value.
        value: u64,
        /// The smallest value.
        min: u64,
    },
}

impl From<CaptureError> for Error {
    fn from(error: CaptureError) -> Self {
        Error::new(error)
    }
}
