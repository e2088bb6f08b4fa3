//! A fixed number of threads that pooled executors share (E05, L12).

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::engine::current;
use crate::error::{WouldDeadlock, absorb};
use crate::report::Fault;
use crate::report::guard::report_to;
use crate::report::log_reporter::LogReporter;
use crate::thread::{LoopBody, RunOrLetGo, ThreadFactory, ThreadSupplier};

/// A fixed number of threads that run the turns of [pooled] executors, in the order in which these ask.
///
/// Any number of executors may share a pool: one that has nothing to do holds no thread. An executor built
/// to keep its thread, by [`build`] or as an event loop, is refused with an error that says so: a
/// [`ThreadFactory`] is for those.
///
/// # End
/// The threads live as long as the pool, and every executor built with it keeps it. When the last of them
/// is gone, or after [`shutdown`](Self::shutdown), turns that wait still run, then the threads end. Neither
/// blocks; [`join`](Self::join) waits for them. Executors are to be shut down first: one that asks a pool
/// for a turn after its shutdown ends as if its loop had died, which its termination future says.
///
/// # Panics
/// Those of tasks never reach the pool. Should a turn itself panic, the [`LogReporter`] is told, and its
/// thread goes on.
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
    turns: Arc<Turns>,
    size: usize,
    /// Empty once joined.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl ThreadPool {
    /// Starts `threads` threads: named, with the stacks and on the cores that the factory says.
    ///
    /// # Errors
    /// For zero threads, or if one cannot be had: then those started before have ended.
    pub fn new(factory: ThreadFactory, threads: usize) -> io::Result<Self> {
        if threads == 0 {
            let message = "a thread pool needs at least one thread";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let turns = Arc::new(Turns::default());
        let pool = Self { turns, size: threads, threads: Mutex::default() };
        for _ in 0..threads {
            let worker = Box::new(Worker(pool.turns.clone()));
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

    /// How many threads it was built with.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.size
    }

    /// Refuses turns from now on; those that wait still run, then the threads end. Does not block.
    pub fn shutdown(&self) {
        lock(&self.turns.queue).is_closed = true;
        self.turns.changed.notify_all();
    }

    /// Shuts down, and waits until all threads are gone.
    ///
    /// # Errors
    /// [`WouldDeadlock`] on one of its own threads, and on the thread of a loop that must not block; it is
    /// not shut down then.
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
        lock(&self.turns.queue).workers.contains(&here)
    }

    /// Waits for all threads to end. The lock is held meanwhile, so that a second caller waits too.
    fn wait_for_threads(&self) {
        for thread in lock(&self.threads).drain(..) {
            let _ = thread.join(); // Its panics were caught.
        }
    }
}

impl ThreadSupplier for ThreadPool {
    fn start(&self, body: LoopBody) -> io::Result<Option<JoinHandle<()>>> {
        if !body.is_turn() {
            let message = format!(
                "executor `{}` keeps its thread, and a thread pool lends one for a turn: build it with \
                 `build_pooled`, or give it a `ThreadFactory`",
                body.executor()
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        let mut queue = lock(&self.turns.queue);
        if queue.is_closed {
            drop(queue); // The refused turn ends its executor, with code of the user's.
            return Err(io::Error::other("the thread pool is shut down"));
        }
        queue.waiting.push_back(body);
        drop(queue);
        self.turns.changed.notify_one();
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

/// The turns that wait for a thread. Whoever wakes an executor adds to them, the threads take; nothing of
/// the user's runs under the lock.
#[derive(Default)]
struct Turns {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<LoopBody>,
    is_closed: bool,
    workers: Vec<std::thread::ThreadId>,
}

impl Turns {
    /// The next turn, once there is one; `None` after the shutdown, when none is left.
    fn next(&self) -> Option<LoopBody> {
        let idle = |queue: &mut Queue| queue.waiting.is_empty() && !queue.is_closed;
        let queue = self.changed.wait_while(lock(&self.queue), idle);
        queue.unwrap_or_else(PoisonError::into_inner).waiting.pop_front()
    }
}

/// One thread of a pool.
struct Worker(Arc<Turns>);

impl RunOrLetGo for Worker {
    fn run(self: Box<Self>) {
        lock(&self.0.queue).workers.push(std::thread::current().id());
        while let Some(turn) = self.0.next() {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| turn.run())) {
                let what = format!("a turn panicked, and its thread goes on: {}", absorb(payload));
                report_to(&LogReporter, "thread pool", Fault::Degraded(what));
            }
        }
    }

    fn let_go(self: Box<Self>) {}

    fn is_turn(&self) -> bool {
        false
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
