//! Names, resolved by the system, off the loops.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::ToSocketAddrs;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use waterwheel_channel::{Address, Resolver};
use waterwheel_executor::{Error, Promise};

use crate::error_context::context;

/// So many names are resolved at a time; the system's resolver blocks, for many seconds if a server does
/// not answer.
const MAX_THREADS: usize = 4;

/// Resolves names as the system does: `/etc/hosts`, DNS, whatever it is set up for. The system's resolver
/// blocks, so it runs on threads of its own, started when they are needed. They share one queue: no name
/// waits behind one that nobody answers for while a thread is idle.
pub struct SystemResolver {
    queue: Arc<LookupQueue>,
}

/// Where questions wait for a thread. Touched by whoever asks and by the threads, under the lock; nothing is
/// looked up, told or started while it is held.
#[derive(Default)]
struct LookupQueue {
    state: Mutex<LookupState>,
    available: Condvar,
}

#[derive(Default)]
struct LookupState {
    pending: VecDeque<Lookup>,
    threads: usize,
    /// How many of them wait for a lookup, or are about to find one.
    idle: usize,
    is_closed: bool,
}

type Lookup = Box<dyn FnOnce() + Send>;

impl SystemResolver {
    /// The one that all share.
    #[must_use]
    pub fn shared() -> Arc<dyn Resolver> {
        static SHARED: OnceLock<Arc<SystemResolver>> = OnceLock::new();
        SHARED.get_or_init(|| Arc::new(Self::new())).clone()
    }

    fn new() -> Self {
        Self { queue: Arc::default() }
    }

    /// A thread that can be had takes it, or the first that is free again.
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
            // With nobody to answer, promises are dropped, and say so.
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

    /// Answers one lookup after the other, until the resolver is gone.
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
        // The standard library says that the address is invalid, and not what it looks for.
        let wanted = match error.kind() {
            io::ErrorKind::InvalidInput => {
                ", which should be a name and a port as in \"localhost:80\""
            }
            _ => "",
        };
        context(format!("cannot resolve {name:?}{wanted}"))(error)
    })?;
    Ok(addresses.map(Address::from).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use waterwheel_executor::EventExecutorGroup;

    use super::*;

    /// Begins to hang, until the sender is dropped.
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
    fn c12_a_name_without_a_port_is_told_what_it_lacks() {
        for name in ["localhost", "localhost:", "localhost:http"] {
            let error = look_up(name).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            let lacks = format!("cannot resolve {name:?}, which should be a name and a port as in");
            assert!(error.to_string().starts_with(&lacks), "{error}");
        }
    }

    #[test]
    fn c12_a_name_does_not_wait_behind_one_that_nobody_answers_for() {
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
