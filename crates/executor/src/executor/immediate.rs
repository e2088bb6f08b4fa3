//! An executor that runs tasks at once, on the submitting thread (E19).

use crate::engine::current::ExecutorId;
use crate::engine::trampoline::Trampoline;
use crate::promise::{AnyPromise, Promise, PromiseFuture, promise};
use crate::raw::origin::Origin;
use crate::report::UserCode;
use crate::report::guard::guard;

/// Runs tasks on the thread that submits them, before `execute` returns.
///
/// A task that submits another does not run it inside of itself: the inner task runs when the outer one has
/// returned, in order. So the stack does not grow, however deep tasks submit tasks. Listeners of its promises
/// run on the thread that completes them.
///
/// ```
/// use waterwheel_executor::ImmediateExecutor;
///
/// assert_eq!(ImmediateExecutor.submit(|| 42).join()?, 42);
/// # Ok::<(), waterwheel_executor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ImmediateExecutor;

thread_local! {
    static TASKS: Trampoline = const { Trampoline::new() };
}

impl ImmediateExecutor {
    /// Runs a task: now, or after the task that submits it. A panic is reported.
    #[track_caller]
    pub fn execute(&self, task: impl FnOnce() + 'static) {
        run(Origin::here(), task);
    }

    /// Runs a task and returns a future for its value. A panic becomes an error.
    #[track_caller]
    pub fn submit<T: Send + 'static>(
        &self,
        task: impl FnOnce() -> T + 'static,
    ) -> PromiseFuture<T> {
        let origin = Origin::here();
        let (promise, future) = self.new_promise();
        run(origin, move || {
            promise.run(UserCode::Task, origin, task);
        });
        future
    }

    /// Creates a promise whose listeners run on the thread that completes it.
    #[track_caller]
    pub fn new_promise<T: Send + 'static>(&self) -> (Promise<T>, PromiseFuture<T>) {
        promise(ExecutorId::IMMEDIATE)
    }
}

/// Calls listeners on this thread: now, or after the task that completed their promise.
pub(crate) fn notify(notify: AnyPromise) {
    Trampoline::run(&TASKS, Box::new(move || notify.notify()));
}

/// True while a task runs in place on this thread: further submissions wait until that task returns.
pub(crate) fn is_running_here() -> bool {
    TASKS.try_with(Trampoline::is_running).unwrap_or(false)
}

fn run(origin: Origin, task: impl FnOnce() + 'static) {
    let guarded = move || {
        guard(UserCode::Task, origin, task);
    };
    Trampoline::run(&TASKS, Box::new(guarded));
}
