//! How many allocations and bytes timers take.

use std::hint::black_box;
use std::time::Duration;

use waterwheel_executor::engine::{CommandAccess, LoopCore, LoopWork, PassLimit, TurnOutcome};
use waterwheel_executor::{
    Clock, EventExecutor, ManualExecutor, PromiseFuture, TimerKey, TokenPark, VirtualClock,
};

use crate::counting_allocator::{allocations, allocations_in, bytes};

/// How long a test waits for something that must happen, on a slow machine too.
const LIMIT: Duration = Duration::from_secs(30);

const HOUR: Duration = Duration::from_secs(3600);

/// Timers per measurement.
const TIMERS: u64 = 1000;

/// Entries per block of the queue between threads.
const QUEUE_BLOCK: u64 = 31;

fn get<T: Send + 'static>(future: PromiseFuture<T>) -> T {
    future.wait_timeout(LIMIT).expect("completed in time");
    future.join().unwrap()
}

/// A loop whose commands are plain numbers.
struct CommandLoop(TokenPark);

impl LoopWork<u32> for CommandLoop {
    fn turn(&mut self, core: &mut LoopCore<u32>) -> TurnOutcome {
        core.wait(&mut self.0);
        core.run_tasks(PassLimit::Queued, &mut |command| drop(black_box(Box::new(command))));
        core.check_shutdown()
    }

    fn on_command(&mut self, command: u32) {
        black_box(command);
    }
}

fn command_loop() -> EventExecutor<u32> {
    let park = TokenPark::new(Clock::Monotonic);
    let unpark = park.unparker();
    EventExecutor::builder().build_loop(unpark, Box::new(|| Box::new(CommandLoop(park)))).unwrap()
}

/// Schedules commands and takes them back in another order; returns how many were returned.
fn schedule_and_cancel(executor: &EventExecutor<u32>, keys: &mut Vec<TimerKey>) -> usize {
    for n in 0..TIMERS {
        let delay = HOUR + Duration::from_millis(n * 7919 % TIMERS);
        keys.push(executor.send_after(delay, 7).unwrap());
    }
    keys.drain(..).filter(|key| executor.take_back(*key) == Some(7)).count()
}

#[test]
fn e13_a_timer_without_closure_is_scheduled_and_cancelled_without_allocating() {
    let executor = command_loop();
    let inner = executor.clone();
    let measured = move || {
        let mut keys = Vec::with_capacity(usize::try_from(TIMERS).unwrap());
        let warm_up = schedule_and_cancel(&inner, &mut keys);
        let standing = inner.send_after(HOUR, 1).unwrap();
        let (counted, came_back) = allocations_in(|| schedule_and_cancel(&inner, &mut keys));
        (counted, came_back == warm_up, came_back, inner.take_back(standing))
    };
    let outcome = get(executor.submit(measured).unwrap());
    assert_eq!(outcome, (0, true, usize::try_from(TIMERS).unwrap(), Some(1)));
}

#[test]
fn e13_a_timer_without_closure_fires_without_allocating() {
    let executor = command_loop();
    let fired_by = |count: u64| {
        let inner = executor.clone();
        let schedule = move || {
            for n in 0..count {
                inner.send_after(Duration::from_micros(n % 50), 7).unwrap();
            }
            allocations()
        };
        let before = get(executor.submit(schedule).unwrap());
        // Due later than all of them.
        get(executor.schedule(Duration::from_millis(1), allocations).unwrap()) - before
    };
    fired_by(TIMERS);
    // One box per command in the test's own loop, which shows that all of them arrived, and nothing else.
    assert_eq!(fired_by(TIMERS), TIMERS);
}

/// Returns a manual executor whose timer wheel, pool and queues have been allocated.
fn warmed_up_executor() -> (ManualExecutor, EventExecutor) {
    let mut manual = ManualExecutor::with_virtual_clock(VirtualClock::new());
    let executor = manual.executor().clone();
    let inner = executor.clone();
    let both = move || {
        for _ in 0..2 * TIMERS {
            drop(inner.schedule(Duration::from_millis(1), || ()).unwrap());
        }
        for _ in 0..2 * TIMERS {
            assert!(inner.schedule(HOUR, || ()).unwrap().cancel());
        }
    };
    executor.execute(both).unwrap();
    assert_eq!(manual.run_for(Duration::from_millis(1)), 2 * usize::try_from(TIMERS).unwrap() + 1);
    (manual, executor)
}

/// Calls `f` on the loop and returns how many allocations it made.
fn on_loop<R: Send + 'static>(
    manual: &mut ManualExecutor,
    f: impl FnOnce() -> R + Send + 'static,
) -> (u64, R) {
    let measured = manual.executor().submit(move || allocations_in(f)).unwrap();
    manual.run_now();
    measured.join().unwrap()
}

#[test]
fn e13_a_small_closure_is_scheduled_and_cancelled_on_the_loop_without_allocating() {
    assert_eq!(allocations_on_loop(|n| move || n), 0);
}

#[test]
fn e13_a_large_closure_scheduled_on_the_loop_is_one_allocation() {
    let large = |n| {
        let array = [n; 16];
        move || black_box(array)[3]
    };
    assert_eq!(allocations_on_loop(large), TIMERS);
}

/// Schedules and cancels closures created by `make`; returns how many allocations scheduling made.
fn allocations_on_loop<F: FnOnce() -> u64 + Send + 'static>(
    make: impl Fn(u64) -> F + Send + 'static,
) -> u64 {
    let (mut manual, executor) = warmed_up_executor();
    let mut futures = Vec::with_capacity(usize::try_from(TIMERS).unwrap());
    let schedule = move || {
        futures.extend((0..TIMERS).map(|n| executor.schedule(HOUR, make(n)).unwrap()));
        futures
    };
    let (scheduling, futures) = on_loop(&mut manual, schedule);
    let cancel = move || {
        let cancelled = futures.iter().filter(|future| future.cancel()).count();
        (cancelled, futures)
    };
    let (counted, (cancelled, _)) = on_loop(&mut manual, cancel);
    assert_eq!((counted, cancelled), (0, usize::try_from(TIMERS).unwrap()), "cancelling");
    assert_eq!(manual.executor().stats().timers, 0);
    scheduling
}

#[test]
fn e13_scheduling_a_closure_off_the_loop_is_one_allocation_and_queue_blocks() {
    let (mut manual, executor) = warmed_up_executor();
    let mut futures = Vec::with_capacity(usize::try_from(TIMERS).unwrap());
    let (counted, ()) = allocations_in(|| {
        let schedule = |n| executor.schedule(HOUR, move || black_box(n)).unwrap();
        futures.extend((0..TIMERS).map(schedule));
    });
    let blocks = TIMERS / QUEUE_BLOCK + 1;
    assert!((TIMERS..=TIMERS + blocks).contains(&counted), "{counted} for {TIMERS}");
    let (counted, _) = allocations_in(|| manual.run_now());
    assert_eq!(counted, 0, "the loop puts them into its wheel");
    let (counted, cancelled) =
        allocations_in(|| futures.iter().filter(|future| future.cancel()).count());
    assert!(counted <= blocks, "{counted} for cancelling {cancelled}");
    let (counted, _) = allocations_in(|| manual.run_now());
    assert_eq!((counted, manual.executor().stats().timers), (0, 0), "the loop clears its wheel");
}

#[test]
fn e13_firing_allocates_nothing_for_one_shot_and_periodic_timers() {
    let (mut manual, executor) = warmed_up_executor();
    let tick = Duration::from_millis(1);
    let mut futures = Vec::new();
    for n in 0..TIMERS {
        drop(executor.schedule(tick, move || black_box(n)).unwrap());
        let again = move || {
            black_box(n);
        };
        futures.push(executor.schedule_at_fixed_rate(tick, tick, again).unwrap());
    }
    manual.run_now();
    let (counted, fired) = allocations_in(|| manual.run_for(tick * 10));
    let timers = usize::try_from(TIMERS).unwrap();
    assert_eq!((counted, fired), (0, 11 * timers));
}

#[test]
fn e13_the_memory_of_a_burst_of_timers_is_freed_although_some_stay() {
    const BURST: usize = 50_000;
    let (mut manual, executor) = warmed_up_executor();
    let before = bytes();
    let burst = move || {
        let timers: Vec<_> = (0..BURST).map(|_| executor.schedule(HOUR, || ()).unwrap()).collect();
        let peak = bytes() - before;
        let some_stay = |at| at % (BURST / 4) == BURST / 8;
        for (at, timer) in timers.into_iter().enumerate() {
            // A dropped timer stays scheduled; a cancelled one is removed.
            assert!(some_stay(at) || timer.cancel());
        }
        peak
    };
    let (_, peak) = on_loop(&mut manual, burst);
    manual.run_now();
    let left = bytes().saturating_sub(before); // The spare memory of the warm-up may have been freed too.
    assert_eq!(manual.executor().stats().timers, 4);
    assert!(peak > BURST * 128, "{peak} bytes for {BURST} timers");
    assert!(left < peak / 8, "{left} of {peak} bytes are left");
}

#[test]
fn e13_timers_dropped_on_another_thread_return_their_memory_to_the_loop() {
    let (mut manual, executor) = warmed_up_executor();
    let mut round = || {
        let inner = executor.clone();
        let schedule = move || {
            let schedule = |n| inner.schedule(Duration::from_millis(1), move || n).unwrap();
            (0..4 * TIMERS).map(schedule).collect::<Vec<_>>()
        };
        let (_, mut futures) = on_loop(&mut manual, schedule);
        manual.run_for(Duration::from_millis(1));
        // The last handles: the loop dropped its handles when the timers fired. The vector is returned, because its
        // memory is counted on this thread.
        let clear = move || {
            futures.clear();
            futures
        };
        drop(std::thread::spawn(clear).join().unwrap());
        bytes()
    };
    let before = (0..3).map(|_| round()).max().unwrap();
    let after = (0..20).map(|_| round()).max().unwrap();
    assert!(after <= before + 64 * 1024, "{before} bytes became {after}");
}

#[test]
fn e13_memory_for_timers_is_allocated_with_the_first_one() {
    let before = bytes();
    let mut manual = ManualExecutor::with_virtual_clock(VirtualClock::new());
    let without = bytes() - before;
    let executor = manual.executor().clone();
    on_loop(&mut manual, move || drop(executor.schedule(HOUR, || ()).unwrap()));
    assert!(without < 8 * 1024, "{without} bytes without a timer");
    assert!(bytes() - before > without + 8 * 1024, "with one, there are lists");
}
