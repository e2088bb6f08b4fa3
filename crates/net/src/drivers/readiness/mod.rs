//! The readiness driver: everything but the kernel's set of descriptors, which the selector holds.
//!
//! ```text
//!   attach, set_read, write …  ──► changes ──► wait: apply changes, ask the selector ──► events, queue ──► next_event
//! ```
//!
//! - The events a registration is watched for follow from its state. A call that changes that state puts the
//!   token on the list of changes, and the kernel learns of it in the next wait. A socket that is attached and
//!   begins to read costs one `epoll_ctl` call; turning its reads off and on again costs none. Foreign
//!   registrations are added at once, because their caller needs to know if the kernel refuses them.
//! - TCP sockets and datagram sockets are edge-triggered if the selector supports it: reported readiness is
//!   kept until a system call disproves it. A registration that still has work by that readiness at the end of
//!   its visit, or when reads are turned on, is queued without asking the kernel. An edge that no registration
//!   waits for does not end a wait.
//! - A wait marks the tokens that are ready. `next_event` visits them one by one, in the order of the selector's
//!   buffer, and makes the system call whose result is the event. A token that was detached in between is
//!   skipped. A token queued after the wait belongs to the next [round](round).
//! - While a round is not over, `wait` returns at once without asking the kernel: no later report can overtake
//!   a registration of this round, and readiness is not lost. Otherwise every wait asks the kernel, and the
//!   registrations it reports come before those that were queued.

mod datagram_endpoint;
mod read_block;
mod read_plan;
mod registration;
mod round;
mod stream_endpoint;
#[cfg(test)]
mod tests;

use std::io::{Error, ErrorKind, Result};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use waterwheel_channel::driver::{
    Detach, Driver, Interest, Io, IoEvent, OutQueue, ReadPlan, Role, SocketOption, Submit,
    WaitSummary,
};
use waterwheel_channel::{
    Address, AncillaryMessage, Credentials, Datagram, FileRegion, Token, TokenMap,
};
use waterwheel_executor::{Clock, Nanos, Unpark};

use self::datagram_endpoint::{DatagramBuffer, DatagramEndpoint};
use self::read_block::ReadBlock;
use self::registration::{ForeignEndpoint, RegisteredIo, Registration};
use self::round::{WOKEN, enqueue, note_change};
use self::stream_endpoint::StreamEndpoint;
use crate::drivers::selector::Selector;
use crate::drivers::waker::Waker;
use crate::error_context::{context, errno};
use crate::foreign::ForeignFd;

/// A driver over a selector. See the [module documentation](self).
pub(crate) struct ReadinessDriver<S> {
    name: &'static str,
    /// True if only one socket may be attached at a time: a second socket is refused.
    is_single_socket: bool,
    selector: S,
    waker: Arc<Waker>,
    clock: Clock,
    registrations: TokenMap<Registration>,
    /// Registrations whose watched events may have to change.
    changes: Vec<Token>,
    /// This round: `event_count` events of the selector, then the tokens in `queue`. `cursor` counts through
    /// both.
    event_count: usize,
    queue: Vec<Token>,
    cursor: usize,
    /// Tokens to visit in the next round. A registered token is in `queue` or `deferred`, at most once.
    deferred: Vec<Token>,
    /// Steps that the registration at `cursor` has taken in this round.
    steps: u32,
    /// The token whose watched events are being changed.
    applying: Option<Token>,
    read_block: ReadBlock,
    datagram_buffer: DatagramBuffer,
}

impl<S: Selector> ReadinessDriver<S> {
    /// Creates a driver without registrations.
    pub(crate) fn new(name: &'static str, selector: S, waker: Arc<Waker>) -> Self {
        Self {
            name,
            is_single_socket: false,
            selector,
            waker,
            clock: Clock::Monotonic,
            registrations: TokenMap::new(),
            changes: Vec::new(),
            event_count: 0,
            queue: Vec::new(),
            cursor: 0,
            deferred: Vec::new(),
            steps: 0,
            applying: None,
            read_block: ReadBlock::default(),
            datagram_buffer: DatagramBuffer::default(),
        }
    }

    /// Limits the driver to one socket at a time.
    pub(crate) fn single_socket(self) -> Self {
        Self { is_single_socket: true, ..self }
    }

    /// Calls `act` with the stream or listener of this token, and records if its watched events have to change.
    fn with_socket<R>(
        &mut self,
        token: Token,
        act: impl FnOnce(&mut StreamEndpoint) -> Result<R>,
    ) -> Result<R> {
        let registration = self.registrations.get_mut(token).ok_or_else(|| unknown(token))?;
        let io = &mut registration.io;
        let RegisteredIo::Stream(endpoint) = io else {
            return Err(wrong_kind(token, io.kind(), "a stream or listener"));
        };
        let result = act(endpoint);
        note_change(registration, token, &mut self.changes);
        result
    }
}

impl<S: Selector> Driver for ReadinessDriver<S> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }

    fn waker(&self) -> Arc<dyn Unpark> {
        self.waker.clone()
    }

    fn attach(&mut self, token: Token, io: Io, role: Role) -> Result<()> {
        self.check_free(token)?;
        self.check_socket_count()?;
        let io = match role {
            Role::Datagram => {
                let socket = expect(io, token, "a waterwheel_net::DatagramSocket")?;
                RegisteredIo::Datagram(Box::new(DatagramEndpoint::new(socket, S::SUPPORTS_EDGES)))
            }
            role => {
                let socket = expect(io, token, "a waterwheel_net::Socket")?;
                RegisteredIo::Stream(StreamEndpoint::new(socket, role, S::SUPPORTS_EDGES)?)
            }
        };
        let mut registration = Registration::new(io);
        note_change(&mut registration, token, &mut self.changes);
        // A connect may have succeeded at once: its event is owed.
        if registration.io.has_work() {
            enqueue(&mut registration, token, &mut self.deferred);
        }
        self.registrations.insert(token, registration);
        Ok(())
    }

    fn detach(&mut self, token: Token) -> Detach {
        if self.applying == Some(token) {
            self.applying = None;
        }
        if let Some(registration) = self.registrations.remove(token) {
            registration.remove_before_close(token, &mut self.selector);
        }
        Detach::Done
    }

    fn release(&mut self, token: Token) -> Result<Io> {
        let io = &self.registrations.get(token).ok_or_else(|| unknown(token))?.io;
        match io {
            RegisteredIo::Stream(endpoint) => endpoint.check_releasable()?,
            RegisteredIo::Datagram(_) => {}
            RegisteredIo::Foreign(_) => return Err(wrong_kind(token, io.kind(), "a socket")),
        }
        let mut registration = self.registrations.remove(token).ok_or_else(|| unknown(token))?;
        registration.remove_from_set(token, &mut self.selector);
        match registration.io {
            RegisteredIo::Stream(endpoint) => Ok(endpoint.into_socket().into()),
            RegisteredIo::Datagram(endpoint) => Ok(endpoint.into_socket().into()),
            RegisteredIo::Foreign(_) => unreachable!("checked above: not foreign"),
        }
    }

    fn local_address(&self, token: Token) -> Option<Address> {
        self.registrations.get(token)?.io.socket()?.local_address()
    }

    fn set_option(&mut self, token: Token, option: SocketOption) -> Result<()> {
        let registration = self.registrations.get_mut(token).ok_or_else(|| unknown(token))?;
        let io = &registration.io;
        let no_socket = || wrong_kind(token, io.kind(), "a socket");
        io.socket().ok_or_else(no_socket)?.set_option(option)?;
        if let RegisteredIo::Stream(endpoint) = &mut registration.io {
            endpoint.on_option_set();
        }
        Ok(())
    }

    fn set_read(&mut self, token: Token, plan: Option<ReadPlan>) {
        let Some(registration) = self.registrations.get_mut(token) else { return };
        registration.io.set_read(plan);
        note_change(registration, token, &mut self.changes);
        // The kernel may have reported readiness before, and datagrams may have been received but not handed
        // out.
        if registration.io.has_work() {
            enqueue(registration, token, &mut self.deferred);
        }
    }

    fn write(&mut self, token: Token, queue: &OutQueue) -> Result<Submit> {
        self.write_with(token, |endpoint| endpoint.write(queue))
    }

    fn write_slice(&mut self, token: Token, bytes: &[u8]) -> Result<Submit> {
        self.write_with(token, |endpoint| endpoint.write_slice(bytes))
    }

    fn send_file(&mut self, token: Token, file: &FileRegion) -> Result<Submit> {
        self.with_socket(token, |endpoint| endpoint.send_file(file))
    }

    fn send_datagrams(
        &mut self,
        token: Token,
        batch: &mut dyn Iterator<Item = &Datagram>,
    ) -> Result<Submit> {
        let registration = self.registrations.get_mut(token).ok_or_else(|| unknown(token))?;
        let io = &mut registration.io;
        let RegisteredIo::Datagram(endpoint) = io else {
            return Err(wrong_kind(token, io.kind(), "a socket for datagrams"));
        };
        let sent = endpoint.send(batch);
        // The send may have returned the error of an earlier datagram.
        let has_work = endpoint.has_work();
        note_change(registration, token, &mut self.changes);
        if has_work {
            enqueue(registration, token, &mut self.deferred);
        }
        sent
    }

    fn send_ancillary(&mut self, token: Token, message: &AncillaryMessage) -> Result<Submit> {
        let registration = self.registrations.get_mut(token).ok_or_else(|| unknown(token))?;
        let sent = match &mut registration.io {
            RegisteredIo::Stream(endpoint) => endpoint.send_ancillary(message),
            RegisteredIo::Datagram(endpoint) => endpoint.send_ancillary(message),
            other => Err(wrong_kind(token, other.kind(), "a socket")),
        };
        note_change(registration, token, &mut self.changes);
        sent
    }

    fn peer_credentials(&self, token: Token) -> Result<Credentials> {
        let registration = self.registrations.get(token).ok_or_else(|| unknown(token))?;
        let io = &registration.io;
        let no_socket = || wrong_kind(token, io.kind(), "a socket");
        io.socket().ok_or_else(no_socket)?.peer_credentials()
    }

    fn shutdown(&mut self, token: Token, how: Shutdown) -> Result<()> {
        self.with_socket(token, |endpoint| endpoint.shutdown(how))
    }

    fn register_foreign(&mut self, token: Token, io: Io, interest: Interest) -> Result<()> {
        self.check_free(token)?;
        let source = expect::<ForeignFd>(io, token, "a value of waterwheel_net::foreign_io")?;
        let mut registration =
            Registration::new(RegisteredIo::Foreign(ForeignEndpoint::new(source, interest)?));
        registration.apply(token, &mut self.selector)?;
        self.registrations.insert(token, registration);
        Ok(())
    }

    fn set_interest(&mut self, token: Token, interest: Interest) -> Result<()> {
        let registration = self.registrations.get_mut(token).ok_or_else(|| unknown(token))?;
        let RegisteredIo::Foreign(foreign) = &mut registration.io else {
            return Err(wrong_kind(token, "a socket", "a foreign descriptor"));
        };
        let before = foreign.set_interest(interest)?;
        let Err(error) = registration.apply(token, &mut self.selector) else { return Ok(()) };
        match errno(&error) {
            // The descriptor was closed elsewhere. The caller may not be its owner, who receives `Failed`.
            Some(gone @ (Errno::BADF | Errno::NOENT)) => {
                let what = "the kernel no longer watches this descriptor: it was closed outside the driver";
                registration.mark_lost(context(what)(gone.into()));
                enqueue(registration, token, &mut self.deferred);
            }
            _ => registration.restore_interest(before),
        }
        Err(error)
    }

    fn rebuild(&mut self) -> Result<usize> {
        let mut fresh = self.selector.reopen(&self.waker)?;
        let mut moved = 0;
        for (token, registration) in self.registrations.iter_mut() {
            self.applying = Some(token);
            match registration.move_to(token, &mut fresh) {
                Ok(()) => moved += 1,
                Err(error) => {
                    registration.io.on_watch_refused(error);
                    enqueue(registration, token, &mut self.deferred);
                }
            }
        }
        self.applying = None;
        self.save_round();
        self.selector = fresh;
        Ok(moved)
    }

    fn wait(&mut self, until: Option<Nanos>) -> Result<WaitSummary> {
        if self.is_in_round() {
            let ready = self.count_left_in_round();
            if ready > 0 {
                return Ok(WaitSummary { ready, woken: false });
            }
        }
        self.queue.clear();
        (self.cursor, self.event_count) = (0, 0);
        if !self.deferred.is_empty() {
            self.start_with_deferred();
        }
        loop {
            if !self.changes.is_empty() {
                self.apply_changes();
            }
            let timeout = match until {
                _ if !self.queue.is_empty() => Some(Duration::ZERO),
                Some(until) => Some(until.since(self.clock.now())),
                None => None,
            };
            // An edge that no registration waits for is recorded, and does not end the wait.
            let (ready, select_flags) = match self.select(timeout) {
                Ok(selected) => selected,
                Err(error) => {
                    self.event_count = 0;
                    if error.kind() != ErrorKind::Interrupted {
                        return Err(error);
                    }
                    (0, 0)
                }
            };
            let ready = ready + self.queue.len();
            let due = || until.is_some_and(|until| self.clock.now() >= until);
            if ready > 0 || select_flags != 0 || due() {
                return Ok(WaitSummary { ready, woken: select_flags & WOKEN != 0 });
            }
        }
    }

    fn working_on(&self) -> Option<Token> {
        self.applying.or_else(|| self.visited_token())
    }

    fn next_event(&mut self) -> Option<IoEvent> {
        if self.is_in_round() { self.next_in_round() } else { None }
    }
}

impl<S: Selector> ReadinessDriver<S> {
    /// Writes to a stream by `write`.
    #[inline(always)]
    fn write_with(
        &mut self,
        token: Token,
        write: impl FnOnce(&mut StreamEndpoint) -> Result<Submit>,
    ) -> Result<Submit> {
        let registration = self.registrations.get_mut(token).ok_or_else(|| unknown(token))?;
        let io = &mut registration.io;
        let RegisteredIo::Stream(endpoint) = io else {
            return Err(wrong_kind(token, io.kind(), "a stream or listener"));
        };
        let written = write(endpoint);
        if !matches!(written, Ok(Submit::Done(_))) {
            note_change(registration, token, &mut self.changes);
        }
        written
    }

    /// Returns an error if the driver holds one socket at a time and has one.
    fn check_socket_count(&self) -> Result<()> {
        if !self.is_single_socket {
            return Ok(());
        }
        let is_socket = |it: &Registration| !matches!(it.io, RegisteredIo::Foreign(_));
        match self.registrations.iter().find(|(_, it)| is_socket(it)) {
            None => Ok(()),
            Some((token, _)) => {
                let what = format!(
                    "the {} driver holds one socket at a time and has {token:?}: \
                     give each channel a loop of its own (EventLoopGroup::per_channel)",
                    self.name
                );
                Err(Error::new(ErrorKind::ResourceBusy, what))
            }
        }
    }

    /// Returns an error if the token is registered already.
    fn check_free(&self, token: Token) -> Result<()> {
        match self.registrations.get(token) {
            None => Ok(()),
            Some(_) => {
                let what = format!("{token:?} is attached already");
                Err(Error::new(ErrorKind::AlreadyExists, what))
            }
        }
    }
}

/// Returns the value in `io` if it has the type that the role needs; otherwise an error with `io` in it.
fn expect<T: 'static>(io: Io, token: Token, expected: &str) -> Result<T> {
    io.downcast::<T>().map_err(|io| {
        let why = format!("{token:?} is a {}; expected {expected}", io.kind());
        io.refused(ErrorKind::InvalidInput, why)
    })
}

#[cold]
fn unknown(token: Token) -> Error {
    Error::new(ErrorKind::NotFound, format!("{token:?} is not attached"))
}

#[cold]
fn wrong_kind(token: Token, was: &str, expected: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("{token:?} is {was}; expected {expected}"))
}
