//! The part of an executor's handle that schedules timers (E13).

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Nanos;
use crate::engine::command::{Command, SystemCommand};
use crate::engine::current;
use crate::engine::local_half::LocalHalf;
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
    /// Runs a task after a delay, never early. Cancelling the future drops the closure at once, from any
    /// thread. A delay beyond the clock's range means never.
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
    /// as many timers are pending as the [timer bound](crate::EventExecutorBuilder::timer_bound) allows.
    #[track_caller]
    pub fn schedule<T, F>(&self, delay: Duration, task: F) -> Result<PromiseFuture<T>, Rejected<F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.schedule_from(Origin::here(), delay, task)
    }

    /// Runs a task every `period`, the first time after `initial_delay`. Ticks stay on their grid; missed ticks
    /// catch up. The timer ends when it is cancelled, or when the task panics: then its future fails.
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

    /// Runs a task as [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate) does, with a policy for missed
    /// ticks.
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

    /// Runs a task again and again with `pause` between the end of one run and the start of the next; the first
    /// time after `initial_delay`. The timer ends when it is cancelled, or when the task panics: then its
    /// future fails.
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
                        drop(permit); // The timer is not pending any more, and the task may schedule another one.
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
                    let _ = &permit; // The closure holds the permit, so the timer is pending between runs too.
                    task();
                })
            }),
        }
    }

    /// Schedules as [`schedule_at`](Self::schedule_at) does, if the limit allows another pending timer.
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

    /// Schedules a timer: on the loop straight into its wheel, on other threads through the inbox. The loop is
    /// woken only if it would sleep past the deadline.
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
            current::with_local::<LocalHalf<X>, _>(self.id(), |local| {
                local.schedule(deadline, timer)
            });
            return Ok(future);
        }
        // A timer does not count against the queue bound: it waits for its deadline, not for the loop, and may not
        // even wake the loop.
        match shared.admit_system() {
            Ok(permit) => {
                let (timer, future) = make(Allocator::Global, task);
                let command = Command::System(SystemCommand::Schedule(deadline, timer));
                shared.push(permit, command, Urgency::At(deadline));
                Ok(future)
            }
            Err(reason) => Err(Rejected::new(task, reason)),
        }
    }
}
