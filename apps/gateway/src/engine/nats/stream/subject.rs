//! The subjects of an engine: its topics, its stream, and what its gateways tell each other.

use crate::topic::limits::TopicLimits;
use crate::topic::name::Topic;

/// The names that follow from the prefix of an engine.
#[derive(Clone, Debug)]
pub(in crate::engine::nats) struct SubjectNames {
    topics: String,
    presence: String,
    stream: String,
}

impl SubjectNames {
    pub(in crate::engine::nats) fn new(prefix: &str) -> Self {
        Self {
            topics: format!("{prefix}.topic."),
            presence: format!("{prefix}.presence."),
            // The name of a stream has no dots, and a prefix no equals signs.
            stream: prefix.replace('.', "="),
        }
    }

    /// Returns the name of the stream.
    pub(in crate::engine::nats) fn stream(&self) -> &str {
        &self.stream
    }

    /// Returns the filter of all topics.
    pub(in crate::engine::nats) fn all_topics(&self) -> String {
        format!("{}>", self.topics)
    }

    /// Returns the subject of a topic. What NATS takes for a wildcard is escaped.
    pub(in crate::engine::nats) fn of_topic(&self, topic: &Topic) -> String {
        let mut subject = String::with_capacity(self.topics.len() + topic.as_str().len());
        subject.push_str(&self.topics);
        for character in topic.as_str().chars() {
            match character {
                '%' => subject.push_str("%25"),
                '*' => subject.push_str("%2A"),
                '>' => subject.push_str("%3E"),
                other => subject.push(other),
            }
        }
        subject
    }

    /// Returns the topic of a subject; `None` if no gateway could have published to it.
    pub(in crate::engine::nats) fn topic_of(&self, subject: &[u8]) -> Option<Topic> {
        // Topics that were allowed when they were published may be longer than clients may name now.
        let escaped = str::from_utf8(subject).ok()?.strip_prefix(&self.topics)?;
        let mut parts = escaped.split('%');
        let mut text = parts.next()?.to_owned();
        for part in parts {
            text.push(match part.get(..2)? {
                "25" => '%',
                "2A" => '*',
                "3E" => '>',
                _ => return None,
            });
            text.push_str(&part[2..]);
        }
        Topic::parse(&text, &TopicLimits::UNLIMITED).ok()
    }

    /// Returns the subject on which gateways ask each other for their clients.
    pub(in crate::engine::nats) fn presence_question(&self) -> String {
        format!("{}ask", self.presence)
    }

    /// Returns the subject on which a gateway tells its clients.
    pub(in crate::engine::nats) fn presence_of(&self, gateway: &str) -> String {
        format!("{}of.{gateway}", self.presence)
    }

    /// Returns the filter of all presence.
    pub(in crate::engine::nats) fn all_presence(&self) -> String {
        format!("{}>", self.presence)
    }

    /// Returns the id of the gateway that tells its clients on a subject; `None` if it is another subject.
    pub(in crate::engine::nats) fn gateway_of<'a>(&self, subject: &'a [u8]) -> Option<&'a str> {
        str::from_utf8(subject).ok()?.strip_prefix(&self.presence)?.strip_prefix("of.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(text: &str) -> Topic {
        Topic::parse(text, &TopicLimits::default()).unwrap()
    }

    #[test]
    fn g08_every_topic_is_a_subject_without_wildcards_and_is_read_back() {
        let names = SubjectNames::new("push");
        for (text, subject) in [
            ("a.b", "push.topic.a.b"),
            ("a*.>b", "push.topic.a%2A.%3Eb"),
            ("100%.25", "push.topic.100%25.25"),
            ("%2A", "push.topic.%252A"),
            ("größe.$x", "push.topic.größe.$x"),
        ] {
            assert_eq!(names.of_topic(&topic(text)), subject);
            assert_eq!(names.topic_of(subject.as_bytes()), Some(topic(text)));
        }
    }

    #[test]
    fn g08_subjects_of_others_are_no_topics() {
        let names = SubjectNames::new("push");
        for subject in [
            "push.a",
            "other.topic.a",
            "push.topic.",
            "push.topic.a..b",
            "push.topic.%2",
            "push.topic.%41",
        ] {
            assert_eq!(names.topic_of(subject.as_bytes()), None, "{subject}");
        }
        assert_eq!(names.topic_of(b"push.topic.\xff"), None);
    }
}
