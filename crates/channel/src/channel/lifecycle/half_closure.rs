//! Half-close: closing one direction (C10).
//!
//! ```text
//!   FIN while reads are off ──► PeerFinished; nothing else changes
//!   end-of-stream ────────────► half-closure not allowed: closed
//!                         └───► allowed: HalfClosed::Input; reading is over, writing continues
//!   shutdown_output ──────────► flushed messages are written ──► FIN, HalfClosed::Output
//!   both directions over ─────► closed
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

/// Fired as a user event when one direction of a channel is over, once for each direction. When both are over,
/// the channel is closed.
///
/// When the peer has finished sending, a channel stays open only with
/// [`allow_half_closure`](crate::ChannelOptions::allow_half_closure); otherwise it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HalfClosed {
    /// Nothing more will be read: the peer has finished sending, or
    /// [`shutdown_input`](crate::Channel::shutdown_input) was called.
    Input,
    /// Nothing more can be written: everything is sent, and the peer will read end-of-stream.
    Output,
}

impl Message for HalfClosed {}

/// Fired as a user event when the peer has finished sending (FIN, EPOLLRDHUP) while the channel does not read.
///
/// A channel whose reads are paused does not reach the end of the stream: without this event it would keep a
/// connection that the peer has given up. Data that the peer sent before may still be unread. When reads are on
/// again it is read, and then the end-of-stream is handled as usual: with [`HalfClosed::Input`] if
/// [`allow_half_closure`](crate::ChannelOptions::allow_half_closure) is set, by closing the channel otherwise.
/// A handler that does not need the remaining data closes the channel in `on_user_event`.
///
/// Fired at most once per registration, and never while the channel reads, because then end-of-stream is read.
/// The event costs nothing until a peer finishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerFinished;

impl Message for PeerFinished {}

/// The directions of a stream that have ended.
#[derive(Default)]
pub(crate) struct HalfClosureState {
    input_over: Cell<bool>,
    output: Cell<OutputState>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum OutputState {
    #[default]
    Open,
    /// The output ends as soon as the flushed messages are written.
    Ending,
    Over,
}

impl ChannelCore {
    /// Handles end-of-stream.
    pub(in crate::channel) fn on_eof(self: &Rc<Self>) {
        if self.options().allow_half_closure {
            self.end_input();
        } else {
            self.close(None, Completion::none());
        }
    }

    /// Handles that the peer has finished sending while reads are off.
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

    /// True once a shutdown of the output was requested: nothing more may be written.
    pub(in crate::channel) fn is_output_over(&self) -> bool {
        self.half_closure.output.get() != OutputState::Open
    }

    /// True while a shutdown of the output waits for flushed messages.
    pub(in crate::channel) fn is_output_ending(&self) -> bool {
        self.half_closure.output.get() == OutputState::Ending
    }

    /// Fires the `HalfClosed` event, from the loop, and closes the channel if both directions are over.
    pub(in crate::channel) fn announce_half_closed(self: &Rc<Self>, which: HalfClosed) {
        self.enter(|core| core.send_from(HEAD, UserEvent(Msg::new(which))));
        if self.half_closure.input_over.get() && self.half_closure.output.get() == OutputState::Over
        {
            self.close(None, Completion::none());
        }
    }

    /// Shuts down the input.
    pub(crate) fn shutdown_input(self: &Rc<Self>, done: Completion) {
        let shut = match self.check_may_shut_down() {
            Ok(()) if self.is_input_over() => Ok(()),
            Ok(()) => self
                .with_transport(|transport, context| transport.shutdown(context, Shutdown::Read)),
            Err(error) => Err(error),
        };
        let over = shut.is_ok();
        self.complete_later(done, shut);
        if over {
            self.end_input();
        }
    }

    /// Shuts down the output after the flushed messages. Unflushed messages fail.
    pub(crate) fn shutdown_output(self: &Rc<Self>, done: Completion) {
        if let Err(error) = self.check_may_shut_down() {
            return self.complete_later(done, Err(error));
        }
        self.write_out();
        // Writing may have failed and closed the channel.
        if let Err(error) = self.check_may_shut_down() {
            return self.complete_later(done, Err(error));
        }
        let before = self.half_closure.output.get();
        if before == OutputState::Over {
            return self.complete_later(done, Ok(()));
        }
        self.cold.get_or_create().close_waiters.output.push(done);
        if before == OutputState::Open {
            self.half_closure.output.set(OutputState::Ending);
            self.publish_writable();
            self.pause_or_resume_reads();
            self.fail_unflushed(&Error::new(ChannelError::OutputShutDown));
            self.end_output_if_written();
        }
    }

    /// Shuts down the output if that was requested and everything is written.
    pub(in crate::channel) fn end_output_if_written(self: &Rc<Self>) {
        if !self.is_output_ending() || self.has_unwritten() {
            return;
        }
        self.half_closure.output.set(OutputState::Over);
        let waiting = std::mem::take(&mut self.cold.get_or_create().close_waiters.output);
        let shut =
            self.with_transport(|transport, context| transport.shutdown(context, Shutdown::Write));
        for done in waiting {
            self.complete_later(done, shut.clone());
        }
        if shut.is_ok() {
            self.queue_step(LifecycleStep::OutputOver);
        } else {
            // The transport does not support the shutdown, or is broken and reports the error itself.
            self.half_closure.output.set(OutputState::Open);
            self.publish_writable();
        }
    }

    /// Fails a pending shutdown of the output because the channel is being closed.
    pub(in crate::channel) fn fail_shutdown(self: &Rc<Self>, error: &Error) {
        if !self.is_output_ending() {
            return;
        }
        self.half_closure.output.set(OutputState::Over);
        let waiting = std::mem::take(&mut self.cold.get_or_create().close_waiters.output);
        for done in waiting {
            self.complete_later(done, Err(error.clone()));
        }
    }

    /// Returns an error if the channel is closed or not connected: then no direction can be shut down.
    fn check_may_shut_down(&self) -> Result<(), Error> {
        if !self.lifecycle.get().is_open() {
            return Err(self.closed_error());
        }
        if !self.is_active() {
            return Err(Error::new(ChannelError::NotConnected));
        }
        Ok(())
    }
}
