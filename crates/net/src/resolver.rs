//! Host name resolution by the system (`getaddrinfo`), on separate threads.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::ToSocketAddrs;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use waterwheel_channel::{Address, Resolver};
use waterwheel_executor::{Error, Promise};

use crate::error_context::context;

/// The maximum number of concurrent lookups. `getaddrinfo` blocks, for many seconds if a DNS server does not
/// answer.
const MAX_THREADS: usize = 4;

/// Resolves host names as the system is configured to: `/etc/hosts`, DNS and so on. `getaddrinfo` blocks, so it
/// runs on up to four threads that are started on demand. The threads share one queue: no name waits for
/// a slow lookup while a thread is idle.
pub struct SystemResolver {
    queue: Arc<LookupQueue>,
}

/// Lookups that wait for a thread. Callers and threads access the state under the lock; no lookup runs, no
/// promise is completed and no thread is started while the lock is held.
#[derive(Default)]
struct LookupQueue {
    state: Mutex<LookupState>,
    available: Condvar,
}

#[derive(Default)]
struct LookupState {
    pending: VecDeque<Lookup>,
    threads: usize,
    /// The number of threads that wait for a lookup or are about to take one.
    idle: usize,
    is_closed: bool,
}

type Lookup = Box<dyn FnOnce() + Send>;

impl SystemResolver {
    /// Returns the resolver that the whole process shares.
    #[must_use]
    pub fn shared() -> Arc<dyn Resolver> {
        static SHARED: OnceLock<Arc<SystemResolver>> = OnceLock::new();
        SHARED.get_or_init(|| Arc::new(Self::new())).clone()
    }

    fn new() -> Self {
        Self { queue: Arc::default() }
    }

    /// Queues a lookup for an idle thread, for a new thread, or for the first thread that becomes idle.
    fn enqueue(&self, lookup: Lookup) {
        let mut state = self.queue.lock();
        state.pending.push_back(lookup);
        if state.idle >= state.pending.len() {
            drop(state);
            self.queue.available.notify_one();
        } else if state.threads < MAX_THREADS {
            state.threads += 1;
            drop(state);
            self.start_thread();
        }
    }

    fn start_thread(&self) {
        let queue = self.queue.clone();
        let started =
            thread::Builder::new().name("resolver".into()).spawn(move || queue.run_lookups());
        if started.is_err() {
            let mut state = self.queue.lock();
            state.threads -= 1;
            // Without a thread the pending lookups are dropped; their promises fail.
            let lost = if state.threads == 0 {
                std::mem::take(&mut state.pending)
            } else {
                VecDeque::new()
            };
            drop(state);
            drop(lost);
        }
    }
}

impl LookupQueue {
    fn lock(&self) -> MutexGuard<'_, LookupState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one lookup after the other, until the resolver is dropped.
    fn run_lookups(&self) {
        let mut state = self.lock();
        loop {
            if let Some(lookup) = state.pending.pop_front() {
                drop(state);
                lookup();
                state = self.lock();
            } else if state.is_closed {
                return;
            } else {
                state.idle += 1;
                state = self.available.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }
}

impl Resolver for SystemResolver {
    fn resolve(&self, name: &str, found: Promise<Vec<Address>>) {
        let name = name.to_owned();
        self.enqueue(Box::new(move || {
            let addresses = look_up(&name).map_err(Error::new);
            found.complete(addresses);
        }));
    }
}

impl Drop for SystemResolver {
    fn drop(&mut self) {
        self.queue.lock().is_closed = true;
        self.queue.available.notify_all();
    }
}

impl fmt::Debug for SystemResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SystemResolver({} threads)", self.queue.lock().threads)
    }
}

fn look_up(name: &str) -> io::Result<Vec<Address>> {
    let addresses = name.to_socket_addrs().map_err(|error| {
        // The standard library says that the address is invalid, but not what it expects.
        let expected = match error.kind() {
            io::ErrorKind::InvalidInput => " (expected a name and a port, as in \"localhost:80\")",
            _ => "",
        };
        context(format!("cannot resolve {name:?}{expected}"))(error)
    })?;
    Ok(addresses.map(Address::from).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use waterwheel_executor::EventExecutorGroup;

    use super::*;

    /// Starts a lookup that blocks until the sender is dropped.
    fn hang(resolver: &SystemResolver) -> std::sync::mpsc::Sender<()> {
        let (answer, silence) = channel::<()>();
        let (begin, begun) = channel();
        resolver.enqueue(Box::new(move || {
            begin.send(()).unwrap();
            let _ = silence.recv();
        }));
        begun.recv().unwrap();
        answer
    }

    #[test]
    fn c12_the_error_for_a_name_without_a_port_says_what_is_missing() {
        for name in ["localhost", "localhost:", "localhost:http"] {
            let error = look_up(name).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            let prefix = format!("cannot resolve {name:?} (expected a name and a port, as in");
            assert!(error.to_string().starts_with(&prefix), "{error}");
        }
    }

    #[test]
    fn c12_a_lookup_does_not_wait_behind_one_that_is_not_answered() {
        let resolver = SystemResolver::new();
        let hanging: Vec<_> = (1..MAX_THREADS).map(|_| hang(&resolver)).collect();
        let here = EventExecutorGroup::builder().threads(1).build().unwrap().next();
        let looked_up: Vec<_> = (0..3 * MAX_THREADS)
            .map(|_| {
                let (found, addresses) = here.new_promise();
                resolver.resolve("127.0.0.1:80", found);
                addresses
            })
            .collect();
        for addresses in looked_up {
            addresses.wait_timeout(Duration::from_secs(20)).expect("another thread is idle");
            assert_eq!(addresses.join().unwrap().len(), 1);
        }
        drop(hanging);
    }
}
