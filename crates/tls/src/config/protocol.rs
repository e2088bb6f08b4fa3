//! Options of both sides: versions, cipher suites, key exchange, application protocols, key log.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::{CipherSuite, KeyLog, NamedGroup, SupportedProtocolVersion};

use super::error::TlsConfigError;
use super::key_log::KeyLogChoice;

/// The part of a builder that servers and clients share.
#[derive(Default)]
pub(crate) struct TlsProtocolOptions {
    pub(crate) is_tls13_only: bool,
    /// `None` for those of the provider.
    pub(crate) cipher_suites: Option<Vec<CipherSuite>>,
    /// `None` for those of the provider.
    pub(crate) key_exchanges: Option<Vec<NamedGroup>>,
    pub(crate) alpn: Vec<Vec<u8>>,
    pub(crate) key_log: KeyLogChoice,
}

impl TlsProtocolOptions {
    /// Returns the provider of the cryptography with the chosen cipher suites and key exchanges, in the order of the
    /// choice.
    pub(crate) fn provider(&self) -> Result<Arc<CryptoProvider>, TlsConfigError> {
        let provider = super::provider()?;
        if self.cipher_suites.is_none() && self.key_exchanges.is_none() {
            return Ok(provider);
        }
        let mut chosen = CryptoProvider::clone(&provider);
        if let Some(names) = &self.cipher_suites {
            chosen.cipher_suites =
                select(names, &provider.cipher_suites, |it| it.suite(), "cipher suite")?;
        }
        if let Some(names) = &self.key_exchanges {
            chosen.kx_groups = select(names, &provider.kx_groups, |it| it.name(), "key exchange")?;
        }
        Ok(Arc::new(chosen))
    }

    pub(crate) fn versions(&self) -> &'static [&'static SupportedProtocolVersion] {
        static TLS13_ONLY: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS13];
        if self.is_tls13_only { &TLS13_ONLY } else { rustls::DEFAULT_VERSIONS }
    }

    /// Returns the names of application protocols, most preferred first.
    pub(crate) fn checked_alpn(&self) -> Result<Vec<Vec<u8>>, TlsConfigError> {
        match self.alpn.iter().find(|name| !(1..=255).contains(&name.len())) {
            Some(name) => Err(TlsConfigError::InvalidAlpn {
                name: String::from_utf8_lossy(&name[..name.len().min(32)]).into_owned(),
                length: name.len(),
            }),
            None => Ok(self.alpn.clone()),
        }
    }

    pub(crate) fn log_keys_to(&mut self, file: PathBuf) {
        self.key_log = KeyLogChoice::File(file);
    }

    pub(crate) fn log_keys_as_environment_says(&mut self) {
        self.key_log = KeyLogChoice::Environment;
    }

    pub(crate) fn log_keys_with(&mut self, log: Arc<dyn KeyLog>) {
        self.key_log = KeyLogChoice::Custom(log);
    }
}

/// Returns those of `all` that are named, in the order of the names.
fn select<T: Copy, N: Copy + PartialEq + std::fmt::Debug>(
    names: &[N],
    all: &[T],
    name_of: impl Fn(T) -> N,
    kind: &'static str,
) -> Result<Vec<T>, TlsConfigError> {
    let find = |name: &N| {
        let found = all.iter().copied().find(|it| name_of(*it) == *name);
        found.ok_or_else(|| TlsConfigError::Unsupported { kind, name: format!("{name:?}") })
    };
    names.iter().map(find).collect()
}
