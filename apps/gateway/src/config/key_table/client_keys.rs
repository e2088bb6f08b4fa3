//! Keys of what clients may hold, send and ask for, and of the histories.

use std::time::Duration;

use super::bounds::{HOUR, SECOND};
use crate::config::key::ConfigKey;
use crate::config::value::ValueKind::{Count, Size, Time};

pub(super) static KEYS: &[ConfigKey] = &[
    key!("clients.max", Count(1, 10_000_000), limits.clients, "Most clients"),
    key!(
        "clients.per_address",
        Count(1, 10_000_000),
        limits.clients_per_address,
        "Most clients of an address; loopback has no limit"
    ),
    key!(
        "clients.connect_timeout",
        Time(SECOND, HOUR),
        limits.connect_timeout,
        "How long a client may take to send the token that the gateway requires"
    ),
    key!(
        "clients.subscriptions",
        Count(1, 100_000),
        limits.subscriptions,
        "Most subscriptions of a client"
    ),
    key!(
        "clients.waiting_commands",
        Count(1, 10_000),
        limits.waiting_commands,
        "Commands of a client that may wait; then its connection is not read"
    ),
    key!(
        "clients.batch",
        Count(1, 10_000),
        limits.batch,
        "Most commands or publications in one message"
    ),
    key!(
        "clients.message_bytes",
        Size(256, 16 << 20),
        limits.message_bytes,
        "Longest message, body or line"
    ),
    key!(
        "clients.name_bytes",
        Size(1, 4096),
        limits.name_bytes,
        "Longest name that a client may take"
    ),
    key!(
        "clients.publish_rate",
        Count(1, 1_000_000),
        limits.publish_rate.per_second,
        "Publications of a connection per second; admins have no limit, and on an open gateway all are"
    ),
    key!(
        "clients.publish_burst",
        Count(1, 1_000_000),
        limits.publish_rate.burst,
        "Publications of a connection at once"
    ),
    key!(
        "clients.address_publish_rate",
        Count(1, 1_000_000),
        limits.publish_rate_per_address.per_second,
        "Publications of an address per second; loopback and admins have no limit"
    ),
    key!(
        "clients.address_publish_burst",
        Count(1, 1_000_000),
        limits.publish_rate_per_address.burst,
        "Publications of an address at once"
    ),
    key!(
        "answers.history",
        Count(1, 100_000),
        limits.history,
        "Most publications in an answer to history"
    ),
    key!(
        "answers.history_bytes",
        Size(1024, 1 << 30),
        limits.history_bytes,
        "Most bytes of payloads in an answer to history; one publication is always sent"
    ),
    key!(
        "answers.recovered",
        Count(1, 1_000_000),
        limits.recovered,
        "Most publications that a subscription recovers"
    ),
    key!(
        "answers.recovered_bytes",
        Size(1024, 1 << 30),
        limits.recovered_bytes,
        "Most bytes of payloads that a subscription recovers"
    ),
    key!(
        "answers.presence",
        Count(1, 100_000),
        limits.presence,
        "Most clients in an answer to presence; the count is of all"
    ),
    key!("answers.topics", Count(1, 100_000), limits.topics, "Most topics in an answer to topics"),
    key!("topics.max_bytes", Size(1, 4096), topics.max_bytes, "Longest topic or filter"),
    key!(
        "topics.max_segments",
        Count(1, 256),
        topics.max_segments,
        "Most segments of a topic or filter"
    ),
    key!(
        "topics.max_wildcards",
        Count(0, 256),
        topics.max_wildcards,
        "Most segments * of a filter; each multiplies the work"
    ),
    key!(
        "history.publications",
        Count(0, 1_000_000),
        history.topic_publications,
        "Most publications in the history of a topic; 0 keeps none"
    ),
    key!(
        "history.bytes",
        Size(1024, 1 << 40),
        history.topic_bytes,
        "Most bytes in the history of a topic"
    ),
    key!(
        "history.max_age",
        Time(SECOND, Duration::from_secs(365 * 86_400)),
        history.max_age,
        "Longest time that a publication is kept"
    ),
    key!(
        "history.total_bytes",
        Size(1024, 1 << 40),
        history.total_bytes,
        "Most bytes in all histories"
    ),
    key!("history.topics", Count(1, 10_000_000), history.topics, "Most topics"),
    key!(
        "history.present_clients",
        Count(0, 100_000_000),
        history.present_clients,
        "Most notes that a client is present in a topic"
    ),
    key!(
        "fanout.backlog",
        Count(64, 1 << 24),
        limits.loop_backlog,
        "Messages that may wait for a loop; then its clients are told that they missed some"
    ),
    key!(
        "fanout.backlog_bytes",
        Size(1 << 16, 1 << 36),
        limits.loop_backlog_bytes,
        "Bytes of those messages"
    ),
];
