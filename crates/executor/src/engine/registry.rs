//! The registry of executors by id: finds the executor on which a promise's listeners run (P03).
//!
//! A promise knows its executor by id alone. When its listeners have to run and another thread has completed
//! it, the id is looked up here. An executor that has terminated is not listed any more, and the global
//! executor takes its place. Completing a promise without listeners, or on its own loop, does not use the
//! registry.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock, Weak};

use crate::engine::current::{self, ExecutorId};
use crate::executor::{global, immediate};
use crate::promise::AnyPromise;
use crate::timer::entry::WheelPosition;

/// An executor as the registry sees it.
pub(crate) trait NotifyTarget: Send + Sync {
    /// Queues the call of a promise's listeners; the queue bound does not apply. Returns the promise in `Err` if
    /// the executor accepts nothing any more.
    fn queue_notify(self: Arc<Self>, notify: AnyPromise) -> Result<(), AnyPromise>;

    /// Queues the removal of a cancelled timer from the wheel, without waking the loop.
    fn queue_timer_removal(&self, timer: AnyPromise);
}

type Targets = HashMap<ExecutorId, Weak<dyn NotifyTarget>>;

static TARGETS: LazyLock<RwLock<Targets>> = LazyLock::new(RwLock::default);

pub(crate) fn register(id: ExecutorId, target: Weak<dyn NotifyTarget>) {
    TARGETS.write().unwrap_or_else(PoisonError::into_inner).insert(id, target);
}

pub(crate) fn unregister(id: ExecutorId) {
    TARGETS.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
}

/// Calls the listeners on the executor with this id: in place if this is its thread and the nesting limit
/// allows, else queued there, else on the global executor.
pub(crate) fn deliver(id: ExecutorId, notify: AnyPromise) {
    if id == ExecutorId::IMMEDIATE {
        immediate::notify(notify);
    } else if current::is_listener_thread(id) {
        let mut notify = Some(notify);
        let call = || {
            if let Some(notify) = notify.take() {
                notify.notify();
            }
        };
        if current::nest_listeners(call).is_ok() {
            return;
        }
        if let Some(notify) = notify.and_then(queue_on_this_loop) {
            global::notify(notify);
        }
    } else if let Err(notify) = queue_elsewhere(id, notify) {
        global::notify(notify);
    }
}

/// Removes a cancelled timer from the wheel of the executor with this id: on its loop in a batch, on
/// another thread by a command. The closure is dropped already, so the loop is not woken for it.
pub(crate) fn clear_timer(id: ExecutorId, position: &WheelPosition, timer: &AnyPromise) {
    if current::is_current(id) {
        current::clear_timer(position);
    } else if let Some(target) = find(id) {
        target.queue_timer_removal(timer.clone());
    }
}

/// Queues the call of a promise's listeners on this thread's loop. Returns the promise if there is no loop, or the
/// loop has made its last pass.
fn queue_on_this_loop(notify: AnyPromise) -> Option<AnyPromise> {
    match current::get() {
        Some(current) => current.local.notify_later(notify).err(),
        None => Some(notify),
    }
}

fn queue_elsewhere(id: ExecutorId, notify: AnyPromise) -> Result<(), AnyPromise> {
    match find(id) {
        Some(target) => target.queue_notify(notify),
        None => Err(notify),
    }
}

fn find(id: ExecutorId) -> Option<Arc<dyn NotifyTarget>> {
    let targets = TARGETS.read().unwrap_or_else(PoisonError::into_inner);
    targets.get(&id).and_then(Weak::upgrade)
}
