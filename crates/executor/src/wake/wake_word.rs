//! The wake word: until when the loop sleeps, and which thread must wake it (E10).
//!
//! One atomic word with three meanings:
//!
//! ```text
//!   AWAKE = 0          the loop runs; it looks at the queue before it sleeps
//!   1 ..= MAX-1        the loop sleeps, until this deadline at the latest
//!   FOREVER = MAX      the loop sleeps until it is woken
//! ```
//!
//! ```text
//!   producer                              loop
//!   ────────                              ────
//!   claim a slot of the queue (SeqCst)    swap(deadline or FOREVER) (SeqCst)
//!   write the work into it                re-check: claims (SeqCst),
//!   load (SeqCst): asleep for too long?     after a fence(SeqCst) anything else
//!   swap(AWAKE): was it still asleep?       some  → store(AWAKE), do not park
//!     yes → unpark: only this producer does  none → park, then store(AWAKE)
//!     no  → another producer woke it
//! ```
//!
//! The two sides form a Dekker pair: either the loop's re-check sees the claim, or the producer sees the loop
//! asleep. Neither side needs a fence for that: each has two SeqCst accesses, and all four have one total
//! order. Work that is made visible by anything else than a claim has a fence of its own on both sides
//! ([`Inbox::wake`](crate::queue::inbox::Inbox::wake),
//! [`LoopCore::wait_until`](crate::engine::LoopCore::wait_until)).
//!
//! The swap makes the winner unique, so a sleep costs at most one wake-up system call, and an awake loop costs
//! none. A timer later than the deadline that the loop already sleeps towards fails the comparison and causes
//! no wake-up.

use crate::clock::Nanos;
use crate::sync::{AtomicU64, Ordering, model_fence};

const AWAKE: u64 = 0;
const FOREVER: u64 = u64::MAX;

/// How soon the loop has to know about a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// At once: wakes the loop.
    Now,
    /// At this time: wakes the loop only if it would sleep longer.
    At(Nanos),
    /// When the loop is next awake: never wakes it.
    Lazy,
}

/// The wake word of one loop. Written by the loop's thread and by producers, read by producers. See the
/// module's documentation.
#[derive(Debug)]
pub(crate) struct WakeWord {
    next_wakeup: AtomicU64,
}

/// The outcome of [`WakeWord::announce_sleep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SleepOutcome {
    /// The re-check found work: the loop stays awake.
    FoundWork,
    /// The loop sleeps, until it is set awake.
    Asleep,
}

impl WakeWord {
    pub(crate) fn new() -> Self {
        Self { next_wakeup: AtomicU64::new(AWAKE) }
    }

    /// Claims the wake-up of the loop, for a producer that has made its work visible by a SeqCst access or
    /// before a SeqCst fence. Returns `true` if the caller, and no other thread, must unpark the loop.
    #[must_use = "if true, the loop sleeps until it is unparked"]
    pub(crate) fn claim_wake(&self, urgency: Urgency) -> bool {
        let deadline = match urgency {
            Urgency::Now => 0,
            Urgency::At(deadline) => deadline.0,
            Urgency::Lazy => return false,
        };
        model_fence();
        // AWAKE is the smallest value: one comparison asks "asleep, and longer than I can wait?".
        if self.next_wakeup.load(Ordering::SeqCst) <= deadline {
            return false;
        }
        self.next_wakeup.swap(AWAKE, Ordering::AcqRel) != AWAKE
    }

    /// Announces a sleep, looks for work once more, and parks if there is none. Called by the loop. Returns
    /// what `park` returns, or `None` if the second look found work.
    #[inline]
    pub(crate) fn sleep<R>(
        &self,
        until: Option<Nanos>,
        has_work: impl FnOnce() -> bool,
        park: impl FnOnce() -> R,
    ) -> Option<R> {
        if self.announce_sleep(until, has_work) == SleepOutcome::FoundWork {
            return None;
        }
        let parked = park();
        self.set_awake();
        Some(parked)
    }

    /// Announces a sleep and looks for work once more, for a loop that is suspended instead of parked. After
    /// `Asleep`, the loop sleeps until [`set_awake`](Self::set_awake).
    #[must_use = "a loop that is asleep must be set awake"]
    pub(crate) fn announce_sleep(
        &self,
        until: Option<Nanos>,
        has_work: impl FnOnce() -> bool,
    ) -> SleepOutcome {
        let deadline = until.map_or(FOREVER, |at| at.0.clamp(AWAKE + 1, FOREVER - 1));
        // A swap, although a store would be correct: a producer that was late for an earlier sleep has left its
        // AWAKE after ours, and reading that here orders it before this announcement for the model checker
        // too. The swap costs nothing compared with a sleep.
        self.next_wakeup.swap(deadline, Ordering::SeqCst);
        model_fence();
        if has_work() {
            self.set_awake();
            return SleepOutcome::FoundWork;
        }
        SleepOutcome::Asleep
    }

    /// Ends an announced sleep.
    pub(crate) fn set_awake(&self) {
        self.next_wakeup.store(AWAKE, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn asleep(until: Option<Nanos>, then: impl FnOnce(&WakeWord)) {
        let word = WakeWord::new();
        let slept = word.sleep(until, || false, || then(&word));
        assert_eq!(slept, Some(()));
    }

    #[test]
    fn e10_an_awake_loop_is_never_woken() {
        let word = WakeWord::new();
        assert!(!word.claim_wake(Urgency::Now));
        assert!(!word.claim_wake(Urgency::At(Nanos(1))));
    }

    #[test]
    fn e10_a_sleep_is_woken_once() {
        asleep(None, |word| {
            assert!(word.claim_wake(Urgency::Now));
            assert!(!word.claim_wake(Urgency::Now));
        });
    }

    #[test]
    fn e10_a_later_timer_does_not_wake_the_loop() {
        asleep(Some(Nanos(100)), |word| {
            assert!(!word.claim_wake(Urgency::At(Nanos(100))));
            assert!(!word.claim_wake(Urgency::At(Nanos(101))));
            assert!(word.claim_wake(Urgency::At(Nanos(99))));
        });
    }

    #[test]
    fn e09_lazy_work_does_not_wake_the_loop() {
        asleep(None, |word| assert!(!word.claim_wake(Urgency::Lazy)));
    }

    #[test]
    fn a_deadline_at_the_limits_of_the_clock_is_still_a_sleep() {
        asleep(Some(Nanos(0)), |word| assert!(word.claim_wake(Urgency::Now)));
        asleep(Some(Nanos::MAX), |word| assert!(word.claim_wake(Urgency::Now)));
    }

    #[test]
    fn work_found_by_the_re_check_prevents_the_park() {
        let word = WakeWord::new();
        let slept = word.sleep(None, || true, || panic!("parked with work queued"));
        assert_eq!(slept, None::<()>);
        assert!(!word.claim_wake(Urgency::Now), "awake again");
    }
}
