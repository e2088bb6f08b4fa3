//! The settings of the engine.

use std::path::PathBuf;
use std::time::Duration;

use super::key::choice_field;
use crate::access::secret::Secret;

/// The engine, and its server if it has one.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// The engine.
    pub kind: EngineKind,
    /// The servers of the engine.
    pub url: Option<String>,
    /// The user of the gateway at the server.
    pub user: Option<String>,
    /// The password of that user.
    pub password: Option<Secret>,
    /// The authorities of the server's certificate; `None`: those of the system.
    pub ca: Option<PathBuf>,
    /// The beginning of all names at the server: gateways with the same prefix share their topics.
    pub prefix: String,
    /// The time after which the clients of a silent gateway count as gone.
    pub presence: Duration,
    /// The number of servers of NATS that hold each publication.
    pub replicas: u8,
}

/// The engines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// In the memory of the gateway, which stands alone.
    #[default]
    Memory,
    /// In Redis, for several gateways.
    Redis,
    /// In NATS, for several gateways.
    Nats,
}

choice_field!(EngineKind {
    "memory" => EngineKind::Memory,
    "redis" => EngineKind::Redis,
    "nats" => EngineKind::Nats,
});

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            kind: EngineKind::default(),
            url: None,
            user: None,
            password: None,
            ca: None,
            prefix: String::from("waterwheel"),
            // Fifteen beats of a gateway: none is given up because its machine was busy for a moment.
            presence: Duration::from_secs(15),
            replicas: 1,
        }
    }
}
