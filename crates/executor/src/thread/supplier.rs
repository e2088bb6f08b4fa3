//! Where loops get their threads from (E05), and what is known of them (E20).

use std::fmt;
use std::io;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::{JoinHandle, ThreadId};
use std::time::SystemTime;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::clock::wall_clock;

/// Supplies the thread that a loop runs on: a new one ([`ThreadFactory`]) or one of a pool.
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
    /// Arranges for [`body.run()`](LoopBody::run) to be called on another thread, which it keeps
    /// until the executor has terminated. The handle, if there is one, is for `join`.
    ///
    /// # Errors
    /// If there is no thread to be had. The executor stays unstarted, the submitter gets its task
    /// back, and the next submission asks again.
    fn start(&self, body: LoopBody) -> io::Result<Option<JoinHandle<()>>>;
}

/// A loop looking for a thread. Dropping it unrun tells the executor so.
pub struct LoopBody {
    loop_: Option<Box<dyn RunOrLetGo>>,
    executor: String,
}

impl LoopBody {
    pub(crate) fn new(loop_: Box<dyn RunOrLetGo>, executor: &str) -> Self {
        Self { loop_: Some(loop_), executor: executor.to_owned() }
    }

    /// The name of the executor whose loop this is.
    #[must_use]
    pub fn executor(&self) -> &str {
        &self.executor
    }

    /// True for a turn of a [pooled](crate::EventExecutorBuilder::build_pooled) executor:
    /// [`run`](Self::run) then returns at the end of the turn.
    #[must_use]
    pub fn is_turn(&self) -> bool {
        self.loop_.as_ref().is_some_and(|loop_| loop_.is_turn())
    }

    /// Runs the loop on the calling thread until the executor has terminated, or one turn of it if the
    /// executor is a pooled one.
    pub fn run(mut self) {
        if let Some(loop_) = self.loop_.take() {
            loop_.run();
        }
    }
}

impl Drop for LoopBody {
    fn drop(&mut self) {
        if let Some(loop_) = self.loop_.take() {
            loop_.let_go();
        }
    }
}

impl fmt::Debug for LoopBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LoopBody({})", self.executor)
    }
}

/// What can happen to a loop on its way to a thread.
pub(crate) trait RunOrLetGo: Send {
    fn run(self: Box<Self>);
    fn let_go(self: Box<Self>);
    /// Whether `run` lasts for one turn only.
    fn is_turn(&self) -> bool;
}

/// Makes a new thread for every loop: named, with a stack size and cores of its own if wished.
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
    /// Threads are named `prefix-pool-n`: the factory's number, and the thread's within it.
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

    /// The size of each thread's stack in bytes.
    #[must_use]
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Pins each thread to one of these cores, in turn.
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
                drop(body); // Given back before the submitter hears of it: it may try again at once.
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
        let message = format!("cannot pin to core {core}: {allowed} cores may be used here");
        io::Error::new(io::ErrorKind::InvalidInput, message)
    };
    if core >= CpuSet::MAX_CPU {
        return Err(no_such_core());
    }
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).map_err(|_| no_such_core())
}

/// Makes the thread's sleeps end on time: the kernel otherwise rounds them up by some 50 µs to wake
/// several threads at once. A thread of the user's gets its own value back.
#[cfg(target_os = "linux")]
pub(crate) struct PunctualSleep(Option<u64>);

#[cfg(target_os = "linux")]
impl PunctualSleep {
    pub(crate) fn begin() -> Self {
        let before = rustix::thread::current_timer_slack().ok();
        // Refused by a sandbox, perhaps: sleeps are then as punctual as everybody's.
        let _ = rustix::thread::set_current_timer_slack(NonZero::new(1));
        Self(before)
    }
}

#[cfg(target_os = "linux")]
impl Drop for PunctualSleep {
    fn drop(&mut self) {
        if let Some(before) = self.0.and_then(NonZero::new) {
            let _ = rustix::thread::set_current_timer_slack(Some(before));
        }
    }
}

/// Other systems have no such setting.
#[cfg(not(target_os = "linux"))]
pub(crate) struct PunctualSleep;

#[cfg(not(target_os = "linux"))]
impl PunctualSleep {
    pub(crate) fn begin() -> Self {
        Self
    }
}

/// What is known of the thread a loop runs on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ThreadProperties {
    /// The thread's name.
    pub name: Option<String>,
    /// The thread's id.
    pub id: ThreadId,
    /// Whether the loop still runs on it.
    pub is_alive: bool,
    /// When the loop started on it.
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
