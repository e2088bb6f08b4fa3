//! Questions to the history, and about topics.
//!
//! A question is answered in parts, between which Redis does other work. The first part fixes the position up to which is read;
//! a part says if something that it was to read has left the history meanwhile.

use std::sync::Arc;

use super::limits::{HISTORY_BYTES_PER_CALL, HISTORY_PER_CALL, TOPICS_PER_CALL};
use super::scripts::RedisScript;
use super::scripts::error_reply::unavailable;
use super::scripts::message::{decode_entry, decode_topic};
use super::scripts::reply::ReplyValues;
use super::shared::RedisShared;
use crate::engine::position::Position;
use crate::engine::publication::Publication;
use crate::engine::{EngineError, HistoryPage, HistoryQuery, TopicFacts, TopicPage};
use crate::topic::filter::TopicFilter;

/// A question while it is answered.
struct StreamRead {
    query: HistoryQuery,
    /// The position when the question was asked.
    asked_at: Option<Position>,
    /// The sequence after which to read.
    since: u64,
    /// The sequence up to which to read: less when as many are found as are wanted.
    through: u64,
    found: Vec<Arc<Publication>>,
    has_gap: bool,
    next_topic: String,
    next_sequence: u64,
}

impl RedisShared {
    /// Answers a question to the history.
    pub(super) async fn history(
        self: Arc<Self>,
        query: HistoryQuery,
    ) -> Result<HistoryPage, EngineError> {
        let since = query.since.map_or(0, |since| since.sequence);
        let mut read = StreamRead {
            query,
            asked_at: None,
            since,
            through: 0,
            found: Vec::new(),
            has_gap: false,
            next_topic: String::new(),
            next_sequence: 0,
        };
        loop {
            let answer = self.read_part(&read).await?;
            if read.take_part(ReplyValues::of(answer)?)? {
                return Ok(read.into_page());
            }
        }
    }

    async fn read_part(
        self: &Arc<Self>,
        read: &StreamRead,
    ) -> Result<waterwheel::codec::RespValue, EngineError> {
        let filter = &read.query.filter;
        let flag = |is_set: bool| if is_set { "1" } else { "" };
        let through = match read.asked_at {
            Some(_) => read.through.to_string(),
            None => String::new(),
        };
        let count = HISTORY_PER_CALL.min(read.wanted()).to_string();
        let arguments = [
            filter.as_str(),
            flag(filter.has_wildcards()),
            literal_prefix(filter),
            flag(read.query.since.is_some()),
            &read.since.to_string(),
            &through,
            &count,
            &HISTORY_BYTES_PER_CALL.to_string(),
            &millis_of(self.limits.max_age),
            &read.next_topic,
            &read.next_sequence.to_string(),
        ];
        let arguments = arguments.map(str::as_bytes);
        self.read(RedisScript::History, &arguments).await
    }

    /// Tells what is known of topics.
    pub(super) async fn topics(self: Arc<Self>, limit: usize) -> Result<TopicPage, EngineError> {
        let mut page = TopicPage::default();
        let mut after = String::new();
        let age = millis_of(self.limits.max_age);
        loop {
            let count = TOPICS_PER_CALL.min(limit - page.topics.len()).max(1);
            let arguments =
                [after.as_str(), &count.to_string(), &age].map(|text| text.as_bytes().to_vec());
            let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
            let answer = self.read(RedisScript::Topics, &arguments).await?;
            let mut values = ReplyValues::of(answer)?;
            after = values.text()?;
            while !values.is_empty() {
                let topic = decode_topic(&values.bytes()?);
                let facts = TopicFacts {
                    topic: topic.ok_or_else(|| unavailable("a name in Redis is no topic"))?,
                    published: values.number()?,
                    history: usize::try_from(values.number()?).unwrap_or(usize::MAX),
                    rate: values.text()?.parse().unwrap_or(0.0),
                };
                if page.topics.len() == limit {
                    page.has_more = true; // Only with a limit of 0.
                    return Ok(page);
                }
                page.topics.push(facts);
            }
            if after.is_empty() || page.topics.len() >= limit {
                page.has_more = !after.is_empty();
                return Ok(page);
            }
        }
    }
}

impl StreamRead {
    /// Returns the number of publications that decide the answer: one more than the limit tells that there are more.
    fn wanted(&self) -> usize {
        self.query.limit.saturating_add(1)
    }

    /// Takes a part of the answer. Returns true if it was the last one.
    fn take_part(&mut self, mut values: ReplyValues) -> Result<bool, EngineError> {
        let last = values.position()?;
        let is_missing = values.number()? == 1;
        self.next_topic = values.text()?;
        self.next_sequence = values.number()?;
        let asked_at = *self.asked_at.get_or_insert(last);
        if asked_at.epoch != last.epoch {
            return Err(unavailable("the data were lost while the history was read"));
        }
        if self.through == 0 {
            self.through = asked_at.sequence;
            let is_known =
                |since: Position| since.epoch == last.epoch && since.sequence <= last.sequence;
            if let Some(since) = self.query.since
                && !is_known(since)
            {
                // A position of another epoch, or of data that are lost: everything follows, from the oldest on.
                self.has_gap = true;
                let is_repeated = std::mem::replace(&mut self.since, 0) > 0;
                if is_repeated {
                    self.next_topic.clear();
                    self.next_sequence = 0;
                    return Ok(false);
                }
            }
        }
        self.has_gap |= is_missing;
        while !values.is_empty() {
            let topic = decode_topic(&values.bytes()?);
            let position = Position { epoch: last.epoch, sequence: values.number()? };
            let entry = values.bytes()?;
            let publication = topic.and_then(|topic| decode_entry(&entry, topic, position));
            let publication =
                publication.ok_or_else(|| unavailable("an entry of a stream has another form"))?;
            self.found.push(Arc::new(publication));
        }
        self.keep_oldest();
        Ok(self.next_topic.is_empty())
    }

    /// Drops what is beyond the limit, and reads no further than that from then on.
    fn keep_oldest(&mut self) {
        let wanted = self.wanted();
        if self.found.len() >= wanted {
            self.found.sort_unstable_by_key(|publication| publication.position.sequence);
            self.found.truncate(wanted);
            if let Some(last) = self.found.last() {
                self.through = self.through.min(last.position.sequence);
            }
        }
    }

    fn into_page(mut self) -> HistoryPage {
        self.found.sort_unstable_by_key(|publication| publication.position.sequence);
        let has_more = self.found.len() > self.query.limit;
        self.found.truncate(self.query.limit);
        let position = self.asked_at.unwrap_or(Position { epoch: 0, sequence: 0 });
        HistoryPage { publications: self.found, position, has_gap: self.has_gap, has_more }
    }
}

/// Returns a time in milliseconds, as the scripts take it. The longest one keeps its sum with the present time exact.
pub(super) fn millis_of(time: std::time::Duration) -> String {
    const LONGEST: u128 = 1 << 50;
    time.as_millis().min(LONGEST).to_string()
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
