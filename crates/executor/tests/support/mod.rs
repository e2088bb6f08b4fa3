//! Helpers of the executor's tests: gates, logs, thread suppliers, an executor whose sleeps can be observed.
#![allow(dead_code, reason = "every test file uses its own part of this")]

pub(crate) mod futures;
pub(crate) mod observed_executor;

use std::collections::VecDeque;
use std::io;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use waterwheel_executor::{
    EventExecutor, Fault, LoopBody, Report, Reporter, ThreadSupplier, UserCode,
};

/// How long a test waits for something that must happen: far longer than a busy machine needs.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Panics without calling the panic hook, so that nothing is printed.
pub(crate) fn panic_quietly(message: &'static str) -> ! {
    resume_unwind(Box::new(message))
}

/// Calls `f` on a new thread and panics if it does not return within [`TIMEOUT`].
#[track_caller]
pub(crate) fn with_timeout<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, outcome) = mpsc::channel();
    let thread = std::thread::spawn(move || done.send(f()));
    match outcome.recv_timeout(TIMEOUT) {
        Ok(value) => value,
        Err(RecvTimeoutError::Timeout) => panic!("still blocked after {TIMEOUT:?}"),
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(payload) => resume_unwind(payload),
            Ok(_) => unreachable!("the thread ended without sending a value"),
        },
    }
}

/// Shuts the executor down gracefully, which runs queued tasks, and waits until it has terminated.
#[track_caller]
pub(crate) fn shut_down<X: Send + 'static>(executor: &EventExecutor<X>) {
    let ended = executor.shutdown_gracefully(Duration::ZERO, TIMEOUT).unwrap();
    ended.wait_timeout(TIMEOUT).expect("the executor terminates");
}

/// Blocks a loop inside a task until the gate is dropped.
pub(crate) struct Gate {
    _open: Sender<()>,
}

impl Gate {
    /// Blocks the loop of `executor`; returns once the loop is inside the task.
    #[track_caller]
    pub(crate) fn hold<X: Send + 'static>(executor: &EventExecutor<X>) -> Self {
        let (inside, is_inside) = mpsc::channel();
        let (open, opened) = mpsc::channel::<()>();
        let task = move || {
            let _ = inside.send(());
            let _ = opened.recv();
        };
        executor.execute(task).expect("the executor accepts the gate's task");
        is_inside.recv_timeout(TIMEOUT).expect("the loop runs the gate's task");
        Self { _open: open }
    }

    pub(crate) fn open(self) {}
}

/// Counts how many of its tasks have run.
#[derive(Clone, Default)]
pub(crate) struct Counter(Arc<AtomicUsize>);

impl Counter {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn task(&self) -> impl FnOnce() + Send + 'static + use<> {
        let ran = self.0.clone();
        move || {
            ran.fetch_add(1, Ordering::SeqCst);
        }
    }

    pub(crate) fn ran(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// A list of events in order, shared by its clones.
pub(crate) struct Log<T>(Arc<Mutex<Vec<T>>>);

impl<T> Log<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    pub(crate) fn add(&self, entry: T) {
        lock(&self.0).push(entry);
    }

    pub(crate) fn take(&self) -> Vec<T> {
        std::mem::take(&mut lock(&self.0))
    }
}

impl<T> Clone for Log<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// A reporter that collects faults.
#[derive(Default)]
pub(crate) struct FaultLog(Mutex<Vec<Fault>>);

impl FaultLog {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn take(&self) -> Vec<Fault> {
        std::mem::take(&mut lock(&self.0))
    }

    /// Takes the reported panics: kind of user code, label or `file:line`, message.
    pub(crate) fn take_panics(&self) -> Vec<(UserCode, String, String)> {
        let panic = |fault| match fault {
            Fault::Panicked { what, origin, message } => {
                let origin = match origin.location() {
                    Some(line) => format!("{}:{}", line.file(), line.line()),
                    None => origin.to_string(),
                };
                (what, origin, message)
            }
            other => panic!("not a panic: {other:?}"),
        };
        self.take().into_iter().map(panic).collect()
    }
}

impl Reporter for FaultLog {
    fn report(&self, report: &Report<'_>) {
        lock(&self.0).push(report.fault.clone());
    }
}

/// How a [`ScriptedSupplier`] answers a call of `start`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SupplierAnswer {
    Accept,
    Refuse,
    Panic,
    /// Drops the loop and returns success.
    Drop,
    /// Accepts, and keeps the loop for [`ScriptedSupplier::take_kept`].
    Keep,
}

/// A thread supplier that gives the scripted answers, then accepts.
pub(crate) struct ScriptedSupplier {
    answers: Mutex<VecDeque<SupplierAnswer>>,
    calls: AtomicUsize,
    kept: Mutex<Option<LoopBody>>,
}

impl ScriptedSupplier {
    pub(crate) fn new(answers: impl IntoIterator<Item = SupplierAnswer>) -> Arc<Self> {
        Arc::new(Self {
            answers: Mutex::new(answers.into_iter().collect()),
            calls: AtomicUsize::new(0),
            kept: Mutex::new(None),
        })
    }

    /// Returns how often `start` was called.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    pub(crate) fn take_kept(&self) -> LoopBody {
        lock(&self.kept).take().expect("a loop was kept")
    }
}

impl ThreadSupplier for ScriptedSupplier {
    fn start(&self, body: LoopBody) -> io::Result<Option<JoinHandle<()>>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let answer = lock(&self.answers).pop_front().unwrap_or(SupplierAnswer::Accept);
        match answer {
            SupplierAnswer::Accept => spawn(body).map(Some),
            SupplierAnswer::Refuse => Err(io::Error::other("no thread for you")),
            SupplierAnswer::Panic => panic_quietly("the supplier is broken"),
            SupplierAnswer::Drop => Ok(None),
            SupplierAnswer::Keep => {
                *lock(&self.kept) = Some(body);
                Ok(None)
            }
        }
    }
}

/// A thread supplier made of a closure.
pub(crate) struct FnSupplier<F>(pub(crate) F);

impl<F> ThreadSupplier for FnSupplier<F>
where
    F: Fn(LoopBody) -> io::Result<Option<JoinHandle<()>>> + Send + Sync,
{
    fn start(&self, body: LoopBody) -> io::Result<Option<JoinHandle<()>>> {
        (self.0)(body)
    }
}

pub(crate) fn spawn(body: LoopBody) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().spawn(move || body.run())
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
