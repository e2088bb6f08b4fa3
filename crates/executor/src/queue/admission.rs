//! The admission word: counts accepted commands, bounds the queue, and closes it (E07, E08).
//!
//! ```text
//!   bit 63       CLOSED: nothing is admitted any more
//!   bits 32..63  system commands admitted and not yet taken (notify, hook, timer, wake)
//!   bits  0..32  user tasks admitted and not yet taken
//! ```
//!
//! A producer is admitted *before* it pushes. Closing and counting happen in the same word, so there is one
//! moment at which the queue closes. A producer admitted before that moment is counted, and the loop pops until
//! the count is zero; a later producer is refused while it still holds its closure unboxed. This makes
//! "every task runs or is handed back, never both, never neither" exact although the queue cannot remove an
//! entry.
//!
//! The queue bound limits the user half; both halves together are the queue depth that metrics
//! show.

use crate::sync::{AtomicU64, Ordering};

const CLOSED: u64 = 1 << 63;
const USER: u64 = 1;
const SYSTEM: u64 = 1 << 32;

/// The limit of an unbounded queue: half of what 32 bits can count. The queue refuses before the user count can
/// overflow into the system count, however many threads are between the addition and the check. At 40 bytes a
/// command, memory runs out long before.
const MAX_UNBOUNDED: u32 = 1 << 31;

/// The limit on system commands, whose count has one bit less (see [`MAX_UNBOUNDED`]).
pub(crate) const MAX_SYSTEM: u32 = 1 << 30;

/// The admission word of one queue. Producers add, the loop subtracts, a shutdown sets CLOSED. Every operation
/// is one atomic read-modify-write of the word; the queue itself publishes the commands.
#[derive(Debug)]
pub(crate) struct Admission {
    word: AtomicU64,
    bound: Option<u32>,
}

/// The right to push exactly one command. Made by [`Admission`], spent by the inbox.
///
/// Dropping an unspent permit returns its admission, because the code that makes the command may panic.
#[must_use = "dropping it returns its admission"]
#[derive(Debug)]
pub(crate) struct AdmissionPermit<'a> {
    admission: &'a Admission,
    depth: QueueDepth,
}

impl AdmissionPermit<'_> {
    /// Marks the command as queued: its admission counts until the loop has taken it.
    #[inline(always)]
    pub(crate) fn spend(self) {
        std::mem::forget(self);
    }
}

impl Drop for AdmissionPermit<'_> {
    fn drop(&mut self) {
        self.admission.release(self.depth);
    }
}

/// The reason why a command was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdmissionRefusal {
    Closed,
    Full,
}

/// How many commands are admitted and not yet taken by the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueDepth {
    pub(crate) user: u32,
    pub(crate) system: u32,
}

impl Admission {
    pub(crate) fn new(bound: Option<u32>) -> Self {
        Self { word: AtomicU64::new(0), bound }
    }

    /// Admits a user task.
    pub(crate) fn admit_user(&self) -> Result<AdmissionPermit<'_>, AdmissionRefusal> {
        match self.bound {
            None => self.admit_unbounded(),
            Some(bound) => self.admit_bounded(bound),
        }
    }

    /// Admits a system command. The queue bound does not apply to system commands.
    pub(crate) fn admit_system(&self) -> Result<AdmissionPermit<'_>, AdmissionRefusal> {
        let before = self.word.fetch_add(SYSTEM, Ordering::AcqRel);
        if before & CLOSED == 0 && QueueDepth::of(before).system < MAX_SYSTEM {
            return Ok(self.permit(QueueDepth::ONE_SYSTEM));
        }
        self.word.fetch_sub(SYSTEM, Ordering::AcqRel);
        Err(if before & CLOSED != 0 { AdmissionRefusal::Closed } else { AdmissionRefusal::Full })
    }

    /// Returns the admissions of commands that the loop has taken.
    pub(crate) fn release(&self, taken: QueueDepth) {
        let sum = u64::from(taken.user) * USER + u64::from(taken.system) * SYSTEM;
        if sum != 0 {
            self.word.fetch_sub(sum, Ordering::AcqRel);
        }
    }

    /// Closes the queue. Commands admitted before are still counted.
    pub(crate) fn close(&self) {
        self.word.fetch_or(CLOSED, Ordering::AcqRel);
    }

    /// Closes the queue unless a command is admitted. Returns whether it closed the queue.
    pub(crate) fn close_if_empty(&self) -> bool {
        self.word.compare_exchange(0, CLOSED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.word.load(Ordering::Acquire) & CLOSED != 0
    }

    pub(crate) fn depth(&self) -> QueueDepth {
        QueueDepth::of(self.word.load(Ordering::Acquire))
    }

    /// True if the queue has a bound. Then the loop returns the admission of each task at once, so that the
    /// bound is exact.
    pub(crate) fn is_bounded(&self) -> bool {
        self.bound.is_some()
    }

    pub(crate) fn bound(&self) -> u32 {
        self.bound.unwrap_or(MAX_UNBOUNDED)
    }

    fn permit(&self, depth: QueueDepth) -> AdmissionPermit<'_> {
        AdmissionPermit { admission: self, depth }
    }

    /// Admits with one addition, undone if the queue was closed. A refused producer is counted for a moment, so
    /// a bounded queue does not use this: another producer could be refused below the bound.
    fn admit_unbounded(&self) -> Result<AdmissionPermit<'_>, AdmissionRefusal> {
        let before = self.word.fetch_add(USER, Ordering::AcqRel);
        if before & CLOSED == 0 && QueueDepth::of(before).user < MAX_UNBOUNDED {
            return Ok(self.permit(QueueDepth::ONE_USER));
        }
        self.word.fetch_sub(USER, Ordering::AcqRel);
        Err(if before & CLOSED != 0 { AdmissionRefusal::Closed } else { AdmissionRefusal::Full })
    }

    fn admit_bounded(&self, bound: u32) -> Result<AdmissionPermit<'_>, AdmissionRefusal> {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            if word & CLOSED != 0 {
                return Err(AdmissionRefusal::Closed);
            }
            if QueueDepth::of(word).user >= bound {
                return Err(AdmissionRefusal::Full);
            }
            match self.word.compare_exchange_weak(
                word,
                word + USER,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Ok(self.permit(QueueDepth::ONE_USER)),
                Err(now) => word = now,
            }
        }
    }
}

impl QueueDepth {
    pub(crate) const NONE: QueueDepth = QueueDepth { user: 0, system: 0 };
    pub(crate) const ONE_USER: QueueDepth = QueueDepth { user: 1, system: 0 };
    pub(crate) const ONE_SYSTEM: QueueDepth = QueueDepth { user: 0, system: 1 };

    fn of(word: u64) -> Self {
        let open = word & !CLOSED;
        Self { user: (open & (SYSTEM - 1)) as u32, system: (open / SYSTEM) as u32 }
    }

    pub(crate) fn total(self) -> usize {
        self.user as usize + self.system as usize
    }

    pub(crate) fn add(&mut self, other: QueueDepth) {
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
            admission.admit_user().unwrap().spend();
        }
        for _ in 0..100 {
            admission.admit_system().unwrap().spend();
        }
        assert_eq!(admission.admit_user().unwrap_err(), AdmissionRefusal::Full);
        assert_eq!(admission.depth(), QueueDepth { user: 2, system: 100 });
        admission.release(QueueDepth { user: 1, system: 100 });
        assert!(admission.admit_user().is_ok());
    }

    #[test]
    fn e07_a_closed_queue_admits_nothing_and_keeps_the_count() {
        let admission = Admission::new(None);
        admission.admit_user().unwrap().spend();
        admission.admit_system().unwrap().spend();
        admission.close();
        assert_eq!(admission.admit_user().unwrap_err(), AdmissionRefusal::Closed);
        assert_eq!(admission.admit_system().unwrap_err(), AdmissionRefusal::Closed);
        assert_eq!(admission.depth(), QueueDepth { user: 1, system: 1 });
    }

    #[test]
    fn e08_an_unspent_permit_returns_its_admission() {
        for admission in [Admission::new(None), Admission::new(Some(1))] {
            drop(admission.admit_user().unwrap());
            drop(admission.admit_system().unwrap());
            assert_eq!(admission.depth(), QueueDepth::NONE);
            let late = admission.admit_user().unwrap();
            admission.close();
            drop(late);
            assert_eq!((admission.depth(), admission.is_closed()), (QueueDepth::NONE, true));
        }
    }

    #[test]
    fn e07_closing_wins_over_full() {
        let admission = Admission::new(Some(1));
        admission.admit_user().unwrap().spend();
        admission.close();
        assert_eq!(admission.admit_user().unwrap_err(), AdmissionRefusal::Closed);
    }

    #[test]
    fn e08_an_unbounded_queue_refuses_before_its_counter_overflows() {
        let admission = Admission::new(None);
        admission.word.store(u64::from(MAX_UNBOUNDED), Ordering::Relaxed);
        assert_eq!(admission.admit_user().unwrap_err(), AdmissionRefusal::Full);
        assert_eq!(admission.depth(), QueueDepth { user: MAX_UNBOUNDED, system: 0 });
    }
}
