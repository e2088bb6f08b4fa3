//! `PublicationLedger`: what a publisher sent, and what became of it.

use super::number_ranges::NumberRanges;

/// The publications of one publisher, by their numbers, which are also the ids of its commands. Answers come in the order
/// of commands.
#[derive(Clone, Debug, Default)]
pub(crate) struct PublicationLedger {
    sent: u64,
    answered: u64,
    accepted: u64,
    refused: u64,
    /// Numbers without a position as answer: refused, or unanswered when the connection was lost. A subscriber need not
    /// receive them.
    unaccepted: NumberRanges,
}

impl PublicationLedger {
    /// Returns the number of the next publication, which is about to be sent.
    pub(crate) fn send(&mut self) -> u64 {
        self.sent += 1;
        self.sent - 1
    }

    /// Notes an answer. Returns false if it is not that of the next unanswered publication.
    pub(crate) fn answer(&mut self, number: u64, is_accepted: bool) -> bool {
        if number != self.answered || number >= self.sent {
            return false;
        }
        self.answered += 1;
        if is_accepted {
            self.accepted += 1;
        } else {
            self.refused += 1;
            self.unaccepted.push(number..number + 1);
        }
        true
    }

    /// Notes that the connection was lost: unanswered publications may have been accepted, or not.
    pub(crate) fn lose_unanswered(&mut self) {
        self.unaccepted.push(self.answered..self.sent);
        self.answered = self.sent;
    }

    /// Returns how many were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns how many were answered with a position.
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Returns how many were refused with an error.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns how many wait for their answer.
    pub(crate) fn unanswered(&self) -> u64 {
        self.sent - self.answered
    }

    /// Returns the numbers that a subscriber need not receive.
    pub(crate) fn unaccepted(&self) -> &NumberRanges {
        &self.unaccepted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g09_answers_are_counted_in_their_order() {
        let mut ledger = PublicationLedger::default();
        assert!(!ledger.answer(0, true), "nothing was sent");
        assert_eq!((ledger.send(), ledger.send(), ledger.send()), (0, 1, 2));
        assert!(ledger.answer(0, true));
        assert!(!ledger.answer(2, true), "1 comes first");
        assert!(ledger.answer(1, false));
        assert_eq!((ledger.accepted(), ledger.refused(), ledger.unanswered()), (1, 1, 1));
        ledger.lose_unanswered();
        assert_eq!((ledger.unanswered(), ledger.unaccepted().count()), (0, 2));
    }
}
