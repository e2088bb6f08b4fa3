//! Who is registered with a loop, and how they are told (L07, L08).
//!
//! ```text
//!   attach / register_foreign ──► live ──► detach (by itself, by an error, by a panic, by shutdown)
//!                                  │ on_event        │ first cause wins
//!                                  ▼                 ▼
//!                              registrant        detaching ──► driver has let go ──► on_detached, once
//! ```
//!
//! Rules:
//! 1. Nothing of the loop is borrowed while a receiver runs: it may register, detach and write as it likes.
//! 2. After a detach it gets no event any more.
//! 3. `on_detached` is called from the loop only, never inside of another callback, and exactly once.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use waterwheel_executor::engine::drop_in_turn;
use waterwheel_executor::{Error, Origin, UserCode};

use crate::driver::{Detach, Io, IoEvent};
use crate::event_loop::local_loop::LocalLoop;
use crate::local_queue::LocalQueue;
use crate::token::{Slab, Token};

/// Something registered with a loop: gets the events of its token. Lives on the loop, and need not be
/// `Send`.
pub trait Registrant: 'static {
    /// Receives an event; never `LastRead`, which comes as the two events that it stands for. An error, or a panic,
    /// detaches the registrant with that cause.
    ///
    /// # Errors
    /// Whatever makes it impossible to go on.
    fn on_event(&mut self, here: &LocalLoop, event: IoEvent) -> Result<(), Error>;

    /// It is no longer registered; this is the last call. No cause: it was asked for.
    fn on_detached(&mut self, here: &LocalLoop, cause: Option<Error>);

    /// Whether it detaches itself when its loop shuts down, as a channel does when it is closed, after
    /// what it has to write. Otherwise the loop does, at once.
    fn detaches_itself(&self) -> bool {
        false
    }
}

/// Receives the events of a registration: a channel, or a [`Registrant`] in its own cell. It is held by count, so
/// that an event costs no look-up to put it back.
pub(crate) trait EventReceiver: 'static {
    /// Receives an event. An error, or a panic, detaches the registration with that cause.
    fn on_event(self: Rc<Self>, here: &LocalLoop, event: IoEvent) -> Result<(), Error>;

    /// The registration has ended; this is the last call for its token.
    fn on_detached(self: Rc<Self>, here: &LocalLoop, token: Token, cause: Option<Error>);

    /// Whether it detaches itself when its loop shuts down.
    fn detaches_itself(&self) -> bool;
}

/// Nothing else borrows the registrant: events and its end come from the loop, one after the other.
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

/// The registrations of a loop. Touched on the loop only.
#[derive(Default)]
pub(crate) struct Registrations {
    entries: RefCell<Slab<RegistrationEntry>>,
    ended: LocalQueue<EndedRegistration>,
}

/// What is seen to where nothing is borrowed. One list, because every turn asks whether it is empty.
enum EndedRegistration {
    /// The driver has let go of this one: it is to be told.
    Detached(Token),
    /// The driver has refused this: it is to be dropped.
    Refused(Io),
}

struct RegistrationEntry {
    /// Where it was registered.
    origin: Origin,
    receiver: Rc<dyn EventReceiver>,
    state: RegistrationState,
}

enum RegistrationState {
    Live,
    /// With the cause to be told.
    Detaching(Option<Error>),
}

impl Registrations {
    pub(crate) fn len(&self) -> usize {
        self.entries.borrow().len()
    }

    /// How many are to be told that they are no longer registered, or to be dropped.
    #[inline]
    pub(crate) fn ended(&self) -> usize {
        self.ended.len()
    }

    /// Keeps what the driver has refused: whoever asked for it may have lent something of its own.
    pub(crate) fn keep_refused(&self, io: Io) {
        self.ended.push(EndedRegistration::Refused(io));
    }

    pub(crate) fn add(&self, origin: Origin, receiver: Rc<dyn EventReceiver>) -> Token {
        let entry = RegistrationEntry { origin, receiver, state: RegistrationState::Live };
        self.entries.borrow_mut().insert(entry)
    }

    /// The driver has refused it.
    pub(crate) fn withdraw(&self, token: Token) {
        let entry = self.entries.borrow_mut().remove(token);
        drop(entry);
    }

    #[inline]
    pub(crate) fn is_live(&self, token: Token) -> bool {
        let entries = self.entries.borrow();
        entries.get(token).is_some_and(|entry| matches!(entry.state, RegistrationState::Live))
    }

    /// Those that the loop lets go when it shuts down.
    pub(crate) fn to_be_detached(&self) -> Vec<Token> {
        let entries = self.entries.borrow();
        let stays = |token: &Token| {
            entries.get(*token).is_some_and(|entry| entry.receiver.detaches_itself())
        };
        entries.tokens().filter(|token| !stays(token)).collect()
    }

    pub(crate) fn tokens(&self) -> Vec<Token> {
        self.entries.borrow().tokens().collect()
    }

    /// Begins to detach it; `false` if that was done before. The caller tells the driver.
    pub(crate) fn begin_detach(&self, token: Token, cause: Option<Error>) -> bool {
        match self.entries.borrow_mut().get_mut(token) {
            Some(entry) if matches!(entry.state, RegistrationState::Live) => {
                entry.state = RegistrationState::Detaching(cause);
                true
            }
            _ => false,
        }
    }

    /// The driver has let go.
    pub(crate) fn detached(&self, token: Token, detach: Detach) {
        if detach == Detach::Done {
            self.ended.push(EndedRegistration::Detached(token));
        }
    }

    /// Where it was registered.
    pub(crate) fn origin(&self, token: Token) -> Option<Origin> {
        self.entries.borrow().get(token).map(|entry| entry.origin)
    }

    /// Returns who receives events with this token, and where it was registered. `None`: nobody does any more.
    #[inline]
    pub(crate) fn receiver(&self, token: Token) -> Option<(Origin, Rc<dyn EventReceiver>)> {
        let entries = self.entries.borrow();
        let entry =
            entries.get(token).filter(|entry| matches!(entry.state, RegistrationState::Live))?;
        Some((entry.origin, entry.receiver.clone()))
    }

    /// Tells those whom the driver has let go. Those whose end comes meanwhile wait for the next time.
    pub(crate) fn finish_ended(&self, here: &LocalLoop) {
        for _ in 0..self.ended.len() {
            match self.ended.pop() {
                Some(EndedRegistration::Detached(token)) => self.finish(here, token, None),
                Some(EndedRegistration::Refused(io)) => drop_in_turn(io),
                None => return,
            }
        }
    }

    /// Tells everybody who is left: the loop is over.
    pub(crate) fn finish_all(&self, here: &LocalLoop, cause: &Error) {
        self.finish_ended(here);
        for token in self.tokens() {
            self.finish(here, token, Some(cause));
        }
    }

    fn finish(&self, here: &LocalLoop, token: Token, otherwise: Option<&Error>) {
        let entry = self.entries.borrow_mut().remove(token);
        let Some(RegistrationEntry { origin, receiver, state }) = entry else { return };
        let cause = match state {
            RegistrationState::Live => otherwise.cloned(),
            RegistrationState::Detaching(cause) => cause,
        };
        // Both may panic, and both are reported: there is nobody else to tell.
        let told = receiver.clone();
        let tell = || told.on_detached(here, token, cause);
        let _ = here.sender().run_user_code(UserCode::Callback, origin, tell);
        let _ = here.sender().run_user_code(UserCode::Destructor, origin, || drop(receiver));
    }
}

impl fmt::Debug for Registrations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registrations").field("len", &self.len()).finish_non_exhaustive()
    }
}
