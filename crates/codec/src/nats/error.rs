//! Errors of NATS operations.

use waterwheel_channel::Quoted;

/// Invalid NATS input, an exceeded limit, or an operation that cannot be encoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NatsError {
    /// A line does not begin with an operation that the other side may send.
    #[error("NATS: {found} is not an operation of a {sender}")]
    UnknownOperation {
        /// The word that was found.
        found: Quoted,
        /// The side that sent it: "server" or "client".
        sender: &'static str,
    },
    /// The arguments of an operation are malformed.
    #[error("NATS: expected {expected}, found {found}")]
    Malformed {
        /// The syntax that was expected.
        expected: &'static str,
        /// The bytes found instead.
        found: Quoted,
    },
    /// A line or a payload does not end with `\r\n`.
    #[error("NATS: a {what} does not end with \\r\\n")]
    NoLineEnd {
        /// The kind of element.
        what: &'static str,
    },
    /// An element exceeds its limit.
    #[error("NATS: {what} is longer than {limit} bytes")]
    TooLong {
        /// The kind of element that is too long.
        what: &'static str,
        /// The limit in bytes.
        limit: usize,
    },
    /// An operation cannot be written, because it would be read differently.
    #[error("NATS: {what} cannot be written: {found}")]
    Unwritable {
        /// The part and what is wrong with it.
        what: &'static str,
        /// The bytes.
        found: Quoted,
    },
    /// The stream ended in the middle of an operation.
    #[error("NATS: the stream ended after {unread} bytes of an incomplete operation")]
    CutOff {
        /// The number of bytes that arrived.
        unread: usize,
    },
}
