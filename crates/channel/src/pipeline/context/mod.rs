//! A handler's view of its pipeline, while it runs.

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
use super::slots::slot::SlotState;
use super::slots::slot_list::SlotId;
use crate::address::Address;
use crate::channel::core::ChannelCore;
use crate::channel::error::ChannelError;
use crate::channel::handle::Channel;
use crate::channel::lifecycle::hold::Hold;
use crate::event_loop::local_loop::LocalLoop;
use crate::payload::Credentials;

/// Where a handler stands, for the duration of a call. `fire_…` passes something inward, to the
/// handlers behind it; the plain verbs ask for something outward, of the handlers before it.
///
/// It cannot be kept beyond the call: [`to_local`](Self::to_local) makes something that can.
#[derive(Clone, Copy)]
pub struct Ctx<'a> {
    core: &'a Rc<ChannelCore>,
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

    #[inline(always)]
    fn send(&self, event: impl Event) {
        self.core.send_from(self.at, event);
    }

    /// For events that are not worth a copy of the way in every handler.
    #[inline(never)]
    pub(super) fn send_outlined(&self, event: impl Event) {
        self.core.send_from(self.at, event);
    }

    // Inward.

    /// The channel was registered.
    pub fn fire_registered(&self) {
        self.send_outlined(Registered);
    }

    /// The channel left its loop.
    pub fn fire_unregistered(&self) {
        self.send_outlined(Unregistered);
    }

    /// The channel became active.
    pub fn fire_active(&self) {
        self.send_outlined(Active);
    }

    /// The channel is no longer active.
    pub fn fire_inactive(&self) {
        self.send_outlined(Inactive);
    }

    /// A message came in.
    #[inline]
    pub fn fire_read(&self, msg: impl Into<Msg>) {
        self.send(Read(msg.into()));
    }

    /// That was all for now.
    #[inline]
    pub fn fire_read_complete(&self) {
        self.send(ReadComplete);
    }

    /// An event of the user's own.
    pub fn fire_user_event(&self, event: impl Into<Msg>) {
        self.send_outlined(UserEvent(event.into()));
    }

    /// The channel became writable, or stopped being so.
    pub fn fire_writability_changed(&self) {
        self.send_outlined(WritabilityChanged);
    }

    /// Something failed.
    pub fn fire_error(&self, error: Error) {
        self.send_outlined(Failure(error));
    }

    // Looking around.

    /// Whether the channel takes more: its pending bytes have not risen above the high water mark, or
    /// have fallen below the low one since.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.core.is_writable()
    }

    /// How many bytes may be written before the channel stops being writable; none if it is not.
    #[must_use]
    pub fn bytes_before_unwritable(&self) -> usize {
        self.core.bytes_before_unwritable()
    }

    /// How many bytes must be sent before the channel is writable again; none if it is.
    #[must_use]
    pub fn bytes_before_writable(&self) -> usize {
        self.core.bytes_before_writable()
    }

    /// Returns how many bytes may be written before a write is refused with
    /// [`BufferFull`](crate::ChannelError::BufferFull). A handler that writes a frame in several parts asks first:
    /// one part might be accepted, and the next one not.
    #[must_use]
    pub fn bytes_before_refusal(&self) -> usize {
        self.core.bytes_before_refusal()
    }

    /// Whether the channel is connected, or bound.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.core.is_active()
    }

    /// Whether the channel reads by itself, or only when it is asked to.
    #[must_use]
    pub fn is_auto_read(&self) -> bool {
        self.core.is_auto_read()
    }

    /// Whether this handler was removed by something it called: it gets nothing more, and hands on
    /// what it still holds.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        let slots = self.core.pipeline.slots.borrow();
        matches!(slots.at(self.at).state, SlotState::Removed | SlotState::Leaving)
    }

    /// How many handlers have been removed so far. As long as it is the same, this one was not.
    #[inline]
    pub(crate) fn removals(&self) -> u32 {
        self.core.pipeline.removals.get()
    }

    /// This handler's place.
    #[must_use]
    pub fn slot(&self) -> SlotId {
        self.core.pipeline.slots.borrow().id(self.at)
    }

    /// This handler's name.
    #[must_use]
    pub fn name(&self) -> String {
        self.core.name_of(self.at)
    }

    /// The whole pipeline.
    #[must_use]
    pub fn pipeline(&self) -> Pipeline<'a> {
        Pipeline::new(self.core)
    }

    /// The channel, for any thread.
    #[must_use]
    pub fn channel(&self) -> Channel {
        self.core.channel()
    }

    /// Who the channel is connected to: the process at the other end of a Unix stream, as it was when the
    /// connection was made.
    ///
    /// # Errors
    /// The transport knows its peers by their addresses, if at all; the channel is not connected.
    pub fn peer_credentials(&self) -> Result<Credentials, Error> {
        self.core.with_transport(|transport, up| transport.peer_credentials(up))
    }

    /// Sets what [`Channel::peer_address`] returns from now on: the address that a trusted proxy names in place of its own.
    pub fn set_peer_address(&self, peer: impl Into<Address>) {
        self.core.shared().set_peer_address(peer.into());
    }

    /// Keeps a drain of the loop waiting while there is work in progress: see [`Hold`].
    pub fn hold(&self) -> Hold {
        self.channel().hold()
    }

    /// The loop this runs on.
    #[must_use]
    pub fn event_loop(&self) -> &'a LocalLoop {
        &self.core.here
    }

    /// The time, by the loop's clock.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.core.here.now()
    }

    /// When something of this channel's was last handed to its transport; `None` if nothing was. It is
    /// noted from the first time that anybody asks, and costs a look at the clock per write then.
    #[must_use]
    pub fn last_write(&self) -> Option<Nanos> {
        self.core.last_write()
    }

    /// A context to be kept, on this loop. It does not keep the channel alive.
    #[must_use]
    pub fn to_local(&self) -> LocalCtx {
        LocalCtx::new(&self.core.here, self.core.token(), self.slot())
    }

    // Timers.

    /// Calls [`Handler::on_timer`] of this handler with `tag` after a while. Costs no allocation. The
    /// timer goes with the handler when that is removed.
    pub fn schedule(&self, delay: Duration, tag: u32) -> TimerId {
        self.core.schedule(self.at, delay, tag)
    }

    /// Takes a timer of this handler back. `false` if it was due already.
    pub fn cancel(&self, timer: TimerId) -> bool {
        self.core.cancel_timer(self.at, timer)
    }

    // How calls end.

    /// An inbound method, or one without a completion, has failed (rule 10).
    #[cold]
    pub(crate) fn handler_failed(&self, handler: &mut dyn Handler, event: Events, error: Error) {
        let failed =
            if event == Events::ERROR { Err(error) } else { handler.on_error(self, error) };
        if let Err(error) = failed {
            self.core
                .report_handler_failure(&format!("the error method of `{}`", self.name()), &error);
        }
    }

    /// An operation has failed, or has left its completion where it was (rule 10).
    #[cold]
    pub(crate) fn operation_ended(&self, result: HandlerResult, done: Completion) {
        let error = result
            .err()
            .unwrap_or_else(|| Error::new(ChannelError::NotPassedOn { handler: self.name() }));
        if done.is_none() {
            self.core.report_handler_failure(&format!("`{}`", self.name()), &error);
        } else {
            self.core.complete_later(done, Err(error));
        }
    }
}

impl std::fmt::Debug for Ctx<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ctx({} of {:?})", self.name(), self.core)
    }
}
