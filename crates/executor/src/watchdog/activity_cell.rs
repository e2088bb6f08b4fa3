//! What a loop is doing right now, in words that any thread may read without stopping it (E20, O02).
//!
//! ```text
//!   beat            how many changes there were ǀ idle, changing, or the kind of code that runs
//!   outer, origin   the piece of work that the loop itself called: the beat it began with, its origin
//!   inner, station  what runs inside of that, if something does
//!   round           how many rounds have begun and ended: odd while one goes on
//! ```
//!
//! 1. The loop's thread alone writes, so plain loads and stores do. Of a pooled loop that is one thread
//!    after the other, with a lock in between.
//! 2. The words beside the beat change only while the beat says that nothing can be learnt from them:
//!    idle, or changing. A release fence stands between saying so and the change, and the store that
//!    ends it is a release.
//! 3. A reader takes the beat before and after. If both are the same, what it has read in between
//!    belongs together and to that beat; if not, the loop has moved on, which is all it has to know.
//!
//! Two stores at the begin of a task, one more than its origin, and one at its end: no clock is read,
//! and nobody who reads makes it dearer.

use std::hint::spin_loop;

use crate::raw::origin::{Origin, OriginCell};
use crate::report::UserCode;
use crate::sync::{AtomicU64, Ordering, fence};

/// How often a reader tries to catch a loop between two changes. They are a few nanoseconds long: one
/// that is missed so often belongs to a loop that gets on with its work.
const GLANCES: usize = if cfg!(loom) { 2 } else { 64 };

/// The part of the beat that is no number.
const FLAGS: u64 = 0xff;

const IDLE: u64 = 0;
const CHANGING: u64 = 1;
/// The loop has ended.
const OVER: u64 = 2;
/// The first kind of user code; the others follow.
const FIRST: u64 = 3;
const WHAT: u64 = 0x3f;
/// Something runs inside of the outermost piece of work.
const NESTED: u64 = 0x40;
/// What runs is at the station whose number is beside it.
const AT_STATION: u64 = 0x80;

/// What a loop is doing right now. See the module's documentation.
#[derive(Debug)]
pub(crate) struct Pulse {
    beat: AtomicU64,
    outer: AtomicU64,
    origin: OriginCell,
    inner: OriginCell,
    station: AtomicU64,
    round: AtomicU64,
}

/// What a reader has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// It waits, or is about its own business.
    Idle,
    /// It has ended.
    Over,
    /// It changes from one thing to the next too fast to be seen.
    Blurred,
    Busy(Seen),
}

/// What a loop was seen doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Tells the outermost piece of work from all others of this loop.
    pub(crate) piece: u64,
    pub(crate) outer: (UserCode, Origin),
    /// What runs inside of it, if something does.
    pub(crate) inner: Option<(UserCode, Origin)>,
    /// Where the innermost of both is at.
    pub(crate) station: Option<u64>,
}

/// What the loop was doing before it was told to say something else, to come back to.
#[must_use = "it has to be given back"]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    flags: u64,
    inner: Origin,
    station: u64,
}

/// A piece of work that a loop has begun. When this is dropped it has ended, on unwind too.
#[must_use = "it ends when it is dropped"]
#[derive(Debug)]
pub struct Begun<'a>(&'a Pulse);

impl Drop for Begun<'_> {
    #[inline]
    fn drop(&mut self) {
        let beat = self.0.beat.load(Ordering::Relaxed);
        self.0.beat.store((beat & !FLAGS) | IDLE, Ordering::Relaxed);
    }
}

/// A round of short pieces of work that a loop does one after the other, and nothing else in between. When
/// this is dropped the round has ended, on unwind too.
#[must_use = "it ends when it is dropped"]
#[derive(Debug)]
pub struct BegunRound<'a>(&'a Pulse);

impl Drop for BegunRound<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.count_round();
    }
}

impl Pulse {
    pub(crate) fn new() -> Self {
        let nothing = Origin::labelled("nothing");
        Self {
            beat: AtomicU64::new(IDLE),
            outer: AtomicU64::new(0),
            origin: OriginCell::new(nothing),
            inner: OriginCell::new(nothing),
            station: AtomicU64::new(0),
            round: AtomicU64::new(0),
        }
    }

    /// A round begins. Its pieces of work are [begun](Self::begin) one by one.
    #[inline]
    pub(crate) fn begin_round(&self) -> BegunRound<'_> {
        self.count_round();
        BegunRound(self)
    }

    #[inline]
    fn count_round(&self) {
        self.round.store(self.round.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Returns the number of the round that goes on, if one does. To be called by anyone: the word stands
    /// for itself, so no order with others is needed.
    pub(crate) fn round(&self) -> Option<u64> {
        Some(self.round.load(Ordering::Relaxed)).filter(|round| round % 2 == 1)
    }

    /// A piece of work begins, of which the loop knows that it is about nothing else.
    #[inline]
    pub(crate) fn begin(&self, what: UserCode, origin: Origin) -> Begun<'_> {
        let beat = self.beat.load(Ordering::Relaxed);
        debug_assert!(is_idle(beat), "the piece before has ended");
        self.begin_outermost(next(beat) | code(what), origin);
        Begun(self)
    }

    #[inline]
    fn begin_outermost(&self, beat: u64, origin: Origin) {
        fence(Ordering::Release);
        self.outer.store(beat, Ordering::Relaxed);
        self.origin.set(origin);
        self.beat.store(beat, Ordering::Release);
    }

    /// Something begins, inside of whatever the loop is doing. A station's number is never zero.
    #[inline]
    pub(crate) fn enter(&self, what: UserCode, origin: Origin, station: Option<u64>) -> Before {
        let beat = self.beat.load(Ordering::Relaxed);
        let before = Before {
            flags: beat & FLAGS,
            inner: self.inner.get(),
            station: self.station.load(Ordering::Relaxed),
        };
        let flags = code(what) | if station.is_some() { AT_STATION } else { 0 };
        let number = station.unwrap_or(0);
        if is_idle(beat) {
            fence(Ordering::Release);
            self.station.store(number, Ordering::Relaxed);
            self.begin_outermost(next(beat) | flags, origin);
        } else {
            self.change(beat, flags | NESTED, (origin, number));
        }
        before
    }

    /// It has ended, and the loop goes on with what it did before.
    #[inline]
    pub(crate) fn exit(&self, before: Before) {
        let beat = self.beat.load(Ordering::Relaxed);
        if is_idle(before.flags) {
            self.beat.store((beat & !FLAGS) | before.flags, Ordering::Relaxed);
        } else {
            self.change(beat, before.flags, (before.inner, before.station));
        }
    }

    #[inline]
    fn change(&self, beat: u64, flags: u64, (inner, station): (Origin, u64)) {
        let beat = next(beat);
        self.beat.store(beat | CHANGING, Ordering::Relaxed);
        fence(Ordering::Release);
        self.inner.set(inner);
        self.station.store(station, Ordering::Relaxed);
        self.beat.store(next(beat) | flags, Ordering::Release);
    }

    /// The loop has ended.
    pub(crate) fn stop(&self) {
        let beat = self.beat.load(Ordering::Relaxed);
        self.beat.store((beat & !FLAGS) | OVER, Ordering::Release);
    }

    /// What the loop is doing. To be called by anyone.
    pub(crate) fn look(&self) -> Sight {
        for _ in 0..GLANCES {
            let beat = self.beat.load(Ordering::Acquire);
            match beat & FLAGS {
                IDLE => return Sight::Idle,
                OVER => return Sight::Over,
                CHANGING => {}
                flags => {
                    let piece = self.outer.load(Ordering::Relaxed);
                    let (origin, inner) = (self.origin.get(), self.inner.get());
                    let station = self.station.load(Ordering::Relaxed);
                    fence(Ordering::Acquire);
                    if self.beat.load(Ordering::Relaxed) == beat {
                        return Sight::Busy(Seen {
                            piece,
                            outer: (decode(piece), origin),
                            inner: (flags & NESTED != 0).then(|| (decode(flags), inner)),
                            station: (flags & AT_STATION != 0).then_some(station),
                        });
                    }
                }
            }
            spin_loop();
        }
        Sight::Blurred
    }

    /// The origin of what the loop is doing.
    pub(crate) fn running(&self) -> Option<Origin> {
        match self.look() {
            Sight::Busy(seen) => Some(seen.inner.map_or(seen.outer.1, |(_, origin)| origin)),
            Sight::Idle | Sight::Over | Sight::Blurred => None,
        }
    }
}

fn is_idle(beat: u64) -> bool {
    matches!(beat & FLAGS, IDLE | OVER)
}

/// The next number.
fn next(beat: u64) -> u64 {
    (beat | FLAGS) + 1
}

fn code(what: UserCode) -> u64 {
    what as u64 + FIRST
}

fn decode(flags: u64) -> UserCode {
    let at = (flags & WHAT).saturating_sub(FIRST) as usize;
    UserCode::ALL.get(at).copied().unwrap_or(UserCode::Task)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn busy(pulse: &Pulse) -> Seen {
        match pulse.look() {
            Sight::Busy(seen) => seen,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn o02_every_kind_of_code_comes_back_as_it_was_said() {
        let pulse = Pulse::new();
        let origin = Origin::here();
        for what in UserCode::ALL {
            let begun = pulse.begin(what, origin);
            assert_eq!(busy(&pulse).outer, (what, origin));
            drop(begun);
            assert_eq!(pulse.look(), Sight::Idle);
        }
        assert!(code(UserCode::ALL[UserCode::ALL.len() - 1]) <= WHAT, "there is room for all");
    }

    #[test]
    fn o02_a_round_is_seen_while_it_goes_on_and_each_has_its_number() {
        let pulse = Pulse::new();
        assert_eq!(pulse.round(), None);
        let round = pulse.begin_round();
        let first = pulse.round();
        drop(pulse.begin(UserCode::Callback, Origin::here()));
        assert_eq!((pulse.round(), pulse.look()), (first, Sight::Idle));
        drop(round);
        assert_eq!(pulse.round(), None);
        let _another = pulse.begin_round();
        assert!(pulse.round().is_some() && pulse.round() != first);
    }

    #[test]
    fn o02_what_is_inside_is_named_and_the_outside_comes_back() {
        let pulse = Pulse::new();
        let [task, listener, handler] = ["task", "listener", "handler"].map(Origin::labelled);
        let begun = pulse.begin(UserCode::Task, task);
        let alone = busy(&pulse);
        let in_task = pulse.enter(UserCode::Handler, handler, Some(7));
        let at_station = busy(&pulse);
        assert_eq!(at_station.outer, alone.outer);
        assert_eq!(at_station.inner, Some((UserCode::Handler, handler)));
        assert_eq!((at_station.piece, at_station.station), (alone.piece, Some(7)));
        let in_handler = pulse.enter(UserCode::Listener, listener, None);
        assert_eq!(busy(&pulse).inner, Some((UserCode::Listener, listener)));
        assert_eq!(busy(&pulse).station, None);
        pulse.exit(in_handler);
        assert_eq!(busy(&pulse), at_station);
        pulse.exit(in_task);
        assert_eq!(busy(&pulse), alone);
        drop(begun);
        let _again = pulse.begin(UserCode::Task, task);
        assert_ne!(busy(&pulse).piece, alone.piece, "the same task again is another piece");
    }

    #[test]
    fn o02_outside_of_anything_it_is_the_outermost_itself() {
        let pulse = Pulse::new();
        let handler = Origin::labelled("handler");
        let nothing = pulse.enter(UserCode::Handler, handler, Some(3));
        let alone = busy(&pulse);
        assert_eq!((alone.outer, alone.station), ((UserCode::Handler, handler), Some(3)));
        let inside = pulse.enter(UserCode::Handler, handler, Some(4));
        pulse.exit(inside);
        assert_eq!(busy(&pulse), alone, "with its station");
        pulse.exit(nothing);
        assert_eq!(pulse.look(), Sight::Idle);
        pulse.stop();
        assert_eq!(pulse.look(), Sight::Over);
        let late = pulse.enter(UserCode::Task, handler, None);
        pulse.exit(late);
        assert_eq!(pulse.look(), Sight::Over, "an end is an end");
    }
}
