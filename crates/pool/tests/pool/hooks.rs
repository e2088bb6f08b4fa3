//! Hooks and health checks.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use waterwheel_channel::{EventLoop, sleep};
use waterwheel_executor::{Error, Promise};
use waterwheel_pool::{PoolCloseReason, PoolError};
use waterwheel_testkit::recorder::Log;

use super::support::{ADDRESS, Fixture, SECOND, pool_error};

/// Promises of hooks that wait for the test.
type Pending = Arc<Mutex<Vec<Promise<()>>>>;

fn take(pending: &Pending) -> Promise<()> {
    pending.lock().unwrap().remove(0)
}

/// A hook whose outcome the test decides.
fn decided_by(
    pending: &Pending,
) -> impl Fn(waterwheel_channel::Channel) -> waterwheel_executor::PromiseFuture<()> + use<> {
    let pending = pending.clone();
    move |channel| {
        let (promise, future) = channel.event_loop().new_promise();
        pending.lock().unwrap().push(promise);
        future
    }
}

#[test]
fn k12_a_new_connection_is_prepared_before_it_is_handed_out() {
    let pending = Pending::default();
    let fixture = Fixture::new(|pool| pool.on_created(SECOND, decided_by(&pending)));
    let acquire = fixture.pool.acquire(ADDRESS);
    let peer = fixture.accept();
    peer.send("a greeting while it is prepared is no fault");
    fixture.settle();
    assert!(!acquire.is_done());
    assert_eq!(fixture.counts().connecting, 1);
    take(&pending).set_success(());
    fixture.settle();
    drop(acquire.join().unwrap());
    fixture.assert_at_rest(1, 0);
    drop(fixture.pool.acquire(ADDRESS).join().unwrap());
    assert!(pending.lock().unwrap().is_empty(), "once for each connection");
}

#[test]
fn k12_a_failed_preparation_fails_the_acquire_and_frees_its_place() {
    let pending = Pending::default();
    let fixture = Fixture::new(|pool| pool.max_open(1).on_created(SECOND, decided_by(&pending)));
    // By an error, by its time limit, by a panic, by a close of the peer.
    for case in 0..4 {
        let (acquire, next) = (fixture.pool.acquire(ADDRESS), fixture.pool.acquire(ADDRESS));
        let peer = fixture.accept();
        match case {
            0 => _ = take(&pending).set_failure(Error::new("wrong password")),
            1 => fixture.advance(SECOND),
            2 => drop(take(&pending)),
            _ => peer.reset(),
        }
        fixture.settle();
        let error = acquire.join().unwrap_err();
        assert!(matches!(pool_error(&error), PoolError::Prepare { .. }), "{case}: {error}");
        assert!(peer.is_closed());
        pending.lock().unwrap().clear();
        let _peer = fixture.accept();
        take(&pending).set_success(());
        fixture.settle();
        next.join().unwrap().discard();
        fixture.assert_at_rest(0, 0);
    }
    assert_eq!(fixture.pool.metrics().connect_failures, 4);
}

#[test]
fn k12_a_hook_that_panics_is_a_failure() {
    let fixture = Fixture::new(|pool| pool.on_created(SECOND, |_| async { panic!("of the test") }));
    let acquire = fixture.pool.acquire(ADDRESS);
    let peer = fixture.accept();
    assert!(acquire.join().unwrap_err().to_string().contains("of the test"));
    assert!(peer.is_closed());
    fixture.assert_at_rest(0, 0);
}

#[test]
fn k12_an_idle_connection_is_checked_before_it_is_handed_out() {
    let pending = Pending::default();
    let fixture = Fixture::new(|pool| pool.health_check(decided_by(&pending)));
    let (lease, _peer) = fixture.open(ADDRESS);
    let id = lease.id();
    drop(lease);
    assert!(fixture.pool.try_acquire(ADDRESS).unwrap().is_none(), "it would have to be checked");
    let acquire = fixture.pool.acquire(ADDRESS);
    assert_eq!(fixture.counts().checking, 1);
    take(&pending).set_success(());
    fixture.settle();
    assert_eq!(acquire.join().unwrap().id(), id);
    fixture.assert_at_rest(1, 0);
}

#[test]
fn k12_a_connection_that_fails_its_check_is_closed_and_the_acquire_gets_another() {
    let pending = Pending::default();
    let fixture = Fixture::new(|pool| {
        pool.max_open(2).health_check(decided_by(&pending)).check_timeout(2 * SECOND)
    });
    let leases = [fixture.open(ADDRESS), fixture.open(ADDRESS)];
    let peers = leases.map(|(_, peer)| peer);
    fixture.assert_at_rest(2, 0);
    let acquire = fixture.pool.acquire(ADDRESS);
    fixture.settle();
    take(&pending).set_failure(Error::new("sick"));
    fixture.settle();
    assert!(!acquire.is_done());
    fixture.advance(2 * SECOND); // The other one does not answer.
    assert!(peers.iter().all(|peer| peer.is_closed()));
    let _peer = fixture.accept();
    drop(acquire.join().unwrap());
    fixture.assert_at_rest(1, 0);
    assert_eq!(fixture.closed(PoolCloseReason::CheckFailed), 2);
}

#[test]
fn k12_a_connection_that_is_closed_during_its_check_costs_nobody() {
    let pending = Pending::default();
    let fixture = Fixture::new(|pool| pool.max_open(1).health_check(decided_by(&pending)));
    let (lease, peer) = fixture.open(ADDRESS);
    drop(lease);
    let acquire = fixture.pool.acquire(ADDRESS);
    fixture.settle();
    peer.reset();
    let _peer = fixture.accept();
    take(&pending).set_success(());
    drop(acquire.join().unwrap());
    fixture.assert_at_rest(1, 0);
}

#[test]
fn k12_a_checked_connection_whose_acquire_was_dropped_is_idle_again() {
    let pending = Pending::default();
    let fixture = Fixture::new(|pool| pool.health_check(decided_by(&pending)));
    let (lease, _peer) = fixture.open(ADDRESS);
    drop(lease);
    drop(fixture.pool.acquire(ADDRESS));
    fixture.settle();
    take(&pending).set_success(());
    fixture.assert_at_rest(1, 0);
}

#[test]
fn k12_a_connection_used_a_moment_ago_need_not_be_checked() {
    let pending = Pending::default();
    let fixture =
        Fixture::new(|pool| pool.health_check(decided_by(&pending)).check_if_idle_for(SECOND));
    let (lease, _peer) = fixture.open(ADDRESS);
    drop(lease);
    drop(fixture.pool.acquire(ADDRESS).join().unwrap());
    fixture.advance(SECOND);
    let acquire = fixture.pool.acquire(ADDRESS);
    fixture.settle();
    take(&pending).set_success(());
    drop(acquire.join().unwrap());
}

#[test]
fn k12_idle_connections_are_checked_now_and_then() {
    let healthy = Arc::new(AtomicBool::new(true));
    let checks = Arc::new(AtomicUsize::new(0));
    let (is_healthy, count) = (healthy.clone(), checks.clone());
    let fixture = Fixture::new(|pool| {
        pool.idle_limit(None)
            .check_while_idle(10 * SECOND)
            .check_if_idle_for(100 * SECOND)
            .health_check(move |_| {
                count.fetch_add(1, Ordering::Relaxed);
                let answer = is_healthy.load(Ordering::Relaxed);
                async move {
                    sleep(SECOND).await;
                    if answer { Ok(()) } else { Err(Error::new("sick")) }
                }
            })
    });
    let (lease, peer) = fixture.open(ADDRESS);
    fixture.advance(25 * SECOND);
    assert_eq!(checks.load(Ordering::Relaxed), 0, "a lease is not checked");
    drop(lease);
    fixture.advance(10 * SECOND);
    assert_eq!((checks.load(Ordering::Relaxed), fixture.counts().checking), (1, 1));
    fixture.advance(SECOND);
    fixture.assert_at_rest(1, 0);
    // Ten seconds after the check, not before.
    fixture.advance(9 * SECOND);
    assert_eq!(checks.load(Ordering::Relaxed), 1);
    healthy.store(false, Ordering::Relaxed);
    fixture.advance(SECOND);
    fixture.advance(SECOND);
    assert_eq!(checks.load(Ordering::Relaxed), 2);
    assert!(peer.is_closed());
    fixture.assert_at_rest(0, 0);
}

#[test]
fn k12_checks_while_idle_do_not_change_the_order_of_reuse() {
    let fixture = Fixture::new(|pool| {
        pool.idle_limit(None)
            .check_while_idle(10 * SECOND)
            .check_if_idle_for(100 * SECOND)
            .health_check(|_| async { Ok(()) })
    });
    let mut leases: Vec<_> = (0..3).map(|_| fixture.open(ADDRESS)).collect();
    let ids: Vec<_> = leases.iter().map(|(lease, _)| lease.id()).collect();
    let mut peers = Vec::new();
    for (lease, peer) in leases.drain(..) {
        drop(lease);
        peers.push(peer);
        fixture.advance(SECOND);
    }
    fixture.advance(9 * SECOND); // The last one has not been checked yet.
    let lease = fixture.pool.acquire(ADDRESS).join().unwrap();
    assert_eq!(lease.id(), ids[2]);
    let lease = (lease, fixture.pool.acquire(ADDRESS).join().unwrap());
    assert_eq!(lease.1.id(), ids[1]);
}

#[test]
fn k12_hooks_for_acquired_and_released_run_on_the_loop_in_turn() {
    let log = Log::new();
    let (acquired, released) = (log.clone(), log.clone());
    let fixture = Fixture::new(|pool| {
        pool.max_open(1)
            .on_acquired(move |_| {
                acquired.push(format!("acquired {}", EventLoop::current().is_some()));
                Ok(())
            })
            .on_released(move |_| {
                released.push(format!("released {}", EventLoop::current().is_some()));
                Ok(())
            })
    });
    let acquire = fixture.pool.acquire(ADDRESS);
    let _peer = fixture.accept();
    let lease = acquire.join().unwrap();
    let waiting = fixture.pool.acquire(ADDRESS);
    drop(lease);
    fixture.settle();
    drop(waiting.join().unwrap());
    fixture.settle();
    let pair = ["acquired true", "released true"];
    assert_eq!(log.take(), [pair, pair].concat());
    fixture.assert_at_rest(1, 0);
}

#[test]
fn k12_a_hook_that_fails_closes_the_connection() {
    let fails = Arc::new(AtomicBool::new(true));
    let check = |fails: &Arc<AtomicBool>| {
        let fails = fails.clone();
        move |_: waterwheel_channel::Pipeline<'_>| match fails.load(Ordering::Relaxed) {
            true => Err(Error::new("not today")),
            false => Ok(()),
        }
    };
    let fixture = Fixture::new(|pool| pool.on_acquired(check(&fails)).on_released(check(&fails)));
    let acquire = fixture.pool.acquire(ADDRESS);
    let peer = fixture.accept();
    let error = acquire.join().unwrap_err();
    assert!(matches!(pool_error(&error), PoolError::AcquireHook { .. }), "{error}");
    fixture.settle();
    assert!(peer.is_closed());
    fails.store(false, Ordering::Relaxed);
    let (lease, peer) = fixture.open(ADDRESS);
    fails.store(true, Ordering::Relaxed);
    drop(lease);
    fixture.assert_at_rest(0, 0);
    assert!(peer.is_closed());
    assert_eq!(fixture.closed(PoolCloseReason::HookFailed), 1);
}

#[test]
fn k12_a_release_hook_that_panics_closes_the_connection() {
    let fixture = Fixture::new(|pool| pool.on_released(|_| panic!("of the test")));
    let (lease, peer) = fixture.open(ADDRESS);
    drop(lease);
    fixture.assert_at_rest(0, 0);
    assert!(peer.is_closed());
}

#[test]
fn k12_a_connection_that_is_closed_before_the_acquire_hook_costs_nobody() {
    let fixture = Fixture::new(|pool| pool.max_open(1).on_acquired(|_| Ok(())));
    let (lease, _first) = fixture.open(ADDRESS);
    let channel = lease.clone();
    drop(lease);
    fixture.settle();
    // The loop is busy while the test acquires, then closes the channel: the hook comes too late.
    let (go, wait) = std::sync::mpsc::channel::<()>();
    fixture.event_loop(0).execute(move || wait.recv().unwrap()).unwrap();
    fixture.event_loop(0).execute(move || channel.close_without_future()).unwrap();
    let acquire = fixture.pool.acquire_within(ADDRESS, 3 * SECOND);
    assert_eq!(fixture.pool.metrics().now.leased, 1);
    go.send(()).unwrap();
    let _peer = fixture.accept();
    drop(acquire.join().unwrap());
    fixture.assert_at_rest(1, 0);
}
