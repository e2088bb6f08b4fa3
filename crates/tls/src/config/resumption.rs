//! Sessions that clients resume without a full handshake.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::ProducesTickets;

use super::error::TlsConfigError;
use super::session_cache::SessionCache;

/// The resumption that a server offers. Sessions are shared by all connections of a configuration, so a client may
/// resume on another loop.
pub(crate) struct ServerResumption {
    pub(crate) cached_sessions: usize,
    pub(crate) tickets: usize,
    pub(crate) has_stateless_tickets: bool,
}

/// The largest size of a session cache: some 400 MB without certificates of clients. That of a client is allocated at
/// once.
pub(crate) const MAX_SESSIONS: usize = 1 << 20;

/// The most tickets after a handshake: each is a key derivation and a record.
const MAX_TICKETS: usize = 16;

impl ServerResumption {
    /// With 2 tickets per handshake of TLS 1.3, the sessions of the last 512 clients.
    pub(crate) const DEFAULT_SESSIONS: usize = 1024;
    /// The number of tickets that rustls sends.
    pub(crate) const DEFAULT_TICKETS: usize = 2;

    pub(crate) fn apply(&self, config: &mut ServerConfig) -> Result<(), TlsConfigError> {
        check_limit("session_cache", self.cached_sessions, MAX_SESSIONS)?;
        check_limit("tickets", self.tickets, MAX_TICKETS)?;
        config.session_storage = Arc::new(SessionCache::new(self.cached_sessions));
        config.send_tls13_tickets = self.tickets;
        if self.has_stateless_tickets {
            config.ticketer = new_ticketer()?;
        }
        Ok(())
    }
}

impl Default for ServerResumption {
    fn default() -> Self {
        Self {
            cached_sessions: Self::DEFAULT_SESSIONS,
            tickets: Self::DEFAULT_TICKETS,
            has_stateless_tickets: false,
        }
    }
}

/// Refuses a value that is too large.
pub(crate) fn check_limit(
    option: &'static str,
    value: usize,
    max: usize,
) -> Result<(), TlsConfigError> {
    if value > max { Err(TlsConfigError::TooLarge { option, value, max }) } else { Ok(()) }
}

/// Returns the ticket keys of rustls: a new one every six hours, of which the last two are accepted.
fn new_ticketer() -> Result<Arc<dyn ProducesTickets>, TlsConfigError> {
    #[cfg(feature = "aws-lc-rs")]
    let made = rustls::crypto::aws_lc_rs::Ticketer::new().map_err(TlsConfigError::invalid);
    #[cfg(all(feature = "ring", not(feature = "aws-lc-rs")))]
    let made = rustls::crypto::ring::Ticketer::new().map_err(TlsConfigError::invalid);
    #[cfg(not(any(feature = "aws-lc-rs", feature = "ring")))]
    let made = Err(TlsConfigError::NoProvider);
    made
}
