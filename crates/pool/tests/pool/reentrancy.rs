//! User code that calls back into the pool, closes, panics, or gives up at a bad moment.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use waterwheel_channel::{Ctx, Handler, HandlerResult, Msg};
use waterwheel_pool::{ChannelPool, Lease, PoolError};

use super::support::{ADDRESS, Fixture, OTHER, pool_error};

#[test]
fn k12_many_acquires_that_give_back_at_once_do_not_nest() {
    let fixture =
        Fixture::new(|pool| pool.max_open(1).max_waiting(100_000).max_waiting_total(100_000));
    let (lease, _peer) = fixture.open(ADDRESS);
    let served = Arc::new(AtomicUsize::new(0));
    let (pool, count) = (fixture.pool.clone(), served.clone());
    let queued = fixture.event_loop(0).submit(move || {
        for _ in 0..50_000 {
            let count = count.clone();
            pool.acquire(ADDRESS).on_complete(move |lease| {
                drop(lease.unwrap());
                count.fetch_add(1, Ordering::Relaxed);
            });
        }
        drop(lease);
    });
    queued.unwrap().join().unwrap();
    fixture.assert_at_rest(1, 0);
    assert_eq!(served.load(Ordering::Relaxed), 50_000);
}

#[test]
fn k12_an_acquire_hook_that_panics_fails_the_acquire_and_frees_its_place() {
    let fixture = Fixture::new(|pool| pool.max_open(1).on_acquired(|_| panic!("of the test")));
    for _ in 0..3 {
        let acquire = fixture.pool.acquire(ADDRESS);
        let peer = fixture.accept();
        let error = acquire.join().unwrap_err();
        assert!(matches!(pool_error(&error), PoolError::AcquireHook { .. }), "{error}");
        fixture.assert_at_rest(0, 0);
        assert!(peer.is_closed());
    }
}

type Later = Arc<OnceLock<ChannelPool>>;

#[test]
fn k12_hooks_may_use_the_pool() {
    let later = Later::default();
    let kept: Arc<Mutex<Vec<Lease>>> = Arc::default();
    let (in_acquired, in_released, leases) = (later.clone(), later.clone(), kept.clone());
    let fixture = Fixture::new(|pool| {
        pool.max_open(2)
            .on_acquired(move |_| {
                let pool = in_acquired.get().unwrap();
                assert!(pool.metrics().now.leased > 0);
                drop(pool.acquire(OTHER));
                Ok(())
            })
            .on_released(move |_| {
                let pool = in_released.get().unwrap();
                let kept = std::mem::take(&mut *leases.lock().unwrap());
                if !kept.is_empty() {
                    drop(kept);
                    drop(pool.acquire(ADDRESS));
                    pool.retire(OTHER);
                }
                Ok(())
            })
    });
    assert!(later.set(fixture.pool.clone()).is_ok());
    let (one, other) = (fixture.pool.acquire(ADDRESS), fixture.pool.acquire(ADDRESS));
    let mut peers = Vec::new();
    while let Some(connect) = fixture.next_connect() {
        peers.push(connect.accept());
        fixture.settle();
    }
    kept.lock().unwrap().push(one.join().unwrap());
    drop(other.join().unwrap());
    fixture.settle();
    while let Some(connect) = fixture.next_connect() {
        peers.push(connect.accept());
        fixture.settle();
    }
    let counts = fixture.counts();
    assert_eq!((counts.leased, counts.waiting, counts.connecting), (0, 0, 0), "{counts}");
    fixture.pool.close().join().unwrap();
}

#[test]
fn k12_a_pool_can_be_closed_by_its_hooks() {
    for at_release in [false, true] {
        let later = Later::default();
        let (in_acquired, in_released) = (later.clone(), later.clone());
        let fixture = Fixture::new(|pool| {
            let close = |later: &Later| drop(later.get().unwrap().close());
            pool.max_open(1)
                .on_acquired(move |_| {
                    if !at_release {
                        close(&in_acquired);
                    }
                    Ok(())
                })
                .on_released(move |_| {
                    close(&in_released);
                    Ok(())
                })
        });
        assert!(later.set(fixture.pool.clone()).is_ok());
        let (acquire, waiting) = (fixture.pool.acquire(ADDRESS), fixture.pool.acquire(ADDRESS));
        let peer = fixture.accept();
        drop(acquire.join().unwrap());
        let error = waiting.join().unwrap_err();
        assert!(matches!(pool_error(&error), PoolError::Closed), "{error}");
        fixture.pool.close().join().unwrap();
        assert!(peer.is_closed());
        fixture.assert_at_rest(0, 0);
    }
}

#[test]
fn k12_a_lease_may_live_in_a_handler_of_its_own_channel() {
    struct Keeps(#[expect(dead_code, reason = "only dropped")] Lease);

    impl Handler for Keeps {
        fn on_read(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
            ctx.close();
            Ok(())
        }
    }

    for hooks in [false, true] {
        let fixture = Fixture::new(|pool| match hooks {
            true => pool.max_open(1).on_released(|_| Ok(())).on_acquired(|_| Ok(())),
            false => pool.max_open(1),
        });
        let (lease, peer) = fixture.open(ADDRESS);
        let channel = lease.clone();
        channel
            .with_pipeline(move |pipeline| pipeline.add_last("keeps", Keeps(lease)).map(drop))
            .join()
            .unwrap()
            .unwrap();
        fixture.assert_at_rest(0, 1);
        let waiting = fixture.pool.acquire(ADDRESS);
        peer.send("close");
        let _next = fixture.accept();
        drop(waiting.join().unwrap());
        fixture.assert_at_rest(1, 0);
    }
}

#[test]
fn k12_an_acquire_dropped_before_its_hook_could_run_leaves_the_queue() {
    let fixture =
        Fixture::new(|pool| pool.max_open(1).acquire_timeout(None).on_acquired(|_| Ok(())));
    let (lease, _first) = fixture.open(ADDRESS);
    let channel = lease.clone();
    drop(lease);
    fixture.settle();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    fixture.event_loop(0).execute(move || wait.recv().unwrap()).unwrap();
    fixture.event_loop(0).execute(move || channel.close_without_future()).unwrap();
    drop(fixture.pool.acquire(ADDRESS));
    go.send(()).unwrap();
    assert_eq!(fixture.counts().waiting, 0);
    assert!(fixture.next_connect().is_none(), "nobody waits for it");
}
