//! Errors of RESP messages.

use waterwheel_channel::Quoted;

/// Invalid RESP input, an exceeded limit, or a value that cannot be encoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RespError {
    /// A value begins with a byte that is not a RESP type.
    #[error("RESP: {found} is not the type of a value")]
    UnknownType {
        /// The byte.
        found: Quoted,
    },
    /// An argument of a command is not a bulk string.
    #[error("RESP: an argument of a command begins with {found} instead of '$'")]
    NotBulk {
        /// The first byte of the argument.
        found: Quoted,
    },
    /// A number, length, boolean or null is malformed.
    #[error("RESP: expected {expected}, found {found}")]
    Malformed {
        /// The syntax that was expected.
        expected: &'static str,
        /// The first bytes found instead.
        found: Quoted,
    },
    /// A line or a bulk string does not end with `\r\n`.
    #[error("RESP: a {what} does not end with \\r\\n")]
    NoLineEnd {
        /// The kind of element.
        what: &'static str,
    },
    /// An element exceeds its limit.
    #[error("RESP: {what} is longer than {limit} bytes")]
    TooLong {
        /// The kind of element that is too long.
        what: &'static str,
        /// The limit in bytes.
        limit: usize,
    },
    /// A message has too many values.
    #[error("RESP: a message has at least {count} values; at most {limit} are allowed")]
    TooMany {
        /// The minimum number of values.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// Values are nested too deeply.
    #[error("RESP: values are nested more than {limit} deep")]
    TooDeep {
        /// The maximum depth.
        limit: usize,
    },
    /// A value is not allowed at its place.
    #[error("RESP: {what}")]
    Misplaced {
        /// The reason.
        what: &'static str,
    },
    /// The stream ended in the middle of a message.
    #[error("RESP: the stream ended after {unread} bytes of an incomplete message")]
    CutOff {
        /// The number of bytes that arrived.
        unread: usize,
    },
}
