//! Reading: rounds of reads, auto-read and pauses (C09).

pub(crate) mod read_pause;
pub(crate) mod read_size;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use waterwheel_executor::{Error, Nanos};

use crate::base::token::Token;
use crate::channel::core::{ChannelCore, DeferredWork};
use crate::channel::options::{ChannelOptions, PauseReads};
use crate::channel::reading::read_size::ReadSizer;
use crate::channel::transport::{DetachOutcome, TransportEvent};
use crate::driver::{IoEvent, ReadPlan};
use crate::event_loop::local_loop::LocalLoop;
use crate::event_loop::registrations::EventReceiver;
use crate::payload::AncillaryMessage;
use crate::pipeline::dispatch::event::{BeginRead, Failure, Read, ReadComplete};
use crate::pipeline::slots::slot_list::{HEAD, TAIL};
use crate::pipeline::{Completion, Msg};

/// The state of a channel's reads.
pub(crate) struct ReadState {
    is_auto: Cell<bool>,
    /// True while reading is on, even during a pause.
    is_on: Cell<bool>,
    /// True if a round was requested and has not begun, for instance because the channel is not active or not
    /// registered.
    is_requested: Cell<bool>,
    /// True while a round is in progress.
    in_round: Cell<bool>,
    /// The reasons why the transport is not reading although `is_on` is set.
    pause_reasons: Cell<PauseReasons>,
    sizer: ReadSizer,
}

impl ReadState {
    pub(in crate::channel) fn new(options: &ChannelOptions) -> Self {
        Self {
            is_auto: Cell::new(options.auto_read),
            is_on: Cell::new(false),
            is_requested: Cell::new(false),
            in_round: Cell::new(false),
            pause_reasons: Cell::default(),
            sizer: ReadSizer::new(options.receive_sizes),
        }
    }

    /// Begins a round at its first read: a request from now on is for the next round.
    #[inline]
    fn begin_round(&self) {
        if !self.in_round.replace(true) {
            self.is_requested.set(false);
        }
    }
}

/// When the transport began to read, for handlers that query it.
#[derive(Clone, Copy, Default)]
pub(super) enum ReadStart {
    /// No handler has queried it.
    #[default]
    NotRecorded,
    NotReading,
    Since(Nanos),
}

/// The reasons why reads are paused. They resume when no reason is left.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct PauseReasons(u8);

impl PauseReasons {
    const NONE: PauseReasons = PauseReasons(0);
    /// A read or accept failed, and the next would fail too.
    const FAILED: PauseReasons = PauseReasons(1);
    /// A server has reached its connection limit.
    const AT_CONNECTION_LIMIT: PauseReasons = PauseReasons(1 << 1);
    /// The channel is not writable.
    const UNWRITABLE: PauseReasons = PauseReasons(1 << 2);
    /// A handler keeps a [`ReadPause`](read_pause::ReadPause).
    const HANDLER: PauseReasons = PauseReasons(1 << 3);

    fn has(self, reason: PauseReasons) -> bool {
        self.0 & reason.0 != 0
    }
}

/// The pause of reads after a read or accept failed for lack of a resource (EMFILE, ENOMEM): as long as in
/// Netty.
const READ_FAILURE_PAUSE: Duration = Duration::from_secs(1);

/// Events taken from a transport per poll, before other channels run.
const EVENTS_PER_POLL: usize = 64;

/// Receives the driver's events of the sockets that the channel's transport has attached.
impl EventReceiver for ChannelCore {
    fn on_event(self: Rc<Self>, _: &LocalLoop, event: IoEvent) -> Result<(), Error> {
        match event {
            IoEvent::LastRead(_, bytes) => self.on_last_bytes(bytes),
            IoEvent::Read(_, bytes) => self.on_bytes(bytes),
            IoEvent::ReadComplete(_) => self.on_round_over(),
            other => self.on_other_driver_event(other),
        }
        Ok(())
    }

    fn on_detached(self: Rc<Self>, _: &LocalLoop, token: Token, cause: Option<Error>) {
        match self.with_transport(|transport, _| transport.on_driver_detached(token, cause)) {
            DetachOutcome::Closed(cause) => {
                if let Some(cause) = cause {
                    self.on_transport_event(TransportEvent::Failed(cause));
                }
                self.on_transport_event(TransportEvent::Closed);
            }
            DetachOutcome::Failed(cause) => self.on_transport_event(TransportEvent::Failed(cause)),
            DetachOutcome::Stale => {}
        }
    }

    fn detaches_itself(&self) -> bool {
        true // When the channel is closed, after its writes.
    }
}

impl ChannelCore {
    #[inline(never)]
    fn on_other_driver_event(self: &Rc<Self>, event: IoEvent) {
        let event =
            self.with_transport(|transport, context| transport.on_driver_event(context, event));
        if let Some(event) = event {
            self.on_transport_event(event);
        }
    }

    /// Handles bytes that were read: a shortcut for the most common transport event.
    #[inline]
    pub(in crate::channel) fn on_bytes(self: &Rc<Self>, bytes: Bytes) {
        if self.lifecycle.get().is_open() {
            self.on_read(bytes.into());
        }
    }

    /// Handles bytes that were read as the last of a round. Read and read-complete are dispatched in one call,
    /// so that everything flushed in either of them is written at once.
    #[inline]
    pub(in crate::channel) fn on_last_bytes(self: &Rc<Self>, bytes: Bytes) {
        if !self.lifecycle.get().is_open() {
            return;
        }
        let grown = self.count_read(bytes.len());
        let changed = self.read_state.sizer.on_round(&self.options().receive_sizes);
        self.enter_from_loop(|core| {
            let told = core.send_last_read(bytes.into());
            if told || core.take_end_of_round() {
                if !told {
                    core.send_from(HEAD, ReadComplete);
                }
                core.read_if_auto();
            }
        });
        self.end_round(grown || changed);
        self.here.channels().run_deferred_if_outermost();
    }

    /// Ends the round. Returns false if the channel was closed or deregistered meanwhile: then the round was
    /// aborted, even if the channel is registered again.
    #[inline]
    pub(crate) fn take_end_of_round(&self) -> bool {
        self.lifecycle.get().is_open() && self.read_state.in_round.take()
    }

    /// True until the end of the round is dispatched.
    #[inline]
    pub(crate) fn is_in_read_round(&self) -> bool {
        self.read_state.in_round.get()
    }

    /// Handles the end of a round that the last read did not announce.
    #[inline]
    pub(in crate::channel) fn on_round_over(self: &Rc<Self>) {
        if self.lifecycle.get().is_open() {
            self.on_read_complete();
            self.here.channels().run_deferred_if_outermost();
        }
    }

    /// Handles an event of the transport. Called from the loop, never during a dispatch of this channel.
    pub(crate) fn on_transport_event(self: &Rc<Self>, event: TransportEvent) {
        if let TransportEvent::Closed = event {
            return self.on_transport_closed();
        }
        if !self.lifecycle.get().is_open() {
            return self.on_event_while_closing(event);
        }
        match event {
            TransportEvent::Read(msg) => self.on_read(msg),
            TransportEvent::ReadComplete => self.on_read_complete(),
            TransportEvent::Wrote(n) => self.on_wrote(n),
            TransportEvent::Connected => self.on_connected(),
            TransportEvent::Eof => self.on_eof(),
            TransportEvent::PeerFinished => self.on_peer_finished(),
            TransportEvent::ReadFailed(error) => self.on_read_failed(error),
            TransportEvent::Notice(error) => {
                self.enter(|core| core.send_from(HEAD, Failure(error)))
            }
            TransportEvent::Failed(error) => self.on_failed(error),
            TransportEvent::Closed => {}
        }
        self.here.channels().run_deferred_if_outermost();
    }

    /// Counts a read of `size` bytes. Returns true if the next read should be larger.
    #[inline]
    fn count_read(&self, size: usize) -> bool {
        self.read_state.begin_round();
        self.here.counters().add_bytes_read(size);
        self.read_state.sizer.on_read(size, &self.options().receive_sizes)
    }

    fn on_read(self: &Rc<Self>, msg: Msg) {
        let grown = self.count_read(size_of_read(&msg));
        if grown && self.read_state.is_on.get() {
            self.set_read(true);
        }
        self.enter_from_outside(|core| core.send_from(HEAD, Read(msg)));
    }

    fn on_read_complete(self: &Rc<Self>) {
        // A round without a read does not fulfil the request. Reading stays on, so the end of this round is
        // dispatched too.
        let changed = self.read_state.sizer.on_round(&self.options().receive_sizes);
        self.read_state.in_round.set(false);
        self.enter_from_outside(|core| {
            core.send_from(HEAD, ReadComplete);
            core.read_if_auto();
        });
        self.end_round(changed);
    }

    #[inline(always)]
    fn end_round(self: &Rc<Self>, changed: bool) {
        if !self.read_state.is_requested.get() {
            self.set_read(false);
        } else if changed && self.read_state.is_on.get() {
            self.set_read(true);
        }
    }

    fn on_failed(self: &Rc<Self>, error: Error) {
        if self.is_connecting() {
            return self.on_connect_failed(error);
        }
        self.enter(|core| core.send_from(HEAD, Failure(error.clone())));
        self.close(Some(error), Completion::none());
    }

    /// Pauses reads after a failure that would repeat (L16), even if reads are requested: for a second, or
    /// until an accepted connection is closed.
    #[cold]
    fn on_read_failed(self: &Rc<Self>, error: Error) {
        self.enter(|core| core.send_from(HEAD, Failure(error)));
        let until = self.here.now().plus(READ_FAILURE_PAUSE);
        let resume = self.shared.resume_reading_command();
        if self.read_state.pause_reasons.get().has(PauseReasons::FAILED) {
            return;
        }
        // A loop that has run its last pass rejects the timer: nothing is read any more.
        if let Ok(timer) = self.here.sender().send_at(until, resume) {
            self.pause(PauseReasons::FAILED);
            self.cold.get_or_create().read_pause_timer = Some(timer);
            self.shared.set_paused(true);
        }
    }

    /// Ends the pause after a failed read: its timer fired, or an accepted connection was closed.
    pub(crate) fn resume_reading(self: &Rc<Self>) {
        // The timer would end the next pause too early.
        if let Some(timer) = self.cold.get_or_create().read_pause_timer.take() {
            self.here.sender().take_back(timer);
        }
        self.shared.set_paused(false);
        self.resume(PauseReasons::FAILED);
    }

    /// Pauses or resumes accepting at a server's connection limit.
    pub(crate) fn set_at_connection_limit(self: &Rc<Self>, at_limit: bool) {
        if at_limit {
            self.pause(PauseReasons::AT_CONNECTION_LIMIT);
        } else {
            self.resume(PauseReasons::AT_CONNECTION_LIMIT);
        }
    }

    /// Pauses reads while the channel is not writable, if its options say so (K14): the answers to further
    /// messages would only add to the pending bytes. Called after the writability has changed, when the outermost call
    /// has returned, and not per message. Once the output is shut down nothing can be answered, and reads
    /// continue.
    #[cold]
    pub(in crate::channel) fn pause_or_resume_reads(self: &Rc<Self>) {
        if self.writability.is_writable() || self.is_output_over() {
            self.resume(PauseReasons::UNWRITABLE);
        } else if self.lifecycle.get().is_open() && self.pauses_while_unwritable() {
            self.pause(PauseReasons::UNWRITABLE);
        }
    }

    fn pauses_while_unwritable(&self) -> bool {
        match self.options().pause_reads_while_unwritable {
            PauseReads::IfAccepted => self.shared.parent.is_some(),
            PauseReads::Always => true,
            PauseReads::Never => false,
        }
    }

    /// Pauses reads for a reason. Requests made meanwhile take effect when reads resume.
    fn pause(self: &Rc<Self>, reason: PauseReasons) {
        let (on, pauses) = (self.read_state.is_on.get(), self.read_state.pause_reasons.get());
        self.set_read(false);
        self.read_state.pause_reasons.set(PauseReasons(pauses.0 | reason.0));
        self.read_state.is_on.set(on);
    }

    fn resume(self: &Rc<Self>, reason: PauseReasons) {
        let before = self.read_state.pause_reasons.get();
        self.read_state.pause_reasons.set(PauseReasons(before.0 & !reason.0));
        if before.has(reason) && self.read_state.is_on.get() && self.lifecycle.get().is_open() {
            self.set_read(true);
        }
    }

    /// Requests the next round, through the whole pipeline, if auto-read is on. A handler may withhold the
    /// request.
    #[inline]
    pub(in crate::channel) fn read_if_auto(self: &Rc<Self>) {
        if self.read_state.is_auto.get() && self.is_active() {
            self.send_through(BeginRead);
        }
    }

    pub(in crate::channel) fn is_reading(&self) -> bool {
        self.read_state.is_on.get()
    }

    /// Aborts the current round. Returns true if one had begun, so that its end is announced.
    pub(in crate::channel) fn abort_round(&self) -> bool {
        let begun = self.read_state.in_round.replace(false);
        if begun {
            self.read_state.sizer.on_round(&self.options().receive_sizes);
        }
        begun
    }

    /// Begins a round of reads; the request has passed all handlers. While the channel is not active or not
    /// registered, the request is kept.
    #[inline]
    pub(crate) fn begin_read(self: &Rc<Self>) {
        let life = self.lifecycle.get();
        if life.is_open() && !self.is_input_over() {
            self.read_state.is_requested.set(true);
            if !self.read_state.is_on.get() && life.is_active() && life.is_registered() {
                self.set_read(true);
            }
        }
    }

    /// Begins a round that was requested before the channel was active, or that had not begun when the channel
    /// was deregistered. The request has passed all handlers.
    pub(in crate::channel) fn begin_requested_read(self: &Rc<Self>) {
        if self.read_state.is_requested.get() {
            self.begin_read();
        }
    }

    pub(crate) fn is_auto_read(&self) -> bool {
        self.read_state.is_auto.get()
    }

    /// Turns auto-read on or off.
    pub(crate) fn set_auto_read(self: &Rc<Self>, auto: bool) {
        let before = self.read_state.is_auto.replace(auto);
        if auto && !before {
            self.enter_event(TAIL, BeginRead);
        } else if before && !auto {
            // Reading stops at once.
            self.read_state.is_requested.set(false);
            self.set_read(false);
        }
    }

    pub(in crate::channel) fn set_read(self: &Rc<Self>, on: bool) {
        if on || self.read_state.is_on.get() {
            self.read_state.is_on.set(on);
            if self.read_state.pause_reasons.get() != PauseReasons::NONE {
                return; // The transport is told when the pause ends.
            }
            self.record_read_start(on);
            let plan = on.then(|| ReadPlan {
                max_reads: self.options().reads_per_round.max(1),
                size: self.next_read_size(),
            });
            self.with_transport(|transport, context| transport.set_read(context, plan));
        }
    }

    fn record_read_start(&self, on: bool) {
        let start = self.cold.get().map_or(ReadStart::NotRecorded, |cold| cold.read_start);
        let changed = match start {
            ReadStart::NotReading if on => ReadStart::Since(self.here.now()),
            ReadStart::Since(_) if !on => ReadStart::NotReading,
            ReadStart::NotRecorded | ReadStart::NotReading | ReadStart::Since(_) => return,
        };
        self.cold.get_or_create().read_start = changed;
    }

    /// Returns since when the transport has been reading. Recorded from the first call on, because it costs reading the
    /// clock.
    pub(crate) fn reading_since(&self) -> Option<Nanos> {
        if !self.lifecycle.get().is_open() {
            return None; // The transport is closed without being told to stop reading.
        }
        let reads = self.read_state.is_on.get()
            && self.read_state.pause_reasons.get() == PauseReasons::NONE;
        let mut cold = self.cold.get_or_create();
        if let ReadStart::NotRecorded = cold.read_start {
            cold.read_start =
                if reads { ReadStart::Since(self.here.now()) } else { ReadStart::NotReading };
        }
        match cold.read_start {
            ReadStart::Since(start) => Some(start),
            ReadStart::NotRecorded | ReadStart::NotReading => None,
        }
    }

    /// Returns the size of the next read. A stream is read in parts that follow the sizes of recent reads. A
    /// message has to be read whole, because the rest of it would be lost.
    fn next_read_size(&self) -> usize {
        if self.transport_info.is_stream {
            self.read_state.sizer.size()
        } else {
            self.options().receive_sizes.max()
        }
    }

    /// Polls the transport for events when the outermost call has returned.
    pub(crate) fn poll_transport_later(self: &Rc<Self>) {
        self.mark_deferred(DeferredWork::POLL_TRANSPORT);
    }

    /// Polls the transport for events.
    pub(in crate::channel) fn poll_transport(self: &Rc<Self>) {
        for _ in 0..EVENTS_PER_POLL {
            let Some(event) =
                self.with_transport(|transport, context| transport.next_event(context))
            else {
                return;
            };
            let round_over = matches!(event, TransportEvent::ReadComplete);
            self.on_transport_event(event);
            if round_over && self.transport.borrow().has_more() {
                return self.here.channels().poll_transport_next_turn(self.clone());
            }
            if self.writability.has_changed() {
                return self.poll_transport_later(); // Reads may have to pause before the next event.
            }
        }
        self.poll_transport_later();
    }
}

/// Returns the number of bytes that were read with a message, without the extra size of passed file
/// descriptors.
fn size_of_read(msg: &Msg) -> usize {
    msg.get::<AncillaryMessage>().map_or_else(|| msg.size_hint(), |ancillary| ancillary.bytes.len())
}
