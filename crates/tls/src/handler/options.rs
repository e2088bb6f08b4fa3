//! Options of a TLS handler.

use std::time::Duration;

use waterwheel_executor::Error;

/// The behaviour of a [`TlsHandler`](crate::TlsHandler) apart from the cryptography.
///
/// ```
/// use std::time::Duration;
/// use waterwheel_tls::{OnCloseNotify, TlsOptions};
///
/// let options = TlsOptions::builder()
///     .handshake_timeout(Duration::from_secs(5))
///     .on_close_notify(OnCloseNotify::HalfClose)
///     .build()?;
/// # Ok::<(), waterwheel_tls::InvalidTlsOption>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TlsOptions {
    pub(super) handshake_timeout: Duration,
    pub(super) close_timeout: Duration,
    pub(super) awaits_close_notify: bool,
    pub(super) on_close_notify: OnCloseNotify,
}

/// The reaction to the close_notify of the peer, whose data is complete. A
/// [`TlsPeerClosed`](crate::TlsPeerClosed) event is fired first in every case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnCloseNotify {
    /// Flushed messages are sent, then close_notify; then the channel is closed. The default.
    #[default]
    Close,
    /// The input of the channel is shut down, with [`HalfClosed::Input`](waterwheel_channel::HalfClosed::Input); the
    /// output stays open.
    HalfClose,
    /// TLS ends and the connection stays open, as after a [`StopTls`](crate::StopTls) of this side.
    StopTls,
}

impl TlsOptions {
    /// Returns a builder with the default options.
    pub fn builder() -> TlsOptionsBuilder {
        TlsOptionsBuilder::default()
    }
}

impl Default for TlsOptions {
    fn default() -> Self {
        Self {
            handshake_timeout: TlsOptionsBuilder::DEFAULT_HANDSHAKE_TIMEOUT,
            close_timeout: TlsOptionsBuilder::DEFAULT_CLOSE_TIMEOUT,
            awaits_close_notify: false,
            on_close_notify: OnCloseNotify::Close,
        }
    }
}

/// Builds [`TlsOptions`].
#[must_use]
#[derive(Clone, Debug, Default)]
pub struct TlsOptionsBuilder(TlsOptions);

impl TlsOptionsBuilder {
    /// The default limit of a handshake, as in Netty.
    pub const DEFAULT_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
    /// The default limit of a close, as in Netty.
    pub const DEFAULT_CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

    /// Sets the longest time from the beginning of the handshake to its end. Default: 10 s.
    pub fn handshake_timeout(mut self, limit: Duration) -> Self {
        self.0.handshake_timeout = limit;
        self
    }

    /// Sets how long a close waits for a peer that reads nothing of the flushed messages or of close_notify, and, with
    /// [`await_close_notify`](Self::await_close_notify), for its answer; the same for [`StopTls`](crate::StopTls).
    /// Default: 3 s.
    pub fn close_timeout(mut self, limit: Duration) -> Self {
        self.0.close_timeout = limit;
        self
    }

    /// Makes a close wait for the close_notify of the peer. Default: it does not wait, as the protocol allows.
    pub fn await_close_notify(mut self, awaits: bool) -> Self {
        self.0.awaits_close_notify = awaits;
        self
    }

    /// Sets what happens when the peer has sent close_notify. Default: [`OnCloseNotify::Close`].
    pub fn on_close_notify(mut self, action: OnCloseNotify) -> Self {
        self.0.on_close_notify = action;
        self
    }

    /// Returns the options.
    ///
    /// # Errors
    /// [`InvalidTlsOption`]: a limit is zero.
    pub fn build(self) -> Result<TlsOptions, InvalidTlsOption> {
        for (option, limit) in [
            ("handshake_timeout", self.0.handshake_timeout),
            ("close_timeout", self.0.close_timeout),
        ] {
            if limit.is_zero() {
                return Err(InvalidTlsOption { option });
            }
        }
        Ok(self.0)
    }
}

/// Why an option of a TLS handler is refused: it is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{option}` of a TLS handler is zero: no peer would meet it")]
pub struct InvalidTlsOption {
    option: &'static str,
}

impl From<InvalidTlsOption> for Error {
    fn from(error: InvalidTlsOption) -> Self {
        Error::new(error)
    }
}
