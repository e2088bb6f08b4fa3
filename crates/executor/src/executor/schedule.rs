//! Scheduling: the part of an executor's handle that deals with time (E13).

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Nanos;
use crate::engine::command::{Command, System};
use crate::engine::current;
use crate::engine::local_half::Local;
use crate::executor::EventExecutor;
use crate::promise::PromiseFuture;
use crate::queue::rejection::{RejectReason, Rejected};
use crate::raw::block::Allocator;
use crate::raw::origin::Origin;
use crate::timer::MissedTicks;
use crate::timer::entry::{self, TimerRef};
use crate::timer::limit::{TimerLimit, TimerPermit};
use crate::timer::periodic::Repeat;
use crate::wake::wake_word::Urgency;

impl<X: Send + 'static> EventExecutor<X> {
    /// Runs a task after a delay, never early. Cancelling the future drops the closure at once, from
    /// any thread. A delay beyond what the clock can say means never.
    ///
    /// ```
    /// use std::time::Duration;
    /// use waterwheel_executor::EventExecutor;
    ///
    /// let executor = EventExecutor::builder().build()?;
    /// let soon = executor.schedule(Duration::from_millis(1), || "due")?;
    /// assert_eq!(soon.join()?, "due");
    /// let never = executor.schedule(Duration::MAX, || unreachable!())?;
    /// assert!(never.cancel());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Rejected`] with the closure: as for [`execute`](Self::execute), though never for a full queue; or if
    /// as many timers are pending as [may be](crate::EventExecutorBuilder::timer_bound).
    #[track_caller]
    pub fn schedule<T, F>(&self, delay: Duration, task: F) -> Result<PromiseFuture<T>, Rejected<F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.schedule_from(Origin::here(), delay, task)
    }

    /// Runs a task every `period`, the first time after `initial_delay`. Ticks stay on their grid;
    /// missed ones catch up. It ends when it is cancelled, or panics: then its future fails.
    ///
    /// # Errors
    /// [`Rejected`] with the closure: as for [`schedule`](Self::schedule), or for a period of zero.
    #[track_caller]
    pub fn schedule_at_fixed_rate<F: FnMut() + Send + 'static>(
        &self,
        initial_delay: Duration,
        period: Duration,
        task: F,
    ) -> Result<PromiseFuture<()>, Rejected<F>> {
        self.schedule_at_fixed_rate_with(MissedTicks::CatchUp, initial_delay, period, task)
    }

    /// As [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate), with a choice of what happens to
    /// missed ticks.
    ///
    /// # Errors
    /// [`Rejected`] with the closure: as for [`schedule`](Self::schedule), or for a period of zero.
    #[track_caller]
    pub fn schedule_at_fixed_rate_with<F: FnMut() + Send + 'static>(
        &self,
        missed: MissedTicks,
        initial_delay: Duration,
        period: Duration,
        task: F,
    ) -> Result<PromiseFuture<()>, Rejected<F>> {
        let repeat = Repeat::Rate { period, missed };
        self.schedule_repeatedly(Origin::here(), initial_delay, repeat, task)
    }

    /// Runs a task again and again with `pause` between the end of one run and the start of the next;
    /// the first time after `initial_delay`. It ends when it is cancelled, or panics: then its future
    /// fails.
    ///
    /// # Errors
    /// [`Rejected`] with the closure: as for [`schedule`](Self::schedule), or for a pause of zero.
    #[track_caller]
    pub fn schedule_with_fixed_delay<F: FnMut() + Send + 'static>(
        &self,
        initial_delay: Duration,
        pause: Duration,
        task: F,
    ) -> Result<PromiseFuture<()>, Rejected<F>> {
        self.schedule_repeatedly(Origin::here(), initial_delay, Repeat::Delay { pause }, task)
    }

    #[track_caller]
    pub(crate) fn schedule_from<T, F>(
        &self,
        origin: Origin,
        delay: Duration,
        task: F,
    ) -> Result<PromiseFuture<T>, Rejected<F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let deadline = self.shared().clock.now().plus(delay);
        let id = self.id();
        match &self.shared().timer_limit {
            None => self.schedule_at(deadline, task, |allocator, task| {
                entry::one_shot((id, allocator), origin, task)
            }),
            Some(limit) => {
                self.schedule_within(limit, deadline, task, |permit, allocator, task| {
                    entry::one_shot((id, allocator), origin, move || {
                        drop(permit); // It is not pending any more, and may schedule itself anew.
                        task()
                    })
                })
            }
        }
    }

    #[track_caller]
    pub(crate) fn schedule_repeatedly<F: FnMut() + Send + 'static>(
        &self,
        origin: Origin,
        initial_delay: Duration,
        repeat: Repeat,
        task: F,
    ) -> Result<PromiseFuture<()>, Rejected<F>> {
        if repeat.period().is_zero() {
            return Err(Rejected::new(task, RejectReason::ZeroPeriod));
        }
        let (due, id) = (self.shared().clock.now().plus(initial_delay), self.id());
        let timing = (due, repeat);
        match &self.shared().timer_limit {
            None => self.schedule_at(due, task, |allocator, task| {
                entry::periodic((id, allocator), origin, timing, task)
            }),
            Some(limit) => self.schedule_within(limit, due, task, |permit, allocator, mut task| {
                entry::periodic((id, allocator), origin, timing, move || {
                    let _ = &permit; // Pending between its runs too.
                    task();
                })
            }),
        }
    }

    /// As [`schedule_at`](Self::schedule_at), if another timer may be pending.
    fn schedule_within<T: Send + 'static, F>(
        &self,
        limit: &Arc<TimerLimit>,
        deadline: Nanos,
        task: F,
        make: impl FnOnce(TimerPermit, Allocator, F) -> (TimerRef, PromiseFuture<T>),
    ) -> Result<PromiseFuture<T>, Rejected<F>> {
        match limit.enter() {
            Ok(permit) => {
                self.schedule_at(deadline, task, |allocator, task| make(permit, allocator, task))
            }
            Err(bound) => Err(Rejected::new(task, RejectReason::TooManyTimers { bound })),
        }
    }

    /// On the loop straight into its wheel; elsewhere through the inbox, waking the loop only if it
    /// would sleep past the deadline.
    fn schedule_at<T: Send + 'static, F>(
        &self,
        deadline: Nanos,
        task: F,
        make: impl FnOnce(Allocator, F) -> (TimerRef, PromiseFuture<T>),
    ) -> Result<PromiseFuture<T>, Rejected<F>> {
        let shared = self.shared();
        if shared.in_event_loop() {
            if shared.inbox.is_closed() {
                return Err(Rejected::new(task, RejectReason::ShutDown));
            }
            let (timer, future) = make(Allocator::Pool, task);
            current::with_local::<Local<X>, _>(self.id(), |local| local.schedule(deadline, timer));
            return Ok(future);
        }
        // Not against the bound: it waits for its time, not for the loop, which it may not even wake.
        match shared.admit_system() {
            Ok(permit) => {
                let (timer, future) = make(Allocator::Global, task);
                let command = Command::System(System::Schedule(deadline, timer));
                shared.push(permit, command, Urgency::At(deadline));
                Ok(future)
            }
            Err(reason) => Err(Rejected::new(task, reason)),
        }
    }
}
