//! The compact form of a token, and its header.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use super::error::TokenError;
use crate::access::keys::token_key::TokenAlgorithm;
use crate::access::strict_json::read_object;

/// Maximum length of a `kid`.
const MAX_KEY_ID_BYTES: usize = 256;

/// The types of tokens that are accepted, in lower case (RFC 7519, 5.1; RFC 9068, 2.1). Tokens of other types, such as
/// those that end sessions, may have the same issuer and mean something else.
const TYPES: [&str; 4] = ["jwt", "application/jwt", "at+jwt", "application/at+jwt"];

/// A token whose header was read. Nothing of it is to be believed before the signature is verified.
#[derive(Debug)]
pub(super) struct CompactToken<'t> {
    pub(super) algorithm: TokenAlgorithm,
    pub(super) key_id: Option<String>,
    /// The bytes that are signed: header, dot, payload, as they came.
    pub(super) signed: &'t [u8],
    pub(super) signature: Vec<u8>,
    payload: &'t str,
}

impl<'t> CompactToken<'t> {
    pub(super) fn parse(token: &'t str) -> Result<Self, TokenError> {
        let not_compact = TokenError::NotCompact;
        let (signed, signature) = token.rsplit_once('.').ok_or(not_compact.clone())?;
        let (header, payload) = signed.split_once('.').ok_or(not_compact.clone())?;
        if payload.contains('.') {
            return Err(not_compact);
        }
        let (algorithm, key_id) = read_header(&decode(header)?)?;
        let signature = decode(signature)?;
        Ok(Self { algorithm, key_id, signed: signed.as_bytes(), signature, payload })
    }

    pub(super) fn payload(&self) -> Result<Vec<u8>, TokenError> {
        decode(self.payload)
    }
}

/// Decodes a part. Padding, line ends and unused bits that are not zero are refused: a token has one form.
fn decode(part: &str) -> Result<Vec<u8>, TokenError> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::NotCompact)
}

/// Members that name keys (`jwk`, `jku`, `x5c`, `x5u`) are not read: keys are configured.
fn read_header(bytes: &[u8]) -> Result<(TokenAlgorithm, Option<String>), TokenError> {
    let header = read_object(bytes).map_err(|_| TokenError::MalformedHeader)?;
    // `crit` lists extensions that a reader must understand, and this one has none. `cty` tells of a token in a token.
    for refused in ["crit", "cty", "enc", "zip"] {
        if header.contains_key(refused) {
            return Err(TokenError::Header(refused));
        }
    }
    let typed = match header.get("typ") {
        None => true,
        Some(Value::String(name)) => TYPES.contains(&name.to_ascii_lowercase().as_str()),
        Some(_) => false,
    };
    if !typed {
        return Err(TokenError::Header("typ"));
    }
    let algorithm = header.get("alg").and_then(Value::as_str).and_then(TokenAlgorithm::from_name);
    let key_id = match header.get("kid") {
        None => None,
        Some(Value::String(id)) if id.len() <= MAX_KEY_ID_BYTES => Some(id.clone()),
        Some(_) => return Err(TokenError::Header("kid")),
    };
    Ok((algorithm.ok_or(TokenError::Header("alg"))?, key_id))
}
