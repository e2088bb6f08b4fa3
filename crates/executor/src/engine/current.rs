//! What this thread is: which executor's loop runs on it (E06).
//!
//! Three thread-locals: the loop's id, read on every call that asks "am I on the loop?" (a
//! comparison of two integers); the loop itself, for calls that found they are; and how deep
//! listeners are nested.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::loop_local::LoopLocals;
use crate::promise::AnyPromise;
use crate::raw::origin::Origin;
use crate::report::{Reporter, UserCode};
use crate::sync::per_thread;
use crate::timer::entry::Place;
use crate::watchdog::activity_cell::Pulse;

/// Names an executor for the life of the process. Promises carry it instead of a reference, so a
/// promise neither keeps its executor alive nor costs a reference count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExecutorId(u64);

impl ExecutorId {
    /// Whichever incarnation of the global executor is there.
    pub(crate) const GLOBAL: ExecutorId = ExecutorId(1);

    /// Whatever thread it is.
    pub(crate) const IMMEDIATE: ExecutorId = ExecutorId(2);

    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(ExecutorId::IMMEDIATE.0 + 1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The loop that runs on this thread.
#[derive(Clone)]
pub(crate) struct CurrentLoop {
    pub(crate) id: ExecutorId,
    pub(crate) name: Arc<str>,
    /// The loop's local half, a `Local<X>`; callers who know the id know the type.
    pub(crate) local: Rc<dyn LocalHalf>,
    /// `None` on a loop without a thread of its own.
    pub(crate) loop_locals: Option<Rc<LoopLocals>>,
    pub(crate) reporter: Arc<dyn Reporter>,
    /// Waiting on this thread is refused for any promise, not only for this loop's own.
    pub(crate) never_block: bool,
    /// The loop that runs this one in one of its tasks: a manual executor's.
    pub(crate) outer: Option<Rc<CurrentLoop>>,
    /// It is an incarnation of the global executor.
    pub(crate) is_global: bool,
}

/// What can be done with a loop's local half without knowing its commands.
pub(crate) trait LocalHalf: Any {
    /// Queues a call behind everything queued so far; gives it back after the loop's last pass.
    fn notify_later(&self, notify: AnyPromise) -> Result<(), AnyPromise>;

    /// The group the loop is in.
    fn group(&self) -> Option<ExecutorId>;

    /// Where the loop says what it is doing.
    fn pulse(&self) -> &Pulse;

    /// Notes that the timer at this place was cancelled. Returns whether it is time to clear the places of cancelled
    /// timers.
    fn note_cancelled_timer(&self, place: &Place) -> bool;

    /// Takes cancelled timers out of the wheel, and drops them.
    fn clear_cancelled_timers(&self);
}

/// How deep listeners may nest before the next ones are queued. Each level costs a few frames of
/// the user's own; sixteen fit the smallest stacks in use.
const MAX_LISTENER_DEPTH: u32 = 16;

per_thread! {
    static ID: Cell<u64> = Cell::new(0);
    static CURRENT: RefCell<Option<CurrentLoop>> = RefCell::new(None);
    static LISTENER_DEPTH: Cell<u32> = Cell::new(0);
}

/// Whether the loop of this executor runs on this thread.
pub(crate) fn is(id: ExecutorId) -> bool {
    ID.with(Cell::get) == id.0
}

/// Whether an incarnation of the global executor runs on this thread.
pub(crate) fn is_global() -> bool {
    let is_global = |current: &RefCell<Option<CurrentLoop>>| {
        current.borrow().as_ref().is_some_and(|loop_| loop_.is_global)
    };
    CURRENT.try_with(is_global).unwrap_or(false)
}

/// Whether the listeners of a promise of this executor are to be called on this very thread.
pub(crate) fn runs_here(id: ExecutorId) -> bool {
    is(id) || id == ExecutorId::IMMEDIATE || id == ExecutorId::GLOBAL && is_global()
}

/// The loop on this thread. `None` outside of one, and while the thread's locals are torn down.
pub(crate) fn get() -> Option<CurrentLoop> {
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

/// Calls `f` with the local half of the loop on this thread, if it is the one with this id.
pub(crate) fn with_local<L: 'static, R>(id: ExecutorId, f: impl FnOnce(&Rc<L>) -> R) -> Option<R> {
    if !is(id) {
        return None;
    }
    let find = |current: &RefCell<Option<CurrentLoop>>| {
        current.borrow().as_ref().map(|loop_| loop_.local.clone())
    };
    let local: Rc<dyn Any> = CURRENT.try_with(find).ok()??;
    local.downcast().ok().map(|local| f(&local))
}

/// Calls `code` as what the loop on this thread is doing, if there is one. It must not panic.
#[inline]
pub(crate) fn run_as<R>(
    (what, origin, station): (UserCode, Origin, Option<u64>),
    code: impl FnOnce() -> R,
) -> R {
    let before = with_pulse(|pulse| pulse.enter(what, origin, station));
    let result = code();
    if let Some(before) = before {
        with_pulse(|pulse| pulse.exit(before));
    }
    result
}

fn with_pulse<R>(f: impl FnOnce(&Pulse) -> R) -> Option<R> {
    let find = |current: &RefCell<Option<CurrentLoop>>| {
        current.borrow().as_ref().map(|loop_| f(loop_.local.pulse()))
    };
    CURRENT.try_with(find).ok().flatten()
}

/// Clears the place of a cancelled timer in the wheel of the loop on this thread.
pub(crate) fn clear_timer(place: &Place) {
    let is_time = CURRENT.with(|current| {
        let current = current.borrow();
        let local = &current.as_ref()?.local;
        local.note_cancelled_timer(place).then(|| local.clone())
    });
    // Outside of the borrow: what a timer drops may ask for the current loop.
    if let Some(local) = is_time {
        local.clear_cancelled_timers();
    }
}

/// Makes this thread the given loop's until the guard is dropped, on unwind too; the previous
/// value then comes back.
pub(crate) fn enter(mut current: CurrentLoop) -> Entered {
    let previous_id = ID.with(|id| id.replace(current.id.0));
    current.outer = get().map(Rc::new);
    // Gone, if a loop driven by hand is kept in a thread-local and dropped with its thread.
    let previous = CURRENT.try_with(|here| here.replace(Some(current))).ok().flatten();
    let previous_depth = LISTENER_DEPTH.with(|depth| depth.replace(0));
    Entered { previous_id, previous, previous_depth }
}

#[must_use = "leaving happens when it is dropped"]
pub(crate) struct Entered {
    previous_id: u64,
    previous: Option<CurrentLoop>,
    previous_depth: u32,
}

impl Drop for Entered {
    fn drop(&mut self) {
        ID.with(|id| id.set(self.previous_id));
        LISTENER_DEPTH.with(|depth| depth.set(self.previous_depth));
        let left = CURRENT.try_with(|here| here.replace(self.previous.take()));
        drop(left); // Outside the borrow: destructors may ask for the current loop.
    }
}

/// Runs `listeners` in place if they may still nest; hands them back otherwise.
pub(crate) fn nest_listeners<F: FnOnce()>(listeners: F) -> Result<(), F> {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            LISTENER_DEPTH.with(|depth| depth.set(depth.get() - 1));
        }
    }
    let depth = LISTENER_DEPTH.with(Cell::get);
    if depth >= MAX_LISTENER_DEPTH {
        return Err(listeners);
    }
    LISTENER_DEPTH.with(|nested| nested.set(depth + 1));
    let _leave = Leave;
    listeners();
    Ok(())
}
