//! An executor that holds no thread: each turn is a job for a shared pool (L12).
//!
//! ```text
//!             ┌────────────── supplier.start(turn) ◄─────────────┐
//!             ▼                                                  │ more to do
//!   begin: awake ──► run_tasks ──► check_shutdown ──► rest ──────┤
//!                                        │             │ nothing to do
//!                                        ▼ Done        ▼
//!                                    teardown       Asleep(core) ──► unpark: supplier.start(turn)
//! ```
//!
//! Between its turns the loop is a value in [`Rest`], which belongs to whoever takes it out: the turn
//! that has just ended puts it there, the one that wakes it takes it. A wake that comes before it was
//! put there leaves a mark, and the loop does not lie down. While a timer waits the global executor
//! does the waiting, or the virtual clock that the loop goes by.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use crate::clock::{self, Clock, Nanos};
use crate::engine::run_loop;
use crate::engine::shared_half::Shared;
use crate::engine::suspended::RestingCore;
use crate::engine::{LoopCore, Pass, Turn};
use crate::error::{Error, ErrorKind, absorb};
use crate::executor::global::GlobalExecutor;
use crate::promise::PromiseFuture;
use crate::sync::{Mutex, lock, per_thread};
use crate::thread::{LoopBody, RunOrLetGo};
use crate::wake::park::Unpark;

/// Where a loop is between its turns.
pub(crate) struct Rest<X: Send + 'static>(Mutex<Place<X>>);

enum Place<X: Send + 'static> {
    /// In a turn, or on its way to one.
    Turning,
    /// The same, and somebody has woken it.
    Woken,
    Asleep(Box<PooledTurn<X>>),
}

impl<X: Send + 'static> Rest<X> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Place::Turning))
    }
}

impl<X: Send + 'static> Unpark for Rest<X> {
    fn unpark(&self) {
        let mut place = lock(&self.0);
        match std::mem::replace(&mut *place, Place::Woken) {
            Place::Turning | Place::Woken => {}
            Place::Asleep(turn) => {
                *place = Place::Turning;
                drop(place);
                turn.submit();
            }
        }
    }
}

/// Begins the life of a pooled loop, with its first turn on this very thread.
pub(crate) fn begin<X: Send + 'static>(shared: Arc<Shared<X>>, rest: Arc<Rest<X>>) {
    shared.begin_to_turn();
    turn(LoopCore::without_thread(shared), rest);
}

/// One turn, and what follows from it.
fn turn<X: Send + 'static>(mut core: LoopCore<X>, rest: Arc<Rest<X>>) {
    core.shared.vitals.on_this_thread();
    let entered = core.enter();
    let turned = catch_unwind(AssertUnwindSafe(|| {
        core.awake();
        core.run_tasks(Pass::Queued, &mut drop);
        core.check_shutdown()
    }));
    drop(entered);
    match turned {
        Ok(Turn::Again) => lie_down(core, rest),
        Ok(Turn::Done) => end(core, None),
        Err(payload) => die(core, absorb(payload)),
    }
}

/// Puts the loop to rest if there is nothing to do; asks for its next turn otherwise.
fn lie_down<X: Send + 'static>(mut core: LoopCore<X>, rest: Arc<Rest<X>>) {
    let deadline = core.next_deadline().if_ever();
    let has_work = !core.announce_sleep(deadline);
    let core = core.rest();
    if has_work {
        return PooledTurn { core, rest, alarm: None }.submit();
    }
    let alarm = deadline.and_then(|deadline| set_alarm(&core, deadline, &rest));
    let nobody_wakes_it = deadline.is_some() && alarm.is_none();
    let turn = PooledTurn { core, rest: rest.clone(), alarm };
    let mut place = lock(&rest.0);
    if matches!(*place, Place::Woken) || nobody_wakes_it {
        *place = Place::Turning;
        drop(place);
        turn.submit();
    } else {
        *place = Place::Asleep(Box::new(turn));
    }
}

/// Wakes a loop for its next timer, unless it is dropped before.
enum Alarm {
    OfGlobalExecutor(PromiseFuture<()>),
    OfClock { _alarm: clock::Alarm },
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if let Alarm::OfGlobalExecutor(timer) = self {
            timer.cancel();
        }
    }
}

/// Wakes a loop when its alarm rings. A weak handle: an alarm does not keep the loop alive.
struct Ring<X: Send + 'static>(Weak<Rest<X>>);

impl<X: Send + 'static> Unpark for Ring<X> {
    fn unpark(&self) {
        if let Some(rest) = self.0.upgrade() {
            rest.unpark();
        }
    }
}

fn set_alarm<X: Send + 'static>(
    core: &RestingCore<X>,
    deadline: Nanos,
    rest: &Arc<Rest<X>>,
) -> Option<Alarm> {
    let ring = Ring(Arc::downgrade(rest));
    match &core.shared.clock {
        Clock::Virtual(clock) => {
            Some(Alarm::OfClock { _alarm: clock.wake_at(deadline, Arc::new(ring)) })
        }
        Clock::Monotonic => {
            let delay = deadline.since(core.shared.clock.now());
            let timer = GlobalExecutor::get().schedule(delay, move || ring.unpark());
            timer.ok().map(Alarm::OfGlobalExecutor)
        }
    }
}

/// The loop is over; `died` if it is not by its own doing.
fn end<X: Send + 'static>(mut core: LoopCore<X>, died: Option<Error>) {
    let entered = core.enter();
    run_loop::tear_down(&mut core, None, died.as_ref());
    drop(entered);
    core.shared.terminate(died);
}

fn die<X: Send + 'static>(core: LoopCore<X>, cause: String) {
    let executor = core.shared.name.to_string();
    end(core, Some(ErrorKind::LoopDied { executor, cause }.into()));
}

per_thread! {
    /// This thread is giving a turn to a supplier.
    static SUBMITTING: Cell<bool> = Cell::new(false);
}

/// One turn of a loop, looking for a thread.
struct PooledTurn<X: Send + 'static> {
    core: RestingCore<X>,
    rest: Arc<Rest<X>>,
    /// Wakes it for its next timer.
    alarm: Option<Alarm>,
}

impl<X: Send + 'static> PooledTurn<X> {
    /// Asks the supplier for a thread. If that lets the turn go unrun, the loop ends.
    fn submit(self) {
        let shared = self.core.shared.clone();
        let body = LoopBody::new(Box::new(self), &shared.name);
        let before = SUBMITTING.with(|submitting| submitting.replace(true));
        // Whether it refuses or panics: it has dropped the turn, and that says it all.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| shared.supplier.start(body))) {
            absorb(payload);
        }
        SUBMITTING.with(|submitting| submitting.set(before));
    }
}

impl<X: Send + 'static> RunOrLetGo for PooledTurn<X> {
    fn run(self: Box<Self>) {
        if SUBMITTING.with(Cell::get) {
            // In the middle of somebody's `execute`, or of the turn before.
            let cause = "its thread supplier ran a turn in place, not on another thread".to_owned();
            return die(self.core.rise(), cause);
        }
        let Self { core, rest, alarm } = *self;
        drop(alarm);
        turn(core.rise(), rest);
    }

    fn is_turn(&self) -> bool {
        true
    }

    fn let_go(self: Box<Self>) {
        let cause = "its thread supplier let a turn go without running it".to_owned();
        die(self.core.rise(), cause);
    }
}
