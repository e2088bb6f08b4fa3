//! A driver that fails on purpose: any other one, with faults injected.
//!
//! [`Faulty`] wraps the factory that a loop is built with; [`Faults`] is the test's hand in it. A call
//! that is to fail does so before it reaches the driver inside, which never hears of it.
//!
//! ```
//! use std::io::ErrorKind;
//! use waterwheel_channel::driver::OpenDriver;
//! use waterwheel_executor::Nanos;
//! use waterwheel_testkit::faulty::{DriverCall, Faulty, EarlyReturns, FailTimes};
//! use waterwheel_testkit::manual::Manual;
//!
//! let faulty = Faulty::new(Manual::readiness());
//! let faults = faulty.faults();
//! let mut driver = faulty.open()?;
//!
//! faults.fail(DriverCall::Wait, FailTimes::Next(1), ErrorKind::InvalidInput);
//! assert_eq!(driver.wait(None).unwrap_err().kind(), ErrorKind::InvalidInput);
//!
//! faults.return_early(EarlyReturns::UntilRebuild);
//! assert_eq!(driver.wait(None)?.ready, 0, "there was no reason to return");
//! driver.rebuild()?;
//! driver.wait(Some(Nanos(0)))?;
//! assert_eq!(faults.calls(DriverCall::Wait), 3);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! A fault takes effect with the next call. A loop that is asleep has to be woken to meet it.

mod driver;
mod plan;

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use waterwheel_channel::driver::{Driver, OpenDriver};

use self::plan::Plan;
use crate::driver_wrapper::WrappedDriver;

pub use self::driver::FaultyDriver;
pub use self::plan::{DriverCall, EarlyReturns, FailTimes, InjectedError, LostRegistrations};

/// Opens drivers of another factory, with faults.
#[derive(Debug)]
pub struct Faulty<O> {
    inner: O,
    faults: Faults,
}

impl<O: OpenDriver> Faulty<O> {
    /// Wraps a factory. Nothing fails until it is told to.
    #[must_use]
    pub fn new(inner: O) -> Self {
        Self { inner, faults: Faults { plan: Arc::default() } }
    }

    /// The test's hand in all of its drivers.
    #[must_use]
    pub fn faults(&self) -> Faults {
        self.faults.clone()
    }
}

impl<O: OpenDriver> OpenDriver for Faulty<O> {
    fn open(&self) -> io::Result<Box<dyn Driver>> {
        self.faults.lock().call(DriverCall::Open)?;
        Ok(Box::new(WrappedDriver(FaultyDriver::new(self.inner.open()?, self.faults.clone()))))
    }
}

/// Decides what fails. Clones decide together.
///
/// Test threads write it, the loops' threads read it at every call; always under its lock.
#[derive(Clone)]
pub struct Faults {
    plan: Arc<Mutex<Plan>>,
}

impl Faults {
    /// These calls fail with this error, until they have failed so often. Replaces what was said of
    /// the same call before.
    ///
    /// ```
    /// # use waterwheel_channel::driver::OpenDriver;
    /// # use waterwheel_testkit::faulty::{DriverCall, Faulty, FailTimes};
    /// # use waterwheel_testkit::manual::Manual;
    /// const EMFILE: i32 = 24;
    /// let faulty = Faulty::new(Manual::readiness());
    /// faulty.faults().fail(DriverCall::Open, FailTimes::Nth(3), EMFILE);
    /// assert!(faulty.open().is_ok() && faulty.open().is_ok());
    /// assert_eq!(faulty.open().err().and_then(|error| error.raw_os_error()), Some(EMFILE));
    /// assert!(faulty.open().is_ok());
    /// ```
    pub fn fail(&self, call: DriverCall, times: FailTimes, with: impl Into<InjectedError>) {
        self.lock().fail(call, times, with.into());
    }

    /// Waits return at once. What there is is given out nevertheless: a selector that spins loses no
    /// event.
    pub fn return_early(&self, spin: EarlyReturns) {
        self.lock().spin = spin;
    }

    /// These registrations do not survive the next successful rebuild.
    pub fn lose_at_rebuild(&self, lost: LostRegistrations) {
        self.lock().lost = Some(lost);
    }

    /// Nothing fails any more.
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// How often this was called on all drivers, failures included.
    #[must_use]
    pub fn calls(&self, call: DriverCall) -> usize {
        self.lock().calls(call)
    }

    fn lock(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults").field("plan", &*self.lock()).finish()
    }
}
