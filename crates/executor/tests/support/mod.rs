//! What the tests share: gates, logs, suppliers, and a loop whose sleep can be watched.
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

/// By when anything that must happen has happened: far beyond a busy machine's worst day.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Panics without a word on the terminal.
pub(crate) fn blow(message: &'static str) -> ! {
    resume_unwind(Box::new(message))
}

/// Calls `f` on a thread of its own and fails, instead of hanging, if it does not return.
#[track_caller]
pub(crate) fn within<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, outcome) = mpsc::channel();
    let thread = std::thread::spawn(move || done.send(f()));
    match outcome.recv_timeout(SOON) {
        Ok(value) => value,
        Err(RecvTimeoutError::Timeout) => panic!("still blocked after {SOON:?}"),
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(payload) => resume_unwind(payload),
            Ok(_) => unreachable!("it ended without a value"),
        },
    }
}

/// Lets it run what is queued and waits until it is through.
#[track_caller]
pub(crate) fn end<X: Send + 'static>(executor: &EventExecutor<X>) {
    let ended = executor.shutdown_gracefully(Duration::ZERO, SOON).unwrap();
    ended.wait_timeout(SOON).expect("it terminates");
}

/// Holds a loop inside a task. Dropping it lets the loop go on.
pub(crate) struct Gate {
    _open: Sender<()>,
}

impl Gate {
    /// Returns once the loop is in the task.
    #[track_caller]
    pub(crate) fn hold<X: Send + 'static>(executor: &EventExecutor<X>) -> Self {
        let (inside, is_inside) = mpsc::channel();
        let (open, opened) = mpsc::channel::<()>();
        let task = move || {
            let _ = inside.send(());
            let _ = opened.recv();
        };
        executor.execute(task).expect("the gate's task is accepted");
        is_inside.recv_timeout(SOON).expect("the loop gets there");
        Self { _open: open }
    }

    pub(crate) fn open(self) {}
}

/// Counts the tasks it made that have run.
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

/// What happened, in order; written by anyone who holds a clone.
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

/// A reporter that collects.
#[derive(Default)]
pub(crate) struct Faults(Mutex<Vec<Fault>>);

impl Faults {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn take(&self) -> Vec<Fault> {
        std::mem::take(&mut lock(&self.0))
    }

    /// The panics reported: kind of user code, label or `file:line`, message.
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

impl Reporter for Faults {
    fn report(&self, report: &Report<'_>) {
        lock(&self.0).push(report.fault.clone());
    }
}

/// What a [`Supplier`] does when it is asked for a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    Accept,
    Refuse,
    Panic,
    /// Drops the loop and claims to have started it.
    Drop,
    /// Accepts, and keeps the loop for [`Supplier::take_kept`].
    Keep,
}

/// A thread supplier that answers as it is told, then accepts.
pub(crate) struct Supplier {
    answers: Mutex<VecDeque<Answer>>,
    calls: AtomicUsize,
    kept: Mutex<Option<LoopBody>>,
}

impl Supplier {
    pub(crate) fn new(answers: impl IntoIterator<Item = Answer>) -> Arc<Self> {
        Arc::new(Self {
            answers: Mutex::new(answers.into_iter().collect()),
            calls: AtomicUsize::new(0),
            kept: Mutex::new(None),
        })
    }

    /// How often it was asked.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    pub(crate) fn take_kept(&self) -> LoopBody {
        lock(&self.kept).take().expect("a loop was kept")
    }
}

impl ThreadSupplier for Supplier {
    fn start(&self, body: LoopBody) -> io::Result<Option<JoinHandle<()>>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let answer = lock(&self.answers).pop_front().unwrap_or(Answer::Accept);
        match answer {
            Answer::Accept => spawn(body).map(Some),
            Answer::Refuse => Err(io::Error::other("no thread for you")),
            Answer::Panic => blow("the supplier is broken"),
            Answer::Drop => Ok(None),
            Answer::Keep => {
                *lock(&self.kept) = Some(body);
                Ok(None)
            }
        }
    }
}

/// A supplier made of a closure.
pub(crate) struct SupplyBy<F>(pub(crate) F);

impl<F> ThreadSupplier for SupplyBy<F>
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
