//! The channel on its loop: what all of its parts share, and how calls get in.
//!
//! ```text
//!   driver, tasks, other channels          on the loop, when nothing is being dispatched
//!        │ enter                                     │ settle
//!        ▼                                           ▼
//!    handlers ──► head ──► marks work ──────► entries, flush, completions, writability, steps
//! ```
//!
//! What a call into the channel asks for and must not happen inside of it is marked as work, and done
//! when the outermost call has returned: writing what was flushed (rule 9), telling completions, and
//! the events that come from the loop only (rule 8).

use std::any::TypeId;
use std::cell::{Cell, RefCell, RefMut};
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use waterwheel_executor::{Error, Nanos, TimerKey};

use crate::channel::cold_state::ColdState;
use crate::channel::deferred_calls::DeferredCall;
use crate::channel::handle::Channel;
use crate::channel::handle::shared_state::ChannelShared;
use crate::channel::lifecycle::Lifecycle;
use crate::channel::lifecycle::closing::{CloseWaiters, TransportCloseState};
use crate::channel::lifecycle::connecting::Connecting;
use crate::channel::lifecycle::half_closure::HalfClosureState;
use crate::channel::lifecycle::step_queue::{LifecycleStep, StepQueue};
use crate::channel::options::ChannelOptions;
use crate::channel::reading::ReadState;
use crate::channel::transport::{Transport, TransportContext};
use crate::channel::writing::outbound::Outbound;
use crate::channel::writing::writability::Writability;
use crate::channel::writing::{DropState, WriteState};
use crate::driver::SocketOption;
use crate::event_loop::local_loop::LocalLoop;
use crate::flood::Flood;
use crate::pipeline::dispatch::Handlers;
use crate::pipeline::dispatch::event::{Event, Flush, Write};
use crate::pipeline::offload::Offloading;
use crate::pipeline::slots::slot_list::{SlotId, TAIL};
use crate::pipeline::typed::type_check::Ends;
use crate::pipeline::{Completion, Msg};
use crate::token::Token;

/// A channel, on its loop. Nothing in here is borrowed while user code runs.
pub(crate) struct ChannelCore {
    pub(crate) here: LocalLoop,
    pub(super) shared: Arc<ChannelShared>,
    pub(crate) handlers: Handlers,
    pub(super) transport: RefCell<Box<dyn Transport>>,
    pub(super) below: TransportInfo,
    pub(super) life: Cell<Lifecycle>,
    /// One of its handlers runs, or could.
    pub(super) entered: Cell<bool>,
    work: Cell<DeferredWork>,
    pub(super) steps: StepQueue,
    pub(super) cold: ColdState<ColdFields>,
    pub(super) out: RefCell<Outbound>,
    pub(super) level: Writability,
    pub(super) reading: ReadState,
    pub(super) writing: Cell<WriteState>,
    /// The token under which the loop's driver writes the channel's stream; [`Token::NONE`] if it does not.
    stream_token: Cell<Token>,
    /// It is to be known when something was last written.
    pub(super) notes_writes: Cell<bool>,
    pub(super) dropping: Cell<DropState>,
    pub(super) transport_end: Cell<TransportCloseState>,
    pub(super) halves: HalfClosureState,
    pub(super) unhandled: Flood,
}

/// What few channels have, and those not for long.
#[derive(Default)]
pub(super) struct ColdFields {
    /// Calls that have to wait because others have called each other too deep (rule 7).
    pub(super) entries: VecDeque<DeferredCall>,
    /// Slots with so much to deliver that others have their turn before the rest.
    pub(super) backlogs: VecDeque<SlotId>,
    pub(super) completions: VecDeque<(Completion, Result<(), Error>)>,
    /// Those that have not found a place in the short queue.
    pub(super) steps: VecDeque<LifecycleStep>,
    pub(super) ending: CloseWaiters,
    pub(super) connecting: Option<Box<Connecting>>,
    pub(super) last_write: Option<Nanos>,
    pub(super) unhandled_errors: Flood,
    /// When one of them was last reported.
    pub(super) error_reported: Option<Nanos>,
    pub(super) handler_failures: Flood,
    /// Ends the pause of its reads.
    pub(super) pause: Option<TimerKey>,
    offloading: Offloading,
}

/// What does not change about the transport.
pub(super) struct TransportInfo {
    /// It writes a stream of bytes, not messages.
    pub(super) is_stream: bool,
    /// And takes bytes for it.
    pub(super) takes_bytes: bool,
    /// Given to it with every call.
    up: TransportContext,
}

/// What is to be done when the outermost call has returned.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DeferredWork(u8);

impl DeferredWork {
    const LISTED: DeferredWork = DeferredWork(1);
    pub(super) const ENTRIES: DeferredWork = DeferredWork(1 << 1);
    pub(super) const FLUSH: DeferredWork = DeferredWork(1 << 2);
    pub(super) const COMPLETIONS: DeferredWork = DeferredWork(1 << 3);
    pub(super) const WRITABILITY: DeferredWork = DeferredWork(1 << 4);
    pub(super) const STEPS: DeferredWork = DeferredWork(1 << 5);
    pub(super) const PUMP: DeferredWork = DeferredWork(1 << 6);
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
        let takes_bytes = is_stream && transport.accepts().include(TypeId::of::<Bytes>());
        Rc::new_cyclic(|own| Self {
            below: TransportInfo {
                is_stream,
                takes_bytes,
                up: TransportContext::new(&here, own.clone()),
            },
            here,
            reading: ReadState::new(&shared.options),
            shared,
            handlers: Handlers::new(),
            transport: RefCell::new(transport),
            life: Cell::new(Lifecycle::new()),
            entered: Cell::new(false),
            work: Cell::default(),
            steps: StepQueue::default(),
            cold: ColdState::default(),
            out: RefCell::default(),
            level: Writability::default(),
            writing: Cell::default(),
            stream_token: Cell::new(Token::NONE),
            notes_writes: Cell::new(false),
            dropping: Cell::default(),
            transport_end: Cell::default(),
            halves: HalfClosureState::default(),
            unhandled: Flood::default(),
        })
    }

    pub(crate) fn shared(&self) -> &Arc<ChannelShared> {
        &self.shared
    }

    pub(crate) fn offloading(&self) -> RefMut<'_, Offloading> {
        RefMut::map(self.cold.get_or_create(), |cold| &mut cold.offloading)
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
        call(&mut **self.transport.borrow_mut(), &self.below.up)
    }

    /// Calls the transport for something by which it gets a socket, or loses it.
    pub(super) fn move_transport<R>(
        self: &Rc<Self>,
        call: impl FnOnce(&mut dyn Transport, &TransportContext) -> R,
    ) -> R {
        self.stream_token.set(Token::NONE);
        let moved = self.with_transport(call);
        self.stream_token.set(self.transport.borrow().stream_token().unwrap_or(Token::NONE));
        moved
    }

    /// The token under which the loop's driver writes the channel's stream, if it does.
    #[inline(always)]
    pub(super) fn stream_token(&self) -> Option<Token> {
        Some(self.stream_token.get()).filter(|token| *token != Token::NONE)
    }

    /// Sets an option of the transport.
    pub(crate) fn set_option(self: &Rc<Self>, option: SocketOption) -> Result<(), Error> {
        if !self.life.get().is_open() {
            return Err(self.closed_error());
        }
        self.with_transport(|transport, up| transport.set_option(Some(up), option))
    }

    /// The transport's end of the pipeline, as far as types go.
    pub(crate) fn ends(&self) -> Ends {
        let transport = self.transport.borrow();
        Ends { name: transport.name(), reads: transport.reads(), accepts: transport.accepts() }
    }

    // Getting in.

    /// Lets an event in, from one of the two ends: at once, or in turn.
    #[inline]
    pub(crate) fn accept<E: Event>(self: &Rc<Self>, from: u32, event: E) {
        if self.must_wait() {
            self.queue_event(from, event.any());
        } else {
            self.enter(|core| core.go(from, event));
        }
    }

    /// Lets a call in: at once, or in turn.
    pub(crate) fn enter_with(self: &Rc<Self>, call: impl FnOnce(&Rc<Self>) + 'static) {
        if self.must_wait() {
            self.queue(DeferredCall::Call(Box::new(call)));
        } else {
            self.enter(call);
        }
    }

    /// Lets a message and a flush in, as one call.
    pub(crate) fn write_and_flush(self: &Rc<Self>, msg: Msg, done: Completion) {
        if self.must_wait() {
            self.queue_event(TAIL, Write(msg, done).any());
            self.queue_event(TAIL, Flush.any());
        } else {
            self.enter(|core| {
                core.go(TAIL, Write(msg, done));
                core.go(TAIL, Flush);
            });
        }
    }

    #[inline]
    fn must_wait(&self) -> bool {
        let too_deep = !self.entered.get() && self.here.channels().is_too_deep();
        too_deep || self.cold.get().is_some_and(|cold| !cold.entries.is_empty())
    }

    /// Calls into the channel. A panic is caught here, wherever the call came from (rule 11); when the
    /// outermost call has returned, what was marked is done.
    #[inline]
    pub(crate) fn enter(self: &Rc<Self>, call: impl FnOnce(&Rc<Self>)) {
        if self.here.channels().is_innermost(self) {
            return call(self);
        }
        self.enter_anew(call);
    }

    /// Calls into the channel from outside of it, as [`enter`](Self::enter) does.
    #[inline(always)]
    pub(super) fn enter_anew(self: &Rc<Self>, call: impl FnOnce(&Rc<Self>)) {
        let channels = self.here.channels();
        let outer = channels.descend(self);
        // Its handlers may be on the stack already, below those of another channel. A panic ends here
        // all the same: the other one has no part in it.
        let entered = self.entered.replace(true);
        let outcome = catch_unwind(AssertUnwindSafe(|| call(self)));
        self.entered.set(entered);
        match outcome {
            Ok(()) => channels.ascend(self, outer),
            Err(payload) => {
                channels.fall_back(self, outer);
                self.panicked(payload);
                channels.settle_if_outermost();
            }
        }
    }

    /// Calls into the channel from the loop, with no call into any channel under way. What the call has left behind
    /// is done under the same guard.
    #[inline(always)]
    pub(super) fn enter_from_loop(self: &Rc<Self>, call: impl FnOnce(&Rc<Self>)) {
        let channels = self.here.channels();
        channels.begin_only(self);
        self.entered.set(true);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            call(self);
            self.entered.set(false);
            if channels.end_only() {
                self.do_work();
                channels.end_settling();
            }
        }));
        if let Err(payload) = outcome {
            self.panicked_from_loop(payload);
        }
    }

    // What is left to do.

    /// Marks work, to be done when the outermost call has returned.
    #[inline]
    pub(crate) fn mark(self: &Rc<Self>, work: DeferredWork) {
        let before = self.work.get();
        self.work.set(DeferredWork(before.0 | work.0 | DeferredWork::LISTED.0));
        if !before.has(DeferredWork::LISTED) {
            self.here.channels().list(self);
        }
    }

    /// Does the work that was marked. Called by the loop, with nothing on the stack. Handlers and
    /// completions are guarded on their own; what is left is the transport, and the destructor of what it has sent.
    pub(crate) fn settle(self: &Rc<Self>) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| self.do_work())) {
            self.work_panicked(payload);
        }
    }

    #[inline(always)]
    fn do_work(self: &Rc<Self>) {
        let work = self.work.take();
        if work.0 & !(DeferredWork::LISTED.0 | DeferredWork::FLUSH.0) != 0 {
            return self.do_all(work);
        }
        // Mostly that is all there is.
        if !self.write_one_chunk() {
            self.write_out();
        }
        if self.level.has_changed() {
            self.announce_writability();
        }
    }

    fn do_all(self: &Rc<Self>, work: DeferredWork) {
        if work.has(DeferredWork::POISONED) && self.has_poisoned() {
            // Something on its way has caught the panic: a listener's guard, or a destructor's.
            self.panicked(Box::new("a panic that was caught, and reported, on its way"));
        }
        if work.has(DeferredWork::PUMP) {
            self.pump();
        }
        if work.has(DeferredWork::ENTRIES) {
            self.go_on_with_backlogs();
            self.let_in();
        }
        if work.has(DeferredWork::FLUSH) {
            self.write_out();
        }
        if work.has(DeferredWork::COMPLETIONS) {
            self.tell_completions();
        }
        if self.level.has_changed() {
            self.announce_writability();
        }
        if work.has(DeferredWork::STEPS) {
            self.take_steps();
        }
    }
}

impl Drop for ChannelCore {
    fn drop(&mut self) {
        if self.shared.is_close_told() {
            return;
        }
        // Of a loop that has ended without telling: whoever waits learns that nobody will.
        self.shared.set_closed();
        self.shared.attributes.tell_closed(&self.shared);
        drop(self.shared.take_closed());
    }
}

impl fmt::Debug for ChannelCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Channel").field(&self.shared.id).finish()
    }
}
