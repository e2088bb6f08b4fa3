//! Configurations of rustls, with defaults that are safe and errors that name the file.

pub(crate) mod certificates;
pub(crate) mod chooser;
pub(crate) mod client;
pub(crate) mod client_certificates;
pub(crate) mod error;
mod identity;
mod key_log;
pub mod pem;
mod protocol;
mod resumption;
mod roots;
pub(crate) mod server;
pub(crate) mod server_name_map;
mod session_cache;

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

use self::error::TlsConfigError;

/// Returns the provider of the cryptography: the one that the process has installed, or else that of the crate's
/// features.
pub(crate) fn provider() -> Result<Arc<CryptoProvider>, TlsConfigError> {
    if let Some(provider) = CryptoProvider::get_default() {
        return Ok(provider.clone());
    }
    #[cfg(feature = "aws-lc-rs")]
    return Ok(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    #[cfg(all(feature = "ring", not(feature = "aws-lc-rs")))]
    return Ok(Arc::new(rustls::crypto::ring::default_provider()));
    #[cfg(not(any(feature = "aws-lc-rs", feature = "ring")))]
    Err(TlsConfigError::NoProvider)
}
