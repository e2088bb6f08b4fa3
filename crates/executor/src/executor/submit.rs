//! The part of an executor's handle that accepts tasks (E07, E09).

use crate::engine::command::Command;
use crate::executor::EventExecutor;
use crate::lifecycle::ExecutorState;
use crate::promise::{PromiseFuture, promise_for_work};
use crate::queue::rejection::Rejected;
use crate::raw::origin::Origin;
use crate::raw::task::Task;
use crate::report::UserCode;
use crate::wake::wake_word::Urgency;

impl<X: Send + 'static> EventExecutor<X> {
    /// Queues a task; never runs it in place. The first submission starts the thread.
    ///
    /// # Errors
    /// [`Rejected`] with the closure, if the executor is shut down, its queue is full, or its thread cannot be
    /// started.
    #[track_caller]
    pub fn execute<F: FnOnce() + Send + 'static>(&self, task: F) -> Result<(), Rejected<F>> {
        self.execute_from(Origin::here(), Urgency::Now, task)
    }

    /// Queues a task without waking the loop: the task runs when the loop is next awake.
    ///
    /// # Errors
    /// The errors of [`execute`](Self::execute).
    #[track_caller]
    pub fn lazy_execute<F: FnOnce() + Send + 'static>(&self, task: F) -> Result<(), Rejected<F>> {
        self.execute_from(Origin::here(), Urgency::Lazy, task)
    }

    /// Queues a task and returns a future for its value. A panic becomes an error. Cancelling the future before
    /// the task has started keeps the task from running.
    ///
    /// # Errors
    /// The errors of [`execute`](Self::execute).
    #[track_caller]
    pub fn submit<T, F>(&self, task: F) -> Result<PromiseFuture<T>, Rejected<F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.submit_from(Origin::here(), task)
    }

    pub(crate) fn execute_from<F: FnOnce() + Send + 'static>(
        &self,
        origin: Origin,
        mut urgency: Urgency,
        task: F,
    ) -> Result<(), Rejected<F>> {
        if self.state() == ExecutorState::NotStarted {
            urgency = Urgency::Now; // The thread started by this submission may sleep before the task is queued.
        }
        match self.shared().admit() {
            Ok(permit) => {
                let run = Task::new(origin, || {
                    task();
                    true
                });
                self.shared().push(permit, Command::Run(run), urgency);
                Ok(())
            }
            Err(reason) => Err(Rejected::new(task, reason)),
        }
    }

    /// Reserves a place in the queue, then queues the task that `make` returns for `value`: for layers above, whose
    /// rejections return the user's value. A panic of `make` unwinds to the caller and leaves nothing
    /// queued; a shutdown waits until `make` returns.
    ///
    /// # Errors
    /// [`Rejected`] with the value, as for [`execute`](Self::execute).
    pub fn execute_with<V, F: FnOnce() + Send + 'static>(
        &self,
        origin: Origin,
        value: V,
        make: impl FnOnce(V) -> F,
    ) -> Result<(), Rejected<V>> {
        match self.shared().admit() {
            Ok(permit) => {
                let task = make(value);
                let run = Task::new(origin, || {
                    task();
                    true
                });
                self.shared().push(permit, Command::Run(run), Urgency::Now);
                Ok(())
            }
            Err(reason) => Err(Rejected::new(value, reason)),
        }
    }

    #[track_caller]
    pub(crate) fn submit_from<T, F>(
        &self,
        origin: Origin,
        task: F,
    ) -> Result<PromiseFuture<T>, Rejected<F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        match self.shared().admit() {
            Ok(permit) => {
                let (promise, future) = promise_for_work(self.id(), origin);
                let run = Task::new(origin, move || promise.run(UserCode::Task, origin, task));
                self.shared().push(permit, Command::Run(run), Urgency::Now);
                Ok(future)
            }
            Err(reason) => Err(Rejected::new(task, reason)),
        }
    }
}
