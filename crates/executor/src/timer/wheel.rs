//! The timers of a loop by deadline: a hierarchical wheel of lists, and a heap for the current tick.
//!
//! ```text
//!   deadline (ns):  │ digit 7 │ … │ digit 2 │ digit 1 │ digit 0 │ 20 bits within a tick │
//!
//!   level 2:  [ · ■ · · ■ … ]   64 lists of 4.3 s each
//!   level 1:  [ · · ■ · · … ]   64 lists of 67 ms each      ┐ when `elapsed` enters a list,
//!   level 0:  [ · · · ■ ■ … ]   64 lists of 1 ms each       ┘ its timers move down
//!                     │
//!                     ▼
//!   heap:     the timers whose tick has begun, in exact order ──► due
//! ```
//!
//! 1. `elapsed` is a tick (2²⁰ ns). A timer whose tick is not later is in the heap. Any other timer is in the
//!    list of the highest digit in which its tick differs from `elapsed`: that digit is its level, the digit's
//!    value its list. Hence lower levels are earlier than higher ones, and the lists of a level are in order.
//! 2. `elapsed` may move up to the beginning of the first list that has timers, and every timer stays in the
//!    right list. To move further, the lists that have begun by then are emptied first and their timers placed
//!    again: each timer moves once per jump, however far that is, and at most eight times in its life.
//! 3. Timers with equal deadlines are in the same list at any time, in the order of their scheduling: timers
//!    are appended to lists, and moved from front to back. The heap keeps the order in which it gets them. So
//!    timers fire in the order of deadlines, then of scheduling, without a stored sequence number.
//! 4. Scheduling appends to a list and cancelling unlinks: constant time, however many timers are pending. A
//!    timer in the heap costs O(log n) of the few that are there.
//! 5. `next` is the earliest deadline or a lower bound. A new timer lowers it. When the earliest timer is
//!    removed, it stays until [`refine`](TimerWheel::refine) is called, once before a sleep. That scans at most
//!    [`MAX_SCAN`] timers; for a longer list it uses the earliest deadline that was ever put there. If that
//!    timer was cancelled, the loop wakes up once in vain, and places the list's timers again.

use super::cancelled::CancelledTimers;
use super::slab::{TimerLinks, TimerSlab};
use super::tick_heap::TickHeap;
use crate::clock::Nanos;

/// The bits of a tick: 2²⁰ ns, about a millisecond.
const TICK_BITS: u32 = 20;
const DIGIT_BITS: u32 = 6;
/// Lists in a level: one for each value of a digit.
const LISTS: u32 = 1 << DIGIT_BITS;
/// The number of levels: 20 bits of a tick and 8 digits of 6 bits cover the 64 bits of a deadline.
const LEVELS: u32 = 8;
/// The number of all lists. Links below this number stand for the end of a list, links from here on for slots.
const ENDS: u32 = LISTS * LEVELS;
/// The previous link of a timer in the heap. The next link of that timer is its position in the heap.
const IN_HEAP: u32 = u32::MAX;
/// The end of a chain of timers that are being moved.
const NONE: u32 = u32::MAX;

/// How many timers are scanned to find the earliest of a list. A turn that ends in a sleep pays for the scan.
const MAX_SCAN: u32 = 32;

/// Identifies a timer in the wheel of its loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimerKey {
    slot: u32,
    order: u32,
}

impl TimerKey {
    pub(crate) fn to_bits(self) -> u64 {
        u64::from(self.order) << 32 | u64::from(self.slot)
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self { slot: bits as u32, order: (bits >> 32) as u32 }
    }
}

/// The timers of a loop. See the module's documentation.
#[derive(Debug)]
pub(crate) struct TimerWheel<V> {
    slab: TimerSlab<V>,
    /// Allocated with the first timer that needs a list: there may be thousands of executors without timers.
    lists: Box<[List]>,
    /// A bit for each list that has timers, by level.
    occupied: [u64; LEVELS as usize],
    heap: TickHeap,
    cancelled: CancelledTimers,
    elapsed: u64,
    next: Nanos,
    /// True if `next` is the deadline of a removed timer, or memory can be freed.
    is_stale: bool,
    /// How many timers were ever scheduled, wrapping.
    scheduled: u32,
}

/// The two ends of a list.
#[derive(Clone, Copy, Debug)]
struct List {
    /// The last timer (`prev`) and the first timer (`next`); the list's own number if the list is empty.
    links: TimerLinks,
    /// The earliest deadline that was put into the list since it was last empty.
    earliest: Nanos,
}

impl List {
    fn empty(list: u32) -> Self {
        Self { links: TimerLinks { prev: list, next: list }, earliest: Nanos::MAX }
    }
}

impl<V> TimerWheel<V> {
    pub(crate) fn new() -> Self {
        Self {
            slab: TimerSlab::new(),
            lists: Box::default(),
            occupied: [0; LEVELS as usize],
            heap: TickHeap::new(),
            cancelled: CancelledTimers::new(),
            elapsed: 0,
            next: Nanos::MAX,
            is_stale: false,
            scheduled: 0,
        }
    }

    /// Returns how many timers are pending, excluding cancelled ones.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.slab.len() - self.cancelled.len()
    }

    /// Returns the earliest deadline or a lower bound; [`Nanos::MAX`] without timers.
    #[inline]
    pub(crate) fn next(&self) -> Nanos {
        self.next
    }

    /// True if `next` may be the deadline of a removed or cancelled timer, or memory can be freed. Before a
    /// sleep, call [`take_cancelled`](Self::take_cancelled) and [`refine`](Self::refine).
    #[inline]
    pub(crate) fn is_stale(&self) -> bool {
        self.is_stale || self.cancelled.len() > 0
    }

    /// Finds the earliest deadline, or a lower bound if that would take long, and frees memory that a burst has
    /// left.
    #[cold]
    pub(crate) fn refine(&mut self) {
        self.is_stale = false;
        self.next = self.find_next();
        if self.slab.may_shrink() {
            self.slab.shrink();
            self.heap.shrink();
        }
    }

    /// Inserts a timer.
    #[inline]
    pub(crate) fn insert(&mut self, now: Nanos, deadline: Nanos, value: V) -> TimerKey {
        self.insert_with(now, deadline, |_| value)
    }

    /// Inserts the value that `make` returns for its key. `now` need not be exact: the closer it is to the
    /// present, the finer is the list.
    #[inline]
    pub(crate) fn insert_with(
        &mut self,
        now: Nanos,
        deadline: Nanos,
        make: impl FnOnce(TimerKey) -> V,
    ) -> TimerKey {
        self.advance(now);
        let order = self.scheduled;
        self.scheduled = order.wrapping_add(1);
        let slot = self.slab.insert(deadline, order, |slot| make(TimerKey { slot, order }));
        self.place(slot, deadline);
        self.next = self.next.min(deadline);
        TimerKey { slot, order }
    }

    /// Returns a timer, if it is still in the wheel.
    pub(crate) fn get(&self, key: TimerKey) -> Option<&V> {
        let body = self.slab.get(key.slot)?;
        body.value.as_ref().filter(|_| body.order == key.order)
    }

    /// Takes a timer out, if it is still in the wheel.
    #[inline]
    pub(crate) fn remove(&mut self, key: TimerKey) -> Option<V> {
        self.get(key)?;
        self.take(key.slot)
    }

    /// Records that a timer in the wheel was cancelled: it is no longer pending. Returns true if the caller must
    /// [take out](Self::take_cancelled) the cancelled timers now.
    #[inline]
    pub(crate) fn cancel(&mut self, key: TimerKey) -> bool {
        debug_assert!(self.get(key).is_some(), "{key:?} is not in the wheel");
        if self.cancelled.record(key.slot) {
            self.prefetch_cancelled();
        }
        self.cancelled.is_full()
    }

    /// Prefetches the last group of cancelled timers, and the neighbours of the group before, whose links have
    /// arrived meanwhile.
    fn prefetch_cancelled(&self) {
        let (last, before) = self.cancelled.last_groups();
        last.iter().for_each(|slot| self.slab.prefetch(*slot));
        for slot in before {
            let TimerLinks { prev, next } = self.slab.links(*slot);
            for neighbour in [prev, next].into_iter().filter_map(|at| at.checked_sub(ENDS)) {
                self.slab.prefetch_links(neighbour);
            }
        }
    }

    /// Moves the cancelled timers into `taken`. Must be called when [`cancel`](Self::cancel) returns true, and
    /// before any other timer is taken out.
    pub(crate) fn take_cancelled(&mut self, taken: &mut Vec<V>) {
        taken.extend(self.cancelled.take().filter_map(|slot| self.take(slot)));
    }

    /// Takes the earliest timer out, if it is due.
    pub(crate) fn pop_due(&mut self, now: Nanos) -> Option<V> {
        if self.next > now {
            return None;
        }
        self.advance(now);
        match self.heap.first() {
            Some((deadline, slot)) if deadline <= now => self.take(slot),
            _ => {
                self.refine();
                None
            }
        }
    }

    /// Takes out one timer, no matter which.
    pub(crate) fn pop_any(&mut self) -> Option<V> {
        let slot = match (self.heap.first(), self.first_list()) {
            (Some((_, slot)), _) => slot,
            (None, Some((list, _))) => self.lists[list as usize].links.next - ENDS,
            (None, None) => return None,
        };
        self.take(slot)
    }

    #[inline]
    fn take(&mut self, slot: u32) -> Option<V> {
        let TimerLinks { prev, next } = self.slab.links(slot);
        if prev == IN_HEAP {
            let slab = &mut self.slab;
            self.heap.remove(next, |slot, at| *slab.links_mut(slot) = in_heap(at));
        } else {
            self.links_mut(prev).next = next;
            self.links_mut(next).prev = prev;
            if prev == next {
                self.empty_list(prev); // Both links are the end of the list: this was the only timer.
            }
        }
        let (deadline, value) = self.slab.remove(slot)?;
        self.is_stale |= deadline == self.next || self.slab.may_shrink();
        Some(value)
    }

    /// Moves `elapsed` to `now`, and moves the timers of all lists that have begun to their new places.
    #[inline]
    fn advance(&mut self, now: Nanos) {
        let now = now.0 >> TICK_BITS;
        if now > self.elapsed {
            self.advance_to(now);
        }
    }

    #[cold]
    fn advance_to(&mut self, now: u64) {
        let (mut chain, mut last) = (NONE, NONE);
        while let Some((list, _)) = self.first_list().filter(|(_, begin)| *begin <= now) {
            let TimerLinks { prev, next } = self.empty_list(list);
            if chain == NONE {
                chain = next;
            } else {
                self.links_mut(last).next = next;
            }
            last = prev;
            self.links_mut(last).next = NONE;
        }
        self.elapsed = now;
        while chain != NONE {
            let slot = chain - ENDS;
            chain = self.slab.links(slot).next;
            self.place(slot, self.slab.deadline(slot));
        }
    }

    /// Puts a timer into its list, or into the heap.
    #[inline]
    fn place(&mut self, slot: u32, deadline: Nanos) {
        let tick = deadline.0 >> TICK_BITS;
        if tick <= self.elapsed {
            let slab = &mut self.slab;
            self.heap.push(deadline, slot, |slot, at| *slab.links_mut(slot) = in_heap(at));
            return;
        }
        if self.lists.is_empty() {
            self.make_lists();
        }
        let level = (tick ^ self.elapsed).ilog2() / DIGIT_BITS;
        let digit = (tick >> (level * DIGIT_BITS)) as u32 % LISTS;
        self.occupied[level as usize] |= 1 << digit;
        let list = level * LISTS + digit;
        let List { links, earliest } = &mut self.lists[list as usize];
        *earliest = deadline.min(*earliest);
        let last = std::mem::replace(&mut links.prev, slot + ENDS);
        self.links_mut(last).next = slot + ENDS;
        *self.slab.links_mut(slot) = TimerLinks { prev: last, next: list };
    }

    #[cold]
    fn make_lists(&mut self) {
        self.lists = (0..ENDS).map(List::empty).collect();
    }

    /// Marks a list as empty, and returns the links that it had.
    fn empty_list(&mut self, list: u32) -> TimerLinks {
        self.occupied[(list / LISTS) as usize] &= !(1 << (list % LISTS));
        std::mem::replace(&mut self.lists[list as usize], List::empty(list)).links
    }

    /// Returns the earliest list that has timers, and the tick at which it begins.
    fn first_list(&self) -> Option<(u32, u64)> {
        let level = self.occupied.iter().position(|lists| *lists != 0)? as u32;
        let digit = self.occupied[level as usize].trailing_zeros();
        let below = level * DIGIT_BITS;
        let above = self.elapsed >> below >> DIGIT_BITS << DIGIT_BITS;
        Some((level * LISTS + digit, (above | u64::from(digit)) << below))
    }

    fn find_next(&self) -> Nanos {
        if let Some((deadline, _)) = self.heap.first() {
            return deadline;
        }
        let Some((list, _)) = self.first_list() else { return Nanos::MAX };
        let List { links, earliest: bound } = self.lists[list as usize];
        let (mut at, mut earliest) = (links.next, Nanos::MAX);
        for _ in 0..MAX_SCAN {
            if at == list {
                return earliest;
            }
            earliest = earliest.min(self.slab.deadline(at - ENDS));
            at = self.slab.links(at - ENDS).next;
        }
        bound
    }

    #[inline]
    fn links_mut(&mut self, at: u32) -> &mut TimerLinks {
        match at.checked_sub(ENDS) {
            Some(slot) => self.slab.links_mut(slot),
            None => &mut self.lists[at as usize].links,
        }
    }
}

fn in_heap(position: u32) -> TimerLinks {
    TimerLinks { prev: IN_HEAP, next: position }
}
