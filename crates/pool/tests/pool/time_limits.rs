//! Limits of time: idle, age, and the minimum of idle connections.

use std::io;

use waterwheel_pool::PoolCloseReason;

use super::support::{ADDRESS, Fixture, SECOND};

#[test]
fn k12_a_connection_is_closed_when_its_idle_limit_is_reached_and_not_before() {
    let fixture = Fixture::new(|pool| pool.idle_limit(10 * SECOND));
    let (lease, peer) = fixture.open(ADDRESS);
    fixture.advance(25 * SECOND);
    drop(lease);
    fixture.advance(10 * SECOND - SECOND / 1000);
    assert!(!peer.is_closed());
    drop(fixture.pool.acquire(ADDRESS).join().unwrap());
    fixture.advance(10 * SECOND - SECOND / 1000);
    assert!(!peer.is_closed(), "used meanwhile");
    fixture.advance(SECOND / 1000);
    assert!(peer.is_closed());
    fixture.assert_at_rest(0, 0);
    assert_eq!(fixture.closed(PoolCloseReason::IdleLimit), 1);
}

#[test]
fn k12_few_connections_stay_when_the_load_falls() {
    let fixture = Fixture::new(|pool| pool.idle_limit(10 * SECOND));
    let leases: Vec<_> = (0..5).map(|_| fixture.open(ADDRESS)).collect();
    let peers: Vec<_> = leases.into_iter().map(|(_, peer)| peer).collect();
    for _ in 0..12 {
        drop(fixture.pool.acquire(ADDRESS).join().unwrap());
        fixture.advance(SECOND);
    }
    fixture.assert_at_rest(1, 0);
    drop(peers);
}

#[test]
fn k12_an_old_connection_is_closed_when_idle_or_given_back() {
    let fixture = Fixture::new(|pool| pool.max_age(10 * SECOND).age_jitter(0).idle_limit(None));
    let (idle, idle_peer) = fixture.open(ADDRESS);
    let (leased, leased_peer) = fixture.open(ADDRESS);
    drop(idle);
    fixture.advance(10 * SECOND - SECOND / 1000);
    assert!(!idle_peer.is_closed());
    fixture.advance(SECOND / 1000);
    assert!(idle_peer.is_closed() && !leased_peer.is_closed());
    assert!(leased.is_open());
    drop(leased);
    fixture.assert_at_rest(0, 0);
    assert!(leased_peer.is_closed());
    assert_eq!(fixture.closed(PoolCloseReason::AgeLimit), 2);
}

#[test]
fn k12_the_age_limit_varies_by_the_jitter() {
    let fixture =
        Fixture::new(|pool| pool.unbounded().max_age(100 * SECOND).age_jitter(50).idle_limit(None));
    let leases: Vec<_> = (0..64).map(|_| fixture.open(ADDRESS)).collect();
    let peers: Vec<_> = leases.into_iter().map(|(_, peer)| peer).collect();
    let open = || peers.iter().filter(|peer| !peer.is_closed()).count();
    fixture.advance(50 * SECOND);
    assert!(open() >= 63, "none before half of it");
    fixture.advance(25 * SECOND);
    // The chance that none or all of 64 are in one half is 2^-63.
    assert!((1..64).contains(&open()), "{}", open());
    fixture.advance(25 * SECOND);
    assert_eq!(open(), 0);
}

#[test]
fn k12_a_minimum_of_idle_connections_is_kept() {
    let fixture = Fixture::new(|pool| pool.max_open(3).min_idle(2).idle_limit(10 * SECOND));
    fixture.pool.warm_up(ADDRESS);
    let peers = [fixture.accept(), fixture.accept()];
    assert!(fixture.next_connect().is_none());
    fixture.assert_at_rest(2, 0);
    fixture.advance(100 * SECOND);
    fixture.assert_at_rest(2, 0); // Beyond their idle limit.
    let lease = fixture.pool.acquire(ADDRESS).join().unwrap();
    let _third = fixture.accept();
    let second = fixture.pool.acquire(ADDRESS).join().unwrap();
    assert!(fixture.next_connect().is_none(), "the limit of open connections holds");
    drop((lease, second));
    fixture.assert_at_rest(3, 0);
    fixture.advance(10 * SECOND);
    fixture.assert_at_rest(2, 0);
    drop(peers);
}

#[test]
fn k12_keeping_the_minimum_pauses_longer_and_longer_while_connects_fail() {
    let fixture = Fixture::new(|pool| pool.min_idle(1));
    fixture.pool.warm_up(ADDRESS);
    for pause in [1, 2, 4, 8, 16, 30, 30] {
        fixture.next_connect().unwrap().refuse(io::ErrorKind::ConnectionRefused);
        fixture.advance(pause * SECOND - SECOND / 1000);
        assert!(fixture.next_connect().is_none(), "{pause}");
        fixture.advance(SECOND / 1000);
    }
    // An acquire does not wait for the pause.
    fixture.next_connect().unwrap().refuse(io::ErrorKind::ConnectionRefused);
    fixture.settle();
    let acquire = fixture.pool.acquire(ADDRESS);
    let _peer = fixture.accept();
    drop(acquire.join().unwrap());
    fixture.assert_at_rest(1, 0);
}

#[test]
fn k12_a_server_that_closes_unused_connections_does_not_make_the_pool_spin() {
    let fixture = Fixture::new(|pool| pool.min_idle(1));
    fixture.pool.warm_up(ADDRESS);
    fixture.accept().reset();
    assert!(fixture.next_connect().is_none());
    fixture.advance(SECOND);
    fixture.accept().finish();
    assert!(fixture.next_connect().is_none());
    fixture.advance(2 * SECOND);
    let _peer = fixture.accept();
    fixture.assert_at_rest(1, 0);
}

#[test]
fn k12_a_retired_address_is_closed_and_opened_anew() {
    let fixture = Fixture::new(|pool| pool.min_idle(1));
    let (leased, leased_peer) = fixture.open(ADDRESS);
    let stocked = fixture.accept();
    let connecting = fixture.pool.acquire(ADDRESS).join().unwrap(); // Takes the idle one.
    drop(connecting);
    let pending = fixture.next_connect();
    fixture.pool.retire(ADDRESS);
    fixture.settle();
    assert!(stocked.is_closed() && !leased_peer.is_closed());
    drop(leased);
    let late = pending.map(|connect| connect.accept());
    fixture.assert_at_rest(0, 0);
    assert!(leased_peer.is_closed() && late.is_none_or(|peer| peer.is_closed()));
    assert!(fixture.next_connect().is_none(), "no minimum is kept for it");
    let (_lease, _peer) = fixture.open(ADDRESS);
}

#[test]
fn k12_the_longest_limits_of_time_are_no_limits() {
    let forever = std::time::Duration::MAX;
    let fixture = Fixture::new(|pool| {
        let pool = pool.max_open(1).max_age(forever).age_jitter(99).idle_limit(forever);
        pool.acquire_timeout(forever)
    });
    let (lease, _peer) = fixture.open(ADDRESS);
    let waiting = fixture.pool.acquire(ADDRESS);
    fixture.advance(1_000_000 * SECOND);
    assert!(!waiting.is_done());
    drop(lease);
    drop(waiting.join().unwrap());
    fixture.assert_at_rest(1, 0);
}

#[test]
fn k12_checks_do_not_prolong_the_idle_limit() {
    let fixture = Fixture::new(|pool| {
        pool.idle_limit(50 * SECOND)
            .check_while_idle(10 * SECOND)
            .health_check(|_| async { Ok(()) })
    });
    let (lease, peer) = fixture.open(ADDRESS);
    fixture.advance(SECOND / 2);
    drop(lease);
    // The checks have no duration here: the fifth one begins when the limit is reached.
    for _ in 0..110 {
        fixture.advance(SECOND / 2);
    }
    assert!(peer.is_closed(), "idle for 55 s");
}

#[test]
fn k12_an_address_used_again_after_it_was_retired_is_stocked_again() {
    let fixture = Fixture::new(|pool| pool.min_idle(1));
    let (lease, _peer) = fixture.open(ADDRESS);
    let _stock = fixture.accept();
    fixture.pool.retire(ADDRESS);
    fixture.settle();
    let (again, _again_peer) = fixture.open(ADDRESS);
    assert!(fixture.next_connect().is_some(), "the minimum is kept for an address in use");
    drop((lease, again));
}

#[test]
fn k12_the_pauses_begin_anew_after_a_connection_was_used() {
    let fixture = Fixture::new(|pool| pool.min_idle(1).max_open(1));
    fixture.pool.warm_up(ADDRESS);
    for pause in [1, 2, 4] {
        fixture.next_connect().unwrap().refuse(io::ErrorKind::ConnectionRefused);
        fixture.advance(pause * SECOND);
    }
    let peer = fixture.accept();
    drop(fixture.pool.acquire(ADDRESS).join().unwrap());
    peer.reset();
    fixture.next_connect().unwrap().refuse(io::ErrorKind::ConnectionRefused);
    fixture.advance(SECOND);
    assert!(fixture.next_connect().is_some(), "one second, as at first");
}
