//! Errors common to the frame codecs (K02).

use std::fmt;

/// Invalid input of a frame codec, or a message that cannot be written as a frame. The text begins with the codec's
/// name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The frame exceeds the limit.
    #[error("{codec}: a frame has {}; at most {limit} are allowed", Length(*.length, *.limit))]
    TooLong {
        /// The name of the codec.
        codec: &'static str,
        /// The length of the frame; `None` if the error was reported before its end.
        length: Option<u64>,
        /// The limit.
        limit: usize,
    },
    /// The stream ended in the middle of a frame.
    #[error("{codec}: the stream ended after {unread} bytes of an incomplete frame")]
    CutOff {
        /// The name of the codec.
        codec: &'static str,
        /// Bytes of the frame that arrived.
        unread: usize,
    },
    /// An outbound message contains a delimiter and would be read as more than one frame.
    #[error("delimiter: a message of {length} bytes contains a delimiter, ending at byte {at}")]
    EmbeddedDelimiter {
        /// The end of the delimiter, counted from 1.
        at: usize,
        /// The length of the message in bytes.
        length: usize,
    },
    /// An outbound message does not have the fixed length.
    #[error("fixed length: a message has {length} bytes instead of {expected}")]
    WrongLength {
        /// The length of the message in bytes.
        length: usize,
        /// The fixed length in bytes.
        expected: usize,
    },
    /// A varint length has more than 32 bits. Decoding ends.
    #[error("varint: a length has more than 32 bits")]
    LongVarint,
    /// The input is not a JSON object or array. Decoding ends.
    #[error("JSON: '{}' at byte {at} of a frame instead of {expected}", .found.escape_ascii())]
    Json {
        /// The unexpected byte.
        found: u8,
        /// The position in the frame, counted from 0.
        at: usize,
        /// The syntax that was expected.
        expected: &'static str,
    },
    /// JSON is nested too deeply. Decoding ends.
    #[error("JSON: a frame is nested more than {limit} deep")]
    TooDeep {
        /// The maximum depth.
        limit: usize,
    },
}

struct Length(Option<u64>, usize);

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(Some(length), _) => write!(f, "{length} bytes"),
            Self(None, limit) => write!(f, "more than {limit} bytes"),
        }
    }
}

/// Invalid options of a frame codec.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidFrames {
    /// No delimiter was given, or an empty one.
    #[error("delimiter: no delimiter was given, or an empty one")]
    NoDelimiter,
    /// A delimiter can never be found, because another one ends inside of it.
    #[error(
        "delimiter: '{}' is never found, because '{}' ends inside of it",
        .delimiter.escape_ascii(), .inside.escape_ascii()
    )]
    Unreachable {
        /// The delimiter.
        delimiter: Vec<u8>,
        /// The delimiter inside of it.
        inside: Vec<u8>,
    },
    /// The fixed length is zero: empty frames would be decoded without end.
    #[error("fixed length: the length of a frame must not be zero")]
    NoLength,
}

impl From<InvalidFrames> for waterwheel_executor::Error {
    fn from(error: InvalidFrames) -> Self {
        waterwheel_executor::Error::new(error)
    }
}
