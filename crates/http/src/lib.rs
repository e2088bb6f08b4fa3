//! HTTP/1.1 on Waterwheel's loops: servers and clients.
#![forbid(unsafe_code)]

mod files;

pub use crate::files::{DEFAULT_MAX_RANGES, FileBody, FilePart, Files, FilesBuilder, InvalidFiles};
