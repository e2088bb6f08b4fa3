//! The histories of all topics, within their limits.
//!
//! A publication leaves the history of its topic when that exceeds its number or bytes, or when the publication is too old.
//! While all histories together exceed their bytes, the oldest publication of all is evicted. A topic beyond the limit of
//! topics replaces the one that was published to the longest ago, which is forgotten with its history. Of forgotten topics one
//! number is kept, up to which something may be missing: so a gap may be told of a topic that has none, never the reverse.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use waterwheel::executor::Nanos;

use super::topic_record::{TopicRecord, held_bytes};
use crate::engine::limits::HistoryLimits;
use crate::engine::position::Position;
use crate::engine::publication::{NewPublication, Publication};
use crate::engine::{HistoryQuery, TopicFacts};
use crate::topic::filter::TopicFilter;
use crate::topic::name::Topic;

/// Publications that one call evicts because of their age. What is left is hidden from readers, and evicted by later calls.
const EXPIRED_PER_CALL: usize = 256;

/// Topics that one step of reading with wildcards looks at: some 20 µs.
const TOPICS_PER_STEP: usize = 256;

/// Publications after which a step ends, once its topic is read: some 20 µs.
const PUBLICATIONS_PER_STEP: usize = 1_024;

/// The place of a record.
type RecordIndex = u32;

/// The histories of all topics.
#[derive(Debug)]
pub(in crate::engine) struct MemoryHistory {
    limits: HistoryLimits,
    last: Position,
    records: Vec<Option<TopicRecord>>,
    free: Vec<RecordIndex>,
    by_topic: HashMap<Topic, RecordIndex>,
    by_name: BTreeMap<Topic, RecordIndex>,
    /// By the oldest publication that is held.
    by_oldest: BTreeMap<u64, RecordIndex>,
    /// By the last publication.
    by_newest: BTreeMap<u64, RecordIndex>,
    held: usize,
    bytes: usize,
    forgotten_through: u64,
    /// Everything up to here may be missing, of any topic.
    lost_through: u64,
}

/// A question to the history while it is answered.
#[derive(Debug)]
pub(in crate::engine) struct HistoryRead {
    /// The last position when the question was asked.
    pub(in crate::engine) through: Position,
    /// True if something that was asked for is missing.
    pub(in crate::engine) has_gap: bool,
    /// The publications so far: one more than the limit, if there are as many.
    pub(in crate::engine) found: Vec<Arc<Publication>>,
    since: u64,
    /// Publications after this one are beyond the limit, or came in after the question.
    until: u64,
    is_gap_of_interest: bool,
    limit: usize,
    next_topic: Option<Topic>,
}

impl MemoryHistory {
    pub(in crate::engine) fn new(limits: HistoryLimits, epoch: u32) -> Self {
        Self {
            limits,
            last: Position { epoch, sequence: 0 },
            records: Vec::new(),
            free: Vec::new(),
            by_topic: HashMap::new(),
            by_name: BTreeMap::new(),
            by_oldest: BTreeMap::new(),
            by_newest: BTreeMap::new(),
            held: 0,
            bytes: 0,
            forgotten_through: 0,
            lost_through: 0,
        }
    }

    /// Returns the position of the last publication.
    pub(in crate::engine) fn last(&self) -> Position {
        self.last
    }

    /// Gives a publication its position, and keeps it within the limits.
    pub(in crate::engine) fn append(
        &mut self,
        new: NewPublication,
        now: Nanos,
    ) -> Arc<Publication> {
        let NewPublication { topic, payload, from, time } = new;
        let position = Position { sequence: self.last.sequence + 1, ..self.last };
        let publication = Arc::new(Publication { topic, position, payload, from, time });
        self.append_at(Arc::clone(&publication), now, now);
        publication
    }

    /// Keeps a publication whose position, after the last one and of the same epoch, was given elsewhere, within the limits.
    /// `taken` is when it was published.
    pub(in crate::engine) fn append_at(
        &mut self,
        publication: Arc<Publication>,
        taken: Nanos,
        now: Nanos,
    ) {
        let position = publication.position;
        let index = self.record_for(&publication.topic);
        self.last = position;
        let record = record_at(&mut self.records, index);
        self.by_newest.remove(&record.newest);
        self.by_newest.insert(position.sequence, index);
        if record.oldest().is_none() {
            self.by_oldest.insert(position.sequence, index);
        }
        self.held += 1;
        self.bytes += held_bytes(&publication);
        record.push(publication, taken);
        let limits = self.limits;
        while let Some(record) = &self.records[index as usize]
            && (record.len() > limits.topic_publications || record.bytes() > limits.topic_bytes)
        {
            self.evict_oldest_of(index);
        }
        while self.bytes > limits.total_bytes
            && let Some(&index) = self.by_oldest.values().next()
        {
            self.evict_oldest_of(index);
        }
        self.expire(now);
    }

    /// Notes that the sequences up to this one are given, to something that is not kept.
    pub(in crate::engine) fn advance_to(&mut self, sequence: u64) {
        self.last.sequence = self.last.sequence.max(sequence);
    }

    /// Notes that publications up to a sequence may be missing, whatever their topics. The next one follows it.
    pub(in crate::engine) fn skip_through(&mut self, sequence: u64) {
        self.advance_to(sequence);
        self.lost_through = self.lost_through.max(sequence);
    }

    /// Evicts publications that are too old.
    pub(in crate::engine) fn expire(&mut self, now: Nanos) {
        let cutoff = self.cutoff(now);
        for _ in 0..EXPIRED_PER_CALL {
            let Some(&index) = self.by_oldest.values().next() else {
                return;
            };
            match record_at(&mut self.records, index).oldest() {
                Some((_, taken)) if taken < cutoff => self.evict_oldest_of(index),
                _ => return,
            }
        }
    }

    /// Begins to answer a question; [`read_on`](Self::read_on) goes on.
    pub(in crate::engine) fn begin_read(&self, query: &HistoryQuery) -> HistoryRead {
        // A position that was not given yet is of another epoch that happens to have the same number.
        let known = query
            .since
            .filter(|since| since.epoch == self.last.epoch && since.sequence <= self.last.sequence);
        HistoryRead {
            through: self.last,
            has_gap: query
                .since
                .is_some_and(|since| known.is_none() || since.sequence < self.lost_through),
            found: Vec::new(),
            since: known.map_or(0, |since| since.sequence),
            until: self.last.sequence,
            is_gap_of_interest: query.since.is_some(),
            limit: query.limit,
            next_topic: None,
        }
    }

    /// Answers a part of a question. Returns true when all is answered. Between two calls, other threads may publish.
    pub(in crate::engine) fn read_on(
        &self,
        filter: &TopicFilter,
        read: &mut HistoryRead,
        now: Nanos,
    ) -> bool {
        let cutoff = self.cutoff(now);
        if !filter.has_wildcards() {
            match self.by_topic.get(filter.as_str()) {
                Some(&index) => _ = self.read_topic(index, read, cutoff),
                None => read.note_missing(self.forgotten_through > read.since),
            }
            return true;
        }
        read.note_missing(self.forgotten_through > read.since);
        let prefix = literal_prefix(filter);
        let begin = match &read.next_topic {
            Some(next) => Bound::Included(next.as_str()),
            None => Bound::Included(prefix),
        };
        let in_order = self.by_name.range::<str, _>((begin, Bound::Unbounded));
        let mut in_range = in_order.take_while(|(topic, _)| topic.as_str().starts_with(prefix));
        let mut found = 0;
        for (topic, &index) in in_range.by_ref().take(TOPICS_PER_STEP) {
            if filter.matches(topic) {
                found += self.read_topic(index, read, cutoff);
            }
            if found >= PUBLICATIONS_PER_STEP {
                break;
            }
        }
        read.next_topic = in_range.next().map(|(topic, _)| topic.clone());
        read.next_topic.is_none()
    }

    /// Returns the facts of the first topics, and whether there are more.
    pub(in crate::engine) fn facts(&self, limit: usize, now: Nanos) -> (Vec<TopicFacts>, bool) {
        let cutoff = self.cutoff(now);
        let records = self.by_name.values().filter_map(|&index| self.record(index));
        let facts = records.take(limit).map(|record| record.facts(now, cutoff)).collect();
        (facts, self.by_name.len() > limit)
    }

    /// Returns the numbers of topics, of publications and of their bytes.
    pub(in crate::engine) fn totals(&self) -> (usize, usize, usize) {
        (self.by_topic.len(), self.held, self.bytes)
    }

    /// Reads a topic. Returns the number of publications that were found.
    fn read_topic(&self, index: RecordIndex, read: &mut HistoryRead, cutoff: Nanos) -> usize {
        let Some(record) = self.record(index) else { return 0 };
        let before = read.found.len();
        let range = (read.since, read.until);
        let (publications, is_missing) = record.read(range, cutoff, read.limit.saturating_add(1));
        read.found.extend(publications.cloned());
        let found = read.found.len() - before;
        read.note_missing(is_missing);
        read.keep_oldest();
        found
    }

    fn record_for(&mut self, topic: &Topic) -> RecordIndex {
        if let Some(&index) = self.by_topic.get(topic) {
            return index;
        }
        while self.by_topic.len() >= self.limits.topics
            && let Some((_, index)) = self.by_newest.pop_first()
        {
            self.forget(index);
        }
        let record = TopicRecord::new(topic.clone(), self.forgotten_through);
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.records.push(None);
                // The limit of topics is in memory long before their number exceeds 32 bits.
                RecordIndex::try_from(self.records.len() - 1).expect("fewer than 2^32 topics")
            }
        };
        self.records[index as usize] = Some(record);
        self.by_topic.insert(topic.clone(), index);
        self.by_name.insert(topic.clone(), index);
        index
    }

    fn forget(&mut self, index: RecordIndex) {
        let Some(record) = self.records[index as usize].take() else { return };
        if let Some((oldest, _)) = record.oldest() {
            self.by_oldest.remove(&oldest);
        }
        self.by_topic.remove(&record.topic);
        self.by_name.remove(&record.topic);
        self.free.push(index);
        self.held -= record.len();
        self.bytes -= record.bytes();
        self.forgotten_through = self.forgotten_through.max(record.newest);
    }

    fn evict_oldest_of(&mut self, index: RecordIndex) {
        let record = record_at(&mut self.records, index);
        let Some(evicted) = record.evict_oldest() else { return };
        self.by_oldest.remove(&evicted.position.sequence);
        if let Some((oldest, _)) = record.oldest() {
            self.by_oldest.insert(oldest, index);
        }
        self.held -= 1;
        self.bytes -= held_bytes(&evicted);
    }

    fn record(&self, index: RecordIndex) -> Option<&TopicRecord> {
        self.records[index as usize].as_ref()
    }

    /// Returns the time before which publications are too old.
    fn cutoff(&self, now: Nanos) -> Nanos {
        let age = u64::try_from(self.limits.max_age.as_nanos()).unwrap_or(u64::MAX);
        Nanos(now.0.saturating_sub(age))
    }
}

impl HistoryRead {
    /// Removes the publication beyond the limit. Returns true if there was one.
    pub(in crate::engine) fn cut_to_limit(&mut self) -> bool {
        self.found.sort_unstable_by_key(|publication| publication.position.sequence);
        let has_more = self.found.len() > self.limit;
        self.found.truncate(self.limit);
        has_more
    }

    fn note_missing(&mut self, is_missing: bool) {
        self.has_gap |= is_missing && self.is_gap_of_interest;
    }

    /// Drops what is certainly beyond the limit, now and then, and reads no more of it in other topics.
    fn keep_oldest(&mut self) {
        let wanted = self.limit.saturating_add(1);
        if self.found.len() > wanted.saturating_mul(2) {
            self.found.sort_unstable_by_key(|publication| publication.position.sequence);
            self.found.truncate(wanted);
            self.until = self.found.last().map_or(self.until, |last| last.position.sequence);
        }
    }
}

fn record_at(records: &mut [Option<TopicRecord>], index: RecordIndex) -> &mut TopicRecord {
    records[index as usize].as_mut().expect("the indexes name records that exist")
}

/// Returns the text with which all topics begin that a filter matches.
fn literal_prefix(filter: &TopicFilter) -> &str {
    let text = filter.as_str();
    let literal: usize = filter
        .segments()
        .take_while(|segment| *segment != "*" && *segment != ">")
        .map(|segment| segment.len() + 1)
        .sum();
    &text[..literal.min(text.len())]
}
