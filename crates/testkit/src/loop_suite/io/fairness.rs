//! Fairness: every turn serves I/O, tasks, timers, futures and tail tasks (E11, L15).

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use waterwheel_channel::EventLoop;

use super::super::bench::Bench;
use super::probe::{ProbeLog, nothing, register};
use crate::driver_suite::Fixture;

/// Submits a task that submits itself again whenever it runs.
fn restless(event_loop: &EventLoop, runs: &Arc<AtomicUsize>) {
    let (next, runs) = (event_loop.clone(), runs.clone());
    let _refused = event_loop.execute(move || {
        runs.fetch_add(1, Ordering::SeqCst);
        restless(&next, &runs);
    });
}

/// Checks fairness at several I/O ratios beside a task that always submits itself again.
pub fn e11_every_turn_serves_io_tasks_timers_futures_and_tail_tasks(fixture: &dyn Fixture) {
    for ratio in [1, 50, 99, 100] {
        let mut bench = Bench::over(fixture.open(), |builder| builder.io_ratio(ratio));
        let (log, runs) = (ProbeLog::default(), Arc::new(AtomicUsize::new(0)));
        let (_handle, source) = register(&mut bench, fixture, &log, nothing);
        source.borrow_mut().make_readable();
        restless(&bench.event_loop(), &runs);
        let polls = Rc::new(Cell::new(0));
        let counts = polls.clone();
        drop(bench.here(|here| {
            here.spawn_local(poll_fn(move |context| {
                counts.set(counts.get() + 1);
                context.waker().wake_by_ref();
                Poll::<()>::Pending
            }))
        }));
        for turn in 1..=30 {
            let before = runs.load(Ordering::SeqCst);
            let rang = bench.here(|here| here.handle().schedule(Duration::ZERO, || ()).unwrap());
            let tailed = Arc::new(AtomicUsize::new(0));
            let tail = tailed.clone();
            let _tail = bench.event_loop().execute_after_turn(move || {
                tail.fetch_add(1, Ordering::SeqCst);
            });
            bench.turn();
            let at = format!("turn {turn} at {ratio}");
            assert_eq!(log.len(), turn, "the source, in {at}");
            assert!(rang.is_done(), "the timer, in {at}");
            assert_eq!(polls.get(), turn, "the future, in {at}");
            assert_eq!(tailed.load(Ordering::SeqCst), 1, "the tail task, in {at}");
            assert!(runs.load(Ordering::SeqCst) > before, "the task, in {at}");
        }
    }
}

/// Checks that a source that is always ready does not prevent a shutdown.
pub fn e11_a_busy_source_does_not_prevent_a_shutdown(fixture: &dyn Fixture) {
    let mut bench = Bench::over(fixture.open(), |builder| builder);
    let log = ProbeLog::default();
    let (_handle, source) = register(&mut bench, fixture, &log, nothing);
    source.borrow_mut().make_readable();
    bench.turns(3);
    let _ended =
        bench.event_loop().shutdown_gracefully(Duration::ZERO, Duration::from_secs(10)).unwrap();
    bench.until_over();
}
