//! The protocols that clients speak.

/// The protocol of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientProtocol {
    /// WebSocket: `/ws`.
    WebSocket,
    /// Server-sent events: `/events`.
    Events,
    /// Lines of text over TCP.
    Lines,
    /// Single requests of HTTP: `/api/…`, `/topics/…`.
    Http,
}

impl ClientProtocol {
    /// All protocols, in the order of their declaration.
    pub const ALL: [Self; 4] = [Self::WebSocket, Self::Events, Self::Lines, Self::Http];

    /// Returns the name, as metrics and the page use it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WebSocket => "websocket",
            Self::Events => "events",
            Self::Lines => "lines",
            Self::Http => "http",
        }
    }
}
