//! Threaded and pooled executors on a virtual clock (E13, E15).

use std::sync::{Arc, Barrier};
use std::time::Duration;

use waterwheel_executor::{
    Clock, EventExecutor, EventExecutorBuilder, ThreadFactory, ThreadPool, VirtualClock,
};

use crate::support::{TIMEOUT, with_timeout};

const HOUR: Duration = Duration::from_secs(3600);

/// Returns a threaded and a pooled executor, each on its own virtual clock.
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

/// Waits until the executor has processed everything that was submitted before.
fn settled(executor: &EventExecutor) {
    for _ in 0..3 {
        executor.submit(|| ()).unwrap().join().unwrap();
    }
}

#[test]
fn e13_advancing_a_virtual_clock_wakes_executors_sleeping_on_it() {
    for (clock, executor) in both() {
        let timer = executor.schedule(HOUR, || "due").unwrap();
        settled(&executor);
        clock.advance(HOUR / 2);
        settled(&executor);
        assert!(!timer.is_done(), "never early");
        clock.advance(HOUR / 2);
        timer.wait_timeout(TIMEOUT).expect("it fires when the clock is there");
        assert_eq!(timer.join().unwrap(), "due");
    }
}

#[test]
fn e13_a_timer_scheduled_after_the_clock_moved_counts_from_there() {
    for (clock, executor) in both() {
        clock.advance(HOUR);
        let timer = executor.schedule(HOUR, || ()).unwrap();
        settled(&executor);
        clock.advance_to(clock.now().plus(HOUR));
        timer.wait_timeout(TIMEOUT).unwrap();
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
            ticks.recv_timeout(TIMEOUT).expect("one tick for each hour");
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
        clock.advance(HOUR); // In case the loop recorded the end of the last task only after the first advance.
        ended.wait_timeout(TIMEOUT).expect("it was quiet for an hour");
    }
}

#[test]
fn e13_a_virtual_clock_does_not_keep_its_executors_alive() {
    for (_clock, executor) in both() {
        let ended = executor.termination();
        let timer = executor.schedule(HOUR, || ()).unwrap();
        settled(&executor);
        drop(executor);
        ended.wait_timeout(TIMEOUT).expect("the last handle ends it, asleep or not");
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
    with_timeout(|| movers.into_iter().for_each(|mover| mover.join().unwrap()));
    assert_eq!(clock.now().0, 4 * EACH);
}
