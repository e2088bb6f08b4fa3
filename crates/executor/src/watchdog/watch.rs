//! What was seen of one loop, and what follows from it. Time is an argument.

use std::time::Duration;

use crate::clock::Nanos;
use crate::pulse::Sight;

/// What a watchdog remembers of a loop between two looks.
#[derive(Debug, Default)]
pub(super) struct Watch {
    piece: Option<Piece>,
}

/// The outermost piece of work that was there at the last look.
#[derive(Debug)]
struct Piece {
    number: u64,
    since: Nanos,
    /// When it is next to be told of.
    next: Duration,
    told: u32,
}

/// What follows from a look.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// There is nothing to tell.
    Fine,
    /// It is slow; it is told of for the nth time.
    Slow { held_for: Duration, nth: u32 },
    /// What was slow has ended.
    Over { held_for: Duration, nth: u32 },
}

impl Watch {
    /// The loop was looked at.
    pub(super) fn look(&mut self, sight: &Sight, now: Nanos, limit: Duration) -> Verdict {
        let number = match sight {
            Sight::Busy(seen) => Some(seen.piece),
            Sight::Idle | Sight::Over => None,
            // Whether it is the same nobody knows. Next time, then.
            Sight::Blurred => return Verdict::Fine,
        };
        match &mut self.piece {
            Some(piece) if Some(piece.number) == number => piece.look(now),
            _ => {
                let new = |number| Piece { number, since: now, next: limit, told: 0 };
                let ended = std::mem::replace(&mut self.piece, number.map(new));
                ended.map_or(Verdict::Fine, |ended| ended.end(now))
            }
        }
    }
}

impl Piece {
    fn look(&mut self, now: Nanos) -> Verdict {
        let held_for = now.since(self.since);
        if held_for < self.next {
            return Verdict::Fine;
        }
        self.told += 1;
        self.next = held_for.saturating_mul(2);
        Verdict::Slow { held_for, nth: self.told }
    }

    fn end(&self, now: Nanos) -> Verdict {
        match self.told {
            0 => Verdict::Fine,
            told => Verdict::Over { held_for: now.since(self.since), nth: told + 1 },
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::pulse::Seen;
    use crate::raw::origin::Origin;
    use crate::report::UserCode;

    const LIMIT: Duration = Duration::from_nanos(100);

    fn busy(piece: u64) -> Sight {
        let outer = (UserCode::Task, Origin::labelled("busy"));
        Sight::Busy(Seen { piece, outer, inner: None, station: None })
    }

    /// Looks in turn, each at a time.
    fn looks(looks: &[(u64, Sight)]) -> Vec<Verdict> {
        let mut watch = Watch::default();
        looks.iter().map(|(at, sight)| watch.look(sight, Nanos(*at), LIMIT)).collect()
    }

    fn slow(nanos: u64, nth: u32) -> Verdict {
        Verdict::Slow { held_for: Duration::from_nanos(nanos), nth }
    }

    fn over(nanos: u64, nth: u32) -> Verdict {
        Verdict::Over { held_for: Duration::from_nanos(nanos), nth }
    }

    #[test]
    fn o02_it_is_told_at_the_limit_and_whenever_the_time_has_doubled() {
        let at =
            [1000, 1099, 1100, 1199, 1200, 1399, 1400, 1799, 1800, 3000].map(|at| (at, busy(1)));
        use Verdict::Fine;
        let told = [Fine, Fine, slow(100, 1), Fine, slow(200, 2), Fine, slow(400, 3), Fine];
        assert_eq!(looks(&at), [&told[..], &[slow(800, 4), slow(2000, 5)]].concat());
    }

    #[test]
    fn o02_the_end_of_what_was_told_of_is_told() {
        let seen = [(0, busy(1)), (150, busy(1)), (170, Sight::Idle), (190, Sight::Idle)];
        assert_eq!(looks(&seen), [Verdict::Fine, slow(150, 1), over(170, 2), Verdict::Fine]);
        let followed = [(0, busy(1)), (150, busy(1)), (170, busy(2)), (260, busy(2))];
        assert_eq!(looks(&followed), [Verdict::Fine, slow(150, 1), over(170, 2), Verdict::Fine]);
        let died = [(0, busy(1)), (150, busy(1)), (170, Sight::Over)];
        assert_eq!(looks(&died)[2], over(170, 2));
    }

    #[test]
    fn o02_many_short_pieces_and_rest_are_no_long_one() {
        let short = (0..50).map(|at| (at * 90, busy(at))).collect::<Vec<_>>();
        assert!(looks(&short).iter().all(|verdict| *verdict == Verdict::Fine));
        let rest = (0..50).map(|at| (at * 90, Sight::Idle)).collect::<Vec<_>>();
        assert!(looks(&rest).iter().all(|verdict| *verdict == Verdict::Fine));
        let between = [(0, busy(1)), (90, Sight::Idle), (180, busy(2)), (270, busy(2))];
        assert!(looks(&between).iter().all(|verdict| *verdict == Verdict::Fine));
    }

    #[test]
    fn o02_a_blurred_look_forgets_nothing() {
        let seen = [(0, busy(1)), (150, Sight::Blurred), (170, busy(1))];
        assert_eq!(looks(&seen), [Verdict::Fine, Verdict::Fine, slow(170, 1)]);
    }
}
