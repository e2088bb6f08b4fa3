//! Acquiring, giving back, waiting, cancelling, and connects that fail.

use std::io;
use std::sync::mpsc;

use waterwheel_executor::ErrorKind;
use waterwheel_pool::{PoolCloseReason, PoolError, ReuseOrder};

use super::support::{ADDRESS, Fixture, OTHER, SECOND, pool_error};

#[test]
fn k12_a_dropped_lease_is_used_again() {
    let fixture = Fixture::new(|pool| pool);
    let (lease, peer) = fixture.open(ADDRESS);
    let id = lease.id();
    assert_eq!(lease.address(), &ADDRESS.into());
    fixture.assert_at_rest(0, 1);
    drop(lease);
    fixture.assert_at_rest(1, 0);
    let again = fixture.pool.acquire(ADDRESS);
    assert!(again.is_done(), "without a wait");
    assert_eq!(again.join().unwrap().id(), id);
    assert!(fixture.next_connect().is_none());
    let metrics = fixture.pool.metrics();
    assert_eq!((metrics.created, metrics.acquired, metrics.closed_total()), (1, 2, 0));
    assert!(!peer.is_closed());
}

#[test]
fn k12_a_lease_can_be_given_back_from_any_thread() {
    let fixture = Fixture::new(|pool| pool);
    let (lease, _peer) = fixture.open(ADDRESS);
    std::thread::spawn(move || drop(lease)).join().unwrap();
    fixture.assert_at_rest(1, 0);
    let lease = fixture.pool.try_acquire(ADDRESS).unwrap().unwrap();
    fixture.event_loop(0).submit(move || drop(lease)).unwrap().join().unwrap();
    fixture.assert_at_rest(1, 0);
}

#[test]
fn k12_connections_are_kept_by_address() {
    let fixture = Fixture::new(|pool| pool);
    let (one, _peer) = fixture.open(ADDRESS);
    drop(one);
    assert!(fixture.pool.try_acquire(OTHER).unwrap().is_none());
    let (other, _other_peer) = fixture.open(OTHER);
    assert_eq!(other.peer_address().unwrap().to_string(), OTHER);
    assert_eq!(fixture.pool.metrics().addresses, 2);
    assert_eq!((fixture.pool.counts(ADDRESS).idle, fixture.pool.counts(OTHER).leased), (1, 1));
}

#[test]
fn k12_the_connection_used_last_is_reused_first_or_last_as_asked() {
    for (order, reused) in [(ReuseOrder::NewestFirst, 1), (ReuseOrder::OldestFirst, 0)] {
        let fixture = Fixture::new(|pool| pool.reuse(order));
        let (first, _peer) = fixture.open(ADDRESS);
        let (second, _other) = fixture.open(ADDRESS);
        let ids = [first.id(), second.id()];
        drop(first);
        drop(second);
        assert_eq!(fixture.pool.acquire(ADDRESS).join().unwrap().id(), ids[reused], "{order:?}");
    }
}

#[test]
fn k12_waiting_acquires_are_served_in_their_order() {
    let fixture = Fixture::new(|pool| pool.max_open(1));
    let (lease, _peer) = fixture.open(ADDRESS);
    let (served, order) = mpsc::channel();
    for number in 0..5 {
        let served = served.clone();
        fixture.pool.acquire(ADDRESS).on_complete(move |lease| {
            served.send((number, lease.unwrap().id())).unwrap();
        });
    }
    assert_eq!(fixture.counts().waiting, 5);
    let id = lease.id();
    drop(lease);
    fixture.settle();
    assert_eq!(order.try_iter().collect::<Vec<_>>(), (0..5).map(|n| (n, id)).collect::<Vec<_>>());
    fixture.assert_at_rest(1, 0);
}

#[test]
fn k12_a_later_acquire_does_not_overtake_a_waiting_one() {
    let fixture = Fixture::new(|pool| pool.max_open(1));
    let (lease, _peer) = fixture.open(ADDRESS);
    let waiting = fixture.pool.acquire(ADDRESS);
    drop(lease);
    assert!(fixture.pool.try_acquire(ADDRESS).unwrap().is_none(), "it is leased already");
    assert!(waiting.is_done());
    drop(waiting);
    fixture.assert_at_rest(1, 0);
}

#[test]
fn k12_a_connection_serves_whoever_waits_longest_not_whom_it_was_opened_for() {
    let fixture = Fixture::new(|pool| pool.max_open(2));
    let (lease, _peer) = fixture.open(ADDRESS);
    let first = fixture.pool.acquire(ADDRESS); // Opens the second connection.
    let second = fixture.pool.acquire(ADDRESS);
    let id = lease.id();
    drop(lease);
    assert_eq!(first.join().unwrap().id(), id, "given back before the connect was done");
    fixture.settle();
    assert_eq!(second.join().unwrap().id(), id, "and again");
    let _peer = fixture.accept();
    fixture.assert_at_rest(2, 0);
}

#[test]
fn k12_a_dropped_acquire_leaves_the_queue_and_loses_no_connection() {
    let fixture = Fixture::new(|pool| pool.max_open(1));
    let (lease, _peer) = fixture.open(ADDRESS);
    let id = lease.id();
    let (first, second) = (fixture.pool.acquire(ADDRESS), fixture.pool.acquire(ADDRESS));
    drop(first);
    assert_eq!(fixture.counts().waiting, 1);
    drop(lease);
    assert_eq!(second.join().unwrap().id(), id);
    // Served, and dropped without being looked at.
    let lease = fixture.pool.acquire(ADDRESS).join().unwrap();
    let served = fixture.pool.acquire(ADDRESS);
    drop(lease);
    fixture.settle();
    assert!(served.is_done());
    drop(served);
    fixture.assert_at_rest(1, 0);
    assert_eq!(fixture.pool.metrics().created, 1);
}

#[test]
fn k12_a_connect_whose_acquire_was_dropped_becomes_idle() {
    let fixture = Fixture::new(|pool| pool);
    drop(fixture.pool.acquire(ADDRESS));
    let counts = fixture.counts();
    assert_eq!((counts.waiting, counts.connecting), (0, 1));
    let next = fixture.pool.acquire(ADDRESS);
    assert_eq!(fixture.counts().connecting, 1, "the connect in flight is enough for it");
    let _peer = fixture.accept();
    drop(next.join().unwrap());
    fixture.assert_at_rest(1, 0);
}

#[test]
fn k12_a_failed_connect_is_told_to_the_acquire_and_frees_its_place() {
    let fixture = Fixture::new(|pool| pool.max_open(1));
    for _ in 0..3 {
        let acquire = fixture.pool.acquire(ADDRESS);
        fixture.next_connect().unwrap().refuse(io::ErrorKind::ConnectionRefused);
        fixture.settle();
        let error = acquire.join().unwrap_err();
        assert!(matches!(pool_error(&error), PoolError::Connect { .. }), "{error}");
        assert_eq!(error.io_kind(), Some(io::ErrorKind::ConnectionRefused));
        assert!(error.to_string().contains(ADDRESS), "{error}");
        fixture.assert_at_rest(0, 0);
    }
    assert_eq!(fixture.pool.metrics().connect_failures, 3);
    let (_lease, _peer) = fixture.open(ADDRESS);
}

#[test]
fn k12_a_failed_connect_fails_one_acquire_and_the_others_go_on() {
    let fixture = Fixture::new(|pool| pool.max_open(1));
    let acquires: Vec<_> = (0..3).map(|_| fixture.pool.acquire(ADDRESS)).collect();
    for failed in 0..3 {
        let done: Vec<_> = acquires.iter().map(|acquire| acquire.is_done()).collect();
        assert_eq!(done, (0..3).map(|at| at < failed).collect::<Vec<_>>());
        fixture.next_connect().unwrap().refuse(io::ErrorKind::ConnectionRefused);
        fixture.settle();
    }
    for acquire in acquires {
        acquire.join().unwrap_err();
    }
    fixture.assert_at_rest(0, 0);
    assert!(fixture.next_connect().is_none());
}

#[test]
fn k12_a_failed_connect_fails_nobody_while_others_arrive() {
    let fixture = Fixture::new(|pool| pool);
    let (first, second) = (fixture.pool.acquire(ADDRESS), fixture.pool.acquire(ADDRESS));
    let (one, other) = (fixture.next_connect().unwrap(), fixture.next_connect().unwrap());
    drop(second);
    one.refuse(io::ErrorKind::ConnectionRefused);
    fixture.settle();
    assert!(!first.is_done());
    let _peer = other.accept();
    fixture.settle();
    drop(first.join().unwrap());
    fixture.assert_at_rest(1, 0);
}

#[test]
fn k12_an_acquire_fails_at_its_deadline_and_says_how_long_it_waited() {
    let fixture = Fixture::new(|pool| pool.max_open(1).acquire_timeout(3 * SECOND));
    let (lease, _peer) = fixture.open(ADDRESS);
    let (long, short) =
        (fixture.pool.acquire(ADDRESS), fixture.pool.acquire_within(ADDRESS, 2 * SECOND));
    fixture.advance(2 * SECOND);
    assert!(short.is_done() && !long.is_done());
    let error = short.join().unwrap_err();
    let text = "no connection to 192.0.2.1:80 within 2s: open 1 (idle 0, leased 1, connecting 0, \
                checking 0, closing 0), waiting 2";
    assert_eq!(error.to_string(), text);
    fixture.advance(SECOND);
    assert!(matches!(pool_error(&long.join().unwrap_err()), PoolError::TimedOut { .. }));
    assert_eq!(fixture.pool.metrics().acquire_timeouts, 2);
    drop(lease);
    fixture.assert_at_rest(1, 0);
}

#[test]
fn k12_without_a_timeout_an_acquire_waits_for_ever() {
    let fixture = Fixture::new(|pool| pool.max_open(1).acquire_timeout(None).idle_limit(None));
    let (lease, _peer) = fixture.open(ADDRESS);
    let waiting = fixture.pool.acquire(ADDRESS);
    fixture.advance(1_000_000 * SECOND);
    assert!(!waiting.is_done());
    drop(lease);
    drop(waiting.join().unwrap());
    fixture.assert_at_rest(1, 0);
}

#[test]
fn k12_the_timer_of_a_served_acquire_is_gone() {
    let fixture = Fixture::new(|pool| pool.max_open(1).idle_limit(None));
    let (mut lease, _peer) = fixture.open(ADDRESS);
    for _ in 0..100 {
        let waiting = fixture.pool.acquire(ADDRESS);
        drop(lease);
        lease = waiting.join().unwrap();
    }
    fixture.settle();
    assert_eq!(fixture.event_loop(0).metrics().timers, 0);
}

#[test]
fn k12_an_acquire_can_be_awaited_and_dropped_in_a_task() {
    let fixture = Fixture::new(|pool| pool.max_open(1));
    let pool = fixture.pool.clone();
    let task = fixture.event_loop(0).spawn(async move {
        let lease = pool.acquire(ADDRESS).await?;
        let late = waterwheel_channel::timeout(SECOND, pool.acquire(ADDRESS)).await;
        assert!(late.is_err(), "its future was dropped");
        let id = lease.id();
        drop(lease);
        assert_eq!(pool.acquire(ADDRESS).await?.id(), id);
        Ok::<_, waterwheel_executor::Error>(())
    });
    let _peer = fixture.accept();
    fixture.advance(SECOND);
    task.unwrap().join().unwrap().unwrap();
    fixture.assert_at_rest(1, 0);
}

#[test]
fn k12_a_join_on_a_loop_is_refused_and_cancels_the_acquire() {
    let fixture = Fixture::new(|pool| pool.max_open(1));
    let (lease, _peer) = fixture.open(ADDRESS);
    let pool = fixture.pool.clone();
    let joined = fixture.event_loop(0).submit(move || pool.acquire(ADDRESS).join()).unwrap();
    let error = joined.join().unwrap().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::WouldDeadlock(_)), "{error}");
    drop(lease);
    fixture.assert_at_rest(1, 0);
}

#[test]
fn k12_a_discarded_lease_is_closed_and_makes_room() {
    let fixture = Fixture::new(|pool| pool.max_open(1));
    let (lease, peer) = fixture.open(ADDRESS);
    let waiting = fixture.pool.acquire(ADDRESS);
    lease.discard();
    fixture.settle();
    assert!(peer.is_closed());
    let _peer = fixture.accept();
    drop(waiting.join().unwrap());
    fixture.assert_at_rest(1, 0);
    assert_eq!(fixture.closed(PoolCloseReason::Discarded), 1);
}

#[test]
fn k12_a_lease_that_is_not_reusable_is_closed_when_dropped() {
    let fixture = Fixture::new(|pool| pool);
    let (mut lease, peer) = fixture.open(ADDRESS);
    lease.set_reusable(false);
    lease.set_reusable(true);
    drop(lease);
    let mut lease = fixture.pool.acquire(ADDRESS).join().unwrap();
    lease.set_reusable(false);
    drop(lease);
    fixture.settle();
    assert!(peer.is_closed());
    fixture.assert_at_rest(0, 0);
}

#[test]
fn k12_a_channel_taken_out_stays_open_and_does_not_count() {
    let fixture = Fixture::new(|pool| pool.max_open(1).idle_limit(SECOND).max_age(SECOND));
    let (lease, peer) = fixture.open(ADDRESS);
    let channel = lease.into_channel();
    fixture.assert_at_rest(0, 0);
    fixture.advance(10 * SECOND);
    assert!(channel.is_open() && !peer.is_closed());
    assert_eq!(fixture.closed(PoolCloseReason::TakenOut), 1);
    let (_next, _peer) = fixture.open(ADDRESS);
}

#[test]
fn k12_a_pool_forgets_addresses_without_connections() {
    let fixture = Fixture::new(|pool| pool);
    for address in [ADDRESS, OTHER] {
        let (lease, _peer) = fixture.open(address);
        lease.discard();
        fixture.settle();
    }
    drop(fixture.pool.try_acquire(ADDRESS));
    assert_eq!(fixture.pool.metrics().addresses, 0);
}
