//! The table of all keys. The file, the environment, the flags, the help and the guide follow from it.

use std::time::Duration;

use super::key::{ConfigField, ConfigKey, fill};
use super::value::{ConfigValue, ValueKind};
use crate::access::token::claims::MAX_LEEWAY_SECONDS;

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// A key whose place is a field of the settings: name, kind, field, help; then the word for no value, and whether SIGHUP
/// applies it.
macro_rules! key {
    ($name:literal, $kind:expr, $($field:ident).+, $help:literal $(, $off:literal)? $(, $reload:ident)?) => {
        ConfigKey {
            name: $name,
            kind: $kind,
            off: optional!($($off)?),
            help: $help,
            can_reload: is_given!($($reload)?),
            set: |settings, value| fill(&mut settings.$($field).+, value),
            get: |settings| settings.$($field).+.to_value(),
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

use ValueKind::{Choice, Count, Flag, Path, Paths, Secret, Size, Text, Texts, Time};

/// All keys, in the order of the guide. Keys without a table come first, as TOML wants it.
pub static KEYS: &[ConfigKey] = &[
    key!("bind", Text, bind, "Address or host name to listen on"),
    key!("port", Count(0, 65_535), port, "Port to listen on; 0 lets the system choose"),
    key!(
        "open",
        Flag,
        access.allow_anonymous,
        "Accept clients without a token, on addresses other than loopback and beside keys too",
        reload
    ),
    key!("loops", Count(1, 1024), loops, "Event loops; auto is one for each core", "auto"),
    key!(
        "drain",
        Time(Duration::ZERO, HOUR),
        drain,
        "Longest time to end the connections at the end"
    ),
    key!(
        "take_over",
        Time(SECOND, HOUR),
        take_over,
        "Longest time that a new process may take to start when it takes over (SIGUSR2)"
    ),
    key!(
        "watchdog",
        Time(MILLISECOND, HOUR),
        watchdog,
        "Report work that holds a loop for this long",
        "off"
    ),
    key!("demo", Flag, demo, "Make demo traffic: topics, readers, now and then a slow task"),
    key!(
        "tls.certificate",
        Path,
        tls.certificate,
        "Speak TLS with the certificate chain of this file (PEM)"
    ),
    key!("tls.key", Path, tls.key, "The key of the certificate (PEM)"),
    key!(
        "tls.client_ca",
        Path,
        tls.client_ca,
        "Require certificates of clients that an authority in this file has issued (PEM)"
    ),
    key!(
        "tokens.secret",
        Secret,
        keys.secret,
        "Accept tokens that are signed with this secret (HS256)",
        reload
    ),
    key!(
        "tokens.secret_file",
        Path,
        keys.secret_file,
        "Accept tokens that are signed with the secret in this file",
        reload
    ),
    key!(
        "tokens.public_keys",
        Paths,
        keys.public_keys,
        "Accept tokens of the public keys in these files (PEM)",
        reload
    ),
    key!(
        "tokens.jwks",
        Paths,
        keys.jwks,
        "Accept tokens of the public keys in these files (JWKS)",
        reload
    ),
    key!(
        "tokens.issuer",
        Text,
        access.claims.issuer,
        "The value that the claim iss must have",
        reload
    ),
    key!(
        "tokens.audience",
        Text,
        access.claims.audience,
        "A value that the claim aud must have",
        reload
    ),
    ConfigKey {
        name: "tokens.leeway",
        kind: Time(Duration::ZERO, Duration::from_secs(MAX_LEEWAY_SECONDS)),
        off: None,
        help: "How much the clocks may differ, in whole seconds",
        can_reload: true,
        set: |settings, value| {
            let time = Duration::from_value(value).unwrap_or_default();
            settings.access.claims.leeway = time.as_secs();
        },
        get: |settings| ConfigValue::Time(Duration::from_secs(settings.access.claims.leeway)),
    },
    key!(
        "tokens.must_expire",
        Flag,
        access.claims.must_expire,
        "Refuse tokens without the claim exp",
        reload
    ),
    key!("tokens.max_bytes", Size(256, 1 << 20), access.max_token_bytes, "Longest token", reload),
    key!(
        "tokens.max_filters",
        Count(1, 10_000),
        access.claims.max_filters,
        "Most filters in each of the claims subscribe and publish",
        reload
    ),
    key!(
        "tokens.subscribe",
        Texts,
        access.token_subscribe,
        "Filters of tokens without the claim subscribe; {user} stands for the user",
        reload
    ),
    key!(
        "tokens.publish",
        Texts,
        access.token_publish,
        "Filters of tokens without the claim publish; {user} stands for the user",
        reload
    ),
    key!(
        "admin.key",
        Secret,
        keys.admin,
        "The key that permits everything: 16 characters or more",
        reload
    ),
    key!("admin.key_file", Path, keys.admin_file, "The file with the admin key", reload),
    key!(
        "anonymous.subscribe",
        Texts,
        access.anonymous_subscribe,
        "Filters that clients without a token may subscribe to; all unless there are keys of tokens",
        reload
    ),
    key!(
        "anonymous.publish",
        Texts,
        access.anonymous_publish,
        "Filters that clients without a token may publish to; all unless there are keys of tokens",
        reload
    ),
    key!(
        "failures.burst",
        Count(1, 100_000),
        access.failures.burst,
        "Invalid tokens that an address may send at once"
    ),
    key!(
        "failures.count",
        Count(1, 100_000),
        access.failures.count,
        "Invalid tokens that an address may send in each period"
    ),
    key!("failures.period", Time(SECOND, DAY), access.failures.period, "The period"),
    key!(
        "failures.addresses",
        Count(1, 1 << 24),
        access.failures.max_addresses,
        "Addresses whose invalid tokens are counted"
    ),
    key!("topics.max_bytes", Size(1, 4096), topics.max_bytes, "Longest topic or filter"),
    key!(
        "topics.max_segments",
        Count(1, 256),
        topics.max_segments,
        "Most segments of a topic or filter"
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
    use crate::config::settings::GatewaySettings;
    use crate::config::value::RawValue;

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
        for key in KEYS {
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
        assert!(filled.len() > KEYS.len(), "two keys fill the same field");
    }

    #[test]
    fn g06_names_variables_and_flags_are_unique_and_keys_of_a_table_stand_together() {
        let mut names = HashSet::new();
        for key in KEYS {
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
