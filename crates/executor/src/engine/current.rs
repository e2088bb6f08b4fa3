//! The loop that runs on the current thread (E06).
//!
//! Three thread-locals: the loop's id, read by every call that asks "am I on the loop?" (a comparison of two
//! integers); the loop itself, for calls that are on it; and the nesting depth of listeners.

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
use crate::timer::entry::WheelPosition;
use crate::watchdog::activity_cell::ActivityCell;

/// Identifies an executor for the life of the process. Promises carry it instead of a reference, so a promise
/// neither keeps its executor alive nor costs a reference count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExecutorId(u64);

impl ExecutorId {
    /// Stands for whichever incarnation of the global executor is alive.
    pub(crate) const GLOBAL: ExecutorId = ExecutorId(1);

    /// Stands for the immediate executor, which runs on whatever thread completes a promise.
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
    /// The loop's local half, a `LocalHalf<X>`. Callers that know the id know the type.
    pub(crate) local: Rc<dyn AnyLocalHalf>,
    /// `None` for a pooled loop, which has no thread of its own.
    pub(crate) loop_locals: Option<Rc<LoopLocals>>,
    pub(crate) reporter: Arc<dyn Reporter>,
    /// Refuses blocking waits on this thread for any promise, not only for this loop's own.
    pub(crate) never_block: bool,
    /// The enclosing loop, if one of its tasks drives this loop: a manual executor may be driven on a loop.
    pub(crate) outer: Option<Rc<CurrentLoop>>,
    /// True for an incarnation of the global executor.
    pub(crate) is_global: bool,
}

/// The operations on a loop's local half that do not depend on its command type.
pub(crate) trait AnyLocalHalf: Any {
    /// Queues the call of a promise's listeners after all queued commands. Returns the promise in `Err` after the
    /// loop's last pass.
    fn notify_later(&self, notify: AnyPromise) -> Result<(), AnyPromise>;

    /// Returns the id of the group that the loop is in.
    fn group(&self) -> Option<ExecutorId>;

    /// Returns the cell in which the loop publishes what it is doing.
    fn activity(&self) -> &ActivityCell;

    /// Records that the timer at this position was cancelled. Returns true when it is time to remove the
    /// cancelled timers.
    fn record_cancelled_timer(&self, position: &WheelPosition) -> bool;

    /// Removes cancelled timers from the wheel and drops them.
    fn remove_cancelled_timers(&self);
}

/// How deep listeners may nest before further ones are queued. Each level costs a few stack frames of user
/// code; sixteen levels fit the smallest stacks in use.
const MAX_LISTENER_DEPTH: u32 = 16;

per_thread! {
    static ID: Cell<u64> = Cell::new(0);
    static CURRENT: RefCell<Option<CurrentLoop>> = RefCell::new(None);
    static LISTENER_DEPTH: Cell<u32> = Cell::new(0);
}

/// True if the loop of this executor runs on this thread.
pub(crate) fn is_current(id: ExecutorId) -> bool {
    ID.with(Cell::get) == id.0
}

/// True if an incarnation of the global executor runs on this thread.
pub(crate) fn is_global() -> bool {
    let is_global = |current: &RefCell<Option<CurrentLoop>>| {
        current.borrow().as_ref().is_some_and(|loop_| loop_.is_global)
    };
    CURRENT.try_with(is_global).unwrap_or(false)
}

/// True if this thread is the one on which listeners of this executor's promises run.
pub(crate) fn is_listener_thread(id: ExecutorId) -> bool {
    is_current(id) || id == ExecutorId::IMMEDIATE || id == ExecutorId::GLOBAL && is_global()
}

/// Returns the loop on this thread. `None` outside of a loop, and while the thread's locals are destroyed.
pub(crate) fn get() -> Option<CurrentLoop> {
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

/// Calls `f` with the local half of the loop on this thread, if that loop has this id.
pub(crate) fn with_local<L: 'static, R>(id: ExecutorId, f: impl FnOnce(&Rc<L>) -> R) -> Option<R> {
    if !is_current(id) {
        return None;
    }
    let find = |current: &RefCell<Option<CurrentLoop>>| {
        current.borrow().as_ref().map(|loop_| loop_.local.clone())
    };
    let local: Rc<dyn Any> = CURRENT.try_with(find).ok()??;
    local.downcast().ok().map(|local| f(&local))
}

/// Calls `code` and publishes it as the activity of the loop on this thread, if there is one. `code` must not
/// panic.
#[inline]
pub(crate) fn run_as<R>(
    (what, origin, call_site): (UserCode, Origin, Option<u64>),
    code: impl FnOnce() -> R,
) -> R {
    let before = with_activity(|activity| activity.enter(what, origin, call_site));
    let result = code();
    if let Some(before) = before {
        with_activity(|activity| activity.restore(before));
    }
    result
}

fn with_activity<R>(f: impl FnOnce(&ActivityCell) -> R) -> Option<R> {
    let find = |current: &RefCell<Option<CurrentLoop>>| {
        current.borrow().as_ref().map(|loop_| f(loop_.local.activity()))
    };
    CURRENT.try_with(find).ok().flatten()
}

/// Removes a cancelled timer from the wheel of the loop on this thread, in a batch with other cancelled timers.
pub(crate) fn clear_timer(position: &WheelPosition) {
    let is_time = CURRENT.with(|current| {
        let current = current.borrow();
        let local = &current.as_ref()?.local;
        local.record_cancelled_timer(position).then(|| local.clone())
    });
    // Outside of the borrow: destructors of a timer may ask for the current loop.
    if let Some(local) = is_time {
        local.remove_cancelled_timers();
    }
}

/// Makes this thread the given loop's thread until the guard is dropped, also on unwind. Then the previous loop
/// is restored.
pub(crate) fn enter(mut current: CurrentLoop) -> EnteredLoop {
    let previous_id = ID.with(|id| id.replace(current.id.0));
    current.outer = get().map(Rc::new);
    // `CURRENT` is already destroyed if a manual loop is kept in a thread-local and dropped with its thread.
    let previous = CURRENT.try_with(|here| here.replace(Some(current))).ok().flatten();
    let previous_depth = LISTENER_DEPTH.with(|depth| depth.replace(0));
    EnteredLoop { previous_id, previous, previous_depth }
}

#[must_use = "dropping it leaves the loop"]
pub(crate) struct EnteredLoop {
    previous_id: u64,
    previous: Option<CurrentLoop>,
    previous_depth: u32,
}

impl Drop for EnteredLoop {
    fn drop(&mut self) {
        ID.with(|id| id.set(self.previous_id));
        LISTENER_DEPTH.with(|depth| depth.set(self.previous_depth));
        let left = CURRENT.try_with(|here| here.replace(self.previous.take()));
        drop(left); // Outside of the borrow: destructors may ask for the current loop.
    }
}

/// Runs `listeners` in place if the nesting limit allows; hands them back otherwise.
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
