//! The guard that allows and denies networks.

use std::fmt;
use std::mem;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use waterwheel_channel::{AcceptGuard, AcceptVerdict, AcceptedConnection, Address, Network};

use super::network_rules::{NetworkAction, NetworkRules};
use super::range_table::RangeTable;

/// An accept guard that refuses peers by their address: see [`NetworkRules`].
///
/// This is a handle; the rules may be changed from any thread while servers run. A change concerns connections that are
/// accepted from then on; open ones stay open. A peer without an IP address (of a Unix or local socket) gets the
/// default.
///
/// A check is a binary search, and loops check at the same time. A change sorts all rules into a new table, while checks
/// use the previous one: to change many rules, use [`set_rules`](Self::set_rules).
///
/// To apply the rules elsewhere, for instance to the address in a PROXY header, ask [`allows`](Self::allows).
///
/// ```
/// use waterwheel_channel::Address;
/// use waterwheel_handlers::{NetworkAction, NetworkFilter, NetworkRules};
///
/// let filter = NetworkFilter::new(NetworkRules::deny_by_default().allow("10.0.0.0/8".parse()?));
/// assert_eq!(filter.action_for("10.1.2.3".parse()?), NetworkAction::Allow);
/// filter.deny("10.1.0.0/16".parse()?);
/// assert_eq!(filter.action_for("10.1.2.3".parse()?), NetworkAction::Deny);
/// assert!(!filter.allows(None), "no address: the default");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct NetworkFilter {
    shared: Arc<FilterShared>,
}

/// The rules, and the table made from them. Loops that accept read the table. A thread that changes the rules holds
/// their lock until the new table is in place, so that tables follow each other as the changes do, and the table's only
/// to put the new one in place.
struct FilterShared {
    rules: Mutex<NetworkRules>,
    table: RwLock<RangeTable>,
}

impl NetworkFilter {
    /// The reason of a refusal.
    pub const DENIED: &'static str = "the address is denied";

    /// Creates a filter with these rules.
    #[must_use]
    pub fn new(rules: NetworkRules) -> Self {
        let table = RwLock::new(RangeTable::new(&rules));
        Self { shared: Arc::new(FilterShared { rules: Mutex::new(rules), table }) }
    }

    /// Returns the rules.
    #[must_use]
    pub fn rules(&self) -> NetworkRules {
        self.lock().clone()
    }

    /// Replaces all rules and the default at once.
    pub fn set_rules(&self, rules: NetworkRules) {
        self.change(|present| *present = rules);
    }

    /// Allows a network from now on. A previous rule for exactly this network is replaced.
    pub fn allow(&self, network: Network) {
        self.change(|rules| _ = rules.insert(network, NetworkAction::Allow));
    }

    /// Denies a network from now on. A previous rule for exactly this network is replaced.
    pub fn deny(&self, network: Network) {
        self.change(|rules| _ = rules.insert(network, NetworkAction::Deny));
    }

    /// Removes the rule of exactly this network. Returns the rule.
    pub fn remove(&self, network: Network) -> Option<NetworkAction> {
        let mut removed = None;
        self.change(|rules| removed = rules.remove(network));
        removed
    }

    /// Returns the action for an address.
    #[must_use]
    pub fn action_for(&self, address: IpAddr) -> NetworkAction {
        self.look_up(Some(address))
    }

    /// True if a peer with this address is admitted. No address, or one that is not an IP address, gets the default.
    #[must_use]
    pub fn allows(&self, peer: Option<&Address>) -> bool {
        self.look_up(peer.and_then(Address::ip)) == NetworkAction::Allow
    }

    fn look_up(&self, address: Option<IpAddr>) -> NetworkAction {
        self.shared.table.read().unwrap_or_else(PoisonError::into_inner).action_for(address)
    }

    /// Changes the rules by `change`, which is ours and quick: it runs under their lock.
    fn change(&self, change: impl FnOnce(&mut NetworkRules)) {
        let mut rules = self.lock();
        change(&mut rules);
        let mut table = RangeTable::new(&rules);
        mem::swap(
            &mut table,
            &mut self.shared.table.write().unwrap_or_else(PoisonError::into_inner),
        );
        drop(rules);
        drop(table); // The previous one may be large; no lock is held while it is freed.
    }

    fn lock(&self) -> MutexGuard<'_, NetworkRules> {
        self.shared.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AcceptGuard for NetworkFilter {
    fn check(&self, connection: &AcceptedConnection) -> AcceptVerdict {
        match self.allows(connection.peer_address()) {
            true => AcceptVerdict::Admit,
            false => AcceptVerdict::Refuse(Self::DENIED),
        }
    }
}

impl fmt::Debug for NetworkFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = self.lock();
        write!(f, "NetworkFilter({} rules, default {:?})", rules.len(), rules.default_action())
    }
}
