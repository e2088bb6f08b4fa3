//! A loop that has no thread yet: how it gets one, and how it ends if it gets none.
//!
//! The loop is offered to the thread supplier as a [`LoopBody`]. Run, it becomes a loop; dropped
//! unrun, it comes back, to be offered again, or to be ended if others already count on it.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::engine::LoopSeed;
use crate::engine::command::{Command, Due, System};
use crate::engine::run_loop;
use crate::engine::shared_half::Shared;
use crate::error::{Error, ErrorKind, absorb};
use crate::executor::global;
use crate::executor::pooled;
use crate::lifecycle::start::StartError;
use crate::lifecycle::{Event, State};
use crate::queue::rejection::RejectReason;
use crate::raw::origin::Origin;
use crate::report::guard::{guard_for, report_to};
use crate::report::{Fault, UserCode};
use crate::sync::lock;
use crate::thread::{LoopBody, RunOrLetGo};

impl<X: Send + 'static> Shared<X> {
    #[cold]
    pub(crate) fn start(self: &Arc<Self>) -> Result<(), RejectReason> {
        let started = self.starter.ensure_started(&self.life, |seed| self.offer(seed));
        if let (Some(plan), State::NotStarted | State::Started) = (self.plan(), self.life.state()) {
            // The supplier asked for a shutdown while it started us.
            let valid = self.shut_down_gracefully(plan.quiet, plan.timeout);
            debug_assert!(valid.is_ok(), "the plan was checked when it was made");
        }
        started.map_err(|failed| match failed {
            StartError::Refused(cause) => RejectReason::NotStarted(Arc::new(cause)),
            StartError::Abandoned(seed) => {
                let cause = self.died(StartError::Abandoned(seed));
                RejectReason::NotStarted(Arc::new(io::Error::other(cause)))
            }
        })
    }

    /// Offers the loop to the thread supplier.
    pub(crate) fn offer(self: &Arc<Self>, seed: LoopSeed<X>) -> io::Result<()> {
        let body = LoopBody::new(Box::new(SeededLoop { shared: self.clone(), seed }), &self.name);
        let started = catch_unwind(AssertUnwindSafe(|| self.supplier.start(body)));
        match started {
            Ok(started) => {
                *lock(&self.join_handle) = started?;
                Ok(())
            }
            Err(payload) => {
                let message = absorb(payload);
                Err(io::Error::other(format!("the thread supplier panicked: {message}")))
            }
        }
    }

    /// The cause of a loop that never got to run; ends it if it had been published as started.
    pub(crate) fn died(&self, failed: StartError<LoopSeed<X>>) -> Error {
        let executor = self.name.to_string();
        match failed {
            StartError::Refused(cause) => {
                ErrorKind::LoopDied { executor, cause: cause.to_string() }.into()
            }
            StartError::Abandoned(seed) => {
                let cause = "its thread supplier let it go without running it".to_owned();
                let error = Error::from(ErrorKind::LoopDied { executor, cause });
                self.end_unrun(Some(seed), Some(error.clone()));
                error
            }
        }
    }

    pub(crate) fn end_without_loop(&self, cause: Option<Error>) {
        self.end_unrun(self.starter.take_seed(), cause);
    }

    /// Teardown of a loop that never ran.
    fn end_unrun(&self, seed: Option<LoopSeed<X>>, cause: Option<Error>) {
        self.inbox.close();
        let _ = self.life.apply(Event::QuietReached);
        let reason = cause.clone().unwrap_or_else(Error::cancelled);
        let mut consumer = self.inbox.consumer();
        self.drop_leftovers(|| consumer.pop(), &reason);
        self.guard(|| drop(seed));
        self.terminate(cause);
    }

    /// Drops what a dead loop left in its queue: counted, reported, the handles fail. Listeners are
    /// not lost, they run on the global executor. The door must be shut.
    pub(crate) fn drop_leftovers(
        &self,
        mut pop: impl FnMut() -> Option<Command<X>>,
        cause: &Error,
    ) {
        let mut count = 0;
        while let Some(command) = self.inbox.next_straggler(&mut pop) {
            self.inbox.leave(command.weight());
            match command {
                Command::System(System::Notify(notify) | System::NotifyNested(notify)) => {
                    global::notify(notify);
                }
                Command::Run(task) => {
                    count += 1;
                    self.guard(|| drop(task));
                }
                Command::System(System::Schedule(_, timer) | System::Due(Due::Timer(timer))) => {
                    self.guard(|| timer.abandon());
                }
                other => self.guard(|| drop(other)),
            }
        }
        if count > 0 {
            let fault = Fault::TasksLeft { count, cause: cause.to_string() };
            report_to(&*self.reporter, &self.name, fault);
        }
    }

    /// Runs a destructor of the user's, on whichever thread this is.
    fn guard(&self, destroy: impl FnOnce()) {
        let what = (UserCode::Destructor, Origin::labelled("destructor"));
        guard_for((&*self.reporter, &self.name), what, destroy);
    }
}

/// A loop on its way to its thread.
struct SeededLoop<X: Send + 'static> {
    shared: Arc<Shared<X>>,
    seed: LoopSeed<X>,
}

impl<X: Send + 'static> RunOrLetGo for SeededLoop<X> {
    fn run(self: Box<Self>) {
        if !self.shared.starter.may_run() {
            return self.let_go();
        }
        match self.shared.rest.clone() {
            Some(rest) => pooled::begin(self.shared, rest),
            None => run_loop::run(self.shared, self.seed),
        }
    }

    fn is_turn(&self) -> bool {
        self.shared.rest.is_some()
    }

    fn let_go(self: Box<Self>) {
        let Self { shared, seed } = *self;
        if let Some(seed) = shared.starter.give_back(&shared.life, seed) {
            let _ = shared.died(StartError::Abandoned(seed));
        }
    }
}
