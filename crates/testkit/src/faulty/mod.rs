//! A driver with injected faults, over any other driver.
//!
//! [`Faulty`] wraps the driver factory that a loop is built with; the test injects faults with [`Faults`]. A call
//! that fails does not reach the inner driver.
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
//! A fault takes effect with the next call. A sleeping loop makes no call until it is woken.

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

/// A driver factory that adds injected faults to the drivers of another factory.
#[derive(Debug)]
pub struct Faulty<O> {
    inner: O,
    faults: Faults,
}

impl<O: OpenDriver> Faulty<O> {
    /// Wraps a factory. Nothing fails until the test injects a fault.
    #[must_use]
    pub fn new(inner: O) -> Self {
        Self { inner, faults: Faults { plan: Arc::default() } }
    }

    /// Returns the control of the faults of all drivers that this factory opens.
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

/// Controls which driver calls fail. Clones control the same drivers.
///
/// Test threads write the plan, and the loops' threads read it at every call, always under its lock.
#[derive(Clone)]
pub struct Faults {
    plan: Arc<Mutex<Plan>>,
}

impl Faults {
    /// Makes `call` fail `times` with this error. Replaces an earlier setting for the same call.
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

    /// Makes waits return early. Ready events are still delivered: a spinning selector loses no event.
    pub fn return_early(&self, spin: EarlyReturns) {
        self.lock().spin = spin;
    }

    /// Makes the next successful rebuild lose these registrations.
    pub fn lose_at_rebuild(&self, lost: LostRegistrations) {
        self.lock().lost = Some(lost);
    }

    /// Removes all faults.
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// Returns how often `call` was made on all drivers, failures included.
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
