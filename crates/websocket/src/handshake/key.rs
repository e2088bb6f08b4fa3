//! The key of a client, and the proof that a server has read it.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use http::HeaderValue;

use crate::protocol::mask::random_bytes;

/// Appended to the key (RFC 6455, section 1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The characters of a key: 16 bytes in base64.
const KEY_LEN: usize = 24;

/// The characters of a proof: 20 bytes in base64.
const ACCEPT_LEN: usize = 28;

/// Base64 with padding. Bits that the padding leaves over may be set: the example of RFC 6455, section 4.1, has some.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// Returns a new key of a client.
pub(crate) fn new_key() -> String {
    BASE64.encode(random_bytes::<16>())
}

/// True for the base64 of 16 bytes.
pub(crate) fn is_key(key: &[u8]) -> bool {
    let mut decoded = [0; 18];
    key.len() == KEY_LEN && BASE64.decode_slice(key, &mut decoded) == Ok(16)
}

/// The proof that a server has read a key: the value of Sec-WebSocket-Accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AcceptProof([u8; ACCEPT_LEN]);

impl AcceptProof {
    /// Returns the proof for a key.
    pub(crate) fn of(key: &[u8]) -> Self {
        let mut sha1 = sha1_smol::Sha1::new();
        sha1.update(key);
        sha1.update(GUID);
        let mut proof = [b'='; ACCEPT_LEN];
        // 20 bytes become 27 characters and one of padding, which fill the array.
        let _ = BASE64.encode_slice(sha1.digest().bytes(), &mut proof);
        Self(proof)
    }

    /// Returns the characters.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the value of the field; `None` never, since base64 is ASCII.
    pub(crate) fn to_value(self) -> Option<HeaderValue> {
        HeaderValue::from_bytes(&self.0).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w01_the_proof_is_that_of_the_example_of_the_rfc() {
        let proof = AcceptProof::of(b"dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(proof.as_bytes(), b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(proof.to_value().unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn w01_a_key_is_the_base64_of_sixteen_bytes() {
        for key in ["dGhlIHNhbXBsZSBub25jZQ==", "AQIDBAUGBwgJCgsMDQ4PEC==", &new_key()] {
            assert!(is_key(key.as_bytes()), "{key}");
        }
        for key in
            ["", "dGhlIHNhbXBsZSBub25jZQ=", "dGhlIHNhbXBsZSBub25jZQ", "dGhlIHNhbXBsZSBub25jZXMh"]
        {
            assert!(!is_key(key.as_bytes()), "{key}");
        }
        assert!(!is_key(b"dGhlIHNhbXBsZSBub25jZ!=="), "no base64");
        assert!(!is_key("dGhlIHNhbXBsZSBub25jZ\u{e4}==".as_bytes()), "no ASCII");
        assert_ne!(new_key(), new_key());
    }
}
