//! The life of a channel, carried out: binding, closing, leaving (C02, C04).
//!
//! What is announced to the handlers is announced as a step, one after the other, from the loop:
//!
//! ```text
//!   close ──► what was flushed is written ──► writes fail ──► transport closes ──► closed
//!             lingers while writes are under way                                     │ steps
//!             handlers removed ◄── unregistered ◄── inactive ◄── close future ◄──────┘
//!                               ▲ through offloaded handlers too
//! ```

use std::rc::Rc;

use waterwheel_executor::{Error, UserCode};

use crate::channel::core::ChannelCore;
use crate::channel::lifecycle::step_queue::LifecycleStep;
use crate::channel::loop_channels::is_death;
use crate::channel::panics::guarded;
use crate::channel::transport::TransportEvent;
use crate::driver::Detach;
use crate::pipeline::Completion;

/// Who waits for the end.
#[derive(Default)]
pub(crate) struct CloseWaiters {
    waiting: Vec<Completion>,
    /// For that of the output alone.
    pub(in crate::channel) output: Vec<Completion>,
}

/// How far the transport of a channel that is being closed has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TransportCloseState {
    /// The transport was not told to close yet.
    #[default]
    Ahead,
    /// The channel is closed to everybody, but what was flushed before is still being written.
    Lingering,
    /// The transport was told to close.
    Told,
}

impl ChannelCore {
    pub(crate) fn is_active(&self) -> bool {
        self.life.get().is_active()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.life.get().is_open()
    }

    /// Whether the pipeline may still be changed: not once its handlers are being removed.
    pub(crate) fn accepts_edits(&self) -> bool {
        !self.handlers.closed.get()
    }

    pub(crate) fn closed_error(&self) -> Error {
        Error::from(self.shared.closed_error())
    }

    /// Nothing is on its way to or from offloaded handlers any more: they are removed.
    pub(crate) fn remove_handlers_later(self: &Rc<Self>) {
        self.step(LifecycleStep::RemoveHandlers);
    }

    /// Removes the handlers, from the tail to the head, and then lets the loop forget the channel. One that
    /// takes its time, because it runs on another executor, is waited for before those in front of it are
    /// called. A handler that panics when it is removed does not keep the others.
    pub(in crate::channel) fn remove_all_handlers(self: &Rc<Self>) {
        self.handlers.closed.set(true);
        while let Some(last) = self.next_to_remove() {
            self.enter(|core| core.remove_if_present(last));
            if self.next_to_remove() == Some(last) {
                return self.handlers.removal_waits.set(true);
            }
        }
        self.step(LifecycleStep::Gone);
    }

    /// The loop is over: handlers that take their time are not waited for.
    pub(in crate::channel) fn remove_handlers_in_a_hurry(self: &Rc<Self>) {
        self.handlers.hurries.set(true);
        self.step(LifecycleStep::RemoveHandlers);
    }

    pub(in crate::channel) fn tell_closed(self: &Rc<Self>) {
        self.shared.attributes.tell_closed(&self.shared);
        let death = self.shared.cause().filter(is_death);
        if death.is_some() {
            // Made even if nobody has asked for it yet: whoever comes later learns it too.
            drop(self.shared.closed());
        }
        let promise = self.shared.take_closed();
        // From now on nobody joins the list: the close was told.
        let waiting = match self.cold.is_created() {
            true => std::mem::take(&mut self.cold.get_or_create().ending.waiting),
            false => Vec::new(),
        };
        if let Some(promise) = promise {
            promise.complete(death.map_or(Ok(()), Err));
        }
        for done in waiting {
            done.succeed();
        }
    }

    // At the head.

    /// To be disconnected. What cannot be without being closed is closed.
    pub(crate) fn disconnect(self: &Rc<Self>, done: Completion) {
        self.close(None, done);
    }

    /// To be closed: after what was flushed if it is asked for, at once if something is broken.
    pub(crate) fn close(self: &Rc<Self>, cause: Option<Error>, done: Completion) {
        let Some(cause) = cause else { return self.close_after_writes(None, done) };
        let begun = self.begin_close(Some(cause.clone()), done);
        // A close that lingers does so no longer; one that a panic has interrupted goes on.
        if begun || self.transport_end.get() != TransportCloseState::Told {
            self.shared.set_cause(cause);
            self.let_go();
        }
    }

    /// To be closed. What was flushed first goes as far as it does without the peer's help.
    pub(crate) fn close_after_writes(self: &Rc<Self>, cause: Option<Error>, done: Completion) {
        self.write_out();
        let begun = self.begin_close(cause, done);
        if begun && self.can_go_on_writing() {
            self.transport_end.set(TransportCloseState::Lingering);
            self.set_read(false);
        } else if begun {
            self.let_go();
        }
    }

    /// Nobody may use it any more. `false`: it was so before.
    fn begin_close(self: &Rc<Self>, cause: Option<Error>, done: Completion) -> bool {
        let mut life = self.life.get();
        let begun = life.begin_close();
        self.life.set(life);
        if !begun {
            self.join_close(done);
            return false;
        }
        if let Some(cause) = cause {
            self.shared.set_cause(cause);
        }
        self.wait_for_close(done);
        self.shared.set_closed();
        self.stop_connecting();
        true
    }

    /// What is not written by now never will be, and the transport closes.
    fn let_go(self: &Rc<Self>) {
        self.transport_end.set(TransportCloseState::Ahead);
        self.fail_what_is_left();
        // A destructor of what was left may have come here before.
        if self.transport_end.replace(TransportCloseState::Told) == TransportCloseState::Told {
            return;
        }
        // One that panics is of no more use: it is dropped with the channel, and that closes it too.
        let name = self.transport.borrow().name();
        let close = || self.move_transport(|transport, up| transport.close(up));
        let detached = guarded(UserCode::Callback, name, close);
        if detached != Some(Detach::Pending) {
            self.transport_closed();
        }
    }

    fn fail_what_is_left(self: &Rc<Self>) {
        if !self.has_writes_to_fail() && !self.is_output_ending() {
            return;
        }
        let error = self.closed_error();
        self.fail_writes(&error);
        self.fail_shutdown(&error);
    }

    /// It is being closed, or has been: told along with the others, or after them.
    fn join_close(self: &Rc<Self>, done: Completion) {
        if self.shared.is_close_told() {
            self.complete_later(done, Ok(()));
        } else {
            self.wait_for_close(done);
        }
    }

    fn wait_for_close(&self, done: Completion) {
        if !done.is_none() {
            self.cold.get_or_create().ending.waiting.push(done);
        }
    }

    /// Something happened below, while it is being closed.
    pub(in crate::channel) fn on_event_while_closing(self: &Rc<Self>, event: TransportEvent) {
        match event {
            _ if !self.is_lingering() => return,
            TransportEvent::Wrote(n) => {
                self.on_wrote(n);
                self.linger();
            }
            TransportEvent::Failed(error) => self.close(Some(error), Completion::none()),
            _ => return,
        }
        self.here.channels().settle_if_outermost();
    }

    /// The rest of a long write, in its turn.
    pub(crate) fn go_on_writing(self: &Rc<Self>) {
        self.write_out();
        self.linger();
    }

    /// If it lingers, looks whether that has an end.
    fn linger(self: &Rc<Self>) {
        if self.is_lingering() && !self.can_go_on_writing() {
            self.let_go();
        }
    }

    pub(in crate::channel) fn is_lingering(&self) -> bool {
        self.transport_end.get() == TransportCloseState::Lingering
    }

    /// The transport has let go.
    pub(in crate::channel) fn transport_closed(self: &Rc<Self>) {
        let mut life = self.life.get();
        let ended = life.closed();
        self.life.set(life);
        let Some(ended) = ended else { return };
        if self.transport_end.replace(TransportCloseState::Told) != TransportCloseState::Told {
            self.fail_what_is_left();
        }
        self.shared.set_registered(false);
        if let Some(server) = &self.shared.parent {
            server.shared().child_closed();
        }
        self.step(LifecycleStep::Closed);
        if ended.inactive {
            self.step(LifecycleStep::Inactive);
        }
        if ended.unregistered {
            self.step(LifecycleStep::Unregistered);
        }
        self.step(LifecycleStep::LastMail);
        self.here.channels().settle_if_outermost();
    }
}
