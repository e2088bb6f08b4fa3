//! Loom models of the words that this crate's threads share; the queue to the loop has its own, in the
//! executor. `scripts/loom-mutants` shows that each of them can fail.

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Notify};
use loom::thread;

use crate::channel::lifecycle::hold_count::HoldCount;
use crate::channel::writing::submitted_bytes::SubmittedBytes;
use crate::wake_flag::WakeFlag;

/// A channel, its loop asleep, and what its holders have done: each into a place of its own.
struct Held {
    holds: HoldCount,
    done: [AtomicUsize; 2],
    commands: AtomicUsize,
    wake: Notify,
}

/// Each of `holders` does something and lets go, while the loop begins to drain.
fn drain(holders: usize) {
    loom::model(move || {
        let held = Arc::new(Held {
            holds: HoldCount::new(),
            done: [AtomicUsize::new(0), AtomicUsize::new(0)],
            commands: AtomicUsize::new(0),
            wake: Notify::new(),
        });
        (0..holders).for_each(|_| held.holds.take());
        for at in 0..holders {
            let held = held.clone();
            thread::spawn(move || {
                held.done[at].store(1, Ordering::Relaxed);
                if held.holds.release() {
                    held.commands.fetch_add(1, Ordering::Relaxed);
                    held.wake.notify();
                }
            });
        }
        held.holds.watch();
        while held.holds.any() {
            held.wake.wait(); // A release that is lost is a deadlock.
        }
        for done in &held.done[..holders] {
            assert_eq!(done.load(Ordering::Relaxed), 1, "what was done before is seen");
        }
        assert!(held.commands.load(Ordering::Relaxed) <= 1, "one command at the most");
    });
}

#[test]
fn l11_no_release_is_lost() {
    drain(1);
}

#[test]
fn l11_no_release_of_two_is_lost() {
    drain(2);
}

/// A thread that asks whether there is room while each of `writes` bytes is on its way, and the loop that takes
/// them. What arrives is dropped, so that the loop never sees the channel full.
fn look(writes: usize, high: usize) {
    loom::model(move || {
        let shared = Arc::new((SubmittedBytes::new(), Notify::new()));
        for _ in 0..writes {
            assert_eq!(shared.0.add(1, |_| true), Some(1));
        }
        let reader = shared.clone();
        thread::spawn(move || {
            let (submissions, announced) = &*reader;
            if !submissions.check_room(|bytes| bytes <= high) {
                announced.wait(); // An announcement that is lost is a deadlock.
            }
        });
        let (submissions, announced) = &*shared;
        for _ in 0..writes {
            submissions.remove(1);
            if submissions.take_watched() {
                announced.notify();
            }
        }
        assert_eq!(submissions.bytes(), 0);
    });
}

#[test]
fn c07_a_thread_that_saw_the_channel_full_is_told() {
    look(1, 0);
}

#[test]
fn c07_a_thread_that_saw_the_channel_full_of_two_is_told() {
    look(2, 1);
}

/// A loop that looks only when it was told to, and two wakers that make their work visible by no more than
/// relaxed stores.
#[test]
fn l15_no_wake_is_lost_whoever_finds_the_flag_raised() {
    loom::model(|| {
        let flag = Arc::new(WakeFlag::new());
        let work = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let told = Arc::new((AtomicUsize::new(0), Notify::new()));
        for at in 0..2 {
            let (flag, work, told) = (flag.clone(), work.clone(), told.clone());
            thread::spawn(move || {
                work[at].store(1, Ordering::Relaxed);
                if flag.raise() {
                    told.0.fetch_add(1, Ordering::Release);
                    told.1.notify();
                }
            });
        }
        let (mut seen, mut taken) = (0, 0);
        while seen < 2 {
            told.1.wait(); // Work that nobody told of, and that was not seen, is a deadlock.
            while taken < told.0.load(Ordering::Acquire) {
                taken += 1;
                flag.lower();
                seen = work.iter().map(|work| work.load(Ordering::Relaxed)).sum();
            }
        }
    });
}
