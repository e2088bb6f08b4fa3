//! Names, resolved by the system, off the loops.

use std::io;
use std::net::ToSocketAddrs;
use std::sync::{Arc, OnceLock};

use waterwheel_channel::{Address, Resolver};
use waterwheel_executor::{Error, EventExecutorGroup, Promise};

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
        let shared = SHARED.get_or_init(|| {
            let threads = EventExecutorGroup::builder().threads(THREADS).name("resolver").build();
            Arc::new(SystemResolver { threads: threads.expect("valid, and starts nothing yet") })
        });
        shared.clone()
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
