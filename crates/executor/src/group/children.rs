//! The children of a group: fixed, or growing after the group was built.
//!
//! A group grows until it is closed: by its shutdown, by the drop of its last handle, or by
//! [`stop_growing`](crate::EventExecutorGroup::stop_growing). A thread that closes it and then reads the
//! children sees the final list, because a child is added under the same lock.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use crate::engine::shared_half::SharedHalf;
use crate::lifecycle::ExecutorState;

/// The children of a group. No user code runs under their lock.
pub(crate) enum GroupChildren<X: Send + 'static> {
    Fixed(Vec<Arc<SharedHalf<X>>>),
    Growing(RwLock<GrowingChildren<X>>),
}

/// The children of a growing group. No child is ever removed, but a terminated child may be replaced.
pub(crate) struct GrowingChildren<X: Send + 'static> {
    all: Vec<Arc<SharedHalf<X>>>,
    is_closed: bool,
}

impl<X: Send + 'static> GroupChildren<X> {
    pub(crate) fn growing(all: Vec<Arc<SharedHalf<X>>>) -> Self {
        Self::Growing(RwLock::new(GrowingChildren { all, is_closed: false }))
    }

    pub(crate) fn len(&self) -> usize {
        self.with_all(<[_]>::len)
    }

    pub(crate) fn get(&self, at: usize) -> Option<Arc<SharedHalf<X>>> {
        self.with_all(|all| all.get(at).cloned())
    }

    pub(crate) fn to_vec(&self) -> Vec<Arc<SharedHalf<X>>> {
        self.with_all(<[_]>::to_vec)
    }

    /// Calls `f` with all children, under the lock: `f` must not call user code.
    #[inline]
    pub(crate) fn with_all<R>(&self, f: impl FnOnce(&[Arc<SharedHalf<X>>]) -> R) -> R {
        match self {
            Self::Fixed(all) => f(all),
            Self::Growing(growing) => f(&read(growing).all),
        }
    }

    /// Adds a child, unless the group is closed or `enter` returns false. Returns its index.
    pub(crate) fn add(
        &self,
        child: Arc<SharedHalf<X>>,
        enter: impl FnOnce() -> bool,
    ) -> Option<usize> {
        let Self::Growing(growing) = self else { return None };
        let mut growing = growing.write().unwrap_or_else(PoisonError::into_inner);
        if growing.is_closed || !enter() {
            return None;
        }
        let terminated = |it: &Arc<SharedHalf<X>>| it.life.state() == ExecutorState::Terminated;
        match growing.all.iter().position(terminated) {
            Some(at) => {
                growing.all[at] = child;
                Some(at)
            }
            None => {
                growing.all.push(child);
                Some(growing.all.len() - 1)
            }
        }
    }

    /// Closes the group: no more children are added.
    pub(crate) fn close(&self) {
        if let Self::Growing(growing) = self {
            growing.write().unwrap_or_else(PoisonError::into_inner).is_closed = true;
        }
    }
}

fn read<X: Send + 'static>(
    growing: &RwLock<GrowingChildren<X>>,
) -> RwLockReadGuard<'_, GrowingChildren<X>> {
    growing.read().unwrap_or_else(PoisonError::into_inner)
}
