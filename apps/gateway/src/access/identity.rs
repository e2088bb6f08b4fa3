//! The identity of a client, and its permissions.

use std::sync::Arc;

use crate::topic::filter::TopicFilter;
use crate::topic::name::Topic;

/// The identity of a client, and its permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The user; `None` if nobody has said.
    pub user: Option<Arc<str>>,
    /// The permissions of the client.
    pub permissions: Arc<Permissions>,
    /// When the token ends, in seconds since 1970; `None`: never.
    pub expires_at: Option<u64>,
}

/// The permissions of a client, by topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// The filters that it may subscribe to, and whose history and presence it may read: those that one of these covers.
    pub subscribe: Vec<TopicFilter>,
    /// The topics that it may publish to: those that one of these matches.
    pub publish: Vec<TopicFilter>,
    /// True if it may read what is for operators: topics, loops, connections.
    pub is_admin: bool,
}

impl Permissions {
    /// True if the client may subscribe to this filter, and read its history.
    #[must_use]
    pub fn may_subscribe(&self, filter: &TopicFilter) -> bool {
        self.subscribe.iter().any(|permitted| permitted.covers(filter))
    }

    /// True if the client may publish to this topic.
    #[must_use]
    pub fn may_publish(&self, topic: &Topic) -> bool {
        self.publish.iter().any(|permitted| permitted.matches(topic))
    }
}
