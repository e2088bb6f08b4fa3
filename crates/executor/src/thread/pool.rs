//! A fixed number of threads that pooled executors share (E05, L12).

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::engine::current;
use crate::error::{WouldDeadlock, take_panic_message};
use crate::report::Fault;
use crate::report::guard::report_to;
use crate::report::log_reporter::LogReporter;
use crate::thread::{LoopBody, RunOrDiscard, ThreadFactory, ThreadSupplier};

/// A fixed number of threads that run the turns of [pooled] executors, in the order in which they are
/// submitted.
///
/// Any number of executors may share a pool: an executor that has nothing to do holds no thread. An executor
/// built to keep its thread, by [`build`] or as an event loop, is refused with an error that says so: use a
/// [`ThreadFactory`] for those.
///
/// # Shutdown
/// The threads live as long as the pool, and every executor built with it keeps it alive. When the last of
/// these is dropped, or after [`shutdown`](Self::shutdown), queued turns still run, then the threads exit.
/// Neither blocks; [`join`](Self::join) waits for the threads. Shut the executors down first: an executor that
/// submits a turn to a pool that is shut down ends as if its loop had died, and its termination future fails.
///
/// # Panics
/// Panics of tasks never reach the pool. If a turn itself panics, the panic is reported to the [`LogReporter`], and
/// the thread continues.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use waterwheel_executor::{EventExecutor, ThreadFactory, ThreadPool};
///
/// let pool = Arc::new(ThreadPool::new(ThreadFactory::new("workers"), 2)?);
/// let sessions: Vec<_> = (0..100)
///     .map(|_| EventExecutor::builder().thread_supplier(pool.clone()).build_pooled())
///     .collect::<Result<_, _>>()?;
/// let answers: Vec<_> = sessions.iter().map(|own| own.submit(|| 6 * 7)).collect::<Result<_, _>>()?;
/// for answer in answers {
///     assert_eq!(answer.join()?, 42);
/// }
/// for session in &sessions {
///     session.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?.wait()?;
/// }
/// pool.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [pooled]: crate::EventExecutorBuilder::build_pooled
/// [`build`]: crate::EventExecutorBuilder::build
pub struct ThreadPool {
    shared: Arc<PoolShared>,
    size: usize,
    /// Empty after a join.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl ThreadPool {
    /// Starts `threads` threads, with the names, stack sizes and cores of the factory.
    ///
    /// # Errors
    /// An error for zero threads, or if a thread cannot be started; the threads started before have then exited.
    pub fn new(factory: ThreadFactory, threads: usize) -> io::Result<Self> {
        if threads == 0 {
            let message = "a thread pool needs at least one thread";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let shared = Arc::new(PoolShared::default());
        let pool = Self { shared, size: threads, threads: Mutex::default() };
        for _ in 0..threads {
            let worker = Box::new(PoolWorker(pool.shared.clone()));
            match factory.start(LoopBody::new(worker, "thread pool")) {
                Ok(handle) => lock(&pool.threads).extend(handle),
                Err(error) => {
                    pool.shutdown();
                    pool.wait_for_threads();
                    return Err(error);
                }
            }
        }
        Ok(pool)
    }

    /// Returns how many threads the pool was built with.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.size
    }

    /// Refuses turns from now on. Queued turns still run, then the threads exit. Does not block.
    pub fn shutdown(&self) {
        lock(&self.shared.queue).is_closed = true;
        self.shared.changed.notify_all();
    }

    /// Shuts the pool down, and waits until all threads have exited.
    ///
    /// # Errors
    /// [`WouldDeadlock`] on one of its own threads, and on the thread of a loop that must not block. The pool
    /// is not shut down then.
    pub fn join(&self) -> Result<(), WouldDeadlock> {
        if let Some(here) = current::get().filter(|here| here.never_block || self.is_own_thread()) {
            return Err(WouldDeadlock { executor: here.name.to_string() });
        }
        self.shutdown();
        self.wait_for_threads();
        Ok(())
    }

    fn is_own_thread(&self) -> bool {
        let here = std::thread::current().id();
        lock(&self.shared.queue).workers.contains(&here)
    }

    /// Waits until all threads have exited. The lock is held meanwhile, so that a second caller waits too.
    fn wait_for_threads(&self) {
        for thread in lock(&self.threads).drain(..) {
            let _ = thread.join(); // A worker catches its panics.
        }
    }
}

impl ThreadSupplier for ThreadPool {
    fn start(&self, body: LoopBody) -> io::Result<Option<JoinHandle<()>>> {
        if !body.is_turn() {
            let message = format!(
                "executor `{}` needs a thread of its own, and a thread pool lends one for a turn: build it with \
                 `build_pooled`, or give it a `ThreadFactory`",
                body.executor()
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        let mut queue = lock(&self.shared.queue);
        if queue.is_closed {
            drop(queue); // Dropping the refused turn ends its executor, which runs user code.
            return Err(io::Error::other("the thread pool is shut down"));
        }
        queue.waiting.push_back(body);
        drop(queue);
        self.shared.changed.notify_one();
        Ok(None)
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shutdown();
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPool").field("threads", &self.size).finish_non_exhaustive()
    }
}

/// The turns that wait for a thread. Threads that wake an executor add turns, the pool's threads take them; no
/// user code runs under the lock.
#[derive(Default)]
struct PoolShared {
    queue: Mutex<TurnQueue>,
    changed: Condvar,
}

#[derive(Default)]
struct TurnQueue {
    waiting: VecDeque<LoopBody>,
    is_closed: bool,
    workers: Vec<std::thread::ThreadId>,
}

impl PoolShared {
    /// Waits for the next turn and returns it; `None` after the shutdown, once the queue is empty.
    fn next(&self) -> Option<LoopBody> {
        let idle = |queue: &mut TurnQueue| queue.waiting.is_empty() && !queue.is_closed;
        let queue = self.changed.wait_while(lock(&self.queue), idle);
        queue.unwrap_or_else(PoisonError::into_inner).waiting.pop_front()
    }
}

/// The body of one thread of a pool.
struct PoolWorker(Arc<PoolShared>);

impl RunOrDiscard for PoolWorker {
    fn run(self: Box<Self>) {
        lock(&self.0.queue).workers.push(std::thread::current().id());
        while let Some(turn) = self.0.next() {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| turn.run())) {
                let what = format!(
                    "a turn panicked, and its thread goes on: {}",
                    take_panic_message(payload)
                );
                report_to(&LogReporter, "thread pool", Fault::Degraded(what));
            }
        }
    }

    fn discard(self: Box<Self>) {}

    fn is_turn(&self) -> bool {
        false
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
