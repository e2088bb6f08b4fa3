//! The copy of the stream that a gateway holds: the histories of its topics, within their limits, and the place up to which it
//! has read.
//!
//! All gateways read the whole stream in its order. So a history is answered from memory, the numbers of the stream are the
//! positions, and every gateway evicts by the same rules.

use waterwheel::executor::Nanos;

use super::jetstream::StreamState;
use crate::engine::limits::HistoryLimits;
use crate::engine::local::history::MemoryHistory;
use crate::engine::local::interest::InterestSet;
use crate::engine::position::Position;
use crate::engine::publication::Publication;
use crate::engine::{HistoryPage, HistoryQuery, TopicPage};

use std::sync::Arc;

/// The copy of the stream.
#[derive(Debug)]
pub(in crate::engine::nats) struct StreamLog {
    limits: HistoryLimits,
    history: MemoryHistory,
    pub(in crate::engine::nats) interest: InterestSet,
    /// `None` before the first stream is known.
    epoch: Option<u32>,
    /// The number up to which the stream has to be read before the engine is available.
    target: u64,
    /// True once everything up to the target was read, of this epoch.
    is_loaded: bool,
}

/// A gap that the hub is to be told of: publications after this position may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine::nats) struct GapAfter(pub(in crate::engine::nats) Option<Position>);

impl StreamLog {
    pub(in crate::engine::nats) fn new(limits: HistoryLimits) -> Self {
        Self {
            limits,
            history: MemoryHistory::new(limits, 0),
            interest: InterestSet::default(),
            epoch: None,
            target: 0,
            is_loaded: false,
        }
    }

    /// Returns the position of the last publication that was read.
    pub(in crate::engine::nats) fn last(&self) -> Position {
        self.history.last()
    }

    /// True if this is the epoch of the log.
    pub(in crate::engine::nats) fn is_of(&self, epoch: u32) -> bool {
        self.epoch == Some(epoch)
    }

    /// True if the stream has lost its end: it ends before what was read of it.
    pub(in crate::engine::nats) fn is_ahead_of(&self, epoch: u32, state: StreamState) -> bool {
        self.is_of(epoch) && state.last_seq < self.last().sequence
    }

    /// Takes the state of the stream, after a connection was made or the consumer was lost. Returns the gap, if there is one:
    /// the stream is another one, has lost its end, or begins after what was read.
    pub(in crate::engine::nats) fn attach(
        &mut self,
        epoch: u32,
        state: StreamState,
    ) -> Option<GapAfter> {
        let last = self.last();
        self.target = state.last_seq;
        let begin = state.first_seq.saturating_sub(1);
        let gap = if !self.is_of(epoch) || self.is_ahead_of(epoch, state) {
            let before = self.epoch.map(|_| GapAfter(Some(last)));
            self.restart(epoch);
            self.history.skip_through(begin);
            before
        } else if begin > last.sequence {
            self.history.skip_through(begin);
            Some(GapAfter(Some(last)))
        } else {
            None
        };
        self.note_loaded();
        gap
    }

    /// Begins or goes on without a stream, where nothing tells what was missed. Returns the gap, if there is one.
    pub(in crate::engine::nats) fn attach_plain(&mut self, epoch: u32) -> Option<GapAfter> {
        let last = self.last();
        let is_known = self.epoch.is_some();
        if self.is_of(epoch) {
            // A place for what may have been published meanwhile.
            self.history.skip_through(last.sequence + 1);
        } else {
            self.restart(epoch);
        }
        self.target = 0;
        self.note_loaded();
        is_known.then_some(GapAfter(Some(last)))
    }

    /// Keeps a publication. Returns the gap before it, if there is one.
    pub(in crate::engine::nats) fn append(
        &mut self,
        publication: Arc<Publication>,
        taken: Nanos,
        now: Nanos,
    ) -> Option<GapAfter> {
        let gap = self.gap_before(publication.position.sequence);
        self.history.append_at(publication, taken, now);
        self.note_loaded();
        gap
    }

    /// Notes a number of the stream that has no publication. Returns the gap before it, if there is one.
    pub(in crate::engine::nats) fn pass_over(&mut self, sequence: u64) -> Option<GapAfter> {
        let gap = self.gap_before(sequence);
        self.history.advance_to(sequence);
        self.note_loaded();
        gap
    }

    /// True once everything up to the target was read.
    pub(in crate::engine::nats) fn is_loaded(&self) -> bool {
        self.last().sequence >= self.target && self.epoch.is_some()
    }

    /// Answers a question.
    pub(in crate::engine::nats) fn read(
        &mut self,
        query: &HistoryQuery,
        now: Nanos,
    ) -> HistoryPage {
        self.history.expire(now);
        let mut read = self.history.begin_read(query);
        while !self.history.read_on(&query.filter, &mut read, now) {}
        let has_more = read.cut_to_limit();
        HistoryPage {
            publications: read.found,
            position: read.through,
            has_gap: read.has_gap,
            has_more,
        }
    }

    /// Returns the facts of the first topics.
    pub(in crate::engine::nats) fn facts(&self, limit: usize, now: Nanos) -> TopicPage {
        let (topics, has_more) = self.history.facts(limit, now);
        TopicPage { topics, has_more }
    }

    /// Returns the numbers of topics, of publications and of their bytes.
    pub(in crate::engine::nats) fn totals(&self) -> (usize, usize, usize) {
        self.history.totals()
    }

    /// Numbers that are left out are publications that the stream has evicted. While a stream is read for the first time nobody
    /// has been promised them; the histories of their topics know of them, as the stream holds more of a topic than its history.
    fn gap_before(&self, sequence: u64) -> Option<GapAfter> {
        let last = self.last();
        let has_gap = self.is_loaded && sequence > last.sequence + 1;
        has_gap.then_some(GapAfter(Some(last)))
    }

    fn restart(&mut self, epoch: u32) {
        self.history = MemoryHistory::new(self.limits, epoch);
        self.epoch = Some(epoch);
        self.is_loaded = false;
    }

    fn note_loaded(&mut self) {
        self.is_loaded |= self.is_loaded();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::publication::PublicationPayload;
    use crate::topic::filter::TopicFilter;
    use crate::topic::limits::TopicLimits;
    use crate::topic::name::Topic;

    fn log() -> StreamLog {
        StreamLog::new(HistoryLimits::builder().topic_publications(3).build().unwrap())
    }

    fn append(log: &mut StreamLog, topic: &str, sequence: u64) -> Option<GapAfter> {
        let publication = Publication {
            topic: Topic::parse(topic, &TopicLimits::default()).unwrap(),
            position: Position { sequence, ..log.last() },
            payload: PublicationPayload::Text("x".into()),
            from: None,
            time: 0,
        };
        log.append(Arc::new(publication), Nanos(1), Nanos(1))
    }

    fn read(log: &mut StreamLog, topic: &str, epoch: u32, since: u64) -> (Vec<u64>, bool) {
        let filter = TopicFilter::parse(topic, &TopicLimits::default()).unwrap();
        let since = Some(Position { epoch, sequence: since });
        let page = log.read(&HistoryQuery { filter, since, limit: 100 }, Nanos(1));
        (page.publications.iter().map(|p| p.position.sequence).collect(), page.has_gap)
    }

    fn state(first_seq: u64, last_seq: u64) -> StreamState {
        StreamState { first_seq, last_seq }
    }

    #[test]
    fn g08_a_stream_that_is_read_anew_knows_what_it_has_evicted() {
        let mut log = log();
        // Of topic a, seven were published; the stream holds four, one more than the history.
        assert_eq!(log.attach(5, state(1, 9)), None);
        assert!(!log.is_loaded());
        append(&mut log, "quiet", 1);
        for sequence in 6..=9 {
            assert_eq!(append(&mut log, "a", sequence), None, "the first reading has no gaps");
        }
        assert!(log.is_loaded());
        assert_eq!(read(&mut log, "a", 5, 1), (vec![7, 8, 9], true));
        assert_eq!(read(&mut log, "a", 5, 6), (vec![7, 8, 9], false));
        assert_eq!(read(&mut log, "quiet", 5, 0), (vec![1], false));
    }

    #[test]
    fn g08_what_a_stream_evicted_before_it_was_read_is_a_gap_for_all() {
        let mut log = log();
        log.attach(5, state(4, 4));
        append(&mut log, "a", 4);
        assert_eq!(read(&mut log, "a", 5, 3), (vec![4], false));
        assert_eq!(read(&mut log, "a", 5, 2), (vec![4], true));
        assert_eq!(read(&mut log, "b", 5, 2), (vec![], true), "it may have been in what is lost");
    }

    #[test]
    fn g08_a_connection_that_comes_back_tells_a_gap_only_if_something_is_missing() {
        let mut log = log();
        log.attach(5, state(0, 0));
        append(&mut log, "a", 1);
        append(&mut log, "a", 2);
        let last = GapAfter(Some(log.last()));
        assert_eq!(log.attach(5, state(1, 2)), None);
        assert_eq!(log.attach(5, state(2, 8)), None);
        assert_eq!(append(&mut log, "a", 3), None);
        let third = GapAfter(Some(log.last()));
        assert_eq!(append(&mut log, "a", 5), Some(third), "4 was evicted meanwhile");
        assert_eq!(log.pass_over(6), None);
        let sixth = GapAfter(Some(log.last()));
        assert_eq!(log.attach(5, state(8, 8)), Some(sixth), "7 was evicted");
        assert_eq!(read(&mut log, "a", 5, 6), (vec![], true));
        assert_ne!(last, sixth);
    }

    #[test]
    fn g08_another_stream_and_one_that_lost_its_end_are_read_anew() {
        let mut log = log();
        log.attach(5, state(1, 1));
        append(&mut log, "a", 1);
        append(&mut log, "a", 2);
        let before = GapAfter(Some(log.last()));
        assert_eq!(log.attach(6, state(1, 1)), Some(before));
        append(&mut log, "a", 1);
        assert_eq!(read(&mut log, "a", 5, 2), (vec![1], true), "of another epoch");
        append(&mut log, "a", 2);
        let before = GapAfter(Some(log.last()));
        assert_eq!(log.attach(6, state(1, 1)), Some(before), "the server has lost its newest");
    }

    #[test]
    fn g08_without_a_stream_every_new_connection_is_a_gap() {
        let mut log = log();
        assert_eq!(log.attach_plain(5), None);
        append(&mut log, "a", 1);
        let before = GapAfter(Some(log.last()));
        assert_eq!(log.attach_plain(5), Some(before));
        assert_eq!(read(&mut log, "a", 5, 1), (vec![], true));
        append(&mut log, "a", 3);
        assert_eq!(read(&mut log, "a", 5, 2), (vec![3], false));
    }
}
