//! The global executor: the executor of last resort, one per process (E19).
//!
//! One thread for the whole process, started when there is something to do, ended after a second without work.
//! Each incarnation is an ordinary executor that ends itself when idle. The next submission makes a successor,
//! whose thread first waits until its predecessor has terminated, so order is kept across incarnations and only
//! one runs at a time. Promises are bound to [`ExecutorId::GLOBAL`], which stands for all incarnations.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::engine::command::SystemCommand;
use crate::engine::current::{self, ExecutorId};
use crate::executor::EventExecutor;
use crate::promise::{AnyPromise, Promise, PromiseFuture, SharedFuture, promise};
use crate::queue::rejection::{RejectReason, Rejected};
use crate::raw::origin::Origin;
use crate::report::Fault;
use crate::report::guard::report_to;
use crate::report::log_reporter::LogReporter;
use crate::thread::{LoopBody, ThreadSupplier};
use crate::timer::MissedTicks;
use crate::timer::periodic::Repeat;
use crate::wake::wake_word::Urgency;

/// How long the thread stays without work.
const IDLE_LIMIT: Duration = Duration::from_secs(1);

static GLOBAL: GlobalExecutor = GlobalExecutor { incarnation: Mutex::new(None) };

/// The executor of last resort, shared by the whole process. It cannot be shut down.
///
/// Runs the listeners of promises whose executor has terminated, and those of termination futures. It is not
/// meant for long-running work.
///
/// ```
/// use waterwheel_executor::GlobalExecutor;
///
/// let name = GlobalExecutor::get().submit(|| std::thread::current().name().map(str::to_owned));
/// assert_eq!(name?.join()?.as_deref(), Some("waterwheel-global"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct GlobalExecutor {
    incarnation: Mutex<Option<EventExecutor>>,
}

impl GlobalExecutor {
    /// Returns the global executor.
    #[must_use]
    pub fn get() -> &'static GlobalExecutor {
        &GLOBAL
    }

    /// True if the calling thread is the global executor's.
    #[must_use]
    pub fn in_event_loop(&self) -> bool {
        current::is_global()
    }

    /// Queues a task: see [`EventExecutor::execute`].
    ///
    /// # Errors
    /// [`Rejected`] with the closure, if its thread cannot be started.
    #[track_caller]
    pub fn execute<F: FnOnce() + Send + 'static>(&self, task: F) -> Result<(), Rejected<F>> {
        let origin = Origin::here();
        self.submit_to_current(task, |executor, task| {
            executor.execute_from(origin, Urgency::Now, task)
        })
    }

    /// Queues a task and returns a future for its value: see [`EventExecutor::submit`].
    ///
    /// # Errors
    /// [`Rejected`] with the closure, if its thread cannot be started.
    #[track_caller]
    pub fn submit<T, F>(&self, task: F) -> Result<PromiseFuture<T>, Rejected<F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let origin = Origin::here();
        self.submit_to_current(task, |executor, task| executor.submit_from(origin, task))
    }

    /// Runs a task after a delay: see [`EventExecutor::schedule`].
    ///
    /// # Errors
    /// [`Rejected`] with the closure, if its thread cannot be started.
    #[track_caller]
    pub fn schedule<T, F>(&self, delay: Duration, task: F) -> Result<PromiseFuture<T>, Rejected<F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let origin = Origin::here();
        self.submit_to_current(task, |executor, task| executor.schedule_from(origin, delay, task))
    }

    /// Runs a task every `period`: see [`EventExecutor::schedule_at_fixed_rate`].
    ///
    /// # Errors
    /// [`Rejected`] with the closure, for a period of zero, or if its thread cannot be started.
    #[track_caller]
    pub fn schedule_at_fixed_rate<F: FnMut() + Send + 'static>(
        &self,
        initial_delay: Duration,
        period: Duration,
        task: F,
    ) -> Result<PromiseFuture<()>, Rejected<F>> {
        let repeat = Repeat::Rate { period, missed: MissedTicks::CatchUp };
        self.schedule_repeatedly(Origin::here(), initial_delay, repeat, task)
    }

    /// Runs a task again and again with a pause in between: see [`EventExecutor::schedule_with_fixed_delay`].
    ///
    /// # Errors
    /// [`Rejected`] with the closure, for a pause of zero, or if its thread cannot be started.
    #[track_caller]
    pub fn schedule_with_fixed_delay<F: FnMut() + Send + 'static>(
        &self,
        initial_delay: Duration,
        pause: Duration,
        task: F,
    ) -> Result<PromiseFuture<()>, Rejected<F>> {
        self.schedule_repeatedly(Origin::here(), initial_delay, Repeat::Delay { pause }, task)
    }

    #[track_caller]
    fn schedule_repeatedly<F: FnMut() + Send + 'static>(
        &self,
        origin: Origin,
        initial_delay: Duration,
        repeat: Repeat,
        task: F,
    ) -> Result<PromiseFuture<()>, Rejected<F>> {
        self.submit_to_current(task, |executor, task| {
            executor.schedule_repeatedly(origin, initial_delay, repeat, task)
        })
    }

    /// Creates a promise whose listeners run on the global executor.
    #[track_caller]
    pub fn new_promise<T: Send + 'static>(&self) -> (Promise<T>, PromiseFuture<T>) {
        promise(ExecutorId::GLOBAL)
    }

    /// True while the thread of the global executor is running.
    #[must_use]
    pub fn is_running(&self) -> bool {
        let executor = self.lock().clone();
        executor.is_some_and(|executor| {
            executor.thread_properties().is_some_and(|thread| thread.is_alive)
        })
    }

    /// Submits to the current incarnation, or to its successor if the current one has just ended.
    fn submit_to_current<F, R>(
        &self,
        mut task: F,
        submit: impl Fn(&EventExecutor, F) -> Result<R, Rejected<F>>,
    ) -> Result<R, Rejected<F>> {
        loop {
            let executor = self.current_incarnation();
            match submit(&executor, task) {
                Err(ended) if matches!(ended.reason(), RejectReason::ShutDown) => {
                    task = ended.into_task();
                }
                outcome => return outcome,
            }
        }
    }

    fn current_incarnation(&self) -> EventExecutor {
        let mut incarnation = self.lock();
        match incarnation.as_ref() {
            Some(executor)
                if !executor.is_shutting_down() && !executor.shared().inbox.is_closed() =>
            {
                executor.clone()
            }
            ended => {
                let predecessor = ended.map(EventExecutor::termination);
                let successor = build(predecessor);
                let before = incarnation.replace(successor.clone());
                drop(incarnation);
                drop(before); // Outside of the lock: dropping the last handle shuts an executor down.
                successor
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<EventExecutor>> {
        self.incarnation.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls listeners on the global executor.
pub(crate) fn notify(notify: AnyPromise) {
    let queued = GLOBAL.submit_to_current(notify, |executor, notify| {
        executor.shared().push_system(SystemCommand::Notify(notify)).map_err(|(command, reason)| {
            match command {
                SystemCommand::Notify(notify) => Rejected::new(notify, reason),
                _ => unreachable!("a rejected command is handed back"),
            }
        })
    });
    if let Err(no_thread) = queued {
        // No thread can be started: listeners run on the wrong thread rather than never.
        let what = format!(
            "the global executor could not be started; listeners run on the thread that completed \
             their promise: {no_thread}"
        );
        report_to(&LogReporter, "global", Fault::Degraded(what));
        no_thread.into_task().notify();
    }
}

fn build(predecessor: Option<SharedFuture<()>>) -> EventExecutor {
    let built = EventExecutor::builder()
        .name("global")
        .global()
        .idle_limit(IDLE_LIMIT)
        .thread_supplier(Arc::new(AfterPredecessor(predecessor)))
        .build();
    match built {
        Ok(executor) => executor,
        Err(invalid) => unreachable!("the global executor has no invalid property: {invalid}"),
    }
}

/// Runs a loop on a new thread, once the previous incarnation has terminated.
struct AfterPredecessor(Option<SharedFuture<()>>);

impl ThreadSupplier for AfterPredecessor {
    fn start(&self, body: LoopBody) -> io::Result<Option<JoinHandle<()>>> {
        let predecessor = self.0.clone();
        let thread = std::thread::Builder::new().name("waterwheel-global".to_owned());
        let handle = thread.spawn(move || {
            if let Some(predecessor) = predecessor {
                let _ = predecessor.wait();
            }
            body.run();
        })?;
        Ok(Some(handle))
    }
}
