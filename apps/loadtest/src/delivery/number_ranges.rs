//! `NumberRanges`: numbers of publications, as ranges.

use std::ops::Range;

/// A set of numbers as ascending ranges that do not touch each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NumberRanges(Vec<Range<u64>>);

impl NumberRanges {
    /// Adds a range that begins at or after the end of the last one.
    pub(crate) fn push(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        match self.0.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.0.push(range),
        }
    }

    /// Removes a number. Returns whether it was there.
    pub(crate) fn remove(&mut self, number: u64) -> bool {
        let at = self.0.partition_point(|range| range.end <= number);
        let Some(range) = self.0.get_mut(at).filter(|range| range.contains(&number)) else {
            return false;
        };
        let rest = number + 1..range.end;
        range.end = number;
        match (range.is_empty(), rest.is_empty()) {
            (true, true) => drop(self.0.remove(at)),
            (true, false) => self.0[at] = rest,
            (false, true) => {}
            (false, false) => self.0.insert(at + 1, rest),
        }
        true
    }

    /// Returns how many ranges there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns how many numbers there are.
    pub(crate) fn count(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }

    /// Returns how many numbers of `range` are in the set.
    pub(crate) fn count_within(&self, range: &Range<u64>) -> u64 {
        let first = self.0.partition_point(|own| own.end <= range.start);
        let own = self.0[first..].iter().take_while(|own| own.start < range.end);
        own.map(|own| own.end.min(range.end) - own.start.max(range.start)).sum()
    }

    /// Iterates over the ranges, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Range<u64>> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g09_numbers_are_added_removed_and_counted() {
        let mut set = NumberRanges::default();
        for range in [2..5, 5..7, 7..7, 10..11] {
            set.push(range);
        }
        assert_eq!(set.0, [2..7, 10..11]);
        assert!(set.remove(4) && set.remove(2) && set.remove(10) && set.remove(6));
        assert!(!set.remove(4) && !set.remove(1) && !set.remove(11));
        assert_eq!(set.0, [3..4, 5..6]);
        assert_eq!((set.count(), set.len()), (2, 2));
        assert_eq!(set.count_within(&(0..4)), 1);
        assert_eq!(set.count_within(&(4..5)), 0);
        assert_eq!(set.count_within(&(3..6)), 2);
    }
}
