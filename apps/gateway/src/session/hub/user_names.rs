//! The names of the clients of this gateway.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::loop_inbox::{InboxItem, LoopInbox};

/// The clients by name. A name that a client chose belongs to it alone; clients with tokens of one user share the user's.
///
/// All methods lock the table for a search in it; nothing is called meanwhile.
#[derive(Debug, Default)]
pub(in crate::session) struct UserNames {
    clients: Mutex<HashMap<Arc<str>, Vec<NamedClient>>>,
}

#[derive(Debug)]
struct NamedClient {
    number: u64,
    inbox: Arc<LoopInbox>,
}

impl UserNames {
    /// Gives a client a name that it chose. Returns false if another client has the name.
    #[must_use]
    pub(in crate::session) fn choose(
        &self,
        name: &Arc<str>,
        number: u64,
        inbox: &Arc<LoopInbox>,
    ) -> bool {
        let mut clients = self.lock();
        if clients.contains_key(name) {
            return false;
        }
        clients.insert(name.clone(), vec![NamedClient { number, inbox: inbox.clone() }]);
        true
    }

    /// Gives a client the name of its user, which the token says.
    pub(in crate::session) fn share(&self, user: &Arc<str>, number: u64, inbox: &Arc<LoopInbox>) {
        let client = NamedClient { number, inbox: inbox.clone() };
        self.lock().entry(user.clone()).or_default().push(client);
    }

    /// Takes the name from a client.
    pub(in crate::session) fn release(&self, name: &Arc<str>, number: u64) {
        let mut clients = self.lock();
        let Some(named) = clients.get_mut(name) else { return };
        named.retain(|client| client.number != number);
        if named.is_empty() {
            clients.remove(name);
        }
    }

    /// Sends a text to all clients with a name. Returns their number.
    pub(in crate::session) fn send(&self, name: &str, from: &Arc<str>, text: &Arc<str>) -> usize {
        let receivers: Vec<(u64, Arc<LoopInbox>)> = match self.lock().get(name) {
            Some(named) => named.iter().map(|each| (each.number, each.inbox.clone())).collect(),
            None => return 0,
        };
        for (client, inbox) in &receivers {
            let (from, text) = (from.clone(), text.clone());
            inbox.send(InboxItem::Direct { client: *client, from, text });
        }
        receivers.len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Vec<NamedClient>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
