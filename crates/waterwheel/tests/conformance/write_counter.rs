//! A driver that counts the writes it makes.

use std::io::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use waterwheel::channel::driver::{Driver, OpenDriver, OutQueue, Submit};
use waterwheel::channel::{Datagram, Token};
use waterwheel_testkit::driver_wrapper::{DriverWrapper, WrappedDriver};

/// Opens drivers of the wrapped kind, and counts their writes.
#[derive(Clone)]
pub(crate) struct WriteCounter {
    inner: Arc<dyn OpenDriver>,
    writes: Arc<AtomicUsize>,
}

impl WriteCounter {
    pub(crate) fn new(inner: impl OpenDriver + 'static) -> Self {
        Self { inner: Arc::new(inner), writes: Arc::default() }
    }

    /// Returns how many writes all drivers have made.
    pub(crate) fn writes(&self) -> usize {
        self.writes.load(Ordering::Relaxed)
    }
}

impl OpenDriver for WriteCounter {
    fn open(&self) -> Result<Box<dyn Driver>> {
        let (inner, writes) = (self.inner.open()?, self.writes.clone());
        Ok(Box::new(WrappedDriver(CountingDriver { inner, writes })))
    }
}

struct CountingDriver {
    inner: Box<dyn Driver>,
    writes: Arc<AtomicUsize>,
}

impl DriverWrapper for CountingDriver {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Driver {
        &mut *self.inner
    }

    fn write(&mut self, token: Token, queue: &OutQueue) -> Result<Submit> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.inner.write(token, queue)
    }

    fn send_datagrams(
        &mut self,
        token: Token,
        batch: &mut dyn Iterator<Item = &Datagram>,
    ) -> Result<Submit> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.inner.send_datagrams(token, batch)
    }
}
