//! A key and its algorithm.

use std::fmt;
use std::ops::RangeInclusive;

use aws_lc_rs::hmac;
use aws_lc_rs::rsa::PublicEncryptingKey;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
    RsaPublicKeyComponents,
};
use thiserror::Error;

/// Minimum length of a secret of HS256: that of its hash (RFC 7518, 3.2).
pub const MIN_SECRET_BYTES: usize = 32;

/// Lengths of RSA keys: shorter ones are weak, longer ones cost milliseconds for each token.
pub const RSA_BITS: RangeInclusive<usize> = 2048..=8192;

/// The algorithms of signatures (RFC 7518, 3.1; RFC 8037).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenAlgorithm {
    /// HMAC with SHA-256.
    Hs256,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// Ed25519.
    EdDsa,
}

impl TokenAlgorithm {
    /// All algorithms.
    pub const ALL: [Self; 4] = [Self::Hs256, Self::Rs256, Self::Es256, Self::EdDsa];

    /// Returns the name in tokens and JWKS files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
        }
    }

    /// Returns the algorithm of this name, which is case-sensitive.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }
}

/// A key that verifies signatures of one algorithm.
#[derive(Clone)]
pub struct TokenKey {
    id: Option<Box<str>>,
    algorithm: TokenAlgorithm,
    material: KeyMaterial,
}

#[derive(Clone)]
enum KeyMaterial {
    // Boxed: 1.2 KB, and a public key 56 bytes.
    Hmac(Box<hmac::Key>),
    Public(ParsedPublicKey),
}

/// Why a key is refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum UnusableKey {
    /// A secret that could be guessed.
    #[error("a secret of HS256 has at least {MIN_SECRET_BYTES} bytes; this one has {0}")]
    ShortSecret(usize),
    /// A secret that begins like a PEM file.
    #[error("the secret is a PEM file; configure a public key as such")]
    SecretIsPem,
    /// An RSA key of a refused length.
    #[error("an RSA key has {min} to {max} bits; this one has {0}", min = RSA_BITS.start(), max = RSA_BITS.end())]
    RsaBits(usize),
    /// A public key that is malformed, or of a kind that is not supported.
    #[error("not a public key of RSA, P-256 or Ed25519")]
    Unsupported,
    /// A malformed value.
    #[error("{0} is missing or malformed")]
    Member(&'static str),
    /// A private key where a public key is enough.
    #[error("this is a private key; give the gateway the public key only")]
    Private,
}

impl TokenKey {
    /// Creates a key of HS256.
    ///
    /// # Errors
    /// The secret is too short, or a PEM file.
    pub fn hmac(secret: &[u8]) -> Result<Self, UnusableKey> {
        if secret.trim_ascii_start().starts_with(b"-----BEGIN") {
            return Err(UnusableKey::SecretIsPem);
        }
        if secret.len() < MIN_SECRET_BYTES {
            return Err(UnusableKey::ShortSecret(secret.len()));
        }
        let material = KeyMaterial::Hmac(Box::new(hmac::Key::new(hmac::HMAC_SHA256, secret)));
        Ok(Self { id: None, algorithm: TokenAlgorithm::Hs256, material })
    }

    /// Creates a key from a SubjectPublicKeyInfo in DER (RFC 5280), which names the kind of the key.
    ///
    /// # Errors
    /// The key is malformed, too short, or of another kind than RSA, P-256 and Ed25519.
    pub fn from_public_key_info(der: &[u8]) -> Result<Self, UnusableKey> {
        if let Ok(rsa) = PublicEncryptingKey::from_der(der) {
            check_rsa_bits(rsa.key_size_bits())?;
            let key = ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, der);
            return Ok(Self::public(
                TokenAlgorithm::Rs256,
                key.map_err(|_| UnusableKey::Unsupported)?,
            ));
        }
        if let Ok(key) = ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, der) {
            return Ok(Self::public(TokenAlgorithm::Es256, key));
        }
        match ParsedPublicKey::new(&ED25519, der) {
            Ok(key) => Ok(Self::public(TokenAlgorithm::EdDsa, key)),
            Err(_) => Err(UnusableKey::Unsupported),
        }
    }

    /// Creates a key of RS256 from a modulus and an exponent, big-endian.
    ///
    /// # Errors
    /// The numbers are no key, or its length is refused.
    pub fn rsa(modulus: &[u8], exponent: &[u8]) -> Result<Self, UnusableKey> {
        // RFC 7518, 6.3.1: without leading zeros. Some writers add one, as DER has it.
        let without_zeros = |bytes: &[u8]| {
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            bytes[zeros..].to_vec()
        };
        let components =
            RsaPublicKeyComponents { n: without_zeros(modulus), e: without_zeros(exponent) };
        let bits = components.n.len() * 8
            - components.n.first().map_or(0, |byte| byte.leading_zeros() as usize);
        check_rsa_bits(bits)?;
        let key = components.to_parsed_public_key(&RSA_PKCS1_2048_8192_SHA256);
        Ok(Self::public(TokenAlgorithm::Rs256, key.map_err(|_| UnusableKey::Unsupported)?))
    }

    /// Creates a key of ES256 from the coordinates of its point.
    ///
    /// # Errors
    /// The coordinates are not a point of P-256.
    pub fn p256(x: &[u8], y: &[u8]) -> Result<Self, UnusableKey> {
        if x.len() != 32 || y.len() != 32 {
            return Err(UnusableKey::Unsupported);
        }
        // The uncompressed form of a point (SEC 1, 2.3.3).
        let point = [&[4], x, y].concat();
        let key = ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
        Ok(Self::public(TokenAlgorithm::Es256, key.map_err(|_| UnusableKey::Unsupported)?))
    }

    /// Creates a key of EdDSA from the 32 bytes of an Ed25519 public key.
    ///
    /// # Errors
    /// The bytes are no key.
    pub fn ed25519(bytes: &[u8]) -> Result<Self, UnusableKey> {
        if bytes.len() != 32 {
            return Err(UnusableKey::Unsupported);
        }
        let key = ParsedPublicKey::new(&ED25519, bytes);
        Ok(Self::public(TokenAlgorithm::EdDsa, key.map_err(|_| UnusableKey::Unsupported)?))
    }

    fn public(algorithm: TokenAlgorithm, key: ParsedPublicKey) -> Self {
        Self { id: None, algorithm, material: KeyMaterial::Public(key) }
    }

    /// Names the key (`kid`).
    #[must_use]
    pub fn with_id(mut self, id: Option<&str>) -> Self {
        self.id = id.map(Into::into);
        self
    }

    /// Returns the name of the key; `None` if it has none.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Returns the algorithm of the key.
    #[must_use]
    pub fn algorithm(&self) -> TokenAlgorithm {
        self.algorithm
    }

    /// True if the signature is one of this key over these bytes. HMACs are compared in constant time.
    #[must_use]
    pub fn is_signature_valid(&self, signed: &[u8], signature: &[u8]) -> bool {
        match &self.material {
            KeyMaterial::Hmac(key) => hmac::verify(key, signed, signature).is_ok(),
            KeyMaterial::Public(key) => key.verify_sig(signed, signature).is_ok(),
        }
    }
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenKey({}, kid {:?})", self.algorithm.name(), self.id)
    }
}

fn check_rsa_bits(bits: usize) -> Result<(), UnusableKey> {
    match RSA_BITS.contains(&bits) {
        true => Ok(()),
        false => Err(UnusableKey::RsaBits(bits)),
    }
}
