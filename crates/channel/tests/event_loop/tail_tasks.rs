//! Tail tasks, turn by turn. The testkit's loop suite has more, over every driver.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use waterwheel_channel::driver::TaskOnly;
use waterwheel_channel::{EventLoopGroup, ManualEventLoop};

const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

/// Names of the tasks in the order in which they ran.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<&'static str>>>);

impl Log {
    fn add(&self, what: &'static str) -> impl FnOnce() + Send + 'static {
        let log = self.0.clone();
        move || log.lock().unwrap().push(what)
    }

    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn manual_loop() -> (ManualEventLoop, Log) {
    (EventLoopGroup::builder(TaskOnly).build_manual().unwrap(), Log::default())
}

#[test]
fn l09_a_tail_task_runs_after_the_tasks_of_its_turn() {
    let (mut manual, log) = manual_loop();
    let event_loop = manual.event_loop();
    let _first = event_loop.execute_after_turn(log.add("tail 1")).unwrap();
    event_loop.execute(log.add("task 1")).unwrap();
    let _second = event_loop.execute_after_turn(log.add("tail 2")).unwrap();
    event_loop.execute(log.add("task 2")).unwrap();
    manual.turn(AT_ONCE);
    assert_eq!(log.take(), ["task 1", "task 2", "tail 1", "tail 2"]);
    manual.turn(AT_ONCE);
    assert!(log.take().is_empty(), "once");
}

#[test]
fn l09_a_tail_task_that_was_removed_does_not_run() {
    let (mut manual, log) = manual_loop();
    let event_loop = manual.event_loop();
    let removed = event_loop.execute_after_turn(log.add("removed")).unwrap();
    let stays = event_loop.execute_after_turn(log.add("stays")).unwrap();
    assert!(removed.remove(), "it had not run");
    assert!(!removed.remove(), "once");
    manual.turn(AT_ONCE);
    assert_eq!(log.take(), ["stays"]);
    assert!(!stays.remove(), "it has run");
}
