//! Errors of RESP messages.

use crate::quoted::Quoted;

/// Bytes are no RESP message, one exceeds a limit, or a value cannot be written as one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RespError {
    /// No type of value begins with this byte.
    #[error("RESP: {found} begins no value")]
    UnknownType {
        /// The byte.
        found: Quoted,
    },
    /// An argument of a command is no bulk string.
    #[error("RESP: an argument of a command begins with {found}, and not with '$'")]
    NotBulk {
        /// Its first byte.
        found: Quoted,
    },
    /// A number, length, boolean or null is not written as one.
    #[error("RESP: {found} is no {expected}")]
    Malformed {
        /// The syntax that was expected.
        expected: &'static str,
        /// The beginning of what is there.
        found: Quoted,
    },
    /// A line or a bulk string does not end with `\r\n`.
    #[error("RESP: a {what} does not end with \\r\\n")]
    NoLineEnd {
        /// Which.
        what: &'static str,
    },
    /// Something is too long.
    #[error("RESP: {what} is longer than the {limit} bytes it may have")]
    TooLong {
        /// The kind of element that is too long.
        what: &'static str,
        /// How many bytes it may have.
        limit: usize,
    },
    /// A message has too many values.
    #[error("RESP: a message has {count} values or more, and may have {limit}")]
    TooMany {
        /// How many it has at least.
        count: usize,
        /// How many it may have.
        limit: usize,
    },
    /// Values are nested too deeply.
    #[error("RESP: values are nested more than {limit} deep")]
    TooDeep {
        /// How deep they may be.
        limit: usize,
    },
    /// A value stands where it must not.
    #[error("RESP: {what}")]
    Misplaced {
        /// The reason.
        what: &'static str,
    },
    /// The stream ended in the middle of a message.
    #[error("RESP: the stream ended in the middle of a message, after {unread} bytes of it")]
    CutOff {
        /// How many bytes of it came.
        unread: usize,
    },
}
