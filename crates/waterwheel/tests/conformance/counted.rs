//! A driver that counts the writes it makes.

use std::io::Result;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use waterwheel::channel::driver::{
    Detach, Driver, Interest, Io, IoEvent, OpenDriver, OutQueue, ReadPlan, Role, SocketOption,
    Submit, Waited,
};
use waterwheel::channel::{Address, Datagram, Token};
use waterwheel::executor::{Clock, Nanos, Unpark};

/// Opens the drivers of another one, and counts their writes.
#[derive(Clone)]
pub(crate) struct Counted {
    inner: Arc<dyn OpenDriver>,
    writes: Arc<AtomicUsize>,
}

impl Counted {
    pub(crate) fn new(inner: impl OpenDriver + 'static) -> Self {
        Self { inner: Arc::new(inner), writes: Arc::default() }
    }

    /// How many there were.
    pub(crate) fn writes(&self) -> usize {
        self.writes.load(Ordering::Relaxed)
    }
}

impl OpenDriver for Counted {
    fn open(&self) -> Result<Box<dyn Driver>> {
        Ok(Box::new(CountedDriver { inner: self.inner.open()?, writes: self.writes.clone() }))
    }
}

struct CountedDriver {
    inner: Box<dyn Driver>,
    writes: Arc<AtomicUsize>,
}

impl Driver for CountedDriver {
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

    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn clock(&self) -> Clock {
        self.inner.clock()
    }

    fn waker(&self) -> Arc<dyn Unpark> {
        self.inner.waker()
    }

    fn attach(&mut self, token: Token, io: Io, role: Role) -> Result<()> {
        self.inner.attach(token, io, role)
    }

    fn detach(&mut self, token: Token) -> Detach {
        self.inner.detach(token)
    }

    fn release(&mut self, token: Token) -> Result<Io> {
        self.inner.release(token)
    }

    fn local_address(&self, token: Token) -> Option<Address> {
        self.inner.local_address(token)
    }

    fn set_option(&mut self, token: Token, option: SocketOption) -> Result<()> {
        self.inner.set_option(token, option)
    }

    fn set_read(&mut self, token: Token, plan: Option<ReadPlan>) {
        self.inner.set_read(token, plan);
    }

    fn shutdown(&mut self, token: Token, how: Shutdown) -> Result<()> {
        self.inner.shutdown(token, how)
    }

    fn register_foreign(&mut self, token: Token, io: Io, interest: Interest) -> Result<()> {
        self.inner.register_foreign(token, io, interest)
    }

    fn set_interest(&mut self, token: Token, interest: Interest) -> Result<()> {
        self.inner.set_interest(token, interest)
    }

    fn rebuild(&mut self) -> Result<usize> {
        self.inner.rebuild()
    }

    fn wait(&mut self, until: Option<Nanos>) -> Result<Waited> {
        self.inner.wait(until)
    }

    fn next_event(&mut self) -> Option<IoEvent> {
        self.inner.next_event()
    }
}
