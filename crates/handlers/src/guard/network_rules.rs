//! Rules that allow or deny networks.

use std::collections::BTreeMap;

use waterwheel_channel::Network;

/// The treatment of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkAction {
    /// Connections from it are admitted.
    Allow,
    /// Connections from it are refused.
    Deny,
}

/// Networks with an action each, and a default for addresses in none of them. Of several networks that contain an
/// address, the one with the longest prefix decides; the order of the rules has no meaning. A network has one rule: the
/// last one added.
///
/// ```
/// use waterwheel_handlers::NetworkRules;
///
/// let rules = NetworkRules::deny_by_default()
///     .allow("10.0.0.0/8".parse()?)
///     .deny("10.66.0.0/16".parse()?)
///     .allow("2001:db8::/32".parse()?);
/// assert_eq!(rules.len(), 3);
/// # Ok::<(), waterwheel_channel::InvalidNetwork>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkRules {
    /// In the order of `Network`: by first address, and a wider network before the narrower ones inside of it.
    actions: BTreeMap<Network, NetworkAction>,
    default: NetworkAction,
}

impl NetworkRules {
    /// Creates an empty list that allows every address.
    #[must_use]
    pub fn allow_by_default() -> Self {
        Self { actions: BTreeMap::new(), default: NetworkAction::Allow }
    }

    /// Creates an empty list that denies every address.
    #[must_use]
    pub fn deny_by_default() -> Self {
        Self { actions: BTreeMap::new(), default: NetworkAction::Deny }
    }

    /// Allows a network.
    #[must_use]
    pub fn allow(mut self, network: Network) -> Self {
        self.insert(network, NetworkAction::Allow);
        self
    }

    /// Denies a network.
    #[must_use]
    pub fn deny(mut self, network: Network) -> Self {
        self.insert(network, NetworkAction::Deny);
        self
    }

    /// Sets the rule of a network. Returns its previous rule.
    pub fn insert(&mut self, network: Network, action: NetworkAction) -> Option<NetworkAction> {
        self.actions.insert(network, action)
    }

    /// Removes the rule of exactly this network. Returns the rule.
    pub fn remove(&mut self, network: Network) -> Option<NetworkAction> {
        self.actions.remove(&network)
    }

    /// Returns the rules, IPv4 first, ordered by address, wider networks before narrower ones inside of them.
    pub fn iter(&self) -> impl Iterator<Item = (Network, NetworkAction)> + '_ {
        self.actions.iter().map(|(network, action)| (*network, *action))
    }

    /// Returns the number of rules.
    #[must_use]
    pub fn len(&self) -> usize {
        self.actions.len()
    }

    /// True if there is no rule, only the default.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// Returns the action for addresses in none of the networks.
    #[must_use]
    pub fn default_action(&self) -> NetworkAction {
        self.default
    }
}
