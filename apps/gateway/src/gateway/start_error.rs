//! Why a gateway could not be started.

use std::io;

use thiserror::Error;
use waterwheel::channel::LoopBuildError;
use waterwheel::executor::{Error, InvalidWatchdog};
use waterwheel::http::{InvalidHttpOption, InvalidRoute};
use waterwheel::tls::TlsConfigError;

use crate::access::config::AccessConfigError;
use crate::session::core::CoreError;

/// Why a gateway could not be started.
#[derive(Debug, Error)]
pub enum GatewayStartError {
    /// An event loop could not be created.
    #[error(transparent)]
    Loops(#[from] LoopBuildError),
    /// The time limit of the watchdog is invalid.
    #[error("watchdog: {0}")]
    Watchdog(#[from] InvalidWatchdog),
    /// A file of TLS is not usable.
    #[error(transparent)]
    Tls(#[from] TlsConfigError),
    /// Permissions or keys are not usable.
    #[error(transparent)]
    Access(#[from] AccessConfigError),
    /// The core cannot be made.
    #[error(transparent)]
    Core(#[from] CoreError),
    /// An option of HTTP is invalid.
    #[error("http: {0}")]
    Http(#[from] InvalidHttpOption),
    /// Two routes are the same.
    #[error(transparent)]
    Routes(#[from] InvalidRoute),
    /// An option of the port is invalid.
    #[error("{0}")]
    Port(Error),
    /// The address cannot be listened on.
    #[error("cannot listen at {address}: {cause}")]
    Listen {
        /// The address.
        address: String,
        /// The cause.
        #[source]
        cause: io::Error,
    },
    /// The server could not be started.
    #[error("{0}")]
    Server(Error),
}

impl GatewayStartError {
    /// True if the configuration is at fault: the program ends with status 2.
    #[must_use]
    pub fn is_of_config(&self) -> bool {
        matches!(
            self,
            Self::Watchdog(_)
                | Self::Tls(_)
                | Self::Access(_)
                | Self::Core(_)
                | Self::Http(_)
                | Self::Port(_)
        )
    }
}
