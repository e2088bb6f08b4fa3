//! Commands of a layer above: sent without keeping the executor alive.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, Nanos};
use crate::engine::command::{Command, SystemCommand};
use crate::engine::current::{self, ExecutorId};
use crate::engine::local_half::LocalHalf;
use crate::engine::run_user_code;
use crate::engine::shared_half::SharedHalf;
use crate::error::Error;
use crate::executor::EventExecutor;
use crate::executor::attachment::ExecutorAttachment;
use crate::lifecycle::ExecutorState;
use crate::queue::rejection::{RejectReason, Rejected};
use crate::raw::origin::Origin;
use crate::report::UserCode;
use crate::timer::TimerKey;
use crate::wake::wake_word::Urgency;
use crate::watchdog::activity_cell::{ActivityCell, ActivityGuard, RoundGuard, SavedActivity};
use crate::watchdog::call_site::CallSite;

/// Sends commands to a loop. Unlike a handle it does not keep the executor alive, and never starts it: for
/// wakers, and for objects that live on the loop itself.
pub struct CommandSender<X: Send + 'static> {
    shared: Arc<SharedHalf<X>>,
}

impl<X: Send + 'static> CommandSender<X> {
    /// Queues a command; the queue bound does not apply. The loop's [`LoopWork`](crate::engine::LoopWork) performs it
    /// in the order of acceptance.
    ///
    /// # Errors
    /// [`Rejected`] with the command, if the loop is not running or is shut down.
    pub fn send(&self, command: X) -> Result<(), Rejected<X>> {
        self.send_as(Urgency::Now, command, |command| command)
    }

    /// Reserves a place in the queue, then queues the command that `make` returns for `value`; a rejection
    /// returns the value.
    ///
    /// # Errors
    /// [`Rejected`] with the value, as for [`send`](Self::send).
    pub fn send_with<V>(&self, value: V, make: impl FnOnce(V) -> X) -> Result<(), Rejected<V>> {
        self.send_as(Urgency::Now, value, make)
    }

    /// Queues a command as [`send_with`](Self::send_with) does, without waking the loop for it: the loop takes
    /// the command when it is next awake.
    ///
    /// # Errors
    /// The errors of [`send_with`](Self::send_with).
    pub fn send_lazily_with<V>(
        &self,
        value: V,
        make: impl FnOnce(V) -> X,
    ) -> Result<(), Rejected<V>> {
        self.send_as(Urgency::Lazy, value, make)
    }

    fn send_as<V>(
        &self,
        urgency: Urgency,
        value: V,
        make: impl FnOnce(V) -> X,
    ) -> Result<(), Rejected<V>> {
        if self.shared.life.state() == ExecutorState::NotStarted {
            return Err(Rejected::new(value, RejectReason::ShutDown));
        }
        self.shared.send_as(urgency, value, make)
    }

    /// Schedules a command for a point in time: a timer without closure, future or allocation. Must be
    /// called on the loop.
    ///
    /// # Errors
    /// The command itself, if called on another thread or after the loop's last pass.
    pub fn send_at(&self, deadline: Nanos, command: X) -> Result<TimerKey, X> {
        self.shared.send_at(deadline, command)
    }

    /// Cancels and returns a command scheduled by [`send_at`](Self::send_at), unless it was performed. Must be
    /// called on the loop.
    pub fn take_back(&self, key: TimerKey) -> Option<X> {
        self.shared.take_back(key)
    }

    /// Publishes that the loop begins a piece of work, until the guard is dropped. Must be called on the loop.
    /// Cheaper than [`run_user_code`](Self::run_user_code), for many calls in a row.
    #[inline]
    pub fn begin(&self, what: UserCode, origin: Origin) -> ActivityGuard<'_> {
        self.shared.status.activity.begin(what, origin)
    }

    /// Publishes that the loop begins a round: many short pieces of work one after the other, each
    /// [begun](Self::begin) by itself. A [`Watchdog`](crate::Watchdog) reports a round that takes too long
    /// although none of its pieces does. Must be called on the loop.
    #[inline]
    pub fn begin_round(&self) -> RoundGuard<'_> {
        self.shared.status.activity.begin_round()
    }

    /// True if a [`Watchdog`](crate::Watchdog) watches the loop. Only then are [`CallSite`]s worth their cost.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.shared.watchdog.is_some()
    }

    /// Calls `code` as a method of this call site. Must be called on the loop.
    #[inline]
    pub fn run_at<R>(&self, call_site: &CallSite, call: u8, code: impl FnOnce() -> R) -> R {
        /// Restores the activity on drop, also on unwind.
        struct Exit<'a>(&'a ActivityCell, SavedActivity);
        impl Drop for Exit<'_> {
            fn drop(&mut self) {
                self.0.restore(self.1);
            }
        }
        let activity = &self.shared.status.activity;
        let before =
            activity.enter(UserCode::Handler, call_site.origin, call_site.encode_call(call));
        let _exit = Exit(activity, before);
        code()
    }

    /// Runs code of the user's on the loop, and publishes it as the loop's activity. A panic is reported, and
    /// returned as an error. Must be called on the loop.
    ///
    /// # Errors
    /// [`ErrorKind::Panicked`](crate::ErrorKind::Panicked).
    pub fn run_user_code<R>(
        &self,
        what: UserCode,
        origin: Origin,
        code: impl FnOnce() -> R,
    ) -> Result<R, Error> {
        let activity = &self.shared.status.activity;
        let before = activity.enter(what, origin, None);
        let outcome = run_user_code(what, origin, code);
        activity.restore(before);
        outcome
    }

    /// True once a shutdown has begun.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.shared.life.has_reached(ExecutorState::ShuttingDown)
    }

    /// Returns the id of the executor, unique in the process.
    #[must_use]
    pub fn id(&self) -> ExecutorId {
        self.shared.id
    }

    /// True if the calling thread is the loop's.
    #[must_use]
    pub fn in_event_loop(&self) -> bool {
        self.shared.in_event_loop()
    }

    /// Returns the loop's clock.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Returns a handle, which keeps the executor alive only if another user handle exists.
    #[must_use]
    pub fn executor(&self) -> EventExecutor<X> {
        EventExecutor::of(self.shared.clone())
    }
}

impl<X: Send + 'static> EventExecutor<X> {
    /// True if a [`Watchdog`](crate::Watchdog) watches the loop.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.shared().watchdog.is_some()
    }
}

/// Access to an executor for the layer above it: commands of that layer, and its attachment. A trait, so that
/// users of that layer, whose handles dereference to an executor, do not see these methods.
pub trait CommandAccess<X: Send + 'static> {
    /// Returns a sender of commands that does not keep the executor alive.
    #[must_use]
    fn sender(&self) -> CommandSender<X>;

    /// Queues a command of the layer above; the queue bound does not apply. The loop's
    /// [`LoopWork`](crate::engine::LoopWork) performs it in the order of acceptance.
    ///
    /// # Errors
    /// [`Rejected`] with the command, if the executor is shut down or its thread cannot be started.
    fn send(&self, command: X) -> Result<(), Rejected<X>>;

    /// Queues a command that adds to the load counted by [`ExecutorAttachment::load`]. Choosers count its load once at
    /// any moment: as a queued command, then as lasting load.
    ///
    /// # Errors
    /// The errors of [`send`](Self::send).
    fn send_lasting(&self, command: X) -> Result<(), Rejected<X>>;

    /// Reserves a place in the queue, then queues the command that `make` returns for `value`; a rejection
    /// returns the value. A panic of `make` unwinds to the caller and leaves nothing queued; a shutdown waits
    /// until `make` returns.
    ///
    /// # Errors
    /// [`Rejected`] with the value, as for [`send`](Self::send).
    fn send_with<V>(&self, value: V, make: impl FnOnce(V) -> X) -> Result<(), Rejected<V>>;

    /// Schedules a command of the layer above after a delay: a timer without closure, future or
    /// allocation. Must be called on the loop.
    ///
    /// # Errors
    /// The command itself, if called on another thread or after the loop's last pass.
    fn send_after(&self, delay: Duration, command: X) -> Result<TimerKey, X>;

    /// Cancels and returns a command scheduled by [`send_after`](Self::send_after), unless it was performed. Must be
    /// called on the loop.
    fn take_back(&self, key: TimerKey) -> Option<X>;

    /// Returns the value that the layer above attached when it built this executor.
    #[must_use]
    fn attachment(&self) -> Option<&Arc<dyn ExecutorAttachment>>;
}

impl<X: Send + 'static> CommandAccess<X> for EventExecutor<X> {
    fn sender(&self) -> CommandSender<X> {
        CommandSender { shared: self.shared().clone() }
    }

    fn send(&self, command: X) -> Result<(), Rejected<X>> {
        self.shared().send_as(Urgency::Now, command, |command| command)
    }

    fn send_lasting(&self, command: X) -> Result<(), Rejected<X>> {
        self.shared().send_system(Urgency::Now, command, SystemCommand::Lasting)
    }

    fn send_with<V>(&self, value: V, make: impl FnOnce(V) -> X) -> Result<(), Rejected<V>> {
        self.shared().send_as(Urgency::Now, value, make)
    }

    fn send_after(&self, delay: Duration, command: X) -> Result<TimerKey, X> {
        self.shared().send_at(self.shared().clock.now().plus(delay), command)
    }

    fn take_back(&self, key: TimerKey) -> Option<X> {
        self.shared().take_back(key)
    }

    fn attachment(&self) -> Option<&Arc<dyn ExecutorAttachment>> {
        self.shared().attachment.as_ref()
    }
}

impl<X: Send + 'static> SharedHalf<X> {
    fn send_as<V>(
        self: &Arc<Self>,
        urgency: Urgency,
        value: V,
        make: impl FnOnce(V) -> X,
    ) -> Result<(), Rejected<V>> {
        self.send_system(urgency, value, |value| SystemCommand::Extension(make(value)))
    }

    fn send_system<V>(
        self: &Arc<Self>,
        urgency: Urgency,
        value: V,
        make: impl FnOnce(V) -> SystemCommand<X>,
    ) -> Result<(), Rejected<V>> {
        match self.admit_system() {
            Ok(permit) => {
                self.push(permit, Command::System(make(value)), urgency);
                Ok(())
            }
            Err(reason) => Err(Rejected::new(value, reason)),
        }
    }

    fn send_at(&self, deadline: Nanos, command: X) -> Result<TimerKey, X> {
        if self.inbox.is_closed() {
            return Err(command);
        }
        let mut command = Some(command);
        let key = current::with_local::<LocalHalf<X>, _>(self.id, |local| {
            command.take().map(|command| local.schedule_extension(deadline, command))
        });
        match (key.flatten(), command) {
            (Some(key), _) => Ok(key),
            (None, Some(command)) => Err(command),
            (None, None) => unreachable!("the command is taken only to be scheduled"),
        }
    }

    fn take_back(&self, key: TimerKey) -> Option<X> {
        current::with_local::<LocalHalf<X>, _>(self.id, |local| local.unschedule_extension(key))?
    }
}

impl<X: Send + 'static> Clone for CommandSender<X> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<X: Send + 'static> fmt::Debug for CommandSender<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CommandSender").field(&self.shared.name).finish()
    }
}
