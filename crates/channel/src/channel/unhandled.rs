//! The end of the pipeline: what has passed all handlers, and was for none of them. What fails and nobody waits
//! for is reported here too.
//!
//! A peer can cause most of this over and over, so each kind is reported when its number has doubled (R04); the errors of
//! a server also once a second (L16).

use std::rc::Rc;
use std::time::Duration;

use waterwheel_executor::engine::report;
use waterwheel_executor::{Error, Fault};

use crate::channel::core::ChannelCore;
use crate::channel::error::ChannelError;
use crate::pipeline::{Completion, Msg};

/// Errors of a server are reported again after this time: as long as a pause of accepting.
const ERROR_REPORT_INTERVAL: Duration = Duration::from_secs(1);

impl ChannelCore {
    /// A message has passed all handlers.
    pub(crate) fn report_unhandled_message(self: &Rc<Self>, msg: Msg) {
        let Some(msg) = self.transport.borrow_mut().unhandled(msg) else { return };
        if let Some(count) = self.unhandled_messages.once_more() {
            let (ty, names) = (msg.type_name(), self.handler_names().join(", "));
            self.report(&format!(
                "a message of type {ty} reached the end of the pipeline [{names}], {count} so far"
            ));
        }
        self.drop_catching_panic(msg.type_name(), msg);
    }

    /// An event of the user's own has passed all handlers, which is nothing out of the ordinary. Its
    /// destructor is no handler's.
    pub(crate) fn drop_unhandled_event(self: &Rc<Self>, event: Msg) {
        self.drop_catching_panic(event.type_name(), event);
    }

    /// An error has passed all handlers.
    pub(crate) fn unhandled_error(self: &Rc<Self>, error: Error) {
        let error = self.transport.borrow_mut().unhandled_error(error);
        let Some(error) = error else { return };
        if let Some(count) = self.count_unhandled_error() {
            let names = self.handler_names().join(", ");
            self.report(&format!(
                "an error reached the end of the pipeline [{names}], {count} so far: {error}"
            ));
        }
    }

    /// Counts an error that has passed all handlers. Returns how many there were if it is to be reported: when
    /// their number has doubled, so that no peer fills the log. Of a server, which fails to accept for want of
    /// descriptors or memory (EMFILE, ENOMEM), also a second after the last report: an operator is to know that it
    /// goes on.
    fn count_unhandled_error(&self) -> Option<u32> {
        let now = self.here.now();
        let mut cold = self.cold.get_or_create();
        let (count, has_doubled) = cold.unhandled_errors.count();
        let is_due = cold.error_reported.is_none_or(|at| now >= at.plus(ERROR_REPORT_INTERVAL));
        if has_doubled || is_due && self.shared.is_server() {
            cold.error_reported = Some(now);
            return Some(count);
        }
        None
    }

    /// A method of a handler has failed, and nobody else is told.
    #[cold]
    pub(crate) fn report_handler_failure(&self, what: &str, error: &Error) {
        let count = self.cold.get_or_create().handler_failures.once_more();
        if let Some(count) = count {
            self.report(&format!("{what} failed, {count} so far: {error}"));
        }
    }

    /// An operation has failed. Reported if its future was dropped, so that nobody waits for it; that a channel
    /// is closed, or its output, is no news.
    #[cold]
    pub(super) fn report_operation_failure(&self, done: &Completion, error: &Error) {
        let expected = |error: &ChannelError| {
            matches!(error, ChannelError::Closed { .. } | ChannelError::OutputShutDown)
        };
        if done.is_detached() && !error.find().is_some_and(expected) {
            self.shared.report_unobserved_failure(error);
        }
    }

    pub(crate) fn report(&self, what: &str) {
        report(Fault::Unhandled(format!("{:?}: {what}", self.shared.id)));
    }
}
