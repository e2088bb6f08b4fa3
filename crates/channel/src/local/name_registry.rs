//! The names of local servers, and their backlogs.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::connection::Connection;
use super::error::LocalError;
use super::message_queue::{QueueSide, wake};
use crate::channel::transport::TransportWaker;

/// The names of this process. Used by any thread that binds, connects or closes, for a lookup or a change; no
/// other lock is taken meanwhile, and nothing is dropped but a name.
static NAMES: Mutex<BTreeMap<Arc<str>, Arc<LocalPort>>> = Mutex::new(BTreeMap::new());

fn names() -> MutexGuard<'static, BTreeMap<Arc<str>, Arc<LocalPort>>> {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The name and the backlog of a server.
///
/// Used by the server's loop and by the loops of connecting clients, under the lock, by the rules of the
/// [module](super): the server sets `is_waiting` in the critical section in which it found the backlog empty,
/// and a client that connects clears it. Only the server removes connections.
pub(super) struct LocalPort {
    name: Arc<str>,
    backlog: usize,
    waiting: Mutex<LocalBacklog>,
}

#[derive(Default)]
struct LocalBacklog {
    connections: VecDeque<Connection>,
    server: QueueSide,
}

impl LocalPort {
    /// Reserves a name.
    pub(super) fn open(name: Arc<str>, backlog: usize) -> Result<Arc<Self>, LocalError> {
        let port = Arc::new(Self { name: name.clone(), backlog, waiting: Mutex::default() });
        let mut names = names();
        if names.contains_key(&name) {
            return Err(LocalError::NameInUse { name });
        }
        names.insert(name, port.clone());
        Ok(port)
    }

    /// Returns the port with this name.
    pub(super) fn find(name: &Arc<str>) -> Result<Arc<Self>, LocalError> {
        let found = names().get(name).cloned();
        found.ok_or_else(|| LocalError::Refused { name: name.clone() })
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn lock(&self) -> MutexGuard<'_, LocalBacklog> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a connection to the backlog.
    pub(super) fn enqueue(&self, connection: Connection) -> Result<(), LocalError> {
        let server = {
            let mut waiting = self.lock();
            if waiting.server.is_closed {
                return Err(LocalError::Refused { name: self.name.clone() });
            }
            if waiting.connections.len() >= self.backlog {
                let (name, backlog) = (self.name.clone(), self.backlog);
                return Err(LocalError::BacklogFull { name, backlog });
            }
            waiting.connections.push_back(connection);
            waiting.server.take_waker()
        };
        wake(server);
        Ok(())
    }

    /// Takes the next connection. Returns `None` if the backlog is empty; the server will be woken.
    pub(super) fn accept(&self) -> Option<Connection> {
        let mut waiting = self.lock();
        let connection = waiting.connections.pop_front();
        waiting.server.is_waiting = connection.is_none();
        connection
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.lock().connections.is_empty()
    }

    pub(super) fn set_server(&self, waker: Option<TransportWaker>) {
        let before = mem::replace(&mut self.lock().server.waker, waker);
        drop(before);
    }

    /// Frees the name. Returns the connections that were not accepted, for the caller to drop.
    #[must_use]
    pub(super) fn close(&self) -> VecDeque<Connection> {
        let freed = names().remove(&self.name);
        let (own, rest) = {
            let mut waiting = self.lock();
            waiting.server.is_closed = true;
            (waiting.server.waker.take(), mem::take(&mut waiting.connections))
        };
        drop((freed, own));
        rest
    }
}
