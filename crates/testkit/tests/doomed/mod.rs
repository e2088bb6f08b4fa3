//! A driver that panics: a defect of a driver's own, as no loop is meant to meet it.

use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use waterwheel_channel::driver::{
    Detach, Driver, Interest, Io, IoEvent, OpenDriver, OutQueue, ReadPlan, Role, SocketOption,
    Submit, Waited,
};
use waterwheel_channel::{Address, Token};
use waterwheel_executor::{Clock, Nanos, Unpark};
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
        Ok(Box::new(DoomedDriver { inner: self.inner.open()?, doom: self.doom.clone() }))
    }
}

struct DoomedDriver {
    inner: Box<dyn Driver>,
    doom: Doom,
}

impl Driver for DoomedDriver {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn clock(&self) -> Clock {
        self.inner.clock()
    }

    fn waker(&self) -> Arc<dyn Unpark> {
        self.inner.waker()
    }

    fn attach(&mut self, token: Token, io: Io, role: Role) -> io::Result<()> {
        self.inner.attach(token, io, role)
    }

    fn detach(&mut self, token: Token) -> Detach {
        self.inner.detach(token)
    }

    fn release(&mut self, token: Token) -> io::Result<Io> {
        self.inner.release(token)
    }

    fn local_address(&self, token: Token) -> Option<Address> {
        self.inner.local_address(token)
    }

    fn set_option(&mut self, token: Token, option: SocketOption) -> io::Result<()> {
        self.inner.set_option(token, option)
    }

    fn set_read(&mut self, token: Token, plan: Option<ReadPlan>) {
        self.inner.set_read(token, plan);
    }

    fn write(&mut self, token: Token, queue: &OutQueue) -> io::Result<Submit> {
        self.inner.write(token, queue)
    }

    fn shutdown(&mut self, token: Token, how: Shutdown) -> io::Result<()> {
        self.inner.shutdown(token, how)
    }

    fn register_foreign(&mut self, token: Token, io: Io, interest: Interest) -> io::Result<()> {
        self.inner.register_foreign(token, io, interest)
    }

    fn set_interest(&mut self, token: Token, interest: Interest) -> io::Result<()> {
        self.inner.set_interest(token, interest)
    }

    fn rebuild(&mut self) -> io::Result<usize> {
        self.inner.rebuild()
    }

    fn wait(&mut self, until: Option<Nanos>) -> io::Result<Waited> {
        if self.doom.0.swap(false, Ordering::SeqCst) {
            blow("doom");
        }
        self.inner.wait(until)
    }

    fn next_event(&mut self) -> Option<IoEvent> {
        self.inner.next_event()
    }
}
