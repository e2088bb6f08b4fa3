//! The handlers of a connection: messages in and out, keep-alive, close.

pub(crate) mod options;
