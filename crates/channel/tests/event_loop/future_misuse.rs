//! Futures that misbehave, and handles and wakers that are used too late or in the wrong place (L15, A02, A05).

use std::cell::RefCell;
use std::future::{Future, pending, poll_fn};
use std::panic::Location;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;

use waterwheel_channel::driver::TaskOnly;
use waterwheel_channel::{EventLoopGroup, ManualEventLoop, TaskScope, yield_now};
use waterwheel_executor::{ErrorKind, Fault, Origin, Report, SlowWork, UserCode};
use waterwheel_testkit::loop_suite::panic_quietly;

use crate::slow_reports::SlowReports;

const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

fn manual_loop() -> ManualEventLoop {
    EventLoopGroup::builder(TaskOnly).build_manual().unwrap()
}

/// A future that stores its waker at the first poll and never completes.
fn stores_waker(at: Arc<Mutex<Option<Waker>>>) -> impl Future<Output = ()> + Send {
    poll_fn(move |context| {
        at.lock().unwrap().get_or_insert_with(|| context.waker().clone());
        Poll::Pending
    })
}

/// Returns a future's waker after the loop of that future has ended.
fn waker_of_an_ended_loop() -> Waker {
    let (mut event_loop, waker) = (manual_loop(), Arc::default());
    drop(event_loop.event_loop().spawn(stores_waker(Arc::clone(&waker))).unwrap());
    event_loop.turn(AT_ONCE);
    drop(event_loop);
    waker.lock().unwrap().take().expect("the future was polled")
}

/// Returns the line of the caller.
#[track_caller]
fn line() -> u32 {
    Location::caller().line()
}

#[test]
fn l15_a_future_that_panics_is_reported_with_the_line_that_spawned_it() {
    let origins: Arc<Mutex<Vec<Origin>>> = Arc::default();
    let reported = origins.clone();
    let reporter = move |report: &Report<'_>| match &report.fault {
        Fault::Panicked { what: UserCode::Future, origin, .. } => {
            reported.lock().unwrap().push(*origin);
        }
        fault => panic!("{fault}"),
    };
    let builder = EventLoopGroup::builder(TaskOnly).reporter(Arc::new(reporter));
    let mut event_loop = builder.build_manual().unwrap();
    let panics = async || -> () {
        yield_now().await;
        panic_quietly("broken")
    };
    let mut lines = Vec::new();
    event_loop.on_loop(|here| {
        let scope = TaskScope::new(here);
        lines.push(line() + 1);
        let _local = here.spawn_local(panics());
        lines.push(line() + 1);
        let _scoped = scope.spawn(panics());
    });
    lines.push(line() + 1);
    let sent = event_loop.event_loop().spawn(async { panic_quietly("broken") }).unwrap();
    while !event_loop.is_idle() {
        event_loop.turn(AT_ONCE);
    }
    let mut found: Vec<_> = origins.lock().unwrap().drain(..).collect();
    found.sort_by_key(|origin| origin.location().unwrap().line());
    assert!(found.iter().all(|origin| origin.location().unwrap().file() == file!()));
    let found: Vec<_> = found.iter().map(|origin| origin.location().unwrap().line()).collect();
    assert_eq!(found, lines);
    let failed: Result<(), _> = sent.join();
    assert!(matches!(failed.unwrap_err().kind(), ErrorKind::Panicked { .. }));
}

/// The future waits inside of its poll for the watchdog's report about itself.
#[test]
fn l15_a_future_that_never_yields_is_named_while_it_holds_the_loop() {
    let (watchdog, reports) = SlowReports::watchdog();
    let group = EventLoopGroup::builder(TaskOnly).threads(1).watchdog(&watchdog).build().unwrap();
    let is_future = |work: &SlowWork| !work.is_over && work.activity.what == UserCode::Future;
    let holds_the_loop = async move {
        yield_now().await; // The poll that holds the loop is not the first.
        reports.next(is_future)
    };
    let spawned_at = line() + 1;
    let slow = group.spawn(holds_the_loop).unwrap().join().unwrap();
    assert_eq!(slow.activity.origin.location().unwrap().line(), spawned_at);
    assert!(slow.to_string().contains(&format!("{}:{spawned_at}", file!())), "{slow}");
}

#[test]
fn l15_a_future_that_is_polled_at_once_is_named_too() {
    let (watchdog, reports) = SlowReports::watchdog();
    let builder = EventLoopGroup::builder(TaskOnly).watchdog(&watchdog);
    let mut event_loop = builder.build_manual().unwrap();
    let (tell, slow) = mpsc::channel();
    let (inside, mut is_first) = (reports.clone(), true);
    let holds = poll_fn(move |context| {
        if std::mem::replace(&mut is_first, false) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let is_future = |work: &SlowWork| !work.is_over && work.activity.what == UserCode::Future;
        tell.send(inside.next(is_future)).unwrap();
        Poll::Ready(())
    });
    let join = event_loop.on_loop(|here| here.spawn_local(holds)).unwrap();
    event_loop.turn(AT_ONCE);
    event_loop.on_loop(|here| assert!(join.poll_now(here))).unwrap();
    assert_eq!(slow.recv().unwrap().activity.origin.location().unwrap().file(), file!());
    assert_eq!(event_loop.event_loop().running(), None, "nothing is left published");
}

#[test]
fn l15_a_wake_long_after_the_loops_end_does_nothing() {
    let waker = waker_of_an_ended_loop();
    waker.wake_by_ref();
    let elsewhere = waker.clone();
    thread::spawn(move || elsewhere.wake()).join().unwrap();
    // On another loop, whose future may have the same token.
    let mut other = manual_loop();
    let unwoken = Arc::default();
    drop(other.event_loop().spawn(stores_waker(Arc::clone(&unwoken))).unwrap());
    other.turn(AT_ONCE);
    let polled = other.event_loop().metrics().futures_polled;
    other.on_loop(|_| waker.wake()).unwrap();
    assert!(other.is_idle(), "nothing is queued on a loop that has nothing to do with it");
    other.turn(AT_ONCE);
    assert_eq!(other.event_loop().metrics().futures_polled, polled);
}

/// Wakes in the destructor of a thread-local, when other thread-locals of the thread are gone.
struct WakesOnDrop(RefCell<Vec<Waker>>, RefCell<Option<mpsc::Sender<()>>>);

impl Drop for WakesOnDrop {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Waker::wake);
        if let Some(dropped) = self.1.take() {
            dropped.send(()).unwrap();
        }
    }
}

thread_local! {
    static LAST_WAKE: WakesOnDrop =
        const { WakesOnDrop(RefCell::new(Vec::new()), RefCell::new(None)) };
}

#[test]
fn l15_a_wake_in_the_destructor_of_a_thread_local_arrives_or_does_nothing() {
    let (mut event_loop, waker) = (manual_loop(), Arc::default());
    drop(event_loop.event_loop().spawn(stores_waker(Arc::clone(&waker))).unwrap());
    event_loop.turn(AT_ONCE);
    let polled = event_loop.event_loop().metrics().futures_polled;
    let wakers = vec![waker_of_an_ended_loop(), waker.lock().unwrap().clone().unwrap()];
    let (dropped, was_dropped) = mpsc::channel();
    let thread = thread::spawn(move || {
        LAST_WAKE.with(|last| {
            last.0.replace(wakers);
            last.1.replace(Some(dropped));
        });
        // A loop of this thread's own, gone before the thread-locals are.
        drop(manual_loop());
    });
    thread.join().unwrap();
    was_dropped.recv().unwrap();
    event_loop.turn(AT_ONCE);
    assert_eq!(event_loop.event_loop().metrics().futures_polled, polled + 1);
}

/// Records the thread that drops it.
struct RecordsDrop(Arc<Mutex<Vec<ThreadId>>>);

impl Drop for RecordsDrop {
    fn drop(&mut self) {
        self.0.lock().unwrap().push(thread::current().id());
    }
}

#[test]
fn l15_a_waker_that_is_dropped_last_elsewhere_does_not_drop_the_future_there() {
    let (dropped, waker): (Arc<Mutex<Vec<_>>>, _) = Default::default();
    let mut event_loop = manual_loop();
    let (record, stores) = (RecordsDrop(dropped.clone()), stores_waker(Arc::clone(&waker)));
    let owns = async move {
        let _record = record;
        stores.await;
    };
    let join = event_loop.on_loop(|here| here.spawn_local(owns)).unwrap();
    event_loop.turn(AT_ONCE);
    join.abort();
    drop(join);
    let held = waker.lock().unwrap().take().unwrap();
    drop(waker);
    event_loop.turn(AT_ONCE);
    assert_eq!(*dropped.lock().unwrap(), [thread::current().id()], "with the abort, here");
    drop(event_loop);
    thread::spawn(move || drop(held)).join().unwrap();
    assert_eq!(dropped.lock().unwrap().len(), 1);
}

#[test]
fn l15_a_spawn_onto_a_loop_that_has_ended_says_so_and_returns_the_future() {
    let mut manual = manual_loop();
    let (event_loop, here) = (manual.event_loop(), manual.on_loop(Clone::clone).unwrap());
    drop(manual);
    let rejected = thread::spawn(move || event_loop.spawn(async { 7 })).join().unwrap();
    let rejected = rejected.expect_err("the loop has ended");
    assert_eq!(rejected.to_string(), "task rejected: the executor is shut down");

    let dropped: Arc<Mutex<Vec<_>>> = Arc::default();
    let record = RecordsDrop(dropped.clone());
    let mut join = here.spawn_local(async move {
        let _record = record;
        pending::<()>().await;
    });
    assert_eq!(dropped.lock().unwrap().len(), 1, "a future for a loop that has ended is dropped");
    let mut context = std::task::Context::from_waker(Waker::noop());
    match std::pin::Pin::new(&mut join).poll(&mut context) {
        Poll::Ready(Err(error)) => assert!(matches!(error.kind(), ErrorKind::Cancelled)),
        other => panic!("{other:?}"),
    }
}
