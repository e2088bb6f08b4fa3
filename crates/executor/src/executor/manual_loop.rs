//! A loop without a thread of its own: somebody calls its turns (L12).
//!
//! [`ManualExecutor`](crate::ManualExecutor) is one that has only tasks; a layer above drives its
//! event loops with the same.

use std::fmt;
use std::marker::PhantomData;

use crate::engine::current::Entered;
use crate::engine::run_loop;
use crate::engine::{LoopCore, Turn, Work};
use crate::executor::EventExecutor;

/// The owned half of an executor that the calling thread drives.
///
/// Dropped before it is over, it shuts down at once: what was accepted still runs, in the destructor.
pub struct ByHand<X: Send + 'static> {
    pub(crate) core: LoopCore<X>,
    executor: EventExecutor<X>,
    over: bool,
    /// The loop belongs to the thread that made it: what it holds need not be `Send`.
    not_send: PhantomData<*const ()>,
}

impl<X: Send + 'static> ByHand<X> {
    /// Takes an executor over before it has started.
    pub(crate) fn drive(executor: EventExecutor<X>) -> Self {
        executor.shared().start_by_hand();
        executor.shared().begin_to_turn();
        let core = LoopCore::new(executor.shared().clone());
        Self { core, executor, over: false, not_send: PhantomData }
    }

    /// The executor, to be submitted to from any thread.
    #[must_use]
    pub fn executor(&self) -> &EventExecutor<X> {
        &self.executor
    }

    /// Whether it has terminated.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Whether something is queued: a task, a command, a timer that is due.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.core.has_work()
    }

    /// Makes the calling thread the loop's, until the guard goes.
    pub(crate) fn enter(&self) -> Entered {
        self.core.enter()
    }

    /// Runs `turn` on the loop: with the thread's current executor set to it. Nothing, once it is
    /// over.
    pub fn on_loop<R>(&mut self, turn: impl FnOnce(&mut LoopCore<X>) -> R) -> Option<R> {
        if self.over {
            return None;
        }
        let _entered = self.enter();
        Some(turn(&mut self.core))
    }

    /// One turn of `work`; with [`Turn::Done`] it is torn down, and is over.
    pub fn turn(&mut self, work: &mut Option<Box<dyn Work<X>>>) -> Turn {
        let turn = self.on_loop(|core| work.as_mut().map(|work| work.turn(core)));
        let turn = turn.flatten().unwrap_or(Turn::Done);
        if turn == Turn::Done {
            self.tear_down(work.take());
        }
        turn
    }

    /// Shuts down at once and tears the loop down, here and now: what was accepted still runs.
    pub fn end(&mut self, work: Option<Box<dyn Work<X>>>) {
        if !self.over {
            self.core.shared.shut_down_now();
            self.tear_down(work);
        }
    }

    /// The last turn is done.
    pub(crate) fn tear_down(&mut self, work: Option<Box<dyn Work<X>>>) {
        if !std::mem::replace(&mut self.over, true) {
            let entered = self.enter();
            run_loop::tear_down(&mut self.core, work, None);
            drop(entered);
            self.core.shared.terminate(None);
        }
    }
}

impl<X: Send + 'static> Drop for ByHand<X> {
    fn drop(&mut self) {
        self.end(None);
    }
}

impl<X: Send + 'static> fmt::Debug for ByHand<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ByHand").field(&self.executor).finish()
    }
}
