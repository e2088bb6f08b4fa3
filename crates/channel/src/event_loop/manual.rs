//! An event loop driven by the caller's own thread (L12).

use std::fmt;
use std::time::Duration;

use waterwheel_executor::engine::{LoopWork, TurnOutcome};
use waterwheel_executor::{ManualLoop, Nanos};

use crate::event_loop::command::LoopCommand;
use crate::event_loop::handle::EventLoop;
use crate::event_loop::local_loop::LocalLoop;
use crate::event_loop::turn::LoopRunner;

/// An event loop without a thread: it turns when, and only when, its owner calls. For tests, and for
/// threads that already have a loop of their own. Not `Send`: what is registered with it stays here.
///
/// Dropped before it is over, it shuts down at once: what was accepted still runs, in the destructor.
///
/// ```
/// use std::time::Duration;
/// use waterwheel_channel::driver::TaskOnly;
/// use waterwheel_channel::EventLoopGroup;
///
/// let mut manual = EventLoopGroup::builder(TaskOnly).build_manual()?;
/// let answer = manual.event_loop().submit(|| 6 * 7)?;
/// assert!(!answer.is_done());
/// assert!(manual.turn(Some(Duration::ZERO)), "there will be another turn");
/// assert_eq!(answer.join()?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ManualEventLoop {
    hand: ManualLoop<LoopCommand>,
    local: LocalLoop,
    work: Option<Box<dyn LoopWork<LoopCommand>>>,
}

impl ManualEventLoop {
    pub(crate) fn new(hand: ManualLoop<LoopCommand>, local: LocalLoop, runner: LoopRunner) -> Self {
        Self { hand, local, work: Some(Box::new(runner)) }
    }

    /// The loop, to be submitted to from any thread.
    #[must_use]
    pub fn event_loop(&self) -> EventLoop {
        EventLoop::new(self.hand.executor().clone())
    }

    /// One turn, which waits for this long at the most if there is nothing to do; `None` has no
    /// limit. `false` once the loop has terminated.
    pub fn turn(&mut self, limit: Option<Duration>) -> bool {
        self.turn_until(limit.map(|limit| self.local.now().plus(limit)))
    }

    /// Turns until this much time has passed by the loop's clock, or the loop has terminated.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.local.now().plus(time);
        while self.turn_until(Some(end)) && self.local.now() < end {}
    }

    /// Calls `f` on the loop: [`LocalLoop::current`] is this one meanwhile. What that leaves behind at
    /// channels is done before it returns. `None` once the loop has terminated.
    pub fn on_loop<R>(&mut self, f: impl FnOnce(&LocalLoop) -> R) -> Option<R> {
        let _here = self.local.enter();
        self.hand.on_loop(|_| {
            let result = f(&self.local);
            self.local.settle_channels();
            self.local.check_drain();
            result
        })
    }

    /// Whether there is nothing to do right now: no task is queued, no future ready, nothing left behind.
    /// Timers and events may come.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        !self.local.has_work() && !self.hand.has_work()
    }

    /// Whether the loop has terminated.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.hand.is_terminated()
    }

    fn turn_until(&mut self, limit: Option<Nanos>) -> bool {
        let _here = self.local.enter();
        self.local.set_wait_limit(limit);
        self.hand.turn(&mut self.work) == TurnOutcome::Again
    }
}

impl Drop for ManualEventLoop {
    fn drop(&mut self) {
        let _here = self.local.enter();
        self.hand.end(self.work.take());
    }
}

impl fmt::Debug for ManualEventLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManualEventLoop").field(&self.event_loop()).finish()
    }
}
