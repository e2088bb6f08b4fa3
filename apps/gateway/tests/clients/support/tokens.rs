//! Tokens of a test.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use waterwheel_gateway::access::config::AccessConfig;
use waterwheel_gateway::access::keys::key_set::KeySource;
use waterwheel_gateway::access::secret::Secret;
use waterwheel_gateway::metrics::process::unix_time;

/// The secret of the gateway.
const SECRET: &str = "a secret of thirty-two characters";

/// The admin key of the gateway.
pub(crate) const ADMIN_KEY: &str = "an-admin-key-of-a-test";

/// Returns a configuration that requires tokens.
pub(crate) fn protected() -> AccessConfig {
    AccessConfig {
        token_keys: vec![KeySource::Secret(Secret::new(SECRET))],
        admin_key: Some(Secret::new(ADMIN_KEY)),
        ..AccessConfig::default()
    }
}

/// Returns seconds from now, as a time of a claim.
pub(crate) fn in_seconds(seconds: i64) -> i64 {
    unix_time().as_secs() as i64 + seconds
}

/// Returns a token of a user with permissions for one filter, for an hour.
pub(crate) fn token(user: &str, filter: &str) -> String {
    let claims =
        json!({"sub": user, "exp": in_seconds(3600), "subscribe": [filter], "publish": [filter]});
    signed(&claims, SECRET)
}

/// Returns a token with these claims.
pub(crate) fn with_claims(claims: &Value) -> String {
    signed(claims, SECRET)
}

/// Returns a token of another key.
pub(crate) fn of_wrong_key() -> String {
    signed(
        &json!({"sub": "eve", "exp": in_seconds(3600)}),
        "another secret of a stranger, long enough",
    )
}

/// Returns a token without a signature.
pub(crate) fn unsigned() -> String {
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let claims =
        json!({"sub": "eve", "exp": in_seconds(3600), "subscribe": [">"], "publish": [">"]});
    format!("{}.{}.", encode(&json!({"alg": "none", "typ": "JWT"})), encode(&claims))
}

fn signed(claims: &Value, secret: &str) -> String {
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", encode(&json!({"alg": "HS256", "typ": "JWT"})), encode(claims));
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let signature = hmac::sign(&key, text.as_bytes());
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
}
