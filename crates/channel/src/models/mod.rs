//! Loom models of the atomic words that this crate's threads share. The queue to the loop has its own models, in
//! the executor crate. `scripts/loom-mutants` shows that each model fails when the code is broken.

mod future_wakes;

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Notify};
use loom::thread;

use crate::base::wake_flag::WakeFlag;
use crate::channel::lifecycle::hold_count::HoldCount;
use crate::channel::writing::submitted_bytes::SubmittedBytes;

/// A channel whose loop sleeps, and one word of work for each of its holders.
struct HeldChannel {
    holds: HoldCount,
    done: [AtomicUsize; 2],
    commands: AtomicUsize,
    wake: Notify,
}

/// Each of `holders` does some work and releases its hold, while the loop begins to drain.
fn drain(holders: usize) {
    loom::model(move || {
        let held = Arc::new(HeldChannel {
            holds: HoldCount::new(),
            done: [AtomicUsize::new(0), AtomicUsize::new(0)],
            commands: AtomicUsize::new(0),
            wake: Notify::new(),
        });
        (0..holders).for_each(|_| held.holds.add());
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
        while held.holds.has_holds() {
            held.wake.wait(); // A lost release shows as a deadlock.
        }
        for done in &held.done[..holders] {
            assert_eq!(done.load(Ordering::Relaxed), 1, "the work of each holder is visible");
        }
        assert!(held.commands.load(Ordering::Relaxed) <= 1, "at most one command is sent");
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

/// A thread asks whether the channel is writable while `writes` bytes are pending, and the loop takes those bytes one
/// by one. The loop drops them, so that it never sees the channel above the high-water mark itself.
fn check_writable(writes: usize, high: usize) {
    loom::model(move || {
        let shared = Arc::new((SubmittedBytes::new(), Notify::new()));
        for _ in 0..writes {
            assert_eq!(shared.0.add(1, |_| true), Some(1));
        }
        let reader = shared.clone();
        thread::spawn(move || {
            let (submissions, announced) = &*reader;
            if !submissions.check_room(|bytes| bytes <= high) {
                announced.wait(); // A lost notification shows as a deadlock.
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
fn c07_a_thread_that_saw_the_channel_unwritable_is_notified() {
    check_writable(1, 0);
}

#[test]
fn c07_a_thread_that_saw_the_channel_unwritable_is_notified_after_two_writes() {
    check_writable(2, 1);
}

/// A loop that looks for work only after a command, and two wakers that make their work visible by relaxed stores.
#[test]
fn l15_no_wake_is_lost_whichever_waker_finds_the_flag_raised() {
    loom::model(|| {
        let flag = Arc::new(WakeFlag::new());
        let work = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let announced = Arc::new((AtomicUsize::new(0), Notify::new()));
        for at in 0..2 {
            let (flag, work, announced) = (flag.clone(), work.clone(), announced.clone());
            thread::spawn(move || {
                work[at].store(1, Ordering::Relaxed);
                if flag.raise() {
                    announced.0.fetch_add(1, Ordering::Release);
                    announced.1.notify();
                }
            });
        }
        let (mut seen, mut taken) = (0, 0);
        while seen < 2 {
            announced.1.wait(); // Work that was neither announced nor seen shows as a deadlock.
            while taken < announced.0.load(Ordering::Acquire) {
                taken += 1;
                flag.lower();
                seen = work.iter().map(|work| work.load(Ordering::Relaxed)).sum();
            }
        }
    });
}
