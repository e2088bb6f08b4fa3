//! Closing one direction (C10).
//!
//! ```text
//!   the peer's end, while reads are off ──► PeerFinished; nothing else changes
//!   the peer's end ──► not allowed: closed
//!                  ──► allowed: HalfClosed::Input, reading is over; writing goes on
//!   shutdown_output ─► what was flushed is written ──► the peer reads the end, HalfClosed::Output
//!   both ───────────► closed
//! ```

use std::cell::Cell;
use std::net::Shutdown;
use std::rc::Rc;

use waterwheel_executor::Error;

use crate::channel::core::ChannelCore;
use crate::channel::error::ChannelError;
use crate::channel::lifecycle::step_queue::LifecycleStep;
use crate::pipeline::dispatch::event::UserEvent;
use crate::pipeline::slots::slot_list::HEAD;
use crate::pipeline::{Completion, Message, Msg};

/// One direction of a channel is over; fired as a user event, once for each. When both are, the channel
/// is closed.
///
/// A channel stays open when its peer sends no more only if
/// [`allow_half_closure`](crate::ChannelOptions::allow_half_closure) says so; otherwise that closes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HalfClosed {
    /// Nothing more will be read: the peer has finished, or
    /// [`shutdown_input`](crate::Channel::shutdown_input) was called.
    Input,
    /// Nothing more can be written: everything is sent, and the peer will read the end.
    Output,
}

impl Message for HalfClosed {}

/// The peer will send no more (FIN, EPOLLRDHUP), noticed while the channel does not read; fired as a user
/// event.
///
/// A channel that does not read, because its application has paused it, does not come to the end of what its
/// peer has sent: without this event it would keep a connection that the peer has given up. What the peer has
/// sent before may still be unread. It is read when reads are on again, and then the end takes its usual course:
/// [`HalfClosed::Input`] if [`allow_half_closure`](crate::ChannelOptions::allow_half_closure) says so, otherwise
/// the channel is closed. Whoever does not want the rest closes the channel in `on_user_event`.
///
/// Fired at most once for each registration, and never while the channel reads: then the end itself is told.
/// The event costs nothing until a peer finishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerFinished;

impl Message for PeerFinished {}

/// Which directions are over.
#[derive(Default)]
pub(crate) struct HalfClosureState {
    input_over: Cell<bool>,
    output: Cell<OutputState>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum OutputState {
    #[default]
    Open,
    /// As soon as what was flushed is written.
    Ending,
    Over,
}

impl ChannelCore {
    /// The peer will send no more.
    pub(in crate::channel) fn on_eof(self: &Rc<Self>) {
        if self.options().allow_half_closure {
            self.end_input();
        } else {
            self.close(None, Completion::none());
        }
    }

    /// The peer has finished, and nobody reads.
    pub(in crate::channel) fn on_peer_finished(self: &Rc<Self>) {
        if !self.is_input_over() {
            self.enter(|core| core.send_from(HEAD, UserEvent(Msg::new(PeerFinished))));
        }
    }

    fn end_input(self: &Rc<Self>) {
        if self.half_closure.input_over.replace(true) {
            return;
        }
        self.set_read(false);
        self.queue_step(LifecycleStep::InputOver);
    }

    pub(in crate::channel) fn is_input_over(&self) -> bool {
        self.half_closure.input_over.get()
    }

    pub(in crate::channel) fn is_output_over(&self) -> bool {
        self.half_closure.output.get() != OutputState::Open
    }

    /// True while the output waits for what was flushed before it ends.
    pub(in crate::channel) fn is_output_ending(&self) -> bool {
        self.half_closure.output.get() == OutputState::Ending
    }

    /// Tells the handlers, from the loop. When both directions are over so is the channel.
    pub(in crate::channel) fn half_closed(self: &Rc<Self>, which: HalfClosed) {
        self.enter(|core| core.send_from(HEAD, UserEvent(Msg::new(which))));
        if self.half_closure.input_over.get() && self.half_closure.output.get() == OutputState::Over
        {
            self.close(None, Completion::none());
        }
    }

    /// Nothing more is to be read.
    pub(crate) fn shutdown_input(self: &Rc<Self>, done: Completion) {
        let shut = match self.may_shut_down() {
            Ok(()) if self.is_input_over() => Ok(()),
            Ok(()) => self.with_transport(|transport, up| transport.shutdown(up, Shutdown::Read)),
            Err(error) => Err(error),
        };
        let over = shut.is_ok();
        self.complete_later(done, shut);
        if over {
            self.end_input();
        }
    }

    /// Nothing more is to be written than what was flushed; what was not, fails.
    pub(crate) fn shutdown_output(self: &Rc<Self>, done: Completion) {
        if let Err(error) = self.may_shut_down() {
            return self.complete_later(done, Err(error));
        }
        self.write_out();
        // That may have broken it.
        if let Err(error) = self.may_shut_down() {
            return self.complete_later(done, Err(error));
        }
        let before = self.half_closure.output.get();
        if before == OutputState::Over {
            return self.complete_later(done, Ok(()));
        }
        self.cold.get_or_create().ending.output.push(done);
        if before == OutputState::Open {
            self.half_closure.output.set(OutputState::Ending);
            self.publish_writable();
            self.pause_or_resume_reads();
            self.fail_unflushed(&Error::new(ChannelError::OutputShutDown));
            self.end_output_if_written();
        }
    }

    /// If the output is to end, looks whether everything is written.
    pub(in crate::channel) fn end_output_if_written(self: &Rc<Self>) {
        if !self.is_output_ending() || self.has_unwritten() {
            return;
        }
        self.half_closure.output.set(OutputState::Over);
        let waiting = std::mem::take(&mut self.cold.get_or_create().ending.output);
        let shut = self.with_transport(|transport, up| transport.shutdown(up, Shutdown::Write));
        for done in waiting {
            self.complete_later(done, shut.clone());
        }
        if shut.is_ok() {
            self.queue_step(LifecycleStep::OutputOver);
        } else {
            // It cannot, or is broken: then that is told by itself.
            self.half_closure.output.set(OutputState::Open);
            self.publish_writable();
        }
    }

    /// What was to be written before the output ends never will be: the channel is being closed.
    pub(in crate::channel) fn fail_shutdown(self: &Rc<Self>, error: &Error) {
        if !self.is_output_ending() {
            return;
        }
        self.half_closure.output.set(OutputState::Over);
        let waiting = std::mem::take(&mut self.cold.get_or_create().ending.output);
        for done in waiting {
            self.complete_later(done, Err(error.clone()));
        }
    }

    fn may_shut_down(&self) -> Result<(), Error> {
        if !self.lifecycle.get().is_open() {
            return Err(self.closed_error());
        }
        if !self.is_active() {
            return Err(Error::new(ChannelError::NotConnected));
        }
        Ok(())
    }
}
