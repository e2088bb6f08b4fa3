//! Random rules, connections and times, compared with slow references.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use waterwheel_channel::Network;
use waterwheel_handlers::{AcceptRate, AddressLimit, NetworkAction, NetworkFilter, NetworkRules};

use crate::support::{check, connection, connection_at, is_admitted, nth};

/// Addresses of both versions whose bits are mostly equal, so that networks are nested and adjacent.
fn address() -> impl Strategy<Value = IpAddr> {
    let octet = || prop_oneof![3 => Just(0_u8), 1 => Just(0x80), 1 => Just(0xff), 1 => any::<u8>()];
    let v4 = [octet(), octet(), octet(), octet()].prop_map(Ipv4Addr::from);
    let segment = prop_oneof![Just(0_u16), Just(0xffff), any::<u16>()];
    let v6 = proptest::array::uniform8(segment).prop_map(Ipv6Addr::from);
    prop_oneof![
        3 => v4.clone().prop_map(IpAddr::V4),
        1 => v4.prop_map(|v4| IpAddr::V6(v4.to_ipv6_mapped())),
        2 => v6.prop_map(IpAddr::V6),
    ]
}

fn network() -> impl Strategy<Value = Network> {
    (address(), any::<u8>()).prop_map(|(address, prefix)| {
        let bits = if address.is_ipv4() { 33 } else { 129 };
        Network::containing(address, (u16::from(prefix) % bits) as u8).unwrap()
    })
}

fn action() -> impl Strategy<Value = NetworkAction> {
    prop_oneof![Just(NetworkAction::Allow), Just(NetworkAction::Deny)]
}

/// Looks at every rule.
fn slow_action(
    rules: &[(Network, NetworkAction)],
    default: NetworkAction,
    address: IpAddr,
) -> NetworkAction {
    let matching = rules.iter().filter(|(network, _)| network.contains(address));
    // The last of equal networks, as `max_by_key` returns it.
    matching.max_by_key(|(network, _)| network.prefix_len()).map_or(default, |(_, action)| *action)
}

fn empty_rules(default: NetworkAction) -> NetworkRules {
    match default {
        NetworkAction::Allow => NetworkRules::allow_by_default(),
        NetworkAction::Deny => NetworkRules::deny_by_default(),
    }
}

/// Returns the address before and after this one, if there are any.
fn neighbours(address: IpAddr) -> Vec<IpAddr> {
    let steps = [-1_i128, 1];
    let step = |by: i128| match address {
        IpAddr::V4(v4) => {
            v4.to_bits().checked_add_signed(by as i32).map(|bits| Ipv4Addr::from_bits(bits).into())
        }
        IpAddr::V6(v6) => {
            v6.to_bits().checked_add_signed(by).map(|bits| Ipv6Addr::from_bits(bits).into())
        }
    };
    steps.into_iter().filter_map(step).collect()
}

proptest! {
    #[test]
    fn k10_a_filter_decides_as_a_search_through_all_rules_does(
        rules in vec((network(), action()), 0..24),
        default in action(),
        others in vec(address(), 20),
    ) {
        let mut list = empty_rules(default);
        for (network, action) in &rules {
            list.insert(*network, *action);
        }
        let filter = NetworkFilter::new(list);
        let ends = rules.iter().flat_map(|(network, _)| {
            [network.first_address(), network.last_address()]
        });
        let asked = ends.flat_map(|end| neighbours(end).into_iter().chain([end])).chain(others);
        for address in asked {
            let expected = slow_action(&rules, default, address);
            prop_assert_eq!(filter.action_for(address), expected, "{}", address);
        }
    }

    #[test]
    fn k10_a_filter_that_was_changed_rule_by_rule_equals_one_built_at_once(
        changes in vec((network(), proptest::option::of(action())), 1..30),
        asked in vec(address(), 30),
    ) {
        let changed = NetworkFilter::new(NetworkRules::allow_by_default());
        let mut rules = NetworkRules::allow_by_default();
        for (network, action) in changes {
            match action {
                Some(NetworkAction::Allow) => changed.allow(network),
                Some(NetworkAction::Deny) => changed.deny(network),
                None => prop_assert_eq!(changed.remove(network), rules.remove(network)),
            }
            if let Some(action) = action {
                rules.insert(network, action);
            }
        }
        prop_assert_eq!(changed.rules(), rules.clone());
        let built = NetworkFilter::new(rules);
        for address in asked {
            prop_assert_eq!(changed.action_for(address), built.action_for(address));
        }
    }

    #[test]
    fn k10_open_connections_are_counted_as_a_plain_map_does(
        ops in vec((0..6_u32, any::<bool>(), any::<prop::sample::Index>()), 1..200),
        max in 0..4_usize,
        addresses in 1..5_usize,
    ) {
        let limit = AddressLimit::builder(max).max_addresses(addresses).build().unwrap();
        let mut open: HashMap<u32, usize> = HashMap::new();
        let mut held = Vec::new();
        for (n, closes, which) in ops {
            if closes && !held.is_empty() {
                let (n, _permit) = held.swap_remove(which.index(held.len()));
                *open.get_mut(&n).unwrap() -= 1;
                if open[&n] == 0 {
                    open.remove(&n);
                }
            } else {
                let count = open.get(&n).copied().unwrap_or(0);
                let expected = match count {
                    _ if count >= max => Some(AddressLimit::TOO_MANY),
                    0 if open.len() >= addresses => Some(AddressLimit::TABLE_FULL),
                    _ => None,
                };
                match check(&limit, &connection(nth(n))) {
                    Err(reason) => prop_assert_eq!(Some(reason), expected),
                    Ok(permit) => {
                        prop_assert_eq!(None, expected);
                        *open.entry(n).or_default() += 1;
                        held.push((n, permit));
                    }
                }
            }
            for n in 0..6 {
                prop_assert_eq!(limit.open(nth(n)), open.get(&n).copied().unwrap_or(0));
            }
            prop_assert_eq!(limit.addresses(), open.len());
        }
        drop(held);
        prop_assert_eq!(limit.addresses(), 0);
    }

    #[test]
    fn k10_buckets_are_filled_emptied_and_evicted_as_a_slow_reference_does(
        steps in vec((0..12_u32, 0..400_u64), 1..300),
        per_second in 1..20_u32,
        burst in 1..8_u32,
        max in 1..10_usize,
    ) {
        let second = Duration::from_secs(1);
        let rate = AcceptRate::builder(per_second, second).burst(burst).max_addresses(max);
        let rate = rate.build().unwrap();
        let interval = 1_000_000_000_u64.div_ceil(per_second.into());
        let mut reference = SlowBuckets { interval, burst: burst.into(), max, buckets: Vec::new() };
        let mut now = second;
        for (n, passed) in steps {
            now += Duration::from_millis(passed);
            let expected = reference.try_take(n, now.as_nanos() as u64);
            prop_assert_eq!(is_admitted(&rate, &connection_at(nth(n), now)), expected);
            prop_assert!(rate.tracked_addresses() <= max);
        }
    }
}

/// Buckets that count their tokens, in billionths of the time in which a token comes.
struct SlowBuckets {
    interval: u64,
    burst: u64,
    max: usize,
    buckets: Vec<SlowBucket>,
}

#[derive(Clone, Copy)]
struct SlowBucket {
    n: u32,
    /// The time of this many nanoseconds has been saved up, at most `burst` intervals.
    saved: u64,
    at: u64,
}

impl SlowBuckets {
    fn try_take(&mut self, n: u32, now: u64) -> bool {
        let (interval, full) = (self.interval, self.interval * self.burst);
        for bucket in &mut self.buckets {
            bucket.saved = full.min(bucket.saved + (now - bucket.at));
            bucket.at = now;
        }
        self.buckets.retain(|bucket| bucket.saved < full);
        let known = self.buckets.iter_mut().find(|bucket| bucket.n == n);
        match known {
            Some(bucket) if bucket.saved < interval => return false,
            Some(bucket) => bucket.saved -= interval,
            None => {
                if self.buckets.len() >= self.max {
                    // The one that misses least; of equal ones, that of the first address.
                    let least = |bucket: &SlowBucket| (full - bucket.saved, bucket.n);
                    let evicted = self.buckets.iter().copied().min_by_key(least).unwrap().n;
                    self.buckets.retain(|bucket| bucket.n != evicted);
                }
                self.buckets.push(SlowBucket { n, saved: full - interval, at: now });
            }
        }
        true
    }
}
