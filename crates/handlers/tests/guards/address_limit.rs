//! The limit of open connections per address.

use std::net::IpAddr;

use waterwheel_handlers::{AddressLimit, InvalidGuard, PrefixLengths};

use crate::support::{check, connection, ip, is_admitted, nth, without_ip};

#[test]
fn k10_an_address_has_at_most_so_many_open_connections_and_others_are_not_affected() {
    let limit = AddressLimit::new(2);
    let (one, other) = (connection(ip("192.0.2.1")), connection(ip("192.0.2.2")));
    let first = check(&limit, &one).unwrap();
    let second = check(&limit, &one).unwrap();
    assert_eq!(check(&limit, &one).unwrap_err(), AddressLimit::TOO_MANY);
    let others = check(&limit, &other).unwrap();
    assert!(first.is_some() && second.is_some() && others.is_some());
    assert_eq!((limit.open(ip("192.0.2.1")), limit.open(ip("192.0.2.2"))), (2, 1));
    assert_eq!(limit.addresses(), 2);
    drop(first);
    assert_eq!(limit.open(ip("192.0.2.1")), 1);
    let third = check(&limit, &one).unwrap();
    assert!(!is_admitted(&limit, &one));
    drop((second, third, others));
    assert_eq!((limit.open(ip("192.0.2.1")), limit.addresses()), (0, 0), "nothing is left");
}

#[test]
fn k10_addresses_of_a_network_are_counted_together() {
    let limit = AddressLimit::new(1);
    let held = check(&limit, &connection(ip("2001:db8::1"))).unwrap();
    assert!(!is_admitted(&limit, &connection(ip("2001:db8::ffff:1"))), "the same /64");
    assert!(is_admitted(&limit, &connection(ip("2001:db8:0:1::1"))), "another /64");
    assert_eq!(limit.open(ip("2001:db8::7")), 1);
    drop(held);

    let prefixes = PrefixLengths::new(24, 48).unwrap();
    let limit = AddressLimit::builder(1).prefixes(prefixes).build().unwrap();
    let _held = check(&limit, &connection(ip("192.0.2.1"))).unwrap();
    assert!(!is_admitted(&limit, &connection(ip("::ffff:192.0.2.200"))), "mapped");
    assert!(is_admitted(&limit, &connection(ip("192.0.3.1"))));

    let prefixes = PrefixLengths::new(0, 0).unwrap();
    let all = AddressLimit::builder(1).prefixes(prefixes).build().unwrap();
    let _held = check(&all, &connection(ip("192.0.2.1"))).unwrap();
    assert!(!is_admitted(&all, &connection(ip("203.0.113.9"))), "all of IPv4");
    assert!(is_admitted(&all, &connection(ip("::1"))));
}

#[test]
fn k10_the_limit_of_addresses_may_be_changed_and_zero_refuses_all() {
    let limit = AddressLimit::new(0);
    let peer = connection(ip("192.0.2.1"));
    assert_eq!(check(&limit, &peer).unwrap_err(), AddressLimit::TOO_MANY);
    limit.set_max(2);
    let held = [check(&limit, &peer).unwrap(), check(&limit, &peer).unwrap()];
    limit.set_max(1);
    assert!(!is_admitted(&limit, &peer));
    assert_eq!((limit.max(), limit.open(ip("192.0.2.1"))), (1, 2), "open ones stay open");
    assert_eq!(format!("{limit:?}"), "AddressLimit(1 for each of 1 addresses)");
    drop(held);
    assert!(is_admitted(&limit, &peer));
}

#[test]
fn k10_the_table_of_addresses_with_connections_is_bounded() {
    let limit = AddressLimit::builder(5).max_addresses(3).build().unwrap();
    let mut held: Vec<_> = (0..3).map(|n| check(&limit, &connection(nth(n))).unwrap()).collect();
    for n in 3..1000 {
        let refused = check(&limit, &connection(nth(n))).unwrap_err();
        assert_eq!(refused, AddressLimit::TABLE_FULL);
    }
    held.push(check(&limit, &connection(nth(0))).unwrap());
    assert_eq!((limit.addresses(), limit.open(nth(0))), (3, 2), "known addresses go on");
    held.remove(1);
    held.push(check(&limit, &connection(nth(7))).unwrap());
    assert_eq!(limit.addresses(), 3);
    let none = AddressLimit::builder(5).max_addresses(0).build().unwrap_err();
    assert_eq!(none, InvalidGuard::NoAddresses);
}

#[test]
fn k10_a_peer_without_an_ip_address_is_admitted_and_not_counted() {
    let limit = AddressLimit::new(0);
    for connection in without_ip() {
        assert!(check(&limit, &connection).unwrap().is_none());
    }
    assert_eq!(limit.addresses(), 0);
}

#[test]
fn k10_permits_of_many_threads_are_counted_exactly() {
    const THREADS: u32 = 4;
    const MAX: usize = 3;
    let limit = AddressLimit::new(MAX);
    let addresses: Vec<IpAddr> = (0..5).map(nth).collect();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (limit, addresses) = (&limit, &addresses);
            scope.spawn(move || {
                let mut held = std::collections::VecDeque::new();
                for round in 0..3_000_u32 {
                    let address = addresses[(round * 7 + thread) as usize % addresses.len()];
                    held.extend(check(limit, &connection(address)).ok());
                    assert!(limit.open(address) <= MAX);
                    if held.len() > 4 {
                        held.pop_front();
                    }
                }
            });
        }
    });
    assert_eq!(limit.addresses(), 0, "every permit was given back");
}
