//! The suppliers of threads for loops (E05), and the properties of a loop's thread (E20).

use std::fmt;
use std::io;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::{JoinHandle, ThreadId};
use std::time::SystemTime;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::clock::wall_clock;

/// Supplies the thread that a loop runs on: a new one ([`ThreadFactory`]), or one of a pool.
///
/// ```
/// use std::io;
/// use std::sync::Arc;
/// use std::thread::JoinHandle;
/// use waterwheel_executor::{EventExecutor, LoopBody, ThreadSupplier};
///
/// struct Plain;
/// impl ThreadSupplier for Plain {
///     fn start(&self, body: LoopBody) -> io::Result<Option<JoinHandle<()>>> {
///         std::thread::Builder::new().spawn(move || body.run()).map(Some)
///     }
/// }
///
/// let executor = EventExecutor::builder().thread_supplier(Arc::new(Plain)).build()?;
/// assert_eq!(executor.submit(|| 42)?.join()?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait ThreadSupplier: Send + Sync {
    /// Arranges for [`body.run()`](LoopBody::run) to be called on another thread, which the loop keeps until the
    /// executor has terminated. Returns the thread's handle for `join`, if there is one.
    ///
    /// # Errors
    /// An error if there is no thread. The executor stays unstarted, the submitter gets its task back, and the next
    /// submission asks again.
    fn start(&self, body: LoopBody) -> io::Result<Option<JoinHandle<()>>>;
}

/// A loop to run on a thread. Dropping the body unrun gives the loop back to its executor, or ends a pooled executor.
pub struct LoopBody {
    loop_: Option<Box<dyn RunOrDiscard>>,
    executor: String,
}

impl LoopBody {
    pub(crate) fn new(loop_: Box<dyn RunOrDiscard>, executor: &str) -> Self {
        Self { loop_: Some(loop_), executor: executor.to_owned() }
    }

    /// Returns the name of the executor whose loop this is.
    #[must_use]
    pub fn executor(&self) -> &str {
        &self.executor
    }

    /// True if [`run`](Self::run) runs only one turn and returns, as the body of a
    /// [pooled](crate::EventExecutorBuilder::build_pooled) executor does.
    #[must_use]
    pub fn is_turn(&self) -> bool {
        self.loop_.as_ref().is_some_and(|loop_| loop_.is_turn())
    }

    /// Runs the loop on the calling thread until the executor has terminated; for a pooled executor, runs one
    /// turn.
    pub fn run(mut self) {
        if let Some(loop_) = self.loop_.take() {
            loop_.run();
        }
    }
}

impl Drop for LoopBody {
    fn drop(&mut self) {
        if let Some(loop_) = self.loop_.take() {
            loop_.discard();
        }
    }
}

impl fmt::Debug for LoopBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LoopBody({})", self.executor)
    }
}

/// The code that a supplier's thread runs; discarded if the supplier drops it unrun.
pub(crate) trait RunOrDiscard: Send {
    fn run(self: Box<Self>);
    fn discard(self: Box<Self>);
    /// True if `run` returns after one turn.
    fn is_turn(&self) -> bool;
}

/// Makes a new thread for every loop: named, with an optional stack size and optional pinning to cores.
///
/// ```
/// use std::sync::Arc;
/// use waterwheel_executor::{EventExecutor, ThreadFactory};
///
/// let threads = ThreadFactory::new("gateway").stack_size(256 * 1024);
/// let executor = EventExecutor::builder().thread_supplier(Arc::new(threads)).build()?;
/// let name = executor.submit(|| std::thread::current().name().map(str::to_owned))?.join()?;
/// assert!(name.unwrap().starts_with("gateway-"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ThreadFactory {
    prefix: String,
    pool: usize,
    started: AtomicUsize,
    stack_size: Option<usize>,
    cores: Vec<usize>,
}

impl ThreadFactory {
    /// Creates a factory of threads named `prefix-pool-n`: `pool` is the number of the factory, `n` that of the
    /// thread.
    #[must_use]
    pub fn new(prefix: impl Into<String>) -> Self {
        static POOLS: AtomicUsize = AtomicUsize::new(1);
        Self {
            prefix: prefix.into(),
            pool: POOLS.fetch_add(1, Ordering::Relaxed),
            started: AtomicUsize::new(0),
            stack_size: None,
            cores: Vec::new(),
        }
    }

    /// Sets the size of each thread's stack in bytes.
    #[must_use]
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Pins each thread to one of these cores, one after the other.
    #[must_use]
    pub fn pin_to(mut self, cores: impl IntoIterator<Item = usize>) -> Self {
        self.cores = cores.into_iter().collect();
        self
    }

    fn spawn(&self, n: usize, body: LoopBody, core: Option<usize>) -> io::Result<JoinHandle<()>> {
        let mut builder =
            std::thread::Builder::new().name(format!("{}-{}-{n}", self.prefix, self.pool));
        if let Some(bytes) = self.stack_size {
            builder = builder.stack_size(bytes);
        }
        let Some(core) = core else {
            return builder.spawn(move || body.run());
        };
        let (pinned, outcome) = mpsc::sync_channel(1);
        let handle = builder.spawn(move || {
            if let Err(error) = pin_this_thread(core) {
                drop(body); // Gives the loop back before the submitter gets the error and may try again.
                let _ = pinned.send(Err(error));
                return;
            }
            let _ = pinned.send(Ok(()));
            body.run();
        })?;
        outcome.recv().map_err(io::Error::other)??;
        Ok(handle)
    }
}

impl ThreadSupplier for ThreadFactory {
    fn start(&self, body: LoopBody) -> io::Result<Option<JoinHandle<()>>> {
        let n = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        let core = self.cores.get((n - 1) % self.cores.len().max(1)).copied();
        self.spawn(n, body, core).map(Some)
    }
}

fn pin_this_thread(core: usize) -> io::Result<()> {
    let no_such_core = || {
        let allowed = sched_getaffinity(None).map_or(0, |set| set.count());
        let message =
            format!("cannot pin the thread to core {core}: this process may use {allowed} cores");
        io::Error::new(io::ErrorKind::InvalidInput, message)
    };
    if core >= CpuSet::MAX_CPU {
        return Err(no_such_core());
    }
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).map_err(|_| no_such_core())
}

/// Lowers the thread's timer slack (PR_SET_TIMERSLACK) while it lives, so that sleeps end on time: the kernel
/// otherwise delays them by some 50 µs to wake several threads at once. The previous value is restored on drop,
/// because the thread may be the user's.
#[cfg(target_os = "linux")]
pub(crate) struct TimerSlackGuard(Option<u64>);

#[cfg(target_os = "linux")]
impl TimerSlackGuard {
    pub(crate) fn set() -> Self {
        let before = rustix::thread::current_timer_slack().ok();
        // A sandbox may refuse this: sleeps have the default slack then.
        let _ = rustix::thread::set_current_timer_slack(NonZero::new(1));
        Self(before)
    }
}

#[cfg(target_os = "linux")]
impl Drop for TimerSlackGuard {
    fn drop(&mut self) {
        if let Some(before) = self.0.and_then(NonZero::new) {
            let _ = rustix::thread::set_current_timer_slack(Some(before));
        }
    }
}

/// A guard without effect: other systems have no timer slack.
#[cfg(not(target_os = "linux"))]
pub(crate) struct TimerSlackGuard;

#[cfg(not(target_os = "linux"))]
impl TimerSlackGuard {
    pub(crate) fn set() -> Self {
        Self
    }
}

/// The properties of the thread that a loop runs on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ThreadProperties {
    /// The thread's name.
    pub name: Option<String>,
    /// The thread's id.
    pub id: ThreadId,
    /// True while the loop runs on the thread.
    pub is_alive: bool,
    /// The time at which the loop started on the thread.
    pub started_at: SystemTime,
}

impl ThreadProperties {
    pub(crate) fn of_this_thread() -> Self {
        let thread = std::thread::current();
        Self {
            name: thread.name().map(str::to_owned),
            id: thread.id(),
            is_alive: true,
            started_at: wall_clock(),
        }
    }
}
