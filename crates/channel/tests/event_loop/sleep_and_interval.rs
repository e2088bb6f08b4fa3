//! Sleeps exact to the nanosecond, and intervals that miss ticks (L15), on the virtual clock.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::time::Duration;

use waterwheel_channel::{Elapsed, interval, interval_with, sleep, timeout};
use waterwheel_executor::MissedTicks;
use waterwheel_testkit::loop_suite::Bench;
use waterwheel_testkit::manual::Manual;

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

type Times = Rc<RefCell<Vec<u64>>>;

/// Returns the due times and the actual times of five ticks of a 10 ms interval, on a loop that is busy until
/// 35 ms.
fn ticks(missed: MissedTicks) -> (Vec<u64>, Vec<u64>) {
    let manual = Manual::readiness();
    let mut bench = Bench::new(&manual);
    let (due, came) = (Times::default(), Times::default());
    let (notes_due, notes_came) = (due.clone(), came.clone());
    drop(bench.here(|here| {
        let here = here.clone();
        here.clone().spawn_local(async move {
            let mut interval = interval_with(missed, millis(10));
            loop {
                let due = interval.tick().await;
                notes_due.borrow_mut().push(due.0 / 1_000_000);
                notes_came.borrow_mut().push(here.now().0 / 1_000_000);
            }
        })
    }));
    bench.turns(2);
    manual.advance(millis(35));
    while due.borrow().len() < 5 {
        bench.turns(5);
        manual.advance(millis(1));
    }
    let (due, came) = (due.borrow()[..5].to_vec(), came.borrow()[..5].to_vec());
    (due, came)
}

#[test]
fn l15_a_sleep_that_is_polled_all_the_time_is_not_early() {
    let manual = Manual::readiness();
    let mut bench = Bench::new(&manual);
    let slept = bench.event_loop().spawn(async {
        let mut sleep = Box::pin(sleep(millis(10)));
        poll_fn(|context| {
            context.waker().wake_by_ref();
            sleep.as_mut().poll(context)
        })
        .await;
    });
    let slept = slept.unwrap();
    bench.turn();
    manual.advance(millis(10) - Duration::from_nanos(1));
    bench.turns(3);
    assert!(!slept.is_done());
    manual.advance(Duration::from_nanos(1));
    bench.turn();
    assert!(slept.is_done());
}

#[test]
fn l15_missed_ticks_catch_up() {
    assert_eq!(ticks(MissedTicks::CatchUp), (vec![0, 10, 20, 30, 40], vec![0, 35, 35, 35, 40]));
}

#[test]
fn l15_missed_ticks_are_skipped() {
    assert_eq!(ticks(MissedTicks::Skip), (vec![0, 10, 40, 50, 60], vec![0, 35, 40, 50, 60]));
}

#[test]
fn l15_missed_ticks_delay_the_rest() {
    assert_eq!(ticks(MissedTicks::Delay), (vec![0, 10, 45, 55, 65], vec![0, 35, 45, 55, 65]));
}

#[test]
fn l15_a_tick_whose_wait_was_cancelled_is_not_lost() {
    let manual = Manual::readiness();
    let mut bench = Bench::new(&manual);
    let seen = bench.event_loop().spawn(async {
        let mut interval = interval(millis(10));
        interval.tick().await;
        let given_up = timeout(millis(4), interval.tick()).await;
        (given_up, interval.tick().await)
    });
    let seen = seen.unwrap();
    for _ in 0..10 {
        bench.turns(3);
        manual.advance(millis(1));
    }
    bench.turns(3);
    let (given_up, next) = seen.join().unwrap();
    assert_eq!((given_up, next.0), (Err(Elapsed), 10_000_000));
}

#[test]
#[should_panic(expected = "must be above zero")]
fn l15_an_interval_without_a_period_is_refused() {
    let _never = interval(Duration::ZERO);
}
