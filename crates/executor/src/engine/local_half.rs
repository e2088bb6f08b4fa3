//! The loop's local half: what only its own thread touches.
//!
//! Calls made on the loop find it through the thread (`current`), so they need no lock; calls made
//! elsewhere go through the inbox. Nothing in here is borrowed while user code runs.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use crate::clock::Nanos;
use crate::engine::command::{Command, Due, System};
use crate::engine::current::{ExecutorId, LocalHalf};
use crate::engine::hooks::Hooks;
use crate::engine::shared_half::Shared;
use crate::promise::AnyPromise;
use crate::queue::admission::Depth;
use crate::raw::pool;
use crate::raw::queue::Consumer;
use crate::timer::TimerKey;
use crate::timer::entry::{Place, TimerRef};
use crate::timer::wheel::TimerWheel;
use crate::watchdog::activity_cell::Pulse;

/// Room in the local deque to begin with: what the loop submits to itself seldom needs more
/// (64 × 40 bytes = 2.5 KiB).
const READY: usize = 64;

/// A deque that a burst has grown beyond this is given back when it is empty (4096 × 40 bytes = 160 KiB).
const KEPT_READY: usize = 4096;

pub(crate) struct Local<X: Send + 'static> {
    shared: Arc<Shared<X>>,
    /// The inbox, from its other end.
    inbox: RefCell<Consumer<Command<X>>>,
    /// Taken over from the inbox, in order. Still counted as admitted.
    ready: RefCell<VecDeque<Command<X>>>,
    timers: RefCell<TimerWheel<Due<X>>>,
    /// The earliest deadline of the wheel or a lower bound. Copied here with the next two after each change of the
    /// wheel: a turn in which nothing is due does not touch it.
    next_deadline: Cell<Nanos>,
    /// `next_deadline` is to be refined before a sleep.
    is_deadline_stale: Cell<bool>,
    /// How many timers wait.
    waiting: Cell<usize>,
    /// Cancelled timers that were taken out of the wheel and are about to be dropped. Empty; kept for its memory.
    cleared: RefCell<Vec<Due<X>>>,
    /// When the loop last looked whether timers are due.
    now: Cell<Nanos>,
    pub(crate) hooks: RefCell<Hooks>,
    /// The last pass is over: nothing that is queued here would ever run.
    finished: Cell<bool>,
}

impl<X: Send + 'static> Local<X> {
    pub(crate) fn new(shared: Arc<Shared<X>>) -> Self {
        let now = shared.clock.now();
        Self {
            inbox: RefCell::new(shared.inbox.consumer()),
            shared,
            ready: RefCell::new(VecDeque::with_capacity(READY)),
            timers: RefCell::new(TimerWheel::new()),
            next_deadline: Cell::new(Nanos::MAX),
            is_deadline_stale: Cell::new(false),
            waiting: Cell::new(0),
            cleared: RefCell::default(),
            now: Cell::new(now),
            hooks: RefCell::default(),
            finished: Cell::new(false),
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<X>> {
        &self.shared
    }

    /// Queues an admitted command from the loop itself. What other threads were told is accepted
    /// stands before it, so it is moved over first.
    pub(crate) fn push(&self, command: Command<X>) {
        self.take_over();
        self.ready.borrow_mut().push_back(command);
    }

    /// The next command, in the order of acceptance: what was taken over, then what is in the inbox.
    #[inline(always)]
    pub(crate) fn pop(&self) -> Option<Command<X>> {
        let mut ready = self.ready.borrow_mut();
        if ready.is_empty() {
            return self.inbox.borrow_mut().pop();
        }
        let command = ready.pop_front();
        if ready.is_empty() && ready.capacity() > KEPT_READY {
            *ready = VecDeque::with_capacity(READY);
        }
        command
    }

    /// How many commands wait, here and in the inbox.
    pub(crate) fn queued(&self) -> usize {
        self.ready.borrow().len() + self.shared.inbox.len()
    }

    /// Returns when the loop has to be awake at the latest; the end of time, which never comes, without timers.
    #[inline]
    pub(crate) fn next_deadline(&self) -> Nanos {
        if self.is_deadline_stale.get() {
            self.refine_deadline();
        }
        self.next_deadline.get()
    }

    #[cold]
    fn refine_deadline(&self) {
        self.clear_cancelled();
        if self.is_deadline_stale.get() {
            self.with_timers(TimerWheel::refine);
            pool::shrink();
        }
    }

    /// Takes the timers that were cancelled out of the wheel, and drops them outside of any borrow.
    pub(crate) fn clear_cancelled(&self) {
        let mut cleared = self.cleared.take();
        self.with_timers(|timers| timers.take_cancelled(&mut cleared));
        cleared.clear();
        self.cleared.replace(cleared);
    }

    /// Changes the wheel. `change` neither runs nor drops anything of the user's.
    #[inline]
    fn with_timers<R>(&self, change: impl FnOnce(&mut TimerWheel<Due<X>>) -> R) -> R {
        let mut timers = self.timers.borrow_mut();
        let result = change(&mut timers);
        self.waiting.set(timers.len());
        self.next_deadline.set(timers.next());
        self.is_deadline_stale.set(timers.is_stale());
        result
    }

    pub(crate) fn timers(&self) -> usize {
        self.waiting.get()
    }

    /// Puts a timer into the wheel.
    pub(crate) fn schedule(&self, deadline: Nanos, timer: TimerRef) {
        self.with_timers(|timers| {
            timers.insert_with(self.now.get(), deadline, |key| {
                timer.place().set(key);
                Due::Timer(timer)
            })
        });
    }

    /// Puts a command of the layer above into the wheel.
    pub(crate) fn schedule_extension(&self, deadline: Nanos, command: X) -> TimerKey {
        self.with_timers(|timers| timers.insert(self.now.get(), deadline, Due::Extension(command)))
    }

    /// Takes a command of the layer above out of the wheel again.
    pub(crate) fn unschedule_extension(&self, key: TimerKey) -> Option<X> {
        let is_extension = matches!(self.timers.borrow().get(key), Some(Due::Extension(_)));
        match is_extension.then(|| self.with_timers(|timers| timers.remove(key)))?? {
            Due::Extension(command) => Some(command),
            Due::Timer(_) => None,
        }
    }

    /// Whether a timer is due. One at the end of time never is.
    #[inline]
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        self.now.set(now);
        let next = self.next_deadline.get();
        next <= now && next < Nanos::MAX
    }

    /// Moves the timers that are due behind everything that is queued.
    pub(crate) fn queue_due(&self, now: Nanos) {
        if !self.is_due(now) {
            return;
        }
        self.clear_cancelled();
        self.take_over();
        let mut ready = self.ready.borrow_mut();
        self.with_timers(|timers| {
            while let Some(due) = timers.pop_due(now) {
                due.leave_wheel();
                ready.push_back(Command::System(System::Due(due)));
            }
        });
    }

    /// Puts the timers that other threads have scheduled into the wheel, past the tasks before them:
    /// those that are due will stand behind those tasks all the same.
    pub(crate) fn absorb_schedules(&self) {
        self.take_over();
        let mut ready = self.ready.borrow_mut();
        for _ in 0..ready.len() {
            match ready.pop_front() {
                Some(Command::System(System::Schedule(deadline, timer))) => {
                    self.shared.inbox.leave(Depth::ONE_SYSTEM);
                    self.schedule(deadline, timer);
                }
                Some(other) => ready.push_back(other),
                None => break,
            }
        }
    }

    /// Takes any timer out of the wheel.
    pub(crate) fn take_any_timer(&self) -> Option<Due<X>> {
        self.clear_cancelled();
        self.with_timers(TimerWheel::pop_any).inspect(Due::leave_wheel)
    }

    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !self.ready.borrow().is_empty() || !self.shared.inbox.is_empty()
    }

    /// Whether the local deque alone has work: the wake word's re-check asks the inbox itself.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.borrow().is_empty()
    }

    pub(crate) fn finish(&self) {
        self.finished.set(true);
    }

    /// Moves over what is in the inbox now: producers that keep pushing cannot hold the loop here.
    fn take_over(&self) {
        let (mut inbox, mut ready) = (self.inbox.borrow_mut(), self.ready.borrow_mut());
        for _ in 0..self.shared.inbox.len() {
            match inbox.pop() {
                Some(command) => ready.push_back(command),
                None => break,
            }
        }
    }
}

impl<X: Send + 'static> LocalHalf for Local<X> {
    fn notify_later(&self, notify: AnyPromise) -> Result<(), AnyPromise> {
        if self.finished.get() {
            return Err(notify);
        }
        self.push(Command::System(System::NotifyNested(notify)));
        Ok(())
    }

    fn group(&self) -> Option<ExecutorId> {
        self.shared.group_id()
    }

    fn pulse(&self) -> &Pulse {
        &self.shared.vitals.pulse
    }

    fn note_cancelled_timer(&self, place: &Place) -> bool {
        let Some(key) = place.take() else { return false };
        self.with_timers(|timers| timers.cancel(key))
    }

    fn clear_cancelled_timers(&self) {
        self.clear_cancelled();
    }
}

impl<X: Send + 'static> fmt::Debug for Local<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").field("hooks", &self.hooks).finish_non_exhaustive()
    }
}
