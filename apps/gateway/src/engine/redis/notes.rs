//! The notes of presence of this gateway's clients: Redis loses them with the gateway, and is told again after a reconnect.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::engine::PresentClient;
use crate::topic::name::Topic;

/// A topic, and a client in it.
pub(super) type NoteKey = (Topic, Arc<str>);

/// The notes of this gateway, up to a limit.
#[derive(Debug)]
pub(super) struct PresenceNotes {
    users: BTreeMap<NoteKey, Option<Arc<str>>>,
    limit: usize,
}

impl PresenceNotes {
    pub(super) fn new(limit: usize) -> Self {
        Self { users: BTreeMap::new(), limit }
    }

    /// Makes or refreshes a note. Returns false beyond the limit.
    pub(super) fn enter(&mut self, topic: &Topic, member: &PresentClient) -> bool {
        let key = (topic.clone(), Arc::clone(&member.client));
        let is_known = self.users.contains_key(&key);
        if !is_known && self.users.len() >= self.limit {
            return false;
        }
        self.users.insert(key, member.user.clone());
        true
    }

    /// Removes a note.
    pub(super) fn leave(&mut self, topic: &Topic, client: &str) {
        self.users.remove(&(topic.clone(), client.into()));
    }

    /// Returns the next notes after `after`, at most `count`.
    pub(super) fn next_after(
        &self,
        after: Option<&NoteKey>,
        count: usize,
    ) -> Vec<(NoteKey, Option<Arc<str>>)> {
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.users.range((begin, Bound::Unbounded)).take(count);
        next.map(|(key, user)| (key.clone(), user.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topic::limits::TopicLimits;

    #[test]
    fn g08_notes_are_limited_and_told_again_in_parts() {
        let topic = |text: &str| Topic::parse(text, &TopicLimits::default()).unwrap();
        let member = |client: &str| PresentClient { client: client.into(), user: None };
        let mut notes = PresenceNotes::new(3);
        for (text, client) in [("a", "2"), ("b", "1"), ("a", "1")] {
            assert!(notes.enter(&topic(text), &member(client)));
        }
        assert!(!notes.enter(&topic("c"), &member("1")), "the limit");
        assert!(notes.enter(&topic("a"), &member("1")), "a refresh");
        let first = notes.next_after(None, 2);
        let keys = |part: &[(NoteKey, Option<Arc<str>>)]| -> Vec<String> {
            part.iter().map(|((topic, client), _)| format!("{topic} {client}")).collect()
        };
        assert_eq!(keys(&first), ["a 1", "a 2"]);
        notes.leave(&topic("a"), "2");
        let second = notes.next_after(first.last().map(|(key, _)| key), 2);
        assert_eq!(keys(&second), ["b 1"]);
        assert!(notes.enter(&topic("c"), &member("1")), "a note was free");
    }
}
