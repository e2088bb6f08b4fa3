//! Loops on threads of their own: wake-ups, blocking, teardown (E10, E16, P04).

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};

use waterwheel_channel::driver::OpenDriver;
use waterwheel_channel::{EventLoop, LocalLoop};
use waterwheel_executor::{ErrorKind, EventExecutor, LoopLocal, WaitError};

use super::bench::{TIMEOUT, end, group};

/// Checks that there is at most one wake-up per sleep, with any number of producers.
pub fn e10_wake_ups_are_no_more_than_sleeps(drivers: &dyn OpenDriver) {
    const EACH: u64 = 20_000;
    for producers in [1, 2, 4] {
        let (group, _reports) = group(drivers, 1, |builder| builder);
        let ran = Arc::new(AtomicU64::new(0));
        let threads: Vec<_> = (0..producers)
            .map(|_| {
                let (event_loop, ran) = (group.next(), ran.clone());
                std::thread::spawn(move || {
                    for _ in 0..EACH {
                        let ran = ran.clone();
                        let count = move || {
                            ran.fetch_add(1, Ordering::Relaxed);
                        };
                        event_loop.execute(count).unwrap();
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        end(&group);
        let stats = group.next().stats();
        assert_eq!(ran.load(Ordering::Relaxed), producers * EACH);
        assert!(stats.wake_ups <= stats.sleeps, "{producers} producers: {stats:?}");
    }
}

/// Checks that a loop that spins before it sleeps gets tasks without a wake-up.
pub fn e10_a_spinning_loop_is_reached_without_a_wake_up(drivers: &dyn OpenDriver) {
    let (group, _reports) = group(drivers, 1, |builder| builder.spin_before_sleep(TIMEOUT));
    for _ in 0..100 {
        let ran = group.submit(|| ()).unwrap();
        ran.wait_timeout(TIMEOUT).expect("it is seen");
    }
    let (stats, metrics) = (group.next().stats(), group.next().metrics());
    assert_eq!((stats.sleeps, stats.wake_ups), (0, 0));
    assert!(metrics.turns > 0, "and its turns are counted");
    end(&group);
}

/// Checks that a loop's thread refuses to block on promises of any executor.
pub fn p04_blocking_on_a_loop_is_refused_for_any_promise(drivers: &dyn OpenDriver) {
    let (group, _reports) = group(drivers, 2, |builder| builder);
    let (here, other) = (group.next(), group.next());
    let elsewhere = EventExecutor::builder().build().unwrap();
    let (_own, of_own) = here.new_promise::<()>();
    let (_other, of_other) = other.new_promise::<()>();
    let (_elsewhere, of_elsewhere) = elsewhere.new_promise::<()>();
    let done = other.succeeded(7);
    let refused = here.submit(move || {
        let refused =
            |wait: Result<(), WaitError>| matches!(wait, Err(WaitError::WouldDeadlock(_)));
        let joined = of_elsewhere.wait_timeout(TIMEOUT);
        let name = joined.as_ref().err().map(ToString::to_string).unwrap_or_default();
        assert!(refused(of_own.wait()) && refused(of_other.wait()) && refused(joined));
        assert!(name.contains("bench"), "it names the loop: {name}");
        assert_eq!(done.join().unwrap(), 7, "a completed future never refuses");
        matches!(of_elsewhere.join().unwrap_err().kind(), ErrorKind::WouldDeadlock(_))
    });
    let refused = refused.unwrap();
    refused.wait_timeout(TIMEOUT).expect("nobody blocks");
    assert!(refused.join().unwrap());
    end(&group);
}

/// Checks that teardown drops futures first and then loop-locals, on the loop's thread.
pub fn e16_futures_and_loop_locals_are_dropped_on_the_loop(drivers: &dyn OpenDriver) {
    static LOG: Mutex<Vec<(u64, &str, bool)>> = Mutex::new(Vec::new());
    static LOCAL: LoopLocal<Mutex<Option<Noted>>> = LoopLocal::new(Mutex::default);

    struct Noted(u64, &'static str, EventLoop);
    impl Drop for Noted {
        fn drop(&mut self) {
            LOG.lock().unwrap().push((self.0, self.1, self.2.in_event_loop()));
        }
    }

    static RUNS: AtomicU64 = AtomicU64::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let (group, _reports) = group(drivers, 1, |builder| builder);
    let event_loop = group.next();
    let (local, future) = (event_loop.clone(), event_loop.clone());
    event_loop
        .execute(move || {
            LOCAL.with(|slot| *slot.lock().unwrap() = Some(Noted(run, "loop-local", local)));
        })
        .unwrap();
    let kept = event_loop.spawn(async move {
        let _noted = Noted(run, "future", future);
        pending::<()>().await;
    });
    end(&group);
    assert!(kept.unwrap().join().is_err());
    let log = LOG.lock().unwrap();
    let of_this: Vec<_> = log.iter().filter(|(of, ..)| *of == run).map(|e| (e.1, e.2)).collect();
    assert_eq!(of_this, [("future", true), ("loop-local", true)]);
}

/// Checks that dropping the last handle ends a loop, also on its own thread.
pub fn e21_dropping_the_last_handle_ends_a_loop(drivers: &dyn OpenDriver) {
    let (group, _reports) = group(drivers, 2, |builder| builder);
    let ended = group.termination();
    let (tell, told) = mpsc::channel();
    let last = group.clone();
    group
        .execute(move || {
            let here = LocalLoop::current().is_some();
            drop(last);
            tell.send(here).unwrap();
        })
        .unwrap();
    drop(group);
    assert!(told.recv_timeout(TIMEOUT).expect("it ran"));
    ended.wait_timeout(TIMEOUT).expect("nobody holds it any more");
}
