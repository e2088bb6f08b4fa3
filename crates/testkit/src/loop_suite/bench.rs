//! The work bench of the suite: a loop driven by hand, or a group of loops, with all that they report.

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
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// How long one turn waits, of those that are made until something has happened, and how many.
const GLANCE: Duration = Duration::from_millis(2);
const GLANCES: usize = 10_000;

/// Panics without a word on the terminal.
pub fn blow(message: &'static str) -> ! {
    resume_unwind(Box::new(message))
}

/// A loop driven by hand, and what it reports.
#[derive(Debug)]
pub struct Bench {
    /// The loop.
    pub hand: ManualEventLoop,
    /// What it has reported.
    pub reports: Arc<Reports>,
    /// The hand in its driver.
    pub faults: Faults,
}

impl Bench {
    /// A loop as it is built by default.
    #[must_use]
    pub fn new(drivers: &dyn OpenDriver) -> Self {
        Self::with(drivers, |builder| builder)
    }

    /// A loop with properties of its own.
    ///
    /// # Panics
    /// If it cannot be built.
    #[must_use]
    pub fn with(
        drivers: &dyn OpenDriver,
        how: impl FnOnce(EventLoopGroupBuilder) -> EventLoopGroupBuilder,
    ) -> Self {
        Self::over(drivers.open().expect("a driver"), how)
    }

    /// A loop with properties of its own, over a driver that is open.
    ///
    /// # Panics
    /// If it cannot be built.
    #[must_use]
    pub fn over(
        driver: Box<dyn Driver>,
        how: impl FnOnce(EventLoopGroupBuilder) -> EventLoopGroupBuilder,
    ) -> Self {
        let opened = Faulty::new(Opened(Mutex::new(vec![driver])));
        let (faults, reports) = (opened.faults(), Arc::new(Reports::default()));
        let builder = EventLoopGroup::builder(opened).name("bench").reporter(reports.clone());
        let hand = how(builder).build_manual().expect("a loop");
        Self { hand, reports, faults }
    }

    /// The loop's handle.
    #[must_use]
    pub fn event_loop(&self) -> EventLoop {
        self.hand.event_loop()
    }

    /// One turn that does not block; whether there will be another.
    pub fn turn(&mut self) -> bool {
        self.hand.turn(Some(Duration::ZERO))
    }

    /// So many turns that do not block.
    pub fn turns(&mut self, n: usize) {
        for _ in 0..n {
            self.turn();
        }
    }

    /// Turns until something has happened.
    ///
    /// # Panics
    /// If it does not in twenty seconds.
    #[track_caller]
    pub fn until(&mut self, what: &str, mut happened: impl FnMut() -> bool) {
        for _ in 0..GLANCES {
            if happened() {
                return;
            }
            self.hand.turn(Some(GLANCE));
        }
        panic!("no {what} in {GLANCES} turns");
    }

    /// Turns until the loop has terminated.
    ///
    /// # Panics
    /// If it does not in twenty seconds.
    #[track_caller]
    pub fn until_over(&mut self) {
        for _ in 0..GLANCES {
            if !self.hand.turn(Some(GLANCE)) {
                return;
            }
        }
        panic!("not over in {GLANCES} turns");
    }

    /// Calls `f` on the loop.
    ///
    /// # Panics
    /// If the loop has terminated.
    pub fn here<R>(&mut self, f: impl FnOnce(&LocalLoop) -> R) -> R {
        self.hand.on_loop(f).expect("a loop that is not over")
    }

    /// The time, by the loop's clock.
    pub fn now(&mut self) -> Nanos {
        self.here(LocalLoop::now)
    }

    /// What the loop has done.
    #[must_use]
    pub fn metrics(&self) -> LoopMetrics {
        self.event_loop().metrics()
    }

    /// How often its driver was asked to wait.
    #[must_use]
    pub fn waits(&self) -> usize {
        self.faults.calls(DriverCall::Wait)
    }
}

/// A group of loops on threads of their own, and what they report.
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

/// Shuts a group down, and waits for it.
#[track_caller]
pub(super) fn end(group: &EventLoopGroup) {
    let ended = group.shutdown_gracefully(Duration::ZERO, PATIENCE).expect("a sound shutdown");
    ended.wait_timeout(PATIENCE).expect("it terminates");
}

/// What loops have reported, in order.
#[derive(Debug, Default)]
pub struct Reports(Mutex<Vec<Fault>>);

impl Reports {
    /// Takes them all.
    pub fn take(&self) -> Vec<Fault> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes them all: whose panics they were, and what was said.
    ///
    /// # Panics
    /// If something else was reported.
    #[track_caller]
    pub fn take_panics(&self) -> Vec<(UserCode, String)> {
        let panic = |fault| match fault {
            Fault::Panicked { what, message, .. } => (what, message),
            other => panic!("not a panic: {other}"),
        };
        self.take().into_iter().map(panic).collect()
    }

    /// Takes them all, as text.
    pub fn take_texts(&self) -> Vec<String> {
        self.take().iter().map(ToString::to_string).collect()
    }
}

impl Reporter for Reports {
    fn report(&self, report: &Report<'_>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(report.fault.clone());
    }
}

/// Drivers that were opened before, for whoever must own what opens them.
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
