//! Benchmarks of the executor's small operations: submitting tasks, scheduling timers, completing promises.
//!
//! `cargo bench -p waterwheel-executor`. The figures are for comparing one version of this crate
//! with the next on the same machine; `micro` (see `CONTRIBUTING.md`) compares them with other
//! libraries.
//!
//! - `submit`: a thousand tasks, until the last has run; off the loop from one thread, on the loop
//!   from a task.
//! - `timer`: one schedule and cancel while 100,000 other timers are pending; with a closure and a
//!   future on the loop and off it, and as a bare command on the loop.
//! - `promise`: create, complete, take; on one thread.

use std::hint::black_box;
use std::sync::mpsc;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use waterwheel_executor::engine::{CommandAccess, LoopCore, LoopWork, PassLimit, TurnOutcome};
use waterwheel_executor::{Clock, EventExecutor, ManualExecutor, TokenPark};

/// Tasks in one measurement of `submit`.
const TASKS: u64 = 1000;

/// Timers that stay pending while others are scheduled and cancelled.
const STANDING: u64 = 100_000;

/// Timers scheduled and cancelled off the loop before the loop clears their entries.
const BATCH: u64 = 64;

const HOUR: Duration = Duration::from_secs(3600);

/// A task with one word in it.
fn task(n: u64) -> impl FnOnce() + Send + 'static {
    move || {
        black_box(n);
    }
}

fn submit(c: &mut Criterion) {
    let mut group = c.benchmark_group("submit");
    group.throughput(Throughput::Elements(TASKS));
    let executor = EventExecutor::builder().build().unwrap();
    group.bench_function("off the loop", |b| {
        b.iter(|| {
            for n in 1..TASKS {
                executor.execute(task(n)).unwrap();
            }
            executor.submit(|| ()).unwrap().join().unwrap();
        });
    });
    group.bench_function("on the loop", |b| {
        let mut manual = ManualExecutor::new();
        let executor = manual.executor().clone();
        b.iter(|| {
            let inner = executor.clone();
            let submits = move || {
                for n in 1..TASKS {
                    inner.execute(task(n)).unwrap();
                }
            };
            executor.execute(submits).unwrap();
            manual.run_now() + manual.run_now()
        });
    });
    group.finish();
}

fn timer(c: &mut Criterion) {
    let mut group = c.benchmark_group("timer, 100k standing");
    let executor = EventExecutor::builder().build().unwrap();
    let inner = executor.clone();
    let standing = move || {
        for n in 0..STANDING {
            drop(inner.schedule(HOUR + Duration::from_micros(n), || ()).unwrap());
        }
    };
    executor.submit(standing).unwrap().join().unwrap();
    group.throughput(Throughput::Elements(BATCH));
    group.bench_function("off the loop, 64 schedule and cancel", |b| {
        // The loop clears cancelled entries when it turns; let it turn before each batch.
        b.iter_batched(
            || executor.submit(|| ()).unwrap().join().unwrap(),
            |()| {
                for n in 0..BATCH {
                    let later = HOUR + Duration::from_micros(n * 1000);
                    assert!(executor.schedule(later, || ()).unwrap().cancel());
                }
            },
            BatchSize::PerIteration,
        );
    });
    group.throughput(Throughput::Elements(1));
    group.bench_function("on the loop, schedule and cancel", |b| {
        let inner = executor.clone();
        b.iter_custom(|times| {
            let inner = inner.clone();
            let measured = move || {
                let begun = Clock::Monotonic.now();
                for n in 0..times {
                    let later = HOUR + Duration::from_micros(n % STANDING);
                    assert!(inner.schedule(later, || ()).unwrap().cancel());
                }
                Clock::Monotonic.now().since(begun)
            };
            executor.submit(measured).unwrap().join().unwrap()
        });
    });
    let commands = command_loop();
    let inner = commands.clone();
    let standing = move || {
        for n in 0..STANDING {
            inner.send_after(HOUR + Duration::from_micros(n), 0).unwrap();
        }
    };
    commands.submit(standing).unwrap().join().unwrap();
    group.bench_function("on the loop, bare command", |b| {
        b.iter_custom(|times| {
            let inner = commands.clone();
            let measured = move || {
                let begun = Clock::Monotonic.now();
                for n in 0..times {
                    let later = HOUR + Duration::from_micros(n % STANDING);
                    let key = inner.send_after(later, 7).unwrap();
                    assert_eq!(inner.take_back(key), Some(7));
                }
                Clock::Monotonic.now().since(begun)
            };
            commands.submit(measured).unwrap().join().unwrap()
        });
    });
    group.finish();
}

fn promise(c: &mut Criterion) {
    let mut group = c.benchmark_group("promise");
    let executor = EventExecutor::builder().build().unwrap();
    group.bench_function("create, complete, take", |b| {
        b.iter(|| {
            let (promise, mut future) = executor.new_promise();
            promise.set_success(black_box(7u64));
            future.try_take()
        });
    });
    group.bench_function("create, complete, listener", |b| {
        let mut manual = ManualExecutor::new();
        let executor = manual.executor().clone();
        let (tell, told) = mpsc::channel();
        b.iter(|| {
            let (promise, mut future) = executor.new_promise();
            let tell = tell.clone();
            future.add_listener(move |outcome| tell.send(outcome.is_ok()).unwrap());
            promise.set_success(black_box(7u64));
            manual.run_now();
            told.try_recv()
        });
    });
    group.finish();
}

/// A loop whose commands are plain numbers.
fn command_loop() -> EventExecutor<u32> {
    struct Commands(TokenPark);
    fn consume(command: u32) {
        black_box(command);
    }
    impl LoopWork<u32> for Commands {
        fn turn(&mut self, core: &mut LoopCore<u32>) -> TurnOutcome {
            core.wait(&mut self.0);
            core.run_tasks(PassLimit::Queued, &mut |command| consume(command));
            core.check_shutdown()
        }

        fn on_command(&mut self, command: u32) {
            consume(command);
        }
    }
    let park = TokenPark::new(Clock::Monotonic);
    let unpark = park.unparker();
    EventExecutor::builder().build_loop(unpark, Box::new(|| Box::new(Commands(park)))).unwrap()
}

criterion_group!(benches, submit, timer, promise);
criterion_main!(benches);
