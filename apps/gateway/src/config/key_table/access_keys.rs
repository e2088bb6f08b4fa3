//! Keys of access: who may do what.

use std::time::Duration;

use super::bounds::{DAY, SECOND};
use crate::access::token::claims::MAX_LEEWAY_SECONDS;
use crate::config::key::{ConfigField, ConfigKey};
use crate::config::value::ConfigValue;
use crate::config::value::ValueKind::{Count, Flag, Path, Paths, Secret, Size, Text, Texts, Time};

pub(super) static KEYS: &[ConfigKey] = &[
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
    key!("admin.key_file", Path, access.admin_key_file, "The file with the admin key", reload),
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
];
