//! The test bench of the suite: a manual loop or a group of loops, with their reports.

use std::io;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use waterwheel_channel::driver::{Driver, OpenDriver};
use waterwheel_channel::{
    EventLoop, EventLoopGroup, EventLoopGroupBuilder, LocalLoop, LoopMetrics, ManualEventLoop,
};
use waterwheel_executor::{Fault, Nanos, Report, Reporter, UserCode};

use crate::faulty::{DriverCall, Faults, Faulty};

/// How long the suite waits for something that must happen.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

/// The time limit of each turn that waits for a condition, and the maximum number of these turns.
const SHORT_WAIT: Duration = Duration::from_millis(2);
const MAX_TURNS: usize = 10_000;

/// Panics without calling the panic hook, so that nothing is printed.
pub fn panic_quietly(message: &'static str) -> ! {
    resume_unwind(Box::new(message))
}

/// A manual loop over a driver with injectable faults, and its reports.
#[derive(Debug)]
pub struct Bench {
    /// The manual loop.
    pub manual: ManualEventLoop,
    /// The reports of the loop.
    pub reports: Arc<Reports>,
    /// Injects faults into the loop's driver.
    pub faults: Faults,
}

impl Bench {
    /// Creates a loop with default properties.
    #[must_use]
    pub fn new(drivers: &dyn OpenDriver) -> Self {
        Self::with(drivers, |builder| builder)
    }

    /// Creates a loop whose properties `how` sets.
    ///
    /// # Panics
    /// If the loop cannot be built.
    #[must_use]
    pub fn with(
        drivers: &dyn OpenDriver,
        how: impl FnOnce(EventLoopGroupBuilder) -> EventLoopGroupBuilder,
    ) -> Self {
        Self::over(drivers.open().expect("a driver"), how)
    }

    /// Creates a loop whose properties `how` sets, over an open driver.
    ///
    /// # Panics
    /// If the loop cannot be built.
    #[must_use]
    pub fn over(
        driver: Box<dyn Driver>,
        how: impl FnOnce(EventLoopGroupBuilder) -> EventLoopGroupBuilder,
    ) -> Self {
        let opened = Faulty::new(Opened(Mutex::new(vec![driver])));
        let (faults, reports) = (opened.faults(), Arc::new(Reports::default()));
        let builder = EventLoopGroup::builder(opened).name("bench").reporter(reports.clone());
        let manual = how(builder).build_manual().expect("a loop");
        Self { manual, reports, faults }
    }

    /// Returns the loop's handle.
    #[must_use]
    pub fn event_loop(&self) -> EventLoop {
        self.manual.event_loop()
    }

    /// Takes one turn that does not block; returns false if the loop has terminated.
    pub fn turn(&mut self) -> bool {
        self.manual.turn(Some(Duration::ZERO))
    }

    /// Takes `n` turns that do not block.
    pub fn turns(&mut self, n: usize) {
        for _ in 0..n {
            self.turn();
        }
    }

    /// Takes turns until `happened` returns true.
    ///
    /// # Panics
    /// If `happened` returns false for ten thousand turns.
    #[track_caller]
    pub fn until(&mut self, what: &str, mut happened: impl FnMut() -> bool) {
        for _ in 0..MAX_TURNS {
            if happened() {
                return;
            }
            self.manual.turn(Some(SHORT_WAIT));
        }
        panic!("no {what} in {MAX_TURNS} turns");
    }

    /// Takes turns until the loop has terminated.
    ///
    /// # Panics
    /// If the loop has not terminated after ten thousand turns.
    #[track_caller]
    pub fn until_over(&mut self) {
        for _ in 0..MAX_TURNS {
            if !self.manual.turn(Some(SHORT_WAIT)) {
                return;
            }
        }
        panic!("not over in {MAX_TURNS} turns");
    }

    /// Calls `f` on the loop.
    ///
    /// # Panics
    /// If the loop has terminated.
    pub fn here<R>(&mut self, f: impl FnOnce(&LocalLoop) -> R) -> R {
        self.manual.on_loop(f).expect("a loop that is not over")
    }

    /// Returns the time of the loop's clock.
    pub fn now(&mut self) -> Nanos {
        self.here(LocalLoop::now)
    }

    /// Returns the loop's metrics.
    #[must_use]
    pub fn metrics(&self) -> LoopMetrics {
        self.event_loop().metrics()
    }

    /// Returns how often the driver's `wait` was called.
    #[must_use]
    pub fn waits(&self) -> usize {
        self.faults.calls(DriverCall::Wait)
    }
}

/// Creates a group of threaded loops, and their reports.
pub(super) fn group(
    drivers: &dyn OpenDriver,
    threads: usize,
    how: impl FnOnce(EventLoopGroupBuilder) -> EventLoopGroupBuilder,
) -> (EventLoopGroup, Arc<Reports>) {
    let reports = Arc::new(Reports::default());
    let builder = EventLoopGroup::builder(Opened::new(drivers, threads)).threads(threads);
    let builder = builder.name("bench").reporter(reports.clone());
    (how(builder).build().expect("a group of loops"), reports)
}

/// Shuts a group down gracefully and waits until it has terminated.
#[track_caller]
pub(super) fn end(group: &EventLoopGroup) {
    let ended = group.shutdown_gracefully(Duration::ZERO, TIMEOUT).expect("a sound shutdown");
    ended.wait_timeout(TIMEOUT).expect("it terminates");
}

/// A reporter that collects the faults of loops, in order.
#[derive(Debug, Default)]
pub struct Reports(Mutex<Vec<Fault>>);

impl Reports {
    /// Takes all faults.
    pub fn take(&self) -> Vec<Fault> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes all faults, which must be panics; returns the kind of user code and the message of each.
    ///
    /// # Panics
    /// If another fault was reported.
    #[track_caller]
    pub fn take_panics(&self) -> Vec<(UserCode, String)> {
        let panic = |fault| match fault {
            Fault::Panicked { what, message, .. } => (what, message),
            other => panic!("not a panic: {other}"),
        };
        self.take().into_iter().map(panic).collect()
    }

    /// Takes all faults as text.
    pub fn take_texts(&self) -> Vec<String> {
        self.take().iter().map(ToString::to_string).collect()
    }
}

impl Reporter for Reports {
    fn report(&self, report: &Report<'_>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(report.fault.clone());
    }
}

/// A driver factory that hands out drivers that were opened before.
struct Opened(Mutex<Vec<Box<dyn Driver>>>);

impl Opened {
    fn new(drivers: &dyn OpenDriver, n: usize) -> Self {
        let open = || drivers.open().expect("a driver");
        Self(Mutex::new((0..n).map(|_| open()).collect()))
    }
}

impl OpenDriver for Opened {
    fn open(&self) -> io::Result<Box<dyn Driver>> {
        let driver = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        driver.ok_or_else(|| io::Error::other("no driver is left"))
    }
}
