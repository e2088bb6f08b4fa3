//! The table of a wheel's timers: links and bodies by slot, in segments.
//!
//! ```text
//!   segments: [ ● ● ○ ● ]      ○ freed after a burst
//!               │
//!               ▼
//!             ┌─────────────────────┬──────────────────────────────────┐
//!             │ links: prev, next … │ bodies: deadline, order, value … │  128 of each
//!             └─────────────────────┴──────────────────────────────────┘
//! ```
//!
//! - Links are apart from bodies: taking a timer out of its list touches the links of its neighbours, and eight
//!   of those fit a cache line.
//! - A segment never moves, so a growing table copies nothing. A segment without timers can be freed, so a
//!   table shrinks after a burst although some timers stay.

use crate::clock::Nanos;
use crate::raw::free_slots::FreeSlots;
use crate::raw::prefetch::prefetch;

/// Slots in a segment: 4 KiB, more where the layer above has commands.
const SEGMENT: usize = 128;

/// Free slots that are always kept.
const SPARE: usize = 16 * SEGMENT;

/// The two neighbours of a timer, as its wheel numbers them.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimerLinks {
    pub(super) prev: u32,
    pub(super) next: u32,
}

#[derive(Debug)]
pub(super) struct TimerBody<V> {
    pub(super) deadline: Nanos,
    /// Distinguishes the timers that use a slot one after the other.
    pub(super) order: u32,
    pub(super) value: Option<V>,
}

#[derive(Debug)]
struct Segment<V> {
    links: [TimerLinks; SEGMENT],
    bodies: [TimerBody<V>; SEGMENT],
}

/// A table of timers. See the module's documentation.
#[derive(Debug)]
pub(super) struct TimerSlab<V> {
    segments: Vec<Option<Box<Segment<V>>>>,
    slots: FreeSlots,
    len: usize,
    /// Slots given back since the last search for segments to free.
    given_back: usize,
}

impl<V> TimerSlab<V> {
    pub(super) fn new() -> Self {
        let slots = FreeSlots::new(SEGMENT / 64, 0);
        Self { segments: Vec::new(), slots, len: 0, given_back: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Inserts the value that `make` returns for its slot. The caller sets the links.
    #[inline]
    pub(super) fn insert(
        &mut self,
        deadline: Nanos,
        order: u32,
        make: impl FnOnce(u32) -> V,
    ) -> u32 {
        let slot = match self.slots.take() {
            Some(slot) => slot,
            None => self.take_from_new_segment(),
        };
        self.len += 1;
        let body = &mut self.segment_mut(slot).bodies[slot % SEGMENT];
        (body.deadline, body.order) = (deadline, order);
        // The old value is known to be None and is forgotten without a check: a check would wait for memory.
        std::mem::forget(body.value.replace(make(slot as u32)));
        slot as u32
    }

    /// Takes a timer out. Returns its deadline and its value.
    #[inline]
    pub(super) fn remove(&mut self, slot: u32) -> Option<(Nanos, V)> {
        let body = &mut self.segment_mut(slot as usize).bodies[slot as usize % SEGMENT];
        let taken = (body.deadline, body.value.take()?);
        self.slots.give_back(slot);
        self.len -= 1;
        self.given_back += 1;
        Some(taken)
    }

    /// Returns the body in a slot, if its segment is allocated.
    #[inline]
    pub(super) fn get(&self, slot: u32) -> Option<&TimerBody<V>> {
        let segment = self.segments.get(slot as usize / SEGMENT)?.as_ref()?;
        Some(&segment.bodies[slot as usize % SEGMENT])
    }

    /// Prefetches the links of a slot, if its segment is allocated.
    #[inline]
    pub(super) fn prefetch_links(&self, slot: u32) {
        if let Some(Some(segment)) = self.segments.get(slot as usize / SEGMENT) {
            prefetch(&segment.links[slot as usize % SEGMENT]);
        }
    }

    /// Prefetches the links and the body of a slot, which taking a timer out reads.
    #[inline]
    pub(super) fn prefetch(&self, slot: u32) {
        let segment = self.segment(slot as usize);
        prefetch(&segment.links[slot as usize % SEGMENT]);
        prefetch(&segment.bodies[slot as usize % SEGMENT]);
    }

    /// Returns the deadline of a slot in use.
    #[inline]
    pub(super) fn deadline(&self, slot: u32) -> Nanos {
        self.segment(slot as usize).bodies[slot as usize % SEGMENT].deadline
    }

    #[inline]
    pub(super) fn links(&self, slot: u32) -> TimerLinks {
        self.segment(slot as usize).links[slot as usize % SEGMENT]
    }

    #[inline]
    pub(super) fn links_mut(&mut self, slot: u32) -> &mut TimerLinks {
        &mut self.segment_mut(slot as usize).links[slot as usize % SEGMENT]
    }

    /// True if many slots are free, and more were given back since the last search for segments to free than
    /// such a search costs.
    #[inline]
    pub(super) fn may_shrink(&self) -> bool {
        self.given_back >= SPARE + self.segments.len() && self.slots.free() > 2 * (self.len + SPARE)
    }

    /// Frees segments without timers, the highest first. Keeps as many free slots as are in use, plus
    /// `SPARE`.
    pub(super) fn shrink(&mut self) {
        self.given_back = 0;
        self.slots.flush_recent();
        for at in (0..self.segments.len()).rev() {
            if self.slots.free() < self.len + SPARE + SEGMENT {
                break;
            }
            if self.slots.is_segment_free(at) {
                self.slots.close_segment(at);
                self.segments[at] = None;
            }
        }
        while self.segments.last().is_some_and(Option::is_none) {
            self.segments.pop();
        }
    }

    #[cold]
    fn take_from_new_segment(&mut self) -> usize {
        let released = self.segments.iter().position(Option::is_none);
        let at = released.unwrap_or(self.segments.len());
        // The wheel numbers its lists with the remaining numbers.
        assert!(at < (u32::MAX / 2) as usize / SEGMENT, "two billion timers on one loop");
        let links = [TimerLinks { prev: 0, next: 0 }; SEGMENT];
        let body = |_| TimerBody { deadline: Nanos(0), order: 0, value: None };
        let segment = Some(Box::new(Segment { links, bodies: std::array::from_fn(body) }));
        match released {
            Some(at) => self.segments[at] = segment,
            None => self.segments.push(segment),
        }
        self.slots.open_segment(at);
        self.slots.take().unwrap_or_else(|| unreachable!("a new segment has free slots"))
    }

    #[inline]
    fn segment(&self, slot: usize) -> &Segment<V> {
        self.segments[slot / SEGMENT].as_ref().unwrap_or_else(|| gone())
    }

    #[inline]
    fn segment_mut(&mut self, slot: usize) -> &mut Segment<V> {
        self.segments[slot / SEGMENT].as_mut().unwrap_or_else(|| gone())
    }

    /// Returns how many segments are allocated.
    #[cfg(all(test, not(loom)))]
    pub(super) fn segments(&self) -> usize {
        self.segments.iter().flatten().count()
    }
}

#[cold]
fn gone() -> ! {
    unreachable!("a slot in use has a segment")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn links_are_eight_bytes_and_a_body_with_a_pointer_is_24() {
        assert_eq!((size_of::<TimerLinks>(), size_of::<TimerBody<Box<()>>>()), (8, 24));
    }

    #[test]
    fn a_table_shrinks_after_a_burst_although_some_timers_stay() {
        const BURST: u64 = if cfg!(miri) { 5000 } else { 100_000 };
        let mut slab = TimerSlab::new();
        let slots: Vec<_> = (0..BURST).map(|n| slab.insert(Nanos(n), 0, |_| n)).collect();
        let kept = [7, BURST as u32 / 2, BURST as u32 - 1];
        for slot in slots.iter().filter(|slot| !kept.contains(*slot)) {
            slab.remove(*slot).unwrap();
        }
        assert!(slab.may_shrink());
        slab.shrink();
        assert!(!slab.may_shrink());
        assert_eq!(slab.len(), 3);
        assert!(slab.segments() <= 3 + SPARE / SEGMENT + 1, "{}", slab.segments());
        for slot in kept {
            assert_eq!(slab.get(slot).unwrap().value, Some(u64::from(slot)));
        }
        let again: Vec<_> = (0..BURST).map(|n| slab.insert(Nanos(n), 0, |_| n)).collect();
        let end = (BURST as usize).next_multiple_of(SEGMENT) + SEGMENT;
        let are_reused = again.iter().all(|slot| (*slot as usize) < end);
        assert!(are_reused, "freed segments are used again");
    }
}
