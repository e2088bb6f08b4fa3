//! The wake word: when the loop sleeps until, and who must wake it (E10).
//!
//! One atomic, three meanings:
//!
//! ```text
//!   AWAKE = 0          the loop runs; whatever is queued will be seen before it sleeps
//!   1 ..= MAX-1        the loop sleeps, at the longest until this deadline
//!   NONE = MAX         the loop sleeps until somebody wakes it
//! ```
//!
//! ```text
//!   producer                              loop
//!   ────────                              ────
//!   claim a place in the queue (SeqCst)   swap(deadline or NONE) (SeqCst)
//!   write the work into it                re-check: claims (SeqCst),
//!   load (SeqCst): asleep for too long?     after a fence(SeqCst) anything else
//!   swap(AWAKE): was it still asleep?       some  → store(AWAKE), do not park
//!     yes → unpark, I am the only one        none → park, then store(AWAKE)
//!     no  → somebody else woke it
//! ```
//!
//! The two sides form a Dekker pair: either the loop's re-check sees the claim, or the producer sees
//! the loop asleep. Neither side needs a fence for that: each has two SeqCst accesses, and all four have one
//! total order. What was made visible by anything else than a claim has a fence of its own on both sides
//! ([`Inbox::wake`](crate::queue::inbox::Inbox::wake),
//! [`LoopCore::wait_until`](crate::engine::LoopCore::wait_until)).
//!
//! The swap makes the winner unique, so a sleep costs at most one wake syscall, and an awake loop
//! costs none. A timer later than what the loop already sleeps towards fails the comparison and wakes
//! nobody.

use crate::clock::Nanos;
use crate::sync::{AtomicU64, Ordering, model_fence};

const AWAKE: u64 = 0;
const NONE: u64 = u64::MAX;

/// By when the loop has to know about a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// At once: wake the loop.
    Now,
    /// At this time: wake the loop only if it would sleep longer.
    At(Nanos),
    /// Whenever the loop looks: never wake it.
    Lazy,
}

/// See the module's documentation. Written by the loop's thread and by producers;
/// read by producers.
#[derive(Debug)]
pub(crate) struct WakeWord {
    next_wakeup: AtomicU64,
}

/// Whether [`WakeWord::announce`] found nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slept {
    /// The re-check found work.
    No,
    /// The loop sleeps.
    Yes,
}

impl WakeWord {
    pub(crate) fn new() -> Self {
        Self { next_wakeup: AtomicU64::new(AWAKE) }
    }

    /// Producer's half, called after the work was made visible by a SeqCst access or before a SeqCst
    /// fence. `true`: the caller, and nobody else,
    /// must unpark the loop.
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

    /// Loop's half: announces the sleep, looks once more, parks if there is nothing to do. Returns what `park` does;
    /// `None`: the second look found work.
    #[inline]
    pub(crate) fn sleep<R>(
        &self,
        until: Option<Nanos>,
        has_work: impl FnOnce() -> bool,
        park: impl FnOnce() -> R,
    ) -> Option<R> {
        if self.announce(until, has_work) == Slept::No {
            return None;
        }
        let parked = park();
        self.awake();
        Some(parked)
    }

    /// The first half of a sleep, for a loop that is put away meanwhile: announces it and looks once
    /// more. `Yes`: it sleeps until [`awake`](Self::awake).
    #[must_use = "if it sleeps, it has to wake up"]
    pub(crate) fn announce(&self, until: Option<Nanos>, has_work: impl FnOnce() -> bool) -> Slept {
        let deadline = until.map_or(NONE, |at| at.0.clamp(AWAKE + 1, NONE - 1));
        // A swap, where a store would do: a producer that came late for an earlier sleep has left
        // its AWAKE behind our own, and reading it here orders it before this announcement in the
        // model checker's eyes too. Next to a sleep it costs nothing.
        self.next_wakeup.swap(deadline, Ordering::SeqCst);
        model_fence();
        if has_work() {
            self.awake();
            return Slept::No;
        }
        Slept::Yes
    }

    /// The loop is awake again.
    pub(crate) fn awake(&self) {
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
    fn e10_a_later_timer_wakes_nobody() {
        asleep(Some(Nanos(100)), |word| {
            assert!(!word.claim_wake(Urgency::At(Nanos(100))));
            assert!(!word.claim_wake(Urgency::At(Nanos(101))));
            assert!(word.claim_wake(Urgency::At(Nanos(99))));
        });
    }

    #[test]
    fn e09_lazy_work_wakes_nobody() {
        asleep(None, |word| assert!(!word.claim_wake(Urgency::Lazy)));
    }

    #[test]
    fn a_deadline_at_the_ends_of_the_clock_is_still_a_sleep() {
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
