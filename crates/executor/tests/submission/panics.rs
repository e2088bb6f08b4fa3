//! E12: panics in user code are reported, and the loop continues.

use std::panic::resume_unwind;
use std::sync::{Arc, mpsc};

use waterwheel_executor::{EventExecutor, Report, Reporter, UserCode};

use crate::support::{FaultLog, Log, TIMEOUT, panic_quietly, shut_down, with_timeout};

struct Fixture {
    executor: EventExecutor,
    faults: Arc<FaultLog>,
}

impl Fixture {
    fn new() -> Self {
        let faults = FaultLog::new();
        let builder = EventExecutor::builder().reporter(faults.clone());
        let executor = builder.build().unwrap();
        Self { executor, faults }
    }

    /// Asserts that one panic of this kind was reported, and that the loop still runs tasks and shuts down.
    #[track_caller]
    fn assert_survived(self, what: UserCode, origin: &str, message: &str) {
        assert_eq!(self.executor.submit(|| 7).unwrap().join().unwrap(), 7);
        let expected = (what, origin.to_owned(), message.to_owned());
        assert_eq!(self.faults.take_panics(), [expected]);
        shut_down(&self.executor);
        self.executor.termination().join().unwrap();
    }
}

/// Returns `file:line` for a line of this file.
fn line(line: u32) -> String {
    format!("{}:{line}", file!())
}

#[test]
fn e12_a_panicking_task_is_reported_with_its_source_line() {
    let fixture = Fixture::new();
    let task = || panic_quietly("the task is broken");
    let at = line(line!() + 1);
    fixture.executor.execute(task).unwrap();
    fixture.assert_survived(UserCode::Task, &at, "the task is broken");
}

#[test]
fn e12_a_panicking_lazy_task_is_reported_with_its_source_line() {
    let fixture = Fixture::new();
    let task = || panic_quietly("the task is broken");
    let at = line(line!() + 1);
    fixture.executor.lazy_execute(task).unwrap();
    fixture.assert_survived(UserCode::Task, &at, "the task is broken");
}

#[test]
fn e12_a_panicking_labelled_task_is_reported_with_its_label() {
    let fixture = Fixture::new();
    let labelled = fixture.executor.labelled("grinding");
    labelled.execute(|| panic_quietly("the mill is broken")).unwrap();
    fixture.assert_survived(UserCode::Task, "grinding", "the mill is broken");
}

#[test]
fn e12_a_panicking_submission_is_reported_and_fails_its_handle_with_its_label() {
    let fixture = Fixture::new();
    let labelled = fixture.executor.labelled("grinding");
    let handle = labelled.submit(|| -> u8 { panic_quietly("the mill is broken") });
    let failed = handle.unwrap().join().unwrap_err().to_string();
    assert!(failed.contains("grinding"), "{failed}");
    assert!(failed.contains("the mill is broken"), "{failed}");
    fixture.assert_survived(UserCode::Task, "grinding", "the mill is broken");
}

#[test]
fn e12_a_panicking_listener_is_reported_and_the_others_run() {
    let fixture = Fixture::new();
    let (promise, mut future) = fixture.executor.new_promise();
    let log = Log::new();
    let (before, after) = (log.clone(), log.clone());
    future.add_listener(move |_| before.add("before"));
    let listener = |_: &Result<(), _>| panic_quietly("the listener is broken");
    let at = line(line!() + 1);
    future.add_listener(listener);
    future.add_listener(move |_| after.add("after"));
    promise.set_success(());
    fixture.executor.submit(|| ()).unwrap().join().unwrap();
    assert_eq!(log.take(), ["before", "after"]);
    fixture.assert_survived(UserCode::Listener, &at, "the listener is broken");
}

#[test]
fn e12_a_panicking_consumer_is_reported() {
    let fixture = Fixture::new();
    let (promise, future) = fixture.executor.new_promise();
    let consumer = |_: Result<(), _>| panic_quietly("the consumer is broken");
    let at = line(line!() + 1);
    future.on_complete(consumer);
    promise.set_success(());
    fixture.assert_survived(UserCode::Listener, &at, "the consumer is broken");
}

#[test]
fn e12_a_panicking_hook_is_reported_with_its_source_line() {
    let fixture = Fixture::new();
    let hook = || panic_quietly("the hook is broken");
    let at = line(line!() + 1);
    fixture.executor.add_shutdown_hook(hook).unwrap();
    shut_down(&fixture.executor);
    let expected = (UserCode::Hook, at, "the hook is broken".to_owned());
    assert_eq!(fixture.faults.take_panics(), [expected]);
    fixture.executor.termination().join().unwrap();
}

/// Panics when dropped.
struct PanicsOnDrop(&'static str);

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic_quietly(self.0);
        }
    }
}

#[test]
fn e12_a_panicking_destructor_of_a_task_is_reported() {
    let fixture = Fixture::new();
    let panics_on_drop = PanicsOnDrop("the destructor is broken");
    let task = move || drop(panics_on_drop);
    let at = line(line!() + 1);
    fixture.executor.execute(task).unwrap();
    fixture.assert_survived(UserCode::Task, &at, "the destructor is broken");
}

#[test]
fn e12_a_panicking_destructor_of_a_removed_hook_is_survived() {
    let fixture = Fixture::new();
    let panics_on_drop = PanicsOnDrop("the destructor is broken");
    let hook = fixture.executor.add_shutdown_hook(move || drop(panics_on_drop));
    fixture.executor.remove_shutdown_hook(hook.unwrap());
    assert_eq!(fixture.executor.submit(|| 7).unwrap().join().unwrap(), 7);
    let panics = fixture.faults.take_panics();
    assert_eq!(panics.len(), 1);
    assert_eq!(panics[0].2, "the destructor is broken");
}

/// Panics with this payload, without calling the panic hook.
fn panic_with(value: PanicsOnDrop) -> ! {
    resume_unwind(Box::new(value))
}

/// Asserts that the loop survives a panic whose payload panics again when it is dropped.
fn survives_a_payload_that_panics_on_drop(panics: impl FnOnce(&EventExecutor) + Send + 'static) {
    with_timeout(move || {
        let fixture = Fixture::new();
        panics(&fixture.executor);
        let alive = fixture.executor.submit(|| 7).unwrap();
        assert_eq!(alive.join().expect("the loop lives on"), 7);
        shut_down(&fixture.executor);
        fixture.executor.termination().join().unwrap();
    });
}

#[test]
fn e12_a_task_may_panic_with_a_value_that_panics_when_dropped() {
    survives_a_payload_that_panics_on_drop(|executor| {
        executor.execute(|| panic_with(PanicsOnDrop("again"))).unwrap();
    });
}

#[test]
fn e12_a_submission_may_panic_with_a_value_that_panics_when_dropped() {
    survives_a_payload_that_panics_on_drop(|executor| {
        let handle = executor.submit(|| panic_with(PanicsOnDrop("again"))).unwrap();
        handle.wait_timeout(TIMEOUT).unwrap();
    });
}

#[test]
fn e12_a_listener_may_panic_with_a_value_that_panics_when_dropped() {
    survives_a_payload_that_panics_on_drop(|executor| {
        let (promise, mut future) = executor.new_promise();
        let (tell, told) = mpsc::channel();
        future.add_listener(|_| panic_with(PanicsOnDrop("again")));
        future.add_listener(move |_| tell.send(()).unwrap());
        promise.set_success(());
        told.recv_timeout(TIMEOUT).expect("the next listener is told");
    });
}

#[test]
fn e12_a_hook_may_panic_with_a_value_that_panics_when_dropped() {
    survives_a_payload_that_panics_on_drop(|executor| {
        let hook = || panic_with(PanicsOnDrop("again"));
        executor.add_shutdown_hook(hook).unwrap();
    });
}

#[test]
fn e12_a_panicking_reporter_is_ignored() {
    struct Broken(Log<(String, String)>);
    impl Reporter for Broken {
        fn report(&self, report: &Report<'_>) {
            self.0.add((report.executor.to_owned(), report.fault.to_string()));
            panic_quietly("nobody listens to me");
        }
    }
    let log = Log::new();
    let builder = EventExecutor::builder().name("unlucky");
    let executor = builder.reporter(Arc::new(Broken(log.clone()))).build().unwrap();
    let labelled = executor.labelled("grinding");
    (0..2).for_each(|_| labelled.execute(|| panic_quietly("first")).unwrap());
    assert_eq!(executor.submit(|| 7).unwrap().join().unwrap(), 7);
    let report = ("unlucky", "the task from grinding panicked: first");
    let report = (report.0.to_owned(), report.1.to_owned());
    assert_eq!(log.take(), [report.clone(), report]);
}

#[test]
fn e12_tasks_around_a_panicking_one_run_in_order() {
    let (fixture, log) = (Fixture::new(), Log::new());
    for n in 0..300 {
        let log = log.clone();
        let task = move || match n % 3 {
            0 => panic_quietly("every third"),
            _ => log.add(n),
        };
        fixture.executor.execute(task).unwrap();
    }
    shut_down(&fixture.executor);
    let expected: Vec<_> = (0..300).filter(|n| n % 3 != 0).collect();
    assert_eq!(log.take(), expected);
    assert_eq!(fixture.faults.take_panics().len(), 100);
    assert_eq!(fixture.executor.stats().tasks, 300);
}
