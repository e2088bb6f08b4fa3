//! Who is here, under which name, and who wants to hear of what.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use thiserror::Error;
use waterwheel::channel::ChannelId;

use crate::client::Client;

/// To how many topics one client may be subscribed: with the limit of clients, that of all topics.
pub const TOPICS_PER_CLIENT: usize = 64;

/// All clients. Shared by the business threads: many look, few change it. Nobody is called while it is
/// locked; whoever delivers has copied the clients before.
#[derive(Debug)]
pub struct Registry {
    members: RwLock<Members>,
    limit: usize,
}

#[derive(Debug, Default)]
struct Members {
    clients: usize,
    users: HashMap<String, Arc<Client>>,
    topics: HashMap<String, HashMap<ChannelId, Arc<Client>>>,
}

/// How many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Connections.
    pub clients: usize,
    /// Those that have a name.
    pub users: usize,
    /// Topics that somebody is subscribed to.
    pub topics: usize,
}

impl Registry {
    /// For at most so many clients.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { members: RwLock::default(), limit }
    }

    /// A client has come. It is forgotten, with its name and topics, when the membership is dropped.
    ///
    /// # Errors
    /// There are too many.
    pub fn join(self: &Arc<Self>, client: Client) -> Result<Member, Refused> {
        let mut members = self.write();
        if members.clients >= self.limit {
            return Err(Refused::Crowded { limit: self.limit });
        }
        members.clients += 1;
        Ok(Member {
            registry: self.clone(),
            client: Arc::new(client),
            name: None,
            topics: BTreeSet::new(),
        })
    }

    /// The client of this name.
    #[must_use]
    pub fn user(&self, name: &str) -> Option<Arc<Client>> {
        self.read().users.get(name).cloned()
    }

    /// Those who are subscribed to a topic.
    #[must_use]
    pub fn subscribers(&self, topic: &str) -> Vec<Arc<Client>> {
        let members = self.read();
        members.topics.get(topic).map_or_else(Vec::new, |all| all.values().cloned().collect())
    }

    /// How many there are.
    #[must_use]
    pub fn census(&self) -> Census {
        let members = self.read();
        Census {
            clients: members.clients,
            users: members.users.len(),
            topics: members.topics.len(),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Members> {
        self.members.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Members> {
        self.members.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client's place in the registry.
#[derive(Debug)]
pub struct Member {
    registry: Arc<Registry>,
    client: Arc<Client>,
    name: Option<String>,
    topics: BTreeSet<String>,
}

impl Member {
    /// The name it has taken.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Takes a name.
    ///
    /// # Errors
    /// It has one, or somebody else has this one.
    pub fn take_name(&mut self, name: &str) -> Result<(), Refused> {
        if let Some(taken) = &self.name {
            return Err(Refused::HasName { name: taken.clone() });
        }
        let mut members = self.registry.write();
        if members.users.contains_key(name) {
            return Err(Refused::NameTaken { name: name.to_owned() });
        }
        members.users.insert(name.to_owned(), self.client.clone());
        self.name = Some(name.to_owned());
        Ok(())
    }

    /// Gets what is published to a topic from now on.
    ///
    /// # Errors
    /// It does already, or has too many.
    pub fn subscribe(&mut self, topic: &str) -> Result<(), Refused> {
        if self.topics.contains(topic) {
            return Err(Refused::Subscribed { topic: topic.to_owned() });
        }
        if self.topics.len() >= TOPICS_PER_CLIENT {
            return Err(Refused::TooManyTopics);
        }
        self.topics.insert(topic.to_owned());
        let mut members = self.registry.write();
        let subscribers = members.topics.entry(topic.to_owned()).or_default();
        subscribers.insert(self.client.id(), self.client.clone());
        Ok(())
    }

    /// Gets it no more.
    ///
    /// # Errors
    /// It did not.
    pub fn unsubscribe(&mut self, topic: &str) -> Result<(), Refused> {
        if !self.topics.remove(topic) {
            return Err(Refused::NotSubscribed { topic: topic.to_owned() });
        }
        self.registry.write().forget_subscriber(topic, self.client.id());
        Ok(())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut members = self.registry.write();
        members.clients -= 1;
        if let Some(name) = &self.name {
            members.users.remove(name);
        }
        for topic in &self.topics {
            members.forget_subscriber(topic, self.client.id());
        }
    }
}

impl Members {
    /// A topic without subscribers is none.
    fn forget_subscriber(&mut self, topic: &str, id: ChannelId) {
        if let Some(subscribers) = self.topics.get_mut(topic) {
            subscribers.remove(&id);
            if subscribers.is_empty() {
                self.topics.remove(topic);
            }
        }
    }
}

/// Why the registry does not do it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refused {
    /// There are too many clients.
    #[error("there are {limit} clients here, and no more may come; try again later")]
    Crowded {
        /// How many there may be.
        limit: usize,
    },
    /// The client has a name.
    #[error("you are {name} already; QUIT and come again to be somebody else")]
    HasName {
        /// Its name.
        name: String,
    },
    /// Somebody else has the name.
    #[error("somebody here is called {name}; choose another name")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The client is subscribed to it.
    #[error("you are subscribed to {topic} already")]
    Subscribed {
        /// The topic.
        topic: String,
    },
    /// The client is not subscribed to it.
    #[error("you are not subscribed to {topic}")]
    NotSubscribed {
        /// The topic.
        topic: String,
    },
    /// The client is subscribed to too many.
    #[error(
        "you are subscribed to {TOPICS_PER_CLIENT} topics, and may not to more; UNSUB one first"
    )]
    TooManyTopics,
}
