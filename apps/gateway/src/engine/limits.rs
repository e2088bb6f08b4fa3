//! The limits of what an engine keeps.

use std::time::Duration;

use thiserror::Error;

/// The limits of the histories of an engine, and of the names that it keeps. [`HistoryLimits::builder`] makes others than the
/// default ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryLimits {
    /// Maximum number of publications in the history of a topic; 0 keeps none. Default: 1,000.
    pub topic_publications: usize,
    /// Maximum number of bytes in the history of a topic. Default: 1 MiB.
    pub topic_bytes: usize,
    /// Maximum age of a publication in a history. Default: an hour.
    pub max_age: Duration,
    /// Maximum number of bytes in all histories. Default: 64 MiB.
    pub total_bytes: usize,
    /// Maximum number of topics. Default: 50,000.
    pub topics: usize,
    /// Maximum number of notes that a client is present in a topic. Default: 250,000.
    pub present_clients: usize,
}

impl Default for HistoryLimits {
    fn default() -> Self {
        Self {
            topic_publications: 1_000,
            topic_bytes: 1 << 20,
            max_age: Duration::from_secs(3600),
            // 64 topics may fill their histories; of publications with 300 bytes it is 140,000.
            total_bytes: 64 << 20,
            // A record of a topic without history has about 500 bytes with a long name: 25 MiB.
            topics: 50_000,
            // 15,000 clients in 16 topics each; a note has about 100 bytes: 25 MiB.
            present_clients: 250_000,
        }
    }
}

impl HistoryLimits {
    /// Returns a builder that begins with the default limits.
    #[must_use]
    pub fn builder() -> HistoryLimitsBuilder {
        HistoryLimitsBuilder { limits: Self::default() }
    }
}

/// Sets limits, and checks that they agree.
///
/// ```
/// use waterwheel_gateway::engine::limits::HistoryLimits;
///
/// let limits = HistoryLimits::builder().topic_publications(10).topic_bytes(64 << 10).build().unwrap();
/// assert_eq!(limits.topic_publications, 10);
/// ```
#[derive(Clone, Debug)]
pub struct HistoryLimitsBuilder {
    limits: HistoryLimits,
}

/// The error of limits that cannot be kept.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum InvalidHistoryLimits {
    /// A topic may have more bytes than all topics together.
    #[error("a topic may have {topic} bytes of history, but all topics together only {total}")]
    TopicAboveTotal {
        /// The bytes of a topic.
        topic: usize,
        /// The bytes of all topics.
        total: usize,
    },
    /// Nothing would be kept for any time.
    #[error(
        "the maximum age of a publication is zero; to keep none, set the number of publications to 0"
    )]
    NoAge,
    /// No topic could be published to.
    #[error("the maximum number of topics is 0; at least one is needed")]
    NoTopics,
}

impl HistoryLimitsBuilder {
    /// Sets the maximum number of publications in the history of a topic; 0 keeps none.
    #[must_use]
    pub fn topic_publications(mut self, publications: usize) -> Self {
        self.limits.topic_publications = publications;
        self
    }

    /// Sets the maximum number of bytes in the history of a topic.
    #[must_use]
    pub fn topic_bytes(mut self, bytes: usize) -> Self {
        self.limits.topic_bytes = bytes;
        self
    }

    /// Sets the maximum age of a publication in a history.
    #[must_use]
    pub fn max_age(mut self, age: Duration) -> Self {
        self.limits.max_age = age;
        self
    }

    /// Sets the maximum number of bytes in all histories.
    #[must_use]
    pub fn total_bytes(mut self, bytes: usize) -> Self {
        self.limits.total_bytes = bytes;
        self
    }

    /// Sets the maximum number of topics.
    #[must_use]
    pub fn topics(mut self, topics: usize) -> Self {
        self.limits.topics = topics;
        self
    }

    /// Sets the maximum number of notes that a client is present in a topic.
    #[must_use]
    pub fn present_clients(mut self, clients: usize) -> Self {
        self.limits.present_clients = clients;
        self
    }

    /// Returns the limits.
    ///
    /// # Errors
    /// The limits contradict each other, or nothing could be published under them.
    pub fn build(self) -> Result<HistoryLimits, InvalidHistoryLimits> {
        let HistoryLimits { topic_bytes, total_bytes, max_age, topics, .. } = self.limits;
        if topic_bytes > total_bytes {
            return Err(InvalidHistoryLimits::TopicAboveTotal {
                topic: topic_bytes,
                total: total_bytes,
            });
        }
        if max_age.is_zero() {
            return Err(InvalidHistoryLimits::NoAge);
        }
        if topics == 0 {
            return Err(InvalidHistoryLimits::NoTopics);
        }
        Ok(self.limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g02_limits_of_histories_that_contradict_each_other_are_refused() {
        let default = HistoryLimits::builder().build();
        assert_eq!(default, Ok(HistoryLimits::default()));
        let above = HistoryLimits::builder().topic_bytes(11).total_bytes(10).build();
        assert_eq!(above, Err(InvalidHistoryLimits::TopicAboveTotal { topic: 11, total: 10 }));
        let no_age = HistoryLimits::builder().max_age(Duration::ZERO).build();
        assert_eq!(no_age, Err(InvalidHistoryLimits::NoAge));
        let no_topics = HistoryLimits::builder().topics(0).build();
        assert_eq!(no_topics, Err(InvalidHistoryLimits::NoTopics));
    }
}
