//! Shutdown hooks: user code that runs on the loop while it shuts down (E14).

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::raw::origin::Origin;
use crate::report::UserCode;
use crate::report::guard::guard;

/// Identifies a shutdown hook, so that it can be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HookId(u64);

impl HookId {
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

pub(crate) struct ShutdownHook {
    pub(crate) id: HookId,
    pub(crate) origin: Origin,
    pub(crate) run: Box<dyn FnOnce() + Send>,
}

impl fmt::Debug for ShutdownHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hook({})", self.origin)
    }
}

/// The hooks of one loop in the order in which they were added. Used on the loop only: other threads send
/// commands.
#[derive(Debug, Default)]
pub(crate) struct ShutdownHooks {
    waiting: Vec<ShutdownHook>,
}

impl ShutdownHooks {
    pub(crate) fn add(&mut self, hook: ShutdownHook) {
        self.waiting.push(hook);
    }

    /// Takes out a hook that has not run. The caller drops it outside of any borrow.
    pub(crate) fn remove(&mut self, id: HookId) -> Option<ShutdownHook> {
        let at = self.waiting.iter().position(|hook| hook.id == id)?;
        Some(self.waiting.remove(at))
    }

    /// Takes out the first hook, to be run outside of any borrow.
    pub(crate) fn take_first(&mut self) -> Option<ShutdownHook> {
        (!self.waiting.is_empty()).then(|| self.waiting.remove(0))
    }
}

impl ShutdownHook {
    /// Runs the hook. A panic is reported.
    pub(crate) fn call(self) {
        let ShutdownHook { origin, run, .. } = self;
        guard(UserCode::Hook, origin, run);
    }
}
