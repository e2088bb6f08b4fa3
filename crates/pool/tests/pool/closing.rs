//! Closing and draining pools.

use waterwheel_channel::Drained;
use waterwheel_pool::{PoolCloseReason, PoolError};

use super::support::{ADDRESS, Fixture, SECOND, pool_error};

#[test]
fn k12_a_closed_pool_refuses_acquires_and_closes_its_connections() {
    let fixture = Fixture::new(|pool| pool.max_open(2));
    let ((leased, leased_peer), (idle, idle_peer)) = (fixture.open(ADDRESS), fixture.open(ADDRESS));
    let other = fixture.pool.acquire("192.0.2.2:80");
    let connecting = fixture.next_connect().unwrap();
    drop(idle);
    let busy = fixture.pool.acquire(ADDRESS).join().unwrap();
    let waiting = fixture.pool.acquire(ADDRESS);
    drop(busy);
    let served = waiting.join().unwrap();
    drop(served);
    let closed = fixture.pool.close();
    fixture.settle();
    assert!(fixture.pool.is_closed());
    assert!(idle_peer.is_closed() && !leased_peer.is_closed() && connecting.is_closed());
    assert!(matches!(pool_error(&other.join().unwrap_err()), PoolError::Closed));
    let refused = fixture.pool.acquire(ADDRESS).join().unwrap_err();
    assert_eq!(refused.to_string(), "the connection pool is closed");
    assert!(matches!(fixture.pool.try_acquire(ADDRESS), Err(PoolError::Closed)));
    assert!(!closed.is_done());
    assert!(leased.is_open());
    drop(leased);
    closed.join().unwrap();
    assert!(leased_peer.is_closed());
    assert_eq!(fixture.closed(PoolCloseReason::PoolClosed), 2);
    fixture.assert_at_rest(0, 0);
    fixture.pool.close().join().unwrap();
}

#[test]
fn k12_waiting_acquires_fail_when_the_pool_is_closed() {
    let fixture = Fixture::new(|pool| pool.max_open(1).min_idle(1));
    let (lease, _peer) = fixture.open(ADDRESS);
    let waiting = [fixture.pool.acquire(ADDRESS), fixture.pool.acquire(ADDRESS)];
    drop(fixture.pool.close());
    for acquire in waiting {
        assert!(matches!(pool_error(&acquire.join().unwrap_err()), PoolError::Closed));
    }
    drop(lease);
    fixture.assert_at_rest(0, 0);
    assert!(fixture.next_connect().is_none());
}

#[test]
fn k12_a_drain_waits_for_leases_until_its_deadline() {
    let fixture = Fixture::new(|pool| pool);
    let (lease, peer) = fixture.open(ADDRESS);
    let drained = fixture.pool.drain(5 * SECOND);
    fixture.advance(4 * SECOND);
    assert!(!drained.is_done() && lease.is_open());
    drop(lease);
    assert_eq!(drained.join().unwrap(), Drained::Complete);
    assert!(peer.is_closed());
    fixture.settle();
    assert_eq!(fixture.event_loop(0).metrics().timers, 0);

    let fixture = Fixture::new(|pool| pool);
    let (lease, peer) = fixture.open(ADDRESS);
    let drained = fixture.pool.drain(5 * SECOND);
    fixture.advance(5 * SECOND);
    assert_eq!(drained.join().unwrap(), Drained::DeadlineReached { channels: 1 });
    assert!(peer.is_closed() && !lease.is_open());
    drop(lease);
    fixture.assert_at_rest(0, 0);
}

#[test]
fn k12_dropping_the_last_handle_closes_the_pool() {
    let mut fixture = Fixture::new(|pool| pool.max_open(2));
    let ((leased, leased_peer), (idle, idle_peer)) = (fixture.open(ADDRESS), fixture.open(ADDRESS));
    drop(idle);
    let pool = fixture.pool.clone();
    let other = pool.acquire("192.0.2.2:80");
    let connecting = fixture.next_connect().unwrap();
    fixture.pool = Fixture::new(|pool| pool).pool.clone();
    drop(pool);
    fixture.settle();
    assert!(matches!(pool_error(&other.join().unwrap_err()), PoolError::Closed));
    assert!(idle_peer.is_closed() && connecting.is_closed() && !leased_peer.is_closed());
    assert!(leased.is_open());
    drop(leased);
    fixture.settle();
    assert!(leased_peer.is_closed());
}

#[test]
fn k12_a_close_completes_although_the_handle_is_dropped() {
    let mut fixture = Fixture::new(|pool| pool);
    let (lease, _peer) = fixture.open(ADDRESS);
    let closed = fixture.pool.close();
    fixture.pool = Fixture::new(|pool| pool).pool.clone();
    fixture.settle();
    assert!(!closed.is_done());
    drop(lease);
    closed.join().unwrap();
}

#[test]
fn k12_an_idle_connection_does_not_keep_the_loops_alive() {
    let fixture = Fixture::new(|pool| pool);
    let (lease, _peer) = fixture.open(ADDRESS);
    drop(lease);
    let ended = fixture.group.termination();
    fixture.manual.set_clock_mode(waterwheel_testkit::manual::ClockMode::AutoAdvance);
    drop(fixture);
    ended.join().unwrap();
}
