//! The calls of a loop into its driver, for attached sockets and foreign descriptors.

use std::any::Any;
use std::cell::RefCell;
use std::io;
use std::net::Shutdown;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use waterwheel_executor::engine::{panic_message, report};
use waterwheel_executor::{Error, Fault, Origin};

use super::{LocalLoop, LoopShutDown};
use crate::address::Address;
use crate::base::token::Token;
use crate::driver::{
    Detach, Driver, DriverPanicked, Interest, Io, OutQueue, ReadPlan, Role, SocketOption, Submit,
};
use crate::event_loop::registrations::{EventReceiver, Registrant};
use crate::payload::{AncillaryMessage, Credentials, Datagram, FileRegion};

impl LocalLoop {
    /// Attaches a socket to the driver. Reads are off at first.
    ///
    /// # Errors
    /// The driver's error, or [`LoopShutDown`] if the loop is shutting down. The socket and the registrant are
    /// dropped then.
    #[track_caller]
    pub fn attach(&self, io: Io, role: Role, registrant: impl Registrant) -> io::Result<Token> {
        self.attach_receiver(io, role, Rc::new(RefCell::new(registrant)))
    }

    /// Attaches a socket for a receiver that several registrations may share.
    #[track_caller]
    pub(crate) fn attach_receiver(
        &self,
        io: Io,
        role: Role,
        receiver: Rc<dyn EventReceiver>,
    ) -> io::Result<Token> {
        let origin = Origin::here();
        self.register(origin, receiver, |driver, token| driver.attach(token, io, role))
    }

    /// Registers a descriptor that belongs to no channel; the registrant gets its readiness events.
    ///
    /// # Errors
    /// As for [`attach`](Self::attach).
    pub(crate) fn register_foreign_io(
        &self,
        origin: Origin,
        (io, interest): (Io, Interest),
        registrant: impl Registrant,
    ) -> io::Result<Token> {
        let receiver = Rc::new(RefCell::new(registrant));
        self.register(origin, receiver, |driver, token| {
            driver.register_foreign(token, io, interest)
        })
    }

    fn register(
        &self,
        origin: Origin,
        receiver: Rc<dyn EventReceiver>,
        enter: impl FnOnce(&mut dyn Driver, Token) -> io::Result<()>,
    ) -> io::Result<Token> {
        if self.is_closing() {
            return Err(io::Error::other(LoopShutDown));
        }
        let token = self.parts.registrations.add(origin, receiver);
        let mut entered =
            self.call_driver(|driver| enter(driver, token)).unwrap_or_else(|panicked| {
                let _ = self.detach_from_driver(token); // The driver may have attached it before it panicked.
                Err(io::Error::other(panicked))
            });
        if let Err(error) = &mut entered {
            self.parts.registrations.remove_silently(token);
            if let Some(io) = Io::take_refused(error) {
                self.parts.registrations.defer_drop_of_refused(io);
            }
        }
        self.parts.counters.set_registrations(self.registration_count());
        entered.map(|()| token)
    }

    /// Detaches a registration: a call to [`on_detached`](Registrant::on_detached) follows, without a cause.
    /// Returns `false` if there is no such registration, or it is already being detached.
    pub fn detach(&self, token: Token) -> bool {
        self.detach_with(token, None)
    }

    pub(crate) fn detach_with(&self, token: Token, cause: Option<Error>) -> bool {
        let begun = self.parts.registrations.begin_detach(token, cause);
        if begun && self.has_driver() {
            self.parts.registrations.on_driver_detached(token, self.detach_from_driver(token));
        }
        begun
    }

    /// Closes an attached socket. Returns `Done` if the socket is closed, now or earlier: its registrant gets no
    /// further call. Otherwise a call to [`on_detached`](Registrant::on_detached) follows.
    pub(crate) fn close_socket(&self, token: Token) -> Detach {
        if !self.parts.registrations.begin_detach(token, None) || !self.has_driver() {
            return Detach::Done;
        }
        let detached = self.detach_from_driver(token);
        if detached == Detach::Done {
            self.parts.registrations.remove_silently(token);
            self.parts.counters.set_registrations(self.registration_count());
        }
        detached
    }

    /// Detaches the token from the driver. If the driver panics, the token is assumed to be detached.
    fn detach_from_driver(&self, token: Token) -> Detach {
        let detached = self.call_driver(|driver| Ok(driver.detach(token)));
        detached.ok().and_then(Result::ok).unwrap_or(Detach::Done)
    }

    /// Takes a socket back from the driver, without closing it. Its registrant is dropped and gets no further call.
    ///
    /// # Errors
    /// The driver's error, or `NotFound` if the token is not attached.
    pub fn release(&self, token: Token) -> io::Result<Io> {
        let io = self.with_live_token(token, |driver| driver.release(token))?;
        self.parts.registrations.remove_silently(token);
        self.parts.counters.set_registrations(self.registration_count());
        Ok(io)
    }

    /// Returns the address that an attached socket is bound to.
    #[must_use]
    pub fn local_address(&self, token: Token) -> Option<Address> {
        self.with_token(token, |driver| Ok(driver.local_address(token))).ok().flatten()
    }

    /// Sets an option of an attached socket.
    ///
    /// # Errors
    /// The driver's error, or `NotFound` if the token is not attached.
    pub fn set_option(&self, token: Token, option: SocketOption) -> io::Result<()> {
        self.with_live_token(token, |driver| driver.set_option(token, option))
    }

    /// Turns the reads of an attached socket on or off.
    pub fn set_read(&self, token: Token, plan: Option<ReadPlan>) {
        let _closed = self.with_live_token(token, |driver| {
            driver.set_read(token, plan);
            Ok(())
        });
    }

    /// Writes as much of the queue as the kernel accepts at once. The caller then advances the queue.
    ///
    /// # Errors
    /// The driver's error, or `NotFound` if the token is not attached.
    pub fn write(&self, token: Token, queue: &OutQueue) -> io::Result<Submit> {
        self.with_live_token(token, |driver| driver.write(token, queue))
    }

    /// Writes as [`write`](Self::write) does, without catching a panic of the driver: the caller catches it and
    /// closes the token. Every response takes this path.
    #[inline(always)]
    pub(crate) fn write_unguarded(&self, token: Token, queue: &OutQueue) -> io::Result<Submit> {
        // No check for a live token: the driver returns an error for a token that is detaching, as for an unknown
        // one.
        self.with_driver(|driver| driver.write(token, queue))
    }

    /// Writes as many of these bytes as the kernel accepts at once. The caller queues the rest.
    ///
    /// # Errors
    /// The driver's error, or `NotFound` if the token is not attached.
    #[inline]
    pub(crate) fn write_slice(&self, token: Token, bytes: &[u8]) -> io::Result<Submit> {
        // No check for a live token, as in `write_unguarded`.
        self.with_token(token, |driver| driver.write_slice(token, bytes))
    }

    /// Sends as much of a file as the kernel accepts at once. The caller records the progress.
    ///
    /// # Errors
    /// The driver's error, or `NotFound` if the token is not attached.
    pub fn send_file(&self, token: Token, file: &FileRegion) -> io::Result<Submit> {
        self.with_live_token(token, |driver| driver.send_file(token, file))
    }

    /// Sends datagrams from the front of the batch, as many as the kernel accepts at once.
    ///
    /// # Errors
    /// The driver's error, which concerns the first datagram, or `NotFound` if the token is not attached.
    pub fn send_datagrams(
        &self,
        token: Token,
        batch: &mut dyn Iterator<Item = &Datagram>,
    ) -> io::Result<Submit> {
        self.with_live_token(token, |driver| driver.send_datagrams(token, batch))
    }

    /// Sends bytes with file descriptors or credentials: on a stream as many bytes as the kernel accepts at once,
    /// otherwise one datagram.
    ///
    /// # Errors
    /// The driver's error, or `NotFound` if the token is not attached.
    pub fn send_ancillary(&self, token: Token, ancillary: &AncillaryMessage) -> io::Result<Submit> {
        self.with_live_token(token, |driver| driver.send_ancillary(token, ancillary))
    }

    /// Returns the credentials of the process that an attached socket is connected to.
    ///
    /// # Errors
    /// The driver's error, or `NotFound` if the token is not attached.
    pub fn peer_credentials(&self, token: Token) -> io::Result<Credentials> {
        self.with_live_token(token, |driver| driver.peer_credentials(token))
    }

    /// Shuts down one or both directions of an attached stream.
    ///
    /// # Errors
    /// The driver's error, or `NotFound` if the token is not attached.
    pub fn shutdown(&self, token: Token, how: Shutdown) -> io::Result<()> {
        self.with_live_token(token, |driver| driver.shutdown(token, how))
    }

    pub(crate) fn set_interest(&self, token: Token, interest: Interest) -> io::Result<()> {
        self.with_live_token(token, |driver| driver.set_interest(token, interest))
    }

    #[inline]
    fn with_live_token<R>(
        &self,
        token: Token,
        call: impl FnOnce(&mut dyn Driver) -> io::Result<R>,
    ) -> io::Result<R> {
        if !self.parts.registrations.is_live(token) {
            return Err(not_registered(token));
        }
        self.with_token(token, call)
    }

    /// Calls the driver for this token. If the driver panics, the token is detached (R05).
    #[inline]
    fn with_token<R>(
        &self,
        token: Token,
        call: impl FnOnce(&mut dyn Driver) -> io::Result<R>,
    ) -> io::Result<R> {
        self.call_driver(call).unwrap_or_else(|panicked| {
            self.detach_after_panic(token, &panicked);
            Err(io::Error::other(panicked))
        })
    }

    /// Calls the driver and catches its panic. The driver is not borrowed afterwards, even after a panic.
    #[inline]
    pub(super) fn call_driver<R>(
        &self,
        call: impl FnOnce(&mut dyn Driver) -> io::Result<R>,
    ) -> Result<io::Result<R>, DriverPanicked> {
        catch_unwind(AssertUnwindSafe(|| self.with_driver(call))).map_err(driver_panicked)
    }

    #[inline(always)]
    pub(super) fn with_driver<R>(
        &self,
        call: impl FnOnce(&mut dyn Driver) -> io::Result<R>,
    ) -> io::Result<R> {
        match self.parts.driver.borrow_mut().as_mut() {
            Some(driver) => call(&mut **driver),
            None => Err(io::Error::other(LoopShutDown)),
        }
    }

    /// True if the token is attached, and not being detached.
    pub(crate) fn is_live(&self, token: Token) -> bool {
        self.parts.registrations.is_live(token)
    }

    fn has_driver(&self) -> bool {
        self.parts.driver.borrow().is_some()
    }

    /// Detaches a registration because the driver panicked while working on it. Returns `false` if it was already
    /// detached or detaching.
    #[cold]
    pub(super) fn detach_after_panic(&self, token: Token, panicked: &DriverPanicked) -> bool {
        let Some(origin) = self.parts.registrations.origin(token) else { return false };
        let what = "closed, and the loop goes on with the others";
        report(Fault::Driver(format!("{panicked}; the registration from {origin} is {what}")));
        self.detach_with(token, Some(Error::new(panicked.clone())))
    }
}

#[cold]
pub(super) fn driver_panicked(payload: Box<dyn Any + Send>) -> DriverPanicked {
    DriverPanicked { message: panic_message(payload) }
}

#[cold]
fn not_registered(token: Token) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{token:?} is not registered"))
}
