//! The stream that holds the publications: how it is found, and how it is read.

pub(super) mod envelope;
pub(super) mod jetstream;
pub(super) mod log;
pub(super) mod reading;
mod setup;
pub(super) mod subject;
