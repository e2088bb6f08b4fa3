//! The filter by network.

use std::sync::atomic::{AtomicBool, Ordering};

use waterwheel_channel::Address;
use waterwheel_handlers::{NetworkAction, NetworkFilter, NetworkRules};

use crate::support::{check, connection, ip, is_admitted, network, nth, without_ip};

#[test]
fn k10_the_longest_matching_network_decides_whatever_the_order_of_the_rules() {
    let rules = [
        ("10.0.0.0/8", NetworkAction::Allow),
        ("10.66.0.0/16", NetworkAction::Deny),
        ("10.66.6.0/24", NetworkAction::Allow),
        ("10.66.6.6/32", NetworkAction::Deny),
        ("2001:db8::/32", NetworkAction::Allow),
        ("2001:db8:bad::/48", NetworkAction::Deny),
    ];
    for reverse in [false, true] {
        let mut list = NetworkRules::deny_by_default();
        let mut rules = rules.to_vec();
        if reverse {
            rules.reverse();
        }
        for (text, action) in rules {
            assert_eq!(list.insert(network(text), action), None);
        }
        let filter = NetworkFilter::new(list);
        for (address, is_allowed) in [
            ("10.0.0.0", true),
            ("10.65.255.255", true),
            ("10.66.0.0", false),
            ("10.66.5.255", false),
            ("10.66.6.0", true),
            ("10.66.6.5", true),
            ("10.66.6.6", false),
            ("10.66.6.7", true),
            ("10.66.7.0", false),
            ("10.67.0.0", true),
            ("10.255.255.255", true),
            ("9.255.255.255", false),
            ("11.0.0.0", false),
            ("::ffff:10.66.6.5", true),
            ("::ffff:10.66.6.6", false),
            ("2001:db8::1", true),
            ("2001:db8:bad::1", false),
            ("2001:db9::", false),
            ("::10.0.0.1", false),
        ] {
            let verdict = check(&filter, &connection(ip(address)));
            let expected = if is_allowed { Ok(()) } else { Err(NetworkFilter::DENIED) };
            assert_eq!(verdict.map(drop), expected, "{address}");
        }
    }
}

#[test]
fn k10_rules_at_either_end_of_the_address_range_do_not_overflow() {
    let filter = NetworkFilter::new(
        NetworkRules::allow_by_default()
            .deny(network("0.0.0.0"))
            .deny(network("255.255.255.255"))
            .deny(network("::"))
            .deny(network("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")),
    );
    for address in ["0.0.0.0", "255.255.255.255", "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"] {
        assert_eq!(filter.action_for(ip(address)), NetworkAction::Deny, "{address}");
    }
    for address in ["0.0.0.1", "255.255.255.254", "::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe"]
    {
        assert_eq!(filter.action_for(ip(address)), NetworkAction::Allow, "{address}");
    }
}

#[test]
fn k10_the_rules_of_a_filter_may_be_changed_while_it_is_used() {
    let filter = NetworkFilter::new(NetworkRules::allow_by_default());
    let used = filter.clone();
    let peer = connection(ip("198.51.100.7"));
    assert!(is_admitted(&used, &peer));
    filter.deny(network("198.51.100.0/24"));
    assert!(!is_admitted(&used, &peer));
    filter.allow(network("198.51.100.7"));
    assert!(is_admitted(&used, &peer));
    filter.deny(network("198.51.100.7"));
    assert!(!is_admitted(&used, &peer), "a network has one rule: the last");
    assert_eq!(filter.rules().len(), 2);
    assert_eq!(filter.remove(network("198.51.100.7")), Some(NetworkAction::Deny));
    assert_eq!(filter.remove(network("198.51.100.7")), None);
    assert_eq!(filter.remove(network("198.51.100.0/24")), Some(NetworkAction::Deny));
    assert!(is_admitted(&used, &peer) && filter.rules().is_empty());
    filter.set_rules(NetworkRules::deny_by_default());
    assert!(!is_admitted(&used, &peer));
    assert_eq!(used.rules().default_action(), NetworkAction::Deny);
    assert_eq!(format!("{filter:?}"), "NetworkFilter(0 rules, default Deny)");
}

#[test]
fn k10_a_peer_without_an_ip_address_gets_the_default_of_the_filter() {
    let rules = NetworkRules::deny_by_default().allow(network("0.0.0.0/0")).allow(network("::/0"));
    let denies = NetworkFilter::new(rules);
    let allows = NetworkFilter::new(NetworkRules::allow_by_default().deny(network("0.0.0.0/0")));
    for connection in without_ip() {
        assert!(!is_admitted(&denies, &connection) && is_admitted(&allows, &connection));
        assert!(allows.allows(connection.peer_address()));
    }
    assert!(denies.allows(Some(&Address::from(std::net::SocketAddr::new(ip("::1"), 1)))));
}

/// Two lists of rules take turns. What both allow is always allowed, and what both deny is always denied.
#[test]
fn k10_checks_during_changes_see_the_rules_before_or_after_a_change() {
    const RULES: u32 = 64;
    let (in_both, in_none) = (nth(RULES * 256), nth(RULES * 256 + 2));
    let rules = |odd: u32| {
        let allowed = (0..RULES).map(|n| nth(n * 256 + odd)).chain([in_both]).map(Into::into);
        allowed.fold(NetworkRules::deny_by_default(), NetworkRules::allow)
    };
    let (even, odd) = (rules(0), rules(1));
    let filter = NetworkFilter::new(even.clone());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = || {
            let mut checks = 0_u64;
            while !is_over.load(Ordering::Acquire) || checks == 0 {
                assert_eq!(filter.action_for(in_both), NetworkAction::Allow);
                assert_eq!(filter.action_for(in_none), NetworkAction::Deny);
                checks += 1;
            }
            checks
        };
        let readers = [scope.spawn(reader), scope.spawn(reader)];
        for _ in 0..500 {
            filter.set_rules(odd.clone());
            assert_eq!(filter.action_for(nth(1)), NetworkAction::Allow, "at once");
            assert_eq!(filter.action_for(nth(0)), NetworkAction::Deny, "at once");
            filter.set_rules(even.clone());
        }
        is_over.store(true, Ordering::Release);
        assert!(readers.into_iter().all(|reader| reader.join().unwrap() > 0));
    });
}
