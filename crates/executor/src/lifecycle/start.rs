//! Starting a loop once, however many threads ask (E04).
//!
//! The loop waits to be started as a *seed* in here. A start takes the seed and offers it to the
//! thread supplier; only when the supplier has accepted is `Started` published, and only after that
//! does anybody queue a task. A seed that is dropped unrun comes back ([`Starter::give_back`]), so
//! a later submission can try again.
//!
//! ```text
//!   submitter                     supplier's thread
//!   ─────────                     ─────────────────
//!   gate.lock                     
//!   take the seed, offer it ────► body.run: wait for the gate
//!   accepted: apply(Start)                 │
//!   gate.unlock  ─────────────────────────►├─ Started: run the loop
//!                                          └─ refused: give the seed back
//! ```

use std::cell::RefCell;
use std::io;

use crate::lifecycle::{Event, Lifecycle, State};
use crate::sync::{Mutex, MutexGuard, lock, per_thread};

/// `gate` serialises starts and shutdowns of a loop that has not started; it is held while the
/// supplier runs, and what it guards says whether the last supplier accepted. `seed` is only ever
/// locked for a moment, by whoever takes it or puts it back.
#[derive(Debug)]
pub(crate) struct Starter<S> {
    gate: Mutex<bool>,
    seed: Mutex<Option<S>>,
}

/// A failed start.
#[derive(Debug)]
pub(crate) enum StartError<S> {
    /// Nothing was started; try again later.
    Refused(io::Error),
    /// The loop was let go after it had been published as started: whoever gets this must end it.
    Abandoned(S),
}

/// Holding it keeps starts out.
pub(crate) type Gate<'a> = MutexGuard<'a, bool>;

per_thread! {
    /// The loops this thread is starting right now, by the address of their starter: it is inside
    /// their suppliers, and their gates are its own.
    static STARTING: RefCell<Vec<usize>> = RefCell::new(Vec::new());
}

impl<S> Starter<S> {
    pub(crate) fn new(seed: S) -> Self {
        Self { gate: Mutex::new(false), seed: Mutex::new(Some(seed)) }
    }

    /// Starts the loop unless it was started before. `offer` hands the seed to the supplier.
    pub(crate) fn ensure_started(
        &self,
        life: &Lifecycle,
        offer: impl FnOnce(S) -> io::Result<()>,
    ) -> Result<(), StartError<S>> {
        if life.state() != State::NotStarted {
            return Ok(());
        }
        if self.is_starting_here() {
            return Err(refused("the thread supplier submitted to the executor it is starting"));
        }
        let mut gate = lock(&self.gate);
        if life.state() != State::NotStarted {
            return Ok(());
        }
        self.start(&mut gate, life, offer)
    }

    /// Starts the loop whatever its state, for the caller that holds the gate.
    pub(crate) fn start(
        &self,
        gate: &mut Gate<'_>,
        life: &Lifecycle,
        offer: impl FnOnce(S) -> io::Result<()>,
    ) -> Result<(), StartError<S>> {
        let Some(seed) = self.take_seed() else {
            return Err(refused("an earlier thread supplier lost the loop"));
        };
        let _ = STARTING.try_with(|starting| starting.borrow_mut().push(self.address()));
        let accepted = offer(seed);
        let _ = STARTING.try_with(|starting| starting.borrow_mut().pop());
        accepted.map_err(StartError::Refused)?;
        if lock(&self.seed).is_some() {
            return Err(refused("the thread supplier neither ran nor refused the loop"));
        }
        **gate = true;
        let _ = life.apply(Event::Start);
        // Let go between the look and the publication: the one who let go saw NotStarted and left
        // it to us.
        match self.take_seed() {
            None => Ok(()),
            Some(seed) => Err(StartError::Abandoned(seed)),
        }
    }

    /// The supplier's thread has the loop: may it run? Waits until the start is decided.
    pub(crate) fn may_run(&self) -> bool {
        if self.is_starting_here() {
            return false; // Run in place by its supplier: the submitter would become the loop.
        }
        *lock(&self.gate)
    }

    /// Takes back a seed that did not get to run. `Some`: it had been published as started, and the
    /// caller must end it.
    pub(crate) fn give_back(&self, life: &Lifecycle, seed: S) -> Option<S> {
        *lock(&self.seed) = Some(seed);
        if life.state() == State::NotStarted {
            return None;
        }
        self.take_seed()
    }

    /// Keeps starts out while a loop that never started is shut down. Not for a supplier that is
    /// starting this very loop: the gate is held on its behalf.
    pub(crate) fn gate(&self) -> Gate<'_> {
        debug_assert!(!self.is_starting_here());
        lock(&self.gate)
    }

    /// Whether the calling thread is inside the supplier that is to start this loop.
    pub(crate) fn is_starting_here(&self) -> bool {
        // A thread whose locals are gone starts nothing.
        STARTING.try_with(|starting| starting.borrow().contains(&self.address())).unwrap_or(false)
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    pub(crate) fn take_seed(&self) -> Option<S> {
        lock(&self.seed).take()
    }
}

fn refused<S>(why: &str) -> StartError<S> {
    StartError::Refused(io::Error::other(why))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn e04_a_refused_start_leaves_it_not_started_and_can_be_retried() {
        let (starter, life) = (Starter::new(7), Lifecycle::new());
        let refused = starter.ensure_started(&life, |seed| {
            assert!(starter.give_back(&life, seed).is_none());
            Err(io::Error::other("no threads left"))
        });
        assert!(
            matches!(refused, Err(StartError::Refused(e)) if e.to_string() == "no threads left")
        );
        assert_eq!(life.state(), State::NotStarted);
        let mut run = None;
        starter
            .ensure_started(&life, |seed| {
                run = Some(seed);
                Ok(())
            })
            .unwrap();
        assert_eq!((run, life.state()), (Some(7), State::Started));
        starter.ensure_started(&life, |_| panic!("started twice")).unwrap();
    }

    #[test]
    fn e04_a_supplier_that_drops_the_loop_has_not_started_it() {
        let (starter, life) = (Starter::new(7), Lifecycle::new());
        let dropped = starter.ensure_started(&life, |seed| {
            starter.give_back(&life, seed);
            Ok(())
        });
        assert!(matches!(dropped, Err(StartError::Refused(_))));
        assert_eq!(life.state(), State::NotStarted);
    }

    #[test]
    fn e04_a_loop_let_go_after_the_start_is_handed_to_whoever_must_end_it() {
        let (starter, life) = (Starter::new(7), Lifecycle::new());
        starter.ensure_started(&life, |_| Ok(())).unwrap();
        assert_eq!(starter.give_back(&life, 7), Some(7));
    }

    #[test]
    fn e04_a_lost_loop_is_an_error_not_a_hang() {
        let (starter, life) = (Starter::new(7), Lifecycle::new());
        let lost = starter.ensure_started(&life, |_seed| Err(io::Error::other("gone")));
        assert!(lost.is_err());
        let again = starter.ensure_started(&life, |_| Ok(()));
        assert!(matches!(again, Err(StartError::Refused(e)) if e.to_string().contains("lost")));
    }

    #[test]
    fn e04_a_supplier_cannot_run_the_loop_in_place_or_submit_to_it() {
        let (starter, life) = (Starter::new(7), Lifecycle::new());
        let outcome = starter.ensure_started(&life, |seed| {
            assert!(!starter.may_run(), "in place");
            let nested = starter.ensure_started(&life, |_| Ok(()));
            assert!(matches!(nested, Err(StartError::Refused(_))));
            starter.give_back(&life, seed);
            Ok(())
        });
        assert!(matches!(outcome, Err(StartError::Refused(_))));
    }
}
