//! The admission word: who may still enter the queue (E07, E08).
//!
//! ```text
//!   bit 63       CLOSED: nothing is admitted any more
//!   bits 32..63  system commands admitted and not yet taken (notify, hook, timer, wake)
//!   bits  0..32  user tasks admitted and not yet taken
//! ```
//!
//! A producer is admitted *before* it pushes. Closing and counting happen in the same word, so there
//! is one moment at which the door shuts: whoever was admitted before it is counted, and the loop
//! pops until the count is zero; whoever comes after is refused with the closure still unboxed in
//! its hands. That is what makes "runs or comes back, never both, never neither" exact with a queue
//! that cannot remove.
//!
//! The user half is also the queue bound, and both together are the queue depth that metrics show.

use crate::sync::{AtomicU64, Ordering};

const CLOSED: u64 = 1 << 63;
const USER: u64 = 1;
const SYSTEM: u64 = 1 << 32;

/// Half of what 32 bits can count: an unbounded queue refuses before its counter can touch its
/// neighbour, whatever the number of threads between the addition and the check. At 40 bytes a
/// command the memory is gone long before.
const UNBOUNDED: u32 = 1 << 31;

/// The same for system commands, which have one bit less.
const MOST_SYSTEM: u32 = 1 << 30;

/// Producers add, the loop subtracts, whoever shuts down sets CLOSED. Every operation is one atomic
/// read-modify-write of the one word; the commands themselves are published by the queue.
#[derive(Debug)]
pub(crate) struct Admission {
    word: AtomicU64,
    bound: Option<u32>,
}

/// The right to push exactly one command. Comes from [`Admission`], is spent by the inbox.
///
/// Dropped unspent, it gives its place back: whatever makes the command may panic.
#[must_use = "dropped, it gives its place back"]
#[derive(Debug)]
pub(crate) struct Permit<'a> {
    admission: &'a Admission,
    weight: Depth,
}

impl Permit<'_> {
    /// The command is queued, and counts until the loop has taken it.
    #[inline(always)]
    pub(crate) fn spend(self) {
        std::mem::forget(self);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.admission.leave(self.weight);
    }
}

/// Why nothing was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Closed,
    Full,
}

/// Commands admitted and not yet taken by the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Depth {
    pub(crate) user: u32,
    pub(crate) system: u32,
}

impl Admission {
    pub(crate) fn new(bound: Option<u32>) -> Self {
        Self { word: AtomicU64::new(0), bound }
    }

    /// Admits a user task.
    pub(crate) fn enter_user(&self) -> Result<Permit<'_>, Refusal> {
        match self.bound {
            None => self.enter_unbounded(),
            Some(bound) => self.enter_bounded(bound),
        }
    }

    /// Admits a system command, whatever the bound.
    pub(crate) fn enter_system(&self) -> Result<Permit<'_>, Refusal> {
        let before = self.word.fetch_add(SYSTEM, Ordering::AcqRel);
        if before & CLOSED == 0 && Depth::of(before).system < MOST_SYSTEM {
            return Ok(self.permit(Depth::ONE_SYSTEM));
        }
        self.word.fetch_sub(SYSTEM, Ordering::AcqRel);
        Err(if before & CLOSED != 0 { Refusal::Closed } else { Refusal::Full })
    }

    /// The loop has taken commands.
    pub(crate) fn leave(&self, taken: Depth) {
        let sum = u64::from(taken.user) * USER + u64::from(taken.system) * SYSTEM;
        if sum != 0 {
            self.word.fetch_sub(sum, Ordering::AcqRel);
        }
    }

    /// Shuts the door. What was admitted before is still counted.
    pub(crate) fn close(&self) {
        self.word.fetch_or(CLOSED, Ordering::AcqRel);
    }

    /// Shuts the door unless somebody is inside: whether it did.
    pub(crate) fn close_if_empty(&self) -> bool {
        self.word.compare_exchange(0, CLOSED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.word.load(Ordering::Acquire) & CLOSED != 0
    }

    pub(crate) fn depth(&self) -> Depth {
        Depth::of(self.word.load(Ordering::Acquire))
    }

    /// Whether each taken task should be given back at once, for the bound to be exact.
    pub(crate) fn is_bounded(&self) -> bool {
        self.bound.is_some()
    }

    pub(crate) fn bound(&self) -> u32 {
        self.bound.unwrap_or(UNBOUNDED)
    }

    fn permit(&self, weight: Depth) -> Permit<'_> {
        Permit { admission: self, weight }
    }

    /// One addition; undone if the door was shut. A refused producer is counted for a moment, which
    /// is why a bounded queue does not use this: it would refuse a neighbour for nothing.
    fn enter_unbounded(&self) -> Result<Permit<'_>, Refusal> {
        let before = self.word.fetch_add(USER, Ordering::AcqRel);
        if before & CLOSED == 0 && Depth::of(before).user < UNBOUNDED {
            return Ok(self.permit(Depth::ONE_USER));
        }
        self.word.fetch_sub(USER, Ordering::AcqRel);
        Err(if before & CLOSED != 0 { Refusal::Closed } else { Refusal::Full })
    }

    fn enter_bounded(&self, bound: u32) -> Result<Permit<'_>, Refusal> {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            if word & CLOSED != 0 {
                return Err(Refusal::Closed);
            }
            if Depth::of(word).user >= bound {
                return Err(Refusal::Full);
            }
            match self.word.compare_exchange_weak(
                word,
                word + USER,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Ok(self.permit(Depth::ONE_USER)),
                Err(now) => word = now,
            }
        }
    }
}

impl Depth {
    pub(crate) const NONE: Depth = Depth { user: 0, system: 0 };
    pub(crate) const ONE_USER: Depth = Depth { user: 1, system: 0 };
    pub(crate) const ONE_SYSTEM: Depth = Depth { user: 0, system: 1 };

    fn of(word: u64) -> Self {
        let open = word & !CLOSED;
        Self { user: (open & (SYSTEM - 1)) as u32, system: (open / SYSTEM) as u32 }
    }

    pub(crate) fn total(self) -> usize {
        self.user as usize + self.system as usize
    }

    pub(crate) fn add(&mut self, other: Depth) {
        self.user += other.user;
        self.system += other.system;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn e08_the_bound_counts_user_tasks_only() {
        let admission = Admission::new(Some(2));
        for _ in 0..2 {
            admission.enter_user().unwrap().spend();
        }
        for _ in 0..100 {
            admission.enter_system().unwrap().spend();
        }
        assert_eq!(admission.enter_user().unwrap_err(), Refusal::Full);
        assert_eq!(admission.depth(), Depth { user: 2, system: 100 });
        admission.leave(Depth { user: 1, system: 100 });
        assert!(admission.enter_user().is_ok());
    }

    #[test]
    fn e07_a_closed_door_admits_nothing_and_keeps_the_count() {
        let admission = Admission::new(None);
        admission.enter_user().unwrap().spend();
        admission.enter_system().unwrap().spend();
        admission.close();
        assert_eq!(admission.enter_user().unwrap_err(), Refusal::Closed);
        assert_eq!(admission.enter_system().unwrap_err(), Refusal::Closed);
        assert_eq!(admission.depth(), Depth { user: 1, system: 1 });
    }

    #[test]
    fn e08_a_permit_that_is_not_spent_gives_its_place_back() {
        for admission in [Admission::new(None), Admission::new(Some(1))] {
            drop(admission.enter_user().unwrap());
            drop(admission.enter_system().unwrap());
            assert_eq!(admission.depth(), Depth::NONE);
            let late = admission.enter_user().unwrap();
            admission.close();
            drop(late);
            assert_eq!((admission.depth(), admission.is_closed()), (Depth::NONE, true));
        }
    }

    #[test]
    fn e07_closing_wins_over_full() {
        let admission = Admission::new(Some(1));
        admission.enter_user().unwrap().spend();
        admission.close();
        assert_eq!(admission.enter_user().unwrap_err(), Refusal::Closed);
    }

    #[test]
    fn e08_an_unbounded_queue_refuses_before_its_counter_overflows() {
        let admission = Admission::new(None);
        admission.word.store(u64::from(UNBOUNDED), Ordering::Relaxed);
        assert_eq!(admission.enter_user().unwrap_err(), Refusal::Full);
        assert_eq!(admission.depth(), Depth { user: UNBOUNDED, system: 0 });
    }
}
