//! Names, resolved by the system, off the loops.

use std::io;
use std::net::ToSocketAddrs;
use std::sync::{Arc, OnceLock};

use waterwheel_channel::{Address, Resolver};
use waterwheel_executor::{Error, EventExecutorGroup, LeastLoaded, Promise};

use crate::context::context;

/// So many names are resolved at a time; the system's resolver blocks, for many seconds if a server does
/// not answer.
const THREADS: usize = 4;

/// Resolves names as the system does: `/etc/hosts`, DNS, whatever it is set up for. The system's resolver
/// blocks, so it runs on threads of its own, started when they are needed.
#[derive(Debug)]
pub struct SystemResolver {
    threads: EventExecutorGroup,
}

impl SystemResolver {
    /// The one that all share.
    ///
    /// # Panics
    /// If the system refuses even to make the executors, which start no thread yet.
    #[must_use]
    pub fn shared() -> Arc<dyn Resolver> {
        static SHARED: OnceLock<Arc<SystemResolver>> = OnceLock::new();
        SHARED.get_or_init(|| Arc::new(Self::new())).clone()
    }

    fn new() -> Self {
        // Not in turn: a name would wait behind one that nobody answers for, with others idle.
        let threads = EventExecutorGroup::builder()
            .threads(THREADS)
            .name("resolver")
            .chooser(LeastLoaded::default())
            .build();
        Self { threads: threads.expect("valid, and starts nothing yet") }
    }
}

impl Resolver for SystemResolver {
    fn resolve(&self, name: &str, found: Promise<Vec<Address>>) {
        let name = name.to_owned();
        let look = move || {
            let addresses = look_up(&name).map_err(Error::new);
            found.complete(addresses);
        };
        // Refused only at the end of the process: then the promise is dropped, and says so.
        let _ = self.threads.execute(look);
    }
}

fn look_up(name: &str) -> io::Result<Vec<Address>> {
    let addresses = name.to_socket_addrs().map_err(context(format!("cannot resolve {name:?}")))?;
    Ok(addresses.map(Address::from).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    #[test]
    fn c12_a_name_does_not_wait_behind_one_that_nobody_answers_for() {
        let resolver = SystemResolver::new();
        let (answer, silence) = channel::<()>();
        let (begin, begun) = channel();
        let hangs = move || {
            begin.send(()).unwrap();
            let _ = silence.recv();
        };
        resolver.threads.execute(hangs).unwrap();
        begun.recv().unwrap();
        let here = EventExecutorGroup::builder().threads(1).build().unwrap().next();
        let looked_up: Vec<_> = (0..3 * THREADS)
            .map(|_| {
                let (found, addresses) = here.new_promise();
                resolver.resolve("127.0.0.1:80", found);
                addresses
            })
            .collect();
        for addresses in looked_up {
            addresses.wait_timeout(Duration::from_secs(10)).expect("another thread is idle");
            assert_eq!(addresses.join().unwrap().len(), 1);
        }
        drop(answer);
    }
}
