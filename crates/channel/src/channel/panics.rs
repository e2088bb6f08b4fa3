//! Panics inside of a channel. A panic of a handler or of the transport closes the channel, with the panic as
//! the cause (rule 11); a panic of a destructor is reported and closes nothing.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use waterwheel_executor::engine::{panic_message, report, run_user_code};
use waterwheel_executor::{Error, ErrorKind, Fault, Origin, UserCode};

use crate::channel::core::{ChannelCore, DeferredWork};
use crate::channel::writing::DropState;
use crate::pipeline::Completion;

impl ChannelCore {
    #[cold]
    pub(super) fn handle_panic_from_loop(self: &Rc<Self>, payload: Box<dyn Any + Send>) {
        let channels = self.here.channels();
        if self.is_entered.replace(false) {
            channels.end_panicked_call(self, std::ptr::null());
            self.close_after_panic(payload);
        } else {
            channels.end_running_deferred();
            self.handle_work_panic(payload);
        }
    }

    /// Closes the channel because of a panic. No other channel is affected.
    #[cold]
    pub(super) fn close_after_panic(self: &Rc<Self>, payload: Box<dyn Any + Send>) {
        let message = panic_message(payload);
        let (name, type_name) = self.take_panicked_handler();
        let origin = Origin::labelled(type_name);
        let told = format!("`{name}` of {:?}: {message}", self.shared.id);
        let cause: Error = ErrorKind::Panicked { origin, message }.into();
        // The cause is set before the close, because writes that the close fails name this cause.
        if self.lifecycle.get().is_open() {
            self.shared.set_close_cause(cause.clone());
        }
        self.discard_poisoned_slots();
        report(Fault::Panicked { what: UserCode::Handler, origin, message: told });
        self.close(Some(cause), Completion::none());
    }

    #[cold]
    pub(super) fn handle_work_panic(self: &Rc<Self>, payload: Box<dyn Any + Send>) {
        self.mark_deferred(DeferredWork::ALL); // Part of the work may not have run.
        match self.drop_state.get() {
            DropState::Idle => self.close_after_panic(payload),
            _ => self.report_drop_panic(payload),
        }
    }

    /// Reports that the destructor of written bytes panicked. The channel stays open.
    #[cold]
    fn report_drop_panic(self: &Rc<Self>, payload: Box<dyn Any + Send>) {
        let _ =
            catch_user_panic::<()>(UserCode::Destructor, "sent bytes", || resume_unwind(payload));
        self.end_dropping();
    }

    pub(crate) fn drop_catching_panic<T>(&self, label: &'static str, value: T) {
        let _ = catch_user_panic(UserCode::Destructor, label, || drop(value));
    }
}

/// Calls `f` and reports a panic. Returns `None` if `f` panicked.
pub(crate) fn catch_user_panic<R>(
    what: UserCode,
    label: &'static str,
    f: impl FnOnce() -> R,
) -> Option<R> {
    let called = catch_unwind(AssertUnwindSafe(f)).or_else(|payload| {
        // The origin is created only after a panic: a label is never freed.
        let origin = Origin::labelled(label);
        run_user_code(what, origin, || resume_unwind(payload))
    });
    called.ok()
}
