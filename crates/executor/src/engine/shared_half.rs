//! The shared half of an executor: the state that handles, loop and registry share.
//!
//! Who touches what: any thread submits through `inbox` and reads `life`; `starter` and `plan` are used by the
//! threads that start the loop or shut it down; the loop alone writes `counters` and the activity in `status`.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clock::Clock;
use crate::engine::LoopSeed;
use crate::engine::command::{Command, SystemCommand};
use crate::engine::current::{self, ExecutorId};
use crate::engine::local_half::LocalHalf;
use crate::engine::registry::{self, NotifyTarget};
use crate::error::{Error, WouldDeadlock};
use crate::executor::attachment::ExecutorAttachment;
use crate::executor::pooled::ParkedLoop;
use crate::executor::stats::Counters;
use crate::group::shared::{GroupMembership, GroupShared};
use crate::lifecycle::lease::HandleLease;
use crate::lifecycle::shutdown::{DEFAULT_SHUTDOWN_TIMEOUT, InvalidShutdown, ShutdownPlan};
use crate::lifecycle::start::Starter;
use crate::lifecycle::{ExecutorState, Lifecycle, LifecycleAction, LifecycleEvent};
use crate::promise::{AnyPromise, Promise, SharedFuture, promise_for_termination};
use crate::queue::admission::{AdmissionPermit, AdmissionRefusal, MAX_SYSTEM};
use crate::queue::inbox::Inbox;
use crate::queue::rejection::{OnFull, QueueFull, RejectReason, RejectionPolicy};
use crate::raw::origin::Origin;
use crate::report::guard::guard_for;
use crate::report::{Reporter, UserCode};
use crate::sync::{Mutex, lock};
use crate::thread::ThreadSupplier;
use crate::timer::limit::TimerLimit;
use crate::wake::park::Unpark;
use crate::wake::wake_word::Urgency;
use crate::watchdog::Watchdog;
use crate::watchdog::loop_status::LoopStatus;

pub(crate) struct SharedHalf<X: Send + 'static> {
    pub(crate) id: ExecutorId,
    pub(crate) name: Arc<str>,
    pub(crate) inbox: Inbox<Command<X>>,
    pub(crate) life: Lifecycle,
    pub(crate) clock: Clock,
    pub(crate) reporter: Arc<dyn Reporter>,
    pub(crate) never_block: bool,
    pub(crate) is_global: bool,
    pub(crate) counters: Counters,
    pub(crate) status: Arc<LoopStatus>,
    pub(crate) watchdog: Option<Watchdog>,
    pub(crate) termination: SharedFuture<()>,
    membership: Mutex<Option<GroupMembership<X>>>,
    /// The lease of the user handles, for handles that are made on the loop.
    pub(crate) lease: Mutex<Weak<HandleLease>>,
    /// The thread's handle, for `join`. Taken by the first join.
    pub(crate) join_handle: Mutex<Option<JoinHandle<()>>>,
    termination_promise: Mutex<Option<Promise<()>>>,
    plan: OnceLock<ShutdownPlan>,
    pub(crate) starter: Starter<LoopSeed<X>>,
    pub(crate) supplier: Arc<dyn ThreadSupplier>,
    policy: Box<dyn RejectionPolicy>,
    pub(crate) attachment: Option<Arc<dyn ExecutorAttachment>>,
    /// Holds a pooled loop between its turns.
    pub(crate) parked: Option<Arc<ParkedLoop<X>>>,
    pub(crate) timer_limit: Option<Arc<TimerLimit>>,
}

/// The properties that a builder has gathered.
pub(crate) struct ExecutorParts<X: Send + 'static> {
    pub(crate) name: String,
    pub(crate) bound: Option<u32>,
    pub(crate) timer_bound: Option<usize>,
    pub(crate) policy: Box<dyn RejectionPolicy>,
    pub(crate) supplier: Arc<dyn ThreadSupplier>,
    pub(crate) reporter: Arc<dyn Reporter>,
    pub(crate) clock: Clock,
    pub(crate) never_block: bool,
    pub(crate) is_global: bool,
    pub(crate) watchdog: Option<Watchdog>,
    pub(crate) unpark: Arc<dyn Unpark>,
    pub(crate) seed: LoopSeed<X>,
    pub(crate) attachment: Option<Arc<dyn ExecutorAttachment>>,
    pub(crate) parked: Option<Arc<ParkedLoop<X>>>,
}

impl<X: Send + 'static> SharedHalf<X> {
    pub(crate) fn new(parts: ExecutorParts<X>) -> Arc<Self> {
        let id = ExecutorId::next();
        let (end, termination) = promise_for_termination(id);
        let shared = Arc::new(Self {
            id,
            name: parts.name.into(),
            inbox: Inbox::new(parts.bound, parts.unpark),
            life: Lifecycle::new(),
            clock: parts.clock,
            reporter: parts.reporter,
            never_block: parts.never_block,
            is_global: parts.is_global,
            counters: Counters::default(),
            status: LoopStatus::new(),
            watchdog: parts.watchdog,
            termination,
            membership: Mutex::new(None),
            lease: Mutex::new(Weak::new()),
            join_handle: Mutex::new(None),
            termination_promise: Mutex::new(Some(end)),
            plan: OnceLock::new(),
            starter: Starter::new(parts.seed),
            supplier: parts.supplier,
            policy: parts.policy,
            attachment: parts.attachment,
            parked: parts.parked,
            timer_limit: parts.timer_bound.map(TimerLimit::new),
        });
        let target: Weak<Self> = Arc::downgrade(&shared);
        registry::register(shared.id, target);
        shared
    }

    /// Returns how much the executor has to do: queued commands plus the lasting load.
    pub(crate) fn load(&self) -> usize {
        let lasting = self.attachment.as_ref().map_or(0, |attached| attached.load());
        self.inbox.depth().total().saturating_add(lasting)
    }

    pub(crate) fn in_event_loop(&self) -> bool {
        current::is_current(self.id)
    }

    /// Admits one user task. Starts the thread first, if this is the first submission.
    #[inline]
    pub(crate) fn admit(self: &Arc<Self>) -> Result<AdmissionPermit<'_>, RejectReason> {
        if self.life.state() == ExecutorState::NotStarted && !self.in_event_loop() {
            self.start()?;
        }
        self.inbox.admit_user().or_else(|refusal| self.admit_by_policy(refusal))
    }

    /// Queues an admitted command in the order of acceptance.
    #[inline(always)]
    pub(crate) fn push(&self, permit: AdmissionPermit<'_>, command: Command<X>, urgency: Urgency) {
        if self.in_event_loop() {
            self.push_on_loop(permit, command);
        } else {
            self.inbox.push(permit, command, urgency);
        }
    }

    #[inline(never)]
    fn push_on_loop(&self, permit: AdmissionPermit<'_>, command: Command<X>) {
        let mut command = Some((permit, command));
        current::with_local::<LocalHalf<X>, _>(self.id, |local| {
            if let Some((permit, command)) = command.take() {
                local.push(command);
                permit.spend();
            }
        });
        // The thread's locals are being destroyed: the inbox still works.
        if let Some((permit, command)) = command {
            self.inbox.push(permit, command, Urgency::Now);
        }
    }

    /// Admits one system command. The queue bound does not apply.
    pub(crate) fn admit_system(self: &Arc<Self>) -> Result<AdmissionPermit<'_>, RejectReason> {
        if self.life.state() == ExecutorState::NotStarted && !self.in_event_loop() {
            self.start()?;
        }
        self.inbox.admit_system().map_err(system_rejection)
    }

    /// Queues a system command. Hands it back if nothing is accepted any more.
    pub(crate) fn push_system(
        self: &Arc<Self>,
        command: SystemCommand<X>,
    ) -> Result<(), (SystemCommand<X>, RejectReason)> {
        match self.admit_system() {
            Ok(permit) => {
                self.push(permit, Command::System(command), Urgency::Now);
                Ok(())
            }
            Err(reason) => Err((command, reason)),
        }
    }

    pub(crate) fn plan(&self) -> Option<&ShutdownPlan> {
        self.plan.get()
    }

    /// Begins a graceful shutdown. Later calls change nothing.
    pub(crate) fn shut_down_gracefully(
        self: &Arc<Self>,
        quiet: Duration,
        timeout: Duration,
    ) -> Result<(), InvalidShutdown> {
        let plan = ShutdownPlan::new(quiet, timeout, self.clock.now())?;
        let quiet = self.plan.get_or_init(|| plan).quiet;
        if self.is_starting_here() {
            return Ok(()); // Requested by the supplier: carried out once the start is decided.
        }
        let mut gate = self.starter.gate();
        let mut failed = None;
        if self.life.state() == ExecutorState::NotStarted && !quiet.is_zero() {
            // Tasks are accepted during the quiet period, so the loop has to run.
            failed = self
                .starter
                .start(&mut gate, &self.life, |seed| self.offer_to_supplier(seed))
                .err();
        }
        let action = if self.life.state() == ExecutorState::NotStarted {
            // Nothing was ever accepted, so nothing has to run. Closes the inbox, then publishes the state.
            self.inbox.close();
            self.life.apply(LifecycleEvent::ShutDownNow)
        } else {
            self.life.apply(LifecycleEvent::ShutDownGracefully)
        };
        drop(gate);
        let cause = failed.map(|failed| self.start_failure(failed));
        match action {
            LifecycleAction::Nothing => {}
            LifecycleAction::WakeLoop => drop(self.push_system(SystemCommand::Wake)),
            LifecycleAction::EndWithoutLoop => self.end_without_loop(cause),
        }
        Ok(())
    }

    /// True if the caller is the thread supplier that is starting this loop.
    fn is_starting_here(&self) -> bool {
        self.life.state() == ExecutorState::NotStarted && self.starter.is_starting_here()
    }

    /// Refuses new tasks at once. Accepted commands still run.
    pub(crate) fn shut_down_now(self: &Arc<Self>) {
        let now = self.clock.now();
        let plan = ShutdownPlan { quiet: Duration::ZERO, timeout: Duration::ZERO, begun: now };
        self.plan.get_or_init(|| plan);
        if self.is_starting_here() {
            return; // Requested by the supplier: carried out once the start is decided.
        }
        let gate = self.starter.gate();
        // The marker is admitted before the inbox closes, and queued after the state has changed: the loop
        // cannot check the state too early and then sleep through the change.
        let marker = self.inbox.admit_system();
        self.inbox.close();
        let action = self.life.apply(LifecycleEvent::ShutDownNow);
        drop(gate);
        if let Ok(permit) = marker {
            self.push(permit, Command::System(SystemCommand::Wake), Urgency::Now);
        }
        if action == LifecycleAction::EndWithoutLoop {
            self.end_without_loop(None);
        }
    }

    /// Ends a loop that has been idle long enough, unless a command was just admitted.
    pub(crate) fn end_if_idle(&self) {
        if self.inbox.close_if_empty() {
            let _ = self.life.apply(LifecycleEvent::ShutDownNow);
        }
    }

    /// Ends the executor as soon as its queue is empty: the last user handle was dropped.
    pub(crate) fn shut_down_when_empty(self: &Arc<Self>) {
        let valid = self.shut_down_gracefully(Duration::ZERO, DEFAULT_SHUTDOWN_TIMEOUT);
        debug_assert!(valid.is_ok(), "zero is never longer than the timeout");
    }

    /// Waits until the thread has exited, if the supplier gave its handle.
    pub(crate) fn join_thread(&self) -> Result<(), WouldDeadlock> {
        let own = self.status.thread().map(|thread| thread.id);
        if own == Some(std::thread::current().id()) {
            return Err(WouldDeadlock { executor: self.name.to_string() });
        }
        // A second caller waits here for the lock until the thread has exited.
        let mut handle = lock(&self.join_handle);
        if let Some(handle) = handle.take() {
            let _ = handle.join();
        }
        Ok(())
    }

    /// Performs the last steps of every teardown: publishes Terminated, then completes the termination futures.
    pub(crate) fn terminate(&self, cause: Option<Error>) {
        self.status.mark_ended();
        if let Some(watchdog) = &self.watchdog {
            watchdog.check_now();
        }
        registry::unregister(self.id);
        let _ = self.life.apply(LifecycleEvent::TornDown);
        let membership = lock(&self.membership).clone();
        let end = lock(&self.termination_promise).take();
        if let Some(end) = end {
            end.complete(cause.clone().map_or(Ok(()), Err));
        }
        if let Some(membership) = membership {
            membership.on_child_terminated(self.id, cause.as_ref());
        }
    }

    /// Prepares the first turn, on the calling thread: from now on the loop is watched.
    pub(crate) fn on_loop_start(&self) {
        self.status.set_thread();
        if let Some(watchdog) = &self.watchdog {
            watchdog.watch(&self.name, &self.reporter, &self.status);
        }
    }

    /// Makes the executor a child of a group.
    pub(crate) fn join_group(&self, membership: GroupMembership<X>) {
        *lock(&self.membership) = Some(membership.clone());
        // The executor may have terminated before it had a group. The state is reliable, because `terminate` changes
        // the state before it reads the membership; the future only supplies the cause.
        if self.life.state() == ExecutorState::Terminated {
            let cause = self.termination.try_get().and_then(Result::err);
            membership.on_child_terminated(self.id, cause.as_ref());
        }
    }

    /// Returns the id of the group that the executor is a child of.
    pub(crate) fn group_id(&self) -> Option<ExecutorId> {
        lock(&self.membership).as_ref().map(GroupMembership::group_id)
    }

    /// Returns the group that the executor is a child of.
    pub(crate) fn group(&self) -> Option<Arc<GroupShared<X>>> {
        lock(&self.membership).as_ref()?.group()
    }

    /// Marks a manually driven loop as started. Its seed is not needed.
    pub(crate) fn start_manually(&self) {
        drop(self.starter.take_seed());
        let _ = self.life.apply(LifecycleEvent::Start);
    }

    /// Asks the rejection policy what to do after a refusal.
    #[cold]
    fn admit_by_policy(
        self: &Arc<Self>,
        mut refusal: AdmissionRefusal,
    ) -> Result<AdmissionPermit<'_>, RejectReason> {
        let mut full = QueueFull {
            bound: self.inbox.bound(),
            attempts: 0,
            in_event_loop: self.in_event_loop(),
        };
        loop {
            if refusal == AdmissionRefusal::Closed {
                return Err(RejectReason::ShutDown);
            }
            full.attempts = full.attempts.saturating_add(1);
            // The loop may be asleep although the queue is full: lazy tasks do not wake the loop.
            self.inbox.wake(Urgency::Now);
            match self.ask_policy(&full) {
                OnFull::RetryAfter(pause) if !full.in_event_loop => sleep_before_retry(pause),
                _ => return Err(RejectReason::QueueFull { bound: full.bound }),
            }
            match self.inbox.admit_user() {
                Ok(permit) => return Ok(permit),
                Err(again) => refusal = again,
            }
        }
    }

    fn ask_policy(&self, full: &QueueFull) -> OnFull {
        let what = (UserCode::RejectionPolicy, Origin::labelled("rejection policy"));
        let ask = || self.policy.on_full(full);
        guard_for((&*self.reporter, &self.name), what, ask).unwrap_or(OnFull::Reject)
    }
}

impl<X: Send + 'static> NotifyTarget for SharedHalf<X> {
    fn queue_notify(self: Arc<Self>, notify: AnyPromise) -> Result<(), AnyPromise> {
        match self.push_system(SystemCommand::Notify(notify)) {
            Ok(()) => Ok(()),
            Err((SystemCommand::Notify(notify), _)) => Err(notify),
            Err(_) => unreachable!("a rejected command is handed back"),
        }
    }

    fn queue_timer_removal(&self, timer: AnyPromise) {
        if let Ok(permit) = self.inbox.admit_system() {
            let clear = Command::System(SystemCommand::ClearTimer(timer));
            self.inbox.push(permit, clear, Urgency::Lazy);
        }
    }
}

impl<X: Send + 'static> fmt::Debug for SharedHalf<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.life.state();
        f.debug_struct("Executor").field("name", &self.name).field("state", &state).finish()
    }
}

/// Returns why a system command was refused. The queue bound does not apply to it, but its count has a limit.
#[cold]
fn system_rejection(refusal: AdmissionRefusal) -> RejectReason {
    match refusal {
        AdmissionRefusal::Closed => RejectReason::ShutDown,
        AdmissionRefusal::Full => RejectReason::QueueFull { bound: MAX_SYSTEM },
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the pause of a rejection policy: there is no event to wait for"
)]
fn sleep_before_retry(pause: Duration) {
    std::thread::sleep(pause);
}
