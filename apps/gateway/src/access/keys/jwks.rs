//! Keys in JWKS files: sets of JSON Web Keys (RFC 7517).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::token_key::{TokenAlgorithm, TokenKey, UnusableKey};
use crate::access::strict_json::read_object;

/// The keys of a JWKS file.
#[derive(Debug)]
pub struct JwksKeys {
    /// The usable keys.
    pub keys: Vec<TokenKey>,
    /// The number of keys that were skipped: of another kind, algorithm or use.
    pub skipped: usize,
}

/// Reads a set of keys. Keys of unknown kinds are skipped, as RFC 7517 (5) says, and keys that are not for signatures.
///
/// # Errors
/// The text is no set of keys, or a key that is not skipped is malformed, weak or private. The message names the key by
/// its index and its `kid`.
pub fn read_jwks(text: &[u8]) -> Result<JwksKeys, String> {
    let set = read_object(text).map_err(|error| format!("not a JWKS file: {error}"))?;
    let Some(Value::Array(entries)) = set.get("keys") else {
        return Err(String::from("not a JWKS file: there is no array `keys`"));
    };
    let mut read = JwksKeys { keys: Vec::new(), skipped: 0 };
    for (index, entry) in entries.iter().enumerate() {
        let Value::Object(entry) = entry else {
            return Err(format!("key {index} is not an object"));
        };
        match read_key(entry) {
            Ok(Some(key)) => read.keys.push(key),
            Ok(None) => read.skipped += 1,
            Err(error) => {
                let id = entry.get("kid").map(|id| format!(" (kid {id})")).unwrap_or_default();
                return Err(format!("key {index}{id}: {error}"));
            }
        }
    }
    Ok(read)
}

/// Reads one key; `None` if it is to be skipped.
fn read_key(entry: &Map<String, Value>) -> Result<Option<TokenKey>, UnusableKey> {
    let text = |name| entry.get(name).and_then(Value::as_str);
    let algorithm = match (text("kty"), text("crv")) {
        (Some("oct"), _) => TokenAlgorithm::Hs256,
        (Some("RSA"), _) => TokenAlgorithm::Rs256,
        (Some("EC"), Some("P-256")) => TokenAlgorithm::Es256,
        (Some("OKP"), Some("Ed25519")) => TokenAlgorithm::EdDsa,
        (Some(_), _) => return Ok(None),
        (None, _) => return Err(UnusableKey::Member("kty")),
    };
    if !is_for_verification(entry, algorithm)? {
        return Ok(None);
    }
    if algorithm != TokenAlgorithm::Hs256 && entry.contains_key("d") {
        return Err(UnusableKey::Private);
    }
    let bytes = |name| {
        let decoded = text(name).and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
        decoded.ok_or(UnusableKey::Member(name))
    };
    let key = match algorithm {
        TokenAlgorithm::Hs256 => TokenKey::hmac(&bytes("k")?)?,
        TokenAlgorithm::Rs256 => TokenKey::rsa(&bytes("n")?, &bytes("e")?)?,
        TokenAlgorithm::Es256 => TokenKey::p256(&bytes("x")?, &bytes("y")?)?,
        TokenAlgorithm::EdDsa => TokenKey::ed25519(&bytes("x")?)?,
    };
    Ok(Some(key.with_id(optional_text(entry, "kid")?)))
}

/// True if the members `alg`, `use` and `key_ops`, as far as there are any, permit the key to verify signatures of this
/// algorithm.
fn is_for_verification(
    entry: &Map<String, Value>,
    algorithm: TokenAlgorithm,
) -> Result<bool, UnusableKey> {
    let operations = match entry.get("key_ops") {
        None => true,
        Some(Value::Array(operations)) => operations.iter().any(|name| name == "verify"),
        Some(_) => return Err(UnusableKey::Member("key_ops")),
    };
    let named = optional_text(entry, "alg")?.is_none_or(|name| name == algorithm.name());
    let used = optional_text(entry, "use")?.is_none_or(|used| used == "sig");
    Ok(operations && named && used)
}

fn optional_text<'e>(
    entry: &'e Map<String, Value>,
    name: &'static str,
) -> Result<Option<&'e str>, UnusableKey> {
    match entry.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(UnusableKey::Member(name)),
    }
}
