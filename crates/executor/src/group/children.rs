//! The children of a group: those it was built with, or more as time goes by.
//!
//! A group that grows does so until it is closed: by its shutdown, by the end of its last handle, or because
//! it was told to stop. Whoever closes it and then looks at the children sees all that there will ever be: a
//! child enters under the same lock.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use crate::engine::shared_half::Shared;
use crate::lifecycle::State;

/// The children of a group. Nobody else's code runs while they are locked.
pub(crate) enum Children<X: Send + 'static> {
    Fixed(Vec<Arc<Shared<X>>>),
    Growing(RwLock<Growing<X>>),
}

/// Children that may become more. None ever leaves, but one that has terminated may be replaced.
pub(crate) struct Growing<X: Send + 'static> {
    all: Vec<Arc<Shared<X>>>,
    is_closed: bool,
}

impl<X: Send + 'static> Children<X> {
    pub(crate) fn growing(all: Vec<Arc<Shared<X>>>) -> Self {
        Self::Growing(RwLock::new(Growing { all, is_closed: false }))
    }

    pub(crate) fn len(&self) -> usize {
        self.look(<[_]>::len)
    }

    pub(crate) fn get(&self, at: usize) -> Option<Arc<Shared<X>>> {
        self.look(|all| all.get(at).cloned())
    }

    pub(crate) fn to_vec(&self) -> Vec<Arc<Shared<X>>> {
        self.look(<[_]>::to_vec)
    }

    /// Looks at all of them, without calling anybody.
    #[inline]
    pub(crate) fn look<R>(&self, f: impl FnOnce(&[Arc<Shared<X>>]) -> R) -> R {
        match self {
            Self::Fixed(all) => f(all),
            Self::Growing(growing) => f(&read(growing).all),
        }
    }

    /// One more, unless it is closed or `enter` refuses; where it is then.
    pub(crate) fn add(&self, child: Arc<Shared<X>>, enter: impl FnOnce() -> bool) -> Option<usize> {
        let Self::Growing(growing) = self else { return None };
        let mut growing = growing.write().unwrap_or_else(PoisonError::into_inner);
        if growing.is_closed || !enter() {
            return None;
        }
        let terminated = |it: &Arc<Shared<X>>| it.life.state() == State::Terminated;
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

    /// There will be no more.
    pub(crate) fn close(&self) {
        if let Self::Growing(growing) = self {
            growing.write().unwrap_or_else(PoisonError::into_inner).is_closed = true;
        }
    }
}

fn read<X: Send + 'static>(growing: &RwLock<Growing<X>>) -> RwLockReadGuard<'_, Growing<X>> {
    growing.read().unwrap_or_else(PoisonError::into_inner)
}
