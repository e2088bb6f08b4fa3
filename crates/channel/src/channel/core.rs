//! The channel on its loop: the state that all of its parts share, and how calls enter it.
//!
//! ```text
//!   driver, tasks, other channels          on the loop, when nothing is being dispatched
//!        │ enter                                     │ run_deferred_work
//!        ▼                                           ▼
//!    handlers ──► head ──► marks work ──────► deferred calls, flush, completions, writability, steps
//! ```
//!
//! Work that must not run inside of a call into the channel is marked as deferred work and runs when the
//! outermost call has returned: writing flushed bytes (rule 9), running completions, and the events that
//! only the loop dispatches (rule 8).

use std::any::TypeId;
use std::cell::{Cell, RefCell, RefMut};
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use waterwheel_executor::{Error, Nanos, TimerKey};

use crate::base::report_throttle::ReportThrottle;
use crate::base::token::Token;
use crate::channel::cold_state::ColdState;
use crate::channel::deferred_calls::DeferredCall;
use crate::channel::handle::Channel;
use crate::channel::handle::shared_state::ChannelShared;
use crate::channel::lifecycle::ChannelLifecycle;
use crate::channel::lifecycle::closing::{CloseWaiters, TransportCloseState};
use crate::channel::lifecycle::connecting::Connecting;
use crate::channel::lifecycle::half_closure::HalfClosureState;
use crate::channel::lifecycle::step_queue::{LifecycleStep, StepQueue};
use crate::channel::options::ChannelOptions;
use crate::channel::reading::{ReadStart, ReadState};
use crate::channel::transport::{Transport, TransportContext};
use crate::channel::writing::outbound::Outbound;
use crate::channel::writing::writability::Writability;
use crate::channel::writing::{DropState, WriteState};
use crate::driver::SocketOption;
use crate::event_loop::local_loop::LocalLoop;
use crate::pipeline::dispatch::PipelineState;
use crate::pipeline::dispatch::event::{Event, Flush, Write};
use crate::pipeline::offload::OffloadState;
use crate::pipeline::slots::slot_list::{SlotId, TAIL};
use crate::pipeline::typed::type_check::TransportTypes;
use crate::pipeline::{Completion, Msg};

/// A channel, on its loop. No cell in here is borrowed while user code runs.
pub(crate) struct ChannelCore {
    pub(crate) here: LocalLoop,
    pub(super) shared: Arc<ChannelShared>,
    pub(crate) pipeline: PipelineState,
    pub(super) transport: RefCell<Box<dyn Transport>>,
    pub(super) transport_info: TransportInfo,
    pub(super) lifecycle: Cell<ChannelLifecycle>,
    /// True while a call into this channel is on the stack.
    pub(super) is_entered: Cell<bool>,
    work: Cell<DeferredWork>,
    pub(super) steps: StepQueue,
    pub(super) cold: ColdState<ColdFields>,
    pub(super) outbound: RefCell<Outbound>,
    pub(super) writability: Writability,
    pub(super) read_state: ReadState,
    pub(super) write_state: Cell<WriteState>,
    /// True while encoded messages of this channel wait in the loop's buffer.
    pub(super) has_joined: Cell<bool>,
    /// The token under which the loop's driver writes the channel's stream; [`Token::NONE`] if the driver does
    /// not write it.
    stream_token: Cell<Token>,
    /// True once the time of the last write was requested.
    pub(super) tracks_last_write: Cell<bool>,
    pub(super) drop_state: Cell<DropState>,
    pub(super) transport_close: Cell<TransportCloseState>,
    pub(super) half_closure: HalfClosureState,
    pub(super) unhandled_messages: ReportThrottle,
}

/// State that few channels need, and only for a short time.
#[derive(Default)]
pub(super) struct ColdFields {
    /// Calls that wait because channels have called each other too deep (rule 7).
    pub(super) calls: VecDeque<DeferredCall>,
    /// Slots with a long backlog: other channels run before the rest of the backlog is delivered.
    pub(super) backlogs: VecDeque<SlotId>,
    pub(super) completions: VecDeque<(Completion, Result<(), Error>)>,
    /// Steps that did not fit into the short [`StepQueue`].
    pub(super) steps: VecDeque<LifecycleStep>,
    pub(super) close_waiters: CloseWaiters,
    pub(super) connecting: Option<Box<Connecting>>,
    pub(super) last_write: Option<Nanos>,
    pub(super) read_start: ReadStart,
    pub(super) unhandled_errors: ReportThrottle,
    /// The time of the last report of an unhandled error.
    pub(super) last_error_report: Option<Nanos>,
    pub(super) handler_failures: ReportThrottle,
    /// The timer that ends the pause after a failed read.
    pub(super) read_pause_timer: Option<TimerKey>,
    /// The number of [`ReadPause`](crate::ReadPause) values of handlers.
    pub(super) read_pauses: u32,
    offload: OffloadState,
}

/// Properties of the transport that do not change.
pub(super) struct TransportInfo {
    /// True if the transport writes a stream of bytes; false if it writes messages.
    pub(super) is_stream: bool,
    /// True if the transport writes a stream and accepts [`Bytes`] for it.
    pub(super) takes_bytes: bool,
    /// The context that the transport gets with every call.
    context: TransportContext,
}

/// A set of flags: the work to run when the outermost call has returned.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DeferredWork(u8);

impl DeferredWork {
    /// The channel is in the loop's list of channels with deferred work.
    const LISTED: DeferredWork = DeferredWork(1);
    /// Deferred calls and backlogs of events wait to be delivered.
    pub(super) const CALLS: DeferredWork = DeferredWork(1 << 1);
    /// Flushed messages wait to be written, or written messages wait to be dropped.
    pub(super) const FLUSH: DeferredWork = DeferredWork(1 << 2);
    /// Completions wait to be called.
    pub(super) const COMPLETIONS: DeferredWork = DeferredWork(1 << 3);
    /// The writability may have changed: `on_writability_changed` may be due.
    pub(super) const WRITABILITY: DeferredWork = DeferredWork(1 << 4);
    /// Lifecycle steps wait to be taken.
    pub(super) const STEPS: DeferredWork = DeferredWork(1 << 5);
    /// The transport has asked to be polled for events.
    pub(super) const POLL_TRANSPORT: DeferredWork = DeferredWork(1 << 6);
    /// A handler panicked; the panic may have been caught before it reached the channel.
    pub(crate) const POISONED: DeferredWork = DeferredWork(1 << 7);
    pub(super) const ALL: DeferredWork = DeferredWork(u8::MAX);

    fn has(self, work: DeferredWork) -> bool {
        self.0 & work.0 != 0
    }
}

impl ChannelCore {
    pub(crate) fn new(
        here: LocalLoop,
        shared: Arc<ChannelShared>,
        transport: Box<dyn Transport>,
    ) -> Rc<Self> {
        let is_stream = transport.writes_stream();
        let takes_bytes = is_stream && transport.accepts().may_contain(TypeId::of::<Bytes>());
        Rc::new_cyclic(|own| Self {
            transport_info: TransportInfo {
                is_stream,
                takes_bytes,
                context: TransportContext::new(&here, own.clone()),
            },
            here,
            read_state: ReadState::new(&shared.options),
            shared,
            pipeline: PipelineState::new(),
            transport: RefCell::new(transport),
            lifecycle: Cell::new(ChannelLifecycle::new()),
            is_entered: Cell::new(false),
            work: Cell::default(),
            steps: StepQueue::default(),
            cold: ColdState::default(),
            outbound: RefCell::default(),
            writability: Writability::default(),
            write_state: Cell::default(),
            has_joined: Cell::new(false),
            stream_token: Cell::new(Token::NONE),
            tracks_last_write: Cell::new(false),
            drop_state: Cell::default(),
            transport_close: Cell::default(),
            half_closure: HalfClosureState::default(),
            unhandled_messages: ReportThrottle::default(),
        })
    }

    pub(crate) fn shared(&self) -> &Arc<ChannelShared> {
        &self.shared
    }

    pub(crate) fn offload_state(&self) -> RefMut<'_, OffloadState> {
        RefMut::map(self.cold.get_or_create(), |cold| &mut cold.offload)
    }

    #[inline]
    pub(super) fn options(&self) -> &ChannelOptions {
        &self.shared.options
    }

    pub(crate) fn channel(&self) -> Channel {
        Channel::new(self.shared.clone())
    }

    pub(crate) fn token(&self) -> Token {
        self.shared.token()
    }

    pub(crate) fn with_transport<R>(
        self: &Rc<Self>,
        call: impl FnOnce(&mut dyn Transport, &TransportContext) -> R,
    ) -> R {
        call(&mut **self.transport.borrow_mut(), &self.transport_info.context)
    }

    /// Calls the transport for an operation that attaches a socket to the driver or detaches it, then refreshes
    /// the stream token.
    pub(super) fn with_socket_change<R>(
        self: &Rc<Self>,
        call: impl FnOnce(&mut dyn Transport, &TransportContext) -> R,
    ) -> R {
        self.stream_token.set(Token::NONE);
        let moved = self.with_transport(call);
        self.stream_token.set(self.transport.borrow().stream_token().unwrap_or(Token::NONE));
        moved
    }

    /// Returns the token under which the loop's driver writes the channel's stream; `None` if the driver does
    /// not write it.
    #[inline(always)]
    pub(super) fn stream_token(&self) -> Option<Token> {
        Some(self.stream_token.get()).filter(|token| *token != Token::NONE)
    }

    /// Sets a socket option through the transport.
    pub(crate) fn set_option(self: &Rc<Self>, option: SocketOption) -> Result<(), Error> {
        if !self.lifecycle.get().is_open() {
            return Err(self.closed_error());
        }
        self.with_transport(|transport, context| transport.set_option(Some(context), option))
    }

    /// Returns the message types at the transport's end of the pipeline.
    pub(crate) fn transport_types(&self) -> TransportTypes {
        let transport = self.transport.borrow();
        TransportTypes {
            name: transport.name(),
            reads: transport.reads(),
            accepts: transport.accepts(),
        }
    }

    // Entering.

    /// Dispatches an event from one end of the pipeline: now, or after deferred calls that are already queued.
    #[inline]
    pub(crate) fn enter_event<E: Event>(self: &Rc<Self>, from: u32, event: E) {
        if self.must_defer() {
            self.defer_event(from, event.into_any());
        } else {
            self.enter(|core| core.send_from(from, event));
        }
    }

    /// Calls into the channel: now, or after deferred calls that are already queued.
    pub(crate) fn enter_or_defer(self: &Rc<Self>, call: impl FnOnce(&Rc<Self>) + 'static) {
        if self.must_defer() {
            self.defer(DeferredCall::Call(Box::new(call)));
        } else {
            self.enter(call);
        }
    }

    /// Dispatches a write and a flush as one call.
    pub(crate) fn write_and_flush(self: &Rc<Self>, msg: Msg, done: Completion) {
        if self.must_defer() {
            self.defer_event(TAIL, Write(msg, done).into_any());
            self.defer_event(TAIL, Flush.into_any());
        } else {
            self.enter(|core| {
                core.send_from(TAIL, Write(msg, done));
                core.send_from(TAIL, Flush);
            });
        }
    }

    /// True if a call into the channel has to wait: for deferred calls that are queued, or because calls between
    /// channels are nested too deeply.
    #[inline]
    pub(crate) fn must_defer(&self) -> bool {
        let too_deep = !self.is_entered.get() && self.here.channels().is_too_deep();
        too_deep || self.cold.get().is_some_and(|cold| !cold.calls.is_empty())
    }

    /// Calls into the channel. A panic is caught here, for every caller (rule 11). When the outermost call
    /// has returned, deferred work runs.
    #[inline]
    pub(crate) fn enter(self: &Rc<Self>, call: impl FnOnce(&Rc<Self>)) {
        if self.here.channels().is_innermost(self) {
            return call(self);
        }
        self.enter_from_outside(call);
    }

    /// Calls into the channel like [`enter`](Self::enter), if the innermost call is into another channel, or no call is
    /// on the stack.
    #[inline(always)]
    pub(super) fn enter_from_outside(self: &Rc<Self>, call: impl FnOnce(&Rc<Self>)) {
        let channels = self.here.channels();
        let outer = channels.begin_call(self);
        // Handlers of this channel may be on the stack already, below those of another channel. A panic ends
        // here all the same: the other channel did not cause it.
        let entered = self.is_entered.replace(true);
        let outcome = catch_unwind(AssertUnwindSafe(|| call(self)));
        self.is_entered.set(entered);
        match outcome {
            Ok(()) => channels.end_call(self, outer),
            Err(payload) => {
                channels.end_panicked_call(self, outer);
                self.close_after_panic(payload);
                channels.run_deferred_if_outermost();
            }
        }
    }

    /// Calls into the channel from the loop, while no call into any channel is on the stack. The work that the
    /// call defers runs under the same panic guard.
    #[inline(always)]
    pub(super) fn enter_from_loop(self: &Rc<Self>, call: impl FnOnce(&Rc<Self>)) {
        let channels = self.here.channels();
        channels.begin_single_call(self);
        self.is_entered.set(true);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            call(self);
            self.is_entered.set(false);
            if channels.end_single_call() {
                self.run_work();
                channels.end_running_deferred();
            }
        }));
        if let Err(payload) = outcome {
            self.handle_panic_from_loop(payload);
        }
    }

    // Deferred work.

    /// Marks work to run when the outermost call has returned.
    #[inline]
    pub(crate) fn mark_deferred(self: &Rc<Self>, work: DeferredWork) {
        let before = self.work.get();
        self.work.set(DeferredWork(before.0 | work.0 | DeferredWork::LISTED.0));
        if !before.has(DeferredWork::LISTED) {
            self.here.channels().add_with_work(self);
        }
    }

    /// Runs the work that was marked. Called by the loop, while no call into a channel is on the stack.
    /// Handlers and completions catch panics on their own; this guard is for the transport and for destructors
    /// of written bytes.
    pub(crate) fn run_deferred_work(self: &Rc<Self>) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| self.run_work())) {
            self.handle_work_panic(payload);
        }
    }

    #[inline(always)]
    pub(super) fn run_work(self: &Rc<Self>) {
        let work = self.work.take();
        if work.0 & !(DeferredWork::LISTED.0 | DeferredWork::FLUSH.0) != 0 {
            return self.run_all_work(work);
        }
        // The common case: nothing but a flush is marked.
        if !self.write_one_chunk() {
            self.write_out();
        }
        if self.writability.has_changed() {
            self.announce_writability();
        }
    }

    fn run_all_work(self: &Rc<Self>, work: DeferredWork) {
        if work.has(DeferredWork::POISONED) && self.has_poisoned_slot() {
            // The panic was caught before it got here, by the guard of a listener or of a destructor.
            self.close_after_panic(Box::new(
                "a panic that was caught and reported before it reached the channel",
            ));
        }
        if work.has(DeferredWork::POLL_TRANSPORT) {
            self.poll_transport();
        }
        if work.has(DeferredWork::CALLS) {
            self.continue_backlogs();
            self.run_deferred_calls();
        }
        if work.has(DeferredWork::FLUSH) {
            self.write_out();
        }
        if work.has(DeferredWork::COMPLETIONS) {
            self.run_completions();
        }
        if self.writability.has_changed() {
            self.announce_writability();
        }
        if work.has(DeferredWork::STEPS) {
            self.run_steps();
        }
    }
}

impl Drop for ChannelCore {
    fn drop(&mut self) {
        if self.shared.is_close_notified() {
            return;
        }
        // The loop has ended without closing the channel. Dropping the promise fails the close future.
        self.shared.set_closed();
        self.shared.attributes.notify_closed(&self.shared);
        drop(self.shared.take_close_promise());
    }
}

impl fmt::Debug for ChannelCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Channel").field(&self.shared.id).finish()
    }
}
