//! What a loop does with what is attached to its driver: sockets, and descriptors of others.

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
use crate::driver::{
    Detach, Driver, DriverPanicked, Interest, Io, OutQueue, ReadPlan, Role, SocketOption, Submit,
};
use crate::event_loop::registrations::{EventReceiver, Registrant};
use crate::payload::{AncillaryMessage, Credentials, Datagram, FileRegion};
use crate::token::Token;

impl LocalLoop {
    /// Gives the driver a socket. Reads are off.
    ///
    /// # Errors
    /// What the driver says; [`LoopShutDown`] if the loop is shutting down. Socket and registrant are
    /// dropped then.
    #[track_caller]
    pub fn attach(&self, io: Io, role: Role, registrant: impl Registrant) -> io::Result<Token> {
        self.attach_for(io, role, Rc::new(RefCell::new(registrant)))
    }

    /// The same, for a receiver that several registrations may share.
    #[track_caller]
    pub(crate) fn attach_for(
        &self,
        io: Io,
        role: Role,
        receiver: Rc<dyn EventReceiver>,
    ) -> io::Result<Token> {
        let origin = Origin::here();
        self.register(origin, receiver, |driver, token| driver.attach(token, io, role))
    }

    /// Gives the driver a descriptor that is no channel's, to be told when it is ready.
    ///
    /// # Errors
    /// As for [`attach`](Self::attach).
    pub(crate) fn watch(
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
                let _ = self.let_driver_detach(token); // It may have taken it in before it panicked.
                Err(io::Error::other(panicked))
            });
        if let Err(error) = &mut entered {
            self.parts.registrations.withdraw(token);
            if let Some(io) = Io::take_refused(error) {
                self.parts.registrations.keep_refused(io);
            }
        }
        self.parts.counters.registrations(self.registrations());
        entered.map(|()| token)
    }

    /// Lets a registration go: its [`on_detached`](Registrant::on_detached) follows, without a cause.
    /// `false` if there is no such registration, or it is going already.
    pub fn detach(&self, token: Token) -> bool {
        self.detach_with(token, None)
    }

    pub(crate) fn detach_with(&self, token: Token, cause: Option<Error>) -> bool {
        let begun = self.parts.registrations.begin_detach(token, cause);
        if begun && self.has_driver() {
            self.parts.registrations.detached(token, self.let_driver_detach(token));
        }
        begun
    }

    /// Closes an attached socket. `Done`: it is gone, now or before, and its registrant is told nothing more.
    /// Otherwise its [`on_detached`](Registrant::on_detached) follows.
    pub(crate) fn close_socket(&self, token: Token) -> Detach {
        if !self.parts.registrations.begin_detach(token, None) || !self.has_driver() {
            return Detach::Done;
        }
        let detached = self.let_driver_detach(token);
        if detached == Detach::Done {
            self.parts.registrations.withdraw(token);
            self.parts.counters.registrations(self.registrations());
        }
        detached
    }

    /// Asks the driver to let go. If it panics there is no more to ask of it, and the token is taken to be gone.
    fn let_driver_detach(&self, token: Token) -> Detach {
        let detached = self.call_driver(|driver| Ok(driver.detach(token)));
        detached.ok().and_then(Result::ok).unwrap_or(Detach::Done)
    }

    /// Takes a socket back from the driver, without closing it. Its registrant is dropped, and told
    /// nothing more.
    ///
    /// # Errors
    /// What the driver says; that the token is not attached.
    pub fn release(&self, token: Token) -> io::Result<Io> {
        let io = self.with_live(token, |driver| driver.release(token))?;
        self.parts.registrations.withdraw(token);
        self.parts.counters.registrations(self.registrations());
        Ok(io)
    }

    /// Where an attached socket is bound.
    #[must_use]
    pub fn local_address(&self, token: Token) -> Option<Address> {
        self.with_token(token, |driver| Ok(driver.local_address(token))).ok().flatten()
    }

    /// Sets an option of an attached socket.
    ///
    /// # Errors
    /// What the driver says; that the token is not attached.
    pub fn set_option(&self, token: Token, option: SocketOption) -> io::Result<()> {
        self.with_live(token, |driver| driver.set_option(token, option))
    }

    /// Turns the reading of an attached socket on or off.
    pub fn set_read(&self, token: Token, plan: Option<ReadPlan>) {
        let _closed = self.with_live(token, |driver| {
            driver.set_read(token, plan);
            Ok(())
        });
    }

    /// Writes as much of the queue as the kernel takes at once; the caller takes it out of the queue.
    ///
    /// # Errors
    /// What the driver says; that the token is not attached.
    pub fn write(&self, token: Token, queue: &OutQueue) -> io::Result<Submit> {
        self.with_live(token, |driver| driver.write(token, queue))
    }

    /// Writes as [`write`](Self::write) does, for a caller that catches the driver's panic itself and closes the
    /// token: this is on the way of every answer.
    #[inline(always)]
    pub(crate) fn write_unguarded(&self, token: Token, queue: &OutQueue) -> io::Result<Submit> {
        // Of a token that is going the driver knows as little as of one that is gone.
        self.with_driver(|driver| driver.write(token, queue))
    }

    /// Sends as much of a file as the kernel takes at once; the caller notes how far it has come.
    ///
    /// # Errors
    /// What the driver says; that the token is not attached.
    pub fn send_file(&self, token: Token, file: &FileRegion) -> io::Result<Submit> {
        self.with_live(token, |driver| driver.send_file(token, file))
    }

    /// Sends the first of these datagrams, as many as the kernel takes at once.
    ///
    /// # Errors
    /// What the driver says, about the first; that the token is not attached.
    pub fn send_datagrams(
        &self,
        token: Token,
        batch: &mut dyn Iterator<Item = &Datagram>,
    ) -> io::Result<Submit> {
        self.with_live(token, |driver| driver.send_datagrams(token, batch))
    }

    /// Sends an ancillary message: as much of it as the kernel takes at once, or as a datagram.
    ///
    /// # Errors
    /// What the driver says; that the token is not attached.
    pub fn send_ancillary(&self, token: Token, ancillary: &AncillaryMessage) -> io::Result<Submit> {
        self.with_live(token, |driver| driver.send_ancillary(token, ancillary))
    }

    /// Who an attached socket is connected to.
    ///
    /// # Errors
    /// What the driver says; that the token is not attached.
    pub fn peer_credentials(&self, token: Token) -> io::Result<Credentials> {
        self.with_live(token, |driver| driver.peer_credentials(token))
    }

    /// Shuts one or both directions of an attached stream down.
    ///
    /// # Errors
    /// What the driver says; that the token is not attached.
    pub fn shutdown(&self, token: Token, how: Shutdown) -> io::Result<()> {
        self.with_live(token, |driver| driver.shutdown(token, how))
    }

    pub(crate) fn set_interest(&self, token: Token, interest: Interest) -> io::Result<()> {
        self.with_live(token, |driver| driver.set_interest(token, interest))
    }

    #[inline]
    fn with_live<R>(
        &self,
        token: Token,
        call: impl FnOnce(&mut dyn Driver) -> io::Result<R>,
    ) -> io::Result<R> {
        if !self.parts.registrations.is_live(token) {
            return Err(not_registered(token));
        }
        self.with_token(token, call)
    }

    /// Calls the driver for this token, which is let go if that panics (R05).
    #[inline]
    fn with_token<R>(
        &self,
        token: Token,
        call: impl FnOnce(&mut dyn Driver) -> io::Result<R>,
    ) -> io::Result<R> {
        self.call_driver(call).unwrap_or_else(|panicked| {
            self.lose(token, &panicked);
            Err(io::Error::other(panicked))
        })
    }

    /// Calls the driver, of which nothing is borrowed afterwards, whatever it does.
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

    /// Whether the token is attached, and not being detached.
    pub(crate) fn is_live(&self, token: Token) -> bool {
        self.parts.registrations.is_live(token)
    }

    fn has_driver(&self) -> bool {
        self.parts.driver.borrow().is_some()
    }

    /// Lets a registration go because the driver panicked over it. `false`: it was going, or gone, before.
    #[cold]
    pub(super) fn lose(&self, token: Token, panicked: &DriverPanicked) -> bool {
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
