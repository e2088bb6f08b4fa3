//! The activity of a loop, in words that any thread may read without stopping the loop: a sequence lock (E20,
//! O02).
//!
//! ```text
//!   sequence          number of changes ǀ flags: idle, changing, ended, or the kind of code that runs
//!   outer_id, origin  the outermost piece of work: the sequence word it began with, and its origin
//!   inner, call_site  what runs inside of that, if anything does
//!   round             number of begins and ends of rounds: odd while one is under way
//! ```
//!
//! 1. Only the loop's thread writes, with plain loads and stores. For a pooled loop that is one thread after
//!    the other, with a lock in between.
//! 2. The words beside the sequence number change only while it says idle or changing, so that no reader uses
//!    them. A Release fence separates the store of that state from the change, and the store that ends the change is a
//!    Release.
//! 3. A reader loads the sequence number before and after. If both are equal, the words it read in between
//!    belong together and to that number; if not, the loop has moved on, and the reader tries again.
//!
//! A task costs two stores besides its origin at its begin, and one at its end. No clock is read, and readers
//! do not slow the loop down.

use std::hint::spin_loop;

use crate::raw::origin::{Origin, OriginCell};
use crate::report::UserCode;
use crate::sync::{AtomicU64, Ordering, fence};

/// How often a reader tries to read between two changes. A change takes a few nanoseconds: a loop that is seen
/// changing this often makes progress.
const MAX_READS: usize = if cfg!(loom) { 2 } else { 64 };

/// The bits of the sequence word that are not the number.
const FLAGS: u64 = 0xff;

const IDLE: u64 = 0;
const CHANGING: u64 = 1;
/// Set when the loop has ended.
const ENDED: u64 = 2;
/// The code of the first kind of user code; the others follow.
const FIRST_CODE: u64 = 3;
const CODE_MASK: u64 = 0x3f;
/// Set while other code runs inside of the outermost piece of work.
const NESTED: u64 = 0x40;
/// Set while the innermost code is at a call site, whose number is in `call_site`.
const AT_CALL_SITE: u64 = 0x80;

/// The activity of one loop. See the module's documentation.
#[derive(Debug)]
pub(crate) struct ActivityCell {
    sequence: AtomicU64,
    outer_id: AtomicU64,
    origin: OriginCell,
    inner: OriginCell,
    call_site: AtomicU64,
    round: AtomicU64,
}

/// The activity of a loop as a reader has found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActivitySnapshot {
    /// The loop waits, or does its own housekeeping.
    Idle,
    /// The loop has ended.
    Ended,
    /// The loop changed its activity during every attempt to read it.
    Changing,
    Busy(RunningWork),
}

/// The work that a loop was seen running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunningWork {
    /// Identifies the outermost piece of work among all pieces of work of this loop.
    pub(crate) work_id: u64,
    pub(crate) outer: (UserCode, Origin),
    /// The innermost code inside of the outermost piece of work, if any.
    pub(crate) inner: Option<(UserCode, Origin)>,
    /// The call site of the innermost code.
    pub(crate) call_site: Option<u64>,
}

/// The activity that was published before, for [`ActivityCell::restore`].
#[must_use = "it must be given to `restore`"]
#[derive(Clone, Copy, Debug)]
pub(crate) struct SavedActivity {
    flags: u64,
    inner: Origin,
    call_site: u64,
}

/// A piece of work that a loop has begun. It ends when this is dropped, also on unwind.
#[must_use = "dropping it ends the activity"]
#[derive(Debug)]
pub struct ActivityGuard<'a>(&'a ActivityCell);

impl Drop for ActivityGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        let sequence = self.0.sequence.load(Ordering::Relaxed);
        self.0.sequence.store((sequence & !FLAGS) | IDLE, Ordering::Relaxed);
    }
}

/// A round of short pieces of work that a loop does one after the other. It ends when this is dropped, also on
/// unwind.
#[must_use = "dropping it ends the activity"]
#[derive(Debug)]
pub struct RoundGuard<'a>(&'a ActivityCell);

impl Drop for RoundGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.advance_round();
    }
}

impl ActivityCell {
    pub(crate) fn new() -> Self {
        let nothing = Origin::labelled("nothing");
        Self {
            sequence: AtomicU64::new(IDLE),
            outer_id: AtomicU64::new(0),
            origin: OriginCell::new(nothing),
            inner: OriginCell::new(nothing),
            call_site: AtomicU64::new(0),
            round: AtomicU64::new(0),
        }
    }

    /// Begins a round. Its pieces of work are [begun](Self::begin) one by one.
    #[inline]
    pub(crate) fn begin_round(&self) -> RoundGuard<'_> {
        self.advance_round();
        RoundGuard(self)
    }

    #[inline]
    fn advance_round(&self) {
        self.round.store(self.round.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Returns the number of the round that is under way, if any. Any thread may call this: the word is read
    /// alone, so no ordering is needed.
    pub(crate) fn round(&self) -> Option<u64> {
        Some(self.round.load(Ordering::Relaxed)).filter(|round| round % 2 == 1)
    }

    /// Begins a piece of work, on a loop that is known to be idle.
    #[inline]
    pub(crate) fn begin(&self, what: UserCode, origin: Origin) -> ActivityGuard<'_> {
        let sequence = self.sequence.load(Ordering::Relaxed);
        debug_assert!(is_idle(sequence), "the previous piece of work has ended");
        self.begin_outermost(next_sequence(sequence) | encode(what), origin);
        ActivityGuard(self)
    }

    #[inline]
    fn begin_outermost(&self, sequence: u64, origin: Origin) {
        fence(Ordering::Release);
        self.outer_id.store(sequence, Ordering::Relaxed);
        self.origin.set(origin);
        self.sequence.store(sequence, Ordering::Release);
    }

    /// Begins code inside of the loop's current activity, and returns that activity. A call site's number is never 0.
    #[inline]
    pub(crate) fn enter(
        &self,
        what: UserCode,
        origin: Origin,
        call_site: Option<u64>,
    ) -> SavedActivity {
        let sequence = self.sequence.load(Ordering::Relaxed);
        let before = SavedActivity {
            flags: sequence & FLAGS,
            inner: self.inner.get(),
            call_site: self.call_site.load(Ordering::Relaxed),
        };
        let flags = encode(what) | if call_site.is_some() { AT_CALL_SITE } else { 0 };
        let number = call_site.unwrap_or(0);
        if is_idle(sequence) {
            fence(Ordering::Release);
            self.call_site.store(number, Ordering::Relaxed);
            self.begin_outermost(next_sequence(sequence) | flags, origin);
        } else {
            self.change(sequence, flags | NESTED, (origin, number));
        }
        before
    }

    /// Ends the code that [`enter`](Self::enter) began: publishes the previous activity again.
    #[inline]
    pub(crate) fn restore(&self, before: SavedActivity) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        if is_idle(before.flags) {
            self.sequence.store((sequence & !FLAGS) | before.flags, Ordering::Relaxed);
        } else {
            self.change(sequence, before.flags, (before.inner, before.call_site));
        }
    }

    #[inline]
    fn change(&self, sequence: u64, flags: u64, (inner, call_site): (Origin, u64)) {
        let sequence = next_sequence(sequence);
        self.sequence.store(sequence | CHANGING, Ordering::Relaxed);
        fence(Ordering::Release);
        self.inner.set(inner);
        self.call_site.store(call_site, Ordering::Relaxed);
        self.sequence.store(next_sequence(sequence) | flags, Ordering::Release);
    }

    /// The loop has ended: publishes ENDED.
    pub(crate) fn mark_ended(&self) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence.store((sequence & !FLAGS) | ENDED, Ordering::Release);
    }

    /// Returns the activity of the loop. Any thread may call this.
    pub(crate) fn read(&self) -> ActivitySnapshot {
        for _ in 0..MAX_READS {
            let sequence = self.sequence.load(Ordering::Acquire);
            match sequence & FLAGS {
                IDLE => return ActivitySnapshot::Idle,
                ENDED => return ActivitySnapshot::Ended,
                CHANGING => {}
                flags => {
                    let work_id = self.outer_id.load(Ordering::Relaxed);
                    let (origin, inner) = (self.origin.get(), self.inner.get());
                    let call_site = self.call_site.load(Ordering::Relaxed);
                    fence(Ordering::Acquire);
                    if self.sequence.load(Ordering::Relaxed) == sequence {
                        return ActivitySnapshot::Busy(RunningWork {
                            work_id,
                            outer: (decode(work_id), origin),
                            inner: (flags & NESTED != 0).then(|| (decode(flags), inner)),
                            call_site: (flags & AT_CALL_SITE != 0).then_some(call_site),
                        });
                    }
                }
            }
            spin_loop();
        }
        ActivitySnapshot::Changing
    }

    /// Returns the origin of the innermost code that the loop is running.
    pub(crate) fn running(&self) -> Option<Origin> {
        match self.read() {
            ActivitySnapshot::Busy(seen) => {
                Some(seen.inner.map_or(seen.outer.1, |(_, origin)| origin))
            }
            ActivitySnapshot::Idle | ActivitySnapshot::Ended | ActivitySnapshot::Changing => None,
        }
    }
}

fn is_idle(sequence: u64) -> bool {
    matches!(sequence & FLAGS, IDLE | ENDED)
}

/// Returns the next sequence number, without flags.
fn next_sequence(sequence: u64) -> u64 {
    (sequence | FLAGS) + 1
}

fn encode(what: UserCode) -> u64 {
    what as u64 + FIRST_CODE
}

fn decode(flags: u64) -> UserCode {
    let at = (flags & CODE_MASK).saturating_sub(FIRST_CODE) as usize;
    UserCode::ALL.get(at).copied().unwrap_or(UserCode::Task)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn busy(activity: &ActivityCell) -> RunningWork {
        match activity.read() {
            ActivitySnapshot::Busy(seen) => seen,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn o02_every_kind_of_code_is_read_as_it_was_published() {
        let activity = ActivityCell::new();
        let origin = Origin::here();
        for what in UserCode::ALL {
            let begun = activity.begin(what, origin);
            assert_eq!(busy(&activity).outer, (what, origin));
            drop(begun);
            assert_eq!(activity.read(), ActivitySnapshot::Idle);
        }
        assert!(
            encode(UserCode::ALL[UserCode::ALL.len() - 1]) <= CODE_MASK,
            "there is room for all"
        );
    }

    #[test]
    fn o02_a_round_is_visible_while_it_lasts_and_has_its_own_number() {
        let activity = ActivityCell::new();
        assert_eq!(activity.round(), None);
        let round = activity.begin_round();
        let first = activity.round();
        drop(activity.begin(UserCode::Callback, Origin::here()));
        assert_eq!((activity.round(), activity.read()), (first, ActivitySnapshot::Idle));
        drop(round);
        assert_eq!(activity.round(), None);
        let _another = activity.begin_round();
        assert!(activity.round().is_some() && activity.round() != first);
    }

    #[test]
    fn o02_nested_work_is_published_and_the_outer_work_restored() {
        let activity = ActivityCell::new();
        let [task, listener, handler] = ["task", "listener", "handler"].map(Origin::labelled);
        let begun = activity.begin(UserCode::Task, task);
        let alone = busy(&activity);
        let in_task = activity.enter(UserCode::Handler, handler, Some(7));
        let at_call_site = busy(&activity);
        assert_eq!(at_call_site.outer, alone.outer);
        assert_eq!(at_call_site.inner, Some((UserCode::Handler, handler)));
        assert_eq!((at_call_site.work_id, at_call_site.call_site), (alone.work_id, Some(7)));
        let in_handler = activity.enter(UserCode::Listener, listener, None);
        assert_eq!(busy(&activity).inner, Some((UserCode::Listener, listener)));
        assert_eq!(busy(&activity).call_site, None);
        activity.restore(in_handler);
        assert_eq!(busy(&activity), at_call_site);
        activity.restore(in_task);
        assert_eq!(busy(&activity), alone);
        drop(begun);
        let _again = activity.begin(UserCode::Task, task);
        assert_ne!(
            busy(&activity).work_id,
            alone.work_id,
            "the same task again is another piece of work"
        );
    }

    #[test]
    fn o02_work_entered_on_an_idle_loop_is_the_outermost() {
        let activity = ActivityCell::new();
        let handler = Origin::labelled("handler");
        let nothing = activity.enter(UserCode::Handler, handler, Some(3));
        let alone = busy(&activity);
        assert_eq!((alone.outer, alone.call_site), ((UserCode::Handler, handler), Some(3)));
        let inside = activity.enter(UserCode::Handler, handler, Some(4));
        activity.restore(inside);
        assert_eq!(busy(&activity), alone, "with its call site");
        activity.restore(nothing);
        assert_eq!(activity.read(), ActivitySnapshot::Idle);
        activity.mark_ended();
        assert_eq!(activity.read(), ActivitySnapshot::Ended);
        let late = activity.enter(UserCode::Task, handler, None);
        activity.restore(late);
        assert_eq!(activity.read(), ActivitySnapshot::Ended, "it stays ended");
    }
}
