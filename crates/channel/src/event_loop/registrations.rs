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
//! 1. A registrant is taken out of its place while it runs: nothing is borrowed, so it may register,
//!    detach and write as it likes.
//! 2. After a detach it gets no event any more.
//! 3. `on_detached` is called from the loop only, never inside of another callback, and exactly once.

use std::cell::RefCell;
use std::fmt;

use waterwheel_executor::engine::drop_in_turn;
use waterwheel_executor::{Error, Origin, UserCode};

use crate::driver::{Detach, Io, IoEvent};
use crate::event_loop::local_loop::LocalLoop;
use crate::local_queue::LocalQueue;
use crate::token::{Slab, Token};

/// Something registered with a loop: gets the events of its token. Lives on the loop, and need not be
/// `Send`.
pub trait Registrant: 'static {
    /// Something happened. An error, or a panic, detaches it with that cause.
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

/// The registrations of a loop. Touched on the loop only.
#[derive(Default)]
pub(crate) struct Registrations {
    entries: RefCell<Slab<Entry>>,
    ended: LocalQueue<Ended>,
}

/// What is seen to where nothing is borrowed. One list, because every turn asks whether it is empty.
enum Ended {
    /// The driver has let go of this one: it is to be told.
    Detached(Token),
    /// The driver has refused this: it is to be dropped.
    Refused(Io),
}

struct Entry {
    /// Where it was registered.
    origin: Origin,
    /// `None` while it runs.
    registrant: Option<Box<dyn Registrant>>,
    state: State,
}

enum State {
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
        self.ended.push(Ended::Refused(io));
    }

    pub(crate) fn add(&self, origin: Origin, registrant: Box<dyn Registrant>) -> Token {
        let entry = Entry { origin, registrant: Some(registrant), state: State::Live };
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
        entries.get(token).is_some_and(|entry| matches!(entry.state, State::Live))
    }

    /// Those that the loop lets go when it shuts down.
    pub(crate) fn to_be_detached(&self) -> Vec<Token> {
        let entries = self.entries.borrow();
        let stays = |token: &Token| {
            let registrant = entries.get(*token).and_then(|entry| entry.registrant.as_ref());
            registrant.is_some_and(|registrant| registrant.detaches_itself())
        };
        entries.tokens().filter(|token| !stays(token)).collect()
    }

    pub(crate) fn tokens(&self) -> Vec<Token> {
        self.entries.borrow().tokens().collect()
    }

    /// Begins to detach it; `false` if that was done before. The caller tells the driver.
    pub(crate) fn begin_detach(&self, token: Token, cause: Option<Error>) -> bool {
        match self.entries.borrow_mut().get_mut(token) {
            Some(entry) if matches!(entry.state, State::Live) => {
                entry.state = State::Detaching(cause);
                true
            }
            _ => false,
        }
    }

    /// The driver has let go.
    pub(crate) fn detached(&self, token: Token, detach: Detach) {
        if detach == Detach::Done {
            self.ended.push(Ended::Detached(token));
        }
    }

    /// Where it was registered.
    pub(crate) fn origin(&self, token: Token) -> Option<Origin> {
        self.entries.borrow().get(token).map(|entry| entry.origin)
    }

    /// Takes out the one whom events with this token concern, if it is to have any.
    #[inline]
    pub(crate) fn take(&self, token: Token) -> Option<Taken<'_>> {
        let mut entries = self.entries.borrow_mut();
        let entry = entries.get_mut(token).filter(|entry| matches!(entry.state, State::Live))?;
        let (origin, registrant) = (entry.origin, entry.registrant.take()?);
        Some(Taken { registrations: self, token, origin, registrant: Some(registrant) })
    }

    #[inline]
    fn put_back(&self, token: Token, registrant: Box<dyn Registrant>) {
        if let Some(entry) = self.entries.borrow_mut().get_mut(token) {
            let nobody = entry.registrant.replace(registrant);
            debug_assert!(nobody.is_none(), "it was taken out");
            std::mem::forget(nobody); // Spares the way out a destructor that finds nothing to do.
        }
    }

    /// Tells those whom the driver has let go. Those whose end comes meanwhile wait for the next time.
    pub(crate) fn finish_ended(&self, here: &LocalLoop) {
        for _ in 0..self.ended.len() {
            match self.ended.pop() {
                Some(Ended::Detached(token)) => self.finish(here, token, None),
                Some(Ended::Refused(io)) => drop_in_turn(io),
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
        let Some(Entry { origin, registrant: Some(mut registrant), state }) = entry else { return };
        let cause = match state {
            State::Live => otherwise.cloned(),
            State::Detaching(cause) => cause,
        };
        // Both may panic, and both are reported: there is nobody else to tell.
        let tell = || registrant.on_detached(here, cause);
        let _ = here.sender().run_user_code(UserCode::Callback, origin, tell);
        let _ = here.sender().run_user_code(UserCode::Destructor, origin, || drop(registrant));
    }
}

/// A registrant that runs, out of its place. It goes back when it is told to, and on unwind.
pub(crate) struct Taken<'a> {
    registrations: &'a Registrations,
    token: Token,
    pub(crate) origin: Origin,
    /// `None` once it is back.
    registrant: Option<Box<dyn Registrant>>,
}

impl Taken<'_> {
    #[inline]
    pub(crate) fn on_event(&mut self, here: &LocalLoop, event: IoEvent) -> Result<(), Error> {
        match &mut self.registrant {
            Some(registrant) => registrant.on_event(here, event),
            None => Ok(()),
        }
    }

    /// It has run, and goes back.
    #[inline]
    pub(crate) fn put_back(&mut self) {
        if let Some(registrant) = self.registrant.take() {
            self.registrations.put_back(self.token, registrant);
        }
    }
}

impl Drop for Taken<'_> {
    #[cold]
    fn drop(&mut self) {
        self.put_back();
    }
}

impl fmt::Debug for Registrations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registrations").field("len", &self.len()).finish_non_exhaustive()
    }
}
