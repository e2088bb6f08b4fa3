//! Futures that wait for time to pass (L15).

use std::cell::RefCell;
use std::future::{pending, ready};
use std::rc::Rc;
use std::time::Duration;

use waterwheel_channel::driver::OpenDriver;
use waterwheel_channel::{Elapsed, interval, sleep, timeout};

use super::bench::{Bench, TIMEOUT};

const SHORT: Duration = Duration::from_millis(3);

/// Checks that sleeps end in the order of their deadlines and never early.
pub fn l15_sleeps_end_in_order_and_never_early(drivers: &dyn OpenDriver) {
    let mut bench = Bench::new(drivers);
    let woken: Rc<RefCell<Vec<(u32, bool)>>> = Rc::default();
    for n in [3, 1, 2] {
        let woken = woken.clone();
        drop(bench.here(|here| {
            let (here, due) = (here.clone(), here.now().plus(n * SHORT));
            here.clone().spawn_local(async move {
                sleep(n * SHORT).await;
                woken.borrow_mut().push((n, here.now() >= due));
            })
        }));
    }
    let seen = woken.clone();
    bench.until("three sleepers awake", || seen.borrow().len() == 3);
    assert_eq!(*woken.borrow(), [(1, true), (2, true), (3, true)]);
}

/// Checks that a sleep of zero ends at once, and that a dropped sleep removes its timer.
pub fn l15_a_sleep_that_is_dropped_leaves_no_timer(drivers: &dyn OpenDriver) {
    let mut bench = Bench::new(drivers);
    let at_once = bench.event_loop().spawn(sleep(Duration::ZERO)).unwrap();
    let long = bench.event_loop().spawn(sleep(TIMEOUT)).unwrap();
    bench.turns(2);
    assert!(at_once.is_done() && !long.is_done());
    assert_eq!(bench.metrics().timers, 1);
    assert!(long.cancel());
    bench.turns(2);
    assert_eq!(bench.metrics().timers, 0);
}

/// Checks that a sleep moved to another future wakes that future.
pub fn l15_a_sleep_wakes_the_task_that_polled_it_last(drivers: &dyn OpenDriver) {
    let mut bench = Bench::new(drivers);
    let done = bench.here(|here| {
        let here = here.clone();
        here.clone().spawn_local(async move {
            let mut sleeps = Box::pin(sleep(SHORT));
            assert_eq!(timeout(Duration::ZERO, &mut sleeps).await, Err(Elapsed));
            here.spawn_local(sleeps).await.unwrap();
        })
    });
    bench.until("the sleep's end", || done.is_done());
    assert!(bench.reports.take().is_empty());
}

/// Checks that a timeout polls its future before it checks the time.
pub fn l15_a_timeout_polls_its_future_first(drivers: &dyn OpenDriver) {
    let mut bench = Bench::new(drivers);
    let ready = bench.event_loop().spawn(timeout(Duration::ZERO, ready(7))).unwrap();
    let late = bench.event_loop().spawn(timeout(SHORT, pending::<()>())).unwrap();
    let in_time = bench.event_loop().spawn(timeout(TIMEOUT, sleep(SHORT))).unwrap();
    bench.until("three outcomes", || ready.is_done() && late.is_done() && in_time.is_done());
    assert_eq!(ready.join().unwrap(), Ok(7));
    assert_eq!(late.join().unwrap(), Err(Elapsed));
    assert_eq!(in_time.join().unwrap(), Ok(()));
    bench.turn();
    assert_eq!(bench.metrics().timers, 0, "the timer of the timeout went with it");
}

/// Checks that an interval ticks at once and then at multiples of its period.
pub fn l15_an_interval_ticks_at_multiples_of_its_period(drivers: &dyn OpenDriver) {
    let mut bench = Bench::new(drivers);
    let ticks = bench.event_loop().spawn(async {
        let mut interval = interval(SHORT);
        let first = interval.tick().await;
        let mut offsets = Vec::new();
        for _ in 0..4 {
            offsets.push(interval.tick().await.since(first));
        }
        offsets
    });
    let ticks = ticks.unwrap();
    bench.until("five ticks", || ticks.is_done());
    assert_eq!(ticks.join().unwrap(), [SHORT, 2 * SHORT, 3 * SHORT, 4 * SHORT]);
}
