//! How long the current work has held a loop, and when to report it. Time is an argument.

use std::time::Duration;

use crate::clock::Nanos;
use crate::watchdog::activity_cell::ActivitySnapshot;

/// The state that a watchdog keeps about one loop between two looks.
#[derive(Debug, Default)]
pub(super) struct HoldTracker {
    /// The outermost piece of work at the last look.
    work: Option<TrackedHold>,
    /// The round of events at the last look.
    round: Option<TrackedHold>,
}

/// A piece of work or a round that has held the loop since it was first seen.
#[derive(Debug)]
struct TrackedHold {
    number: u64,
    since: Nanos,
    /// The hold time after which the next report is due.
    next_report: Duration,
    reports: u32,
}

/// The result of one look.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HoldStatus {
    /// Nothing to report.
    Fine,
    /// The work is slow: report it for the nth time.
    Slow { held_for: Duration, nth: u32 },
    /// Work that was reported as slow has ended.
    Ended { held_for: Duration, nth: u32 },
}

impl HoldTracker {
    /// Updates the tracker with one look at the loop. Returns what to report for its piece of work and for its
    /// round of events.
    pub(super) fn observe(
        &mut self,
        (snapshot, round): (&ActivitySnapshot, Option<u64>),
        now: Nanos,
        limit: Duration,
    ) -> [HoldStatus; 2] {
        let piece = match snapshot {
            ActivitySnapshot::Busy(running) => {
                follow(&mut self.work, Some(running.work_id), now, limit)
            }
            ActivitySnapshot::Idle | ActivitySnapshot::Ended => {
                follow(&mut self.work, None, now, limit)
            }
            // The work may or may not be the same: the next look decides.
            ActivitySnapshot::Changing => HoldStatus::Fine,
        };
        // A round is reported only if none of its pieces is: a slow piece is the reason for a slow round.
        let is_blamed = self.work.as_ref().is_some_and(|work| work.reports > 0);
        if let Some(round) = &mut self.round
            && (is_blamed || piece != HoldStatus::Fine)
        {
            round.next_report = round.next_report.max(now.since(round.since).saturating_mul(2));
        }
        [piece, follow(&mut self.round, round, now, limit)]
    }
}

/// Continues with the same piece of work or round, or begins with another one.
fn follow(
    current: &mut Option<TrackedHold>,
    number: Option<u64>,
    now: Nanos,
    limit: Duration,
) -> HoldStatus {
    match current {
        Some(hold) if Some(hold.number) == number => hold.check(now),
        _ => {
            let new = |number| TrackedHold { number, since: now, next_report: limit, reports: 0 };
            let ended = std::mem::replace(current, number.map(new));
            ended.map_or(HoldStatus::Fine, |ended| ended.finish(now))
        }
    }
}

impl TrackedHold {
    fn check(&mut self, now: Nanos) -> HoldStatus {
        let held_for = now.since(self.since);
        if held_for < self.next_report {
            return HoldStatus::Fine;
        }
        self.reports += 1;
        self.next_report = held_for.saturating_mul(2);
        HoldStatus::Slow { held_for, nth: self.reports }
    }

    fn finish(&self, now: Nanos) -> HoldStatus {
        match self.reports {
            0 => HoldStatus::Fine,
            reports => HoldStatus::Ended { held_for: now.since(self.since), nth: reports + 1 },
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::raw::origin::Origin;
    use crate::report::UserCode;
    use crate::watchdog::activity_cell::RunningWork;

    const LIMIT: Duration = Duration::from_nanos(100);

    fn busy(piece: u64) -> ActivitySnapshot {
        let outer = (UserCode::Task, Origin::labelled("busy"));
        ActivitySnapshot::Busy(RunningWork { work_id: piece, outer, inner: None, call_site: None })
    }

    /// Observes the snapshots one after the other, each at its time, without rounds.
    fn looks(looks: &[(u64, ActivitySnapshot)]) -> Vec<HoldStatus> {
        let mut tracker = HoldTracker::default();
        let mut look = |at, snapshot| tracker.observe((snapshot, None), Nanos(at), LIMIT)[0];
        looks.iter().map(|(at, snapshot)| look(*at, snapshot)).collect()
    }

    /// Observes the snapshots one after the other, each at its time and in its round, if any.
    fn rounds(looks: &[(u64, ActivitySnapshot, Option<u64>)]) -> Vec<[HoldStatus; 2]> {
        let mut tracker = HoldTracker::default();
        let mut look = |at, snapshot, round| tracker.observe((snapshot, round), Nanos(at), LIMIT);
        looks.iter().map(|(at, snapshot, round)| look(*at, snapshot, *round)).collect()
    }

    fn slow(nanos: u64, nth: u32) -> HoldStatus {
        HoldStatus::Slow { held_for: Duration::from_nanos(nanos), nth }
    }

    fn ended(nanos: u64, nth: u32) -> HoldStatus {
        HoldStatus::Ended { held_for: Duration::from_nanos(nanos), nth }
    }

    #[test]
    fn o02_slow_work_is_reported_at_the_limit_and_whenever_the_time_has_doubled() {
        let at =
            [1000, 1099, 1100, 1199, 1200, 1399, 1400, 1799, 1800, 3000].map(|at| (at, busy(1)));
        use HoldStatus::Fine;
        let statuses = [Fine, Fine, slow(100, 1), Fine, slow(200, 2), Fine, slow(400, 3), Fine];
        assert_eq!(looks(&at), [&statuses[..], &[slow(800, 4), slow(2000, 5)]].concat());
    }

    #[test]
    fn o02_the_end_of_reported_work_is_reported() {
        let seen = [
            (0, busy(1)),
            (150, busy(1)),
            (170, ActivitySnapshot::Idle),
            (190, ActivitySnapshot::Idle),
        ];
        assert_eq!(looks(&seen), [HoldStatus::Fine, slow(150, 1), ended(170, 2), HoldStatus::Fine]);
        let followed = [(0, busy(1)), (150, busy(1)), (170, busy(2)), (260, busy(2))];
        assert_eq!(
            looks(&followed),
            [HoldStatus::Fine, slow(150, 1), ended(170, 2), HoldStatus::Fine]
        );
        let died = [(0, busy(1)), (150, busy(1)), (170, ActivitySnapshot::Ended)];
        assert_eq!(looks(&died)[2], ended(170, 2));
    }

    #[test]
    fn o02_many_short_pieces_are_not_one_slow_piece() {
        let short = (0..50).map(|at| (at * 90, busy(at))).collect::<Vec<_>>();
        assert!(looks(&short).iter().all(|verdict| *verdict == HoldStatus::Fine));
        let rest = (0..50).map(|at| (at * 90, ActivitySnapshot::Idle)).collect::<Vec<_>>();
        assert!(looks(&rest).iter().all(|verdict| *verdict == HoldStatus::Fine));
        let between = [(0, busy(1)), (90, ActivitySnapshot::Idle), (180, busy(2)), (270, busy(2))];
        assert!(looks(&between).iter().all(|verdict| *verdict == HoldStatus::Fine));
    }

    #[test]
    fn o02_a_failed_read_keeps_the_start_time() {
        let seen = [(0, busy(1)), (150, ActivitySnapshot::Changing), (170, busy(1))];
        assert_eq!(looks(&seen), [HoldStatus::Fine, HoldStatus::Fine, slow(170, 1)]);
    }

    #[test]
    fn o02_a_long_round_of_short_pieces_is_reported() {
        let short = |at| (at, busy(at), Some(1));
        let in_the_driver = (220, ActivitySnapshot::Idle, Some(1));
        let seen =
            [short(0), short(60), short(120), in_the_driver, (230, ActivitySnapshot::Idle, None)];
        let statuses = rounds(&seen).into_iter().map(|[piece, round]| {
            assert_eq!(piece, HoldStatus::Fine);
            round
        });
        use HoldStatus::Fine;
        assert_eq!(statuses.collect::<Vec<_>>(), [Fine, Fine, slow(120, 1), Fine, ended(230, 2)]);
    }

    #[test]
    fn o02_short_rounds_are_not_one_long_round() {
        let seen: Vec<_> = (0..50).map(|at| (at * 90, busy(at), Some(2 * at + 1))).collect();
        assert!(rounds(&seen).iter().all(|statuses| *statuses == [HoldStatus::Fine; 2]));
    }

    #[test]
    fn o02_a_round_is_not_reported_for_one_slow_piece() {
        let slow_piece = |at| (at, busy(1), Some(1));
        let seen = [slow_piece(0), slow_piece(150), slow_piece(200), (210, busy(2), Some(1))];
        let rest = [(250, busy(3), Some(1)), (400, busy(4), Some(1)), (430, busy(5), Some(1))];
        let statuses = rounds(&[&seen[..], &rest[..]].concat());
        let fine = HoldStatus::Fine;
        assert_eq!(
            statuses[..4],
            [[fine, fine], [slow(150, 1), fine], [fine, fine], [ended(210, 2), fine]]
        );
        assert_eq!(
            statuses[4..],
            [[fine, fine], [fine, fine], [fine, slow(430, 1)]],
            "the rest of the round is reported"
        );
    }
}
