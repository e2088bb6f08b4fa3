//! Opens the engine that the settings name.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use waterwheel::channel::EventLoopGroup;

use super::limits::HistoryLimits;
use super::memory::MemoryEngine;
use super::nats::NatsEngine;
use super::nats::options::{NatsOptionError, NatsOptions};
use super::redis::RedisEngine;
use super::redis::options::{RedisOptionError, RedisOptions};
use super::{Engine, EngineSink};
use crate::config::engine_settings::{EngineKind, EngineSettings};

/// The reason why an engine cannot be opened. A server that is away is none: the engine connects when it is there.
#[derive(Debug, Error)]
pub enum EngineOpenError {
    /// The engine has a server, and the settings do not name it.
    #[error("engine.url is not set: the engine {0} has a server")]
    NoUrl(&'static str),
    /// An option of NATS cannot be used.
    #[error(transparent)]
    Nats(#[from] NatsOptionError),
    /// An option of Redis cannot be used.
    #[error(transparent)]
    Redis(#[from] RedisOptionError),
}

/// Checks the settings, without a connection to the server.
///
/// # Errors
/// The settings cannot be used.
pub fn check_engine(settings: &EngineSettings) -> Result<(), EngineOpenError> {
    match settings.kind {
        EngineKind::Memory => Ok(()),
        EngineKind::Redis => {
            redis_options(settings)?.check()?;
            Ok(())
        }
        EngineKind::Nats => {
            nats_options(settings)?.check()?;
            Ok(())
        }
    }
}

/// Opens an engine that hands on to `sink`. One with a server runs on a loop of the group; `timeout` is the longest time to
/// connect, and without a sign of life.
///
/// # Errors
/// The settings cannot be used.
pub fn open_engine(
    settings: &EngineSettings,
    history: HistoryLimits,
    timeout: Duration,
    loops: &EventLoopGroup,
    sink: Arc<dyn EngineSink>,
) -> Result<Arc<dyn Engine>, EngineOpenError> {
    match settings.kind {
        EngineKind::Memory => Ok(Arc::new(MemoryEngine::new(history, sink))),
        EngineKind::Redis => {
            let options = RedisOptions { timeout, ..redis_options(settings)? };
            Ok(Arc::new(RedisEngine::open(options, history, loops, sink)?))
        }
        EngineKind::Nats => {
            let options = NatsOptions { timeout, ..nats_options(settings)? };
            Ok(Arc::new(NatsEngine::open(options, history, loops, sink)?))
        }
    }
}

fn redis_options(settings: &EngineSettings) -> Result<RedisOptions, EngineOpenError> {
    let url = settings.url.as_deref().ok_or(EngineOpenError::NoUrl("redis"))?;
    Ok(RedisOptions {
        user: settings.user.clone(),
        password: settings.password.clone(),
        ca: settings.ca.clone(),
        prefix: settings.prefix.clone(),
        presence: settings.presence,
        ..RedisOptions::new(url.parse().map_err(RedisOptionError::from)?)
    })
}

fn nats_options(settings: &EngineSettings) -> Result<NatsOptions, EngineOpenError> {
    let url = settings.url.as_deref().ok_or(EngineOpenError::NoUrl("nats"))?;
    Ok(NatsOptions {
        user: settings.user.clone(),
        password: settings.password.clone(),
        ca: settings.ca.clone(),
        prefix: settings.prefix.clone(),
        replicas: settings.replicas,
        presence: settings.presence,
        ..NatsOptions::new(url.parse().map_err(NatsOptionError::from)?)
    })
}
