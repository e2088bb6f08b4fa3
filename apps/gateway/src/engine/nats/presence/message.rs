//! The messages in which gateways tell each other of their clients, as JSON.

use serde::{Deserialize, Serialize};

use crate::engine::PresentClient;
use crate::topic::limits::TopicLimits;
use crate::topic::name::Topic;

/// A message of a gateway about its clients.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct PresenceMessage {
    /// The number of the last change that this message includes.
    pub(super) number: u64,
    /// The changes, or the notes of one part of everything.
    pub(super) notes: Vec<PresenceNote>,
    /// Set in answers: the index of the part, and the number of parts.
    pub(super) part: Option<(u32, u32)>,
    /// True in the last message of a gateway.
    pub(super) is_leaving: bool,
}

/// A client in a topic, as messages tell it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PresenceNote {
    pub(super) topic: String,
    pub(super) client: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) user: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) has_left: bool,
}

impl PresenceMessage {
    /// Returns the message as JSON.
    pub(super) fn to_json(&self) -> Vec<u8> {
        // A struct of texts and numbers is always JSON.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

impl PresenceNote {
    /// Makes a note.
    pub(super) fn new(topic: &Topic, member: &PresentClient, has_left: bool) -> Self {
        Self {
            topic: topic.as_str().to_owned(),
            client: member.client.as_ref().to_owned(),
            user: member.user.as_deref().map(str::to_owned),
            has_left,
        }
    }

    /// Returns the bytes of the names.
    pub(super) fn size(&self) -> usize {
        self.topic.len() + self.client.len() + self.user.as_ref().map_or(0, String::len)
    }

    /// Reads the topic, the client, and whether it has left; `None` if the topic is none.
    pub(super) fn read(&self) -> Option<(Topic, PresentClient, bool)> {
        let topic = Topic::parse(&self.topic, &TopicLimits::UNLIMITED).ok()?;
        let user = self.user.as_deref().map(Into::into);
        let member = PresentClient { client: self.client.as_str().into(), user };
        Some((topic, member, self.has_left))
    }
}
