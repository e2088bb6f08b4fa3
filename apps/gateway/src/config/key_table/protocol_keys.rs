//! Keys of the protocols of clients.

use super::bounds::{DAY, HOUR, SECOND};
use crate::config::key::ConfigKey;
use crate::config::value::ValueKind::{Choice, Count, Flag, Size, Texts, Time};

pub(super) static KEYS: &[ConfigKey] = &[
    key!(
        "slow_clients.policy",
        Choice(&["drop", "disconnect"]),
        protocols.slow_clients,
        "The consequence for a client that reads too slowly"
    ),
    key!(
        "slow_clients.messages",
        Count(1, 1_000_000),
        protocols.queue_messages,
        "Most messages that wait for a client"
    ),
    key!(
        "slow_clients.bytes",
        Size(1024, 1 << 30),
        protocols.queue_bytes,
        "Most bytes of those messages"
    ),
    key!(
        "origins.allowed",
        Texts,
        protocols.allowed_origins,
        "Origins of pages of other hosts that may use the gateway, https://example.org; * stands for all"
    ),
    key!(
        "websocket.ping_interval",
        Time(SECOND, HOUR),
        protocols.ping_interval,
        "A client that sends nothing for this long is sent a ping"
    ),
    key!(
        "websocket.ping_timeout",
        Time(SECOND, HOUR),
        protocols.ping_timeout,
        "How long a client may take to answer a ping"
    ),
    key!(
        "websocket.close_timeout",
        Time(SECOND, HOUR),
        protocols.close_timeout,
        "How long a client may take to answer a close"
    ),
    key!(
        "websocket.compression",
        Flag,
        protocols.compression,
        "Compress messages for clients that offer it"
    ),
    key!(
        "events.heartbeat",
        Time(SECOND, HOUR),
        protocols.event_heartbeat,
        "A stream without events is sent a comment after this time",
        "off"
    ),
    key!("lines.max_bytes", Size(64, 16 << 20), protocols.line_bytes, "Longest line of a client"),
    key!(
        "lines.idle",
        Time(SECOND, DAY),
        protocols.line_idle,
        "A client that sends no line for this long is disconnected, and sent PING after half of it",
        "off"
    ),
];
