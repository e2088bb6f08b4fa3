//! A publication on its way to many clients, with the encodings that they share.

use std::fmt;
use std::sync::{Arc, OnceLock};

use waterwheel::bytes::Bytes;
use waterwheel::http::EncodedEvent;
use waterwheel::websocket::BroadcastMessage;

use crate::engine::publication::Publication;

/// A publication and its encodings. Each encoding is made once, by the first client that needs it, on whichever loop; a
/// client of another loop that needs it meanwhile waits until it is made.
pub struct Delivery {
    publication: Arc<Publication>,
    websocket: OnceLock<BroadcastMessage>,
    event: OnceLock<EncodedEvent>,
    line: OnceLock<Bytes>,
}

impl Delivery {
    /// Wraps a publication.
    #[must_use]
    pub fn new(publication: Arc<Publication>) -> Self {
        Self {
            publication,
            websocket: OnceLock::new(),
            event: OnceLock::new(),
            line: OnceLock::new(),
        }
    }

    /// Returns the publication.
    #[must_use]
    pub fn publication(&self) -> &Arc<Publication> {
        &self.publication
    }

    /// Returns the message of WebSocket, made by `encode` if there is none yet.
    pub fn websocket(
        &self,
        encode: impl FnOnce(&Publication) -> BroadcastMessage,
    ) -> &BroadcastMessage {
        self.websocket.get_or_init(|| encode(&self.publication))
    }

    /// Returns the server-sent event, made by `encode` if there is none yet.
    pub fn event(&self, encode: impl FnOnce(&Publication) -> EncodedEvent) -> &EncodedEvent {
        self.event.get_or_init(|| encode(&self.publication))
    }

    /// Returns the line with its end, made by `encode` if there is none yet.
    pub fn line(&self, encode: impl FnOnce(&Publication) -> Bytes) -> &Bytes {
        self.line.get_or_init(|| encode(&self.publication))
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Delivery").field(&self.publication).finish()
    }
}
