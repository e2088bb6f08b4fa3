//! Keep-alive, and the time limit of the closing handshake: one timer each, seldom set.
//!
//! A timer for every message would cost more than the message. So the moment of the last byte is noted, and the timer,
//! when it fires, looks how long ago that was, and is set for the rest.

use std::time::Duration;

use waterwheel_channel::Ctx;
use waterwheel_executor::Nanos;

/// The tag of the keep-alive's timer.
pub(super) const KEEP_ALIVE_TIMER: u32 = u32::MAX;
/// The tag of the timer of the closing handshake.
pub(super) const CLOSE_TIMER: u32 = u32::MAX - 1;

pub(super) fn is_own_timer(tag: u32) -> bool {
    tag >= CLOSE_TIMER
}

/// The error of a connection whose peer is gone, or does not read.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum PeerTimeout {
    #[error("the peer has sent nothing for {0:?} after a ping")]
    Pong(Duration),
    #[error("the peer has read nothing for {0:?} while the connection was closed")]
    Close(Duration),
}

/// When a peer was last heard, and what is expected of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeepAlive {
    heard: Nanos,
    /// The moment of the ping that was not answered, and the bytes that the peer had taken by then.
    pinged: Option<(Nanos, u64)>,
}

/// The next step of the keep-alive, when its timer has fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeepAliveStep {
    /// Looks again after this time.
    Wait(Duration),
    /// Sends a ping, and looks again after the time for its answer.
    Ping,
    /// Gives the peer up.
    GiveUp,
}

/// The progress of a peer, at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerProgress {
    pub(super) now: Nanos,
    /// The bytes written that the transport has taken.
    pub(super) taken: u64,
    /// The bytes written that it has not.
    pub(super) pending: u64,
    /// True while this side reads.
    pub(super) is_reading: bool,
}

impl PeerProgress {
    pub(super) fn of(ctx: &Ctx<'_>, written: u64) -> Self {
        let pending = ctx.channel().pending_bytes() as u64;
        let taken = written.saturating_sub(pending);
        Self { now: ctx.now(), taken, pending, is_reading: ctx.reading_since().is_some() }
    }
}

impl KeepAlive {
    pub(super) fn new() -> Self {
        Self { heard: Nanos(0), pinged: None }
    }

    /// Notes that bytes of the peer have come.
    #[inline]
    pub(super) fn note_heard(&mut self, now: Nanos) {
        self.heard = now;
    }

    /// Looks how long ago the peer was heard.
    pub(super) fn check(
        &mut self,
        progress: PeerProgress,
        interval: Duration,
        pong_timeout: Duration,
    ) -> KeepAliveStep {
        let PeerProgress { now, taken, pending, is_reading } = progress;
        let idle = now.since(self.heard);
        if let Some((pinged, taken_then)) = self.pinged
            && self.heard < pinged
        {
            // A peer that takes bytes is alive: the ping may be behind megabytes. While this side does not read, because
            // its own handler is busy, an answer may be waiting in the transport.
            let is_alive = if pending > 0 { taken > taken_then } else { !is_reading };
            if !is_alive {
                return KeepAliveStep::GiveUp;
            }
            self.pinged = Some((now, taken));
            return KeepAliveStep::Wait(pong_timeout);
        }
        self.pinged = None;
        if idle < interval {
            return KeepAliveStep::Wait(interval - idle);
        }
        self.pinged = Some((now, taken));
        KeepAliveStep::Ping
    }
}
