//! A filter: what is subscribed to.

use std::fmt;
use std::sync::Arc;

use super::limits::TopicLimits;
use super::name::{InvalidTopic, SEPARATOR, Topic, check_segments};

/// The wildcard that stands for one segment.
const ANY_SEGMENT: &str = "*";

/// The wildcard that stands for one or more segments at the end.
const ANY_REST: &str = ">";

/// A topic, or a pattern with wildcards that matches topics. A clone shares the text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicFilter {
    text: Arc<str>,
    has_wildcards: bool,
}

impl TopicFilter {
    /// Checks a text and makes it a filter.
    ///
    /// # Errors
    /// The text is no filter, or exceeds a limit.
    pub fn parse(text: &str, limits: &TopicLimits) -> Result<Self, InvalidTopic> {
        let (mut wildcards, mut has_rest) = (0, false);
        check_segments(text, limits, |segment, is_last| {
            wildcards += usize::from(segment == ANY_SEGMENT);
            has_rest |= segment == ANY_REST;
            match segment == ANY_REST && !is_last {
                true => Err(InvalidTopic::RestNotLast),
                false => Ok(()),
            }
        })?;
        match wildcards > limits.max_wildcards {
            true => Err(InvalidTopic::TooManyWildcards { limit: limits.max_wildcards }),
            false => Ok(Self { text: text.into(), has_wildcards: has_rest || wildcards > 0 }),
        }
    }

    /// Returns the filter that matches every topic.
    #[must_use]
    pub fn everything() -> Self {
        Self { text: ANY_REST.into(), has_wildcards: true }
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// True if the filter may match more than one topic.
    #[must_use]
    pub fn has_wildcards(&self) -> bool {
        self.has_wildcards
    }

    /// Returns the segments, in order.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.text.split(SEPARATOR)
    }

    /// True if the filter matches this topic.
    #[must_use]
    pub fn matches(&self, topic: &Topic) -> bool {
        self.covers_segments(topic.as_str())
    }

    /// True if every topic that `other` matches is matched by this filter too.
    #[must_use]
    pub fn covers(&self, other: &TopicFilter) -> bool {
        self.covers_segments(other.as_str())
    }

    fn covers_segments(&self, other: &str) -> bool {
        let mut theirs = other.split(SEPARATOR);
        for own in self.segments() {
            match (own, theirs.next()) {
                (_, None) => return false,
                (ANY_REST, Some(_)) => return true,
                // Also the rest of the other: one segment does not stand for several.
                (_, Some(ANY_REST)) => return false,
                (ANY_SEGMENT, Some(_)) => {}
                (own, Some(their)) if own == their => {}
                _ => return false,
            }
        }
        theirs.next().is_none()
    }
}

impl From<Topic> for TopicFilter {
    fn from(topic: Topic) -> Self {
        Self { text: topic.as_str().into(), has_wildcards: false }
    }
}

impl fmt::Debug for TopicFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.text, f)
    }
}

impl fmt::Display for TopicFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &str) -> TopicFilter {
        TopicFilter::parse(text, &TopicLimits::default()).unwrap()
    }

    #[test]
    fn g02_wildcards_match_one_segment_or_the_rest() {
        let matching = [
            ("a.b", "a.b"),
            ("a.*", "a.b"),
            ("*.b", "a.b"),
            ("*", "a"),
            (">", "a"),
            (">", "a.b.c"),
            ("a.>", "a.b"),
            ("a.>", "a.b.c"),
            ("a.*.>", "a.b.c.d"),
        ];
        let different = [
            ("a.b", "a"),
            ("a.b", "a.b.c"),
            ("a.*", "a"),
            ("a.*", "a.b.c"),
            ("a.>", "a"),
            ("a.>", "b.c"),
            ("a.*.>", "a.b"),
            ("*", "a.b"),
        ];
        let is_match = |of: &str, topic: &str| {
            filter(of).matches(&Topic::parse(topic, &TopicLimits::default()).unwrap())
        };
        for (of, topic) in matching {
            assert!(is_match(of, topic), "{of} {topic}");
        }
        for (of, topic) in different {
            assert!(!is_match(of, topic), "{of} {topic}");
        }
    }

    #[test]
    fn g03_a_filter_covers_what_matches_no_more_than_it() {
        for (wide, narrow) in
            [(">", ">"), (">", "*"), ("a.>", "a.*"), ("a.>", "a.b.>"), ("*.b", "a.b"), ("*", "*")]
        {
            assert!(filter(wide).covers(&filter(narrow)), "{wide} {narrow}");
        }
        for (narrow, wide) in
            [("*", ">"), ("a.*", "a.>"), ("a.b", "a.*"), ("*.b", "*.*"), ("a.b.>", "a.>")]
        {
            assert!(!filter(narrow).covers(&filter(wide)), "{narrow} {wide}");
        }
    }

    #[test]
    fn r04_the_wildcards_of_a_filter_are_limited() {
        let limits = TopicLimits { max_wildcards: 2, ..TopicLimits::default() };
        for accepted in ["*.a.*", "*.*.>", "a.b.c"] {
            assert_eq!(TopicFilter::parse(accepted, &limits).unwrap().as_str(), accepted);
        }
        let refused = Err(InvalidTopic::TooManyWildcards { limit: 2 });
        assert_eq!(TopicFilter::parse("*.a.*.*.b", &limits), refused);
    }

    #[test]
    fn g02_the_rest_is_a_wildcard_at_the_end_only() {
        let parsed = TopicFilter::parse("a.>.b", &TopicLimits::default());
        assert_eq!(parsed, Err(InvalidTopic::RestNotLast));
        assert!(!filter("a*.b").has_wildcards(), "only a whole segment is a wildcard");
    }
}
