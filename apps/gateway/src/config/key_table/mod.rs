//! The table of all keys. The file, the environment, the flags, the help and the guide follow from it.
//!
//! | keys of | file |
//! |---|---|
//! | the port, TLS, connections, HTTP | `server_keys.rs` |
//! | tokens, the admin key, clients without a credential | `access_keys.rs` |
//! | what clients may hold, send and ask for; histories | `client_keys.rs` |
//! | the engine | `engine_keys.rs` |
//! | WebSocket, server-sent events, lines | `protocol_keys.rs` |
//! | metrics, the log | `operation_keys.rs` |

use super::key::ConfigKey;

/// A key whose place is a field of the settings: name, kind, field, help; then the word for no value, and whether SIGHUP
/// applies it.
macro_rules! key {
    ($name:literal, $kind:expr, $($field:ident).+, $help:literal $(, $off:literal)? $(, $reload:ident)?) => {
        $crate::config::key::ConfigKey {
            name: $name,
            kind: $kind,
            off: optional!($($off)?),
            help: $help,
            can_reload: is_given!($($reload)?),
            set: |settings, value| $crate::config::key::fill(&mut settings.$($field).+, value),
            get: |settings| $crate::config::key::ConfigField::to_value(&settings.$($field).+),
        }
    };
}

macro_rules! optional {
    () => {
        None
    };
    ($off:literal) => {
        Some($off)
    };
}

macro_rules! is_given {
    () => {
        false
    };
    (reload) => {
        true
    };
}

mod access_keys;
mod bounds;
mod client_keys;
mod engine_keys;
mod operation_keys;
mod protocol_keys;
mod server_keys;

/// All keys, in the order of the guide. Keys without a table come first, as TOML wants it.
pub static KEYS: KeyTable = KeyTable(&[
    server_keys::KEYS,
    access_keys::KEYS,
    client_keys::KEYS,
    engine_keys::KEYS,
    protocol_keys::KEYS,
    operation_keys::KEYS,
]);

/// The keys of the configuration, in groups.
#[derive(Debug)]
pub struct KeyTable(&'static [&'static [ConfigKey]]);

impl KeyTable {
    /// Returns the keys in their order.
    pub fn iter(&self) -> impl Iterator<Item = &'static ConfigKey> + use<> {
        self.0.iter().copied().flatten()
    }
}

/// Finds a key by its name in the file.
pub(super) fn find_key(name: &str) -> Option<&'static ConfigKey> {
    KEYS.iter().find(|key| key.name == name)
}

/// Finds a key by its variable.
pub(super) fn find_variable(variable: &str) -> Option<&'static ConfigKey> {
    KEYS.iter().find(|key| key.variable() == variable)
}

/// Finds a key by its flag.
pub(super) fn find_flag(flag: &str) -> Option<&'static ConfigKey> {
    KEYS.iter().find(|key| key.flag() == flag)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::access::rate::RateLimit;
    use crate::config::settings::GatewaySettings;
    use crate::config::value::ConfigValue;
    use crate::config::value::RawValue;
    use crate::config::value::ValueKind::{
        Choice, Count, Flag, Networks, Path, Paths, Secret, Size, Text, Texts, Time,
    };
    use crate::protocols::ProtocolOptions;
    use crate::session::limits::GatewayLimits;

    /// Every default is accepted by its key and shown as it was.
    #[test]
    fn g06_every_default_is_a_value_that_its_key_accepts() {
        let defaults = GatewaySettings::default();
        for key in KEYS.iter().filter(|key| !key.is_secret()) {
            let shown = key.shown_in(&defaults);
            if shown.is_empty() {
                continue; // Not set, and no word stands for that.
            }
            let value = key.read(&RawValue::Text(shown.clone()));
            let value =
                value.unwrap_or_else(|| panic!("{} = {shown}: {}", key.name, key.accepts()));
            let mut settings = GatewaySettings::default();
            (key.set)(&mut settings, value);
            assert_eq!(key.shown_in(&settings), shown, "{}", key.name);
        }
    }

    /// A value of each kind arrives in the field, at the bounds too: a key whose kind is not that of its field panics.
    #[test]
    fn g06_every_key_fills_its_own_field() {
        let mut filled = HashSet::new();
        for key in KEYS.iter() {
            let values = match key.kind {
                Flag => vec![ConfigValue::Flag(false), ConfigValue::Flag(true)],
                Count(min, max) | Size(min, max) => {
                    vec![ConfigValue::Number(min), ConfigValue::Number(max)]
                }
                Time(min, max) => vec![ConfigValue::Time(min), ConfigValue::Time(max)],
                Choice(words) => {
                    words.iter().map(|word| ConfigValue::Text((*word).to_owned())).collect()
                }
                Text | Path | Secret => vec![ConfigValue::Text(String::from("a text"))],
                Texts | Paths => vec![ConfigValue::List(vec![String::from("a")])],
                Networks => vec![ConfigValue::List(vec![String::from("10.0.0.0/8")])],
            };
            let off = key.off.map(|_| ConfigValue::Off);
            for value in values.into_iter().chain(off) {
                let mut settings = GatewaySettings::default();
                (key.set)(&mut settings, value.clone());
                match key.kind {
                    Secret => {}
                    _ => assert_eq!((key.get)(&settings), value, "{}", key.name),
                }
                filled.insert(format!("{settings:?}"));
            }
        }
        assert!(filled.len() > KEYS.iter().count(), "two keys fill the same field");
    }

    /// The patterns name all fields: a new limit does not compile before it has a key, or a reason here.
    #[test]
    fn g06_every_limit_has_a_key() {
        let GatewaySettings { limits, protocols, port_options, history, .. } =
            GatewaySettings::default();
        let GatewayLimits {
            clients: _,
            clients_per_address: _,
            subscriptions: _,
            waiting_commands: _,
            batch: _,
            message_bytes: _,
            publish_rate: RateLimit { per_second: _, burst: _ },
            publish_rate_per_address: RateLimit { .. },
            name_bytes: _,
            history: _,
            history_bytes: _,
            recovered: _,
            recovered_bytes: _,
            presence: _,
            topics: _,
            loop_backlog: _,
            loop_backlog_bytes: _,
            engine_timeout: _,
            connect_timeout: _,
            topic: _, // The keys of topics.
        } = limits;
        let ProtocolOptions {
            queue_messages: _,
            queue_bytes: _,
            slow_clients: _,
            allowed_origins: _,
            ping_interval: _,
            ping_timeout: _,
            close_timeout: _,
            compression: _,
            event_heartbeat: _,
            line_bytes: _,
            line_idle: _,
        } = protocols;
        let of = |prefixes: &[&str]| {
            let is_one = |key: &&ConfigKey| prefixes.iter().any(|it| key.name.starts_with(it));
            KEYS.iter().filter(is_one).count()
        };
        let clients = ["clients.", "answers.", "fanout.", "engine.timeout"];
        assert_eq!(of(&clients), 21, "two fields are rates, of two keys each; {limits:?}");
        assert_eq!(of(&["slow_clients.", "origins.", "websocket.", "events.", "lines."]), 11);
        assert_eq!(of(&["history."]), 6, "{history:?}");
        assert_eq!(
            of(&["proxy.", "hosts.", "connections.", "detection.", "http.", "metrics."]),
            12,
            "{port_options:?}"
        );
    }

    #[test]
    fn g06_names_variables_and_flags_are_unique_and_keys_of_a_table_stand_together() {
        let mut names = HashSet::new();
        for key in KEYS.iter() {
            assert!(names.insert(key.name.to_owned()), "{}", key.name);
            assert!(names.insert(key.variable()) && names.insert(key.flag()), "{}", key.name);
            assert!(key.help.starts_with(char::is_uppercase) && !key.help.ends_with('.'));
        }
        let table = |key: &ConfigKey| key.name.split_once('.').map_or("", |(table, _)| table);
        let mut tables: Vec<_> = KEYS.iter().map(table).collect();
        tables.dedup();
        let unique: HashSet<_> = tables.iter().collect();
        assert_eq!((tables[0], unique.len()), ("", tables.len()));
    }
}
