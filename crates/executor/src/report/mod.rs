//! Faults that an executor survived and that no caller was waiting for, and who receives them.
//!
//! - `guard`: runs user code, catches a panic and reports it.
//! - `log_reporter`: the default reporter, limited by `burst_limit`.

mod burst_limit;
pub(crate) mod guard;
pub(crate) mod log_reporter;

use std::fmt;

use crate::raw::origin::Origin;
use crate::watchdog::SlowWork;

/// Receives the reports of an executor. The default writes them to `tracing`, or to standard error without a
/// subscriber ([`LogReporter`](crate::LogReporter)). A closure is a reporter too.
///
/// Called on the thread where the fault happened, usually the loop's, so it should be quick.
/// [Slow](Fault::Slow) work is reported by the watchdog's thread. A panic in here is ignored.
pub trait Reporter: Send + Sync {
    /// Receives a fault that the executor survived.
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
    /// The fault.
    pub fault: Fault,
}

/// A fault that an executor survived.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// User code panicked on the loop; the loop continues.
    #[error("the {what} from {origin} panicked: {message}")]
    Panicked {
        /// The kind of user code.
        what: UserCode,
        /// Where the code came from.
        origin: Origin,
        /// The panic's message.
        message: String,
    },
    /// An event reached the end of its path and was not handled.
    #[error("{0}")]
    Unhandled(String),
    /// The driver of a loop failed; the loop continues.
    #[error("{0}")]
    Driver(String),
    /// A resource was not available; the executor continues without it.
    #[error("{0}")]
    Degraded(String),
    /// The loop died before these tasks ran; their handles have failed.
    #[error("the loop died ({cause}); {count} queued tasks were dropped and their handles failed")]
    TasksLeft {
        /// How many user tasks were dropped.
        count: usize,
        /// The reason why the loop died.
        cause: String,
    },
    /// A piece of work holds the loop, or has held it, longer than its [watchdog](crate::Watchdog) allows.
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
    /// A destructor of a closure, a value or a loop-local that was handed over.
    Destructor,
    /// The waker of a task that awaits a future.
    Waker,
    /// A rejection policy.
    RejectionPolicy,
    /// A chooser of a group.
    Chooser,
    /// A spawned future.
    Future,
    /// A callback of a registration that is ready or closed.
    Callback,
    /// A handler of events.
    Handler,
    /// A strategy that decides how a loop waits.
    Strategy,
    /// A queued or due command that is not a task: of the executor itself, or of the layer above.
    Command,
    /// A round of events: many callbacks, one after the other.
    Round,
}

impl UserCode {
    /// All kinds, in order.
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
