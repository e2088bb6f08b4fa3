//! A driver whose `wait` panics: a defect that no driver should have.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use waterwheel_channel::driver::{Driver, OpenDriver, WaitSummary};
use waterwheel_executor::Nanos;
use waterwheel_testkit::driver_wrapper::{DriverWrapper, WrappedDriver};
use waterwheel_testkit::loop_suite::panic_quietly;

/// Opens drivers whose next wait panics once the switch is set.
pub(crate) struct PanickingDriverFactory<O> {
    inner: O,
    switch: PanicSwitch,
}

#[derive(Clone, Default)]
pub(crate) struct PanicSwitch(Arc<AtomicBool>);

impl PanicSwitch {
    pub(crate) fn panic_in_next_wait(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl<O> PanickingDriverFactory<O> {
    pub(crate) fn new(inner: O) -> Self {
        Self { inner, switch: PanicSwitch::default() }
    }

    pub(crate) fn switch(&self) -> PanicSwitch {
        self.switch.clone()
    }
}

impl<O: OpenDriver> OpenDriver for PanickingDriverFactory<O> {
    fn open(&self) -> io::Result<Box<dyn Driver>> {
        Ok(Box::new(WrappedDriver(PanickingDriver {
            inner: self.inner.open()?,
            switch: self.switch.clone(),
        })))
    }
}

struct PanickingDriver {
    inner: Box<dyn Driver>,
    switch: PanicSwitch,
}

impl DriverWrapper for PanickingDriver {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Driver {
        &mut *self.inner
    }

    fn wait(&mut self, until: Option<Nanos>) -> io::Result<WaitSummary> {
        if self.switch.0.swap(false, Ordering::SeqCst) {
            panic_quietly("driver panics");
        }
        self.inner.wait(until)
    }
}
