//! What an executor tells its operator: faults it survived and nobody was waiting for.

pub(crate) mod guard;
pub(crate) mod log_reporter;
mod rate_limit;

use std::fmt;

use crate::raw::origin::Origin;
use crate::watchdog::SlowWork;

/// Receives the reports of an executor. The default writes them to the log, or to standard error if there is
/// none ([`LogReporter`](crate::LogReporter)). A closure is a reporter too.
///
/// Called on the thread where the fault happened, usually the loop's: be quick. What is
/// [slow](Fault::Slow) the watchdog's thread tells. A panic in here is ignored.
pub trait Reporter: Send + Sync {
    /// Something went wrong and the executor went on.
    fn report(&self, report: &Report<'_>);
}

impl<F: Fn(&Report<'_>) + Send + Sync> Reporter for F {
    fn report(&self, report: &Report<'_>) {
        self(report);
    }
}

/// A fault that an executor survived.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// The executor's name.
    pub executor: &'a str,
    /// What happened.
    pub fault: Fault,
}

/// What happened.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// User code panicked on the loop; the loop lives on.
    #[error("the {what} from {origin} panicked: {message}")]
    Panicked {
        /// Which kind of user code.
        what: UserCode,
        /// Where it came from.
        origin: Origin,
        /// The panic's message.
        message: String,
    },
    /// Something came to the end of its way and nobody had dealt with it.
    #[error("{0}")]
    Unhandled(String),
    /// What a loop waits in gave trouble; the loop goes on.
    #[error("{0}")]
    Driver(String),
    /// Something could not be had; the executor goes on without it.
    #[error("{0}")]
    Degraded(String),
    /// The loop died and these tasks were not run; their handles have failed.
    #[error("the loop died ({cause}); {count} queued tasks were dropped and their handles failed")]
    TasksLeft {
        /// How many user tasks.
        count: usize,
        /// What killed the loop.
        cause: String,
    },
    /// A piece of work holds the loop, or has held it, for longer than its
    /// [watchdog](crate::Watchdog) allows.
    #[error("{0}")]
    Slow(Box<SlowWork>),
}

/// The kinds of user code that run on a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UserCode {
    /// A submitted task.
    Task,
    /// A timer.
    Timer,
    /// A listener of a promise.
    Listener,
    /// A shutdown hook.
    Hook,
    /// A destructor of something that was handed over: a closure, a value, a loop-local.
    Destructor,
    /// The waker of a task that awaits a future.
    Waker,
    /// A rejection policy.
    RejectionPolicy,
    /// A chooser of a group.
    Chooser,
    /// A future that was spawned.
    Future,
    /// What is called when something registered is ready or gone.
    Callback,
    /// A station on the way of events.
    Handler,
    /// A strategy that decides how a loop waits.
    Strategy,
    /// Something that was queued for a layer above: what another thread has asked for, or what is due.
    Command,
    /// A round of events: many callbacks, one after the other.
    Round,
}

impl UserCode {
    /// All of them, in order.
    pub(crate) const ALL: [UserCode; 14] = [
        UserCode::Task,
        UserCode::Timer,
        UserCode::Listener,
        UserCode::Hook,
        UserCode::Destructor,
        UserCode::Waker,
        UserCode::RejectionPolicy,
        UserCode::Chooser,
        UserCode::Future,
        UserCode::Callback,
        UserCode::Handler,
        UserCode::Strategy,
        UserCode::Command,
        UserCode::Round,
    ];
}

impl fmt::Display for UserCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UserCode::Task => "task",
            UserCode::Timer => "timer",
            UserCode::Listener => "listener",
            UserCode::Hook => "shutdown hook",
            UserCode::Destructor => "destructor",
            UserCode::Waker => "waker",
            UserCode::RejectionPolicy => "rejection policy",
            UserCode::Chooser => "chooser",
            UserCode::Future => "future",
            UserCode::Callback => "callback",
            UserCode::Handler => "handler",
            UserCode::Strategy => "select strategy",
            UserCode::Command => "command",
            UserCode::Round => "round of events",
        })
    }
}
