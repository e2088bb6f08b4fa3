//! The options of a channel.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::channel::reading::read_size::ReceiveSizes;

/// Limits for pending writes: a low and a high water mark, and an optional hard cap.
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

/// An option has a value that cannot be used.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidOption {
    /// The low water mark is above the high one.
    #[error("the low water mark, {low}, is above the high one, {high}")]
    WaterMarks {
        /// The low water mark.
        low: usize,
        /// The high water mark.
        high: usize,
    },
    /// The hard cap is below the high water mark: it would be reached while the channel is still writable.
    #[error("a hard cap of {hard_cap} bytes is below the high water mark, {high}")]
    HardCap {
        /// The hard cap.
        hard_cap: usize,
        /// The high water mark.
        high: usize,
    },
    /// The sizes of reads are not in ascending order, or the smallest is zero.
    #[error(
        "read sizes min {min}, start {start}, max {max}: min must be at least 1, and they must ascend"
    )]
    ReceiveSizes {
        /// The smallest size.
        min: usize,
        /// The size of the first read.
        start: usize,
        /// The largest size.
        max: usize,
    },
    /// A backlog of zero: no client could connect.
    #[error("a backlog of 0: at least one connection must be able to wait for accept")]
    Backlog,
}

impl From<InvalidOption> for waterwheel_executor::Error {
    fn from(error: InvalidOption) -> Self {
        waterwheel_executor::Error::new(error)
    }
}

impl WaterMarks {
    /// Creates water marks: the channel stops being writable when more than `high` bytes are pending, and is
    /// writable again when fewer than `low` are.
    ///
    /// # Errors
    /// If `low` is above `high`.
    pub fn new(low: usize, high: usize) -> Result<Self, InvalidOption> {
        if low > high {
            return Err(InvalidOption::WaterMarks { low, high });
        }
        Ok(Self { low, high, hard_cap: usize::MAX })
    }

    /// Sets a hard cap: a write that would leave more pending bytes than this fails. Default: none.
    ///
    /// # Errors
    /// If the hard cap is below the high water mark.
    pub fn with_hard_cap(self, hard_cap: usize) -> Result<Self, InvalidOption> {
        if hard_cap < self.high {
            return Err(InvalidOption::HardCap { hard_cap, high: self.high });
        }
        Ok(Self { hard_cap, ..self })
    }

    /// Returns the low water mark.
    #[must_use]
    pub fn low(self) -> usize {
        self.low
    }

    /// Returns the high water mark.
    #[must_use]
    pub fn high(self) -> usize {
        self.high
    }

    /// Returns the hard cap: no more bytes than this may be pending.
    #[must_use]
    pub fn hard_cap(self) -> usize {
        self.hard_cap
    }
}

impl Default for WaterMarks {
    /// Returns 32 and 64 KiB, as in Netty, without a hard cap.
    fn default() -> Self {
        Self { low: 32 * 1024, high: 64 * 1024, hard_cap: usize::MAX }
    }
}

/// Selects which channels stop reading while they are not writable.
///
/// A server has to hold every answer to a peer that sends and never reads. A channel that stops reading while
/// it is not writable holds about its high water mark instead, and the peer's sends block.
///
/// Unflushed writes count as well. A handler that writes more than the high water mark and flushes only when a
/// certain message arrives waits forever: it has to flush in `on_read_complete`, or when the channel is no longer
/// writable.
///
/// Two peers that both stop reading can wait for each other forever: neither reads before the other does. So
/// only one side of a connection should pause; by default that is the accepted side.
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
    /// The channel does not pause: its handlers have to limit what they write.
    Never,
}

/// The options of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelOptions {
    /// Limits for pending writes. Default: 32 and 64 KiB, no hard cap.
    pub water_marks: WaterMarks,
    /// If true, the channel requests reads by itself: when it becomes active, and after each round. Default:
    /// true.
    pub auto_read: bool,
    /// Selects whether reads pause while the channel is not writable, even if one is requested. Default: only for
    /// accepted channels.
    pub pause_reads_while_unwritable: PauseReads,
    /// The range of read sizes. Default: 64 bytes to 64 KiB, starting at 2 KiB.
    pub receive_sizes: ReceiveSizes,
    /// The largest number of reads in one round, so that one peer cannot starve the others; zero counts as one.
    /// Default: 16.
    pub reads_per_round: u32,
    /// If true, the channel stays open when the peer has finished sending: see
    /// [`HalfClosed`](crate::HalfClosed). Default: false, the channel is closed.
    pub allow_half_closure: bool,
    /// The time limit for connecting, for all addresses of a name together; resolving the name has a separate limit
    /// of the same length. `None` leaves the limit to the operating system. Default: 30 seconds.
    pub connect_timeout: Option<Duration>,
}

impl ChannelOptions {
    /// Returns the default options, shared by all channels that set none.
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
