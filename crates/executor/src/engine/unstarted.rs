//! A loop that has no thread yet: how it gets one, and how it ends without one.
//!
//! The loop is offered to the thread supplier as a [`LoopBody`]. A body that is run becomes a loop. A body that is
//! dropped unrun returns the loop, which is offered again, or ended if it was already published as started.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::engine::LoopSeed;
use crate::engine::command::{Command, SystemCommand, WheelEntry};
use crate::engine::run_loop;
use crate::engine::shared_half::SharedHalf;
use crate::error::{Error, ErrorKind, take_panic_message};
use crate::executor::global;
use crate::executor::pooled;
use crate::lifecycle::start::StartError;
use crate::lifecycle::{ExecutorState, LifecycleEvent};
use crate::queue::rejection::RejectReason;
use crate::raw::origin::Origin;
use crate::report::guard::{guard_for, report_to};
use crate::report::{Fault, UserCode};
use crate::sync::lock;
use crate::thread::{LoopBody, RunOrDiscard};

impl<X: Send + 'static> SharedHalf<X> {
    #[cold]
    pub(crate) fn start(self: &Arc<Self>) -> Result<(), RejectReason> {
        let started = self.starter.ensure_started(&self.life, |seed| self.offer_to_supplier(seed));
        if let (Some(plan), ExecutorState::NotStarted | ExecutorState::Started) =
            (self.plan(), self.life.state())
        {
            // The supplier asked for a shutdown while it started the loop.
            let valid = self.shut_down_gracefully(plan.quiet, plan.timeout);
            debug_assert!(valid.is_ok(), "the plan was checked when it was made");
        }
        started.map_err(|failed| match failed {
            StartError::Refused(cause) => RejectReason::NotStarted(Arc::new(cause)),
            StartError::Abandoned(seed) => {
                let cause = self.start_failure(StartError::Abandoned(seed));
                RejectReason::NotStarted(Arc::new(io::Error::other(cause)))
            }
        })
    }

    /// Offers the loop to the thread supplier.
    pub(crate) fn offer_to_supplier(self: &Arc<Self>, seed: LoopSeed<X>) -> io::Result<()> {
        let body = LoopBody::new(Box::new(SeededLoop { shared: self.clone(), seed }), &self.name);
        let started = catch_unwind(AssertUnwindSafe(|| self.supplier.start(body)));
        match started {
            Ok(started) => {
                *lock(&self.join_handle) = started?;
                Ok(())
            }
            Err(payload) => {
                let message = take_panic_message(payload);
                Err(io::Error::other(format!("the thread supplier panicked: {message}")))
            }
        }
    }

    /// Returns the reason why a loop never ran. Ends the loop if it had been published as started.
    pub(crate) fn start_failure(&self, failed: StartError<LoopSeed<X>>) -> Error {
        let executor = self.name.to_string();
        match failed {
            StartError::Refused(cause) => {
                ErrorKind::LoopDied { executor, cause: cause.to_string() }.into()
            }
            StartError::Abandoned(seed) => {
                let cause = "its thread supplier dropped the loop without running it".to_owned();
                let error = Error::from(ErrorKind::LoopDied { executor, cause });
                self.end_unstarted(Some(seed), Some(error.clone()));
                error
            }
        }
    }

    pub(crate) fn end_without_loop(&self, cause: Option<Error>) {
        self.end_unstarted(self.starter.take_seed(), cause);
    }

    /// Tears down a loop that never ran.
    fn end_unstarted(&self, seed: Option<LoopSeed<X>>, cause: Option<Error>) {
        self.inbox.close();
        let _ = self.life.apply(LifecycleEvent::QuietReached);
        let reason = cause.clone().unwrap_or_else(Error::cancelled);
        let mut consumer = self.inbox.consumer();
        self.drop_queued(|| consumer.pop(), &reason);
        self.guard(|| drop(seed));
        self.terminate(cause);
    }

    /// Drops the commands in the queue of a loop that never ran, or that died: the teardown of a dead loop calls this
    /// too. Tasks are counted and reported, and their handles fail. Listeners are not lost: they run on the global
    /// executor. The inbox must be closed.
    pub(crate) fn drop_queued(&self, mut pop: impl FnMut() -> Option<Command<X>>, cause: &Error) {
        let mut count = 0;
        while let Some(command) = self.inbox.next_accepted(&mut pop) {
            self.inbox.release(command.depth());
            match command {
                Command::System(
                    SystemCommand::Notify(notify) | SystemCommand::NotifyNested(notify),
                ) => {
                    global::notify(notify);
                }
                Command::Run(task) => {
                    count += 1;
                    self.guard(|| drop(task));
                }
                Command::System(
                    SystemCommand::Schedule(_, timer)
                    | SystemCommand::Due(WheelEntry::Timer(timer)),
                ) => {
                    self.guard(|| timer.cancel_unfired());
                }
                other => self.guard(|| drop(other)),
            }
        }
        if count > 0 {
            let fault = Fault::TasksLeft { count, cause: cause.to_string() };
            report_to(&*self.reporter, &self.name, fault);
        }
    }

    /// Runs a user's destructor on the calling thread. A panic is caught and reported.
    fn guard(&self, destroy: impl FnOnce()) {
        let what = (UserCode::Destructor, Origin::labelled("destructor"));
        guard_for((&*self.reporter, &self.name), what, destroy);
    }
}

/// A loop that was offered to the thread supplier and has not run.
struct SeededLoop<X: Send + 'static> {
    shared: Arc<SharedHalf<X>>,
    seed: LoopSeed<X>,
}

impl<X: Send + 'static> RunOrDiscard for SeededLoop<X> {
    fn run(self: Box<Self>) {
        if !self.shared.starter.may_run() {
            return self.discard();
        }
        match self.shared.parked.clone() {
            Some(parked) => pooled::start(self.shared, parked),
            None => run_loop::run(self.shared, self.seed),
        }
    }

    fn is_turn(&self) -> bool {
        self.shared.parked.is_some()
    }

    fn discard(self: Box<Self>) {
        let Self { shared, seed } = *self;
        if let Some(seed) = shared.starter.give_back(&shared.life, seed) {
            let _ = shared.start_failure(StartError::Abandoned(seed));
        }
    }
}
