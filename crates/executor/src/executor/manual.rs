//! An executor driven by the caller's own thread (E19).

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::clock::{Clock, Nanos, VirtualClock};
use crate::engine::command::NoExtension;
use crate::engine::current;
use crate::engine::shared_half::SharedHalf;
use crate::engine::{PassLimit, TurnOutcome};
use crate::error::WouldDeadlock;
use crate::executor::EventExecutor;
use crate::executor::manual_loop::ManualLoop;
use crate::wake::park::TokenPark;
use crate::wake::wake_word::Urgency;

/// How many passes one instant of a virtual clock gets while tasks keep submitting tasks, before time moves on.
const PASSES_PER_INSTANT: u32 = 1000;

/// An executor without a thread: its tasks run only while its owner calls one of the `run` methods. For tests,
/// and for threads that already have a loop of their own.
///
/// With a [virtual clock](Self::with_virtual_clock) time moves only in [`run_for`](Self::run_for), so a test of
/// an hour takes no time.
///
/// ```
/// use waterwheel_executor::ManualExecutor;
///
/// let mut manual = ManualExecutor::new();
/// let future = manual.executor().submit(|| 42)?;
/// assert!(!future.is_done());
/// assert_eq!(manual.run_now(), 1);
/// assert_eq!(manual.block_on(future)??, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Dropping the executor shuts it down at once: accepted tasks still run, in the destructor.
pub struct ManualExecutor {
    manual_loop: ManualLoop<NoExtension>,
    park: TokenPark,
}

impl ManualExecutor {
    /// Creates a manual executor that uses the real clock.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(Clock::Monotonic)
    }

    /// Creates a manual executor that uses this virtual clock.
    #[must_use]
    pub fn with_virtual_clock(clock: VirtualClock) -> Self {
        Self::with_clock(Clock::Virtual(clock))
    }

    fn with_clock(clock: Clock) -> Self {
        match EventExecutor::builder().name("manual").build_manual(clock) {
            Ok(manual) => manual,
            Err(invalid) => unreachable!("the default properties are valid: {invalid}"),
        }
    }

    pub(crate) fn new_driven(manual_loop: ManualLoop<NoExtension>, park: TokenPark) -> Self {
        Self { manual_loop, park }
    }

    /// Returns the executor, to which any thread may submit.
    #[must_use]
    pub fn executor(&self) -> &EventExecutor {
        self.manual_loop.executor()
    }

    /// Runs the tasks that are queued and the timers that are due now. Returns how many ran. Never blocks.
    ///
    /// Tasks submitted meanwhile wait for the next call, so a task that submits itself again cannot keep this call
    /// from returning.
    pub fn run_now(&mut self) -> usize {
        let _entered = self.manual_loop.enter();
        self.manual_loop.core.local.move_schedules_to_wheel();
        self.count_tasks(|this| {
            this.run_pass();
        })
    }

    /// Runs tasks as they arrive, for the given time. Returns how many ran.
    ///
    /// With the real clock the thread sleeps in between. A virtual clock is moved forward by `time`, from
    /// one deadline to the next: everything that is due at an instant runs before time moves on, except for
    /// tasks that keep submitting themselves, which get a thousand passes.
    pub fn run_for(&mut self, time: Duration) -> usize {
        let _entered = self.manual_loop.enter();
        self.count_tasks(|this| this.run_until(this.now().plus(time)))
    }

    fn run_until(&mut self, end: Nanos) {
        self.run_instant();
        while !self.manual_loop.is_terminated() && self.now() < end {
            match (
                &self.manual_loop.core.shared.clock,
                self.manual_loop.core.next_deadline().finite(),
            ) {
                (Clock::Monotonic, _) => {
                    self.manual_loop.core.wait_until(Some(end), || false, &mut self.park);
                }
                (Clock::Virtual(clock), Some(next)) if next <= end => clock.advance_to(next),
                (Clock::Virtual(clock), _) => {
                    if end < Nanos::MAX {
                        clock.advance_to(end);
                    }
                    return;
                }
            }
            self.run_instant();
        }
    }

    /// Runs tasks as they arrive until the future is ready, and returns its output. A virtual clock jumps to the
    /// next deadline when there is nothing else to do.
    ///
    /// # Errors
    /// [`WouldDeadlock`] on a thread that runs a loop: that loop would stop meanwhile.
    pub fn block_on<F: Future>(&mut self, future: F) -> Result<F::Output, WouldDeadlock> {
        if let Some(here) = current::get() {
            return Err(WouldDeadlock { executor: here.name.to_string() });
        }
        let _entered = self.manual_loop.enter();
        let signal = Arc::new(BlockOnWaker::new(self.manual_loop.executor().shared().clone()));
        let waker = Waker::from(signal.clone());
        let mut context = Context::from_waker(&waker);
        let mut future = pin!(future);
        loop {
            if signal.woken.swap(false, Ordering::AcqRel)
                && let Poll::Ready(output) = future.as_mut().poll(&mut context)
            {
                return Ok(output);
            }
            if self.run_pass() == 0 {
                self.wait_for_work(&|| signal.woken.load(Ordering::Acquire));
            }
        }
    }

    fn now(&self) -> Nanos {
        self.manual_loop.core.shared.clock.now()
    }

    /// Returns how many tasks `run` ran, including those of a teardown.
    fn count_tasks(&mut self, run: impl FnOnce(&mut Self)) -> usize {
        let before = self.manual_loop.executor().stats().tasks;
        run(self);
        (self.manual_loop.executor().stats().tasks - before) as usize
    }

    /// Makes one turn without the wait. Returns how many tasks ran.
    fn run_pass(&mut self) -> usize {
        if self.manual_loop.is_terminated() {
            return 0;
        }
        let run = self.manual_loop.core.run_tasks(PassLimit::Queued, &mut |none| match none {});
        self.manual_loop.core.return_admissions();
        if self.manual_loop.core.check_shutdown() == TurnOutcome::Done {
            self.manual_loop.tear_down(None);
        }
        run
    }

    /// Makes one pass; with a virtual clock, more passes while there is something to do at this instant.
    fn run_instant(&mut self) {
        self.run_pass();
        if matches!(self.manual_loop.core.shared.clock, Clock::Virtual(_)) {
            for _ in 1..PASSES_PER_INSTANT {
                let is_due = self
                    .manual_loop
                    .core
                    .next_deadline()
                    .finite()
                    .is_some_and(|at| at <= self.now());
                if self.manual_loop.is_terminated()
                    || !is_due && !self.manual_loop.core.local.has_work()
                {
                    break;
                }
                self.run_pass();
            }
        }
    }

    /// Waits for something to do, or until `is_woken` returns true.
    fn wait_for_work(&mut self, is_woken: &dyn Fn() -> bool) {
        match (&self.manual_loop.core.shared.clock, self.manual_loop.core.next_deadline().finite())
        {
            // A virtual clock does not move by itself: it jumps to the next deadline.
            (Clock::Virtual(clock), Some(next)) => {
                if !is_woken() && !self.manual_loop.core.local.has_work() {
                    clock.advance_to(next);
                }
            }
            _ => {
                self.manual_loop.core.wait_until(None, is_woken, &mut self.park);
            }
        }
    }
}

impl Default for ManualExecutor {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ManualExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManualExecutor").field(self.manual_loop.executor()).finish()
    }
}

/// The waker of `block_on`: wakes its thread, and records the wake-up.
struct BlockOnWaker {
    woken: AtomicBool,
    shared: Arc<SharedHalf<NoExtension>>,
}

impl BlockOnWaker {
    fn new(shared: Arc<SharedHalf<NoExtension>>) -> Self {
        Self { woken: AtomicBool::new(true), shared }
    }
}

impl Wake for BlockOnWaker {
    fn wake(self: Arc<Self>) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            self.shared.inbox.wake(Urgency::Now);
        }
    }
}
