//! How far a gateway has handed on what Redis publishes.

use crate::engine::position::Position;

/// The place up to which the sink has everything.
///
/// Messages of a connection come in the order of their sequences, and before the answer to any call that was made after
/// they were published. So an answer that has a sequence says that everything up to there was handed on.
#[derive(Debug, Default)]
pub(super) struct SinkProgress {
    epoch: Option<u32>,
    /// Everything up to here was handed on, or the sink was told of a gap.
    handed: u64,
    /// The greatest sequence that an answer or a message has had.
    known: u64,
    /// The number of the last change of presence.
    presence: u64,
}

/// A place after which publications may be missing, to be told to the sink before anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MissedSince(pub(super) Option<Position>);

impl SinkProgress {
    /// Returns the epoch and the greatest sequence that is known of it.
    pub(super) fn known(&self) -> Option<Position> {
        self.epoch.map(|epoch| Position { epoch, sequence: self.known })
    }

    /// Notes a new connection, and the last position at that time. Returns what the sink is to be told, unless this is the
    /// first connection.
    pub(super) fn on_connected(&mut self, last: Position) -> Option<MissedSince> {
        let before = self.epoch.map(|epoch| Position { epoch, sequence: self.handed });
        self.move_to(last);
        before.map(|before| MissedSince(Some(before)))
    }

    /// Notes the position of an answer. Returns what the sink is to be told, if the epoch is a new one.
    pub(super) fn on_answer(&mut self, last: Position) -> Option<MissedSince> {
        if self.epoch != Some(last.epoch) {
            return self.on_connected(last);
        }
        self.handed = self.handed.max(last.sequence);
        self.known = self.known.max(last.sequence);
        None
    }

    /// Notes the position of a publication of this gateway that Redis has acknowledged. Its message may come later.
    pub(super) fn on_acknowledged(&mut self, position: Position) {
        if self.epoch == Some(position.epoch) {
            self.known = self.known.max(position.sequence);
        }
    }

    /// Notes a publication that has come. Returns what the sink is to be told first, and whether the publication is to be
    /// handed on: with overlapping filters it comes several times.
    pub(super) fn on_publication(&mut self, position: Position) -> (Option<MissedSince>, bool) {
        let mut missed = None;
        if self.epoch != Some(position.epoch) {
            // The data were lost while the connection stayed: FLUSHALL.
            missed = self.on_connected(Position { sequence: 0, ..position });
        }
        let is_new = position.sequence > self.handed;
        self.handed = self.handed.max(position.sequence);
        self.known = self.known.max(position.sequence);
        (missed, is_new)
    }

    /// Notes a change of presence that has come. Returns true if it is to be handed on.
    pub(super) fn on_presence(&mut self, place: Position) -> bool {
        if self.epoch != Some(place.epoch) {
            return true; // The next publication or answer notes the new epoch.
        }
        let is_new = place.sequence > self.presence;
        self.presence = self.presence.max(place.sequence);
        is_new
    }

    fn move_to(&mut self, last: Position) {
        if self.epoch != Some(last.epoch) {
            *self = Self { epoch: Some(last.epoch), ..Self::default() };
        }
        self.handed = self.handed.max(last.sequence);
        self.known = self.known.max(last.sequence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(epoch: u32, sequence: u64) -> Position {
        Position { epoch, sequence }
    }

    #[test]
    fn g08_a_publication_is_handed_on_once_and_in_order() {
        let mut progress = SinkProgress::default();
        assert_eq!(progress.on_connected(at(1, 10)), None, "the first connection");
        assert_eq!(progress.on_publication(at(1, 10)), (None, false));
        assert_eq!(progress.on_publication(at(1, 11)), (None, true));
        assert_eq!(progress.on_publication(at(1, 11)), (None, false), "of another filter");
        assert_eq!(progress.on_publication(at(1, 15)), (None, true));
        assert_eq!(progress.on_connected(at(1, 20)), Some(MissedSince(Some(at(1, 15)))));
        assert_eq!(progress.on_answer(at(1, 25)), None);
        assert_eq!(progress.on_connected(at(1, 30)), Some(MissedSince(Some(at(1, 25)))));
    }

    #[test]
    fn g08_an_acknowledgement_is_known_but_not_handed_on() {
        let mut progress = SinkProgress::default();
        progress.on_connected(at(1, 10));
        progress.on_acknowledged(at(1, 12));
        assert_eq!(progress.known(), Some(at(1, 12)));
        assert_eq!(progress.on_connected(at(1, 12)), Some(MissedSince(Some(at(1, 10)))));
    }

    #[test]
    fn g08_a_new_epoch_is_told_whoever_sees_it_first() {
        let mut progress = SinkProgress::default();
        progress.on_connected(at(1, 10));
        assert_eq!(progress.on_publication(at(2, 5)), (Some(MissedSince(Some(at(1, 10)))), true));
        assert_eq!(progress.on_answer(at(3, 7)), Some(MissedSince(Some(at(2, 5)))));
        assert_eq!(progress.on_publication(at(3, 7)), (None, false));
    }

    #[test]
    fn g08_changes_of_presence_are_handed_on_once() {
        let mut progress = SinkProgress::default();
        progress.on_connected(at(1, 10));
        assert!(progress.on_presence(at(1, 1)));
        assert!(!progress.on_presence(at(1, 1)));
        assert!(progress.on_presence(at(1, 2)));
        progress.on_connected(at(2, 10));
        assert!(progress.on_presence(at(2, 1)), "another count");
    }
}
