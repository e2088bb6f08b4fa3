//! The end of the pipeline: what has passed all handlers, and was for none of them.

use std::fmt;
use std::rc::Rc;

use waterwheel_executor::engine::report;
use waterwheel_executor::{Error, Fault};

use super::core::ChannelCore;
use crate::pipeline::Msg;

impl ChannelCore {
    /// A message has passed all handlers.
    pub(crate) fn unhandled_message(self: &Rc<Self>, msg: Msg) {
        let Some(msg) = self.transport.borrow_mut().unhandled(msg) else { return };
        if let Some(count) = self.unhandled.once_more() {
            let names = self.handler_names().join(", ");
            self.report_unhandled(&format_args!(
                "a message of type {} reached the end of the pipeline [{names}], {count} so far",
                msg.type_name()
            ));
        }
        self.drop_guarded(msg.type_name(), msg);
    }

    /// An event of the user's own has passed all handlers, which is nothing out of the ordinary. Its
    /// destructor is no handler's.
    pub(crate) fn unhandled_event(self: &Rc<Self>, event: Msg) {
        self.drop_guarded(event.type_name(), event);
    }

    /// An error has passed all handlers.
    pub(crate) fn unhandled_error(self: &Rc<Self>, error: Error) {
        let error = self.transport.borrow_mut().unhandled_error(error);
        if let Some(error) = error {
            let names = self.handler_names().join(", ");
            self.report_unhandled(&format_args!(
                "an error reached the end of the pipeline [{names}]: {error}"
            ));
        }
    }

    pub(crate) fn report_unhandled(&self, what: &dyn fmt::Display) {
        report(Fault::Unhandled(format!("{:?}: {what}", self.shared.id)));
    }
}
