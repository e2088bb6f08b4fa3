//! E11: how much one pass over the task queue does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use waterwheel_executor::engine::{CommandAccess, LoopCore, LoopWork, PassLimit, TurnOutcome};
use waterwheel_executor::{Clock, EventExecutor, TokenPark};

use crate::support::{Log, TIMEOUT, shut_down};

const HOUR: Duration = Duration::from_secs(3600);

/// The command type of these tests: a string to be logged.
type Mark = &'static str;

/// A loop that sends how many tasks each pass ran.
struct PassCountingLoop {
    park: TokenPark,
    pass: PassLimit,
    ran: Sender<usize>,
    marks: Log<Mark>,
}

impl LoopWork<Mark> for PassCountingLoop {
    fn turn(&mut self, core: &mut LoopCore<Mark>) -> TurnOutcome {
        core.wait(&mut self.park);
        let marks = &self.marks;
        let ran = core.run_tasks(self.pass, &mut |mark| marks.add(mark));
        if ran > 0 {
            let _ = self.ran.send(ran);
        }
        core.check_shutdown()
    }

    fn on_command(&mut self, mark: Mark) {
        self.marks.add(mark);
    }
}

/// A started loop that waits for `go` before its first turn, so that the test decides what
/// is queued by then.
struct PausedLoop {
    executor: EventExecutor<Mark>,
    go: Sender<()>,
    ran: Receiver<usize>,
    marks: Log<Mark>,
}

impl PausedLoop {
    fn new(pass: PassLimit) -> Self {
        let park = TokenPark::new(Clock::Monotonic);
        let (unpark, marks) = (park.unparker(), Log::new());
        let (go, started) = mpsc::channel();
        let (ran_in, ran) = mpsc::channel();
        let inner_marks = marks.clone();
        let seed = Box::new(move || {
            let _: Result<(), _> = started.recv();
            Box::new(PassCountingLoop { park, pass, ran: ran_in, marks: inner_marks })
                as Box<dyn LoopWork<Mark>>
        });
        let executor = EventExecutor::builder().build_loop(unpark, seed).unwrap();
        Self { executor, go, ran, marks }
    }

    fn queue(&self, count: usize) {
        (0..count).for_each(|_| self.executor.execute(|| ()).unwrap());
    }

    fn go(&self) {
        self.go.send(()).unwrap();
    }

    fn passes(&self, count: usize) -> Vec<usize> {
        let next = || self.ran.recv_timeout(TIMEOUT).unwrap();
        (0..count).map(|_| next()).collect()
    }
}

#[test]
fn e11_an_unbounded_pass_runs_the_tasks_queued_at_its_start() {
    let paused = PausedLoop::new(PassLimit::Queued);
    let inner = paused.executor.clone();
    let queues_more = move || (0..5).for_each(|_| inner.execute(|| ()).unwrap());
    paused.executor.execute(queues_more).unwrap();
    paused.queue(199);
    paused.go();
    assert_eq!(paused.passes(2), [200, 5]);
}

#[test]
fn e11_an_unbounded_pass_ends_under_a_task_that_submits_itself_again() {
    let paused = PausedLoop::new(PassLimit::Queued);
    resubmit(&paused.executor, &Arc::new(AtomicBool::new(false)));
    paused.go();
    assert_eq!(paused.passes(5), [1; 5]);
    shut_down(&paused.executor);
}

#[test]
fn e11_a_budget_of_zero_is_at_most_64_tasks() {
    let paused = PausedLoop::new(PassLimit::Within(Duration::ZERO));
    paused.queue(200);
    paused.go();
    assert_eq!(paused.passes(4), [64, 64, 64, 8]);
}

#[test]
fn e11_a_bounded_pass_reads_the_clock_every_64_tasks() {
    const BUDGET: Duration = Duration::from_millis(2);
    let paused = PausedLoop::new(PassLimit::Within(BUDGET));
    // The first task alone uses up the budget; the clock is not read before the 64th has run.
    paused.executor.execute(|| spin(BUDGET)).unwrap();
    paused.queue(99);
    paused.go();
    assert_eq!(paused.passes(1), [64]);
}

#[test]
fn e11_a_bounded_pass_runs_tasks_queued_meanwhile() {
    let paused = PausedLoop::new(PassLimit::Within(HOUR));
    let inner = paused.executor.clone();
    let queues_more = move || (0..100).for_each(|_| inner.execute(|| ()).unwrap());
    paused.executor.execute(queues_more).unwrap();
    paused.go();
    assert_eq!(paused.passes(1), [101]);
}

#[test]
fn e11_a_bounded_pass_ends_under_a_task_that_submits_itself_again() {
    for budget in [Duration::ZERO, Duration::from_millis(1)] {
        let paused = PausedLoop::new(PassLimit::Within(budget));
        let enough = Arc::new(AtomicBool::new(false));
        resubmit(&paused.executor, &enough);
        paused.go();
        for ran in paused.passes(3) {
            assert!(ran > 0 && ran % 64 == 0, "{budget:?}: {ran}");
        }
        enough.store(true, Ordering::SeqCst);
        shut_down(&paused.executor);
    }
}

#[test]
fn e11_commands_of_the_layer_above_keep_their_place_in_the_queue() {
    let paused = PausedLoop::new(PassLimit::Queued);
    let (first, second) = (paused.marks.clone(), paused.marks.clone());
    paused.executor.execute(move || first.add("task 1")).unwrap();
    paused.executor.send("command 1").unwrap();
    paused.executor.execute(move || second.add("task 2")).unwrap();
    paused.executor.send("command 2").unwrap();
    paused.go();
    assert_eq!(paused.passes(1), [2], "commands are not tasks");
    shut_down(&paused.executor);
    let order = ["task 1", "command 1", "task 2", "command 2"];
    assert_eq!(paused.marks.take(), order);
    let refused = paused.executor.send("command 3").unwrap_err();
    assert_eq!(refused.into_task(), "command 3", "handed back");
}

/// Submits a task that submits itself again until `enough` is set or the executor refuses.
fn resubmit(executor: &EventExecutor<Mark>, enough: &Arc<AtomicBool>) {
    let (inner, stop) = (executor.clone(), enough.clone());
    let task = move || {
        if !stop.load(Ordering::SeqCst) && !inner.is_shutting_down() {
            resubmit(&inner, &stop);
        }
    };
    let _ = executor.execute(task);
}

fn spin(time: Duration) {
    let begun = Clock::Monotonic.now();
    while Clock::Monotonic.now().since(begun) < time {
        std::hint::spin_loop();
    }
}
