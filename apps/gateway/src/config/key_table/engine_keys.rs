//! Keys of the engine.

use super::bounds::{HOUR, SECOND};
use crate::config::key::ConfigKey;
use crate::config::value::ValueKind::Time;

pub(super) static KEYS: &[ConfigKey] = &[key!(
    "engine.timeout",
    Time(SECOND, HOUR),
    limits.engine_timeout,
    "How long the engine may take"
)];
