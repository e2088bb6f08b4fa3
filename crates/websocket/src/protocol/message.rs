//! Messages, as handlers and async functions read and write them.

use bytes::Bytes;
use bytestring::ByteString;
use waterwheel_channel::Message;

use super::close::CloseReason;

/// A message of a WebSocket connection.
///
/// Read are texts and binary messages, or their parts if the connection is set to
/// [`parts`](crate::WebSocketOptionsBuilder::parts), and the close of the peer. Pings are answered, and pongs
/// noticed, by the connection; they are read as messages only if asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebSocketMessage {
    /// A text.
    Text(ByteString),
    /// A binary message.
    Binary(Bytes),
    /// A part of a text or of a binary message.
    Part(MessagePart),
    /// A ping, of at most 125 bytes.
    Ping(Bytes),
    /// A pong, of at most 125 bytes.
    Pong(Bytes),
    /// The close of the connection, with its reason if one was given. It is the last message in its direction.
    Close(Option<CloseReason>),
}

/// A part of a message, read as it comes in or written as a frame of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessagePart {
    /// The text or the bytes. All parts of a message are of the same kind; each part of a text ends between two
    /// characters.
    pub data: PartData,
    /// True if the message ends with this part.
    pub is_last: bool,
}

/// The data of a part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartData {
    /// Text.
    Text(ByteString),
    /// Bytes.
    Binary(Bytes),
}

/// A short text or binary message, by reference: it is valid during the call that gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShortMessage<'a> {
    /// A text.
    Text(&'a str),
    /// A binary message.
    Binary(&'a [u8]),
}

impl From<ShortMessage<'_>> for WebSocketMessage {
    /// Copies the message.
    fn from(message: ShortMessage<'_>) -> Self {
        match message {
            ShortMessage::Text(text) => Self::Text(text.into()),
            ShortMessage::Binary(bytes) => Self::Binary(Bytes::copy_from_slice(bytes)),
        }
    }
}

impl WebSocketMessage {
    /// Returns a text.
    pub fn text(text: impl Into<ByteString>) -> Self {
        Self::Text(text.into())
    }

    /// Returns a binary message.
    pub fn binary(bytes: impl Into<Bytes>) -> Self {
        Self::Binary(bytes.into())
    }
}

impl From<ByteString> for WebSocketMessage {
    fn from(text: ByteString) -> Self {
        Self::Text(text)
    }
}

impl From<String> for WebSocketMessage {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<&str> for WebSocketMessage {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<Bytes> for WebSocketMessage {
    fn from(bytes: Bytes) -> Self {
        Self::Binary(bytes)
    }
}

impl From<Vec<u8>> for WebSocketMessage {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Binary(bytes.into())
    }
}

impl PartData {
    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Binary(bytes) => bytes.len(),
        }
    }

    /// True if there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Message for WebSocketMessage {
    fn size_hint(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Binary(bytes) | Self::Ping(bytes) | Self::Pong(bytes) => bytes.len(),
            Self::Part(part) => part.data.len(),
            Self::Close(reason) => reason.as_ref().map_or(0, |reason| 2 + reason.text().len()),
        }
    }
}
