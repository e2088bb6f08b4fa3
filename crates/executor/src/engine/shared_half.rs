//! The shared half of an executor: what handles, loop and registry hold together.
//!
//! Who touches what: any thread submits through `inbox` and reads `life`; `starter` and `plan`
//! belong to whoever starts or shuts down; `counters` and the pulse in `vitals` are written by the loop
//! alone.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clock::Clock;
use crate::engine::LoopSeed;
use crate::engine::command::{Command, System};
use crate::engine::current::{self, ExecutorId};
use crate::engine::local_half::Local;
use crate::engine::registry::{self, NotifyTarget};
use crate::error::{Error, WouldDeadlock};
use crate::executor::attachment::Attached;
use crate::executor::pooled::Rest;
use crate::executor::stats::Counters;
use crate::group::members::{Members, Membership};
use crate::lifecycle::lease::Lease;
use crate::lifecycle::shutdown::{DEFAULT_SHUTDOWN_TIMEOUT, InvalidShutdown, ShutdownPlan};
use crate::lifecycle::start::Starter;
use crate::lifecycle::{Action, Event, Lifecycle, State};
use crate::promise::{AnyPromise, Promise, SharedFuture, promise_of_end};
use crate::queue::admission::{Permit, Refusal};
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
use crate::watchdog::loop_status::Vitals;

pub(crate) struct Shared<X: Send + 'static> {
    pub(crate) id: ExecutorId,
    pub(crate) name: Arc<str>,
    pub(crate) inbox: Inbox<Command<X>>,
    pub(crate) life: Lifecycle,
    pub(crate) clock: Clock,
    pub(crate) reporter: Arc<dyn Reporter>,
    pub(crate) never_block: bool,
    pub(crate) is_global: bool,
    pub(crate) counters: Counters,
    pub(crate) vitals: Arc<Vitals>,
    pub(crate) watchdog: Option<Watchdog>,
    pub(crate) termination: SharedFuture<()>,
    membership: Mutex<Option<Membership<X>>>,
    /// What user handles hold, for handles made on the loop.
    pub(crate) lease: Mutex<Weak<Lease>>,
    /// The thread's handle, for `join`; gone once joined.
    pub(crate) join_handle: Mutex<Option<JoinHandle<()>>>,
    end: Mutex<Option<Promise<()>>>,
    plan: OnceLock<ShutdownPlan>,
    pub(crate) starter: Starter<LoopSeed<X>>,
    pub(crate) supplier: Arc<dyn ThreadSupplier>,
    policy: Box<dyn RejectionPolicy>,
    pub(crate) attachment: Option<Arc<dyn Attached>>,
    /// Of a pooled loop: where it is between its turns.
    pub(crate) rest: Option<Arc<Rest<X>>>,
    pub(crate) timer_limit: Option<Arc<TimerLimit>>,
}

/// What a builder has gathered.
pub(crate) struct Parts<X: Send + 'static> {
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
    pub(crate) attachment: Option<Arc<dyn Attached>>,
    pub(crate) rest: Option<Arc<Rest<X>>>,
}

impl<X: Send + 'static> Shared<X> {
    pub(crate) fn new(parts: Parts<X>) -> Arc<Self> {
        let id = ExecutorId::next();
        let (end, termination) = promise_of_end(id);
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
            vitals: Vitals::new(),
            watchdog: parts.watchdog,
            termination,
            membership: Mutex::new(None),
            lease: Mutex::new(Weak::new()),
            join_handle: Mutex::new(None),
            end: Mutex::new(Some(end)),
            plan: OnceLock::new(),
            starter: Starter::new(parts.seed),
            supplier: parts.supplier,
            policy: parts.policy,
            attachment: parts.attachment,
            rest: parts.rest,
            timer_limit: parts.timer_bound.map(TimerLimit::new),
        });
        let target: Weak<Self> = Arc::downgrade(&shared);
        registry::register(shared.id, target);
        shared
    }

    /// How much it has to do: what waits, and what lasts.
    pub(crate) fn load(&self) -> usize {
        let lasting = self.attachment.as_ref().map_or(0, |attached| attached.load());
        self.inbox.depth().total().saturating_add(lasting)
    }

    pub(crate) fn in_event_loop(&self) -> bool {
        current::is(self.id)
    }

    /// Asks for room for one user task; starts the thread first if this is the first of all.
    #[inline]
    pub(crate) fn admit(self: &Arc<Self>) -> Result<Permit<'_>, RejectReason> {
        if self.life.state() == State::NotStarted && !self.in_event_loop() {
            self.start()?;
        }
        self.inbox.admit_user().or_else(|refusal| self.admit_after(refusal))
    }

    /// Queues an admitted command, in the order of acceptance.
    #[inline(always)]
    pub(crate) fn push(&self, permit: Permit<'_>, command: Command<X>, urgency: Urgency) {
        if self.in_event_loop() {
            self.push_on_loop(permit, command);
        } else {
            self.inbox.push(permit, command, urgency);
        }
    }

    #[inline(never)]
    fn push_on_loop(&self, permit: Permit<'_>, command: Command<X>) {
        let mut command = Some((permit, command));
        current::with_local::<Local<X>, _>(self.id, |local| {
            if let Some((permit, command)) = command.take() {
                local.push(command);
                permit.spend();
            }
        });
        // The thread's locals are being destroyed: the inbox is as good.
        if let Some((permit, command)) = command {
            self.inbox.push(permit, command, Urgency::Now);
        }
    }

    /// Asks to let one system command in, past any bound.
    pub(crate) fn admit_system(self: &Arc<Self>) -> Result<Permit<'_>, RejectReason> {
        if self.life.state() == State::NotStarted && !self.in_event_loop() {
            self.start()?;
        }
        self.inbox.admit_system().map_err(|_| RejectReason::ShutDown)
    }

    /// Queues a system command; gives it back if nothing is accepted any more.
    pub(crate) fn push_system(
        self: &Arc<Self>,
        command: System<X>,
    ) -> Result<(), (System<X>, RejectReason)> {
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

    /// Begins a graceful shutdown; later calls change nothing.
    pub(crate) fn shut_down_gracefully(
        self: &Arc<Self>,
        quiet: Duration,
        timeout: Duration,
    ) -> Result<(), InvalidShutdown> {
        let plan = ShutdownPlan::new(quiet, timeout, self.clock.now())?;
        let quiet = self.plan.get_or_init(|| plan).quiet;
        if self.is_starting_here() {
            return Ok(()); // Asked for by the supplier: done once the start is decided.
        }
        let mut gate = self.starter.gate();
        let mut failed = None;
        if self.life.state() == State::NotStarted && !quiet.is_zero() {
            // Tasks are still accepted in the quiet period, so somebody must be there to run them.
            failed = self.starter.start(&mut gate, &self.life, |seed| self.offer(seed)).err();
        }
        let action = if self.life.state() == State::NotStarted {
            // Nothing was ever accepted: nobody has to run anything. Shut the door, then say so.
            self.inbox.close();
            self.life.apply(Event::ShutDownNow)
        } else {
            self.life.apply(Event::ShutDownGracefully)
        };
        drop(gate);
        let cause = failed.map(|failed| self.died(failed));
        match action {
            Action::Nothing => {}
            Action::WakeLoop => drop(self.push_system(System::Wake)),
            Action::EndWithoutLoop => self.end_without_loop(cause),
        }
        Ok(())
    }

    /// The thread supplier, while it starts this loop, asks something of it.
    fn is_starting_here(&self) -> bool {
        self.life.state() == State::NotStarted && self.starter.is_starting_here()
    }

    /// Refuses new tasks at once; what was accepted still runs.
    pub(crate) fn shut_down_now(self: &Arc<Self>) {
        let now = self.clock.now();
        let plan = ShutdownPlan { quiet: Duration::ZERO, timeout: Duration::ZERO, begun: now };
        self.plan.get_or_init(|| plan);
        if self.is_starting_here() {
            return; // Asked for by the supplier: done once the start is decided.
        }
        let gate = self.starter.gate();
        // The marker is admitted before the door shuts, and queued after the state has changed: the
        // loop cannot look too early and then sleep through it.
        let marker = self.inbox.admit_system();
        self.inbox.close();
        let action = self.life.apply(Event::ShutDownNow);
        drop(gate);
        if let Ok(permit) = marker {
            self.push(permit, Command::System(System::Wake), Urgency::Now);
        }
        if action == Action::EndWithoutLoop {
            self.end_without_loop(None);
        }
    }

    /// The loop has idled long enough: it ends now, unless somebody was just admitted.
    pub(crate) fn end_if_idle(&self) {
        if self.inbox.close_if_empty() {
            let _ = self.life.apply(Event::ShutDownNow);
        }
    }

    /// The last user handle is gone: end as soon as the queue is empty.
    pub(crate) fn shut_down_when_empty(self: &Arc<Self>) {
        let valid = self.shut_down_gracefully(Duration::ZERO, DEFAULT_SHUTDOWN_TIMEOUT);
        debug_assert!(valid.is_ok(), "zero is never longer than the timeout");
    }

    /// Waits for the thread itself to be gone, if the supplier gave its handle.
    pub(crate) fn join_thread(&self) -> Result<(), WouldDeadlock> {
        let own = self.vitals.thread().map(|thread| thread.id);
        if own == Some(std::thread::current().id()) {
            return Err(WouldDeadlock { executor: self.name.to_string() });
        }
        // Whoever else joins waits here, for the lock, until the thread is gone.
        let mut handle = lock(&self.join_handle);
        if let Some(handle) = handle.take() {
            let _ = handle.join();
        }
        Ok(())
    }

    /// The last steps of every teardown: Terminated, then whoever waits is told.
    pub(crate) fn terminate(&self, cause: Option<Error>) {
        self.vitals.stop();
        if let Some(watchdog) = &self.watchdog {
            watchdog.look_again();
        }
        registry::unregister(self.id);
        let _ = self.life.apply(Event::TornDown);
        let membership = lock(&self.membership).clone();
        let end = lock(&self.end).take();
        if let Some(end) = end {
            end.complete(cause.clone().map_or(Ok(()), Err));
        }
        if let Some(membership) = membership {
            membership.child_ended(self.id, cause.as_ref());
        }
    }

    /// The loop begins to turn, on the calling thread to begin with: it is watched from now on.
    pub(crate) fn begin_to_turn(&self) {
        self.vitals.on_this_thread();
        if let Some(watchdog) = &self.watchdog {
            watchdog.watch(&self.name, &self.reporter, &self.vitals);
        }
    }

    /// Becomes a child of a group.
    pub(crate) fn join_group(&self, membership: Membership<X>) {
        *lock(&self.membership) = Some(membership.clone());
        // Its end may have come before there was a group to tell. The state says so for certain, the
        // future only knows the cause: `terminate` moves the state before it looks for a group.
        if self.life.state() == State::Terminated {
            let cause = self.termination.try_get().and_then(Result::err);
            membership.child_ended(self.id, cause.as_ref());
        }
    }

    /// The id of the group it is a child of.
    pub(crate) fn group_id(&self) -> Option<ExecutorId> {
        lock(&self.membership).as_ref().map(Membership::group_id)
    }

    /// The group it is a child of.
    pub(crate) fn group(&self) -> Option<Arc<Members<X>>> {
        lock(&self.membership).as_ref()?.group()
    }

    /// For a loop that is driven by hand: it counts as started, and its seed is not needed.
    pub(crate) fn start_by_hand(&self) {
        drop(self.starter.take_seed());
        let _ = self.life.apply(Event::Start);
    }

    /// Refused: what the rejection policy makes of it.
    #[cold]
    fn admit_after(self: &Arc<Self>, mut refusal: Refusal) -> Result<Permit<'_>, RejectReason> {
        let mut full = QueueFull {
            bound: self.inbox.bound(),
            attempts: 0,
            in_event_loop: self.in_event_loop(),
        };
        loop {
            if refusal == Refusal::Closed {
                return Err(RejectReason::ShutDown);
            }
            full.attempts = full.attempts.saturating_add(1);
            // It may sleep on a queue full of tasks that were not to wake it.
            self.inbox.wake(Urgency::Now);
            match self.ask_policy(&full) {
                OnFull::RetryAfter(pause) if !full.in_event_loop => back_off(pause),
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

impl<X: Send + 'static> NotifyTarget for Shared<X> {
    fn queue_notify(self: Arc<Self>, notify: AnyPromise) -> Result<(), AnyPromise> {
        match self.push_system(System::Notify(notify)) {
            Ok(()) => Ok(()),
            Err((System::Notify(notify), _)) => Err(notify),
            Err(_) => unreachable!("what went in comes back"),
        }
    }

    fn queue_clear(&self, timer: AnyPromise) {
        if let Ok(permit) = self.inbox.admit_system() {
            let clear = Command::System(System::ClearTimer(timer));
            self.inbox.push(permit, clear, Urgency::Lazy);
        }
    }
}

impl<X: Send + 'static> fmt::Debug for Shared<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.life.state();
        f.debug_struct("Executor").field("name", &self.name).field("state", &state).finish()
    }
}

#[expect(clippy::disallowed_methods, reason = "a policy's pause: there is nothing to wait on")]
fn back_off(pause: Duration) {
    std::thread::sleep(pause);
}
