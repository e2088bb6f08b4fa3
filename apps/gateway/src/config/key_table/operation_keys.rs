//! Keys of metrics and of the log.

use crate::config::key::ConfigKey;
use crate::config::value::ValueKind::{Choice, Flag};

pub(super) static KEYS: &[ConfigKey] = &[
    key!(
        "metrics.open",
        Flag,
        port_options.has_open_metrics,
        "Answer metrics without a credential; otherwise admins get them, who on an open gateway are all"
    ),
    key!(
        "log.format",
        Choice(&["logfmt", "json"]),
        log.format,
        "The form of lines on standard error",
        reload
    ),
    key!(
        "log.level",
        Choice(&["error", "warn", "info", "debug"]),
        log.level,
        "The least level that is written",
        reload
    ),
];
