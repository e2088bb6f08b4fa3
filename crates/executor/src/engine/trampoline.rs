//! Runs nested calls one after the other, so that the stack does not grow.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::thread::LocalKey;

use crate::report::guard::guard_drop;

/// The calls queued until the running call returns; `None` while no call runs. Kept in a thread-local, so that
/// nested calls do not grow the stack.
#[derive(Default)]
pub(crate) struct Trampoline(RefCell<Option<Calls>>);

type Calls = VecDeque<Box<dyn FnOnce()>>;

impl Trampoline {
    pub(crate) const fn new() -> Self {
        Self(RefCell::new(None))
    }

    /// True while a call is running.
    pub(crate) fn is_running(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Runs a call now, or after the running calls have returned. Runs it in place on a thread whose locals are
    /// destroyed.
    pub(crate) fn run(key: &'static LocalKey<Self>, call: Box<dyn FnOnce()>) {
        let mut call = Some(call);
        let outermost = key.try_with(|this| this.begin(&mut call)).unwrap_or(false);
        while let Some(now) = call.take() {
            guard_drop(now); // The call catches panics of user code, but its destructors may still panic.
            if outermost {
                call = key.try_with(Self::next).ok().flatten();
            }
        }
    }

    /// Returns true if this call is the outermost. An inner call is queued for the outermost one to run.
    fn begin(&self, call: &mut Option<Box<dyn FnOnce()>>) -> bool {
        let mut waiting = self.0.borrow_mut();
        match &mut *waiting {
            Some(waiting) => waiting.extend(call.take()),
            None => *waiting = Some(VecDeque::new()),
        }
        call.is_some()
    }

    fn next(&self) -> Option<Box<dyn FnOnce()>> {
        let mut waiting = self.0.borrow_mut();
        let next = waiting.as_mut().and_then(VecDeque::pop_front);
        if next.is_none() {
            *waiting = None;
        }
        next
    }
}
