//! The options of a server.

use std::time::Duration;

use http::HeaderValue;

use crate::protocol::limits::MessageLimits;

/// The options of a server, as its connections use them.
#[derive(Clone, Debug)]
pub(super) struct ServerOptions {
    pub(super) limits: MessageLimits,
    pub(super) max_pipelined: usize,
    pub(super) head_timeout: Duration,
    pub(super) idle_timeout: Duration,
    pub(super) least_rate: u64,
    pub(super) stall_timeout: Duration,
    pub(super) linger: Duration,
    pub(super) server_name: Option<HeaderValue>,
    pub(super) access_log: bool,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            limits: MessageLimits::default(),
            max_pipelined: DEFAULT_MAX_PIPELINED,
            head_timeout: DEFAULT_HEAD_TIMEOUT,
            idle_timeout: DEFAULT_IDLE_TIMEOUT,
            least_rate: DEFAULT_LEAST_RATE,
            stall_timeout: DEFAULT_STALL_TIMEOUT,
            linger: DEFAULT_LINGER,
            server_name: None,
            access_log: false,
        }
    }
}

/// Enough for any client that pipelines, and little enough for calls that hold memory.
pub(crate) const DEFAULT_MAX_PIPELINED: usize = 16;

/// Several retransmissions; a head is a few packets.
pub(super) const DEFAULT_HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Longer than the minute after which most clients and proxies give up an idle connection, so that they do it first.
pub(super) const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_secs(75);

/// 240 bytes per second: a modem.
pub(super) const DEFAULT_LEAST_RATE: u64 = 240;

/// The time without any progress after which a peer that does not read is given up.
pub(super) const DEFAULT_STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The time that a peer has to read the last answer before a RST may take it away.
pub(crate) const DEFAULT_LINGER: Duration = Duration::from_secs(5);

/// The most bytes of a body that nobody reads which are skipped to keep the connection.
pub(crate) const MAX_SKIPPED: u64 = 64 * 1024;

/// The error of an option that a server cannot have.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvalidHttpOption {
    /// A duration of zero would end every connection at once, and a limit of zero requests would answer none.
    #[error("{option} is zero")]
    Zero {
        /// The name of the option.
        option: &'static str,
    },
    /// A limit too small for the smallest request.
    #[error("max_head_bytes is {bytes}, and the smallest request has {least}")]
    HeadBytes {
        /// The limit that was set.
        bytes: usize,
        /// The least limit.
        least: usize,
    },
    /// A server name with bytes that a field value cannot have.
    #[error("server_name has bytes that a field value cannot have")]
    ServerName,
}

/// `GET / HTTP/1.0` with its line end and the empty line.
const LEAST_HEAD_BYTES: usize = 18;

impl ServerOptions {
    pub(super) fn check(&self) -> Result<(), InvalidHttpOption> {
        let durations = [
            ("head_timeout", self.head_timeout),
            ("idle_timeout", self.idle_timeout),
            ("stall_timeout", self.stall_timeout),
        ];
        if let Some((option, _)) = durations.into_iter().find(|(_, duration)| duration.is_zero()) {
            return Err(InvalidHttpOption::Zero { option });
        }
        if self.max_pipelined == 0 {
            return Err(InvalidHttpOption::Zero { option: "max_pipelined" });
        }
        check_limits(&self.limits)
    }
}

/// Checks the limits of a server's requests.
pub(crate) fn check_limits(limits: &MessageLimits) -> Result<(), InvalidHttpOption> {
    let bytes = limits.head_bytes();
    if bytes < LEAST_HEAD_BYTES {
        return Err(InvalidHttpOption::HeadBytes { bytes, least: LEAST_HEAD_BYTES });
    }
    Ok(())
}
