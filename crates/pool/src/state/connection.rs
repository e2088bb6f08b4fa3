//! One connection in the state of a pool.

use waterwheel_channel::Token;
use waterwheel_executor::{Canceller, Nanos};

use crate::metrics::PoolCloseReason;

/// The handle of a connection, as far as the state knows it. Both methods are called under the pool's lock and touch
/// atomics only.
pub(crate) trait PooledHandle: Clone {
    /// Records whether the connection is idle, for the handler that watches it.
    fn set_idle(&self, is_idle: bool);

    /// False if the connection was closed, or is about to be, and the pool has not been notified yet.
    fn is_usable(&self) -> bool;
}

/// The stages of a connection. Every stage counts as open; the first three are *arriving*: an acquire that waits is
/// served when one of them becomes ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionStage {
    Connecting,
    /// Connected; the hook for new connections runs.
    Preparing,
    /// Checked before it is handed out, or while it was idle.
    Checking,
    Idle,
    Leased,
    /// Told to close; counts until it is closed.
    Closing,
}

pub(super) struct PoolEntry<C> {
    pub(super) address: Token,
    pub(super) stage: ConnectionStage,
    /// `None` while connecting.
    pub(super) handle: Option<C>,
    /// Gives up the connect.
    pub(super) canceller: Option<Canceller>,
    /// The index of its loop; `None` for a loop that the pool does not know.
    pub(super) event_loop: Option<usize>,
    /// Why the connection is closed, or will be when it is given back.
    pub(super) retired: Option<PoolCloseReason>,
    /// True once the connection was leased.
    pub(super) was_used: bool,
    /// Increases with every use of any connection; the key in the idle lists.
    pub(super) use_order: u64,
    /// The end of the last use, which the idle limit counts from.
    pub(super) last_used: Nanos,
    /// The end of the last use or check, which checks count from.
    pub(super) idle_since: Nanos,
}

impl<C> PoolEntry<C> {
    pub(super) fn connecting(address: Token, event_loop: Option<usize>) -> Self {
        Self {
            address,
            stage: ConnectionStage::Connecting,
            handle: None,
            canceller: None,
            event_loop,
            retired: None,
            was_used: false,
            use_order: 0,
            last_used: Nanos(0),
            idle_since: Nanos(0),
        }
    }
}

/// The number of connections in each stage.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StageCounts([usize; 6]);

impl StageCounts {
    pub(super) fn of(&self, stage: ConnectionStage) -> usize {
        self.0[stage as usize]
    }

    pub(super) fn add(&mut self, stage: ConnectionStage) {
        self.0[stage as usize] += 1;
    }

    pub(super) fn remove(&mut self, stage: ConnectionStage) {
        self.0[stage as usize] -= 1;
    }

    pub(super) fn open(&self) -> usize {
        self.0.iter().sum()
    }

    pub(super) fn arriving(&self) -> usize {
        use ConnectionStage::{Checking, Connecting, Preparing};
        self.of(Connecting) + self.of(Preparing) + self.of(Checking)
    }
}
