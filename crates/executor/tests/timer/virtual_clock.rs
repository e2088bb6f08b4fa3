//! Executors with a thread, or in a pool, on a virtual clock: time is what the clock shows (E13, E15).

use std::sync::{Arc, Barrier};
use std::time::Duration;

use waterwheel_executor::{
    Clock, EventExecutor, EventExecutorBuilder, ThreadFactory, ThreadPool, VirtualClock,
};

use crate::support::{SOON, within};

const HOUR: Duration = Duration::from_secs(3600);

/// One with a thread of its own and one in a pool, each on a clock of its own.
fn both() -> [(VirtualClock, EventExecutor); 2] {
    let on = |build: &dyn Fn(EventExecutorBuilder) -> EventExecutor| {
        let clock = VirtualClock::new();
        let executor = build(EventExecutor::builder().clock(Clock::Virtual(clock.clone())));
        (clock, executor)
    };
    let pool = Arc::new(ThreadPool::new(ThreadFactory::new("virtual"), 1).unwrap());
    [
        on(&|builder| builder.build().unwrap()),
        on(&|builder| builder.thread_supplier(pool.clone()).build_pooled().unwrap()),
    ]
}

/// The executor has seen everything that came before, and gone on.
fn settled(executor: &EventExecutor) {
    for _ in 0..3 {
        executor.submit(|| ()).unwrap().join().unwrap();
    }
}

#[test]
fn e13_advancing_a_virtual_clock_wakes_executors_that_sleep_by_it() {
    for (clock, executor) in both() {
        let timer = executor.schedule(HOUR, || "due").unwrap();
        settled(&executor);
        clock.advance(HOUR / 2);
        settled(&executor);
        assert!(!timer.is_done(), "never early");
        clock.advance(HOUR / 2);
        timer.wait_timeout(SOON).expect("it fires when the clock is there");
        assert_eq!(timer.join().unwrap(), "due");
    }
}

#[test]
fn e13_a_timer_set_after_the_clock_was_moved_counts_from_there() {
    for (clock, executor) in both() {
        clock.advance(HOUR);
        let timer = executor.schedule(HOUR, || ()).unwrap();
        settled(&executor);
        clock.advance_to(clock.now().plus(HOUR));
        timer.wait_timeout(SOON).unwrap();
    }
}

#[test]
fn e13_a_repeating_timer_follows_a_virtual_clock() {
    for (clock, executor) in both() {
        let (tick, ticks) = std::sync::mpsc::channel();
        let timer = executor.schedule_at_fixed_rate(HOUR, HOUR, move || {
            let _ = tick.send(());
        });
        for _ in 0..3 {
            settled(&executor);
            clock.advance(HOUR);
            ticks.recv_timeout(SOON).expect("one tick for each hour");
        }
        assert!(ticks.try_recv().is_err() && timer.unwrap().cancel());
    }
}

#[test]
fn e15_a_quiet_period_passes_on_a_virtual_clock() {
    for (clock, executor) in both() {
        settled(&executor);
        let ended = executor.shutdown_gracefully(HOUR, 2 * HOUR).unwrap();
        settled(&executor);
        assert!(!ended.is_done());
        clock.advance(HOUR);
        clock.advance(HOUR); // Should the loop have noted the end of the last task after the first one.
        ended.wait_timeout(SOON).expect("it was quiet for an hour");
    }
}

#[test]
fn e13_no_executor_is_kept_by_the_clock_it_sleeps_by() {
    for (_clock, executor) in both() {
        let ended = executor.termination();
        let timer = executor.schedule(HOUR, || ()).unwrap();
        settled(&executor);
        drop(executor);
        ended.wait_timeout(SOON).expect("the last handle ends it, asleep or not");
        assert!(timer.is_cancelled());
    }
}

#[test]
fn e13_no_time_is_lost_when_several_threads_advance_a_clock() {
    const EACH: u64 = if cfg!(miri) { 100 } else { 100_000 };
    let (clock, start) = (VirtualClock::new(), Arc::new(Barrier::new(4)));
    let movers: Vec<_> = (0..4)
        .map(|_| {
            let (clock, start) = (clock.clone(), start.clone());
            std::thread::spawn(move || {
                start.wait();
                (0..EACH).for_each(|_| clock.advance(Duration::from_nanos(1)))
            })
        })
        .collect();
    within(|| movers.into_iter().for_each(|mover| mover.join().unwrap()));
    assert_eq!(clock.now().0, 4 * EACH);
}
