//! The manual driver.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::Shutdown;
use std::sync::Arc;

use waterwheel_channel::driver::{
    Detach, Driver, Interest, Io, IoEvent, OutQueue, ReadPlan, Role, SocketOption, Submit,
    WaitSummary,
};
use waterwheel_channel::{Address, Datagram, Token};
use waterwheel_executor::{Clock, Nanos, Unpark};

use super::CompletionMode;
use super::datagram_network::DatagramEnd;
use super::foreign::ForeignEnd;
use super::kernel::Kernel;
use super::listener::ListenerEnd;
use super::registration::{ManualRegistration, RegistrationSource};
use super::stream::{DriverNotifier, StreamEnd};
use crate::shuffled::SplitMix64;

/// A driver without an operating system, opened and controlled by [`Manual`](super::Manual).
pub struct ManualDriver {
    kernel: Arc<Kernel>,
    id: usize,
    /// Registrations sorted by token, so that a round has the same order in every run.
    registrations: BTreeMap<Token, ManualRegistration>,
    /// Registrations with events left in this round.
    round: VecDeque<Token>,
    /// Picks the next registration of the round; if `None`, the first registration delivers all its events first.
    random: Option<SplitMix64>,
}

impl ManualDriver {
    pub(super) fn new(kernel: Arc<Kernel>, random: Option<SplitMix64>) -> Self {
        let id = kernel.add_driver();
        Self { kernel, id, registrations: BTreeMap::new(), round: VecDeque::new(), random }
    }

    /// Adds ready registrations to the round and removes registrations without further events. Adds none while
    /// completions are held.
    fn collect_ready(&mut self, held: bool) {
        let registrations = &mut self.registrations;
        self.round.retain(|token| {
            let Some(registration) = registrations.get_mut(token) else { return false };
            let has_more = registration.has_more();
            if !has_more {
                registration.end_round();
            }
            has_more
        });
        if held {
            return;
        }
        for (token, registration) in registrations {
            if !registration.is_in_round() && registration.is_ready() {
                registration.begin_round();
                self.round.push_back(*token);
            }
        }
    }

    fn registration(&mut self, token: Token) -> io::Result<&mut ManualRegistration> {
        let attached = self.registrations.get_mut(&token).filter(|found| !found.detaching);
        attached.ok_or_else(|| not_attached(token))
    }

    fn insert(&mut self, token: Token, source: RegistrationSource, connecting: bool) {
        let notifier = DriverNotifier { kernel: self.kernel.clone(), driver: self.id };
        match &source {
            RegistrationSource::Stream(stream) => stream.set_notifier(notifier),
            RegistrationSource::Listener(listener) => listener.set_notifier(notifier),
            RegistrationSource::Datagrams(end) => end.set_notifier(notifier),
            RegistrationSource::Foreign(foreign, _) => foreign.set_notifier(notifier),
        }
        let registration = ManualRegistration::new(token, source, self.kernel.mode, connecting);
        self.registrations.insert(token, registration);
    }

    fn ensure_vacant(&self, token: Token) -> io::Result<()> {
        match self.registrations.contains_key(&token) {
            true => Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("{token:?} is already attached"),
            )),
            false => Ok(()),
        }
    }
}

impl Driver for ManualDriver {
    fn name(&self) -> &'static str {
        match self.kernel.mode {
            CompletionMode::Readiness => "manual",
            CompletionMode::Completion => "manual-completion",
        }
    }

    fn clock(&self) -> Clock {
        Clock::Virtual(self.kernel.clock.clone())
    }

    fn waker(&self) -> Arc<dyn Unpark> {
        Arc::new(ManualWaker { kernel: self.kernel.clone(), driver: self.id })
    }

    fn attach(&mut self, token: Token, io: Io, role: Role) -> io::Result<()> {
        self.ensure_vacant(token)?;
        let (source, connecting) = match role {
            Role::Listener => {
                (RegistrationSource::Listener(expect::<ListenerEnd>(io, "listener")?), false)
            }
            Role::Stream => (RegistrationSource::Stream(expect::<StreamEnd>(io, "stream")?), false),
            Role::Connecting(_) => {
                (RegistrationSource::Stream(expect::<StreamEnd>(io, "stream")?), true)
            }
            Role::Datagram => (
                RegistrationSource::Datagrams(expect::<DatagramEnd>(io, "socket for datagrams")?),
                false,
            ),
            _ => return Err(invalid_input("the manual driver does not support this role")),
        };
        if let RegistrationSource::Stream(stream) = &source {
            match role {
                Role::Connecting(_) if stream.is_open() => {
                    return Err(invalid_input("the socket is already connected"));
                }
                Role::Connecting(Address::Ip(target)) => stream.begin_connect(target),
                Role::Connecting(_) => {
                    return Err(invalid_input("the target is not an IP address"));
                }
                _ if !stream.is_open() => return Err(io::ErrorKind::NotConnected.into()),
                _ => {}
            }
        }
        self.insert(token, source, connecting);
        self.kernel.count(|counts| counts.attaches += 1);
        Ok(())
    }

    fn detach(&mut self, token: Token) -> Detach {
        let Ok(registration) = self.registration(token) else { return Detach::Done };
        if registration.is_in_flight() {
            registration.begin_detach();
            self.kernel.count(|counts| counts.detaches += 1);
            return Detach::Pending;
        }
        self.registrations.remove(&token);
        self.kernel.count(|counts| counts.detaches += 1);
        Detach::Done
    }

    fn release(&mut self, token: Token) -> io::Result<Io> {
        self.registration(token)?.check_may_release()?;
        let registration = self.registrations.remove(&token).ok_or_else(|| not_attached(token))?;
        self.kernel.count(|counts| counts.detaches += 1);
        Ok(match registration.source {
            RegistrationSource::Stream(stream) => Io::new(stream),
            RegistrationSource::Listener(listener) => Io::new(listener),
            RegistrationSource::Datagrams(end) => Io::new(end),
            RegistrationSource::Foreign(..) => {
                return Err(invalid_input("a foreign source cannot be released"));
            }
        })
    }

    fn local_address(&self, _: Token) -> Option<Address> {
        None
    }

    fn set_option(&mut self, token: Token, option: SocketOption) -> io::Result<()> {
        self.registration(token)?;
        let what = format!("a manual driver does not support the option {option}");
        Err(io::Error::new(io::ErrorKind::Unsupported, what))
    }

    fn set_read(&mut self, token: Token, plan: Option<ReadPlan>) {
        if let Ok(registration) = self.registration(token) {
            registration.reads = plan;
        }
    }

    fn write(&mut self, token: Token, queue: &OutQueue) -> io::Result<Submit> {
        self.kernel.count(|counts| counts.writes += 1);
        self.registration(token)?.write(queue)
    }

    fn send_datagrams(
        &mut self,
        token: Token,
        batch: &mut dyn Iterator<Item = &Datagram>,
    ) -> io::Result<Submit> {
        self.kernel.count(|counts| counts.writes += 1);
        self.registration(token)?.send_datagrams(batch)
    }

    fn shutdown(&mut self, token: Token, how: Shutdown) -> io::Result<()> {
        self.kernel.count(|counts| counts.shutdowns += 1);
        let registration = self.registration(token)?;
        registration.connected_stream()?;
        registration.finish_reported |= how != Shutdown::Write;
        let stream = registration.connected_stream()?;
        if how != Shutdown::Write {
            stream.shutdown_input();
        }
        if how != Shutdown::Read {
            stream.shutdown_output();
        }
        Ok(())
    }

    fn register_foreign(&mut self, token: Token, io: Io, interest: Interest) -> io::Result<()> {
        self.ensure_vacant(token)?;
        refuse_empty(interest)?;
        let foreign = expect::<ForeignEnd>(io, "foreign source")?;
        self.insert(token, RegistrationSource::Foreign(foreign, interest), false);
        self.kernel.count(|counts| counts.registers += 1);
        Ok(())
    }

    fn set_interest(&mut self, token: Token, interest: Interest) -> io::Result<()> {
        refuse_empty(interest)?;
        match &mut self.registration(token)?.source {
            RegistrationSource::Foreign(_, current) => *current = interest,
            _ => return Err(invalid_input("the registration is not a foreign source")),
        }
        Ok(())
    }

    fn rebuild(&mut self) -> io::Result<usize> {
        self.kernel.count(|counts| counts.rebuilds += 1);
        Ok(self.registrations.values().filter(|registration| !registration.detaching).count())
    }

    fn wait(&mut self, until: Option<Nanos>) -> io::Result<WaitSummary> {
        self.kernel.count(|counts| counts.waits += 1);
        loop {
            let held = self.kernel.begin_look(self.id);
            self.collect_ready(held);
            let ready = self.round.len();
            if let Some(woken) = self.kernel.end_look(self.id, until, ready) {
                return Ok(WaitSummary { ready, woken });
            }
        }
    }

    fn next_event(&mut self) -> Option<IoEvent> {
        while !self.round.is_empty() {
            let next = self.random.as_mut().map_or(0, |random| random.below(self.round.len()));
            let token = self.round[next];
            let event = match self.registrations.get_mut(&token) {
                None => None,
                Some(gone) if gone.detaching && gone.is_in_round() => {
                    self.registrations.remove(&token);
                    Some(IoEvent::Detached(token))
                }
                Some(gone) if gone.detaching => None,
                Some(registration) => registration.next_event(),
            };
            if event.is_some() {
                self.kernel.count(|counts| counts.events += 1);
                return event;
            }
            self.round.remove(next);
        }
        None
    }
}

impl Drop for ManualDriver {
    fn drop(&mut self) {
        self.kernel.remove_driver(self.id);
    }
}

/// The driver's waker, for any thread. A wake sets a flag under the kernel's lock.
struct ManualWaker {
    kernel: Arc<Kernel>,
    driver: usize,
}

impl Unpark for ManualWaker {
    fn unpark(&self) {
        self.kernel.wake(self.driver);
    }
}

/// Returns the socket inside `io`, or an error that names the expected kind and contains `io`.
fn expect<T: 'static>(io: Io, what: &str) -> io::Result<T> {
    io.downcast::<T>().map_err(|other| {
        let why = format!("a manual driver cannot take {} as a {what}", other.kind());
        other.refused(io::ErrorKind::InvalidInput, why)
    })
}

fn refuse_empty(interest: Interest) -> io::Result<()> {
    match interest.is_empty() {
        true => Err(invalid_input("the interest is empty")),
        false => Ok(()),
    }
}

fn not_attached(token: Token) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{token:?} is not attached"))
}

pub(super) fn invalid_input(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}
