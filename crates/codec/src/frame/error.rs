//! Errors of frames, common to all codecs of frames (K02).

use std::fmt;

/// Bytes are no frame of a codec, or a message cannot be made one. The first word says which codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The frame is longer than it may be.
    #[error("{codec}: a frame has {}, and may have {limit}", Length(*.length, *.limit))]
    TooLong {
        /// Which codec.
        codec: &'static str,
        /// The bytes of the frame; `None` if that is told before its end.
        length: Option<u64>,
        /// How many it may have.
        limit: usize,
    },
    /// The stream ended in the middle of a frame.
    #[error("{codec}: the stream ended in the middle of a frame, after {unread} bytes of it")]
    CutOff {
        /// Which codec.
        codec: &'static str,
        /// How many bytes of the frame came.
        unread: usize,
    },
    /// A message that was to be written contains a delimiter: it would be read as more than one.
    #[error("delimiter: a message of {length} bytes has a delimiter in it, ending at byte {at}")]
    EmbeddedDelimiter {
        /// Where the delimiter ends, counted from 1.
        at: usize,
        /// The bytes of the message.
        length: usize,
    },
    /// A message that was to be written does not have the length that every frame has.
    #[error("fixed length: a message has {length} bytes, and every frame has {expected}")]
    WrongLength {
        /// The bytes of the message.
        length: usize,
        /// The bytes of a frame.
        expected: usize,
    },
    /// A length is written in more than 32 bits. Decoding ends here.
    #[error("varint: a length has more than 32 bits")]
    LongVarint,
    /// There is no JSON object or array. Decoding ends here.
    #[error("JSON: '{}' at byte {at} of a frame, where {expected} is expected", .found.escape_ascii())]
    Json {
        /// The byte that was read.
        found: u8,
        /// Where, in the frame; the first byte is 0.
        at: usize,
        /// The syntax that was expected.
        expected: &'static str,
    },
    /// JSON is nested too deeply. Decoding ends here.
    #[error("JSON: a frame is nested more than {limit} deep")]
    TooDeep {
        /// How deep it may be.
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

/// The options of a codec of frames do not fit each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidFrames {
    /// There is no delimiter, or an empty one: frames would have no end, or nothing in them.
    #[error("delimiter: there is no delimiter, or an empty one")]
    NoDelimiter,
    /// A delimiter is never found, because another one is found in it before its end.
    #[error(
        "delimiter: '{}' is never found, because '{}' ends inside of it",
        .delimiter.escape_ascii(), .inside.escape_ascii()
    )]
    Unreachable {
        /// The delimiter.
        delimiter: Vec<u8>,
        /// The one inside of it.
        inside: Vec<u8>,
    },
    /// Frames of no bytes would be given forever.
    #[error("fixed length: a frame of no bytes")]
    NoLength,
}
