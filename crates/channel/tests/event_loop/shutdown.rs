//! How loops end (L10, L14, E16): operations in flight, the order of destruction, and drivers that panic.

use std::future::pending;
use std::io::ErrorKind as IoErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use waterwheel_channel::driver::{Interest, Io, Readiness, Role, TaskOnly};
use waterwheel_channel::{
    EventLoop, EventLoopGroup, Foreign, ForeignContext, ForeignHandler, LocalLoop, Registrant,
};
use waterwheel_executor::{Error, ErrorKind, LoopLocal};
use waterwheel_testkit::loop_suite::{Bench, Reports};
use waterwheel_testkit::manual::{Manual, ManualForeignSource};

use crate::panicking_driver::PanickingDriverFactory;

const PATIENCE: Duration = Duration::from_secs(20);

/// Log lines in the order of the events.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, entry: impl Into<String>) {
        self.0.lock().unwrap().push(entry.into());
    }

    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A foreign handler that logs its unregistration and whether its source is closed by then.
struct LogsUnregistration(Log, ManualForeignSource);

impl ForeignHandler<()> for LogsUnregistration {
    fn on_ready(&mut self, (): &(), _: Readiness, _: &ForeignContext) -> Result<(), Error> {
        Ok(())
    }

    fn on_unregistered(&mut self, (): &(), cause: Option<Error>) {
        let cause = cause.map(|cause| cause.to_string()).unwrap_or_default();
        self.0.add(format!("unregistered, closed {}: {cause}", self.1.is_closed()));
    }
}

fn watched(manual: &Manual, log: &Log) -> (Foreign<()>, LogsUnregistration, ManualForeignSource) {
    let (end, source) = manual.foreign_source();
    (Foreign::new(Arc::new(()), end), LogsUnregistration(log.clone(), source.clone()), source)
}

/// Logs its drop, and whether that was on its loop and after the driver was closed.
struct LogsDrop {
    what: &'static str,
    log: Log,
    event_loop: EventLoop,
    source: ManualForeignSource,
}

impl Drop for LogsDrop {
    fn drop(&mut self) {
        let on_loop = self.event_loop.in_event_loop();
        self.log.add(format!(
            "{}, on loop {on_loop}, closed {}",
            self.what,
            self.source.is_closed()
        ));
    }
}

const UNREGISTERED_LINE: &str = "unregistered, closed true: the event loop is shutting down";

#[test]
fn l10_a_shutdown_waits_for_operations_in_flight() {
    let (manual, log) = (Manual::completion(), Log::default());
    let mut bench = Bench::new(&manual);
    let (foreign, handler, source) = watched(&manual, &log);
    bench.here(|here| here.register_foreign(foreign, Interest::READABLE, handler)).unwrap();
    manual.hold_completions();
    let timeout = Duration::from_secs(10);
    let _ended = bench.event_loop().shutdown_gracefully(Duration::ZERO, timeout).unwrap();
    bench.turns(5);
    manual.advance(timeout - Duration::from_nanos(1));
    bench.turns(5);
    assert!(!bench.manual.is_terminated() && !source.is_closed() && log.taken().is_empty());
    manual.release();
    bench.turns(3);
    assert_eq!(log.taken(), [UNREGISTERED_LINE]);
    assert!(bench.manual.is_terminated() && source.is_closed());
}

#[test]
fn l10_the_timeout_bounds_the_wait_for_operations_in_flight() {
    let (manual, log) = (Manual::completion(), Log::default());
    let mut bench = Bench::new(&manual);
    let (foreign, handler, _source) = watched(&manual, &log);
    bench.here(|here| here.register_foreign(foreign, Interest::READABLE, handler)).unwrap();
    manual.hold_completions();
    let timeout = Duration::from_secs(10);
    let _ended = bench.event_loop().shutdown_gracefully(Duration::ZERO, timeout).unwrap();
    bench.turns(5);
    assert!(!bench.manual.is_terminated());
    manual.advance(timeout);
    bench.turns(2);
    assert!(bench.manual.is_terminated());
    assert_eq!(log.taken(), [UNREGISTERED_LINE], "dropping the driver ended the operation");
}

#[test]
fn l10_without_anything_in_flight_a_shutdown_is_quick() {
    let (manual, log) = (Manual::readiness(), Log::default());
    let mut bench = Bench::new(&manual);
    let (foreign, handler, _source) = watched(&manual, &log);
    bench.here(|here| here.register_foreign(foreign, Interest::READABLE, handler)).unwrap();
    let _ended = bench.event_loop().shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap();
    bench.turns(2);
    assert!(bench.manual.is_terminated());
    assert_eq!(log.taken(), [UNREGISTERED_LINE]);
}

#[test]
fn e16_the_driver_is_dropped_before_futures_and_loop_locals() {
    static LOCAL: LoopLocal<Mutex<Option<LogsDrop>>> = LoopLocal::new(Mutex::default);
    for manual in [Manual::readiness(), Manual::completion()] {
        let log = Log::default();
        let mut bench = Bench::new(&manual);
        let event_loop = bench.event_loop();
        let (foreign, handler, source) = watched(&manual, &log);
        bench.here(|here| here.register_foreign(foreign, Interest::READABLE, handler)).unwrap();
        let noted = |what| LogsDrop {
            what,
            log: log.clone(),
            event_loop: event_loop.clone(),
            source: source.clone(),
        };
        let (future, local) = (noted("future"), noted("loop-local"));
        bench.here(|here| {
            LOCAL.with(|slot| *slot.lock().unwrap() = Some(local));
            drop(here.spawn_local(async move {
                let _noted = future;
                pending::<()>().await;
            }));
        });
        bench.turn();
        drop(bench);
        let order = [
            UNREGISTERED_LINE,
            "future, on loop true, closed true",
            "loop-local, on loop true, closed true",
        ];
        assert_eq!(log.taken(), order);
    }
}

#[test]
fn e16_a_loop_whose_driver_panics_terminates_in_order() {
    let (manual, log) = (Manual::readiness(), Log::default());
    let reports = Arc::new(Reports::default());
    let panicking = PanickingDriverFactory::new(manual.clone());
    let switch = panicking.switch();
    let builder = EventLoopGroup::builder(panicking).threads(1).name("panicking");
    let group = builder.reporter(reports.clone()).build().unwrap();
    let event_loop = group.next();
    let (foreign, handler, source) = watched(&manual, &log);
    let registered = event_loop.register_foreign(foreign, Interest::READABLE, handler);
    registered.wait_timeout(PATIENCE).expect("the registration completes");
    let noted =
        LogsDrop { what: "future", log: log.clone(), event_loop: event_loop.clone(), source };
    let kept = event_loop.spawn(async move {
        let _noted = noted;
        pending::<()>().await;
    });
    manual.wait_idle();
    switch.panic_in_next_wait();
    drop(event_loop.execute(|| ()));
    let ended = group.termination();
    ended.wait_timeout(PATIENCE).expect("a dead loop has terminated");
    let cause = event_loop.termination().join().unwrap_err();
    assert!(
        matches!(cause.kind(), ErrorKind::LoopDied { cause, .. } if cause.contains("driver panics"))
    );
    let told = format!("unregistered, closed true: {cause}");
    assert_eq!(log.taken(), [told.as_str(), "future, on loop true, closed true"]);
    assert!(kept.unwrap().join().is_err());
    assert!(event_loop.execute(|| ()).is_err());
}

#[test]
fn e16_a_driver_panic_reaches_the_caller_that_turns_a_manual_loop() {
    let (manual, log) = (Manual::readiness(), Log::default());
    let panicking = PanickingDriverFactory::new(manual.clone());
    let switch = panicking.switch();
    let mut bench = Bench::new(&panicking);
    let (foreign, handler, _source) = watched(&manual, &log);
    bench.here(|here| here.register_foreign(foreign, Interest::READABLE, handler)).unwrap();
    bench.turn();
    switch.panic_in_next_wait();
    assert!(catch_unwind(AssertUnwindSafe(|| bench.turn())).is_err());
    assert!(LocalLoop::current().is_none(), "the thread has no current loop");
    let ran = bench.event_loop().submit(|| ()).unwrap();
    drop(bench);
    assert!(ran.is_done(), "accepted tasks run");
    assert_eq!(log.taken(), [UNREGISTERED_LINE]);
}

#[test]
fn l14_a_task_only_loop_refuses_registrations_and_says_why() {
    struct Never;
    impl Registrant for Never {
        fn on_event(
            &mut self,
            _: &LocalLoop,
            _: waterwheel_channel::driver::IoEvent,
        ) -> Result<(), Error> {
            unreachable!("it is not registered")
        }

        fn on_detached(&mut self, _: &LocalLoop, _: Option<Error>) {
            unreachable!("it is not registered")
        }
    }
    let mut bench = Bench::new(&TaskOnly);
    let refused = bench.here(|here| here.attach(Io::new(7_u8), Role::Stream, Never)).unwrap_err();
    assert_eq!(refused.kind(), IoErrorKind::Unsupported);
    assert!(refused.to_string().contains("task-only") && refused.to_string().contains("u8"));
    let (foreign, handler, source) = watched(&Manual::readiness(), &Log::default());
    let registered = bench.here(|here| here.register_foreign(foreign, Interest::READABLE, handler));
    assert_eq!(registered.unwrap_err().kind(), IoErrorKind::Unsupported);
    bench.turn();
    assert!(source.is_closed(), "it was dropped");
    assert_eq!(bench.metrics().registrations, 0);
    assert_eq!(bench.event_loop().driver_name(), "task-only");
}
