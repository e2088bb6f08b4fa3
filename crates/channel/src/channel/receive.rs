//! How many bytes to ask for in a read (C09): up fast, down slowly.
//!
//! Sizes go in steps: by 16 below 512, then doubling. A read that filled its buffer goes four steps up
//! at once; two rounds in a row that would have fitted the step below go one step down.

use super::options::InvalidOption;

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
    /// At least `min`, at most `max`, `start` at first.
    ///
    /// # Errors
    /// If they are not in this order, or `min` is zero.
    pub fn new(min: usize, start: usize, max: usize) -> Result<Self, InvalidOption> {
        if min == 0 || min > start || start > max {
            return Err(InvalidOption::ReceiveSizes { min, start, max });
        }
        Ok(Self { min, start, max })
    }

    /// The size of the first read.
    #[must_use]
    pub fn start(self) -> usize {
        self.start
    }
}

impl Default for ReceiveSizes {
    /// 64 bytes to 64 KiB, beginning at 2 KiB.
    fn default() -> Self {
        Self { min: 64, start: 2048, max: 64 * 1024 }
    }
}

/// How far one full read goes up.
const UP: u32 = 4;

/// Guesses the size of the next read from the last ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizer {
    sizes: ReceiveSizes,
    size: usize,
    /// What this round has read so far.
    total: usize,
    /// The last round would have fitted the step below.
    was_small: bool,
}

impl Sizer {
    pub(crate) fn new(sizes: ReceiveSizes) -> Self {
        Self { sizes, size: sizes.start, total: 0, was_small: false }
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// A read gave so many bytes. `true`: the size has changed.
    pub(crate) fn on_read(&mut self, len: usize) -> bool {
        self.total += len;
        len >= self.size && self.record(len)
    }

    /// The round is over. `true`: the size has changed.
    pub(crate) fn on_round(&mut self) -> bool {
        let total = std::mem::take(&mut self.total);
        self.record(total)
    }

    fn record(&mut self, len: usize) -> bool {
        let before = self.size;
        if len >= self.size {
            for _ in 0..UP {
                self.size = step_up(self.size).min(self.sizes.max);
            }
            self.was_small = false;
        } else if len <= step_down(self.size) {
            if self.was_small {
                self.size = step_down(self.size).max(self.sizes.min);
            }
            self.was_small = !self.was_small;
        } else {
            self.was_small = false;
        }
        self.size != before
    }
}

fn step_up(size: usize) -> usize {
    if size < 512 { (size / 16 + 1) * 16 } else { size.saturating_mul(2) }
}

fn step_down(size: usize) -> usize {
    if size <= 512 { (size.saturating_sub(1)) / 16 * 16 } else { size / 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(sizer: &mut Sizer, len: usize) -> usize {
        sizer.on_read(len);
        sizer.on_round();
        sizer.size()
    }

    #[test]
    fn c09_full_reads_go_up_fast_and_stop_at_the_top() {
        let mut sizer = Sizer::new(ReceiveSizes::default());
        assert_eq!(sizer.size(), 2048);
        assert!(sizer.on_read(2048), "in the middle of a round");
        assert_eq!(sizer.size(), 32 * 1024);
        assert!(sizer.on_read(32 * 1024));
        assert_eq!(sizer.size(), 64 * 1024);
        assert!(!sizer.on_read(64 * 1024));
    }

    #[test]
    fn c09_small_rounds_go_down_slowly_and_stop_at_the_bottom() {
        let mut sizer = Sizer::new(ReceiveSizes::default());
        let sizes: Vec<usize> = (0..6).map(|_| round(&mut sizer, 10)).collect();
        assert_eq!(sizes, [2048, 1024, 1024, 512, 512, 496], "every second round");
        for _ in 0..100 {
            round(&mut sizer, 10);
        }
        assert_eq!(sizer.size(), 64);
    }

    #[test]
    fn c09_one_small_round_among_others_changes_nothing() {
        let mut sizer = Sizer::new(ReceiveSizes::default());
        for len in [10, 1500, 10, 1500, 10] {
            assert_eq!(round(&mut sizer, len), 2048);
        }
    }

    #[test]
    fn c09_small_sizes_go_in_steps_of_sixteen() {
        let sizes = ReceiveSizes::new(64, 64, 1 << 20).unwrap();
        let mut sizer = Sizer::new(sizes);
        sizer.on_read(64);
        assert_eq!(sizer.size(), 128);
        for _ in 0..30 {
            sizer.on_read(sizer.size());
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
