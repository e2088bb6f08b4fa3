//! The rules of a filter as a sorted table: one binary search finds the longest match.
//!
//! Two networks are disjoint, or one contains the other. So the rules cut the addresses into ranges with one action
//! each, at most two per rule and one more:
//!
//! ```text
//!   rules    10.0.0.0/8 allow ├─────────────────────────────────────┤
//!            10.66.0.0/16 deny            ├──────┤
//!   ranges   0.0.0.0 deny     10.0.0.0 allow  10.66.0.0 deny  10.67.0.0 allow   11.0.0.0 deny
//! ```

use std::net::IpAddr;

use super::network_rules::{NetworkAction, NetworkRules};

/// The actions of all addresses.
pub(super) struct RangeTable {
    v4: Vec<AddressRange>,
    v6: Vec<AddressRange>,
    default: NetworkAction,
}

/// Addresses from a first one up to the next range.
struct AddressRange {
    first: u128,
    action: NetworkAction,
}

impl RangeTable {
    pub(super) fn new(rules: &NetworkRules) -> Self {
        let default = rules.default_action();
        let (mut v4, mut v6) = (RangeBuilder::new(default), RangeBuilder::new(default));
        for (network, action) in rules.iter() {
            let (first, last) = (network.first_address(), network.last_address());
            let ranges = if first.is_ipv4() { &mut v4 } else { &mut v6 };
            ranges.add(bits(first), bits(last), action);
        }
        Self { v4: v4.finish(), v6: v6.finish(), default }
    }

    /// Returns the action of an address, or the default for a peer without one.
    pub(super) fn action_for(&self, address: Option<IpAddr>) -> NetworkAction {
        let Some(address) = address.map(|address| address.to_canonical()) else {
            return self.default;
        };
        let (ranges, bits) = (if address.is_ipv4() { &self.v4 } else { &self.v6 }, bits(address));
        let after = ranges.partition_point(|range| range.first <= bits);
        ranges[..after].last().map_or(self.default, |range| range.action)
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Builds the ranges of one version from its networks, in their order.
struct RangeBuilder {
    ranges: Vec<AddressRange>,
    /// The networks that contain the present address, each inside of the one before.
    open: Vec<OpenNetwork>,
    default: NetworkAction,
}

struct OpenNetwork {
    last: u128,
    action: NetworkAction,
}

impl RangeBuilder {
    fn new(default: NetworkAction) -> Self {
        let (ranges, open) = (vec![AddressRange { first: 0, action: default }], Vec::new());
        Self { ranges, open, default }
    }

    fn add(&mut self, first: u128, last: u128, action: NetworkAction) {
        while self.open.last().is_some_and(|open| open.last < first) {
            self.close_innermost();
        }
        self.begin_range(first, action);
        self.open.push(OpenNetwork { last, action });
    }

    /// Ends the innermost network: the one around it, or the default, goes on after its last address.
    fn close_innermost(&mut self) {
        let Some(closed) = self.open.pop() else { return };
        let outer = self.open.last().map_or(self.default, |open| open.action);
        // The last address of IPv4 plus one begins a range that is never searched.
        if let Some(next) = closed.last.checked_add(1) {
            self.begin_range(next, outer);
        }
    }

    fn begin_range(&mut self, first: u128, action: NetworkAction) {
        match self.ranges.last_mut() {
            Some(last) if last.first == first => last.action = action,
            Some(last) if last.action == action => {}
            _ => self.ranges.push(AddressRange { first, action }),
        }
    }

    fn finish(mut self) -> Vec<AddressRange> {
        while !self.open.is_empty() {
            self.close_innermost();
        }
        self.ranges
    }
}
