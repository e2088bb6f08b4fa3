//! Adaptive read sizes (C09): they grow fast and shrink slowly.
//!
//! Sizes move in steps: of 16 bytes below 512, by doubling above. A read that fills its buffer moves four steps
//! up. Two rounds in a row that would have fitted the step below, with room to spare, move one step down.
//! Without room to spare, the next read would fill its buffer: a full buffer needs another read to see that there
//! is no more data, and moves up again.

use std::cell::Cell;

use crate::channel::options::InvalidOption;

/// The range of read sizes.
///
/// ```
/// use waterwheel_channel::ReceiveSizes;
///
/// assert!(ReceiveSizes::new(64, 32, 1024).is_err());
/// assert_eq!(ReceiveSizes::new(64, 256, 1024)?.start(), 256);
/// # Ok::<(), waterwheel_channel::InvalidOption>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveSizes {
    min: usize,
    start: usize,
    max: usize,
}

impl ReceiveSizes {
    /// Creates a range from `min` to `max` that starts at `start`.
    ///
    /// # Errors
    /// If the sizes are not in this order, or `min` is zero.
    pub fn new(min: usize, start: usize, max: usize) -> Result<Self, InvalidOption> {
        if min == 0 || min > start || start > max {
            return Err(InvalidOption::ReceiveSizes { min, start, max });
        }
        Ok(Self { min, start, max })
    }

    /// Returns the size of the first read.
    #[must_use]
    pub fn start(self) -> usize {
        self.start
    }

    /// Returns the largest size. Datagrams are always read with it.
    #[must_use]
    pub fn max(self) -> usize {
        self.max
    }
}

impl Default for ReceiveSizes {
    /// Returns 64 bytes to 64 KiB, starting at 2 KiB.
    fn default() -> Self {
        Self { min: 64, start: 2048, max: 64 * 1024 }
    }
}

/// The number of steps up after a full read.
const STEPS_UP: u32 = 4;

/// Chooses the size of the next read from the sizes of recent ones.
#[derive(Debug)]
pub(crate) struct ReadSizer {
    size: Cell<u32>,
    /// Bytes read in this round.
    total: Cell<u32>,
    /// True if the last round would have fitted the step below.
    was_small: Cell<bool>,
}

impl ReadSizer {
    pub(crate) fn new(sizes: ReceiveSizes) -> Self {
        let size = Cell::new(to_u32(sizes.start));
        Self { size, total: Cell::new(0), was_small: Cell::new(false) }
    }

    pub(crate) fn size(&self) -> usize {
        self.size.get() as usize
    }

    /// Records a read of `len` bytes. Returns true if the size has changed.
    #[inline]
    pub(crate) fn on_read(&self, len: usize, sizes: &ReceiveSizes) -> bool {
        let len = to_u32(len);
        self.total.set(self.total.get().saturating_add(len));
        len >= self.size.get() && self.grow(sizes)
    }

    /// Records the end of a round. Returns true if the size has changed.
    #[inline]
    pub(crate) fn on_round(&self, sizes: &ReceiveSizes) -> bool {
        let (total, size) = (self.total.take(), self.size.get());
        if total >= size {
            return self.grow(sizes);
        }
        let is_small = total < to_u32(next_size_down(size as usize));
        if is_small && self.was_small.get() {
            self.was_small.set(false);
            return self.shrink(sizes);
        }
        self.was_small.set(is_small);
        false
    }

    #[cold]
    fn grow(&self, sizes: &ReceiveSizes) -> bool {
        self.was_small.set(false);
        let up = (0..STEPS_UP).fold(self.size(), |size, _| next_size_up(size).min(sizes.max));
        self.size.replace(to_u32(up)) != to_u32(up)
    }

    #[cold]
    fn shrink(&self, sizes: &ReceiveSizes) -> bool {
        let down = next_size_down(self.size()).max(sizes.min);
        self.size.replace(to_u32(down)) != to_u32(down)
    }
}

/// Converts a size to 32 bits. No read is larger: drivers read far less at a time.
#[inline]
fn to_u32(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

fn next_size_up(size: usize) -> usize {
    if size < 512 { (size / 16 + 1) * 16 } else { size.saturating_mul(2) }
}

fn next_size_down(size: usize) -> usize {
    if size <= 512 { (size.saturating_sub(1)) / 16 * 16 } else { size / 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: ReceiveSizes = ReceiveSizes { min: 64, start: 2048, max: 64 * 1024 };

    fn round(sizer: &ReadSizer, len: usize) -> usize {
        sizer.on_read(len, &SIZES);
        sizer.on_round(&SIZES);
        sizer.size()
    }

    #[test]
    fn c09_full_reads_grow_fast_up_to_the_maximum() {
        let sizer = ReadSizer::new(SIZES);
        assert_eq!(sizer.size(), 2048);
        assert!(sizer.on_read(2048, &SIZES), "in the middle of a round");
        assert_eq!(sizer.size(), 32 * 1024);
        assert!(sizer.on_read(32 * 1024, &SIZES));
        assert_eq!(sizer.size(), 64 * 1024);
        assert!(!sizer.on_read(64 * 1024, &SIZES));
    }

    #[test]
    fn c09_small_rounds_shrink_slowly_down_to_the_minimum() {
        let sizer = ReadSizer::new(SIZES);
        let sizes: Vec<usize> = (0..6).map(|_| round(&sizer, 10)).collect();
        assert_eq!(sizes, [2048, 1024, 1024, 512, 512, 496], "every second round");
        for _ in 0..100 {
            round(&sizer, 10);
        }
        assert_eq!(sizer.size(), 64);
    }

    #[test]
    fn c09_reads_do_not_shrink_to_a_size_that_recent_rounds_would_fill() {
        let sizer = ReadSizer::new(SIZES);
        for _ in 0..100 {
            round(&sizer, 64);
        }
        let settled = sizer.size();
        assert_eq!((settled, round(&sizer, 64)), (80, 80), "no read of 64 bytes fills it");
    }

    #[test]
    fn c09_one_small_round_among_others_changes_nothing() {
        let sizer = ReadSizer::new(SIZES);
        for len in [10, 1500, 10, 1500, 10] {
            assert_eq!(round(&sizer, len), 2048);
        }
    }

    #[test]
    fn c09_small_sizes_go_in_steps_of_sixteen() {
        let sizes = ReceiveSizes::new(64, 64, 1 << 20).unwrap();
        let sizer = ReadSizer::new(sizes);
        sizer.on_read(64, &sizes);
        assert_eq!(sizer.size(), 128);
        for _ in 0..30 {
            sizer.on_read(sizer.size(), &sizes);
        }
        assert_eq!(sizer.size(), 1 << 20);
    }

    #[test]
    fn c09_sizes_out_of_order_are_refused() {
        for (min, start, max) in [(0, 1, 2), (2, 1, 3), (1, 3, 2)] {
            assert!(ReceiveSizes::new(min, start, max).is_err(), "{min} {start} {max}");
        }
    }
}
