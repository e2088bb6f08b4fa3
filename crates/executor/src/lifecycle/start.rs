//! Starting a loop once, however many threads ask for it (E04).
//!
//! Until it is started, the loop is a *seed* in here. A start takes the seed and offers it to the thread
//! supplier. `Started` is published only when the supplier has accepted, and tasks are queued only after that.
//! A seed that is dropped unrun is given back ([`Starter::give_back`]), so that a later submission can try
//! again.
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

use crate::lifecycle::{ExecutorState, Lifecycle, LifecycleEvent};
use crate::sync::{Mutex, MutexGuard, lock, per_thread};

/// Starts one loop. `gate` serialises starts and shutdowns of a loop that has not started; it is held while the
/// supplier runs, and the flag it guards says whether the last supplier accepted. `seed` is only locked for a
/// moment, by the thread that takes it or puts it back.
#[derive(Debug)]
pub(crate) struct Starter<S> {
    gate: Mutex<bool>,
    seed: Mutex<Option<S>>,
}

/// A failed start.
#[derive(Debug)]
pub(crate) enum StartError<S> {
    /// Nothing was started; a later submission may try again.
    Refused(io::Error),
    /// The supplier dropped the loop after it had been published as started: the receiver of this error must end it.
    Abandoned(S),
}

/// The lock on the gate of a loop, which cannot start while another thread holds it.
pub(crate) type StartGate<'a> = MutexGuard<'a, bool>;

per_thread! {
    /// The loops that this thread is starting now, by the address of their starter: the thread is inside their
    /// suppliers, and holds their gates.
    static STARTING: RefCell<Vec<usize>> = RefCell::new(Vec::new());
}

impl<S> Starter<S> {
    pub(crate) fn new(seed: S) -> Self {
        Self { gate: Mutex::new(false), seed: Mutex::new(Some(seed)) }
    }

    /// Starts the loop unless it has started. `offer` hands the seed to the supplier.
    pub(crate) fn ensure_started(
        &self,
        life: &Lifecycle,
        offer: impl FnOnce(S) -> io::Result<()>,
    ) -> Result<(), StartError<S>> {
        if life.state() != ExecutorState::NotStarted {
            return Ok(());
        }
        if self.is_starting_here() {
            return Err(refused(
                "the thread supplier submitted a task to the executor that it is starting",
            ));
        }
        let mut gate = lock(&self.gate);
        if life.state() != ExecutorState::NotStarted {
            return Ok(());
        }
        self.start(&mut gate, life, offer)
    }

    /// Starts the loop whatever its state, for a caller that holds the gate.
    pub(crate) fn start(
        &self,
        gate: &mut StartGate<'_>,
        life: &Lifecycle,
        offer: impl FnOnce(S) -> io::Result<()>,
    ) -> Result<(), StartError<S>> {
        let Some(seed) = self.take_seed() else {
            return Err(refused(
                "an earlier thread supplier lost the loop: it neither ran the loop nor dropped it",
            ));
        };
        let _ = STARTING.try_with(|starting| starting.borrow_mut().push(self.identity()));
        let accepted = offer(seed);
        let _ = STARTING.try_with(|starting| starting.borrow_mut().pop());
        accepted.map_err(StartError::Refused)?;
        if lock(&self.seed).is_some() {
            return Err(refused("the thread supplier neither ran nor refused the loop"));
        }
        **gate = true;
        let _ = life.apply(LifecycleEvent::Start);
        // The seed may have been given back between the check and the publication: that thread saw NotStarted and
        // left the seed to us.
        match self.take_seed() {
            None => Ok(()),
            Some(seed) => Err(StartError::Abandoned(seed)),
        }
    }

    /// Returns whether the supplier's thread may run the loop. Waits until the start is decided.
    pub(crate) fn may_run(&self) -> bool {
        if self.is_starting_here() {
            return false; // The supplier runs the loop in place: the submitter would become the loop.
        }
        *lock(&self.gate)
    }

    /// Takes back a seed that was not run. Returns the seed if the loop had been published as started: the caller
    /// must then end the loop.
    pub(crate) fn give_back(&self, life: &Lifecycle, seed: S) -> Option<S> {
        *lock(&self.seed) = Some(seed);
        if life.state() == ExecutorState::NotStarted {
            return None;
        }
        self.take_seed()
    }

    /// Locks out starts while a loop that never started is shut down. Must not be called from the supplier that
    /// is starting this loop: the gate is held on its behalf.
    pub(crate) fn gate(&self) -> StartGate<'_> {
        debug_assert!(!self.is_starting_here());
        lock(&self.gate)
    }

    /// True if the calling thread is inside the supplier that is starting this loop.
    pub(crate) fn is_starting_here(&self) -> bool {
        // A thread whose thread-locals are destroyed starts nothing.
        STARTING.try_with(|starting| starting.borrow().contains(&self.identity())).unwrap_or(false)
    }

    fn identity(&self) -> usize {
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
        assert_eq!(life.state(), ExecutorState::NotStarted);
        let mut run = None;
        starter
            .ensure_started(&life, |seed| {
                run = Some(seed);
                Ok(())
            })
            .unwrap();
        assert_eq!((run, life.state()), (Some(7), ExecutorState::Started));
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
        assert_eq!(life.state(), ExecutorState::NotStarted);
    }

    #[test]
    fn e04_a_loop_dropped_after_the_start_is_returned_to_be_ended() {
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
