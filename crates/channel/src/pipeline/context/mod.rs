//! `Ctx`: how a handler acts on its pipeline and its channel while it runs.

pub(crate) mod local_context;
mod operations;
pub(crate) mod timers;

use std::rc::Rc;
use std::time::Duration;

use waterwheel_executor::{Error, Nanos};

use self::local_context::LocalCtx;
use self::timers::TimerId;
use super::completion::Completion;
use super::dispatch::event::{
    Active, Event, Failure, Inactive, Read, ReadComplete, Registered, Unregistered, UserEvent,
    WritabilityChanged,
};
use super::event_set::Events;
use super::handle::Pipeline;
use super::handler::{Handler, HandlerResult};
use super::message::Msg;
use super::slots::slot::{EventOnReturn, SlotState};
use super::slots::slot_list::SlotId;
use crate::address::Address;
use crate::channel::core::ChannelCore;
use crate::channel::error::ChannelError;
use crate::channel::handle::Channel;
use crate::channel::lifecycle::hold::Hold;
use crate::channel::writing::writability::{HeldBytes, Unwritable};
use crate::event_loop::local_loop::LocalLoop;
use crate::payload::Credentials;

/// A handler's position in its pipeline, for the duration of one call.
///
/// `fire_…` sends an inbound event from here to the handlers after this one, toward the tail. The
/// plain verbs (`write`, `flush`, `close`, …) send an outbound event to the handlers before this one,
/// toward the transport. Both are plain calls: they return when those handlers have returned, or at once
/// if the event has to be queued because the next handler is running (rule 2 of `docs/PIPELINE.md`).
///
/// A `Ctx` cannot be kept beyond the call; [`to_local`](Self::to_local) returns a context that can.
#[derive(Clone, Copy)]
pub struct Ctx<'a> {
    core: &'a Rc<ChannelCore>,
    /// The index of the handler's slot.
    at: u32,
}

impl<'a> Ctx<'a> {
    #[inline(always)]
    pub(crate) fn new(core: &'a Rc<ChannelCore>, at: u32) -> Self {
        Self { core, at }
    }

    pub(crate) fn core(&self) -> &'a Rc<ChannelCore> {
        self.core
    }

    pub(crate) fn at(&self) -> u32 {
        self.at
    }

    /// Sends an event from this handler's slot.
    #[inline(always)]
    fn send(&self, event: impl Event) {
        self.core.send_from(self.at, event);
    }

    /// Sends an event through one shared copy of the dispatch code, for events that are too rare to inline it into
    /// every handler.
    #[inline(never)]
    pub(super) fn send_outlined(&self, event: impl Event) {
        self.core.send_from(self.at, event);
    }

    // Inbound events, for the handlers after this one.

    /// Forwards that the channel was registered.
    pub fn fire_registered(&self) {
        self.send_outlined(Registered);
    }

    /// Forwards that the channel was deregistered from its loop, or closed.
    pub fn fire_unregistered(&self) {
        self.send_outlined(Unregistered);
    }

    /// Forwards that the channel became active.
    pub fn fire_active(&self) {
        self.send_outlined(Active);
    }

    /// Forwards that the channel became inactive.
    pub fn fire_inactive(&self) {
        self.send_outlined(Inactive);
    }

    /// Passes a message to the `on_read` of the next handler.
    #[inline]
    pub fn fire_read(&self, msg: impl Into<Msg>) {
        self.send(Read(msg.into()));
    }

    /// Forwards the end of a round of reads.
    #[inline]
    pub fn fire_read_complete(&self) {
        self.send(ReadComplete);
    }

    /// Passes a message to the `on_read` of the next handler when this call has returned.
    ///
    /// For a handler that also handles writes, such as a codec: an answer that is written in that `on_read` reaches
    /// this handler directly, where an answer to [`fire_read`](Self::fire_read) would be queued until this call
    /// returns (rule 2 of `docs/PIPELINE.md`). The message should be the last event that the call fires: later ones
    /// would overtake it. Of several messages, all but the last are passed on at once, in order.
    pub fn fire_read_on_return(&self, msg: impl Into<Msg>) {
        self.core.set_on_return(self.at, EventOnReturn::Read(msg.into()));
    }

    /// Forwards the end of a round of reads when this call has returned: see
    /// [`fire_read_on_return`](Self::fire_read_on_return).
    pub fn fire_read_complete_on_return(&self) {
        self.core.set_on_return(self.at, EventOnReturn::ReadComplete);
    }

    /// Fires a user event: a message of any type for the `on_user_event` of the next handler.
    pub fn fire_user_event(&self, event: impl Into<Msg>) {
        self.send_outlined(UserEvent(event.into()));
    }

    /// Forwards that the channel became writable or stopped being writable.
    pub fn fire_writability_changed(&self) {
        self.send_outlined(WritabilityChanged);
    }

    /// Passes an error to the `on_error` of the next handler.
    pub fn fire_error(&self, error: Error) {
        self.send_outlined(Failure(error));
    }

    // State of the channel and of this handler.

    /// True while the channel is writable: it is open, its output is not shut down, and its pending bytes
    /// have not exceeded the high-water mark, or have fallen below the low-water mark since.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.core.is_writable()
    }

    /// Returns how many bytes were written that the transport has not taken, with those that handlers hold.
    #[inline]
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.core.total_pending()
    }

    /// Returns how many bytes may be written before the channel becomes unwritable; zero if it is
    /// unwritable.
    #[must_use]
    pub fn bytes_before_unwritable(&self) -> usize {
        self.core.bytes_before_unwritable()
    }

    /// Returns how many bytes must be sent before the channel becomes writable again; zero if it is
    /// writable.
    #[must_use]
    pub fn bytes_before_writable(&self) -> usize {
        self.core.bytes_before_writable()
    }

    /// Returns how many bytes may be written before a write is refused with
    /// [`BufferFull`](crate::ChannelError::BufferFull). A handler that writes a frame in several parts
    /// checks this first: otherwise one part could be accepted and the next one refused.
    #[must_use]
    pub fn bytes_before_refusal(&self) -> usize {
        self.core.bytes_before_refusal()
    }

    /// Returns the error for a message of this size that the handler wants to hold back: the channel is closed, its
    /// output is shut down, or the message exceeds the hard cap. `None` if it may be held.
    ///
    /// A handler with a queue of its own checks this first: a channel whose output is shut down is never writable
    /// again. [`PendingWriteQueue`](crate::PendingWriteQueue) does it by itself.
    #[must_use]
    pub fn held_write_error(&self, size: usize) -> Option<ChannelError> {
        self.core.held_write_error(size)
    }

    /// Declares the channel unwritable, for a reason of this handler, until the returned value is dropped. Any
    /// number of such declarations may exist at once.
    pub fn declare_unwritable(&self) -> Unwritable {
        Unwritable::new(self.core)
    }

    /// Counts bytes that this handler holds back as pending bytes of the channel, until the returned value is
    /// dropped. For whole messages, see [`PendingWriteQueue`](crate::PendingWriteQueue).
    #[must_use]
    pub fn count_held_bytes(&self, bytes: usize) -> HeldBytes {
        HeldBytes::new(self.core, bytes)
    }

    /// True while the channel is active: connected, or bound.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.core.is_active()
    }

    /// True if the channel reads by itself; false if it reads only on [`read`](Self::read).
    #[must_use]
    pub fn is_auto_read(&self) -> bool {
        self.core.is_auto_read()
    }

    /// True from the first message of a round of reads until its [`fire_read_complete`](Self::fire_read_complete): a
    /// handler that flushes in `on_read_complete` has to flush by itself otherwise.
    #[inline]
    #[must_use]
    pub fn is_in_read_round(&self) -> bool {
        self.core.is_in_read_round()
    }

    /// Returns since when the channel's transport has been reading without a pause; `None` while it does not read:
    /// no round is requested, the channel is not active or not registered, the input is over, or reads are paused
    /// because the channel is not writable. The time is recorded from the first call of this method on; the first
    /// call counts as the beginning if the transport is reading already.
    #[must_use]
    pub fn reading_since(&self) -> Option<Nanos> {
        self.core.reading_since()
    }

    /// True if this handler was removed during the current call, by itself or by a handler it called. It
    /// receives no further events, and should pass on the data it still holds.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        let slots = self.core.pipeline.slots.borrow();
        matches!(slots.at(self.at).state, SlotState::Removed | SlotState::Leaving)
    }

    /// Returns how many handlers were removed from this pipeline so far. While the number is unchanged,
    /// this handler was not removed.
    #[inline]
    pub(crate) fn removals(&self) -> u32 {
        self.core.pipeline.removals.get()
    }

    /// Returns the slot of this handler.
    #[must_use]
    pub fn slot(&self) -> SlotId {
        self.core.pipeline.slots.borrow().id(self.at)
    }

    /// Returns the name of this handler.
    #[must_use]
    pub fn name(&self) -> String {
        self.core.name_of(self.at)
    }

    /// Returns the pipeline of this channel, to edit it or to send events from its ends.
    #[must_use]
    pub fn pipeline(&self) -> Pipeline<'a> {
        Pipeline::new(self.core)
    }

    /// Returns a handle to the channel that may be used on any thread.
    #[must_use]
    pub fn channel(&self) -> Channel {
        self.core.channel()
    }

    /// Returns the credentials of the process at the other end of a Unix stream (SO_PEERCRED), as they
    /// were when the connection was made.
    ///
    /// # Errors
    /// The transport has no peer credentials, or the channel is not connected.
    pub fn peer_credentials(&self) -> Result<Credentials, Error> {
        self.core.with_transport(|transport, up| transport.peer_credentials(up))
    }

    /// Sets the address that [`Channel::peer_address`] returns from now on: for example the client
    /// address that a trusted proxy reports (PROXY protocol).
    pub fn set_peer_address(&self, peer: impl Into<Address>) {
        self.core.shared().set_peer_address(peer.into());
    }

    /// Makes a drain of the loop wait for this channel until the returned [`Hold`] is dropped.
    pub fn hold(&self) -> Hold {
        self.channel().hold()
    }

    /// Returns the event loop of this channel, which runs this call.
    #[must_use]
    pub fn event_loop(&self) -> &'a LocalLoop {
        &self.core.here
    }

    /// Returns the current time of the loop's clock.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.core.here.now()
    }

    /// Returns when the wait of the loop's present turn has ended: the time of an event, without a read of the clock.
    #[inline]
    #[must_use]
    pub fn turn_start(&self) -> Nanos {
        self.core.here.turn_start()
    }

    /// Returns when data of this channel was last handed to its transport; `None` if no data was. The
    /// time is recorded from the first call of this method on, at the price of reading the clock per
    /// write.
    #[must_use]
    pub fn last_write(&self) -> Option<Nanos> {
        self.core.last_write()
    }

    /// Returns a context that can be kept beyond this call, on this loop. It does not keep the channel
    /// alive.
    #[must_use]
    pub fn to_local(&self) -> LocalCtx {
        LocalCtx::new(&self.core.here, self.core.token(), self.slot())
    }

    // Timers.

    /// Schedules a call of this handler's [`Handler::on_timer`] with `tag` after `delay`. Allocates
    /// nothing. The timer is cancelled when the handler is removed.
    pub fn schedule(&self, delay: Duration, tag: u32) -> TimerId {
        self.core.schedule(self.at, delay, tag)
    }

    /// Cancels a timer of this handler. Returns `false` if it has fired already.
    pub fn cancel(&self, timer: TimerId) -> bool {
        self.core.cancel_timer(self.at, timer)
    }

    // Results of handler methods.

    /// Handles the error of an inbound method, or of a method without a completion: calls the handler's `on_error`
    /// (rule 10).
    #[cold]
    pub(crate) fn on_handler_failed(&self, handler: &mut dyn Handler, event: Events, error: Error) {
        let failed =
            if event == Events::ERROR { Err(error) } else { handler.on_error(self, error) };
        if let Err(error) = failed {
            self.core.report_handler_failure(&format!("`on_error` of `{}`", self.name()), &error);
        }
    }

    /// Handles an operation that returned an error, or that did not take its completion: the completion fails
    /// (rule 10).
    #[cold]
    pub(crate) fn on_operation_ended(&self, result: HandlerResult, done: Completion) {
        let error = result
            .err()
            .unwrap_or_else(|| Error::new(ChannelError::NotPassedOn { handler: self.name() }));
        if done.is_none() {
            self.core.report_handler_failure(&format!("`{}`", self.name()), &error);
        } else {
            self.core.fail_operation_at(self.at, done, error);
        }
    }
}

impl std::fmt::Debug for Ctx<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ctx({} of {:?})", self.name(), self.core)
    }
}
