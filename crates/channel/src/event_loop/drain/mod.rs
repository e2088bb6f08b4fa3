//! Draining event loops: the options, the outcome and the calls on handles (L11). `loop_drain` is the part on the
//! loop's thread, `consensus` the vote between the loops of a group.

mod consensus;
pub(crate) mod loop_drain;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use waterwheel_executor::engine::CommandAccess;
use waterwheel_executor::{
    DEFAULT_SHUTDOWN_TIMEOUT, Error, ExecutorState, InvalidShutdown, Nanos, Promise, SharedFuture,
};

use crate::event_loop::command::LoopCommand;
use crate::event_loop::drain::consensus::{DrainConsensus, DrainVoter};
use crate::event_loop::group::EventLoopGroup;
use crate::event_loop::handle::EventLoop;
use crate::event_loop::local_loop::LoopShutDown;

/// The default time limit of a drain. With the shutdown's default of 15 s it stays below the 30 s that process
/// supervisors commonly allow.
pub const DEFAULT_DRAIN_TIME: Duration = Duration::from_secs(10);

/// The time limit of a drain, and the parameters of the shutdown that follows it.
///
/// ```
/// use std::time::Duration;
/// use waterwheel_channel::DrainOptions;
///
/// let second = Duration::from_secs(1);
/// let options = DrainOptions::within(5 * second).shutdown(Duration::ZERO, second)?;
/// assert!(options.shutdown(2 * second, second).is_err(), "the quiet period is longer than the whole");
/// # Ok::<(), waterwheel_executor::InvalidShutdown>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainOptions {
    time_limit: Duration,
    quiet_period: Duration,
    timeout: Duration,
}

impl DrainOptions {
    /// Limits the drain to `time`; it ends earlier when no channel has work left. The shutdown that follows has no
    /// quiet period, because the drain has already waited for work in progress; its timeout is
    /// [`DEFAULT_SHUTDOWN_TIMEOUT`].
    #[must_use]
    pub fn within(time: Duration) -> Self {
        Self { time_limit: time, quiet_period: Duration::ZERO, timeout: DEFAULT_SHUTDOWN_TIMEOUT }
    }

    /// Sets the quiet period and the timeout of the shutdown that follows.
    ///
    /// # Errors
    /// [`InvalidShutdown`] if `timeout` is shorter than `quiet`.
    pub fn shutdown(self, quiet: Duration, timeout: Duration) -> Result<Self, InvalidShutdown> {
        if timeout < quiet {
            return Err(InvalidShutdown { quiet, timeout });
        }
        Ok(Self { quiet_period: quiet, timeout, ..self })
    }
}

impl Default for DrainOptions {
    /// Returns options with the limit [`DEFAULT_DRAIN_TIME`].
    fn default() -> Self {
        Self::within(DEFAULT_DRAIN_TIME)
    }
}

/// How a drain ended. A channel *had work left* if it had bytes to write, a [`Hold`](crate::Hold) on it was alive, or
/// one of its handlers was running on another executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// No channel had work left.
    Complete,
    /// The deadline passed first.
    DeadlineReached {
        /// The number of channels that had work left.
        channels: usize,
    },
    /// A shutdown began first.
    CutShort {
        /// The number of channels that had work left.
        channels: usize,
    },
}

impl Drained {
    /// Combines the outcomes of two loops: the worse one, with the sum of their channels.
    fn combine(self, other: Self) -> Self {
        use Drained::{Complete, CutShort, DeadlineReached};
        match (self, other) {
            (Complete, outcome) | (outcome, Complete) => outcome,
            (DeadlineReached { channels }, DeadlineReached { channels: more }) => {
                DeadlineReached { channels: channels + more }
            }
            (
                CutShort { channels } | DeadlineReached { channels },
                CutShort { channels: more } | DeadlineReached { channels: more },
            ) => CutShort { channels: channels + more },
        }
    }
}

/// The event that every channel gets when its loop begins to drain, by
/// [`Handler::on_user_event`](crate::Handler::on_user_event). A handler without unfinished work closes its channel; a
/// handler in the middle of an exchange finishes it first.
///
/// ```
/// use waterwheel_channel::{Ctx, Draining, Handler, HandlerResult, Msg};
///
/// struct Polite;
///
/// impl Handler for Polite {
///     fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
///         if event.is::<Draining>() {
///             ctx.write_and_flush(String::from("goodbye"));
///             ctx.close();
///         }
///         ctx.fire_user_event(event);
///         Ok(())
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draining {
    /// The time at which the drain ends at the latest, by the loop's clock.
    pub deadline: Nanos,
}

/// The error of a registration with a loop that is draining.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the event loop is draining and accepts no new channels")]
pub struct LoopDraining;

/// A drain, from its request to its end. If the value is dropped before the drain has finished, the drain's
/// promise fails with [`LoopShutDown`].
pub(crate) struct DrainRequest {
    promise: Option<Promise<Drained>>,
    pub(super) voter: DrainVoter,
    pub(super) deadline: Nanos,
    options: DrainOptions,
    /// Keeps the loop alive during the drain.
    event_loop: EventLoop,
}

impl DrainRequest {
    /// Ends the drain and begins the shutdown.
    pub(super) fn finish(mut self, outcome: Drained) {
        self.event_loop.shut_down_after(self.options);
        if let Some(promise) = self.promise.take() {
            promise.set_success(outcome);
        }
    }
}

impl Drop for DrainRequest {
    fn drop(&mut self) {
        if let Some(promise) = self.promise.take() {
            promise.set_failure(Error::new(LoopShutDown));
        }
    }
}

impl EventLoop {
    /// Lets the loop finish its work, then shuts it down.
    ///
    /// From now on the loop accepts no new channels ([`LoopDraining`]). Its listeners are closed, and all other
    /// channels get the [`Draining`] event. Nothing else changes: channels read and write, tasks and timers run.
    /// The drain ends when no channel has bytes to write, a [`Hold`](crate::Hold) or a handler running on another
    /// executor; or at the deadline; or when a shutdown begins. Then the loop shuts down gracefully, with the quiet
    /// period and timeout of the options.
    ///
    /// The future completes with the outcome of the drain; [`termination`] completes when the shutdown has ended. The
    /// future fails with [`LoopShutDown`] if the loop was already shut down. A second call changes nothing and
    /// returns the future of the first. A loop that was never started is shut down at once. The drain keeps the
    /// loop alive even if its last handle is dropped.
    ///
    /// [`termination`]: waterwheel_executor::EventExecutor::termination
    ///
    /// ```
    /// use std::time::Duration;
    /// use waterwheel_channel::driver::TaskOnly;
    /// use waterwheel_channel::{DrainOptions, Drained, EventLoopGroup, LoopDraining, local};
    /// use waterwheel_executor::ErrorKind;
    ///
    /// let group = EventLoopGroup::builder(TaskOnly).threads(1).build()?;
    /// let (ours, theirs) = local::pair();
    /// let channel = group.register(ours).join()?;
    /// let hold = channel.hold();
    /// let second = Duration::from_secs(1);
    /// let drained = group.drain(DrainOptions::within(second).shutdown(Duration::ZERO, second)?);
    /// assert!(group.next().is_draining());
    /// let refused = group.register(theirs).join().unwrap_err();
    /// assert!(matches!(refused.kind(), ErrorKind::Other(why) if why.is::<LoopDraining>()));
    /// drop(hold);
    /// assert_eq!(drained.join()?, Drained::Complete);
    /// group.termination().join()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn drain(&self, options: DrainOptions) -> SharedFuture<Drained> {
        let voters = DrainConsensus::voters_for(vec![self.sender()]);
        voters.map(|voter| self.drain_with(options, voter)).next().expect("one voter for each loop")
    }

    /// True from the request of a drain until a shutdown begins.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.drain_outcome().get().is_some() && !self.is_shutting_down()
    }

    #[track_caller]
    fn drain_with(&self, options: DrainOptions, voter: DrainVoter) -> SharedFuture<Drained> {
        let mut first = None;
        let outcome = self.drain_outcome().get_or_init(|| {
            let (mut promise, future) = self.new_promise();
            promise.set_uncancellable();
            first = Some(promise);
            future.shared()
        });
        if let Some(promise) = first {
            let deadline = self.sender().clock().now().plus(options.time_limit);
            let (promise, event_loop) = (Some(promise), self.clone());
            self.begin_drain(DrainRequest { promise, voter, deadline, options, event_loop });
        }
        outcome.clone()
    }

    fn begin_drain(&self, drain: DrainRequest) {
        match self.state() {
            ExecutorState::NotStarted => drain.finish(Drained::Complete),
            ExecutorState::Started => {
                // A terminated loop refuses the command: the drain is dropped, and its future fails.
                let begin = LoopCommand::of_any_size(|here| here.begin_drain(drain));
                drop(self.send(begin));
            }
            _ => drop(drain),
        }
    }

    fn shut_down_after(&self, options: DrainOptions) {
        let valid = self.shutdown_gracefully(options.quiet_period, options.timeout);
        debug_assert!(valid.is_ok(), "DrainOptions::shutdown checks the timeout");
    }
}

impl EventLoopGroup {
    /// Drains all loops, as [`EventLoop::drain`] does. They end together, when all are idle. Everything written
    /// before the last loop became idle, from any thread and to a channel of any loop, is sent.
    ///
    /// The future completes with the combined outcome: the number of channels with work left is the sum over all
    /// loops. If one group accepts connections for another, drain the accepting group first.
    #[track_caller]
    pub fn drain(&self, options: DrainOptions) -> SharedFuture<Drained> {
        self.stop_growing();
        let loops: Vec<_> = self.children().collect();
        let voters = DrainConsensus::voters_for(loops.iter().map(|child| child.sender()).collect());
        let begun: Vec<_> = loops
            .iter()
            .zip(voters)
            .map(|(child, voter)| child.drain_with(options, voter))
            .collect();
        let (mut promise, future) = self.next().new_promise();
        promise.set_uncancellable();
        let all = Arc::new(Mutex::new(GroupDrain {
            remaining: begun.len(),
            outcome: Ok(Drained::Complete),
            promise: Some(promise),
        }));
        for one in begun {
            let all = all.clone();
            one.add_listener(move |outcome| GroupDrain::on_loop_finished(&all, outcome.clone()));
        }
        future.shared()
    }

    /// True if every loop is draining or shut down, and at least one is draining.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        let settled = |child: EventLoop| child.is_draining() || child.is_shutting_down();
        self.children().all(settled) && self.children().any(|child| child.is_draining())
    }
}

/// The outcome of a group's drain, combined from the loops that have finished. The last loop completes the promise,
/// after the lock is released.
struct GroupDrain {
    remaining: usize,
    outcome: Result<Drained, Error>,
    promise: Option<Promise<Drained>>,
}

impl GroupDrain {
    fn on_loop_finished(all: &Mutex<Self>, outcome: Result<Drained, Error>) {
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        all.remaining -= 1;
        all.outcome = match (all.outcome.clone(), outcome) {
            (Ok(before), Ok(outcome)) => Ok(before.combine(outcome)),
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        if all.remaining == 0
            && let Some(promise) = all.promise.take()
        {
            let outcome = all.outcome.clone();
            drop(all);
            promise.complete(outcome);
        }
    }
}
