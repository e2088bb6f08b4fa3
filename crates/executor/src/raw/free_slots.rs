//! The free slots of a growing table. Slots just given back are taken first, then the lowest.
//!
//! ```text
//!   recent   [ 7 3 9 … ]              the slots given back last
//!   summary  [ 1 0 1 1 … ]            a bit for each word: one of its slots is free
//!              │
//!   words    [ 0110… | 0000… | … ]    a bit for each slot: it is free, and not recent
//!              └ segment ┘            slots whose memory is allocated and freed together
//! ```
//!
//! - A slot that was just given back is still in the cache: while one timer is removed for each that is added,
//!   no other memory is touched.
//! - Neighbours are taken in the order of their addresses, so that filling a table that was emptied in random
//!   order walks forwards through memory. A stack of all free slots would return them in the order in which
//!   they were given back, a cache miss each.
//! - Low slots are reused before high ones, so that high segments become empty and can be freed.

/// How many of the slots given back last are kept apart. A loop removes as many cancelled timers at once.
const RECENT: usize = 64;

/// A set of free slots. See the module's documentation.
#[derive(Debug)]
pub(crate) struct FreeSlots {
    recent: [u32; RECENT],
    recent_len: usize,
    words: Vec<u64>,
    summary: Vec<u64>,
    /// No summary word before this one has a bit set.
    first_summary: usize,
    free: usize,
    /// Words in a segment.
    segment: usize,
    /// A mask of the slots in a segment's first word that may be taken. All slots of its other words may be taken.
    first_word: u64,
}

impl FreeSlots {
    /// Returns a set without segments. A segment has `words` times 64 slots; the first
    /// `reserved` slots (fewer than 64) are never taken.
    pub(crate) const fn new(words: usize, reserved: u32) -> Self {
        Self {
            recent: [0; RECENT],
            recent_len: 0,
            words: Vec::new(),
            summary: Vec::new(),
            first_summary: 0,
            free: 0,
            segment: words,
            first_word: u64::MAX << reserved,
        }
    }

    /// Returns how many slots are free.
    pub(crate) fn free(&self) -> usize {
        self.free
    }

    /// Takes a free slot.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<usize> {
        if self.recent_len > 0 {
            self.recent_len -= 1;
            self.free -= 1;
            return Some(self.recent[self.recent_len % RECENT] as usize);
        }
        self.take_lowest()
    }

    fn take_lowest(&mut self) -> Option<usize> {
        while let Some(summary) = self.summary.get_mut(self.first_summary) {
            if *summary == 0 {
                self.first_summary += 1;
                continue;
            }
            let word = self.first_summary * 64 + summary.trailing_zeros() as usize;
            let bits = self.words[word];
            let rest = bits & (bits - 1);
            self.words[word] = rest;
            if rest == 0 {
                *summary &= *summary - 1;
            }
            self.free -= 1;
            return Some(word * 64 + bits.trailing_zeros() as usize);
        }
        None
    }

    /// Gives back a slot that was taken.
    #[inline]
    pub(crate) fn give_back(&mut self, slot: u32) {
        self.free += 1;
        if self.recent_len < RECENT {
            self.recent[self.recent_len] = slot;
            self.recent_len += 1;
        } else {
            self.set(slot);
        }
    }

    fn set(&mut self, slot: u32) {
        let word = slot as usize / 64;
        self.words[word] |= 1 << (slot % 64);
        self.summary[word / 64] |= 1 << (word % 64);
        self.first_summary = self.first_summary.min(word / 64);
    }

    /// Adds the recent slots to the others. Must be called before `is_segment_free`.
    pub(crate) fn flush_recent(&mut self) {
        for at in 0..std::mem::take(&mut self.recent_len) {
            self.set(self.recent[at]);
        }
    }

    /// Makes the slots of a segment available: a segment that was closed, or the first one that was never opened.
    pub(crate) fn open_segment(&mut self, segment: usize) {
        let (begin, end) = (segment * self.segment, (segment + 1) * self.segment);
        if self.words.len() < end {
            self.words.resize(end, 0);
            self.summary.resize(end.div_ceil(64), 0);
        }
        for word in begin..end {
            let bits = if word == begin { self.first_word } else { u64::MAX };
            self.words[word] = bits;
            self.free += bits.count_ones() as usize;
            self.summary[word / 64] |= 1 << (word % 64);
        }
        self.first_summary = self.first_summary.min(begin / 64);
    }

    /// True while every slot of a segment is free and none is recent. False for a closed segment.
    pub(crate) fn is_segment_free(&self, segment: usize) -> bool {
        let words = &self.words[segment * self.segment..(segment + 1) * self.segment];
        words[0] == self.first_word && words[1..].iter().all(|word| *word == u64::MAX)
    }

    /// Returns how many slots of an open segment are taken or recent.
    pub(crate) fn taken_in_segment(&self, segment: usize) -> usize {
        let words = &self.words[segment * self.segment..(segment + 1) * self.segment];
        let free: u32 = words.iter().map(|word| word.count_ones()).sum();
        let all = self.first_word.count_ones() as usize + (self.segment - 1) * 64;
        all - free as usize
    }

    /// Makes the slots of a free segment unavailable, before its memory is freed.
    pub(crate) fn close_segment(&mut self, segment: usize) {
        debug_assert!(self.is_segment_free(segment));
        for word in segment * self.segment..(segment + 1) * self.segment {
            self.free -= self.words[word].count_ones() as usize;
            self.words[word] = 0;
            self.summary[word / 64] &= !(1 << (word % 64));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn take_all(slots: &mut FreeSlots) -> Vec<usize> {
        std::iter::from_fn(|| slots.take()).collect()
    }

    #[test]
    fn recent_slots_are_taken_first_then_the_lowest() {
        let mut slots = FreeSlots::new(2, 1);
        assert_eq!(slots.take(), None);
        slots.open_segment(0);
        slots.open_segment(1);
        let usable: Vec<_> = (1..128).chain(129..256).collect();
        assert_eq!(slots.free(), usable.len());
        assert_eq!(take_all(&mut slots), usable);
        for recent in [false, true] {
            for slot in [200, 3, 64, 63, 255] {
                slots.give_back(slot);
            }
            assert_eq!(slots.free(), 5);
            if recent {
                assert_eq!(take_all(&mut slots), vec![255, 63, 64, 3, 200]);
            } else {
                slots.flush_recent();
                assert_eq!(take_all(&mut slots), vec![3, 63, 64, 200, 255]);
            }
        }
        usable.iter().rev().for_each(|slot| slots.give_back(*slot as u32));
        assert_eq!(take_all(&mut slots)[RECENT..].to_vec(), usable[..usable.len() - RECENT]);
    }

    #[test]
    fn a_closed_segment_gives_no_slot_until_it_is_opened_again() {
        let mut slots = FreeSlots::new(1, 0);
        (0..130).for_each(|segment| slots.open_segment(segment));
        for _ in 0..64 {
            slots.take();
        }
        assert!(!slots.is_segment_free(0) && slots.is_segment_free(1));
        assert_eq!((slots.taken_in_segment(0), slots.taken_in_segment(1)), (64, 0));
        slots.close_segment(1);
        assert_eq!((slots.take(), slots.free()), (Some(128), 128 * 64 - 1));
        slots.open_segment(1);
        assert_eq!((slots.take(), slots.free()), (Some(64), 129 * 64 - 2));
    }
}
