//! E02, E03, E20: submitting, states, thread properties, the running task.

use std::sync::mpsc;
use std::time::Duration;

use waterwheel_executor::{
    Error, ErrorKind, EventExecutor, ExecutorState, GlobalExecutor, Origin, RejectReason,
};

use crate::support::{Gate, Log, TIMEOUT, panic_quietly, shut_down};

fn executor() -> EventExecutor {
    EventExecutor::builder().name("viewed").build().unwrap()
}

#[test]
fn e02_submit_returns_the_value_or_the_panic() {
    let executor = executor();
    assert_eq!(executor.submit(|| "value").unwrap().join().unwrap(), "value");
    let task = || -> u8 { panic_quietly("no value") };
    let line = line!() + 1;
    let failed = executor.submit(task).unwrap().join().unwrap_err();
    let ErrorKind::Panicked { origin, message } = failed.kind() else {
        panic!("{failed}");
    };
    assert_eq!(message, "no value");
    let at = origin.location().unwrap();
    assert_eq!((at.file(), at.line()), (file!(), line));
}

#[test]
fn e02_a_cancelled_submission_does_not_run() {
    let executor = executor();
    let gate = Gate::hold(&executor);
    let (ran, has_run) = mpsc::channel::<()>();
    let future = executor.submit(move || ran.send(()).unwrap()).unwrap();
    assert!(future.cancel());
    gate.open();
    let dropped = has_run.recv_timeout(TIMEOUT);
    assert_eq!(dropped, Err(mpsc::RecvTimeoutError::Disconnected));
    assert!(future.join().unwrap_err().is_cancelled());
}

#[test]
fn e02_in_event_loop_is_true_only_on_its_own_thread() {
    let (one, other) = (executor(), executor());
    let (inner_one, inner_other) = (one.clone(), other.clone());
    let on_one = one.submit(move || (inner_one.in_event_loop(), inner_other.in_event_loop()));
    assert_eq!(on_one.unwrap().join().unwrap(), (true, false));
    assert!(!one.in_event_loop());
}

#[test]
fn e02_promises_are_bound_to_their_executor() {
    let executor = executor();
    let (promise, mut future) = executor.new_promise();
    assert_eq!(future.executor(), executor.id());
    let (tell, told) = mpsc::channel();
    let inner = executor.clone();
    future.add_listener(move |_| tell.send(inner.in_event_loop()).unwrap());
    promise.set_success(7);
    assert!(told.recv_timeout(TIMEOUT).unwrap(), "its listeners run on it");
    assert_eq!(future.join().unwrap(), 7);
}

#[test]
fn e02_progressive_promises_are_bound_to_their_executor() {
    let executor = executor();
    let (mut promise, mut future) = executor.new_progressive_promise();
    let (tell, told) = mpsc::channel();
    let inner = executor.clone();
    let listener = move |progress: waterwheel_executor::Progress| {
        tell.send((progress.done, progress.total, inner.in_event_loop())).unwrap();
    };
    future.add_progress_listener(listener);
    promise.set_progress(3, Some(10)).unwrap();
    assert_eq!(told.recv_timeout(TIMEOUT).unwrap(), (3, Some(10), true));
    promise.set_success("done");
    assert_eq!(future.into_future().join().unwrap(), "done");
}

#[test]
fn e02_ready_made_futures_are_complete_from_the_start() {
    let executor = executor();
    let mut succeeded = executor.succeeded(7);
    let failed = executor.failed::<()>(Error::new(std::io::Error::other("no luck")));
    assert!(succeeded.is_done() && failed.is_done());
    assert_eq!((succeeded.executor(), failed.executor()), (executor.id(), executor.id()));
    assert_eq!(executor.state(), ExecutorState::NotStarted, "nobody had to run anything");
    let (tell, told) = mpsc::channel();
    let inner = executor.clone();
    succeeded.add_listener(move |_| tell.send(inner.in_event_loop()).unwrap());
    assert!(told.recv_timeout(TIMEOUT).unwrap());
    assert_eq!(succeeded.join().unwrap(), 7);
    assert_eq!(failed.join().unwrap_err().to_string(), "no luck");
}

#[test]
fn e02_a_labelled_executor_can_be_unwrapped() {
    let (executor, other) = (executor(), executor());
    let labelled = executor.labelled("decorated");
    assert_eq!(labelled.inner(), &executor);
    assert_ne!(labelled.inner(), &other);
    assert_eq!(labelled.clone().inner().name(), "viewed");
}

#[test]
fn e03_states_only_ever_move_forward() {
    let (executor, states) = (executor(), Log::new());
    let note = || {
        let (executor, states) = (executor.clone(), states.clone());
        move || states.add(executor.state())
    };
    note()();
    executor.add_shutdown_hook(note()).unwrap();
    executor.execute(note()).unwrap();
    let gate = Gate::hold(&executor);
    executor.execute(note()).unwrap(); // Run by the last pass, because the timeout expires first.
    drop(executor.shutdown_gracefully(Duration::ZERO, Duration::ZERO));
    gate.open();
    executor.await_termination(TIMEOUT).unwrap();
    note()();
    drop(executor.shutdown_gracefully(Duration::ZERO, Duration::ZERO));
    drop(executor.shutdown());
    note()();
    use ExecutorState::{NotStarted, Shutdown, ShuttingDown, Started, Terminated};
    let life = [NotStarted, Started, ShuttingDown, Shutdown, Terminated, Terminated];
    assert_eq!(states.take(), life);
    assert!(life.is_sorted(), "they compare in the order of life");
}

#[test]
fn e03_tasks_are_accepted_while_shutting_down_and_refused_from_shutdown_on() {
    let executor = executor();
    let gate = Gate::hold(&executor);
    drop(executor.shutdown_gracefully(TIMEOUT, TIMEOUT).unwrap());
    let flags = |e: &EventExecutor| (e.is_shutting_down(), e.is_shut_down(), e.is_terminated());
    assert_eq!(executor.state(), ExecutorState::ShuttingDown);
    assert_eq!(flags(&executor), (true, false, false));
    let accepted = executor.submit(|| 7).unwrap();
    drop(executor.shutdown());
    assert_eq!(executor.state(), ExecutorState::Shutdown);
    assert_eq!(flags(&executor), (true, true, false));
    assert!(executor.execute(|| ()).is_err());
    gate.open();
    assert_eq!(accepted.join().unwrap(), 7);
    executor.await_termination(TIMEOUT).unwrap();
    assert_eq!(flags(&executor), (true, true, true));
    assert!(executor.execute(|| ()).is_err());
}

#[test]
fn e03_an_executor_that_runs_is_not_shutting_down() {
    let executor = executor();
    assert!(!executor.is_shutting_down());
    executor.submit(|| ()).unwrap().join().unwrap();
    assert_eq!(executor.state(), ExecutorState::Started);
    assert!(!executor.is_shutting_down() && !executor.is_shut_down());
    assert!(!executor.is_terminated());
}

#[test]
fn e20_thread_properties_report_name_id_liveness_and_start_time() {
    let executor = executor();
    assert!(executor.thread_properties().is_none(), "there is no thread yet");
    let id = executor.submit(|| std::thread::current().id()).unwrap();
    let id = id.join().unwrap();
    let thread = executor.thread_properties().unwrap();
    assert!(thread.name.unwrap().starts_with("viewed-"));
    assert_eq!(thread.id, id);
    assert!(thread.is_alive);
    let age = thread.started_at.elapsed().unwrap_or_default();
    assert!(age < TIMEOUT, "{age:?}");
    let started_at = thread.started_at;
    shut_down(&executor);
    let thread = executor.thread_properties().unwrap();
    assert!(!thread.is_alive);
    assert_eq!((thread.id, thread.started_at), (id, started_at));
}

#[test]
fn e20_running_returns_the_label_or_source_line_of_the_running_task() {
    let executor = executor();
    assert_eq!(executor.running(), None);
    let doing = |hold: &dyn Fn(Box<dyn FnOnce() + Send>)| -> Origin {
        let (inside, is_inside) = mpsc::channel();
        let (leave, may_leave) = mpsc::channel::<()>();
        hold(Box::new(move || {
            inside.send(()).unwrap();
            let _ = may_leave.recv();
        }));
        is_inside.recv_timeout(TIMEOUT).unwrap();
        let running = executor.running().expect("it is in the task");
        drop(leave);
        running
    };
    let labelled = executor.labelled("grinding");
    assert_eq!(doing(&|task| labelled.execute(task).unwrap()).label(), Some("grinding"));
    let submitted = doing(&|task| drop(labelled.submit(task).unwrap()));
    assert_eq!(submitted.label(), Some("grinding"));
    let line = line!() + 1;
    let by_line = doing(&|task| executor.execute(task).unwrap());
    let at = by_line.location().unwrap();
    assert_eq!((at.file(), at.line()), (file!(), line));
    let hook = doing(&|task| {
        executor.add_shutdown_hook(task).unwrap();
        drop(executor.shutdown_gracefully(Duration::ZERO, TIMEOUT).unwrap());
    });
    assert_eq!(hook.location().unwrap().file(), file!());
    executor.await_termination(TIMEOUT).unwrap();
    assert_eq!(executor.running(), None);
}

#[test]
fn e20_running_no_longer_returns_a_finished_task() {
    let executor = executor();
    for _ in 0..100 {
        let (promise, mut future) = executor.new_promise();
        executor.execute(|| ()).unwrap();
        executor.execute(|| panic_quietly("a panic does not stay on display")).unwrap();
        // A listener sees itself as running, and no longer the tasks before it.
        let (tell, told) = mpsc::channel();
        let inner = executor.clone();
        let line = line!() + 1;
        future.add_listener(move |_| tell.send(inner.running()).unwrap());
        promise.set_success(());
        let running = told.recv_timeout(TIMEOUT).unwrap().unwrap();
        assert_eq!(running.location().unwrap().line(), line);
    }
}

#[test]
fn e20_an_executor_implements_debug() {
    let executor = executor();
    let shown = format!("{executor:?}");
    assert!(shown.contains("viewed") && shown.contains("NotStarted"), "{shown}");
    assert!(format!("{:?}", GlobalExecutor::get()).contains("GlobalExecutor"));
}

#[test]
fn e02_an_executor_is_its_only_child() {
    let executor = executor();
    assert_eq!(executor.children().len(), 1);
    assert_eq!(executor.children().collect::<Vec<_>>(), [executor.next()]);
    assert_eq!(executor.next(), executor);
}

#[test]
fn e02_a_rejection_becomes_an_error_with_its_reason() {
    fn submits(executor: &EventExecutor) -> Result<u8, Error> {
        executor.submit(|| 7)?.join()
    }
    let executor = executor();
    assert_eq!(submits(&executor).unwrap(), 7);
    shut_down(&executor);
    let refused = submits(&executor).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Rejected(RejectReason::ShutDown)), "{refused:?}");
    assert_eq!(refused.to_string(), "task rejected: the executor is shut down");
}
