//! O02: the watchdog reports work that holds an executor beyond a limit, while it still runs.
//!
//! The slow code in these tests waits for its own report, so the report cannot have come too late.

#[path = "../../../support/slow_reports.rs"]
mod slow_reports;
mod support;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use slow_reports::{LIMIT, SlowReports};
use support::{FaultLog, FnSupplier, TIMEOUT, panic_quietly, shut_down, with_timeout};
use waterwheel_executor::{
    EventExecutor, EventExecutorGroup, Fault, InvalidWatchdog, SlowWork, UserCode, Watchdog,
};

fn executor(watchdog: &Watchdog, name: &str) -> EventExecutor {
    EventExecutor::builder().name(name).watchdog(watchdog).build().unwrap()
}

fn is_kind(what: UserCode) -> impl Fn(&SlowWork) -> bool {
    move |work| work.activity.what == what && !work.is_over
}

fn is_labelled(label: &'static str) -> impl Fn(&SlowWork) -> bool {
    move |work| work.activity.origin.label() == Some(label) && !work.is_over
}

fn is_end_of(label: &'static str) -> impl Fn(&SlowWork) -> bool {
    move |work| work.activity.origin.label() == Some(label) && work.is_over
}

#[test]
fn o02_a_slow_task_is_reported_while_it_runs() {
    let (watchdog, reports) = SlowReports::watchdog();
    let executor = executor(&watchdog, "held");
    let line = line!() + 1;
    let slow = executor.submit(move || reports.next(is_kind(UserCode::Task))).unwrap();
    let slow = slow.join().unwrap();
    let source = slow.activity.origin.location().unwrap();
    assert_eq!((source.file(), source.line()), (file!(), line));
    assert_eq!(&*slow.executor, "held");
    assert_eq!(slow.thread, executor.thread_properties().unwrap().name);
    assert!(slow.held_for >= LIMIT && slow.report_count == 1, "{slow:?}");
    assert!(slow.enclosing.is_none() && slow.activity.call_site.is_none());
    let text = slow.to_string();
    assert!(text.contains("the task from") && text.contains("has held the loop for"), "{text}");
    assert!(text.contains("on thread `held-"), "{text}");
}

#[test]
fn o02_a_slow_labelled_task_is_reported_by_its_label() {
    let (watchdog, reports) = SlowReports::watchdog();
    let executor = executor(&watchdog, "held");
    let slow = executor.labelled("sort").submit(move || reports.next(is_labelled("sort")));
    assert!(slow.unwrap().join().unwrap().to_string().starts_with("the task from sort has held"));
}

#[test]
fn o02_slow_timers_and_hooks_are_reported() {
    let (watchdog, reports) = SlowReports::watchdog();
    let executor = executor(&watchdog, "held");
    let (in_timer, in_hook) = (reports.clone(), reports.clone());
    let timer = executor.schedule(Duration::ZERO, move || in_timer.next(is_kind(UserCode::Timer)));
    assert_eq!(timer.unwrap().join().unwrap().report_count, 1);
    let (tell, hooked) = mpsc::channel();
    let hook = move || tell.send(in_hook.next(is_kind(UserCode::Hook)).to_string()).unwrap();
    executor.add_shutdown_hook(hook).unwrap();
    drop(executor.shutdown());
    let text = hooked.recv_timeout(TIMEOUT).unwrap();
    assert!(text.starts_with("the shutdown hook from "), "{text}");
}

#[test]
fn o02_a_slow_listener_inside_a_task_is_reported_and_then_the_task_again() {
    let (watchdog, reports) = SlowReports::watchdog();
    let executor = executor(&watchdog, "held");
    let inside = executor.clone();
    let task = move || {
        let (promise, mut future) = inside.new_promise::<()>();
        let (in_listener, after) = (reports.clone(), reports);
        let (tell, listened) = mpsc::channel();
        let listener =
            move |_: &_| tell.send(in_listener.next(is_kind(UserCode::Listener))).unwrap();
        future.add_listener(listener);
        promise.set_success(());
        (listened.try_recv().unwrap(), after.next(is_labelled("outside")))
    };
    let (listener, task) = executor.labelled("outside").submit(task).unwrap().join().unwrap();
    let outside = listener.enclosing.as_ref().unwrap();
    assert_eq!((outside.what, outside.origin.label()), (UserCode::Task, Some("outside")));
    assert!(listener.to_string().contains("inside of the task from outside"), "{listener}");
    assert!(task.enclosing.is_none());
    assert!(
        task.report_count == 2 && task.held_for > listener.held_for,
        "the loop is held all along"
    );
}

#[test]
fn o02_a_slow_listener_completed_by_another_thread_is_reported() {
    let (watchdog, reports) = SlowReports::watchdog();
    let executor = executor(&watchdog, "held");
    let (promise, mut future) = executor.new_promise::<()>();
    let (tell, listened) = mpsc::channel();
    future.add_listener(move |_| tell.send(reports.next(is_kind(UserCode::Listener))).unwrap());
    promise.set_success(());
    let slow = listened.recv_timeout(TIMEOUT).unwrap();
    assert_eq!(slow.enclosing.unwrap().what, UserCode::Command);
}

#[test]
fn o02_slow_work_is_reported_again_when_its_time_doubles_and_at_its_end() {
    let (watchdog, reports) = SlowReports::watchdog();
    let executor = executor(&watchdog, "held");
    let inside = reports.clone();
    let task = move || [(); 4].map(|()| inside.next(is_labelled("long")));
    let slow = executor.labelled("long").submit(task).unwrap().join().unwrap();
    assert_eq!(slow.each_ref().map(|work| work.report_count), [1, 2, 3, 4]);
    for pair in slow.windows(2) {
        assert!(pair[1].held_for >= 2 * pair[0].held_for, "{pair:?}");
        assert!(pair[1].since >= pair[0].since - LIMIT, "since about the same time");
    }
    let ended = reports.next(is_end_of("long"));
    assert!(ended.report_count == 5 && ended.held_for >= slow[3].held_for);
    assert!(ended.to_string().contains("has released the loop after"), "{ended}");
    let stats = executor.stats();
    assert!(stats.slow_works >= 1 && stats.longest_hold >= slow[3].held_for, "{stats:?}");
}

#[test]
fn o02_waiting_and_many_short_tasks_are_not_slow() {
    let (watchdog, reports) = SlowReports::watchdog();
    let [idle, busy, held] = ["idle", "busy", "held"].map(|name| executor(&watchdog, name));
    idle.submit(|| ()).unwrap().join().unwrap();
    while idle.running().is_some() {
        std::thread::yield_now(); // The task has not returned yet.
    }
    let before = idle.stats().slow_works;
    fn again(executor: &EventExecutor, runs: &Arc<AtomicU32>) {
        let (next, count) = (executor.clone(), runs.clone());
        let task = move || {
            count.fetch_add(1, Ordering::Relaxed);
            again(&next, &count);
        };
        let _ = executor.labelled("short").execute(task);
    }
    let runs = Arc::new(AtomicU32::new(0));
    again(&busy, &runs);
    let inside = reports.clone();
    let task = move || [(); 4].map(|()| inside.next(is_labelled("long")));
    held.labelled("long").submit(task).unwrap().join().unwrap();
    // Eight times the limit has passed.
    assert!(runs.load(Ordering::Relaxed) > 1, "it was busy meanwhile");
    assert_eq!(idle.stats().slow_works, before);
    // Tasks that the machine interrupted may count as slow, but not all of them in a row.
    assert!(busy.stats().slow_works < runs.load(Ordering::Relaxed).into());
    drop(busy.shutdown());
}

#[test]
fn o02_one_watchdog_thread_watches_all_loops_of_a_group() {
    let (tell, reports) = mpsc::channel();
    let on_slow = move |work: &SlowWork| {
        let thread = std::thread::current();
        let _ = tell.send((work.executor.clone(), thread.id(), thread.name().map(str::to_owned)));
    };
    let watchdog = Watchdog::builder().limit(LIMIT).on_slow(on_slow).build().unwrap();
    let group = EventExecutorGroup::builder().threads(4).name("pack").watchdog(&watchdog);
    let group = group.build().unwrap();
    assert_eq!(watchdog.watched_loops(), 0, "none has started");
    let gates: Vec<_> = group.children().map(|child| support::Gate::hold(&child)).collect();
    assert_eq!(watchdog.watched_loops(), 4);
    let (mut held, mut threads) = (std::collections::BTreeSet::new(), Vec::new());
    while held.len() < 4 {
        let (executor, id, name) = reports.recv_timeout(TIMEOUT).unwrap();
        assert_eq!(name.as_deref(), Some("waterwheel-watchdog"));
        held.insert(executor.to_string());
        threads.push(id);
    }
    assert_eq!(held.into_iter().collect::<Vec<_>>(), ["pack-0", "pack-1", "pack-2", "pack-3"]);
    assert!(threads.iter().all(|id| *id == threads[0]), "one thread for all");
    drop(gates);
}

/// Sends a message when it is dropped.
struct SignalsDrop(mpsc::Sender<()>);

impl Drop for SignalsDrop {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[test]
fn o02_the_watchdog_thread_ends_with_its_last_loop_and_restarts_with_the_next() {
    let reports = SlowReports::default();
    let (tell, is_gone) = mpsc::channel();
    let (keep, kept) = (reports.clone(), SignalsDrop(tell));
    let on_slow = move |work: &SlowWork| {
        let _ = &kept;
        keep.add(work.clone());
    };
    let watchdog = Watchdog::builder().limit(LIMIT).on_slow(on_slow).build().unwrap();
    for name in ["first", "second"] {
        let executor = executor(&watchdog, name);
        let inside = reports.clone();
        let slow = executor.submit(move || inside.next(is_kind(UserCode::Task))).unwrap();
        assert_eq!(&*slow.join().unwrap().executor, name);
        let ended = executor.termination();
        drop(executor); // The last handle.
        ended.wait_timeout(TIMEOUT).expect("it is watched, and ends all the same");
        assert_eq!(watchdog.watched_loops(), 0);
    }
    drop(watchdog);
    is_gone.recv_timeout(TIMEOUT).expect("its thread has let go of it");
}

#[test]
fn o02_a_callback_that_panics_is_reported_and_the_next_is_called() {
    let (faults, reports) = (FaultLog::new(), SlowReports::default());
    let keep = reports.clone();
    let on_slow = move |work: &SlowWork| {
        keep.add(work.clone());
        panic_quietly("no");
    };
    let watchdog = Watchdog::builder().limit(LIMIT).on_slow(on_slow).build().unwrap();
    let builder = EventExecutor::builder().reporter(faults.clone()).watchdog(&watchdog);
    let executor = builder.build().unwrap();
    let task = move || [(); 3].map(|()| reports.next(is_kind(UserCode::Task)));
    executor.submit(task).unwrap().join().unwrap();
    let expected = (UserCode::Callback, String::from("watchdog"), String::from("no"));
    let panics = faults.take_panics();
    assert!(panics.len() >= 2 && panics.iter().all(|panic| *panic == expected), "{panics:?}");
}

/// A reporter that sends each fault to a channel.
struct FaultSender(std::sync::Mutex<mpsc::Sender<Fault>>);

impl waterwheel_executor::Reporter for FaultSender {
    fn report(&self, report: &waterwheel_executor::Report<'_>) {
        assert_eq!(report.executor, "held");
        let _ = support::lock(&self.0).send(report.fault.clone());
    }
}

#[test]
fn o02_without_a_callback_the_reporter_of_the_loop_is_called() {
    let (tell, reports) = mpsc::channel();
    let watchdog = Watchdog::builder().limit(LIMIT).build().unwrap();
    let reporter = Arc::new(FaultSender(std::sync::Mutex::new(tell)));
    let builder = EventExecutor::builder().name("held").reporter(reporter).watchdog(&watchdog);
    let executor = builder.build().unwrap();
    let fault = executor.labelled("long").submit(move || reports.recv_timeout(TIMEOUT).unwrap());
    let fault = fault.unwrap().join().unwrap();
    let Fault::Slow(work) = &fault else { panic!("{fault}") };
    assert_eq!(work.activity.origin.label(), Some("long"));
    assert_eq!(fault.to_string(), work.to_string());
}

#[test]
fn o02_pooled_and_manual_executors_are_watched() {
    let (watchdog, reports) = SlowReports::watchdog();
    let pool = FnSupplier(|body| support::spawn(body).map(|_detached| None));
    let builder = EventExecutor::builder().name("pooled").watchdog(&watchdog);
    let pooled = builder.thread_supplier(Arc::new(pool)).build_pooled().unwrap();
    let inside = reports.clone();
    let slow = pooled.submit(move || inside.next(is_kind(UserCode::Task))).unwrap().join().unwrap();
    assert_eq!(&*slow.executor, "pooled");
    shut_down(&pooled);

    let manual_report = with_timeout(move || {
        let builder = EventExecutor::builder().name("manual").watchdog(&watchdog);
        let mut manual = builder.build_manual(waterwheel_executor::Clock::Monotonic).unwrap();
        let slow = manual.executor().submit(move || reports.next(is_kind(UserCode::Task))).unwrap();
        manual.run_now();
        slow.join().unwrap()
    });
    assert_eq!(&*manual_report.executor, "manual");
}

#[test]
fn o02_invalid_properties_are_errors() {
    let millis = Duration::from_millis;
    let limit = |limit| Watchdog::builder().limit(limit);
    let error = |builder: waterwheel_executor::WatchdogBuilder| builder.build().unwrap_err();
    assert_eq!(error(limit(Duration::ZERO)), InvalidWatchdog::Limit { limit: Duration::ZERO });
    assert_eq!(
        error(limit(Duration::from_micros(999))).to_string(),
        "a watchdog limit of 999µs is below the minimum of 1ms"
    );
    for look_every in [Duration::ZERO, millis(11)] {
        let expected = InvalidWatchdog::LookEvery { look_every, limit: millis(10) };
        assert_eq!(error(limit(millis(10)).look_every(look_every)), expected);
    }
    let built = limit(millis(10)).look_every(millis(10)).build().unwrap();
    assert_eq!((built.limit(), built.watched_loops()), (millis(10), 0));
    assert_eq!(Watchdog::builder().build().unwrap().limit(), millis(100));
}
