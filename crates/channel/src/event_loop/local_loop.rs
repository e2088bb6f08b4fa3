//! The loop as seen from its own thread.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::io;
use std::net::Shutdown;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::{Arc, Weak};

use waterwheel_executor::engine::{report, run_as, run_user_code};
use waterwheel_executor::{CommandSender, Error, Fault, Nanos, Origin, UserCode};

use crate::channel::address::Address;
use crate::channel::channels::Channels;
use crate::datagram::Datagram;
use crate::driver::{
    Detach, Driver, Interest, Io, IoEvent, OutQueue, ReadPlan, Role, SocketOption, Submit,
};
use crate::event_loop::berths::{Berth, Berths};
use crate::event_loop::command::{Ask, LoopCommand};
use crate::event_loop::draining::CurrentDrain;
use crate::event_loop::handle::EventLoop;
use crate::event_loop::registrations::{Registrant, Registrations};
use crate::file_region::FileRegion;
use crate::futures::{Futures, LocalJoin, Sleepers};
use crate::metrics::Counters;
use crate::parcel::{Credentials, Parcel};
use crate::tail::Tail;
use crate::token::Token;

/// An event loop, on its own thread: registers, reads and writes at once, and holds what need not be
/// `Send`. Cheap to clone; not `Send`.
///
/// It does not keep the loop alive. Once the loop has ended its calls fail.
#[derive(Clone)]
pub struct LocalLoop {
    parts: Rc<Parts>,
}

/// What only the loop's thread touches. Nothing in here is borrowed while user code runs.
struct Parts {
    /// `None` once it is closed.
    driver: RefCell<Option<Box<dyn Driver>>>,
    registrations: Registrations,
    channels: Channels,
    drain: CurrentDrain,
    futures: Futures,
    sleepers: Sleepers,
    tail: Tail,
    sender: CommandSender<LoopCommand>,
    counters: Arc<Counters>,
    /// Of a group with a loop for each channel, and what this one was taken by.
    berths: Option<Weak<Berths>>,
    berth: RefCell<Option<Berth>>,
    /// Nothing is registered any more: the loop is shutting down.
    closing: Cell<bool>,
    /// A rebuild was asked for.
    rebuild: Cell<bool>,
    /// No wait goes beyond this: of a loop that is driven by hand. Otherwise the end of time.
    wait_limit: Cell<Nanos>,
}

/// The loop was shut down, or is shutting down.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the event loop is shutting down")]
pub struct LoopShutDown;

thread_local! {
    static CURRENT: RefCell<Option<LocalLoop>> = const { RefCell::new(None) };
}

impl LocalLoop {
    pub(crate) fn new(
        driver: Box<dyn Driver>,
        sender: CommandSender<LoopCommand>,
        counters: Arc<Counters>,
        berths: Option<Weak<Berths>>,
    ) -> Self {
        let parts = Parts {
            driver: RefCell::new(Some(driver)),
            registrations: Registrations::default(),
            channels: Channels::default(),
            drain: CurrentDrain::default(),
            futures: Futures::default(),
            sleepers: Sleepers::default(),
            tail: Tail::default(),
            sender,
            counters,
            berths,
            berth: RefCell::default(),
            closing: Cell::new(false),
            rebuild: Cell::new(false),
            wait_limit: Cell::new(Nanos::MAX),
        };
        Self { parts: Rc::new(parts) }
    }

    /// The loop that runs on this thread, if there is one.
    ///
    /// ```
    /// use waterwheel_channel::driver::TaskOnly;
    /// use waterwheel_channel::{EventLoopGroup, LocalLoop};
    ///
    /// let group = EventLoopGroup::builder(TaskOnly).threads(1).build()?;
    /// assert!(group.submit(|| LocalLoop::current().is_some())?.join()?);
    /// assert!(LocalLoop::current().is_none(), "this thread is no loop");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn current() -> Option<Self> {
        let current = CURRENT.try_with(|current| current.borrow().clone()).ok().flatten();
        // Not while an executor that is driven by hand runs in one of its callbacks.
        current.filter(|here| here.parts.sender.in_event_loop())
    }

    /// Makes it this thread's loop, until the guard goes.
    pub(crate) fn enter(&self) -> Here {
        // Gone, if a loop driven by hand is kept in a thread-local and dropped with its thread.
        let entered = CURRENT.try_with(|current| current.replace(Some(self.clone())));
        Here { previous: entered.ok().flatten() }
    }

    /// A handle, for other threads. It keeps the loop alive only if there is another one.
    #[must_use]
    pub fn handle(&self) -> EventLoop {
        EventLoop::new(self.parts.sender.executor())
    }

    /// The time, by the loop's clock.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.parts.sender.clock().now()
    }

    // Registering.

    /// Gives the driver a socket. Reads are off.
    ///
    /// # Errors
    /// What the driver says; [`LoopShutDown`] if the loop is shutting down. Socket and registrant are
    /// dropped then.
    #[track_caller]
    pub fn attach(&self, io: Io, role: Role, registrant: impl Registrant) -> io::Result<Token> {
        let origin = Origin::here();
        self.register(origin, registrant, |driver, token| driver.attach(token, io, role))
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
        self.register(origin, registrant, |driver, token| {
            driver.register_foreign(token, io, interest)
        })
    }

    fn register(
        &self,
        origin: Origin,
        registrant: impl Registrant,
        enter: impl FnOnce(&mut dyn Driver, Token) -> io::Result<()>,
    ) -> io::Result<Token> {
        if self.is_closing() {
            return Err(io::Error::other(LoopShutDown));
        }
        let token = self.parts.registrations.add(origin, Box::new(registrant));
        let entered = self.with_driver(|driver| enter(driver, token));
        if entered.is_err() {
            self.parts.registrations.withdraw(token);
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
        if begun && let Some(driver) = self.parts.driver.borrow_mut().as_mut() {
            self.parts.registrations.detached(token, driver.detach(token));
        }
        begun
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
        self.parts.driver.borrow().as_ref()?.local_address(token)
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
        // Of a token that is going the driver knows as little as of one that is gone.
        self.with_driver(|driver| driver.write(token, queue))
    }

    /// Asked in the course of a `Read`: whether that was all of its round. `ReadComplete` does not follow
    /// then.
    #[inline]
    pub(crate) fn take_read_complete(&self, token: Token) -> bool {
        let mut driver = self.parts.driver.borrow_mut();
        driver.as_mut().is_some_and(|driver| driver.take_read_complete(token))
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

    /// Sends a parcel: as much of it as the kernel takes at once, or as a datagram.
    ///
    /// # Errors
    /// What the driver says; that the token is not attached.
    pub fn send_parcel(&self, token: Token, parcel: &Parcel) -> io::Result<Submit> {
        self.with_live(token, |driver| driver.send_parcel(token, parcel))
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
        self.with_driver(call)
    }

    #[inline]
    fn with_driver<R>(&self, call: impl FnOnce(&mut dyn Driver) -> io::Result<R>) -> io::Result<R> {
        match self.parts.driver.borrow_mut().as_mut() {
            Some(driver) => call(&mut **driver),
            None => Err(io::Error::other(LoopShutDown)),
        }
    }

    // Futures.

    /// Runs a future on this loop. It need not be `Send`, nor what it gives. Dropping the handle lets
    /// it run on.
    #[track_caller]
    pub fn spawn_local<F: Future + 'static>(&self, future: F) -> LocalJoin<F::Output> {
        self.parts.futures.spawn_local(self, Origin::here(), future)
    }

    pub(crate) fn channels(&self) -> &Channels {
        &self.parts.channels
    }

    pub(crate) fn drain(&self) -> &CurrentDrain {
        &self.parts.drain
    }

    /// Whether nothing more is registered: the loop is shutting down.
    pub(crate) fn is_closing(&self) -> bool {
        self.parts.closing.get() || self.parts.sender.is_shutting_down()
    }

    pub(crate) fn futures(&self) -> &Futures {
        &self.parts.futures
    }

    pub(crate) fn sleepers(&self) -> &Sleepers {
        &self.parts.sleepers
    }

    pub(crate) fn sender(&self) -> &CommandSender<LoopCommand> {
        &self.parts.sender
    }

    // The turn's side.

    /// Performs a command that came through the queue.
    pub(crate) fn on_command(&self, command: LoopCommand) {
        match command.0 {
            Ask::Poll(token) => self.parts.futures.woken(token),
            Ask::Abort(notifier) => self.parts.futures.abort(&notifier),
            Ask::Awake(token) => self.parts.sleepers.awake(token),
            Ask::Forget(timer, sleeper) => self.parts.sleepers.forget(self, timer, sleeper),
            Ask::Tail(entry) => self.parts.tail.push(entry),
            Ask::Rebuild => self.parts.rebuild.set(true),
            Ask::Register(registration) => self.register_channel(registration.0, registration.1),
            Ask::Adopt(new, children) => self.adopt(*new, &children),
            Ask::Channel(token, request) => self.channels().perform(token, *request),
            Ask::Errand(errand) => errand.perform(self),
            Ask::WriteOut(token) => self.channels().with(token, |core| core.go_on_writing()),
            Ask::Pump(token) => self.channels().with(token, |core| {
                core.shared().pump_arrived();
                core.pump_later();
            }),
            Ask::ConnectTimeout(token) => {
                self.channels().with(token, |core| core.on_connect_timeout());
            }
            Ask::ConnectAgain(token) => {
                self.channels().with(token, |core| core.on_connect_pause_over());
            }
            Ask::ResumeReading(token) => {
                self.channels().with(token, |core| core.resume_reading());
            }
            Ask::Admit(token, children) => {
                self.channels().with(token, |core| children.let_in(core));
            }
            Ask::Mail(link) => self.channels().on_mail(&link),
            Ask::Look(question) => self.look_when_settled(question),
            Ask::Timer(timer) => self.channels().with(timer.channel, |core| {
                core.enter(|core| core.on_timer(timer));
            }),
            Ask::Call(call) => call(self),
        }
    }

    /// Whether there is something to do that is not in the executor's queue.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        let parts = &self.parts;
        // Mostly there is nothing anywhere: one branch for all of them.
        let waiting = parts.futures.ready() | parts.tail.len() | parts.registrations.ended();
        waiting | parts.channels.left() | usize::from(parts.rebuild.get()) != 0
    }

    pub(crate) fn set_wait_limit(&self, limit: Option<Nanos>) {
        self.parts.wait_limit.set(limit.unwrap_or(Nanos::MAX));
    }

    pub(crate) fn wait_limit(&self) -> Nanos {
        self.parts.wait_limit.get()
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.parts.counters
    }

    /// Takes this loop for something that comes without having taken one, if it is idle.
    pub(crate) fn claim(&self) -> Result<Option<Berth>, Error> {
        let Some(berths) = self.parts.berths.as_ref().and_then(Weak::upgrade) else {
            return Ok(None);
        };
        berths.claim(self.parts.sender.id()).map_err(Error::new)
    }

    /// What the loop was taken by is here, or has failed to be: then the loop is free again.
    pub(crate) fn keep(&self, berth: Option<Berth>) {
        if berth.is_some() {
            self.parts.berth.replace(berth);
            self.vacate();
        }
    }

    /// Gives the loop back to its group, if nothing is left here.
    pub(crate) fn vacate(&self) {
        if self.parts.berths.is_some() && !self.is_populated() {
            drop(self.parts.berth.take());
        }
    }

    pub(crate) fn registrations(&self) -> usize {
        self.parts.registrations.len()
    }

    /// Whether something is still registered, or on its way out.
    pub(crate) fn is_populated(&self) -> bool {
        self.registrations() > 0 || self.channels().len() > 0
    }

    /// Does what calls into channels have left behind and was not done at their end.
    pub(crate) fn settle_channels(&self) {
        self.channels().settle_if_outermost();
    }

    /// Waits in the driver.
    pub(crate) fn wait(&self, until: Option<Nanos>) -> io::Result<crate::driver::Waited> {
        self.with_driver(|driver| driver.wait(until))
    }

    /// Hands out the events of this round; returns how many there were.
    #[inline]
    pub(crate) fn dispatch_events(&self) -> u64 {
        let (count, last) = (Cell::new(0), Cell::new(None));
        // One guard for all of them, raised again after whoever panics: that is detached.
        while let Err(payload) = catch_unwind(AssertUnwindSafe(|| self.dispatch(&count, &last))) {
            self.panicked(last.get(), payload);
        }
        count.get()
    }

    /// Hands out events until there are none; `last` is whoever is called.
    #[inline]
    fn dispatch(&self, count: &Cell<u64>, last: &Cell<Option<Token>>) {
        loop {
            let Some(event) = self.next_event() else { return };
            let token = event.token();
            count.set(count.get() + 1);
            if let IoEvent::Detached(_) = event {
                self.parts.registrations.detached(token, Detach::Done);
                continue;
            }
            let Some(mut taken) = self.parts.registrations.take(token) else { continue };
            last.set(Some(token));
            let begun = self.parts.sender.begin(UserCode::Callback, taken.origin);
            let called = taken.on_event(self, event);
            drop(begun);
            taken.put_back();
            std::mem::forget(taken); // Spares the way out a destructor that finds nothing to do.
            last.set(None);
            if let Err(error) = called {
                self.detach_with(token, Some(error));
            }
        }
    }

    #[cold]
    fn panicked(&self, token: Option<Token>, payload: Box<dyn Any + Send>) {
        let found = token.and_then(|token| Some((token, self.parts.registrations.origin(token)?)));
        // Otherwise it is the driver that panics: nobody knows what it would do next.
        let Some((token, origin)) = found else { resume_unwind(payload) };
        let caught = run_user_code(UserCode::Callback, origin, || resume_unwind(payload));
        self.detach_with(token, caught.err());
    }

    #[inline]
    fn next_event(&self) -> Option<IoEvent> {
        self.parts.driver.borrow_mut().as_mut()?.next_event()
    }

    /// Polls the futures that are ready now; returns how many.
    pub(crate) fn poll_futures(&self) -> u64 {
        if self.parts.futures.ready() == 0 {
            return 0;
        }
        let polled = self.parts.futures.poll_ready(&self.parts.sender);
        self.parts.counters.polled(polled);
        polled
    }

    pub(crate) fn run_tail(&self) {
        self.parts.tail.run(&self.parts.sender);
    }

    /// Tells the registrations that have ended.
    #[inline]
    pub(crate) fn finish_ended(&self) {
        if self.parts.registrations.ended() > 0 {
            self.tell_ended();
        }
    }

    fn tell_ended(&self) {
        self.parts.registrations.finish_ended(self);
        self.vacate();
        self.parts.counters.registrations(self.registrations());
    }

    pub(crate) fn take_rebuild_request(&self) -> bool {
        self.parts.rebuild.take()
    }

    /// Replaces the driver's selector, and reports it with the reason.
    pub(crate) fn rebuild(&self, reason: &str) {
        match self.with_driver(|driver| driver.rebuild()) {
            Ok(moved) => {
                self.parts.counters.rebuilt();
                let message = format!("{reason}: selector rebuilt, {moved} registrations moved");
                report(Fault::Driver(message));
            }
            Err(error) => {
                let message = format!("{reason}: no new selector, the old one stays: {error}");
                report(Fault::Driver(message));
            }
        }
    }

    /// The shutdown has begun: whatever is registered goes, and nothing more is.
    pub(crate) fn begin_closing(&self) {
        if !self.parts.closing.replace(true) {
            self.cut_drain_short();
            self.channels().close_all();
            for token in self.parts.registrations.to_be_detached() {
                self.detach_with(token, Some(Error::new(LoopShutDown)));
            }
        }
    }

    /// The loop is over: driver, registrations, futures, in this order. Tail tasks that came with the
    /// last commands run before: they were accepted.
    pub(crate) fn close(&self) {
        self.parts.closing.set(true);
        self.cut_drain_short();
        self.parts.tail.run(&self.parts.sender);
        self.channels().end_all();
        let driver = self.parts.driver.borrow_mut().take();
        let origin = Origin::labelled("driver");
        let _ = run_as(UserCode::Destructor, origin, || drop(driver));
        self.parts.registrations.finish_all(self, &Error::new(LoopShutDown));
        self.parts.counters.registrations(0);
        self.parts.futures.close();
        self.parts.sleepers.close();
        drop(self.parts.berth.take());
    }
}

#[cold]
fn not_registered(token: Token) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{token:?} is not registered"))
}

impl fmt::Debug for LocalLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LocalLoop").field(&self.parts.sender).finish()
    }
}

/// The thread's previous loop comes back when it is dropped.
#[must_use = "leaving happens when it is dropped"]
#[derive(Debug)]
pub(crate) struct Here {
    previous: Option<LocalLoop>,
}

impl Drop for Here {
    fn drop(&mut self) {
        let previous = self.previous.take();
        let left = CURRENT.try_with(|current| current.replace(previous));
        drop(left); // Outside of the borrow: destructors may ask for the current loop.
    }
}
