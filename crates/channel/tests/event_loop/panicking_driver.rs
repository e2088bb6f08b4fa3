//! A driver that panics: a defect of a driver's own, as no loop is meant to meet it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use waterwheel_channel::driver::{Driver, OpenDriver, WaitSummary};
use waterwheel_executor::Nanos;
use waterwheel_testkit::driver_wrapper::{DriverWrapper, WrappedDriver};
use waterwheel_testkit::loop_suite::blow;

/// Opens drivers that panic in their next wait once they are struck.
pub(crate) struct Doomed<O> {
    inner: O,
    doom: Doom,
}

#[derive(Clone, Default)]
pub(crate) struct Doom(Arc<AtomicBool>);

impl Doom {
    pub(crate) fn strike(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl<O> Doomed<O> {
    pub(crate) fn new(inner: O) -> Self {
        Self { inner, doom: Doom::default() }
    }

    pub(crate) fn doom(&self) -> Doom {
        self.doom.clone()
    }
}

impl<O: OpenDriver> OpenDriver for Doomed<O> {
    fn open(&self) -> io::Result<Box<dyn Driver>> {
        Ok(Box::new(WrappedDriver(DoomedDriver {
            inner: self.inner.open()?,
            doom: self.doom.clone(),
        })))
    }
}

struct DoomedDriver {
    inner: Box<dyn Driver>,
    doom: Doom,
}

impl DriverWrapper for DoomedDriver {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Driver {
        &mut *self.inner
    }

    fn wait(&mut self, until: Option<Nanos>) -> io::Result<WaitSummary> {
        if self.doom.0.swap(false, Ordering::SeqCst) {
            blow("doom");
        }
        self.inner.wait(until)
    }
}
