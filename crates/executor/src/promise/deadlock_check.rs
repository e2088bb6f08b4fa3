//! The deadlock check: refuses a blocking wait for a promise on the thread that has to complete it, and on a loop
//! that must not block.

use std::rc::Rc;

use super::observers::PromiseSlot;
use crate::engine::current::{self, ExecutorId};
use crate::error::WouldDeadlock;
use crate::executor::immediate;

impl<T: Send + 'static> PromiseSlot<T> {
    /// Checks that the calling thread may block on this promise.
    ///
    /// # Errors
    /// The name of the executor that would wait for itself, or whose loop must not block.
    pub(crate) fn check_may_block(&self) -> Result<(), WouldDeadlock> {
        let executor = self.context.executor;
        if executor == ExecutorId::IMMEDIATE && immediate::is_running_here() {
            return Err(WouldDeadlock { executor: "immediate".to_owned() });
        }
        let completed_by = self.context.observers().completed_by();
        let mut here = current::get().map(Rc::new);
        while let Some(loop_) = here {
            let is_own = loop_.id == executor
                || loop_.is_global && executor == ExecutorId::GLOBAL
                || completed_by
                    .is_some_and(|end| end == loop_.id || Some(end) == loop_.local.group());
            if is_own || loop_.never_block {
                return Err(WouldDeadlock { executor: loop_.name.to_string() });
            }
            here = loop_.outer.clone();
        }
        Ok(())
    }
}
