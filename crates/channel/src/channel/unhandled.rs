//! Messages, events and errors that reach the end of the pipeline, and failures without a waiting future.
//!
//! A peer can cause most of these over and over. So each kind is reported when its count has doubled (R04);
//! errors of a server are also reported once a second (L16).

use std::rc::Rc;
use std::time::Duration;

use waterwheel_executor::engine::report;
use waterwheel_executor::{Error, Fault};

use crate::channel::core::ChannelCore;
use crate::channel::error::ChannelError;
use crate::pipeline::{Completion, Msg};

/// The time after which errors of a server are reported again: as long as accepting pauses.
const ERROR_REPORT_INTERVAL: Duration = Duration::from_secs(1);

impl ChannelCore {
    /// Reports and drops a message that no handler took.
    pub(crate) fn report_unhandled_message(self: &Rc<Self>, msg: Msg) {
        let Some(msg) = self.transport.borrow_mut().unhandled(msg) else { return };
        if let Some(count) = self.unhandled_messages.record() {
            let (ty, names) = (msg.type_name(), self.handler_names().join(", "));
            self.report(&format!(
                "a message of type {ty} reached the end of the pipeline [{names}], {count} so far"
            ));
        }
        self.drop_catching_panic(msg.type_name(), msg);
    }

    /// Drops a user event that no handler took, which is normal. A panic of its destructor is reported as the
    /// destructor's, not as a handler's.
    pub(crate) fn drop_unhandled_event(self: &Rc<Self>, event: Msg) {
        self.drop_catching_panic(event.type_name(), event);
    }

    /// Reports an error that no handler took.
    pub(crate) fn report_unhandled_error(self: &Rc<Self>, error: Error) {
        let error = self.transport.borrow_mut().unhandled_error(error);
        let Some(error) = error else { return };
        if let Some(count) = self.count_unhandled_error() {
            let names = self.handler_names().join(", ");
            self.report(&format!(
                "an error reached the end of the pipeline [{names}], {count} so far: {error}"
            ));
        }
    }

    /// Counts an error that no handler took. Returns the count if the error should be reported: at a doubled count, so
    /// that no peer fills the log. A server that cannot accept because it is out of file descriptors or memory
    /// (EMFILE, ENOMEM) reports again a second after the last report, so that an operator sees that the fault persists.
    fn count_unhandled_error(&self) -> Option<u32> {
        let now = self.here.now();
        let mut cold = self.cold.get_or_create();
        let (count, has_doubled) = cold.unhandled_errors.record_and_count();
        let is_due = cold.last_error_report.is_none_or(|at| now >= at.plus(ERROR_REPORT_INTERVAL));
        if has_doubled || is_due && self.shared.is_server() {
            cold.last_error_report = Some(now);
            return Some(count);
        }
        None
    }

    /// Reports that a method of a handler failed, if nothing else reports the failure.
    #[cold]
    pub(crate) fn report_handler_failure(&self, what: &str, error: &Error) {
        let count = self.cold.get_or_create().handler_failures.record();
        if let Some(count) = count {
            self.report(&format!("{what} failed, {count} so far: {error}"));
        }
    }

    /// Reports that an operation failed whose future was dropped. Failures because the channel is closed or its
    /// output is shut down are expected, and not reported.
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
