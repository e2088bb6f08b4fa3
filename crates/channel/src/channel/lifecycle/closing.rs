//! Closing a channel (C02, C04).
//!
//! Each announcement to the handlers is a step; steps run one after the other, from the loop:
//!
//! ```text
//!   close ──► flushed writes ──► other writes fail ──► transport closes ──► closed
//!             lingers while writes are pending                             │ steps
//!   handlers removed ◄── unregistered ◄── inactive ◄── close future ◄──────┘
//!                     ▲ through offloaded handlers too
//! ```

use std::rc::Rc;

use waterwheel_executor::{Error, UserCode};

use crate::channel::core::ChannelCore;
use crate::channel::lifecycle::step_queue::LifecycleStep;
use crate::channel::loop_channels::is_loop_death;
use crate::channel::panics::catch_user_panic;
use crate::channel::transport::TransportEvent;
use crate::driver::Detach;
use crate::pipeline::Completion;

/// Completions that wait for the close.
#[derive(Default)]
pub(crate) struct CloseWaiters {
    waiting: Vec<Completion>,
    /// Completions that wait for the output to be shut down.
    pub(in crate::channel) output: Vec<Completion>,
}

/// The progress of closing the transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TransportCloseState {
    /// The transport was not told to close yet.
    #[default]
    NotRequested,
    /// The channel is closed for its users, but flushed messages are still being written.
    Lingering,
    /// The transport was told to close.
    Requested,
}

impl ChannelCore {
    pub(crate) fn is_active(&self) -> bool {
        self.lifecycle.get().is_active()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.lifecycle.get().is_open()
    }

    /// True until the handlers are being removed: the pipeline may be changed.
    pub(crate) fn can_be_edited(&self) -> bool {
        !self.pipeline.is_closed.get()
    }

    pub(crate) fn closed_error(&self) -> Error {
        Error::from(self.shared.closed_error())
    }

    /// Queues the removal of the handlers, once nothing is on its way to or from offloaded handlers.
    pub(crate) fn remove_handlers_later(self: &Rc<Self>) {
        self.queue_step(LifecycleStep::RemoveHandlers);
    }

    /// Removes the handlers, from the tail to the head, then the channel from the loop. A handler that runs on
    /// another executor is waited for before the handlers in front of it are removed. A handler that panics
    /// while it is removed does not keep the others.
    pub(in crate::channel) fn remove_all_handlers(self: &Rc<Self>) {
        self.pipeline.is_closed.set(true);
        while let Some(last) = self.next_to_remove() {
            self.enter(|core| core.remove_handler_if_present(last));
            if self.next_to_remove() == Some(last) {
                return self.pipeline.is_removal_waiting.set(true);
            }
        }
        self.queue_step(LifecycleStep::Gone);
    }

    /// Removes the handlers without waiting for offloaded ones: the loop has ended.
    pub(in crate::channel) fn remove_handlers_without_waiting(self: &Rc<Self>) {
        self.pipeline.skips_lingering.set(true);
        self.queue_step(LifecycleStep::RemoveHandlers);
    }

    pub(in crate::channel) fn notify_closed(self: &Rc<Self>) {
        self.shared.attributes.notify_closed(&self.shared);
        let death = self.shared.close_cause().filter(is_loop_death);
        if death.is_some() {
            // The close future is created even if it was not requested: one that is requested later fails too.
            drop(self.shared.close_future());
        }
        let promise = self.shared.take_close_promise();
        // No completion is added from now on: the close is notified.
        let waiting = match self.cold.is_created() {
            true => std::mem::take(&mut self.cold.get_or_create().close_waiters.waiting),
            false => Vec::new(),
        };
        if let Some(promise) = promise {
            promise.complete(death.map_or(Ok(()), Err));
        }
        for done in waiting {
            done.succeed();
        }
    }

    // Operations that have reached the head of the pipeline.

    /// Disconnects the channel, which closes it.
    pub(crate) fn disconnect(self: &Rc<Self>, done: Completion) {
        self.close(None, done);
    }

    /// Closes the channel: after its flushed messages if the close was requested, at once if there is a cause.
    pub(crate) fn close(self: &Rc<Self>, cause: Option<Error>, done: Completion) {
        let Some(cause) = cause else { return self.close_after_writes(None, done) };
        let begun = self.begin_close(Some(cause.clone()), done);
        // A lingering close ends now; a close that a panic has interrupted continues.
        if begun || self.transport_close.get() != TransportCloseState::Requested {
            self.shared.set_close_cause(cause);
            self.close_transport();
        }
    }

    /// Keeps the cause for a close that is about to be requested.
    pub(crate) fn give_close_cause(&self, cause: Error) {
        if self.is_open() {
            self.shared.set_close_cause(cause);
        }
    }

    /// Returns the cause of the close, also of one that was only requested.
    pub(crate) fn given_close_cause(&self) -> Option<Error> {
        self.shared.close_cause()
    }

    /// Closes the channel after its flushed messages, as far as they can be written without the peer reading.
    pub(crate) fn close_after_writes(self: &Rc<Self>, cause: Option<Error>, done: Completion) {
        self.write_out();
        let begun = self.begin_close(cause, done);
        if begun && self.can_continue_writing() {
            self.transport_close.set(TransportCloseState::Lingering);
            self.set_read(false);
        } else if begun {
            self.close_transport();
        }
    }

    /// Begins the close: from now on the channel counts as closed for its users. Returns false if the close had
    /// already begun; `done` then receives the result of that close.
    fn begin_close(self: &Rc<Self>, cause: Option<Error>, done: Completion) -> bool {
        let mut life = self.lifecycle.get();
        let begun = life.begin_close();
        self.lifecycle.set(life);
        if !begun {
            self.join_close(done);
            return false;
        }
        if let Some(cause) = cause {
            self.shared.set_close_cause(cause);
        }
        self.add_close_waiter(done);
        self.shared.set_closed();
        self.stop_connecting();
        true
    }

    /// Fails all unwritten messages, and closes the transport.
    fn close_transport(self: &Rc<Self>) {
        self.transport_close.set(TransportCloseState::NotRequested);
        self.fail_unwritten();
        // A destructor of a failed message may have called this before.
        if self.transport_close.replace(TransportCloseState::Requested)
            == TransportCloseState::Requested
        {
            return;
        }
        // A transport that panics is not used again. It is dropped with the channel, which closes it too.
        let name = self.transport.borrow().name();
        let close = || self.with_socket_change(|transport, context| transport.close(context));
        let detached = catch_user_panic(UserCode::Callback, name, close);
        if detached != Some(Detach::Pending) {
            self.on_transport_closed();
        }
    }

    fn fail_unwritten(self: &Rc<Self>) {
        if !self.has_writes_to_fail() && !self.is_output_ending() {
            return;
        }
        let error = self.closed_error();
        self.fail_writes(&error);
        self.fail_shutdown(&error);
    }

    /// Completes `done` with the close, or soon if the close was already notified.
    fn join_close(self: &Rc<Self>, done: Completion) {
        if self.shared.is_close_notified() {
            self.complete_later(done, Ok(()));
        } else {
            self.add_close_waiter(done);
        }
    }

    fn add_close_waiter(&self, done: Completion) {
        if !done.is_none() {
            self.cold.get_or_create().close_waiters.waiting.push(done);
        }
    }

    /// Handles an event of the transport while the channel is being closed.
    pub(in crate::channel) fn on_event_while_closing(self: &Rc<Self>, event: TransportEvent) {
        match event {
            _ if !self.is_lingering() => return,
            TransportEvent::Wrote(n) => {
                self.on_wrote(n);
                self.finish_lingering();
            }
            TransportEvent::Failed(error) => self.close(Some(error), Completion::none()),
            _ => return,
        }
        self.here.channels().run_deferred_if_outermost();
    }

    /// Continues a long flush.
    pub(crate) fn continue_writing(self: &Rc<Self>) {
        self.write_out();
        self.finish_lingering();
    }

    /// Ends a lingering close if nothing more can be written.
    fn finish_lingering(self: &Rc<Self>) {
        if self.is_lingering() && !self.can_continue_writing() {
            self.close_transport();
        }
    }

    pub(in crate::channel) fn is_lingering(&self) -> bool {
        self.transport_close.get() == TransportCloseState::Lingering
    }

    /// Finishes the close after the transport has closed.
    pub(in crate::channel) fn on_transport_closed(self: &Rc<Self>) {
        let mut life = self.lifecycle.get();
        let ended = life.set_closed();
        self.lifecycle.set(life);
        let Some(ended) = ended else { return };
        if self.transport_close.replace(TransportCloseState::Requested)
            != TransportCloseState::Requested
        {
            self.fail_unwritten();
        }
        self.shared.set_registered(false);
        if let Some(server) = &self.shared.parent {
            server.shared().on_child_closed();
        }
        self.queue_step(LifecycleStep::Closed);
        if ended.inactive {
            self.queue_step(LifecycleStep::Inactive);
        }
        if ended.unregistered {
            self.queue_step(LifecycleStep::Unregistered);
        }
        self.queue_step(LifecycleStep::OffloadMarker);
        self.here.channels().run_deferred_if_outermost();
    }
}
