//! Futures that other threads wake (L15).

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use waterwheel_channel::driver::OpenDriver;

use super::bench::{TIMEOUT, end, group};

/// Permits that threads add and one future awaits; each added permit wakes the future.
#[derive(Default)]
struct Permits {
    given: AtomicU64,
    waker: Mutex<Option<Waker>>,
}

impl Permits {
    fn give(&self) {
        self.given.fetch_add(1, Ordering::AcqRel);
        let waker = self.waker.lock().unwrap().clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    async fn take(&self, all: u64) {
        poll_fn(|context| {
            *self.waker.lock().unwrap() = Some(context.waker().clone());
            if self.given.load(Ordering::Acquire) >= all { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Checks that none of 100,000 wakes of four threads is lost, and that there are no more wake-ups than sleeps.
pub fn l15_no_wake_of_another_thread_is_lost(drivers: &dyn OpenDriver) {
    const THREADS: u64 = 4;
    const EACH: u64 = 25_000;
    let (group, _reports) = group(drivers, 1, |builder| builder);
    let permits = Arc::new(Permits::default());
    let takes = permits.clone();
    let taken = group.next().spawn(async move { takes.take(THREADS * EACH).await }).unwrap();
    let givers: Vec<_> = (0..THREADS)
        .map(|_| {
            let permits = permits.clone();
            std::thread::spawn(move || (0..EACH).for_each(|_| permits.give()))
        })
        .collect();
    for giver in givers {
        giver.join().unwrap();
    }
    taken.wait_timeout(TIMEOUT).expect("no wake is lost");
    let stats = group.next().stats();
    assert!(stats.wake_ups <= stats.sleeps, "{stats:?}");
    end(&group);
}

/// Checks that each of many wakes, made one at a time, ends a sleep.
pub fn l15_a_wake_ends_a_sleep_every_time(drivers: &dyn OpenDriver) {
    let (group, _reports) = group(drivers, 1, |builder| builder);
    let permits = Arc::new(Permits::default());
    for n in 1..=200 {
        let takes = permits.clone();
        let taken = group.next().spawn(async move { takes.take(n).await }).unwrap();
        permits.give();
        taken.wait_timeout(TIMEOUT).expect("no wake is lost");
    }
    end(&group);
}

/// Checks that wakers held elsewhere do not keep a loop alive.
pub fn l15_wakers_do_not_keep_a_loop_alive(drivers: &dyn OpenDriver) {
    let (group, _reports) = group(drivers, 1, |builder| builder);
    let permits = Arc::new(Permits::default());
    let takes = permits.clone();
    let dropped = group.next().spawn(async move { takes.take(u64::MAX).await }).unwrap();
    let behind = group.next().spawn(async {}).unwrap();
    behind.wait_timeout(TIMEOUT).expect("the loop turns");
    assert!(permits.waker.lock().unwrap().is_some(), "it was polled before");
    let ended = group.termination();
    drop(group);
    ended.wait_timeout(TIMEOUT).expect("the last handle is gone");
    assert!(dropped.join().is_err(), "its futures went with it");
    permits.give();
}

/// Checks that futures of two loops await each other.
pub fn l15_futures_of_two_loops_await_each_other(drivers: &dyn OpenDriver) {
    let (group, _reports) = group(drivers, 2, |builder| builder);
    let (near, far) = (group.next(), group.next());
    let sum = near.clone().spawn(async move {
        let mut sum = 0;
        for n in 0..100 {
            let back = near.clone();
            let there = far.spawn(async move { back.spawn(async move { n }).unwrap().await });
            sum += there.unwrap().await.unwrap().unwrap();
        }
        sum
    });
    let sum = sum.unwrap();
    sum.wait_timeout(TIMEOUT).expect("they get there");
    assert_eq!(sum.join().unwrap(), 4950);
    end(&group);
}
