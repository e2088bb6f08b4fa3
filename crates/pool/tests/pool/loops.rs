//! Several loops: preference, drains, and loops that end.

use std::time::Duration;

use waterwheel_channel::driver::TaskOnly;
use waterwheel_channel::{
    Address, Bootstrap, DrainOptions, Drained, EventLoopGroup, LoopDraining, ServerBootstrap, local,
};
use waterwheel_pool::{ChannelPool, LoopAffinity, PoolCloseReason, PoolError};
use waterwheel_testkit::manual::PendingConnect;

use super::support::{ADDRESS, Fixture, SECOND, pool_error};

#[test]
fn k12_an_acquire_on_a_loop_opens_and_reuses_connections_of_that_loop() {
    let fixture = Fixture::with_loops(3, |pool| pool);
    let mut peers = Vec::new();
    for round in 0..2 {
        for index in 0..3 {
            let acquire = fixture.acquire_on(index, ADDRESS);
            if round == 0 {
                peers.push(fixture.accept());
            } else {
                assert!(acquire.is_done());
            }
            assert_eq!(acquire.join().unwrap().event_loop(), fixture.event_loop(index));
        }
    }
    fixture.assert_at_rest(3, 0);
    assert_eq!(fixture.pool.metrics().created, 3);
}

#[test]
fn k12_at_the_limit_a_connection_of_another_loop_is_used() {
    let fixture = Fixture::with_loops(2, |pool| pool.max_open(1));
    let acquire = fixture.acquire_on(0, ADDRESS);
    let _peer = fixture.accept();
    drop(acquire.join().unwrap());
    let other = fixture.acquire_on(1, ADDRESS).join().unwrap();
    assert_eq!(other.event_loop(), fixture.event_loop(0));
}

#[test]
fn k12_reuse_may_come_before_the_loop() {
    for affinity in [LoopAffinity::ReuseFirst, LoopAffinity::Ignored] {
        let fixture = Fixture::with_loops(2, |pool| pool.affinity(affinity));
        let acquire = fixture.acquire_on(0, ADDRESS);
        let _peer = fixture.accept();
        let first = acquire.join().unwrap();
        let second = fixture.acquire_on(1, ADDRESS);
        let _second_peer = fixture.accept();
        let second = second.join().unwrap();
        let (first_loop, last) = (first.event_loop(), second.id());
        drop(first);
        drop(second);
        // The newest is not the first loop's, unless both are there.
        let taken = fixture.acquire_on(0, ADDRESS).join().unwrap();
        match affinity {
            LoopAffinity::ReuseFirst => assert_eq!(taken.event_loop(), first_loop),
            _ => assert_eq!(taken.id(), last),
        }
        assert!(fixture.acquire_on(0, ADDRESS).is_done(), "any idle one instead of a new one");
    }
}

#[test]
fn k12_an_acquire_from_another_thread_takes_any_connection() {
    let fixture = Fixture::with_loops(2, |pool| pool);
    let acquire = fixture.acquire_on(1, ADDRESS);
    let _peer = fixture.accept();
    drop(acquire.join().unwrap());
    assert!(fixture.pool.acquire(ADDRESS).is_done());
}

#[test]
fn k12_an_idle_connection_does_not_hold_up_a_drain_and_a_lease_does() {
    let fixture = Fixture::new(|pool| pool);
    let ((lease, peer), (idle, idle_peer)) = (fixture.open(ADDRESS), fixture.open(ADDRESS));
    drop(idle);
    let options = DrainOptions::within(10 * SECOND).shutdown(Duration::ZERO, SECOND).unwrap();
    let drained = fixture.group.drain(options);
    fixture.settle();
    assert!(!drained.is_done());
    // Work in progress may use what there is, but nothing is opened.
    let used = fixture.pool.acquire(ADDRESS).join().unwrap();
    let refused = fixture.pool.acquire(ADDRESS);
    fixture.settle();
    let error = refused.join().unwrap_err();
    assert!(error.find::<LoopDraining>().is_some(), "{error}");
    drop(used);
    fixture.settle();
    assert!(!drained.is_done() && !idle_peer.is_closed());
    drop(lease);
    assert_eq!(drained.join().unwrap(), Drained::Complete);
    fixture.group.termination().join().unwrap();
    assert!(peer.is_closed() && idle_peer.is_closed());
    let metrics = fixture.pool.metrics();
    assert_eq!((metrics.now.open, metrics.closed(PoolCloseReason::Closed)), (0, 2));
}

#[test]
fn k12_a_lease_need_not_hold_up_a_drain() {
    let fixture = Fixture::new(|pool| pool.holds_drain(false));
    let (lease, _peer) = fixture.open(ADDRESS);
    let options = DrainOptions::within(10 * SECOND).shutdown(Duration::ZERO, SECOND).unwrap();
    assert_eq!(fixture.group.drain(options).join().unwrap(), Drained::Complete);
    fixture.group.termination().join().unwrap();
    assert!(!lease.is_open());
    assert_eq!(fixture.pool.metrics().now.open, 0);
}

#[test]
fn k12_the_connections_of_a_loop_that_ends_leave_and_acquires_go_to_the_others() {
    let fixture = Fixture::with_loops(2, |pool| pool.max_open(1).acquire_timeout(None));
    let acquire = fixture.acquire_on(0, ADDRESS);
    let _peer = fixture.accept();
    let lease = acquire.join().unwrap();
    let waiting = fixture.acquire_on(1, ADDRESS);
    let ending = fixture.event_loop(0);
    ending.shutdown_gracefully(Duration::ZERO, SECOND).unwrap().join().unwrap();
    assert!(!lease.is_open());
    let _other_peer = wait_for_connect(&fixture).accept();
    assert_eq!(waiting.join().unwrap().event_loop(), fixture.event_loop(1));
    drop(lease);
    let counts = fixture.pool.metrics().now;
    assert_eq!((counts.open, counts.idle), (1, 1));
    // Off the loops, whichever loop is next.
    drop(fixture.pool.acquire(ADDRESS).join().unwrap());
}

#[test]
fn k12_an_acquire_whose_loop_ends_fails_instead_of_waiting_for_ever() {
    let fixture = Fixture::with_loops(2, |pool| pool.max_open(1));
    let acquire = fixture.acquire_on(1, ADDRESS);
    let _peer = fixture.accept();
    let _lease = acquire.join().unwrap();
    let waiting = fixture.acquire_on(0, ADDRESS);
    let ending = fixture.event_loop(0);
    ending.shutdown_gracefully(Duration::ZERO, SECOND).unwrap().join().unwrap();
    let error = waiting.join().unwrap_err();
    assert!(matches!(pool_error(&error), PoolError::LoopEnded { .. }), "{error}");
    assert_eq!(fixture.pool.metrics().now.waiting, 0);
}

#[test]
fn k12_acquires_fail_when_all_loops_have_ended() {
    let fixture = Fixture::with_loops(2, |pool| pool.max_open(1));
    let (lease, _peer) = fixture.open(ADDRESS);
    let waiting = fixture.pool.acquire(ADDRESS);
    fixture.group.shutdown_gracefully(Duration::ZERO, SECOND).unwrap().join().unwrap();
    waiting.join().unwrap_err();
    fixture.pool.acquire(ADDRESS).join().unwrap_err();
    drop(lease);
    let counts = fixture.pool.metrics().now;
    assert_eq!((counts.open, counts.waiting), (0, 0));
}

#[test]
fn k12_a_pool_over_a_loop_for_each_channel_reuses_channels_with_their_loops() {
    let group = EventLoopGroup::per_channel(TaskOnly).build().unwrap();
    let door = Address::local("a loop for each");
    let server = ServerBootstrap::new(&group, local::Local).bind(door.clone()).join().unwrap();
    let pool = ChannelPool::builder(Bootstrap::new(&group, local::Local)).build().unwrap();
    let (one, other) =
        (pool.acquire(door.clone()).join().unwrap(), pool.acquire(door.clone()).join().unwrap());
    assert_ne!(one.event_loop(), other.event_loop());
    let last = other.id();
    drop(one);
    drop(other);
    assert_eq!(pool.acquire(door).join().unwrap().id(), last);
    assert_eq!(pool.metrics().created, 2);
    pool.close().join().unwrap();
    server.close().join().unwrap();
    group.shutdown_gracefully(Duration::ZERO, SECOND).unwrap().join().unwrap();
}

#[test]
fn k12_a_loop_that_has_ended_keeps_no_deadline_and_no_retry_of_the_others() {
    let fixture = Fixture::with_loops(2, |pool| pool.max_open(1).min_idle(1));
    let ending = fixture.event_loop(0);
    ending.shutdown_gracefully(Duration::ZERO, SECOND).unwrap().join().unwrap();
    for _ in 0..3 {
        // Whichever loop is next: the deadline is kept by the loop that is left.
        let acquire = fixture.pool.acquire_within(ADDRESS, SECOND);
        let connect = wait_for_connect(&fixture);
        connect.refuse(std::io::ErrorKind::ConnectionRefused);
        let error = acquire.join().unwrap_err();
        assert!(matches!(pool_error(&error), PoolError::Connect { .. }), "{error}");
    }
    let (drained, retried) = (fixture.pool.drain(SECOND), fixture.pool.metrics());
    drained.join().unwrap();
    assert_eq!(retried.connect_failures, 3);
}

/// Waits for the next connect; `wait_idle` would wait for loops that have ended.
fn wait_for_connect(fixture: &Fixture) -> PendingConnect {
    loop {
        if let Some(connect) = fixture.sockets.next_connect() {
            return connect;
        }
        std::thread::yield_now();
    }
}

#[test]
fn k12_a_drain_keeps_its_deadline_when_the_loop_of_its_timer_ends() {
    for ending in [0, 1] {
        let fixture = Fixture::with_loops(2, |pool| pool);
        let left = 1 - ending;
        let acquire = fixture.acquire_on(left, ADDRESS);
        let peer = fixture.accept();
        let lease = acquire.join().unwrap();
        let (told, drained) = std::sync::mpsc::channel();
        // Told to this thread, which can give up: a lost deadline would be a wait for ever.
        fixture.pool.drain(5 * SECOND).on_complete(move |outcome| told.send(outcome).unwrap());
        let ended = fixture.event_loop(ending).shutdown_gracefully(Duration::ZERO, SECOND);
        ended.unwrap().join().unwrap();
        fixture.manual.advance(5 * SECOND);
        let forced = drained.recv_timeout(60 * SECOND).expect("the deadline is kept");
        assert_eq!(forced.unwrap(), Drained::DeadlineReached { channels: 1 });
        assert!(peer.is_closed() && !lease.is_open());
    }
}
