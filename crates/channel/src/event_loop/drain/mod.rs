//! Draining event loops, as others see it: what is asked for, and what comes of it (L11).

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

/// How long a drain may take when nothing is said: with the shutdown's 15 s it stays below the 30 s
/// that those who stop processes mostly allow.
pub const DEFAULT_DRAIN_TIME: Duration = Duration::from_secs(10);

/// How long a drain may take, and how the loop shuts down when it is over.
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
    time: Duration,
    quiet: Duration,
    timeout: Duration,
}

impl DrainOptions {
    /// The drain ends after this time at the latest, and at once if no channel has anything left. The
    /// shutdown that follows has no quiet period, because the drain has waited for what was under way; its
    /// timeout is [`DEFAULT_SHUTDOWN_TIMEOUT`].
    #[must_use]
    pub fn within(time: Duration) -> Self {
        Self { time, quiet: Duration::ZERO, timeout: DEFAULT_SHUTDOWN_TIMEOUT }
    }

    /// Sets the quiet period and the timeout of the shutdown that follows.
    ///
    /// # Errors
    /// [`InvalidShutdown`] if `timeout` is shorter than `quiet`.
    pub fn shutdown(self, quiet: Duration, timeout: Duration) -> Result<Self, InvalidShutdown> {
        if timeout < quiet {
            return Err(InvalidShutdown { quiet, timeout });
        }
        Ok(Self { quiet, timeout, ..self })
    }
}

impl Default for DrainOptions {
    /// Within [`DEFAULT_DRAIN_TIME`].
    fn default() -> Self {
        Self::within(DEFAULT_DRAIN_TIME)
    }
}

/// How a drain has ended. A channel *had something left* if bytes waited to be written to it, a
/// [`Hold`](crate::Hold) was alive, or a handler of it was at work on another executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// No channel had anything left.
    Complete,
    /// The deadline came before.
    DeadlineReached {
        /// How many channels had something left.
        channels: usize,
    },
    /// A shutdown came before.
    CutShort {
        /// How many channels had something left.
        channels: usize,
    },
}

impl Drained {
    /// Of both together: what is worse, and all the channels.
    fn and(self, other: Self) -> Self {
        use Drained::{Complete, CutShort, DeadlineReached};
        match (self, other) {
            (Complete, how) | (how, Complete) => how,
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

/// The loop drains: the event that every channel gets then, by
/// [`Handler::on_user_event`](crate::Handler::on_user_event). A handler that has nothing more to say
/// closes its channel; one that is in the middle of something ends it, and then does.
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
    /// When the drain ends at the latest, by the loop's clock.
    pub deadline: Nanos,
}

/// The loop is draining: it takes no more channels.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the event loop is draining: it takes no more channels")]
pub struct LoopDraining;

/// What was asked of a loop, on its way there and while it lasts. Dropped before it has ended, it never
/// began: the loop was shut down.
pub(crate) struct Drain {
    promise: Option<Promise<Drained>>,
    pub(super) seat: DrainVoter,
    pub(super) deadline: Nanos,
    options: DrainOptions,
    /// Keeps the loop from ending by itself meanwhile.
    event_loop: EventLoop,
}

impl Drain {
    /// It is over, and the shutdown begins.
    pub(super) fn end(mut self, how: Drained) {
        self.event_loop.shut_down_after(self.options);
        if let Some(promise) = self.promise.take() {
            promise.set_success(how);
        }
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        if let Some(promise) = self.promise.take() {
            promise.set_failure(Error::new(LoopShutDown));
        }
    }
}

impl EventLoop {
    /// Lets the loop end what it is doing, then shuts it down.
    ///
    /// From now on it takes no more channels ([`LoopDraining`]). On the loop, channels that listen are
    /// closed, and all others are told by an event, [`Draining`]. Nothing else changes: channels read
    /// and write, tasks and timers run. It ends when no channel has bytes waiting to be written or a
    /// [`Hold`](crate::Hold), or at the deadline, or with a shutdown; then the loop shuts down
    /// gracefully, as the options say.
    ///
    /// The future tells how the drain has ended; [`termination`] completes when all is over. It fails
    /// with [`LoopShutDown`] if the loop is shut down already. A second call changes nothing, and gives
    /// the future of the first. A loop that was never started has nothing to end, and is shut down at
    /// once. The loop does not end by itself meanwhile, even if its last handle goes.
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
        let seats = DrainConsensus::among(vec![self.sender()]);
        seats.map(|seat| self.drain_with(options, seat)).next().expect("a seat for each")
    }

    /// Whether it is draining: a drain was asked for, and no shutdown has begun.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.drained().get().is_some() && !self.is_shutting_down()
    }

    #[track_caller]
    fn drain_with(&self, options: DrainOptions, seat: DrainVoter) -> SharedFuture<Drained> {
        let mut first = None;
        let outcome = self.drained().get_or_init(|| {
            let (mut promise, outcome) = self.new_promise();
            promise.set_uncancellable();
            first = Some(promise);
            outcome.shared()
        });
        if let Some(promise) = first {
            let deadline = self.sender().clock().now().plus(options.time);
            let (promise, event_loop) = (Some(promise), self.clone());
            self.begin_drain(Drain { promise, seat, deadline, options, event_loop });
        }
        outcome.clone()
    }

    fn begin_drain(&self, drain: Drain) {
        match self.state() {
            ExecutorState::NotStarted => drain.end(Drained::Complete),
            ExecutorState::Started => {
                // Refused by a loop that is over: then it is dropped, and says so.
                let begin = LoopCommand::of_any_size(|here| here.begin_drain(drain));
                drop(self.send(begin));
            }
            _ => drop(drain),
        }
    }

    fn shut_down_after(&self, options: DrainOptions) {
        let valid = self.shutdown_gracefully(options.quiet, options.timeout);
        debug_assert!(valid.is_ok(), "the options were checked");
    }
}

impl EventLoopGroup {
    /// Drains all loops, as [`EventLoop::drain`] does: they end together, when none has anything left.
    /// So what was written before the last of them had nothing left, by anybody and to a channel of
    /// any of them, goes out.
    ///
    /// The future tells of all of them: how many channels had something left, if it was not complete.
    /// Of two groups, drain first the one that accepts for the other.
    #[track_caller]
    pub fn drain(&self, options: DrainOptions) -> SharedFuture<Drained> {
        self.stop_growing();
        let loops: Vec<_> = self.children().collect();
        let seats = DrainConsensus::among(loops.iter().map(|child| child.sender()).collect());
        let begun: Vec<_> =
            loops.iter().zip(seats).map(|(child, seat)| child.drain_with(options, seat)).collect();
        let (mut promise, outcome) = self.next().new_promise();
        promise.set_uncancellable();
        let all = Arc::new(Mutex::new(GroupDrain {
            left: begun.len(),
            how: Ok(Drained::Complete),
            promise: Some(promise),
        }));
        for one in begun {
            let all = all.clone();
            one.add_listener(move |how| GroupDrain::one_ended(&all, how.clone()));
        }
        outcome.shared()
    }

    /// Whether all loops are draining, or shut down already, and at least one is draining.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        let settled = |child: EventLoop| child.is_draining() || child.is_shutting_down();
        self.children().all(settled) && self.children().any(|child| child.is_draining())
    }
}

/// The drains of a group. Whoever ends last tells; nothing is told while it is locked.
struct GroupDrain {
    left: usize,
    how: Result<Drained, Error>,
    promise: Option<Promise<Drained>>,
}

impl GroupDrain {
    fn one_ended(all: &Mutex<Self>, how: Result<Drained, Error>) {
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        all.left -= 1;
        all.how = match (all.how.clone(), how) {
            (Ok(before), Ok(how)) => Ok(before.and(how)),
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        if all.left == 0
            && let Some(promise) = all.promise.take()
        {
            let how = all.how.clone();
            drop(all);
            promise.complete(how);
        }
    }
}
