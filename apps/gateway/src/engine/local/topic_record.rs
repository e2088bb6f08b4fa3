//! A topic with its history.

use std::collections::VecDeque;
use std::sync::Arc;

use waterwheel::executor::Nanos;

use super::rate::RateWindow;
use crate::engine::TopicFacts;
use crate::engine::publication::Publication;
use crate::topic::name::Topic;

/// The bytes that a held publication has besides its payload and user: its struct, the counts before it and its place in the
/// history, rounded up to what an allocator gives.
const HELD_OVERHEAD: usize = 192;

/// A topic: its publications in the order of their positions, and its numbers.
#[derive(Debug)]
pub(super) struct TopicRecord {
    pub(super) topic: Topic,
    /// The last publication, held or not.
    pub(super) newest: u64,
    /// Everything up to here is missing from the history; it may be older than the record.
    missing_through: u64,
    held: VecDeque<HeldPublication>,
    bytes: usize,
    published: u64,
    rate: RateWindow,
}

/// A publication in a history, and the time when it came in.
#[derive(Debug)]
struct HeldPublication {
    publication: Arc<Publication>,
    taken: Nanos,
}

impl HeldPublication {
    fn sequence(&self) -> u64 {
        self.publication.position.sequence
    }
}

/// Returns the bytes that a publication counts in a history.
pub(super) fn held_bytes(publication: &Publication) -> usize {
    let from = publication.from.as_ref().map_or(0, |from| from.len());
    publication.payload.len() + from + HELD_OVERHEAD
}

impl TopicRecord {
    /// Creates a record without publications; up to `missing_through`, there may have been some in a record before it.
    pub(super) fn new(topic: Topic, missing_through: u64) -> Self {
        Self {
            topic,
            newest: 0,
            missing_through,
            held: VecDeque::new(),
            bytes: 0,
            published: 0,
            rate: RateWindow::default(),
        }
    }

    /// Appends a publication.
    pub(super) fn push(&mut self, publication: Arc<Publication>, taken: Nanos) {
        self.newest = publication.position.sequence;
        self.published += 1;
        self.rate.count(taken);
        self.bytes += held_bytes(&publication);
        self.held.push_back(HeldPublication { publication, taken });
    }

    /// Removes the oldest publication, and returns it.
    pub(super) fn evict_oldest(&mut self) -> Option<Arc<Publication>> {
        let oldest = self.held.pop_front()?;
        self.missing_through = oldest.sequence();
        self.bytes -= held_bytes(&oldest.publication);
        if self.held.len() * 4 < self.held.capacity() {
            self.held.shrink_to(self.held.len() * 2);
        }
        Some(oldest.publication)
    }

    /// Returns the sequence and the time of the oldest publication.
    pub(super) fn oldest(&self) -> Option<(u64, Nanos)> {
        self.held.front().map(|oldest| (oldest.sequence(), oldest.taken))
    }

    /// Returns the number of publications.
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// Returns the bytes of the publications.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns publications after `since` and up to `through`, at most `limit`, leaving out those that came in before
    /// `cutoff`. The second value is true if some after `since` are missing.
    pub(super) fn read(
        &self,
        (since, through): (u64, u64),
        cutoff: Nanos,
        limit: usize,
    ) -> (impl Iterator<Item = &Arc<Publication>>, bool) {
        let valid = self.held.partition_point(|held| held.taken < cutoff);
        let missing = match valid {
            0 => self.missing_through,
            _ => self.held[valid - 1].sequence(),
        };
        let first = valid.max(self.held.partition_point(|held| held.sequence() <= since));
        let publications = self.held.range(first..).map(|held| &held.publication);
        let until = publications.take_while(move |p| p.position.sequence <= through);
        (until.take(limit), missing > since)
    }

    /// Returns the facts of the topic.
    pub(super) fn facts(&self, now: Nanos, cutoff: Nanos) -> TopicFacts {
        let valid = self.held.partition_point(|held| held.taken < cutoff);
        TopicFacts {
            topic: self.topic.clone(),
            published: self.published,
            history: self.held.len() - valid,
            rate: self.rate.per_second(now),
        }
    }
}
