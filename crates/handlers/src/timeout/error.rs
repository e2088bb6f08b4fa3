//! Errors of the timeout handlers.

use std::fmt;
use std::time::Duration;

use waterwheel_channel::{Address, ChannelId, Ctx};
use waterwheel_executor::Error;

/// A limit on time was exceeded, and the channel is being closed. Goes to `on_error` of the following handlers; writes
/// and later operations fail with it as their cause (`Error::find`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeoutError {
    /// No message came within the limit of a [`ReadTimeout`](crate::ReadTimeout).
    Read {
        /// The channel.
        channel: ChannelId,
        /// The peer, if the transport knows its address.
        peer: Option<Address>,
        /// The limit.
        limit: Duration,
    },
    /// A write was not done within the limit of a [`WriteTimeout`](crate::WriteTimeout).
    Write {
        /// The channel.
        channel: ChannelId,
        /// The peer, if the transport knows its address.
        peer: Option<Address>,
        /// The limit.
        limit: Duration,
        /// The number of writes that have exceeded the limit.
        late: usize,
    },
    /// No whole message came within the limit of a [`FirstMessageDeadline`](crate::FirstMessageDeadline).
    FirstMessage {
        /// The channel.
        channel: ChannelId,
        /// The peer, if the transport knows its address.
        peer: Option<Address>,
        /// The limit.
        limit: Duration,
    },
}

impl TimeoutError {
    pub(super) fn read(ctx: &Ctx<'_>, limit: Duration) -> Self {
        let channel = ctx.channel();
        Self::Read { channel: channel.id(), peer: channel.peer_address(), limit }
    }

    pub(super) fn write(ctx: &Ctx<'_>, limit: Duration, late: usize) -> Self {
        let channel = ctx.channel();
        Self::Write { channel: channel.id(), peer: channel.peer_address(), limit, late }
    }

    pub(super) fn first_message(ctx: &Ctx<'_>, limit: Duration) -> Self {
        let channel = ctx.channel();
        Self::FirstMessage { channel: channel.id(), peer: channel.peer_address(), limit }
    }
}

impl fmt::Display for TimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { channel, peer, limit } => {
                write!(f, "read timeout: no message for {limit:?} on {}", Named(*channel, peer))
            }
            Self::Write { channel, peer, limit, late } => write!(
                f,
                "write timeout: {late} write(s) not done within {limit:?} on {}",
                Named(*channel, peer)
            ),
            Self::FirstMessage { channel, peer, limit } => {
                write!(f, "no first message within {limit:?} on {}", Named(*channel, peer))
            }
        }
    }
}

impl std::error::Error for TimeoutError {}

impl From<TimeoutError> for Error {
    fn from(error: TimeoutError) -> Self {
        Error::new(error)
    }
}

/// Shows a channel with its peer.
struct Named<'a>(ChannelId, &'a Option<Address>);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Named(channel, peer) = self;
        write!(f, "channel {channel}")?;
        match peer {
            Some(peer) => write!(f, " to {peer}"),
            None => Ok(()),
        }
    }
}

/// Why a timeout handler cannot be built: its limit is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the limit of a {handler} is zero; leave the handler out for no limit")]
pub struct InvalidTimeout {
    handler: &'static str,
}

impl InvalidTimeout {
    /// Returns the limit, unless it is zero.
    pub(super) fn check(handler: &'static str, limit: Duration) -> Result<Duration, Self> {
        if limit.is_zero() { Err(Self { handler }) } else { Ok(limit) }
    }
}

impl From<InvalidTimeout> for Error {
    fn from(error: InvalidTimeout) -> Self {
        Error::new(error)
    }
}
