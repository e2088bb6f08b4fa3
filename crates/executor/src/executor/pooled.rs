//! An executor that holds no thread: each turn is a job for a shared thread pool (L12).
//!
//! ```text
//!      ┌──────────────────── supplier.start(turn) ◄──────────────────────┐
//!      ▼                                                                 │ more to do
//!   set_awake ──► run_tasks ──► check_shutdown ──► sleep_or_resubmit ────┤
//!                                     │                                  │ nothing to do
//!                                     ▼ Done                             ▼
//!                                 teardown                          Asleep(turn) ──► unpark: supplier.start(turn)
//! ```
//!
//! Between two turns the loop is a value in [`ParkedLoop`]: the turn that has just ended puts it there, and the
//! thread that wakes the loop takes it out. A wake-up that arrives before the loop was put there leaves a mark,
//! and the loop asks for its next turn instead of sleeping. While a timer is pending, a timer of the global
//! executor wakes the loop for it, or the loop's virtual clock does.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use crate::clock::{self, Clock, Nanos};
use crate::engine::run_loop;
use crate::engine::shared_half::SharedHalf;
use crate::engine::suspended::SuspendedCore;
use crate::engine::{LoopCore, PassLimit, TurnOutcome};
use crate::error::{Error, ErrorKind, take_panic_message};
use crate::executor::global::GlobalExecutor;
use crate::promise::PromiseFuture;
use crate::sync::{Mutex, lock, per_thread};
use crate::thread::{LoopBody, RunOrDiscard};
use crate::wake::park::Unpark;

/// Holds a pooled loop between its turns.
pub(crate) struct ParkedLoop<X: Send + 'static>(Mutex<PooledState<X>>);

enum PooledState<X: Send + 'static> {
    /// The loop is in a turn, or a turn was submitted.
    Running,
    /// The loop is [running](Self::Running), and was woken meanwhile.
    Woken,
    Asleep(Box<PooledTurn<X>>),
}

impl<X: Send + 'static> ParkedLoop<X> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(PooledState::Running))
    }
}

impl<X: Send + 'static> Unpark for ParkedLoop<X> {
    fn unpark(&self) {
        let mut state = lock(&self.0);
        match std::mem::replace(&mut *state, PooledState::Woken) {
            PooledState::Running | PooledState::Woken => {}
            PooledState::Asleep(turn) => {
                *state = PooledState::Running;
                drop(state);
                turn.submit();
            }
        }
    }
}

/// Starts a pooled loop, with its first turn on the calling thread.
pub(crate) fn start<X: Send + 'static>(shared: Arc<SharedHalf<X>>, parked: Arc<ParkedLoop<X>>) {
    shared.on_loop_start();
    run_turn(LoopCore::without_thread(shared), parked);
}

/// Makes one turn, then sleeps, submits the next turn, or terminates.
fn run_turn<X: Send + 'static>(mut core: LoopCore<X>, parked: Arc<ParkedLoop<X>>) {
    core.shared.status.set_thread();
    let entered = core.enter();
    let turned = catch_unwind(AssertUnwindSafe(|| {
        core.set_awake();
        core.run_tasks(PassLimit::Queued, &mut drop);
        core.check_shutdown()
    }));
    drop(entered);
    match turned {
        Ok(TurnOutcome::Again) => sleep_or_resubmit(core, parked),
        Ok(TurnOutcome::Done) => terminate(core, None),
        Err(payload) => fail(core, take_panic_message(payload)),
    }
}

/// Suspends the loop if there is nothing to do; submits its next turn otherwise.
fn sleep_or_resubmit<X: Send + 'static>(mut core: LoopCore<X>, parked: Arc<ParkedLoop<X>>) {
    let deadline = core.next_deadline().finite();
    let has_work = !core.announce_sleep(deadline);
    let core = core.suspend();
    if has_work {
        return PooledTurn { core, parked, alarm: None }.submit();
    }
    let alarm = deadline.and_then(|deadline| set_alarm(&core, deadline, &parked));
    let has_no_alarm = deadline.is_some() && alarm.is_none();
    let turn = PooledTurn { core, parked: parked.clone(), alarm };
    let mut state = lock(&parked.0);
    if matches!(*state, PooledState::Woken) || has_no_alarm {
        *state = PooledState::Running;
        drop(state);
        turn.submit();
    } else {
        *state = PooledState::Asleep(Box::new(turn));
    }
}

/// An alarm that wakes a loop for its next timer. Dropping the alarm cancels the wake-up.
enum TurnAlarm {
    OfGlobalExecutor(PromiseFuture<()>),
    OfClock { _alarm: clock::ClockAlarm },
}

impl Drop for TurnAlarm {
    fn drop(&mut self) {
        if let TurnAlarm::OfGlobalExecutor(timer) = self {
            timer.cancel();
        }
    }
}

/// Wakes a loop when its alarm is due. Holds the loop weakly, so that an alarm does not keep it alive.
struct AlarmUnpark<X: Send + 'static>(Weak<ParkedLoop<X>>);

impl<X: Send + 'static> Unpark for AlarmUnpark<X> {
    fn unpark(&self) {
        if let Some(parked) = self.0.upgrade() {
            parked.unpark();
        }
    }
}

fn set_alarm<X: Send + 'static>(
    core: &SuspendedCore<X>,
    deadline: Nanos,
    parked: &Arc<ParkedLoop<X>>,
) -> Option<TurnAlarm> {
    let unpark = AlarmUnpark(Arc::downgrade(parked));
    match &core.shared.clock {
        Clock::Virtual(clock) => {
            Some(TurnAlarm::OfClock { _alarm: clock.wake_at(deadline, Arc::new(unpark)) })
        }
        Clock::Monotonic => {
            let delay = deadline.since(core.shared.clock.now());
            let timer = GlobalExecutor::get().schedule(delay, move || unpark.unpark());
            timer.ok().map(TurnAlarm::OfGlobalExecutor)
        }
    }
}

/// Tears the loop down; `died` is the reason if the loop died.
fn terminate<X: Send + 'static>(mut core: LoopCore<X>, died: Option<Error>) {
    let entered = core.enter();
    run_loop::tear_down(&mut core, None, died.as_ref());
    drop(entered);
    core.shared.terminate(died);
}

fn fail<X: Send + 'static>(core: LoopCore<X>, cause: String) {
    let executor = core.shared.name.to_string();
    terminate(core, Some(ErrorKind::LoopDied { executor, cause }.into()));
}

per_thread! {
    /// True while this thread gives a turn to a supplier.
    static SUBMITTING: Cell<bool> = Cell::new(false);
}

/// One turn of a loop, which has no thread yet.
struct PooledTurn<X: Send + 'static> {
    core: SuspendedCore<X>,
    parked: Arc<ParkedLoop<X>>,
    /// The alarm that wakes the loop for its next timer.
    alarm: Option<TurnAlarm>,
}

impl<X: Send + 'static> PooledTurn<X> {
    /// Asks the supplier for a thread. If the supplier drops the turn unrun, the loop ends.
    fn submit(self) {
        let shared = self.core.shared.clone();
        let body = LoopBody::new(Box::new(self), &shared.name);
        let before = SUBMITTING.with(|submitting| submitting.replace(true));
        // A supplier that refuses or panics has dropped the turn, and `discard` handles that.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| shared.supplier.start(body))) {
            take_panic_message(payload);
        }
        SUBMITTING.with(|submitting| submitting.set(before));
    }
}

impl<X: Send + 'static> RunOrDiscard for PooledTurn<X> {
    fn run(self: Box<Self>) {
        if SUBMITTING.with(Cell::get) {
            // The supplier runs the turn inside of a call of `execute`, or of the previous turn.
            let cause = "its thread supplier ran a turn in place, on the calling thread".to_owned();
            return fail(self.core.resume(), cause);
        }
        let Self { core, parked, alarm } = *self;
        drop(alarm);
        run_turn(core.resume(), parked);
    }

    fn is_turn(&self) -> bool {
        true
    }

    fn discard(self: Box<Self>) {
        let cause = "its thread supplier dropped a turn without running it".to_owned();
        fail(self.core.resume(), cause);
    }
}
