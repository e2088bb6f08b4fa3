//! E19: the global executor's thread: shared by all, ends when idle, restarts on demand.

use std::cell::RefCell;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use waterwheel_executor::{Clock, EventExecutor, GlobalExecutor};

use super::global_alone;
use crate::support::{Log, TIMEOUT, panic_quietly};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn e19_the_global_executor_is_one_thread_for_all() {
    let (_alone, global) = global_alone();
    let who = || {
        let thread = std::thread::current();
        (thread.name().map(str::to_owned), GlobalExecutor::get().in_event_loop())
    };
    let expected = (Some("waterwheel-global".to_owned()), true);
    assert_eq!(global.submit(who).unwrap().join().unwrap(), expected);
    // Asked on the executor itself, because it ends after an idle second, which a busy machine may take.
    assert!(global.submit(|| GlobalExecutor::get().is_running()).unwrap().join().unwrap());
    assert!(!global.in_event_loop());
    let log = Log::new();
    for n in 0..1000 {
        let log = log.clone();
        global.execute(move || log.add(n)).unwrap();
    }
    global.submit(|| ()).unwrap().join().unwrap();
    assert_eq!(log.take(), (0..1000).collect::<Vec<_>>());
}

#[test]
fn e19_the_global_executor_survives_panics_and_shutdowns_by_its_tasks() {
    let (_alone, global) = global_alone();
    global.execute(|| panic_quietly("globally")).unwrap();
    let current = || EventExecutor::current().unwrap();
    let graceful = move || drop(current().shutdown_gracefully(Duration::ZERO, TIMEOUT).unwrap());
    let immediate = move || drop(current().shutdown());
    for round in 0..20 {
        match round % 2 {
            0 => global.execute(graceful).unwrap(),
            _ => global.execute(immediate).unwrap(),
        }
        let next = global.submit(move || round).unwrap();
        next.wait_timeout(TIMEOUT).unwrap();
        assert_eq!(next.join().unwrap(), round);
    }
}

#[test]
fn e19_listeners_of_global_promises_run_on_the_global_executor() {
    let (_alone, global) = global_alone();
    let (promise, mut future) = global.new_promise();
    let (tell, told) = mpsc::channel();
    let listener = move |_: &Result<(), _>| {
        tell.send(GlobalExecutor::get().in_event_loop()).unwrap();
    };
    future.add_listener(listener);
    promise.set_success(());
    assert!(told.recv_timeout(TIMEOUT).unwrap());
}

/// Sends a message when its thread ends.
struct AtExit(Sender<()>);

impl Drop for AtExit {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

thread_local! {
    static AT_EXIT: RefCell<Option<AtExit>> = const { RefCell::new(None) };
}

#[test]
fn e19_the_global_thread_ends_after_a_second_without_work_and_comes_back_on_demand() {
    let (_alone, global) = global_alone();
    let (exit, exited) = mpsc::channel();
    let watch = move || {
        AT_EXIT.set(Some(AtExit(exit)));
        std::thread::current().id()
    };
    let before = Clock::Monotonic.now();
    let first = global.submit(watch).unwrap().join().unwrap();
    exited.recv_timeout(TIMEOUT).expect("the thread ends");
    assert!(Clock::Monotonic.now().since(before) >= SECOND);
    let second = global.submit(|| std::thread::current().id()).unwrap();
    assert_ne!(second.join().unwrap(), first);
}
