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
use crate::engine::shared_half::Shared;
use crate::engine::{Pass, Turn};
use crate::error::WouldDeadlock;
use crate::executor::EventExecutor;
use crate::executor::manual_loop::ByHand;
use crate::wake::park::TokenPark;
use crate::wake::wake_word::Urgency;

/// How often a virtual instant is passed while tasks keep submitting tasks, before time goes on.
const PASSES_PER_INSTANT: u32 = 1000;

/// An executor without a thread: its tasks run when, and only when, its owner calls one of the `run`
/// methods. For tests, and for threads that already have a loop of their own.
///
/// With a [virtual clock](Self::with_virtual_clock) time moves only in
/// [`run_for`](Self::run_for), so a test of an hour takes no time.
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
/// Dropped, it shuts down at once: what was accepted still runs, in the destructor.
pub struct ManualExecutor {
    hand: ByHand<NoExtension>,
    park: TokenPark,
}

impl ManualExecutor {
    /// One that goes by the real clock.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(Clock::Monotonic)
    }

    /// One whose time moves only when it is told to.
    #[must_use]
    pub fn with_virtual_clock(clock: VirtualClock) -> Self {
        Self::with_clock(Clock::Virtual(clock))
    }

    fn with_clock(clock: Clock) -> Self {
        match EventExecutor::builder().name("manual").build_manual(clock) {
            Ok(manual) => manual,
            Err(invalid) => unreachable!("nothing was said that could be wrong: {invalid}"),
        }
    }

    pub(crate) fn drive(hand: ByHand<NoExtension>, park: TokenPark) -> Self {
        Self { hand, park }
    }

    /// The executor, to be submitted to from any thread.
    #[must_use]
    pub fn executor(&self) -> &EventExecutor {
        self.hand.executor()
    }

    /// Runs the tasks that are queued and the timers that are due now; returns how many ran. Never
    /// blocks.
    ///
    /// What these submit waits for the next call, so a task that submits itself again does not keep
    /// this from returning.
    pub fn run_now(&mut self) -> usize {
        let _entered = self.hand.enter();
        self.hand.core.local.absorb_schedules();
        self.counting(|this| {
            this.pass();
        })
    }

    /// Runs tasks as they come for this long; returns how many ran.
    ///
    /// By the real clock the thread sleeps in between. A virtual clock is moved forward by this
    /// much, from one deadline to the next: all that is due at an instant runs before time goes on,
    /// but for tasks that keep submitting themselves, which get a thousand passes.
    pub fn run_for(&mut self, time: Duration) -> usize {
        let _entered = self.hand.enter();
        self.counting(|this| this.run_until(this.now().plus(time)))
    }

    fn run_until(&mut self, end: Nanos) {
        self.run_instant();
        while !self.hand.is_over() && self.now() < end {
            match (&self.hand.core.shared.clock, self.hand.core.next_deadline().if_ever()) {
                (Clock::Monotonic, _) => {
                    self.hand.core.wait_until(Some(end), || false, &mut self.park);
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

    /// Runs tasks as they come until the future is ready, and returns what it gives. A virtual clock
    /// jumps to the next deadline whenever there is nothing else to do.
    ///
    /// # Errors
    /// [`WouldDeadlock`] on a thread that runs a loop: it would stop meanwhile.
    pub fn block_on<F: Future>(&mut self, future: F) -> Result<F::Output, WouldDeadlock> {
        if let Some(here) = current::get() {
            return Err(WouldDeadlock { executor: here.name.to_string() });
        }
        let _entered = self.hand.enter();
        let signal = Arc::new(Signal::new(self.hand.executor().shared().clone()));
        let waker = Waker::from(signal.clone());
        let mut context = Context::from_waker(&waker);
        let mut future = pin!(future);
        loop {
            if signal.woken.swap(false, Ordering::AcqRel)
                && let Poll::Ready(output) = future.as_mut().poll(&mut context)
            {
                return Ok(output);
            }
            if self.pass() == 0 {
                self.rest(&|| signal.woken.load(Ordering::Acquire));
            }
        }
    }

    fn now(&self) -> Nanos {
        self.hand.core.shared.clock.now()
    }

    /// How many tasks ran meanwhile, those of a teardown included.
    fn counting(&mut self, run: impl FnOnce(&mut Self)) -> usize {
        let before = self.hand.executor().stats().tasks;
        run(self);
        (self.hand.executor().stats().tasks - before) as usize
    }

    /// One turn without the wait: how many tasks ran.
    fn pass(&mut self) -> usize {
        if self.hand.is_over() {
            return 0;
        }
        let run = self.hand.core.run_tasks(Pass::Queued, &mut |none| match none {});
        self.hand.core.give_back();
        if self.hand.core.check_shutdown() == Turn::Done {
            self.hand.tear_down(None);
        }
        run
    }

    /// One pass; by a virtual clock as many as there is something to do at this instant.
    fn run_instant(&mut self) {
        self.pass();
        if matches!(self.hand.core.shared.clock, Clock::Virtual(_)) {
            for _ in 1..PASSES_PER_INSTANT {
                let is_due =
                    self.hand.core.next_deadline().if_ever().is_some_and(|at| at <= self.now());
                if self.hand.is_over() || !is_due && !self.hand.core.local.has_work() {
                    break;
                }
                self.pass();
            }
        }
    }

    /// Waits for something to do; `is_woken` is one more such thing.
    fn rest(&mut self, is_woken: &dyn Fn() -> bool) {
        match (&self.hand.core.shared.clock, self.hand.core.next_deadline().if_ever()) {
            // Time does not pass by itself: it jumps to the next thing that is due.
            (Clock::Virtual(clock), Some(next)) => {
                if !is_woken() && !self.hand.core.local.has_work() {
                    clock.advance_to(next);
                }
            }
            _ => {
                self.hand.core.wait_until(None, is_woken, &mut self.park);
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
        f.debug_tuple("ManualExecutor").field(self.hand.executor()).finish()
    }
}

/// Wakes the thread in `block_on`, and remembers that it did.
struct Signal {
    woken: AtomicBool,
    shared: Arc<Shared<NoExtension>>,
}

impl Signal {
    fn new(shared: Arc<Shared<NoExtension>>) -> Self {
        Self { woken: AtomicBool::new(true), shared }
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            self.shared.inbox.wake(Urgency::Now);
        }
    }
}
