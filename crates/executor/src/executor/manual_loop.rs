//! A loop without a thread of its own: the caller makes its turns (L12).
//!
//! [`ManualExecutor`](crate::ManualExecutor) is a manual loop for tasks alone; a layer above drives its event
//! loops in the same way.

use std::fmt;
use std::marker::PhantomData;

use crate::engine::current::EnteredLoop;
use crate::engine::run_loop;
use crate::engine::{LoopCore, LoopWork, TurnOutcome};
use crate::executor::EventExecutor;

/// The owned half of an executor that the calling thread drives.
///
/// Dropping an unterminated loop shuts it down at once: accepted commands still run, in the destructor.
pub struct ManualLoop<X: Send + 'static> {
    pub(crate) core: LoopCore<X>,
    executor: EventExecutor<X>,
    is_terminated: bool,
    /// Makes the loop `!Send`: it stays on the thread that made it, and its contents need not be `Send`.
    not_send: PhantomData<*const ()>,
}

impl<X: Send + 'static> ManualLoop<X> {
    /// Takes over an executor that has not started.
    pub(crate) fn new_driven(executor: EventExecutor<X>) -> Self {
        executor.shared().start_manually();
        executor.shared().on_loop_start();
        let core = LoopCore::new(executor.shared().clone());
        Self { core, executor, is_terminated: false, not_send: PhantomData }
    }

    /// Returns the executor, to which any thread may submit.
    #[must_use]
    pub fn executor(&self) -> &EventExecutor<X> {
        &self.executor
    }

    /// True once the executor has terminated.
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        self.is_terminated
    }

    /// True if a command is queued.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.core.has_work()
    }

    /// Makes the calling thread the loop's thread until the guard is dropped.
    pub(crate) fn enter(&self) -> EnteredLoop {
        self.core.enter()
    }

    /// Runs `turn` with the calling thread as the loop's thread. Returns `None` once the loop has terminated.
    pub fn on_loop<R>(&mut self, turn: impl FnOnce(&mut LoopCore<X>) -> R) -> Option<R> {
        if self.is_terminated {
            return None;
        }
        let _entered = self.enter();
        Some(turn(&mut self.core))
    }

    /// Makes one turn of `work`. With [`TurnOutcome::Done`] the loop is torn down and has terminated.
    pub fn turn(&mut self, work: &mut Option<Box<dyn LoopWork<X>>>) -> TurnOutcome {
        let turn = self.on_loop(|core| work.as_mut().map(|work| work.turn(core)));
        let turn = turn.flatten().unwrap_or(TurnOutcome::Done);
        if turn == TurnOutcome::Done {
            self.tear_down(work.take());
        }
        turn
    }

    /// Shuts down at once and tears the loop down, on the calling thread. Accepted commands still run.
    pub fn end(&mut self, work: Option<Box<dyn LoopWork<X>>>) {
        if !self.is_terminated {
            self.core.shared.shut_down_now();
            self.tear_down(work);
        }
    }

    /// Tears the loop down after its last turn.
    pub(crate) fn tear_down(&mut self, work: Option<Box<dyn LoopWork<X>>>) {
        if !std::mem::replace(&mut self.is_terminated, true) {
            let entered = self.enter();
            run_loop::tear_down(&mut self.core, work, None);
            drop(entered);
            self.core.shared.terminate(None);
        }
    }
}

impl<X: Send + 'static> Drop for ManualLoop<X> {
    fn drop(&mut self) {
        self.end(None);
    }
}

impl<X: Send + 'static> fmt::Debug for ManualLoop<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManualLoop").field(&self.executor).finish()
    }
}
