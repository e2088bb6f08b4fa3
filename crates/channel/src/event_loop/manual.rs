//! An event loop that its owner drives turn by turn, on the owner's thread (L12).

use std::fmt;
use std::time::Duration;

use waterwheel_executor::engine::{LoopWork, TurnOutcome};
use waterwheel_executor::{ManualLoop, Nanos};

use crate::event_loop::command::LoopCommand;
use crate::event_loop::handle::EventLoop;
use crate::event_loop::local_loop::LocalLoop;
use crate::event_loop::turn::LoopRunner;

/// An event loop without a thread of its own: it turns only when its owner calls [`turn`](Self::turn) or
/// [`run_for`](Self::run_for). For tests, and for threads that already have a loop. It is not `Send`, because its
/// registrations stay on the owner's thread.
///
/// Dropping the loop before it has terminated shuts it down at once: tasks already accepted run in the destructor.
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
    executor: ManualLoop<LoopCommand>,
    local: LocalLoop,
    work: Option<Box<dyn LoopWork<LoopCommand>>>,
}

impl ManualEventLoop {
    pub(crate) fn new(
        executor: ManualLoop<LoopCommand>,
        local: LocalLoop,
        runner: LoopRunner,
    ) -> Self {
        Self { executor, local, work: Some(Box::new(runner)) }
    }

    /// Returns a handle to the loop, usable from any thread.
    #[must_use]
    pub fn event_loop(&self) -> EventLoop {
        EventLoop::new(self.executor.executor().clone())
    }

    /// Runs one turn, which waits for at most `limit` if there is nothing to do; `None` means no limit. Returns
    /// `false` once the loop has terminated.
    pub fn turn(&mut self, limit: Option<Duration>) -> bool {
        self.turn_until(limit.map(|limit| self.local.now().plus(limit)))
    }

    /// Runs turns until this much time has passed by the loop's clock, or the loop has terminated.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.local.now().plus(time);
        while self.turn_until(Some(end)) && self.local.now() < end {}
    }

    /// Calls `f` on the loop: during the call, [`LocalLoop::current`] is this loop. Work that the call deferred at
    /// channels runs before this method returns. Returns `None` once the loop has terminated.
    pub fn on_loop<R>(&mut self, f: impl FnOnce(&LocalLoop) -> R) -> Option<R> {
        let _here = self.local.make_current();
        self.executor.on_loop(|_| {
            let result = f(&self.local);
            self.local.run_deferred_channel_work();
            self.local.check_drain();
            result
        })
    }

    /// True if there is nothing to do right now: no queued task, no ready future, no deferred work. Timers may still
    /// fire, and events may still arrive.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        !self.local.has_work() && !self.executor.has_work()
    }

    /// True if the loop has terminated.
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        self.executor.is_terminated()
    }

    fn turn_until(&mut self, limit: Option<Nanos>) -> bool {
        let _here = self.local.make_current();
        self.local.set_wait_limit(limit);
        self.executor.turn(&mut self.work) == TurnOutcome::Again
    }
}

impl Drop for ManualEventLoop {
    fn drop(&mut self) {
        let _here = self.local.make_current();
        self.executor.end(self.work.take());
    }
}

impl fmt::Debug for ManualEventLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManualEventLoop").field(&self.event_loop()).finish()
    }
}
