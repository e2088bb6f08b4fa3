//! The local half of a loop: the state that only the loop's thread touches.
//!
//! Calls made on the loop find it through a thread-local (`current`), so they need no lock; calls made on other
//! threads go through the inbox. Nothing in here is borrowed while user code runs.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use crate::clock::Nanos;
use crate::engine::command::{Command, SystemCommand, WheelEntry};
use crate::engine::current::{AnyLocalHalf, ExecutorId};
use crate::engine::hooks::ShutdownHooks;
use crate::engine::shared_half::SharedHalf;
use crate::promise::AnyPromise;
use crate::queue::admission::QueueDepth;
use crate::raw::pool;
use crate::raw::queue::QueueConsumer;
use crate::timer::TimerKey;
use crate::timer::entry::{TimerRef, WheelPosition};
use crate::timer::wheel::TimerWheel;
use crate::watchdog::activity_cell::ActivityCell;

/// Initial capacity of the local deque: the loop's own submissions seldom need more (64 × 40 bytes = 2.5
/// KiB).
const READY_CAPACITY: usize = 64;

/// A deque that a burst has grown beyond this capacity is freed when it is empty (4096 × 40 bytes = 160 KiB).
const MAX_KEPT_READY: usize = 4096;

pub(crate) struct LocalHalf<X: Send + 'static> {
    shared: Arc<SharedHalf<X>>,
    /// The consuming end of the inbox.
    inbox: RefCell<QueueConsumer<Command<X>>>,
    /// The local deque: commands moved from the inbox and commands of the loop itself, in order of acceptance.
    ready: RefCell<VecDeque<Command<X>>>,
    timers: RefCell<TimerWheel<WheelEntry<X>>>,
    /// The earliest deadline in the wheel, or a lower bound. This field and the next two are copied here after each
    /// change of the wheel, so that a turn in which nothing is due does not touch the wheel.
    next_deadline: Cell<Nanos>,
    /// True if `next_deadline` must be refined before a sleep.
    is_deadline_stale: Cell<bool>,
    /// How many timers are pending.
    pending_timers: Cell<usize>,
    /// Cancelled timers that were taken out of the wheel and are about to be dropped. Empty otherwise; kept for
    /// its capacity.
    removed: RefCell<Vec<WheelEntry<X>>>,
    /// The time of the last check for due timers.
    now: Cell<Nanos>,
    pub(crate) hooks: RefCell<ShutdownHooks>,
    /// True after the last pass: a command queued now would never run.
    is_finished: Cell<bool>,
}

impl<X: Send + 'static> LocalHalf<X> {
    pub(crate) fn new(shared: Arc<SharedHalf<X>>) -> Self {
        let now = shared.clock.now();
        Self {
            inbox: RefCell::new(shared.inbox.consumer()),
            shared,
            ready: RefCell::new(VecDeque::with_capacity(READY_CAPACITY)),
            timers: RefCell::new(TimerWheel::new()),
            next_deadline: Cell::new(Nanos::MAX),
            is_deadline_stale: Cell::new(false),
            pending_timers: Cell::new(0),
            removed: RefCell::default(),
            now: Cell::new(now),
            hooks: RefCell::default(),
            is_finished: Cell::new(false),
        }
    }

    pub(crate) fn shared(&self) -> &Arc<SharedHalf<X>> {
        &self.shared
    }

    /// Queues an admitted command of the loop itself. Commands already in the inbox were accepted earlier, so they
    /// are moved to the local deque first.
    pub(crate) fn push(&self, command: Command<X>) {
        self.drain_inbox();
        self.ready.borrow_mut().push_back(command);
    }

    /// Returns the next command in the order of acceptance: first from the local deque, then from the inbox.
    #[inline(always)]
    pub(crate) fn pop(&self) -> Option<Command<X>> {
        let mut ready = self.ready.borrow_mut();
        if ready.is_empty() {
            return self.inbox.borrow_mut().pop();
        }
        let command = ready.pop_front();
        if ready.is_empty() && ready.capacity() > MAX_KEPT_READY {
            *ready = VecDeque::with_capacity(READY_CAPACITY);
        }
        command
    }

    /// Returns how many commands are queued, here and in the inbox.
    pub(crate) fn queued_commands(&self) -> usize {
        self.ready.borrow().len() + self.shared.inbox.len()
    }

    /// Returns the time by which the loop has to be awake; [`Nanos::MAX`], which no clock reaches, without
    /// timers.
    #[inline]
    pub(crate) fn next_deadline(&self) -> Nanos {
        if self.is_deadline_stale.get() {
            self.refine_deadline();
        }
        self.next_deadline.get()
    }

    #[cold]
    fn refine_deadline(&self) {
        self.remove_cancelled();
        if self.is_deadline_stale.get() {
            self.with_timers(TimerWheel::refine);
            pool::shrink();
        }
    }

    /// Takes cancelled timers out of the wheel, and drops them outside of any borrow.
    pub(crate) fn remove_cancelled(&self) {
        let mut removed = self.removed.take();
        self.with_timers(|timers| timers.take_cancelled(&mut removed));
        removed.clear();
        self.removed.replace(removed);
    }

    /// Changes the wheel. `change` neither runs nor drops user code.
    #[inline]
    fn with_timers<R>(&self, change: impl FnOnce(&mut TimerWheel<WheelEntry<X>>) -> R) -> R {
        let mut timers = self.timers.borrow_mut();
        let result = change(&mut timers);
        self.pending_timers.set(timers.len());
        self.next_deadline.set(timers.next());
        self.is_deadline_stale.set(timers.is_stale());
        result
    }

    pub(crate) fn pending_timers(&self) -> usize {
        self.pending_timers.get()
    }

    /// Puts a timer into the wheel.
    pub(crate) fn schedule(&self, deadline: Nanos, timer: TimerRef) {
        self.with_timers(|timers| {
            timers.insert_with(self.now.get(), deadline, |key| {
                timer.wheel_position().set(key);
                WheelEntry::Timer(timer)
            })
        });
    }

    /// Puts a command of the layer above into the wheel.
    pub(crate) fn schedule_extension(&self, deadline: Nanos, command: X) -> TimerKey {
        self.with_timers(|timers| {
            timers.insert(self.now.get(), deadline, WheelEntry::Extension(command))
        })
    }

    /// Takes a command of the layer above out of the wheel.
    pub(crate) fn unschedule_extension(&self, key: TimerKey) -> Option<X> {
        let is_extension = matches!(self.timers.borrow().get(key), Some(WheelEntry::Extension(_)));
        match is_extension.then(|| self.with_timers(|timers| timers.remove(key)))?? {
            WheelEntry::Extension(command) => Some(command),
            WheelEntry::Timer(_) => None,
        }
    }

    /// True if a timer is due. A timer at [`Nanos::MAX`] never is.
    #[inline]
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        self.now.set(now);
        let next = self.next_deadline.get();
        next <= now && next < Nanos::MAX
    }

    /// Queues the due timers after all queued commands.
    pub(crate) fn queue_due(&self, now: Nanos) {
        if !self.is_due(now) {
            return;
        }
        self.remove_cancelled();
        self.drain_inbox();
        let mut ready = self.ready.borrow_mut();
        self.with_timers(|timers| {
            while let Some(due) = timers.pop_due(now) {
                due.clear_wheel_position();
                ready.push_back(Command::System(SystemCommand::Due(due)));
            }
        });
    }

    /// Puts the timers that other threads have scheduled into the wheel, ahead of the tasks queued before them.
    /// Due timers are still queued after those tasks.
    pub(crate) fn move_schedules_to_wheel(&self) {
        self.drain_inbox();
        let mut ready = self.ready.borrow_mut();
        for _ in 0..ready.len() {
            match ready.pop_front() {
                Some(Command::System(SystemCommand::Schedule(deadline, timer))) => {
                    self.shared.inbox.release(QueueDepth::ONE_SYSTEM);
                    self.schedule(deadline, timer);
                }
                Some(other) => ready.push_back(other),
                None => break,
            }
        }
    }

    /// Takes any timer out of the wheel.
    pub(crate) fn take_any_timer(&self) -> Option<WheelEntry<X>> {
        self.remove_cancelled();
        self.with_timers(TimerWheel::pop_any).inspect(WheelEntry::clear_wheel_position)
    }

    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !self.ready.borrow().is_empty() || !self.shared.inbox.is_empty()
    }

    /// True if the local deque has commands. The wake word's re-check asks the inbox itself.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.borrow().is_empty()
    }

    pub(crate) fn set_finished(&self) {
        self.is_finished.set(true);
    }

    /// Moves the commands that the inbox holds now to the local deque. Producers that keep pushing cannot hold the
    /// loop here.
    fn drain_inbox(&self) {
        let (mut inbox, mut ready) = (self.inbox.borrow_mut(), self.ready.borrow_mut());
        for _ in 0..self.shared.inbox.len() {
            match inbox.pop() {
                Some(command) => ready.push_back(command),
                None => break,
            }
        }
    }
}

impl<X: Send + 'static> AnyLocalHalf for LocalHalf<X> {
    fn notify_later(&self, notify: AnyPromise) -> Result<(), AnyPromise> {
        if self.is_finished.get() {
            return Err(notify);
        }
        self.push(Command::System(SystemCommand::NotifyNested(notify)));
        Ok(())
    }

    fn group(&self) -> Option<ExecutorId> {
        self.shared.group_id()
    }

    fn activity(&self) -> &ActivityCell {
        &self.shared.status.activity
    }

    fn record_cancelled_timer(&self, position: &WheelPosition) -> bool {
        let Some(key) = position.take() else { return false };
        self.with_timers(|timers| timers.cancel(key))
    }

    fn remove_cancelled_timers(&self) {
        self.remove_cancelled();
    }
}

impl<X: Send + 'static> fmt::Debug for LocalHalf<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalHalf").field("hooks", &self.hooks).finish_non_exhaustive()
    }
}
