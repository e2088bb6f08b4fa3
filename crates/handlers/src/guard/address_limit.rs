//! The guard that limits the open connections of an address.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use waterwheel_channel::{AcceptGuard, AcceptPermit, AcceptVerdict, AcceptedConnection, Network};

use super::error::InvalidGuard;
use super::prefix_lengths::PrefixLengths;

/// The default for the addresses that an [`AddressLimit`] counts at once: 1,048,576. An address is in the table only
/// while it has an open connection, whose channel takes ten times the memory of the entry.
pub const DEFAULT_LIMITED_ADDRESSES: usize = 1 << 20;

/// An accept guard that limits the open connections of each address, or of each network of a
/// [prefix length](PrefixLengths).
///
/// A connection counts from its accept until it is closed and its handlers are removed, or until another guard refuses
/// it. This is a handle; servers that share it count together. A peer without an IP address (of a Unix or local socket)
/// is admitted and not counted.
///
/// Memory is bounded by the open connections, and by
/// [`max_addresses`](AddressLimitBuilder::max_addresses): a connection from one more address is refused.
///
/// ```
/// use waterwheel_channel::GuardChain;
/// use waterwheel_handlers::{AddressLimit, PrefixLengths};
///
/// let limit = AddressLimit::builder(100).prefixes(PrefixLengths::new(32, 56)?).build()?;
/// let guards = GuardChain::new().add("per address", limit.clone());
/// assert_eq!(limit.open("192.0.2.1".parse()?), 0);
/// limit.set_max(50);
/// # drop(guards);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct AddressLimit {
    shared: Arc<AddressLimitShared>,
}

/// The state that all servers with this limit and all their connections share. The lock is held for one search of the
/// table, by a loop that accepts or closes a connection or by a user of the handle.
struct AddressLimitShared {
    prefixes: PrefixLengths,
    max_addresses: usize,
    state: Mutex<OpenConnections>,
}

struct OpenConnections {
    max: usize,
    /// The number of open connections of each address that has one. A tree gives back its memory as it shrinks, and
    /// never stops a loop to rehash.
    open: BTreeMap<Network, usize>,
}

/// Configures an [`AddressLimit`].
#[derive(Clone, Debug)]
#[must_use = "call build"]
pub struct AddressLimitBuilder {
    max: usize,
    prefixes: PrefixLengths,
    max_addresses: usize,
}

impl AddressLimitBuilder {
    /// Sets the bits of an address by which peers are told apart. Default: 32 for IPv4, 64 for IPv6.
    pub fn prefixes(mut self, prefixes: PrefixLengths) -> Self {
        self.prefixes = prefixes;
        self
    }

    /// Sets how many addresses with open connections are counted; a connection from one more is refused. Default:
    /// [`DEFAULT_LIMITED_ADDRESSES`].
    pub fn max_addresses(mut self, max: usize) -> Self {
        self.max_addresses = max;
        self
    }

    /// Creates the guard.
    ///
    /// # Errors
    /// There is room for no address.
    pub fn build(self) -> Result<AddressLimit, InvalidGuard> {
        match self.max_addresses {
            0 => Err(InvalidGuard::NoAddresses),
            _ => Ok(AddressLimit::with(self)),
        }
    }
}

impl AddressLimit {
    /// The reason of a refusal at the limit of an address.
    pub const TOO_MANY: &'static str = "too many connections from this address";
    /// The reason of a refusal because the table of addresses is full.
    pub const TABLE_FULL: &'static str = "too many addresses with open connections";

    /// Creates a limit of `max` open connections for each address. With a limit of zero no connection from an IP address
    /// is admitted.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self::with(Self::builder(max))
    }

    /// Creates a builder for a limit of `max` open connections for each address.
    pub fn builder(max: usize) -> AddressLimitBuilder {
        let prefixes = PrefixLengths::default();
        AddressLimitBuilder { max, prefixes, max_addresses: DEFAULT_LIMITED_ADDRESSES }
    }

    fn with(builder: AddressLimitBuilder) -> Self {
        let AddressLimitBuilder { max, prefixes, max_addresses } = builder;
        let state = Mutex::new(OpenConnections { max, open: BTreeMap::new() });
        Self { shared: Arc::new(AddressLimitShared { prefixes, max_addresses, state }) }
    }

    /// Returns the maximum of each address.
    #[must_use]
    pub fn max(&self) -> usize {
        self.shared.lock().max
    }

    /// Changes the maximum of each address. Open connections stay open.
    pub fn set_max(&self, max: usize) {
        self.shared.lock().max = max;
    }

    /// Returns the open connections that are counted together with this address.
    #[must_use]
    pub fn open(&self, address: IpAddr) -> usize {
        let network = self.shared.prefixes.network_of(address);
        self.shared.lock().open.get(&network).copied().unwrap_or(0)
    }

    /// Returns how many addresses have open connections.
    #[must_use]
    pub fn addresses(&self) -> usize {
        self.shared.lock().open.len()
    }

    fn try_open(&self, address: Network) -> Result<AddressPermit, &'static str> {
        let mut state = self.shared.lock();
        let OpenConnections { max, open } = &mut *state;
        let (max, has_room) = (*max, open.len() < self.shared.max_addresses);
        match open.entry(address) {
            Entry::Occupied(count) if *count.get() >= max => return Err(Self::TOO_MANY),
            Entry::Occupied(mut count) => *count.get_mut() += 1,
            Entry::Vacant(_) if max == 0 => return Err(Self::TOO_MANY),
            Entry::Vacant(_) if !has_room => return Err(Self::TABLE_FULL),
            Entry::Vacant(count) => _ = count.insert(1),
        }
        drop(state);
        Ok(AddressPermit { shared: self.shared.clone(), address })
    }
}

impl AddressLimitShared {
    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AcceptGuard for AddressLimit {
    fn check(&self, connection: &AcceptedConnection) -> AcceptVerdict {
        let Some(address) = connection.peer_ip() else { return AcceptVerdict::Admit };
        match self.try_open(self.shared.prefixes.network_of(address)) {
            Ok(permit) => AcceptVerdict::AdmitWith(AcceptPermit::new(permit)),
            Err(reason) => AcceptVerdict::Refuse(reason),
        }
    }
}

/// Counts one open connection of an address until it is dropped.
struct AddressPermit {
    shared: Arc<AddressLimitShared>,
    address: Network,
}

impl Drop for AddressPermit {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if let Entry::Occupied(mut count) = state.open.entry(self.address) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

impl fmt::Debug for AddressLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AddressLimit({} for each of {} addresses)", self.max(), self.addresses())
    }
}
