//! Tail tasks (L09).

use std::sync::{Arc, Mutex};

use waterwheel_channel::driver::OpenDriver;
use waterwheel_channel::{EventLoop, TailTask};
use waterwheel_executor::UserCode;

use super::bench::{Bench, TIMEOUT, panic_quietly};

/// The tasks that ran, in order.
#[derive(Clone, Default)]
struct RunLog(Arc<Mutex<Vec<&'static str>>>);

impl RunLog {
    fn note(&self, what: &'static str) -> impl FnOnce() + Send + 'static + use<> {
        let log = self.clone();
        move || log.0.lock().unwrap().push(what)
    }

    fn taken(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn after_turn(event_loop: &EventLoop, task: impl FnOnce() + Send + 'static) -> TailTask {
    event_loop.execute_after_turn(task).unwrap_or_else(|_| panic!("a tail task is accepted"))
}

/// Checks that tail tasks run after the tasks of the turn, in the order of their addition.
pub fn l09_tail_tasks_run_after_the_tasks_in_order(drivers: &dyn OpenDriver) {
    let mut bench = Bench::new(drivers);
    let (event_loop, log) = (bench.event_loop(), RunLog::default());
    let _one = after_turn(&event_loop, log.note("tail 1"));
    event_loop.execute(log.note("task 1")).unwrap();
    let _two = after_turn(&event_loop, log.note("tail 2"));
    event_loop.execute(log.note("task 2")).unwrap();
    bench.turn();
    assert_eq!(log.taken(), ["task 1", "task 2", "tail 1", "tail 2"]);
    bench.turn();
    assert!(log.taken().is_empty(), "once");
}

/// Checks that a turn without tasks runs tail tasks.
pub fn l09_tail_tasks_run_without_tasks(drivers: &dyn OpenDriver) {
    let mut bench = Bench::new(drivers);
    let log = RunLog::default();
    let _tail = after_turn(&bench.event_loop(), log.note("tail"));
    bench.turn();
    assert_eq!(log.taken(), ["tail"]);
}

/// Checks that a tail task added by a tail task waits for the next turn.
pub fn l09_a_tail_task_of_a_tail_task_waits_a_turn(drivers: &dyn OpenDriver) {
    let mut bench = Bench::new(drivers);
    let (event_loop, log) = (bench.event_loop(), RunLog::default());
    let (inner, second) = (event_loop.clone(), log.clone());
    let first = log.note("first");
    let _tail = after_turn(&event_loop, move || {
        first();
        let _tail = after_turn(&inner, second.note("second"));
    });
    bench.turn();
    assert_eq!(log.taken(), ["first"]);
    bench.turn();
    assert_eq!(log.taken(), ["second"]);
}

/// Checks that a loop with a queued tail task does not sleep.
pub fn l09_a_loop_does_not_sleep_over_a_tail_task(drivers: &dyn OpenDriver) {
    let mut bench = Bench::new(drivers);
    let (event_loop, log) = (bench.event_loop(), RunLog::default());
    let (inner, second) = (event_loop.clone(), log.note("second"));
    let _tail = after_turn(&event_loop, move || {
        let _tail = after_turn(&inner, second);
    });
    bench.turn();
    let before = bench.now();
    bench.manual.turn(Some(TIMEOUT));
    assert_eq!(log.taken(), ["second"]);
    assert!(bench.now().since(before) < TIMEOUT);
}

/// Checks that a removed tail task never runs, and that only the first `remove` returns true.
pub fn l09_a_tail_task_can_be_removed_once(drivers: &dyn OpenDriver) {
    let mut bench = Bench::new(drivers);
    let (event_loop, log) = (bench.event_loop(), RunLog::default());
    let kept = Arc::new(());
    let (note, keeps) = (log.note("removed"), kept.clone());
    let tail = after_turn(&event_loop, move || {
        drop(keeps);
        note();
    });
    let other = tail.clone();
    let removed = std::thread::spawn(move || other.remove()).join().unwrap();
    assert!(removed);
    assert_eq!(Arc::strong_count(&kept), 1, "its closure went at once");
    assert!(!tail.remove(), "it is gone already");
    bench.turns(2);
    assert!(log.taken().is_empty());

    let tail = after_turn(&event_loop, log.note("ran"));
    bench.turn();
    assert!(!tail.remove(), "it has run");
    assert_eq!(log.taken(), ["ran"]);
}

/// Checks that `remove` returns true to one of many threads.
pub fn l09_one_of_many_threads_removes_a_tail_task(drivers: &dyn OpenDriver) {
    let bench = Bench::new(drivers);
    for _ in 0..50 {
        let tail = after_turn(&bench.event_loop(), || ());
        let removers: Vec<_> = (0..4)
            .map(|_| {
                let tail = tail.clone();
                std::thread::spawn(move || usize::from(tail.remove()))
            })
            .collect();
        let removed: usize = removers.into_iter().map(|remover| remover.join().unwrap()).sum();
        assert_eq!(removed, 1);
    }
}

/// Checks that a panic of a tail task is reported and the next one runs.
pub fn e12_a_tail_task_that_panics_is_reported(drivers: &dyn OpenDriver) {
    let mut bench = Bench::new(drivers);
    let (event_loop, log) = (bench.event_loop(), RunLog::default());
    let _broken = after_turn(&event_loop, || panic_quietly("tail on fire"));
    let _next = after_turn(&event_loop, log.note("next"));
    assert!(bench.turn());
    assert_eq!(log.taken(), ["next"]);
    assert_eq!(bench.reports.take_panics(), [(UserCode::Task, "tail on fire".to_owned())]);
}

/// Checks that a loop that is shut down returns the closure.
pub fn l09_a_loop_that_is_shut_down_rejects_tail_tasks(drivers: &dyn OpenDriver) {
    let mut bench = Bench::new(drivers);
    let (event_loop, log) = (bench.event_loop(), RunLog::default());
    let _ended = event_loop.shutdown();
    bench.until_over();
    let rejected = event_loop.execute_after_turn(log.note("mine"));
    let Err(rejected) = rejected else { panic!("accepted by a loop that is over") };
    rejected.into_task()();
    assert_eq!(log.taken(), ["mine"]);
}

/// Checks that a tail task that always adds itself again does not delay a shutdown.
pub fn l09_tail_tasks_do_not_delay_a_shutdown(drivers: &dyn OpenDriver) {
    fn again(event_loop: &EventLoop) {
        let next = event_loop.clone();
        let _refused = event_loop.execute_after_turn(move || again(&next));
    }
    let mut bench = Bench::new(drivers);
    again(&bench.event_loop());
    bench.turns(3);
    let ended = bench.event_loop().shutdown();
    bench.turns(3);
    assert!(ended.is_done() && bench.manual.is_terminated());
}

/// Checks that an accepted tail task runs even if the loop never takes a turn.
pub fn l09_an_accepted_tail_task_runs_when_the_loop_is_dropped(drivers: &dyn OpenDriver) {
    let bench = Bench::new(drivers);
    let log = RunLog::default();
    let _tail = after_turn(&bench.event_loop(), log.note("tail"));
    bench.event_loop().execute(log.note("task")).unwrap();
    drop(bench);
    assert_eq!(log.taken(), ["task", "tail"]);
}
