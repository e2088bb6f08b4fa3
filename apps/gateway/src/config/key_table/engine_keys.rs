//! Keys of the engine.

use std::time::Duration;

use super::bounds::{HOUR, SECOND};
use crate::config::key::ConfigKey;
use crate::config::value::ValueKind::{Choice, Count, Path, Secret, Text, Time};

pub(super) static KEYS: &[ConfigKey] = &[
    key!(
        "engine.timeout",
        Time(SECOND, HOUR),
        limits.engine_timeout,
        "How long the engine may take"
    ),
    key!(
        "engine.kind",
        Choice(&["memory", "redis", "nats"]),
        engine.kind,
        "Where publications are kept"
    ),
    key!(
        "engine.url",
        Text,
        engine.url,
        "The servers of the engine: redis://host:port/database, nats://host:port; rediss:// and tls:// with TLS"
    ),
    key!("engine.user", Text, engine.user, "The user of the gateway at the server"),
    key!(
        "engine.password",
        Secret,
        engine.password,
        "The password of that user, or of all; for NATS, also a token"
    ),
    key!(
        "engine.ca",
        Path,
        engine.ca,
        "The authorities of the server's certificate (PEM), instead of those of the system"
    ),
    key!(
        "engine.prefix",
        Text,
        engine.prefix,
        "The beginning of all names at the server: gateways with the same one share their topics"
    ),
    key!(
        "engine.presence",
        Time(Duration::from_secs(5), HOUR),
        engine.presence,
        "How long after its last sign of life the clients of a gateway count as present"
    ),
    key!(
        "engine.replicas",
        Count(1, 5),
        engine.replicas,
        "On how many servers of NATS each publication is kept"
    ),
];
