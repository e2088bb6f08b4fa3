//! Running calls one after the other that would otherwise run one inside the other.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::current;
use crate::error::absorb;
use crate::raw::origin::Origin;
use crate::report::{Fault, UserCode};

/// Calls that wait for the running one to return; `None` when none is running. Kept in a
/// thread-local: however deep calls ask for calls, the stack does not grow.
#[derive(Default)]
pub(crate) struct Trampoline(RefCell<Option<Calls>>);

type Calls = VecDeque<Box<dyn FnOnce()>>;

impl Trampoline {
    pub(crate) const fn new() -> Self {
        Self(RefCell::new(None))
    }

    /// Whether a call is running.
    pub(crate) fn is_running(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Runs a call: now, or when the running ones have returned. A panic is reported.
    pub(crate) fn run(&self, call: Box<dyn FnOnce()>) {
        if let Some(waiting) = &mut *self.0.borrow_mut() {
            return waiting.push_back(call);
        }
        *self.0.borrow_mut() = Some(VecDeque::new());
        let mut next = Some(call);
        while let Some(call) = next {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(call)) {
                let (what, origin) = (UserCode::Task, Origin::labelled("destructor"));
                current::report(Fault::Panicked { what, origin, message: absorb(payload) });
            }
            next = self.next();
        }
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
