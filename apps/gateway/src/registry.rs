//! The connected clients, their names and their subscriptions.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use thiserror::Error;
use waterwheel::channel::ChannelId;

use crate::client::GatewayClient;

/// Maximum number of subscriptions per client. Together with the limit of clients it bounds the number of topics.
pub const TOPICS_PER_CLIENT: usize = 64;

/// All clients. Shared by the business threads, which mostly read it. No client is called under the lock: senders
/// copy the handles of the receivers first.
#[derive(Debug)]
pub struct Registry {
    members: RwLock<RegistryTables>,
    limit: usize,
}

#[derive(Debug, Default)]
struct RegistryTables {
    clients: usize,
    users: HashMap<String, Arc<GatewayClient>>,
    topics: HashMap<String, HashMap<ChannelId, Arc<GatewayClient>>>,
}

/// Counts of clients, users and topics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCounts {
    /// Connected clients.
    pub clients: usize,
    /// Clients that have a name.
    pub users: usize,
    /// Topics with at least one subscriber.
    pub topics: usize,
}

impl Registry {
    /// Creates a registry for at most `limit` clients.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { members: RwLock::default(), limit }
    }

    /// Registers a client. Dropping the returned value removes it, with its name and subscriptions.
    ///
    /// # Errors
    /// The limit of clients is reached.
    pub fn join(
        self: &Arc<Self>,
        client: GatewayClient,
    ) -> Result<RegisteredClient, RegistryError> {
        let mut members = self.write();
        if members.clients >= self.limit {
            return Err(RegistryError::TooManyClients { limit: self.limit });
        }
        members.clients += 1;
        Ok(RegisteredClient {
            registry: self.clone(),
            client: Arc::new(client),
            name: None,
            topics: BTreeSet::new(),
        })
    }

    /// Looks up a client by name.
    #[must_use]
    pub fn user(&self, name: &str) -> Option<Arc<GatewayClient>> {
        self.read().users.get(name).cloned()
    }

    /// Returns the subscribers of a topic.
    #[must_use]
    pub fn subscribers(&self, topic: &str) -> Vec<Arc<GatewayClient>> {
        let members = self.read();
        members.topics.get(topic).map_or_else(Vec::new, |all| all.values().cloned().collect())
    }

    /// Counts clients, users and topics.
    #[must_use]
    pub fn client_counts(&self) -> ClientCounts {
        let members = self.read();
        ClientCounts {
            clients: members.clients,
            users: members.users.len(),
            topics: members.topics.len(),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, RegistryTables> {
        self.members.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, RegistryTables> {
        self.members.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A registered client, with its name and subscriptions.
#[derive(Debug)]
pub struct RegisteredClient {
    registry: Arc<Registry>,
    client: Arc<GatewayClient>,
    name: Option<String>,
    topics: BTreeSet<String>,
}

impl RegisteredClient {
    /// Returns the name of the client.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Takes a name.
    ///
    /// # Errors
    /// The client has a name, or another client has this one.
    pub fn take_name(&mut self, name: &str) -> Result<(), RegistryError> {
        if let Some(taken) = &self.name {
            return Err(RegistryError::AlreadyNamed { name: taken.clone() });
        }
        let mut members = self.registry.write();
        if members.users.contains_key(name) {
            return Err(RegistryError::NameTaken { name: name.to_owned() });
        }
        members.users.insert(name.to_owned(), self.client.clone());
        self.name = Some(name.to_owned());
        Ok(())
    }

    /// Subscribes to a topic.
    ///
    /// # Errors
    /// The client is subscribed to it, or has [`TOPICS_PER_CLIENT`] subscriptions.
    pub fn subscribe(&mut self, topic: &str) -> Result<(), RegistryError> {
        if self.topics.contains(topic) {
            return Err(RegistryError::Subscribed { topic: topic.to_owned() });
        }
        if self.topics.len() >= TOPICS_PER_CLIENT {
            return Err(RegistryError::TooManyTopics);
        }
        self.topics.insert(topic.to_owned());
        let mut members = self.registry.write();
        let subscribers = members.topics.entry(topic.to_owned()).or_default();
        subscribers.insert(self.client.id(), self.client.clone());
        Ok(())
    }

    /// Unsubscribes from a topic.
    ///
    /// # Errors
    /// The client is not subscribed to the topic.
    pub fn unsubscribe(&mut self, topic: &str) -> Result<(), RegistryError> {
        if !self.topics.remove(topic) {
            return Err(RegistryError::NotSubscribed { topic: topic.to_owned() });
        }
        self.registry.write().remove_subscriber(topic, self.client.id());
        Ok(())
    }
}

impl Drop for RegisteredClient {
    fn drop(&mut self) {
        let mut members = self.registry.write();
        members.clients -= 1;
        if let Some(name) = &self.name {
            members.users.remove(name);
        }
        for topic in &self.topics {
            members.remove_subscriber(topic, self.client.id());
        }
    }
}

impl RegistryTables {
    /// Removes a subscriber, and the topic with its last one.
    fn remove_subscriber(&mut self, topic: &str, id: ChannelId) {
        if let Some(subscribers) = self.topics.get_mut(topic) {
            subscribers.remove(&id);
            if subscribers.is_empty() {
                self.topics.remove(topic);
            }
        }
    }
}

/// Why the registry refused a request.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RegistryError {
    /// The limit of clients is reached.
    #[error("the limit of {limit} clients is reached; try again later")]
    TooManyClients {
        /// The limit.
        limit: usize,
    },
    /// The client has a name.
    #[error("your name is {name} already; QUIT and reconnect to take another")]
    AlreadyNamed {
        /// The client's name.
        name: String,
    },
    /// Another client has the name.
    #[error("the name {name} is taken; choose another")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The client is subscribed to the topic already.
    #[error("you are subscribed to {topic} already")]
    Subscribed {
        /// The topic.
        topic: String,
    },
    /// The client is not subscribed to the topic.
    #[error("you are not subscribed to {topic}")]
    NotSubscribed {
        /// The topic.
        topic: String,
    },
    /// The client has the maximum number of subscriptions.
    #[error("you are subscribed to {TOPICS_PER_CLIENT} topics, the maximum; UNSUB one first")]
    TooManyTopics,
}
