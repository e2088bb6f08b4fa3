//! Public keys in PEM files (RFC 7468).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::token_key::{TokenKey, UnusableKey};

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";

/// Reads every public key of a PEM file: blocks `PUBLIC KEY`, in order. Text around the blocks is skipped.
///
/// # Errors
/// A block is malformed or of another kind, or a key is not usable.
pub fn read_public_keys(text: &str) -> Result<Vec<TokenKey>, UnusableKey> {
    let mut keys = Vec::new();
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        let Some(label) = line.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(DASHES))
        else {
            continue;
        };
        match label {
            "PUBLIC KEY" => {}
            label if label.ends_with("PRIVATE KEY") => return Err(UnusableKey::Private),
            _ => return Err(UnusableKey::Unsupported),
        }
        let mut body = String::new();
        let end = lines.by_ref().find(|line| {
            let is_end = line.starts_with(END);
            if !is_end {
                body.push_str(line);
            }
            is_end
        });
        let is_closed = end.is_some_and(|end| end[END.len()..].strip_suffix(DASHES) == Some(label));
        let der = STANDARD.decode(&body).ok().filter(|_| is_closed);
        keys.push(TokenKey::from_public_key_info(
            &der.ok_or(UnusableKey::Member("the PEM block"))?,
        )?);
    }
    Ok(keys)
}
