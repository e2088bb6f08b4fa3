//! Finding an executor by its id, to tell a promise's listeners on it (P03).
//!
//! A promise knows its executor by id alone. When it has to be told about something from another
//! thread, the id is looked up here; an executor that has terminated is no longer listed, and the
//! global executor takes its place. Completing a promise without listeners never comes here, nor
//! does completing one on its own loop.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock, Weak};

use crate::engine::current::{self, ExecutorId};
use crate::executor::{global, immediate};
use crate::promise::AnyPromise;
use crate::timer::entry::Place;

/// An executor as the registry sees it.
pub(crate) trait NotifyTarget: Send + Sync {
    /// Queues the call, past any bound; gives it back if the executor accepts nothing any more.
    fn queue_notify(self: Arc<Self>, notify: AnyPromise) -> Result<(), AnyPromise>;

    /// Queues the clearing of a cancelled timer's place, without waking the loop.
    fn queue_clear(&self, timer: AnyPromise);
}

type Targets = HashMap<ExecutorId, Weak<dyn NotifyTarget>>;

static TARGETS: LazyLock<RwLock<Targets>> = LazyLock::new(RwLock::default);

pub(crate) fn register(id: ExecutorId, target: Weak<dyn NotifyTarget>) {
    TARGETS.write().unwrap_or_else(PoisonError::into_inner).insert(id, target);
}

pub(crate) fn unregister(id: ExecutorId) {
    TARGETS.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
}

/// Calls `notify` on the executor with this id: in place if this is its thread and the nesting
/// allows, else queued there, else on the global executor.
pub(crate) fn deliver(id: ExecutorId, notify: AnyPromise) {
    if id == ExecutorId::IMMEDIATE {
        immediate::notify(notify);
    } else if current::runs_here(id) {
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

/// Clears a cancelled timer's place in the wheel of the executor with this id: on its loop together with others,
/// elsewhere by a command. Its closure is gone already, so nobody is woken for it.
pub(crate) fn clear_timer(id: ExecutorId, place: &Place, timer: &AnyPromise) {
    if current::is(id) {
        current::clear_timer(place);
    } else if let Some(target) = find(id) {
        target.queue_clear(timer.clone());
    }
}

/// `Some`: this loop has run its last task, the call comes back.
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
