//! What a channel is made with.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::channel::reading::read_size::ReceiveSizes;

/// How much may wait to be written.
///
/// ```
/// use waterwheel_channel::WaterMarks;
///
/// assert!(WaterMarks::new(16 * 1024, 8 * 1024).is_err(), "the low mark is above the high one");
/// let marks = WaterMarks::new(8 * 1024, 16 * 1024)?.with_hard_cap(1 << 20)?;
/// assert_eq!(marks.high(), 16 * 1024);
/// # Ok::<(), waterwheel_channel::InvalidOption>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaterMarks {
    low: usize,
    high: usize,
    hard_cap: usize,
}

/// An option makes no sense.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidOption {
    /// The water marks are the wrong way round.
    #[error("the low water mark, {low}, is above the high one, {high}")]
    WaterMarks {
        /// The low mark.
        low: usize,
        /// The high mark.
        high: usize,
    },
    /// The limit could be reached while the channel says it is writable.
    #[error("a hard cap of {hard_cap} bytes is below the high water mark, {high}")]
    HardCap {
        /// The limit.
        hard_cap: usize,
        /// The high mark.
        high: usize,
    },
    /// The sizes of reads are not in order.
    #[error("reads of {min}, {start} and {max} bytes: at least one, and in this order, is needed")]
    ReceiveSizes {
        /// The least.
        min: usize,
        /// The first.
        start: usize,
        /// The most.
        max: usize,
    },
    /// Nobody could connect.
    #[error("a backlog of nothing: at least one connection has to wait until it is accepted")]
    Backlog,
}

impl WaterMarks {
    /// The channel stops being writable when more than `high` bytes wait, and is writable again when
    /// fewer than `low` do.
    ///
    /// # Errors
    /// If `low` is above `high`.
    pub fn new(low: usize, high: usize) -> Result<Self, InvalidOption> {
        if low > high {
            return Err(InvalidOption::WaterMarks { low, high });
        }
        Ok(Self { low, high, hard_cap: usize::MAX })
    }

    /// A write that would make more than this wait fails. Default: none does.
    ///
    /// # Errors
    /// If that is below the high mark.
    pub fn with_hard_cap(self, hard_cap: usize) -> Result<Self, InvalidOption> {
        if hard_cap < self.high {
            return Err(InvalidOption::HardCap { hard_cap, high: self.high });
        }
        Ok(Self { hard_cap, ..self })
    }

    /// The low mark.
    #[must_use]
    pub fn low(self) -> usize {
        self.low
    }

    /// The high mark.
    #[must_use]
    pub fn high(self) -> usize {
        self.high
    }

    /// The most that may wait.
    #[must_use]
    pub fn hard_cap(self) -> usize {
        self.hard_cap
    }
}

impl Default for WaterMarks {
    /// 32 and 64 KiB, as Netty has them, and no limit.
    fn default() -> Self {
        Self { low: 32 * 1024, high: 64 * 1024, hard_cap: usize::MAX }
    }
}

/// Which channels stop reading while they are not writable.
///
/// A peer that sends and never reads makes a server that answers it hold every answer. A channel that stops
/// reading while it is not writable holds about its high water mark instead, and the peer's sends wait.
///
/// Writes that nobody has flushed count as well. A handler that writes more than the high water mark and flushes only
/// when a certain message comes waits for ever: let it flush in `on_read_complete`, or when the channel is no longer
/// writable.
///
/// Two peers that both stop reading can wait for each other for ever: each has sent so much that it
/// reads nothing until the other reads. So only one side of a connection should pause, and by default that is
/// the accepted side.
///
/// ```
/// use waterwheel_channel::{ChannelOptions, PauseReads};
///
/// let never = ChannelOptions {
///     pause_reads_while_unwritable: PauseReads::Never,
///     ..ChannelOptions::default()
/// };
/// assert_eq!(ChannelOptions::default().pause_reads_while_unwritable, PauseReads::IfAccepted);
/// # let _ = never;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PauseReads {
    /// A channel that a server has accepted pauses; any other does not.
    #[default]
    IfAccepted,
    /// The channel pauses.
    Always,
    /// The channel does not pause: its handlers limit what they write.
    Never,
}

/// What a channel is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelOptions {
    /// How much may wait to be written. Default: 32 and 64 KiB.
    pub water_marks: WaterMarks,
    /// Whether it reads by itself: after it became active, and after each round. Default: it does.
    pub auto_read: bool,
    /// Whether reading pauses while the channel is not writable, whoever asks for a read. Default: it does if
    /// a server has accepted the channel.
    pub pause_reads_while_unwritable: PauseReads,
    /// How many bytes a read asks for. Default: from 64 bytes to 64 KiB, 2 KiB at first.
    pub receive_sizes: ReceiveSizes,
    /// At most so many reads in one round, so that one peer cannot starve the others; none means one. Default:
    /// 16.
    pub reads_per_round: u32,
    /// Whether it stays open when the peer sends no more: see [`HalfClosed`](crate::HalfClosed).
    /// Default: it is closed then.
    pub allow_half_closure: bool,
    /// How long a connect may take, all addresses of a name together, and how long the name may be looked
    /// up before; none has no limit but the system's. Default: 30 seconds.
    pub connect_timeout: Option<Duration>,
}

impl ChannelOptions {
    /// The default ones, shared by all channels that are given no others.
    pub(super) fn shared_default() -> Arc<Self> {
        static DEFAULT: LazyLock<Arc<ChannelOptions>> = LazyLock::new(Arc::default);
        DEFAULT.clone()
    }
}

impl Default for ChannelOptions {
    fn default() -> Self {
        Self {
            water_marks: WaterMarks::default(),
            auto_read: true,
            pause_reads_while_unwritable: PauseReads::default(),
            receive_sizes: ReceiveSizes::default(),
            reads_per_round: 16,
            allow_half_closure: false,
            connect_timeout: Some(Duration::from_secs(30)),
        }
    }
}
