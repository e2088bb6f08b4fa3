//! Allocations and memory of the stock accept guards (K10).

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use waterwheel_channel::{AcceptGuard, AcceptVerdict, AcceptedConnection};
use waterwheel_executor::Nanos;
use waterwheel_handlers::{AcceptRate, AddressLimit, NetworkFilter, NetworkRules};

#[path = "../../../support/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::{allocations_in, bytes};

fn connection(n: u32, at: Duration) -> AcceptedConnection {
    let peer = SocketAddr::from((Ipv4Addr::from_bits(0x0a00_0000 | n), 5000));
    AcceptedConnection::new(Some(peer.into()), None, Nanos::default().plus(at))
}

#[test]
fn k10_a_filter_of_ten_thousand_rules_allocates_nothing_for_a_check() {
    let rules = (0..10_000_u32)
        .map(|n| Ipv4Addr::from_bits(0x0a00_0000 | n << 10))
        .map(|first| waterwheel_channel::Network::new(first.into(), 24).unwrap());
    let filter =
        NetworkFilter::new(rules.fold(NetworkRules::allow_by_default(), NetworkRules::deny));
    let peers: Vec<_> = (0..1000).map(|n| connection(n * 97, Duration::ZERO)).collect();
    let (allocated, refused) = allocations_in(|| {
        let refused = |peer: &&_| matches!(filter.check(peer), AcceptVerdict::Refuse(_));
        peers.iter().filter(refused).count()
    });
    assert_eq!(allocated, 0);
    assert!(refused > 0 && refused < 1000, "{refused}");
}

/// The permit of a connection is the only allocation for an address that is known, besides a node of the tree now and
/// then.
#[test]
fn k10_a_known_address_costs_one_permit_and_a_refusal_costs_nothing() {
    let limit = AddressLimit::new(100);
    let peer = connection(1, Duration::ZERO);
    let first = limit.check(&peer);
    let (allocated, held) = allocations_in(|| [(); 99].map(|()| limit.check(&peer)));
    assert_eq!(allocated, 99);
    let (allocated, refused) = allocations_in(|| limit.check(&peer));
    assert_eq!(allocated, 0);
    assert!(matches!(refused, AcceptVerdict::Refuse(AddressLimit::TOO_MANY)));
    drop((first, held));

    let rate = AcceptRate::builder(1, Duration::from_secs(1)).build().unwrap();
    assert!(matches!(rate.check(&peer), AcceptVerdict::Admit));
    let (allocated, refused) = allocations_in(|| rate.check(&peer));
    assert_eq!(allocated, 0);
    assert!(matches!(refused, AcceptVerdict::Refuse(AcceptRate::TOO_FAST)));
}

#[test]
fn k10_the_memory_of_a_rate_is_bounded_in_an_address_flood_and_given_back_after_it() {
    /// The documented size of an entry. Measured: 106, and less where addresses come in order.
    const BYTES_PER_ADDRESS: usize = 150;
    const TRACKED: usize = 4_096;
    let second = Duration::from_secs(1);
    let rate = AcceptRate::builder(1, second).burst(5).max_addresses(TRACKED).build().unwrap();
    let before = bytes();
    let mut most = 0;
    for n in 0..60_000_u32 {
        // Scattered addresses, so that the trees are not filled in order.
        let peer = connection(n.wrapping_mul(0x9e37_79b1) & 0x00ff_ffff, second);
        assert!(matches!(rate.check(&peer), AcceptVerdict::Admit));
        most = most.max(bytes() - before);
    }
    assert_eq!(rate.tracked_addresses(), TRACKED);
    assert!(most <= TRACKED * BYTES_PER_ADDRESS, "{} bytes an address", most / TRACKED);
    for n in 0..TRACKED as u32 {
        let _ = rate.check(&connection(7, second * (10 + n)));
    }
    assert_eq!(rate.tracked_addresses(), 1);
    assert!(bytes() - before < 2_000, "{} bytes are left", bytes() - before);
}
