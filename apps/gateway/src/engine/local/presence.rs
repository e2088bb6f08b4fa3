//! The clients that are present in topics.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::engine::{PresencePage, PresentClient};
use crate::topic::name::Topic;

/// Notes which clients are present where, up to a limit of notes over all topics.
#[derive(Debug)]
pub(in crate::engine) struct PresenceTable {
    topics: HashMap<Topic, BTreeMap<Arc<str>, Option<Arc<str>>>>,
    notes: usize,
    limit: usize,
}

impl PresenceTable {
    pub(in crate::engine) fn new(limit: usize) -> Self {
        Self { topics: HashMap::new(), notes: 0, limit }
    }

    /// Notes a client, or refreshes its note. Returns true if it was not present before and is now.
    pub(in crate::engine) fn enter(&mut self, topic: &Topic, member: &PresentClient) -> bool {
        if let Some(user) =
            self.topics.get_mut(topic).and_then(|clients| clients.get_mut(&member.client))
        {
            user.clone_from(&member.user);
            return false;
        }
        if self.notes >= self.limit {
            return false;
        }
        self.notes += 1;
        let clients = self.topics.entry(topic.clone()).or_default();
        clients.insert(Arc::clone(&member.client), member.user.clone());
        true
    }

    /// Removes the note of a client. Returns the client if it was present.
    pub(in crate::engine) fn leave(
        &mut self,
        topic: &Topic,
        client: &str,
    ) -> Option<PresentClient> {
        let clients = self.topics.get_mut(topic)?;
        let (client, user) = clients.remove_entry(client)?;
        if clients.is_empty() {
            self.topics.remove(topic);
        }
        self.notes -= 1;
        Some(PresentClient { client, user })
    }

    /// Returns all notes.
    pub(in crate::engine) fn notes(&self) -> impl Iterator<Item = (&Topic, PresentClient)> {
        self.topics.iter().flat_map(|(topic, clients)| {
            clients.iter().map(move |(client, user)| {
                (topic, PresentClient { client: Arc::clone(client), user: user.clone() })
            })
        })
    }

    /// True if there is a note of this client in this topic.
    pub(in crate::engine) fn has(&self, topic: &Topic, client: &str) -> bool {
        self.topics.get(topic).is_some_and(|clients| clients.contains_key(client))
    }

    /// Returns the first clients of a topic, and the number of all.
    pub(in crate::engine) fn page(&self, topic: &Topic, limit: usize) -> PresencePage {
        let Some(clients) = self.topics.get(topic) else {
            return PresencePage::default();
        };
        let first = clients.iter().take(limit);
        PresencePage {
            clients: first
                .map(|(client, user)| PresentClient {
                    client: Arc::clone(client),
                    user: user.clone(),
                })
                .collect(),
            count: clients.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topic::limits::TopicLimits;

    #[test]
    fn g02_presence_is_limited_over_all_topics_and_leaves_nothing_behind() {
        let topic = |text| Topic::parse(text, &TopicLimits::default()).unwrap();
        let member = |client: &str| PresentClient { client: client.into(), user: None };
        let mut table = PresenceTable::new(2);
        assert!(table.enter(&topic("a"), &member("c1")));
        assert!(!table.enter(&topic("a"), &member("c1")), "a refresh");
        assert!(table.enter(&topic("b"), &member("c1")));
        assert!(!table.enter(&topic("b"), &member("c2")), "the limit");
        assert_eq!(table.leave(&topic("b"), "c2"), None);
        assert_eq!(table.leave(&topic("a"), "c1"), Some(member("c1")));
        assert!(table.enter(&topic("b"), &member("c2")), "a note was free");
        assert_eq!(table.page(&topic("b"), 1).clients, [member("c1")]);
        assert_eq!(table.page(&topic("b"), 1).count, 2);
        for client in ["c1", "c2"] {
            table.leave(&topic("b"), client);
        }
        assert!(table.topics.is_empty() && table.notes == 0);
    }
}
