//! How a loop divides its time between I/O and tasks (L04), on the virtual clock.

use std::sync::Arc;
use std::time::Duration;

use waterwheel_channel::driver::{Interest, Readiness};
use waterwheel_channel::{EventLoopGroupBuilder, Foreign, on_ready};
use waterwheel_testkit::loop_suite::Bench;
use waterwheel_testkit::manual::Manual;

const MICRO: Duration = Duration::from_micros(1);
const QUEUED: usize = 5000;

/// Returns how many tasks of one microsecond run in a turn whose I/O took `io`.
fn tasks_after(
    io: Option<Duration>,
    how: impl FnOnce(EventLoopGroupBuilder) -> EventLoopGroupBuilder,
) -> u64 {
    let manual = Manual::readiness();
    let mut bench = Bench::with(&manual, how);
    let (end, source) = manual.foreign_source();
    if let Some(io) = io {
        let clock = manual.clock();
        let handler = on_ready(move |(): &(), _, _| {
            clock.advance(io);
            Ok(())
        });
        let foreign = Foreign::new(Arc::new(()), end);
        bench.here(|here| here.register_foreign(foreign, Interest::READABLE, handler)).unwrap();
        source.set_ready(Readiness::READABLE);
    }
    for _ in 0..QUEUED {
        let clock = manual.clock();
        bench.event_loop().execute(move || clock.advance(MICRO)).unwrap();
    }
    bench.turn();
    bench.metrics().tasks
}

/// Returns the number of tasks in the batches of 64 that begin within `micros` microseconds.
fn batches(micros: u64) -> u64 {
    micros.div_ceil(64) * 64
}

#[test]
fn l04_tasks_get_their_share_of_the_time() {
    let io = Some(1000 * MICRO);
    for (ratio, share) in [(20, 4000), (50, 1000), (80, 250), (90, 111), (99, 10)] {
        let ran = tasks_after(io, |builder| builder.io_ratio(ratio));
        assert_eq!(ran, batches(share), "at {ratio}");
    }
    assert_eq!(tasks_after(io, |builder| builder.io_ratio(1)), QUEUED as u64, "99 ms of 5");
    assert_eq!(tasks_after(io, |builder| builder), batches(1000), "half is the default");
}

#[test]
fn l04_at_an_io_ratio_of_100_all_queued_tasks_run() {
    for io in [None, Some(MICRO)] {
        assert_eq!(tasks_after(io, |builder| builder.io_ratio(100)), QUEUED as u64);
    }
}

#[test]
fn l04_without_io_one_batch_of_tasks_runs() {
    for ratio in [1, 50, 99] {
        assert_eq!(tasks_after(None, |builder| builder.io_ratio(ratio)), 64);
    }
}

#[test]
fn l04_a_quantum_caps_every_share() {
    let quantum = 300 * MICRO;
    for ratio in [1, 50, 100] {
        let capped = |builder: EventLoopGroupBuilder| builder.io_ratio(ratio).task_quantum(quantum);
        assert_eq!(tasks_after(Some(1000 * MICRO), capped), batches(300), "at {ratio}");
    }
    let capped = |builder: EventLoopGroupBuilder| builder.task_quantum(quantum);
    assert_eq!(tasks_after(None, capped), 64, "a quantum is no share");
    assert_eq!(tasks_after(Some(100 * MICRO), capped), batches(100));
}
