//! Publications, before and after they have a position.

use std::sync::Arc;

use waterwheel::bytes::Bytes;
use waterwheel::websocket::ByteString;

use super::position::Position;
use crate::topic::name::Topic;

/// The content of a publication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublicationPayload {
    /// A JSON value, checked, as it was written but without line ends.
    Json(ByteString),
    /// A text.
    Text(ByteString),
    /// Bytes.
    Bytes(Bytes),
}

impl PublicationPayload {
    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            PublicationPayload::Json(text) | PublicationPayload::Text(text) => text.len(),
            PublicationPayload::Bytes(bytes) => bytes.len(),
        }
    }

    /// Returns a copy that shares no memory: a payload that was cut out of a read buffer keeps the whole buffer.
    #[must_use]
    pub fn to_detached(&self) -> Self {
        match self {
            PublicationPayload::Json(text) => PublicationPayload::Json(detached_text(text)),
            PublicationPayload::Text(text) => PublicationPayload::Text(detached_text(text)),
            PublicationPayload::Bytes(bytes) => {
                PublicationPayload::Bytes(Bytes::copy_from_slice(bytes))
            }
        }
    }

    /// True if there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn detached_text(text: &ByteString) -> ByteString {
    ByteString::from(String::from(&**text))
}

/// A publication on its way to the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPublication {
    /// The topic.
    pub topic: Topic,
    /// The content.
    pub payload: PublicationPayload,
    /// The user who published it, if known.
    pub from: Option<Arc<str>>,
    /// When the gateway took it: milliseconds since 1970.
    pub time: u64,
}

/// A publication with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// The topic.
    pub topic: Topic,
    /// The place among all publications of the engine.
    pub position: Position,
    /// The content.
    pub payload: PublicationPayload,
    /// The user who published it, if known.
    pub from: Option<Arc<str>>,
    /// When the gateway took it: milliseconds since 1970.
    pub time: u64,
}
