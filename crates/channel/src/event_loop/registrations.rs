//! The registrations of a loop, and the delivery of events to them (L07, L08).
//!
//! ```text
//!   attach / register_foreign ──► live ──► detach (by the owner, an error, a panic or the shutdown)
//!                                  │ on_event        │ the first cause wins
//!                                  ▼                 ▼
//!                              receiver          detaching ──► the driver has detached ──► on_detached, once
//! ```
//!
//! Rules:
//! 1. No part of the loop is borrowed while a receiver runs: the receiver may register, detach and write.
//! 2. After a detach, a receiver gets no more events.
//! 3. Only the loop calls `on_detached`, never inside of another callback, and exactly once.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use waterwheel_executor::engine::drop_in_turn;
use waterwheel_executor::{Error, Origin, UserCode};

use crate::base::local_queue::LocalQueue;
use crate::base::token::{Slab, Token};
use crate::driver::{Detach, Io, IoEvent};
use crate::event_loop::local_loop::LocalLoop;

/// The owner of a registration, which gets the events of its token. It lives on the loop and need not be `Send`.
pub trait Registrant: 'static {
    /// Handles an event. `LastRead` never arrives here: it is delivered as `Read` and `ReadComplete`. An error or a
    /// panic detaches the registrant with that cause.
    ///
    /// # Errors
    /// Any error that makes it impossible to continue.
    fn on_event(&mut self, here: &LocalLoop, event: IoEvent) -> Result<(), Error>;

    /// Handles the end of the registration; this is the last call. `cause` is `None` after [`LocalLoop::detach`].
    fn on_detached(&mut self, here: &LocalLoop, cause: Option<Error>);

    /// True if the registrant detaches itself when its loop shuts down, as a channel does after it has written its
    /// pending bytes. If false, the loop detaches it at once.
    fn detaches_itself(&self) -> bool {
        false
    }
}

/// Receives the events of a registration: a channel, or a [`Registrant`] in its own cell. It is reference-counted, so
/// that the loop calls it without taking it out of the table and putting it back.
pub(crate) trait EventReceiver: 'static {
    /// Handles an event. An error or a panic detaches the registration with that cause.
    fn on_event(self: Rc<Self>, here: &LocalLoop, event: IoEvent) -> Result<(), Error>;

    /// Handles the end of the registration; this is the last call for its token.
    fn on_detached(self: Rc<Self>, here: &LocalLoop, token: Token, cause: Option<Error>);

    /// True if the receiver detaches itself when its loop shuts down.
    fn detaches_itself(&self) -> bool;
}

/// The cell is never borrowed twice: the loop delivers events and the final `on_detached` one after the other.
impl<R: Registrant> EventReceiver for RefCell<R> {
    fn on_event(self: Rc<Self>, here: &LocalLoop, event: IoEvent) -> Result<(), Error> {
        let (token, (event, complete)) = (event.token(), event.split());
        self.borrow_mut().on_event(here, event)?;
        match complete.filter(|_| here.is_live(token)) {
            Some(complete) => self.borrow_mut().on_event(here, complete),
            None => Ok(()),
        }
    }

    fn on_detached(self: Rc<Self>, here: &LocalLoop, _: Token, cause: Option<Error>) {
        self.borrow_mut().on_detached(here, cause);
    }

    fn detaches_itself(&self) -> bool {
        self.try_borrow().is_ok_and(|registrant| registrant.detaches_itself())
    }
}

/// The registrations of a loop. Only the loop's thread uses them.
#[derive(Default)]
pub(crate) struct Registrations {
    entries: RefCell<Slab<RegistrationEntry>>,
    ended: LocalQueue<EndedRegistration>,
}

/// An entry in the list of work that waits until nothing is borrowed. One list holds both kinds, because every turn
/// checks whether the list is empty.
enum EndedRegistration {
    /// The driver has detached this token: `on_detached` has to be called.
    Detached(Token),
    /// The driver has refused this socket or descriptor, which has to be dropped.
    Refused(Io),
}

/// One registration.
struct RegistrationEntry {
    /// The call site of the registration.
    origin: Origin,
    receiver: Rc<dyn EventReceiver>,
    state: RegistrationState,
}

enum RegistrationState {
    Live,
    /// Holds the cause to pass to `on_detached`.
    Detaching(Option<Error>),
}

impl Registrations {
    pub(crate) fn len(&self) -> usize {
        self.entries.borrow().len()
    }

    /// Returns the number of ended registrations that still wait for `on_detached`, plus refused sockets to drop.
    #[inline]
    pub(crate) fn ended_count(&self) -> usize {
        self.ended.len()
    }

    /// Keeps a socket or descriptor that the driver refused until nothing is borrowed: its destructor may be user code.
    pub(crate) fn defer_drop_of_refused(&self, io: Io) {
        self.ended.push(EndedRegistration::Refused(io));
    }

    pub(crate) fn add(&self, origin: Origin, receiver: Rc<dyn EventReceiver>) -> Token {
        let entry = RegistrationEntry { origin, receiver, state: RegistrationState::Live };
        self.entries.borrow_mut().insert(entry)
    }

    /// Removes a registration without a call to `on_detached`.
    pub(crate) fn remove_silently(&self, token: Token) {
        let entry = self.entries.borrow_mut().remove(token);
        drop(entry);
    }

    #[inline]
    pub(crate) fn is_live(&self, token: Token) -> bool {
        let entries = self.entries.borrow();
        entries.get(token).is_some_and(|entry| matches!(entry.state, RegistrationState::Live))
    }

    /// Returns the registrations that the loop detaches when it shuts down.
    pub(crate) fn tokens_to_detach(&self) -> Vec<Token> {
        let entries = self.entries.borrow();
        let stays = |token: &Token| {
            entries.get(*token).is_some_and(|entry| entry.receiver.detaches_itself())
        };
        entries.tokens().filter(|token| !stays(token)).collect()
    }

    pub(crate) fn tokens(&self) -> Vec<Token> {
        self.entries.borrow().tokens().collect()
    }

    /// Begins to detach a registration; returns `false` if already detaching. The caller then calls the driver.
    pub(crate) fn begin_detach(&self, token: Token, cause: Option<Error>) -> bool {
        match self.entries.borrow_mut().get_mut(token) {
            Some(entry) if matches!(entry.state, RegistrationState::Live) => {
                entry.state = RegistrationState::Detaching(cause);
                true
            }
            _ => false,
        }
    }

    /// Queues the call to `on_detached` if the driver has detached the token.
    pub(crate) fn on_driver_detached(&self, token: Token, detach: Detach) {
        if detach == Detach::Done {
            self.ended.push(EndedRegistration::Detached(token));
        }
    }

    /// Returns the call site of the registration.
    pub(crate) fn origin(&self, token: Token) -> Option<Origin> {
        self.entries.borrow().get(token).map(|entry| entry.origin)
    }

    /// Returns the receiver of a live token and the call site of its registration. `None` after a detach.
    #[inline]
    pub(crate) fn live_receiver(&self, token: Token) -> Option<(Origin, Rc<dyn EventReceiver>)> {
        let entries = self.entries.borrow();
        let entry =
            entries.get(token).filter(|entry| matches!(entry.state, RegistrationState::Live))?;
        Some((entry.origin, entry.receiver.clone()))
    }

    /// Calls `on_detached` for ended registrations. Registrations that end meanwhile wait for the next call.
    pub(crate) fn notify_ended(&self, here: &LocalLoop) {
        for _ in 0..self.ended.len() {
            match self.ended.pop() {
                Some(EndedRegistration::Detached(token)) => self.notify_detached(here, token, None),
                Some(EndedRegistration::Refused(io)) => drop_in_turn(io),
                None => return,
            }
        }
    }

    /// Calls `on_detached` for all registrations, because the loop has ended.
    pub(crate) fn notify_all(&self, here: &LocalLoop, cause: &Error) {
        self.notify_ended(here);
        for token in self.tokens() {
            self.notify_detached(here, token, Some(cause));
        }
    }

    fn notify_detached(&self, here: &LocalLoop, token: Token, default_cause: Option<&Error>) {
        let entry = self.entries.borrow_mut().remove(token);
        let Some(RegistrationEntry { origin, receiver, state }) = entry else { return };
        let cause = match state {
            RegistrationState::Live => default_cause.cloned(),
            RegistrationState::Detaching(cause) => cause,
        };
        // Both calls may panic. A panic is reported, and no caller waits for a result.
        let notified = receiver.clone();
        let notify = || notified.on_detached(here, token, cause);
        let _ = here.sender().run_user_code(UserCode::Callback, origin, notify);
        let _ = here.sender().run_user_code(UserCode::Destructor, origin, || drop(receiver));
    }
}

impl fmt::Debug for Registrations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registrations").field("len", &self.len()).finish_non_exhaustive()
    }
}
