//! A topic: what is published to.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use super::limits::TopicLimits;

/// The separator of segments.
pub(super) const SEPARATOR: char = '.';

/// The name of a topic, without wildcards. A clone shares the text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic(Arc<str>);

/// Why a text is no topic, or no filter.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum InvalidTopic {
    /// The text, or a segment of it, is empty.
    #[error("a topic has segments that are not empty, with dots between them")]
    Empty,
    /// A character is not allowed.
    #[error("a topic has no white space and no control characters; found {0:?}")]
    Character(char),
    /// A wildcard where only a topic is allowed.
    #[error("the wildcards * and > are allowed in subscriptions only")]
    Wildcard,
    /// The wildcard `>` is not the last segment.
    #[error("the wildcard > is allowed as the last segment only")]
    RestNotLast,
    /// More bytes than the limit.
    #[error("a topic has at most {limit} bytes; this one has {len}")]
    TooLong {
        /// The length of the text.
        len: usize,
        /// The limit.
        limit: usize,
    },
    /// More segments `*` than the limit.
    #[error("a filter has at most {limit} segments that are *")]
    TooManyWildcards {
        /// The limit.
        limit: usize,
    },
    /// More segments than the limit.
    #[error("a topic has at most {limit} segments")]
    TooManySegments {
        /// The limit.
        limit: usize,
    },
}

impl Topic {
    /// Checks a text and makes it a topic.
    ///
    /// # Errors
    /// The text is no topic, has a wildcard, or exceeds a limit.
    pub fn parse(text: &str, limits: &TopicLimits) -> Result<Self, InvalidTopic> {
        check_segments(text, limits, |segment, _| match segment {
            "*" | ">" => Err(InvalidTopic::Wildcard),
            _ => Ok(()),
        })?;
        Ok(Self(text.into()))
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the segments, in order.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split(SEPARATOR)
    }
}

/// Checks what topics and filters have in common, and calls `check` with each segment and whether it is the last.
pub(super) fn check_segments(
    text: &str,
    limits: &TopicLimits,
    mut check: impl FnMut(&str, bool) -> Result<(), InvalidTopic>,
) -> Result<(), InvalidTopic> {
    if text.len() > limits.max_bytes {
        return Err(InvalidTopic::TooLong { len: text.len(), limit: limits.max_bytes });
    }
    let count = text.split(SEPARATOR).count();
    if count > limits.max_segments {
        return Err(InvalidTopic::TooManySegments { limit: limits.max_segments });
    }
    if let Some(wrong) = text.chars().find(|c| c.is_whitespace() || c.is_control()) {
        return Err(InvalidTopic::Character(wrong));
    }
    for (index, segment) in text.split(SEPARATOR).enumerate() {
        if segment.is_empty() {
            return Err(InvalidTopic::Empty);
        }
        check(segment, index + 1 == count)?;
    }
    Ok(())
}

impl Borrow<str> for Topic {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g02_a_topic_is_segments_with_dots_between_them() {
        let limits = TopicLimits { max_bytes: 20, max_segments: 3, ..TopicLimits::default() };
        for text in ["news", "news.de", "a.b.c", "chat.room-7", "größe.π", "a*.>b"] {
            assert_eq!(Topic::parse(text, &limits).unwrap().as_str(), text);
        }
        let of = [
            ("", InvalidTopic::Empty),
            ("a..b", InvalidTopic::Empty),
            (".a", InvalidTopic::Empty),
            ("a.", InvalidTopic::Empty),
            ("a b", InvalidTopic::Character(' ')),
            ("a\u{1b}", InvalidTopic::Character('\u{1b}')),
            ("a.*", InvalidTopic::Wildcard),
            (">", InvalidTopic::Wildcard),
            ("a.b.c.d", InvalidTopic::TooManySegments { limit: 3 }),
            ("aaaaaaaaaaaaaaaaaaaaa", InvalidTopic::TooLong { len: 21, limit: 20 }),
        ];
        for (text, error) in of {
            assert_eq!(Topic::parse(text, &limits), Err(error), "{text:?}");
        }
    }
}
