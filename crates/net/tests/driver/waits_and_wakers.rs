//! Waits: deadlines and wakers (L02, L06).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use waterwheel_channel::driver::{OpenDriver, WaitSummary};
use waterwheel_executor::Nanos;
use waterwheel_net::{Auto, Epoll, Poll};

use crate::driver_rig::{TIME_LIMIT, on_every_driver};

const WOKEN: WaitSummary = WaitSummary { ready: 0, woken: true };

#[test]
fn l02_each_driver_returns_its_name() {
    let names =
        [&Epoll as &dyn OpenDriver, &Poll, &Auto].map(|factory| factory.open().unwrap().name());
    assert_eq!(names, ["epoll", "poll", "epoll"]);
}

#[test]
fn l02_a_wait_ends_at_its_deadline_and_never_early() {
    on_every_driver(|rig| {
        for micros in [1, 50, 999, 1000, 1001, 2500] {
            let until = rig.after(Duration::from_micros(micros));
            assert_eq!(rig.driver.wait(Some(until)).unwrap(), WaitSummary::default());
            assert!(rig.driver.clock().now() >= until, "{micros} µs");
        }
    });
}

#[test]
fn l02_a_wait_with_a_past_deadline_does_not_block() {
    on_every_driver(|rig| {
        let before = rig.driver.clock().now();
        assert_eq!(rig.driver.wait(Some(Nanos(0))).unwrap(), WaitSummary::default());
        assert_eq!(rig.driver.wait(Some(before)).unwrap(), WaitSummary::default());
        rig.driver.waker().unpark();
        assert_eq!(
            rig.driver.wait(Some(before)).unwrap(),
            WOKEN,
            "the kernel is asked nevertheless"
        );
    });
}

#[test]
fn l02_a_wake_ends_a_wait_without_a_deadline_or_with_a_far_one() {
    on_every_driver(|rig| {
        for until in [None, Some(Nanos::MAX), Some(rig.after(TIME_LIMIT))] {
            let waker = rig.driver.waker();
            let waking = thread::spawn(move || waker.unpark());
            assert_eq!(rig.driver.wait(until).unwrap(), WOKEN);
            waking.join().unwrap();
            rig.assert_quiet();
        }
    });
}

#[test]
fn l02_ten_thousand_wakes_end_waits_and_leave_no_wake_behind() {
    on_every_driver(|rig| {
        let done = Arc::new(AtomicBool::new(false));
        let waking = [(); 4].map(|()| {
            let (waker, done) = (rig.driver.waker(), done.clone());
            thread::spawn(move || {
                (0..2500).for_each(|_| waker.unpark());
                done.store(true, Ordering::Release);
            })
        });
        while !done.load(Ordering::Acquire) {
            assert_eq!(rig.driver.wait(None).unwrap(), WOKEN);
        }
        waking.into_iter().for_each(|thread| thread.join().unwrap());
        rig.driver.waker().unpark();
        assert_eq!(rig.driver.wait(None).unwrap(), WOKEN);
        rig.assert_quiet();
    });
}

#[test]
fn l02_a_waker_outlives_its_driver() {
    for factory in [&Epoll as &dyn OpenDriver, &Poll] {
        let driver = factory.open().unwrap();
        let waker = driver.waker();
        drop(driver);
        // The descriptor number of the eventfd must not have been reused.
        let mut drivers = [(); 8].map(|()| factory.open().unwrap());
        waker.unpark();
        for driver in &mut drivers {
            assert_eq!(driver.wait(Some(Nanos(0))).unwrap(), WaitSummary::default());
        }
    }
}

#[test]
fn l06_a_wake_survives_a_rebuild() {
    on_every_driver(|rig| {
        let waker = rig.driver.waker();
        waker.unpark();
        assert_eq!(rig.driver.rebuild().unwrap(), 0);
        assert_eq!(rig.driver.wait(None).unwrap(), WOKEN, "a wake from before the rebuild");
        rig.assert_quiet();
        waker.unpark();
        assert_eq!(rig.driver.wait(None).unwrap(), WOKEN, "a wake from after the rebuild");
    });
}

#[test]
fn l02_a_driver_opened_on_one_thread_is_used_on_another() {
    on_every_driver(|rig| {
        let (token, _peer) = rig.stream();
        rig.fill(token);
        let driver = &mut rig.driver;
        thread::scope(|scope| {
            scope.spawn(|| driver.wait(Some(Nanos(0))).unwrap()).join().unwrap();
        });
    });
}
