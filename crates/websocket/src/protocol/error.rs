//! Errors: in the bytes of a peer, or of a message that cannot be sent.

use waterwheel_executor::Error;

use super::close::CloseCode;

/// A violation of the protocol or of a limit by the peer. The connection fails with its
/// [`close_code`](Self::close_code).
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtocolError {
    /// A client has sent a frame without a mask.
    #[error("a frame of the client has no mask")]
    UnmaskedFrame,
    /// A server has sent a frame with a mask.
    #[error("a frame of the server has a mask")]
    MaskedFrame,
    /// A reserved bit is set that no negotiated extension uses there.
    #[error("the reserved bits {bits:#05b} are set, and no extension uses them here")]
    ReservedBits {
        /// RSV1 is 4, RSV2 is 2, RSV3 is 1.
        bits: u8,
    },
    /// An opcode that the protocol reserves.
    #[error("the opcode {opcode:#x} is reserved")]
    ReservedOpcode {
        /// The opcode.
        opcode: u8,
    },
    /// A control frame that is not whole.
    #[error("a control frame is fragmented")]
    FragmentedControl,
    /// A control frame that is too long.
    #[error("a control frame is longer than 125 bytes")]
    ControlTooLong,
    /// A length in more bytes than it needs.
    #[error("the length {len} is not written in its shortest form")]
    LongLength {
        /// The length.
        len: u64,
    },
    /// A length of 64 bits with its highest bit set.
    #[error("the highest bit of a length is set")]
    LengthOverflow,
    /// A continuation frame outside of a message.
    #[error("a continuation frame continues no message")]
    UnexpectedContinuation,
    /// The frame of a new message inside of another one.
    #[error("a message begins before the last one has ended")]
    UnfinishedMessage,
    /// A frame longer than the limit.
    #[error("a frame has {len} bytes, at most {limit} are accepted")]
    FrameTooBig {
        /// The length of its payload.
        len: u64,
        /// The limit.
        limit: u64,
    },
    /// A message longer than the limit.
    #[error("a message has more than {limit} bytes")]
    MessageTooBig {
        /// The limit.
        limit: u64,
    },
    /// A text that is not UTF-8.
    #[error("a text is not UTF-8")]
    InvalidUtf8,
    /// A Close frame with one byte.
    #[error("a Close frame has half a code")]
    CloseTooShort,
    /// A Close frame with a code that it may not have.
    #[error("a Close frame has the code {code}")]
    InvalidCloseCode {
        /// The code.
        code: u16,
    },
    /// A Close frame whose text is not UTF-8.
    #[error("the reason of a Close frame is not UTF-8")]
    InvalidCloseText,
    /// A compressed message that cannot be inflated.
    #[error("a compressed message is corrupt")]
    CorruptDeflate,
}

impl ProtocolError {
    /// Returns the code that the peer is told.
    #[must_use]
    pub fn close_code(self) -> CloseCode {
        match self {
            Self::FrameTooBig { .. } | Self::MessageTooBig { .. } => CloseCode::TOO_BIG,
            Self::InvalidUtf8 | Self::InvalidCloseText => CloseCode::INVALID_DATA,
            // RFC 7692 leaves the code open; 1007 is that of data which is not what its type says.
            Self::CorruptDeflate => CloseCode::INVALID_DATA,
            _ => CloseCode::PROTOCOL_ERROR,
        }
    }
}

/// A message that cannot be sent.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// A Close frame was sent: nothing may follow it.
    #[error("the connection is closing: nothing follows a Close frame")]
    Closing,
    /// A ping or a pong that is too long.
    #[error("a ping or pong has {len} bytes, at most 125 are possible")]
    ControlTooLong {
        /// The number of bytes.
        len: usize,
    },
    /// A whole message, or a part of another kind, while a message in parts is being sent.
    #[error("a message in parts has not ended: its next part has to come first")]
    UnfinishedMessage,
    /// The channel holds as much as its hard cap allows.
    #[error("a message has {len} bytes, and the channel takes {room} more below its hard cap")]
    BufferFull {
        /// The number of bytes of the message; with compression the most that they may become.
        len: usize,
        /// The number of bytes that the channel takes.
        room: usize,
    },
}

impl From<SendError> for Error {
    fn from(error: SendError) -> Self {
        Error::new(error)
    }
}
