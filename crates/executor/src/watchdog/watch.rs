//! What was seen of one loop, and what follows from it. Time is an argument.

use std::time::Duration;

use crate::clock::Nanos;
use crate::watchdog::activity_cell::Sight;

/// What a watchdog remembers of a loop between two looks.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// The outermost piece of work that was there at the last look.
    piece: Option<Held>,
    /// The round of events.
    round: Option<Held>,
}

/// Something that has held the loop since it was first seen.
#[derive(Debug)]
struct Held {
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
    /// The loop was looked at, at its piece of work and at its round of events. What follows for the first
    /// and for the second.
    pub(super) fn look(
        &mut self,
        (sight, round): (&Sight, Option<u64>),
        now: Nanos,
        limit: Duration,
    ) -> [Verdict; 2] {
        let piece = match sight {
            Sight::Busy(seen) => follow(&mut self.piece, Some(seen.piece), now, limit),
            Sight::Idle | Sight::Over => follow(&mut self.piece, None, now, limit),
            // Whether it is the same nobody knows. Next time, then.
            Sight::Blurred => Verdict::Fine,
        };
        // A round is told of if none of its pieces is: one that was has been the reason.
        let is_blamed = self.piece.as_ref().is_some_and(|piece| piece.told > 0);
        if let Some(round) = &mut self.round
            && (is_blamed || piece != Verdict::Fine)
        {
            round.next = round.next.max(now.since(round.since).saturating_mul(2));
        }
        [piece, follow(&mut self.round, round, now, limit)]
    }
}

/// Goes on with what was seen before, or begins with something else.
fn follow(held: &mut Option<Held>, number: Option<u64>, now: Nanos, limit: Duration) -> Verdict {
    match held {
        Some(held) if Some(held.number) == number => held.look(now),
        _ => {
            let new = |number| Held { number, since: now, next: limit, told: 0 };
            let ended = std::mem::replace(held, number.map(new));
            ended.map_or(Verdict::Fine, |ended| ended.end(now))
        }
    }
}

impl Held {
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
    use crate::raw::origin::Origin;
    use crate::report::UserCode;
    use crate::watchdog::activity_cell::Seen;

    const LIMIT: Duration = Duration::from_nanos(100);

    fn busy(piece: u64) -> Sight {
        let outer = (UserCode::Task, Origin::labelled("busy"));
        Sight::Busy(Seen { piece, outer, inner: None, station: None })
    }

    /// Looks in turn, each at a time; there are no rounds.
    fn looks(looks: &[(u64, Sight)]) -> Vec<Verdict> {
        let mut watch = Watch::default();
        let mut look = |at, sight| watch.look((sight, None), Nanos(at), LIMIT)[0];
        looks.iter().map(|(at, sight)| look(*at, sight)).collect()
    }

    /// Looks in turn, at a loop that is in this round, or in none.
    fn rounds(looks: &[(u64, Sight, Option<u64>)]) -> Vec<[Verdict; 2]> {
        let mut watch = Watch::default();
        let mut look = |at, sight, round| watch.look((sight, round), Nanos(at), LIMIT);
        looks.iter().map(|(at, sight, round)| look(*at, sight, *round)).collect()
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

    #[test]
    fn o02_a_round_without_an_end_is_told_though_its_pieces_are_short() {
        let short = |at| (at, busy(at), Some(1));
        let in_the_driver = (220, Sight::Idle, Some(1));
        let seen = [short(0), short(60), short(120), in_the_driver, (230, Sight::Idle, None)];
        let told = rounds(&seen).into_iter().map(|[piece, round]| {
            assert_eq!(piece, Verdict::Fine);
            round
        });
        use Verdict::Fine;
        assert_eq!(told.collect::<Vec<_>>(), [Fine, Fine, slow(120, 1), Fine, over(230, 2)]);
    }

    #[test]
    fn o02_short_rounds_are_no_long_one() {
        let seen: Vec<_> = (0..50).map(|at| (at * 90, busy(at), Some(2 * at + 1))).collect();
        assert!(rounds(&seen).iter().all(|told| *told == [Verdict::Fine; 2]));
    }

    #[test]
    fn o02_a_round_is_not_told_for_the_sake_of_one_slow_piece() {
        let slow_piece = |at| (at, busy(1), Some(1));
        let seen = [slow_piece(0), slow_piece(150), slow_piece(200), (210, busy(2), Some(1))];
        let rest = [(250, busy(3), Some(1)), (400, busy(4), Some(1)), (430, busy(5), Some(1))];
        let told = rounds(&[&seen[..], &rest[..]].concat());
        let fine = Verdict::Fine;
        assert_eq!(
            told[..4],
            [[fine, fine], [slow(150, 1), fine], [fine, fine], [over(210, 2), fine]]
        );
        assert_eq!(
            told[4..],
            [[fine, fine], [fine, fine], [fine, slow(430, 1)]],
            "the rest of it is"
        );
    }
}
