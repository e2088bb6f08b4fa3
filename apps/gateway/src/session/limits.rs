//! The limits of clients: what each may hold, send and ask for, and what all of them may.

use std::time::Duration;

use crate::access::rate::RateLimit;
use crate::topic::limits::TopicLimits;

/// The limits of the clients of a gateway. Each is answered by an error that names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayLimits {
    /// Maximum number of clients; more are refused with `too_many_clients`.
    pub clients: usize,
    /// Maximum number of clients of one address; more are refused with `too_many_clients`. Addresses of loopback have no
    /// such limit.
    pub clients_per_address: usize,
    /// Maximum number of subscriptions of a client; more are answered with `too_many_subscriptions`.
    pub subscriptions: usize,
    /// Commands of a client that may wait while one is carried out. Then its connection stops reading
    /// ([`pause_commands`](super::connection::ClientConnection::pause_commands)).
    pub waiting_commands: usize,
    /// Maximum number of commands or publications in one message; more are answered with `batch_too_large`.
    pub batch: usize,
    /// Maximum size of a message, body or line in bytes; more is answered with `message_too_large`.
    pub message_bytes: usize,
    /// Publications of one connection; more are answered with `rate_exceeded`. Admins have no such limit.
    pub publish_rate: RateLimit,
    /// Publications of all clients of one address, by any protocol; more are answered with `rate_exceeded`. Admins have no
    /// such limit, and neither have addresses of loopback.
    pub publish_rate_per_address: RateLimit,
    /// Maximum length of a name in bytes; a longer one is answered with `invalid_field`.
    pub name_bytes: usize,
    /// Maximum number of publications in one answer to `history`.
    pub history: usize,
    /// Maximum number of bytes of the payloads in one answer to `history`, which has at least one publication nevertheless.
    pub history_bytes: usize,
    /// Maximum number of publications that one subscription recovers. If the history has more, the latest are recovered
    /// and the answer tells a gap.
    pub recovered: usize,
    /// Maximum number of bytes of the payloads that one subscription recovers, with the same answer.
    pub recovered_bytes: usize,
    /// Maximum number of clients in one answer to `presence`; the count is of all.
    pub presence: usize,
    /// Maximum number of topics in one answer to `topics`.
    pub topics: usize,
    /// Publications, texts and notes of presence that may wait for one loop, and publications that may wait while a gap is
    /// filled. A loop that is further behind tells its clients that they have missed some.
    pub loop_backlog: usize,
    /// Bytes of those publications and texts.
    pub loop_backlog_bytes: usize,
    /// How long an engine may take; then the answer is `engine_unavailable`.
    pub engine_timeout: Duration,
    /// How long a client may take until it sends the token that the gateway requires; then it is closed with
    /// `token_required`.
    pub connect_timeout: Duration,
    /// The limits of topics and filters.
    pub topic: TopicLimits,
}

impl Default for GatewayLimits {
    fn default() -> Self {
        Self {
            // 20,000 clients of 12 KiB are 240 MiB.
            clients: 20_000,
            clients_per_address: 1_024,
            // Each takes about 200 bytes, and as much again in the engine.
            subscriptions: 128,
            waiting_commands: 64,
            batch: 256,
            message_bytes: 64 * 1024,
            publish_rate: RateLimit { per_second: 1_000, burst: 2_000 },
            publish_rate_per_address: RateLimit { per_second: 5_000, burst: 10_000 },
            name_bytes: 128,
            history: 1_000,
            history_bytes: 1024 * 1024,
            recovered: 10_000,
            // 10,000 of 400 bytes each. A client that does not read holds them, beyond its queue.
            recovered_bytes: 4 * 1024 * 1024,
            presence: 1_000,
            topics: 1_000,
            // A loop that is 65,536 publications behind has stood still for seconds.
            loop_backlog: 65_536,
            loop_backlog_bytes: 64 * 1024 * 1024,
            engine_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(10),
            topic: TopicLimits::default(),
        }
    }
}
