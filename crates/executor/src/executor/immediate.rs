//! An executor that runs tasks at once, on the calling thread (E19).

use crate::engine::current::ExecutorId;
use crate::engine::trampoline::Trampoline;
use crate::promise::{AnyPromise, Promise, PromiseFuture, promise};
use crate::raw::origin::Origin;
use crate::report::UserCode;
use crate::report::guard::guard;

/// Runs tasks on the thread that submits them, before `execute` returns.
///
/// A task that submits another does not run it inside itself: the inner one runs when the outer one
/// has returned, in order, so however deep tasks submit tasks the stack does not grow. Listeners of
/// its promises run on the thread that completes them.
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

    /// Runs a task and returns a future for its value; a panic becomes an error.
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

    /// A promise whose listeners run on whichever thread completes it.
    #[track_caller]
    pub fn new_promise<T: Send + 'static>(&self) -> (Promise<T>, PromiseFuture<T>) {
        promise(ExecutorId::IMMEDIATE)
    }
}

/// Calls listeners on this thread: now, or after the task that completed their promise.
pub(crate) fn notify(notify: AnyPromise) {
    Trampoline::run(&TASKS, Box::new(move || notify.notify()));
}

/// Whether a task is running in place on this thread: what it submits waits for it to return.
pub(crate) fn is_running_here() -> bool {
    TASKS.try_with(Trampoline::is_running).unwrap_or(false)
}

fn run(origin: Origin, task: impl FnOnce() + 'static) {
    let guarded = move || {
        guard(UserCode::Task, origin, task);
    };
    Trampoline::run(&TASKS, Box::new(guarded));
}
