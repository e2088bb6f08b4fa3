//! `SequenceTracker`: finds what a subscriber did not receive, or received twice.

use std::ops::Range;

use super::ledger::PublicationLedger;
use super::number_ranges::NumberRanges;

/// Maximum number of separate gaps that are remembered. Numbers of further gaps count as lost, even if they come late.
const MAX_GAPS: usize = 4096;

/// The publications of one publisher that one subscriber received, by their numbers. A publisher counts from zero.
#[derive(Clone, Debug)]
pub(crate) struct SequenceTracker {
    /// The first number that the subscriber is to receive; none if the first one that it does receive decides.
    first: Option<u64>,
    next: u64,
    gaps: NumberRanges,
    /// Numbers of gaps beyond [`MAX_GAPS`].
    forgotten: u64,
}

/// How a publication came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The first time, in order.
    InOrder,
    /// The first time, but after a later one of the same publisher.
    OutOfOrder,
    /// Once more.
    Duplicate,
}

impl SequenceTracker {
    /// Returns a tracker for a subscriber that joins after `first` publications.
    pub(crate) fn starting_at(first: u64) -> Self {
        Self { first: Some(first), next: first, gaps: NumberRanges::default(), forgotten: 0 }
    }

    /// Returns a tracker for a subscriber that joins while its publisher publishes.
    pub(crate) fn starting_anywhere() -> Self {
        Self { first: None, ..Self::starting_at(0) }
    }

    /// Notes the publication with this number.
    pub(crate) fn note(&mut self, number: u64) -> Arrival {
        if self.first.is_none() {
            (self.first, self.next) = (Some(number), number);
        }
        if number < self.next {
            return match self.gaps.remove(number) {
                true => Arrival::OutOfOrder,
                false => Arrival::Duplicate,
            };
        }
        let gap = self.next..number;
        if self.gaps.len() < MAX_GAPS {
            self.gaps.push(gap);
        } else {
            self.forgotten += gap.end - gap.start;
        }
        self.next = number + 1;
        Arrival::InOrder
    }

    /// Returns how many publications that the publisher knows to be accepted have not come.
    pub(crate) fn count_lost(&self, ledger: &PublicationLedger) -> u64 {
        self.count_lost_between(ledger) + self.count_awaited(ledger)
    }

    /// Returns how many publications of [`count_lost`](Self::count_lost) come after the last one that was received: those
    /// that may still come.
    pub(crate) fn count_awaited(&self, ledger: &PublicationLedger) -> u64 {
        count_accepted(&(self.next..ledger.sent().max(self.next)), ledger)
    }

    /// Returns how many publications of [`count_lost`](Self::count_lost) came between two others.
    pub(crate) fn count_lost_between(&self, ledger: &PublicationLedger) -> u64 {
        let lost = self.gaps.iter().map(|gap| count_accepted(gap, ledger));
        lost.sum::<u64>() + self.forgotten
    }

    /// Returns how many numbers were received, each counted once.
    pub(crate) fn count_received(&self) -> u64 {
        self.next - self.first.unwrap_or(self.next) - self.gaps.count() - self.forgotten
    }
}

fn count_accepted(range: &Range<u64>, ledger: &PublicationLedger) -> u64 {
    range.end - range.start - ledger.unaccepted().count_within(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(count: u64) -> PublicationLedger {
        let mut ledger = PublicationLedger::default();
        for number in 0..count {
            assert_eq!(ledger.send(), number);
            ledger.answer(number, true);
        }
        ledger
    }

    #[test]
    fn g09_a_stream_without_gaps_has_lost_nothing() {
        let mut tracker = SequenceTracker::starting_at(0);
        for number in 0..100 {
            assert_eq!(tracker.note(number), Arrival::InOrder);
        }
        assert_eq!((tracker.count_lost(&accepted(100)), tracker.count_received()), (0, 100));
    }

    #[test]
    fn g09_gaps_and_a_missing_end_are_lost() {
        let mut tracker = SequenceTracker::starting_at(0);
        for number in [0, 1, 4, 5, 9] {
            assert_eq!(tracker.note(number), Arrival::InOrder);
        }
        assert_eq!(tracker.count_lost(&accepted(12)), 2 + 3 + 2);
        assert_eq!(tracker.count_awaited(&accepted(12)), 2);
        assert_eq!(tracker.count_received(), 5);
    }

    #[test]
    fn g09_a_late_publication_is_out_of_order_and_a_second_one_a_duplicate() {
        let mut tracker = SequenceTracker::starting_at(0);
        tracker.note(0);
        tracker.note(3);
        assert_eq!(tracker.note(1), Arrival::OutOfOrder);
        assert_eq!(tracker.note(1), Arrival::Duplicate);
        assert_eq!(tracker.note(3), Arrival::Duplicate);
        assert_eq!(tracker.count_lost(&accepted(4)), 1, "only number 2");
    }

    #[test]
    fn g09_what_was_not_accepted_is_not_lost() {
        let mut ledger = PublicationLedger::default();
        for _ in 0..6 {
            ledger.send();
        }
        ledger.answer(0, true);
        ledger.answer(1, false);
        ledger.answer(2, true);
        ledger.lose_unanswered();
        let tracker = SequenceTracker::starting_at(0);
        assert_eq!(tracker.count_lost(&ledger), 2, "0 and 2");
    }

    #[test]
    fn g09_a_late_subscriber_counts_from_where_it_joins() {
        let mut tracker = SequenceTracker::starting_at(5);
        tracker.note(5);
        tracker.note(7);
        assert_eq!((tracker.count_lost(&accepted(8)), tracker.count_received()), (1, 2));
        let mut tracker = SequenceTracker::starting_anywhere();
        assert_eq!(tracker.count_received(), 0);
        for number in [5, 7, 4] {
            tracker.note(number);
        }
        let ledger = accepted(20);
        assert_eq!((tracker.count_lost_between(&ledger), tracker.count_lost(&ledger)), (1, 13));
        assert_eq!(tracker.count_received(), 2);
    }

    #[test]
    fn g09_gaps_beyond_the_limit_are_still_counted() {
        let mut tracker = SequenceTracker::starting_at(0);
        let count = MAX_GAPS as u64 + 10;
        for number in 0..count {
            tracker.note(2 * number + 1);
        }
        assert_eq!(tracker.gaps.len(), MAX_GAPS);
        assert_eq!(tracker.count_lost(&accepted(2 * count)), count);
        assert_eq!(tracker.count_received(), count);
    }
}
