//! Shutdown hooks: user code that runs on the loop while it shuts down (E14).

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::raw::origin::Origin;
use crate::report::UserCode;
use crate::report::guard::guard;

/// Names a hook, for removing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HookId(u64);

impl HookId {
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

pub(crate) struct Hook {
    pub(crate) id: HookId,
    pub(crate) origin: Origin,
    pub(crate) run: Box<dyn FnOnce() + Send>,
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hook({})", self.origin)
    }
}

/// The hooks of one loop in the order of their addition. Touched on the loop only: other threads
/// send commands.
#[derive(Debug, Default)]
pub(crate) struct Hooks {
    waiting: Vec<Hook>,
}

impl Hooks {
    pub(crate) fn add(&mut self, hook: Hook) {
        self.waiting.push(hook);
    }

    /// Takes a hook out, if it has not run. The caller drops it outside of any borrow.
    pub(crate) fn remove(&mut self, id: HookId) -> Option<Hook> {
        let at = self.waiting.iter().position(|hook| hook.id == id)?;
        Some(self.waiting.remove(at))
    }

    /// The first hook, taken out to be run without holding any borrow.
    pub(crate) fn take_first(&mut self) -> Option<Hook> {
        (!self.waiting.is_empty()).then(|| self.waiting.remove(0))
    }
}

impl Hook {
    /// Runs the hook; a panic is reported and skipped.
    pub(crate) fn call(self) {
        let Hook { origin, run, .. } = self;
        guard(UserCode::Hook, origin, run);
    }
}
