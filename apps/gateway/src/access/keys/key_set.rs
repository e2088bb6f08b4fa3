//! The keys of a gateway, and the files that they are read from.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::jwks::read_jwks;
use super::pem::read_public_keys;
use super::token_key::{TokenAlgorithm, TokenKey, UnusableKey};
use crate::access::secret::Secret;

/// Maximum number of keys. A token without `kid` is tried with each key of its algorithm.
pub const MAX_KEYS: usize = 32;

/// Maximum size of a file of keys: 32 RSA keys of 8,192 bits take 60 KB.
pub const MAX_KEY_FILE_BYTES: u64 = 256 * 1024;

/// Where keys come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// A secret of HS256.
    Secret(Secret),
    /// A file with a secret of HS256. A line end at the end does not belong to it.
    SecretFile(PathBuf),
    /// A file of public keys in PEM.
    PemFile(PathBuf),
    /// A JWKS file.
    JwksFile(PathBuf),
}

/// The keys of a gateway.
#[derive(Clone, Debug, Default)]
pub struct KeySet {
    keys: Vec<TokenKey>,
    skipped: usize,
}

/// Why keys cannot be used.
#[derive(Debug, Error)]
pub enum KeyError {
    /// A file cannot be read.
    #[error("cannot read the keys in {}: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: io::Error,
    },
    /// A file has no usable key, or one that is refused.
    #[error("no usable keys in {}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The configured secret is not usable.
    #[error("the secret for tokens is not usable: {0}")]
    Secret(UnusableKey),
    /// Two keys cannot be told apart.
    #[error("two {algorithm} keys have the kid {id:?}", algorithm = algorithm.name())]
    SameId {
        /// Their algorithm.
        algorithm: TokenAlgorithm,
        /// Their name.
        id: Box<str>,
    },
    /// More keys than the limit.
    #[error("{0} keys; the limit is {MAX_KEYS}")]
    TooMany(usize),
}

impl KeySet {
    /// Reads all keys.
    ///
    /// # Errors
    /// A file cannot be read or has no usable key, a key is refused, two keys cannot be told apart, or there are too many.
    pub fn load(sources: &[KeySource]) -> Result<Self, KeyError> {
        let mut set = Self::default();
        for source in sources {
            set.add(source)?;
        }
        if set.keys.len() > MAX_KEYS {
            return Err(KeyError::TooMany(set.keys.len()));
        }
        for (index, key) in set.keys.iter().enumerate() {
            let same = |other: &&TokenKey| {
                key.id().is_some() && (key.id(), key.algorithm()) == (other.id(), other.algorithm())
            };
            if let Some(other) = set.keys[..index].iter().find(same) {
                let id = other.id().unwrap_or_default().into();
                return Err(KeyError::SameId { algorithm: key.algorithm(), id });
            }
        }
        Ok(set)
    }

    fn add(&mut self, source: &KeySource) -> Result<(), KeyError> {
        let path = match source {
            KeySource::Secret(secret) => {
                let key = TokenKey::hmac(secret.as_bytes()).map_err(KeyError::Secret)?;
                self.keys.push(key);
                return Ok(());
            }
            KeySource::SecretFile(path) | KeySource::PemFile(path) | KeySource::JwksFile(path) => {
                path
            }
        };
        let unusable = |why: String| KeyError::File { path: path.clone(), why };
        let bytes = read_file(path)?;
        let keys = match source {
            KeySource::JwksFile(_) => {
                let read = read_jwks(&bytes).map_err(unusable)?;
                self.skipped += read.skipped;
                read.keys
            }
            KeySource::PemFile(_) => {
                let text = str::from_utf8(&bytes).map_err(|_| unusable("not text".into()))?;
                read_public_keys(text).map_err(|error| unusable(error.to_string()))?
            }
            KeySource::SecretFile(_) | KeySource::Secret(_) => {
                let secret = without_line_end(&bytes);
                vec![TokenKey::hmac(secret).map_err(|error| unusable(error.to_string()))?]
            }
        };
        if keys.is_empty() {
            return Err(unusable(format!("{} keys were skipped, none is left", self.skipped)));
        }
        self.keys.extend(keys);
        Ok(())
    }

    /// Returns the keys that may have signed a token of this algorithm: those of that `kid`, if there are any, otherwise
    /// those without one. Without `kid`, all keys of the algorithm.
    pub fn candidates<'s>(
        &'s self,
        algorithm: TokenAlgorithm,
        id: Option<&'s str>,
    ) -> impl Iterator<Item = &'s TokenKey> {
        let keys = self.keys.iter().filter(move |key| key.algorithm() == algorithm);
        let is_known = id.is_some() && keys.clone().any(|key| key.id() == id);
        keys.filter(move |key| match (id, is_known) {
            (None, _) => true,
            (Some(_), true) => key.id() == id,
            (Some(_), false) => key.id().is_none(),
        })
    }

    /// True if there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns the number of keys in JWKS files that were skipped.
    #[must_use]
    pub fn skipped(&self) -> usize {
        self.skipped
    }
}

/// Reads the secret in a file. A line end at the end does not belong to it.
///
/// # Errors
/// The file cannot be read, or is too large.
pub(crate) fn read_secret_file(path: &Path) -> Result<Secret, KeyError> {
    read_file(path).map(|bytes| Secret::new(without_line_end(&bytes)))
}

fn without_line_end(bytes: &[u8]) -> &[u8] {
    let text = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    text.strip_suffix(b"\r").unwrap_or(text)
}

fn read_file(path: &Path) -> Result<Vec<u8>, KeyError> {
    let unreadable = |cause| KeyError::Unreadable { path: path.to_path_buf(), cause };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MAX_KEY_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    match bytes.len() as u64 > MAX_KEY_FILE_BYTES {
        true => Err(KeyError::File {
            path: path.to_path_buf(),
            why: format!("the file is larger than {MAX_KEY_FILE_BYTES} bytes"),
        }),
        false => Ok(bytes),
    }
}
