//! E06: `EventExecutor::current`, the executor whose loop runs on this thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};

use waterwheel_executor::engine::{LoopCore, LoopWork, PassLimit, TurnOutcome};
use waterwheel_executor::{
    Clock, EventExecutor, ExecutorId, LoopLocal, ManualExecutor, NoExtension, TokenPark,
};

use crate::support::{
    Log, ScriptedSupplier, SupplierAnswer, panic_quietly, shut_down, with_timeout,
};

fn current() -> Option<ExecutorId> {
    EventExecutor::current().map(|executor| executor.id())
}

#[test]
fn e06_current_returns_the_executor_of_this_thread() {
    let one = EventExecutor::builder().build().unwrap();
    let other = EventExecutor::builder().build().unwrap();
    assert_eq!(current(), None);
    assert_eq!(one.submit(current).unwrap().join().unwrap(), Some(one.id()));
    assert_eq!(other.submit(current).unwrap().join().unwrap(), Some(other.id()));
    assert_ne!(one.id(), other.id());
}

#[test]
fn e06_the_current_executor_is_a_full_handle() {
    let executor = EventExecutor::builder().build().unwrap();
    let (done, is_done) = mpsc::channel();
    let task = move || {
        let again = EventExecutor::current().unwrap();
        assert!(again.in_event_loop());
        again.execute(move || done.send(()).unwrap()).unwrap();
    };
    executor.execute(task).unwrap();
    is_done.recv_timeout(crate::support::TIMEOUT).unwrap();
}

/// The log of the parts of the loop's code that ran, each with the current executor there.
type CurrentLog = Log<(&'static str, Option<ExecutorId>)>;

/// A loop that logs the current executor wherever its own code runs.
struct CurrentLoggingLoop {
    park: TokenPark,
    log: CurrentLog,
    dies: bool,
}

impl LoopWork<NoExtension> for CurrentLoggingLoop {
    fn turn(&mut self, core: &mut LoopCore<NoExtension>) -> TurnOutcome {
        core.wait(&mut self.park);
        self.log.add(("turn", current()));
        if self.dies {
            panic_quietly("out of water");
        }
        core.run_tasks(PassLimit::Queued, &mut |none| match none {});
        core.check_shutdown()
    }

    fn on_command(&mut self, none: NoExtension) {
        match none {}
    }
}

impl Drop for CurrentLoggingLoop {
    fn drop(&mut self) {
        self.log.add(("driver closed", current()));
    }
}

struct LogsOnDrop(CurrentLog);

impl Drop for LogsOnDrop {
    fn drop(&mut self) {
        self.0.add(("loop-local dropped", current()));
    }
}

/// Returns an executor that logs the current executor in every part of its loop; the supplier keeps the loop body.
fn logging_executor(dies: bool) -> (EventExecutor, Arc<ScriptedSupplier>, CurrentLog) {
    let (log, supplier) = (Log::new(), ScriptedSupplier::new([SupplierAnswer::Keep]));
    let park = TokenPark::new(Clock::Monotonic);
    let (unpark, made) = (park.unparker(), log.clone());
    let seed = Box::new(move || {
        made.add(("made", current()));
        let log = made;
        Box::new(CurrentLoggingLoop { park, log, dies }) as Box<dyn LoopWork<NoExtension>>
    });
    let builder = EventExecutor::builder().thread_supplier(supplier.clone());
    let executor = builder.build_loop(unpark, seed).unwrap();
    (executor, supplier, log)
}

#[test]
fn e06_current_is_set_for_the_whole_loop_body() {
    static LOCAL: LoopLocal<std::cell::RefCell<Option<LogsOnDrop>>> =
        LoopLocal::new(Default::default);
    let (executor, supplier, log) = logging_executor(false);
    let (local, hook) = (log.clone(), log.clone());
    let keep = move || LOCAL.with(|slot| *slot.borrow_mut() = Some(LogsOnDrop(local)));
    let keep = executor.submit(keep).unwrap();
    let on_hook = move || hook.add(("hook", current()));
    executor.add_shutdown_hook(on_hook).unwrap();
    let thread = std::thread::spawn({
        let body = supplier.take_kept();
        move || body.run()
    });
    keep.join().unwrap();
    shut_down(&executor);
    thread.join().unwrap();
    let log = log.take();
    let here = Some(executor.id());
    assert!(log.iter().all(|(_, current)| *current == here), "{log:?}");
    for step in ["made", "turn", "hook", "driver closed", "loop-local dropped"] {
        assert!(log.iter().any(|(what, _)| *what == step), "{step}");
    }
}

#[test]
fn e06_current_is_restored_when_a_loop_ends_on_a_borrowed_thread() {
    for dies in [false, true] {
        let (before, inside, after) = with_timeout(move || {
            let (executor, supplier, log) = logging_executor(dies);
            executor.execute(|| ()).unwrap();
            drop(executor.shutdown_gracefully(Default::default(), crate::support::TIMEOUT));
            let body = supplier.take_kept();
            let mut host = ManualExecutor::new();
            let host_id = host.executor().id();
            let run = async {
                let before = current();
                body.run();
                (before, current())
            };
            let (before, after) = host.block_on(run).unwrap();
            assert_eq!(before, Some(host_id));
            let inside = log.take().iter().all(|entry| entry.1 == Some(executor.id()));
            assert_eq!(current(), None, "the host has left too");
            (before, inside, after)
        });
        assert!(inside, "dies: {dies}");
        assert_eq!(before, after, "dies: {dies}");
    }
}

#[test]
fn e06_current_is_restored_when_a_panic_unwinds() {
    let mut outer = ManualExecutor::new();
    let mut inner = ManualExecutor::new();
    let (outer_id, inner_id) = (outer.executor().id(), inner.executor().id());
    let seen = Log::new();
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        outer.block_on(async {
            seen.add(current());
            let task = seen.clone();
            inner.executor().execute(move || task.add(current())).unwrap();
            inner.run_now();
            seen.add(current());
            panic_quietly("the future is broken")
        })
    }));
    assert!(unwound.is_err());
    assert_eq!(seen.take(), [outer_id, inner_id, outer_id].map(Some));
    assert_eq!(current(), None);
    // The executor still works.
    let value = outer.executor().submit(|| 7).unwrap();
    assert_eq!(outer.block_on(value).unwrap().unwrap(), 7);
}

#[test]
fn e06_an_executor_of_another_kind_is_not_mistaken_for_this_one() {
    enum Command {}
    let executor = EventExecutor::builder().build().unwrap();
    let other_kind = executor.submit(|| EventExecutor::<Command>::current_of_kind().is_none());
    assert!(other_kind.unwrap().join().unwrap());
}
