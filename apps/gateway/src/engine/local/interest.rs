//! The filters of a gateway, as far as the engine has to know them.

use std::collections::{HashMap, HashSet};

use crate::topic::filter::TopicFilter;
use crate::topic::name::Topic;

/// Tells whether a publication may interest the hub, in constant time whatever the number of filters. Filters with wildcards
/// are known by their first segment only: the hub, which has to find the receivers anyway, gets more than they match, which
/// the contract permits.
#[derive(Debug, Default)]
pub(in crate::engine) struct InterestSet {
    topics: HashSet<Box<str>>,
    /// The number of filters with wildcards, by their first segment.
    first_segments: HashMap<Box<str>, usize>,
    /// The number of filters whose first segment is a wildcard.
    unlimited: usize,
}

impl InterestSet {
    /// Adds a filter.
    pub(in crate::engine) fn insert(&mut self, filter: &TopicFilter) {
        match FilterKind::of(filter) {
            FilterKind::Topic => drop(self.topics.insert(filter.as_str().into())),
            FilterKind::Unlimited => self.unlimited += 1,
            FilterKind::BeginsWith(segment) => {
                *self.first_segments.entry(segment.into()).or_default() += 1;
            }
        }
    }

    /// Removes a filter that was added.
    pub(in crate::engine) fn remove(&mut self, filter: &TopicFilter) {
        match FilterKind::of(filter) {
            FilterKind::Topic => drop(self.topics.remove(filter.as_str())),
            FilterKind::Unlimited => self.unlimited = self.unlimited.saturating_sub(1),
            FilterKind::BeginsWith(segment) => {
                if let Some(count) = self.first_segments.get_mut(segment) {
                    *count -= 1;
                    if *count == 0 {
                        self.first_segments.remove(segment);
                    }
                }
            }
        }
    }

    /// True if a filter may match the topic; false only if none does.
    pub(in crate::engine) fn may_match(&self, topic: &Topic) -> bool {
        if self.unlimited > 0 || self.topics.contains(topic.as_str()) {
            return true;
        }
        !self.first_segments.is_empty()
            && topic.segments().next().is_some_and(|first| self.first_segments.contains_key(first))
    }
}

enum FilterKind<'a> {
    Topic,
    BeginsWith(&'a str),
    Unlimited,
}

impl<'a> FilterKind<'a> {
    fn of(filter: &'a TopicFilter) -> Self {
        match filter.segments().next() {
            _ if !filter.has_wildcards() => Self::Topic,
            Some(first) if first != "*" && first != ">" => Self::BeginsWith(first),
            _ => Self::Unlimited,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topic::limits::TopicLimits;

    fn filter(text: &str) -> TopicFilter {
        TopicFilter::parse(text, &TopicLimits::default()).unwrap()
    }

    fn topic(text: &str) -> Topic {
        Topic::parse(text, &TopicLimits::default()).unwrap()
    }

    #[test]
    fn g08_interest_is_never_denied_to_a_filter_that_matches_and_ends_with_it() {
        let filters = ["a.b", "a", "a.*", "a.>", "*", "*.b", ">"].map(filter);
        let topics = ["a", "b", "a.b", "a.c", "b.b", "a.b.c"].map(topic);
        for added in 0..1_u32 << filters.len() {
            let chosen = || (0..filters.len()).filter(|i| added >> i & 1 == 1).map(|i| &filters[i]);
            let mut interest = InterestSet::default();
            chosen().for_each(|filter| interest.insert(filter));
            for topic in &topics {
                let is_match = chosen().any(|filter| filter.matches(topic));
                assert!(!is_match || interest.may_match(topic), "{added:b} {topic}");
            }
            chosen().for_each(|filter| interest.remove(filter));
            assert!(topics.iter().all(|topic| !interest.may_match(topic)), "{added:b}");
        }
    }

    #[test]
    fn g08_topics_beside_the_first_segments_of_wildcards_are_of_no_interest() {
        let mut interest = InterestSet::default();
        interest.insert(&filter("a.*"));
        interest.insert(&filter("b.c"));
        for (text, is_interesting) in [("a.x", true), ("b.c", true), ("b.x", false), ("c", false)] {
            assert_eq!(interest.may_match(&topic(text)), is_interesting, "{text}");
        }
    }
}
