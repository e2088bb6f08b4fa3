//! The options of the protocols: queues of slow clients, time limits, origins.

use std::time::Duration;

/// The options of the protocols of clients. The limits that all protocols share are
/// [`GatewayLimits`](crate::session::limits::GatewayLimits).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolOptions {
    /// Maximum number of messages that wait for a client that reads slowly. Beyond it, [`slow_clients`](Self::slow_clients)
    /// says what happens.
    pub queue_messages: usize,
    /// Maximum number of bytes of those messages, by the sizes of their payloads.
    pub queue_bytes: usize,
    /// The consequence for a client whose queue is full.
    pub slow_clients: SlowClientPolicy,
    /// The origins of pages of other hosts that may use the gateway, such as `https://example.org`; `*` stands for all.
    pub allowed_origins: Vec<String>,
    /// WebSocket: the time without a byte of the client after which it is sent a ping. Clients are told it, as the time
    /// between pings of their own.
    pub ping_interval: Duration,
    /// WebSocket: the time that a client has to send anything after a ping; then it is disconnected.
    pub ping_timeout: Duration,
    /// WebSocket: the time that a client has to answer a Close, and then to end the connection.
    pub close_timeout: Duration,
    /// WebSocket: true if messages are compressed for clients that offer it.
    pub compression: bool,
    /// Server-sent events: the time without an event after which a comment is sent; `None`: no comments.
    pub event_heartbeat: Option<Duration>,
    /// Lines: maximum length of a line of a client in bytes; a longer one is answered with `message_too_large`.
    pub line_bytes: usize,
    /// Lines: a client that sends no line for this long is disconnected; `None`: never. After half of the time it is sent a
    /// `PING`.
    pub line_idle: Option<Duration>,
}

/// The consequence for a client whose queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlowClientPolicy {
    /// Publications are dropped until half of the queue is free; then the client is told how many it has missed.
    #[default]
    Drop,
    /// The client is disconnected with `client_too_slow`.
    Disconnect,
}

impl Default for ProtocolOptions {
    fn default() -> Self {
        Self {
            // Seconds of a lively topic. Publications are shared by all queues that they wait in: a full queue of its own takes
            // about 50 KiB.
            queue_messages: 1_024,
            queue_bytes: 1024 * 1024,
            slow_clients: SlowClientPolicy::default(),
            allowed_origins: Vec::new(),
            // Shorter than the 30 s after which the strictest proxies forget an idle connection.
            ping_interval: Duration::from_secs(25),
            ping_timeout: Duration::from_secs(20),
            close_timeout: Duration::from_secs(5),
            compression: false,
            event_heartbeat: Some(Duration::from_secs(15)),
            line_bytes: 8 * 1024,
            line_idle: Some(Duration::from_secs(300)),
        }
    }
}
