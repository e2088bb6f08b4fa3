//! Why a message is refused.

use http::StatusCode;

/// The error of a message that is malformed, exceeds a limit, or needs something that is not supported.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum MessageError {
    /// The request line exceeds the limit of the head.
    #[error("the request line is longer than the {limit} bytes of a head")]
    RequestLineTooLong {
        /// The limit of the head.
        limit: usize,
    },
    /// The head exceeds its limit.
    #[error("the head is longer than {limit} bytes")]
    HeadTooLarge {
        /// The limit of the head.
        limit: usize,
    },
    /// The head has too many field lines.
    #[error("the head has more than {limit} field lines")]
    TooManyFields {
        /// The limit of field lines.
        limit: usize,
    },
    /// The trailers exceed the limit of a head.
    #[error("the trailers are longer than {limit} bytes or {lines} lines")]
    TrailersTooLarge {
        /// The limit of bytes.
        limit: usize,
        /// The limit of lines.
        lines: usize,
    },
    /// The chunk extensions of a body exceed their limit.
    #[error("the chunk extensions of the body are longer than {limit} bytes")]
    ExtensionsTooLarge {
        /// The limit of all extensions of a body.
        limit: usize,
    },
    /// The body exceeds its limit.
    #[error("the body has {length} bytes or more, and at most {limit} are accepted")]
    BodyTooLarge {
        /// The announced length, or the bytes that have come.
        length: u64,
        /// The limit of the body.
        limit: u64,
    },
    /// The version of the protocol is neither HTTP/1.0 nor HTTP/1.1.
    #[error("the version is neither HTTP/1.0 nor HTTP/1.1")]
    UnsupportedVersion,
    /// The body has a transfer coding other than chunked.
    #[error("the body has a transfer coding other than chunked")]
    UnsupportedCoding,
    /// The message violates the grammar, or could be read in two ways.
    #[error("malformed message: {0}")]
    Malformed(Malformation),
}

impl MessageError {
    /// Returns the status that answers such a request.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        match self {
            Self::RequestLineTooLong { .. } => StatusCode::URI_TOO_LONG,
            Self::HeadTooLarge { .. }
            | Self::TooManyFields { .. }
            | Self::TrailersTooLarge { .. }
            | Self::ExtensionsTooLarge { .. } => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedVersion => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            Self::UnsupportedCoding => StatusCode::NOT_IMPLEMENTED,
            Self::Malformed(_) => StatusCode::BAD_REQUEST,
        }
    }
}

impl From<Malformation> for MessageError {
    #[cold]
    fn from(what: Malformation) -> Self {
        Self::Malformed(what)
    }
}

/// The part of a message that is malformed. Requests are answered with 400.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq, Hash)]
pub enum Malformation {
    /// A line ends with LF alone.
    #[error("a line ends with LF instead of CR LF")]
    BareLf,
    /// A line of a request's head has control characters, other than tabs.
    #[error("a line of the head has control characters")]
    ControlCharacter,
    /// The request line is not `method SP target SP version`.
    #[error("the request line is not \"method target version\" with single spaces")]
    RequestLine,
    /// The status line is not `version SP status SP reason`.
    #[error("the status line is not \"version status reason\"")]
    StatusLine,
    /// The method is not a token.
    #[error("the method is not a token")]
    Method,
    /// The request target has bytes that no URI has, or an invalid structure.
    #[error("the request target is no valid URI")]
    Target,
    /// The form of the request target does not fit the method: `*` is for OPTIONS, `host:port` for CONNECT.
    #[error("the form of the request target does not fit the method")]
    TargetForm,
    /// A field line has no colon.
    #[error("a field line has no colon")]
    MissingColon,
    /// A field name is empty or has bytes that no token has, such as a space before the colon.
    #[error("a field name is not a token directly before its colon")]
    FieldName,
    /// A field value has control characters.
    #[error("a field value has control characters")]
    FieldValue,
    /// A line begins with white space: a folded field line, or white space before the first one.
    #[error("a line of the head begins with white space")]
    FoldedLine,
    /// A request of HTTP/1.1 without Host.
    #[error("the Host field is missing")]
    MissingHost,
    /// Several Host fields.
    #[error("the Host field is repeated")]
    RepeatedHost,
    /// The value of Host is no authority.
    #[error("the Host field is not \"host\" or \"host:port\"")]
    InvalidHost,
    /// Content-Length is not a number of 64 bits.
    #[error("Content-Length is not a decimal number of 64 bits")]
    ContentLength,
    /// Several Content-Length fields, equal or not.
    #[error("Content-Length is repeated")]
    RepeatedContentLength,
    /// Content-Length together with Transfer-Encoding.
    #[error("Content-Length stands beside Transfer-Encoding")]
    LengthAndCoding,
    /// The value of Transfer-Encoding is not a list of codings.
    #[error("Transfer-Encoding is not a list of codings")]
    TransferEncoding,
    /// Chunked is repeated, or not the last transfer coding.
    #[error("chunked is not the last transfer coding, once")]
    ChunkedNotLast,
    /// Transfer-Encoding in a message of HTTP/1.0.
    #[error("Transfer-Encoding in a message of HTTP/1.0")]
    CodingInHttp10,
    /// A chunk size is not a hexadecimal number of 64 bits.
    #[error("a chunk size is not a hexadecimal number of 64 bits")]
    ChunkSize,
    /// A chunk extension violates the grammar.
    #[error("a chunk extension violates the grammar")]
    ChunkExtension,
    /// The data of a chunk is not followed by CR LF.
    #[error("the data of a chunk is not followed by CR LF")]
    ChunkEnd,
    /// The connection ended within the message.
    #[error("the connection ended within the message")]
    Truncated,
}
