//! Manual event loops, which run on their owner's thread (L12).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use waterwheel_channel::driver::OpenDriver;
use waterwheel_channel::{EventLoop, LocalLoop};
use waterwheel_executor::{ErrorKind, RejectReason, WaitError};

use super::bench::{Bench, TIMEOUT};

const SHORT: Duration = Duration::from_millis(3);

/// Checks that a turn with a limit of zero does not block, and that a turn with a longer limit waits that long.
pub fn l12_a_turn_waits_no_longer_than_its_limit(drivers: &dyn OpenDriver) {
    let mut bench = Bench::new(drivers);
    let before = bench.now();
    assert!(bench.turn());
    assert!(bench.now().since(before) < Duration::from_secs(5));
    let before = bench.now();
    assert!(bench.manual.turn(Some(SHORT)));
    let waited = bench.now().since(before);
    assert!(waited >= SHORT && waited < TIMEOUT, "{waited:?}");
}

/// Checks that a turn does not spin longer than its limit.
pub fn l12_a_turn_spins_no_longer_than_its_limit(drivers: &dyn OpenDriver) {
    let mut bench = Bench::with(drivers, |builder| builder.spin_before_sleep(TIMEOUT));
    let before = bench.now();
    assert!(bench.turn());
    assert!(bench.now().since(before) < TIMEOUT);
}

/// Checks that a turn without a limit ends when a timer is due.
pub fn l12_a_turn_without_a_limit_ends_with_a_timer(drivers: &dyn OpenDriver) {
    let mut bench = Bench::new(drivers);
    let rang = bench.event_loop().schedule(SHORT, || ()).unwrap();
    bench.turn();
    assert!(!rang.is_done(), "never early");
    bench.manual.turn(None);
    assert!(rang.is_done());
}

/// Checks that a task of another thread ends a wait.
pub fn l12_a_task_of_another_thread_wakes_a_manual_loop(drivers: &dyn OpenDriver) {
    let mut bench = Bench::new(drivers);
    let event_loop = bench.event_loop();
    let submitter = std::thread::spawn(move || {
        let answer = event_loop.submit(|| LocalLoop::current().is_some()).unwrap();
        answer.wait_timeout(TIMEOUT).expect("the other thread turns");
        answer.join().unwrap()
    });
    bench.until("answer", || submitter.is_finished());
    assert!(submitter.join().unwrap());
}

/// Checks that `run_for` runs due timers and returns in time.
pub fn l12_run_for_runs_due_timers_and_returns_in_time(drivers: &dyn OpenDriver) {
    let mut bench = Bench::new(drivers);
    let soon = bench.event_loop().schedule(SHORT, || ()).unwrap();
    let late = bench.event_loop().schedule(3 * TIMEOUT, || ()).unwrap();
    let before = bench.now();
    bench.manual.run_for(2 * SHORT);
    let ran = bench.now().since(before);
    assert!(ran >= 2 * SHORT && ran < TIMEOUT, "{ran:?}");
    assert!(soon.is_done() && !late.is_done());
}

/// Checks that a terminated loop takes no turns and accepts no tasks.
pub fn l12_a_terminated_loop_takes_no_turns_and_no_tasks(drivers: &dyn OpenDriver) {
    let mut bench = Bench::new(drivers);
    let event_loop = bench.event_loop();
    let accepted = event_loop.submit(|| 1).unwrap();
    let ended = event_loop.shutdown_gracefully(Duration::ZERO, TIMEOUT).unwrap();
    bench.until_over();
    assert_eq!(accepted.join().unwrap(), 1);
    assert!(bench.manual.is_terminated() && ended.is_done() && event_loop.is_terminated());
    assert!(!bench.manual.turn(None) && !bench.turn());
    bench.manual.run_for(TIMEOUT);
    assert!(bench.manual.on_loop(|_| ()).is_none());
    let rejected = event_loop.execute(|| ()).unwrap_err();
    assert!(matches!(rejected.reason(), RejectReason::ShutDown));
}

/// Checks that dropping a loop runs its accepted tasks.
pub fn l12_a_dropped_loop_runs_accepted_tasks(drivers: &dyn OpenDriver) {
    let ran = Arc::new(AtomicUsize::new(0));
    let bench = Bench::new(drivers);
    let event_loop = bench.event_loop();
    for _ in 0..100 {
        let ran = ran.clone();
        let count = move || {
            ran.fetch_add(1, Ordering::SeqCst);
        };
        event_loop.execute(count).unwrap();
    }
    let timer = event_loop.schedule(TIMEOUT, || ()).unwrap();
    drop(bench);
    assert_eq!(ran.load(Ordering::SeqCst), 100);
    assert!(matches!(timer.join().unwrap_err().kind(), ErrorKind::Cancelled));
    assert!(event_loop.is_terminated());
}

/// Checks that a loop is the current one during its turns, and that the previous one is restored afterwards.
pub fn l12_a_manual_loop_is_current_only_during_its_turns(drivers: &dyn OpenDriver) {
    let (mut outer, mut inner) = (Bench::new(drivers), Bench::new(drivers));
    let (outer_loop, inner_loop) = (outer.event_loop(), inner.event_loop());
    assert!(EventLoop::current().is_none());
    let seen = inner_loop.submit(EventLoop::current).unwrap();
    outer.here(|_| {
        assert_eq!(EventLoop::current().as_ref(), Some(&outer_loop));
        assert!(outer_loop.in_event_loop() && !inner_loop.in_event_loop());
        inner.turn();
        assert_eq!(EventLoop::current().as_ref(), Some(&outer_loop), "restored");
        drop(inner);
        assert_eq!(EventLoop::current().as_ref(), Some(&outer_loop), "restored");
    });
    assert_eq!(seen.join().unwrap().as_ref(), Some(&inner_loop));
    assert!(EventLoop::current().is_none() && LocalLoop::current().is_none());
}

/// Checks that a future woken in a turn of another loop on the same thread is polled by its own loop.
pub fn l12_a_wake_reaches_its_own_loop_among_nested_ones(drivers: &dyn OpenDriver) {
    let (mut outer, mut inner) = (Bench::new(drivers), Bench::new(drivers));
    let (promise, woken) = outer.event_loop().new_promise::<u32>();
    let awaited = outer.here(|here| here.spawn_local(woken));
    outer.turn();
    let succeed = move || {
        promise.set_success(7);
    };
    inner.event_loop().execute(succeed).unwrap();
    outer.here(|_| inner.turns(2));
    assert_eq!(inner.metrics().futures_polled, 0, "it is none of the inner loop's");
    outer.turns(2);
    assert!(awaited.is_done());
}

/// Checks that blocking is refused during a turn and allowed between turns.
pub fn p04_a_manual_loop_refuses_to_block_during_a_turn(drivers: &dyn OpenDriver) {
    let (mut bench, other) = (Bench::new(drivers), Bench::new(drivers));
    let (_promise, future) = other.event_loop().new_promise::<()>();
    let refused = bench.here(|_| future.wait_timeout(Duration::ZERO));
    assert!(matches!(refused, Err(WaitError::WouldDeadlock(_))), "{refused:?}");
    let outside = future.wait_timeout(Duration::ZERO);
    assert_eq!(outside, Err(WaitError::TimedOut), "this thread may wait");
}
