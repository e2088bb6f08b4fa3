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

use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell, RefMut};
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use waterwheel_executor::engine::{panic_message, report, run_user_code};
use waterwheel_executor::{Error, ErrorKind, Fault, Nanos, Origin, TimerKey, UserCode};

use super::closing::{Ending, TransportEnd};
use super::connecting::Connecting;
use super::half_closure::Halves;
use super::handle::Channel;
use super::level::Level;
use super::lifecycle::Lifecycle;
use super::options::ChannelOptions;
use super::outbound::Outbound;
use super::rarely::Rarely;
use super::reading::Reading;
use super::shared::ChannelShared;
use super::steps::{Step, Steps};
use super::transport::{Transport, Upcalls};
use super::writing::{Dropping, Writing};
use crate::driver::SocketOption;
use crate::event_loop::local_loop::LocalLoop;
use crate::flood::Flood;
use crate::pipeline::dispatch::Handlers;
use crate::pipeline::event::{AnyEvent, Event, Flush, Write};
use crate::pipeline::offload::Offloading;
use crate::pipeline::slots::{SlotId, TAIL};
use crate::pipeline::type_check::Ends;
use crate::pipeline::{Completion, Msg};
use crate::room::release_room;
use crate::token::Token;

/// A channel, on its loop. Nothing in here is borrowed while user code runs.
pub(crate) struct ChannelCore {
    pub(crate) here: LocalLoop,
    pub(super) shared: Arc<ChannelShared>,
    pub(crate) handlers: Handlers,
    pub(super) transport: RefCell<Box<dyn Transport>>,
    pub(super) below: Below,
    pub(super) life: Cell<Lifecycle>,
    /// One of its handlers runs, or could.
    entered: Cell<bool>,
    work: Cell<Work>,
    pub(super) steps: Steps,
    pub(super) rare: Rarely<Rare>,
    pub(super) out: RefCell<Outbound>,
    pub(super) level: Level,
    pub(super) reading: Reading,
    pub(super) writing: Cell<Writing>,
    /// The token under which the loop's driver writes the channel's stream; [`Token::NONE`] if it does not.
    stream_token: Cell<Token>,
    /// It is to be known when something was last written.
    pub(super) notes_writes: Cell<bool>,
    pub(super) dropping: Cell<Dropping>,
    pub(super) transport_end: Cell<TransportEnd>,
    pub(super) halves: Halves,
    pub(super) unhandled: Flood,
}

/// What few channels have, and those not for long.
#[derive(Default)]
pub(super) struct Rare {
    /// Calls that have to wait because others have called each other too deep (rule 7).
    entries: VecDeque<Entry>,
    /// Slots with so much to deliver that others have their turn before the rest.
    backlogs: VecDeque<SlotId>,
    completions: VecDeque<(Completion, Result<(), Error>)>,
    /// Those that have not found a place in the short queue.
    pub(super) steps: VecDeque<Step>,
    pub(super) ending: Ending,
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
pub(super) struct Below {
    /// It writes a stream of bytes, not messages.
    pub(super) is_stream: bool,
    /// And takes bytes for it.
    pub(super) takes_bytes: bool,
    /// Given to it with every call.
    up: Upcalls,
}

/// A call that waits to be let in.
enum Entry {
    /// From where, and how much it adds to the bytes that wait to be written.
    Event(u32, AnyEvent, usize),
    Call(LocalCall),
}

type LocalCall = Box<dyn FnOnce(&Rc<ChannelCore>)>;

/// What is to be done when the outermost call has returned.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Work(u8);

impl Work {
    const LISTED: Work = Work(1);
    const ENTRIES: Work = Work(1 << 1);
    pub(super) const FLUSH: Work = Work(1 << 2);
    const COMPLETIONS: Work = Work(1 << 3);
    pub(super) const WRITABILITY: Work = Work(1 << 4);
    pub(super) const STEPS: Work = Work(1 << 5);
    pub(super) const PUMP: Work = Work(1 << 6);
    pub(crate) const POISONED: Work = Work(1 << 7);
    const ALL: Work = Work(u8::MAX);

    fn has(self, work: Work) -> bool {
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
            below: Below { is_stream, takes_bytes, up: Upcalls::new(&here, own.clone()) },
            here,
            reading: Reading::new(&shared.options),
            shared,
            handlers: Handlers::new(),
            transport: RefCell::new(transport),
            life: Cell::new(Lifecycle::new()),
            entered: Cell::new(false),
            work: Cell::default(),
            steps: Steps::default(),
            rare: Rarely::default(),
            out: RefCell::default(),
            level: Level::default(),
            writing: Cell::default(),
            stream_token: Cell::new(Token::NONE),
            notes_writes: Cell::new(false),
            dropping: Cell::default(),
            transport_end: Cell::default(),
            halves: Halves::default(),
            unhandled: Flood::default(),
        })
    }

    pub(crate) fn shared(&self) -> &Arc<ChannelShared> {
        &self.shared
    }

    pub(crate) fn offloading(&self) -> RefMut<'_, Offloading> {
        RefMut::map(self.rare.make(), |rare| &mut rare.offloading)
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
        call: impl FnOnce(&mut dyn Transport, &Upcalls) -> R,
    ) -> R {
        call(&mut **self.transport.borrow_mut(), &self.below.up)
    }

    /// Calls the transport for something by which it gets a socket, or loses it.
    pub(super) fn move_transport<R>(
        self: &Rc<Self>,
        call: impl FnOnce(&mut dyn Transport, &Upcalls) -> R,
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
            self.queue(Entry::Call(Box::new(call)));
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
        too_deep || self.rare.look().is_some_and(|rare| !rare.entries.is_empty())
    }

    #[cold]
    fn queue_event(self: &Rc<Self>, from: u32, event: AnyEvent) {
        let bytes = event.pending_bytes();
        self.queue(Entry::Event(from, event, bytes));
        self.add_pending(bytes);
    }

    #[cold]
    fn queue(self: &Rc<Self>, entry: Entry) {
        self.rare.make().entries.push_back(entry);
        self.mark(Work::ENTRIES);
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

    #[cold]
    fn panicked_from_loop(self: &Rc<Self>, payload: Box<dyn Any + Send>) {
        let channels = self.here.channels();
        if self.entered.replace(false) {
            channels.fall_back(self, std::ptr::null());
            self.panicked(payload);
        } else {
            channels.end_settling();
            self.work_panicked(payload);
        }
    }

    /// A panic closes the channel, and harms nothing else.
    #[cold]
    fn panicked(self: &Rc<Self>, payload: Box<dyn Any + Send>) {
        let message = panic_message(payload);
        let (name, type_name) = self.take_culprit();
        let origin = Origin::labelled(type_name);
        let told = format!("`{name}` of {:?}: {message}", self.shared.id);
        let cause: Error = ErrorKind::Panicked { origin, message }.into();
        // Before anything fails because of it.
        if self.life.get().is_open() {
            self.shared.set_cause(cause.clone());
        }
        self.discard_poisoned();
        report(Fault::Panicked { what: UserCode::Handler, origin, message: told });
        self.close(Some(cause), Completion::none());
    }

    // What is left to do.

    /// Marks work, to be done when the outermost call has returned.
    #[inline]
    pub(crate) fn mark(self: &Rc<Self>, work: Work) {
        let before = self.work.get();
        self.work.set(Work(before.0 | work.0 | Work::LISTED.0));
        if !before.has(Work::LISTED) {
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

    #[cold]
    fn work_panicked(self: &Rc<Self>, payload: Box<dyn Any + Send>) {
        self.mark(Work::ALL); // Some of it may not have been done.
        match self.dropping.get() {
            Dropping::No => self.panicked(payload),
            _ => self.spent_panicked(payload),
        }
    }

    /// The destructor of what was sent panicked: that is reported, and harms nobody.
    #[cold]
    fn spent_panicked(self: &Rc<Self>, payload: Box<dyn Any + Send>) {
        let _ = guarded::<()>(UserCode::Destructor, "sent bytes", || resume_unwind(payload));
        self.end_dropping();
    }

    #[inline(always)]
    fn do_work(self: &Rc<Self>) {
        let work = self.work.take();
        if work.0 & !(Work::LISTED.0 | Work::FLUSH.0) != 0 {
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

    fn do_all(self: &Rc<Self>, work: Work) {
        if work.has(Work::POISONED) && self.has_poisoned() {
            // Something on its way has caught the panic: a listener's guard, or a destructor's.
            self.panicked(Box::new("a panic that was caught, and reported, on its way"));
        }
        if work.has(Work::PUMP) {
            self.pump();
        }
        if work.has(Work::ENTRIES) {
            self.go_on_with_backlogs();
            self.let_in();
        }
        if work.has(Work::FLUSH) {
            self.write_out();
        }
        if work.has(Work::COMPLETIONS) {
            self.tell_completions();
        }
        if self.level.has_changed() {
            self.announce_writability();
        }
        if work.has(Work::STEPS) {
            self.take_steps();
        }
    }

    /// The rest of what waits at a slot is delivered when others have had their turn.
    pub(crate) fn go_on_later(self: &Rc<Self>, slot: SlotId) {
        self.rare.make().backlogs.push_back(slot);
        self.mark(Work::ENTRIES);
    }

    fn go_on_with_backlogs(self: &Rc<Self>) {
        let waiting = self.rare.make().backlogs.len();
        for _ in 0..waiting {
            let Some(slot) = self.rare.make().backlogs.pop_front() else { return };
            self.enter(|core| core.go_on_with_backlog(slot));
        }
    }

    fn let_in(self: &Rc<Self>) {
        let waiting = self.rare.make().entries.len();
        for _ in 0..waiting {
            let Some(entry) = self.rare.make().entries.pop_front() else { return };
            self.enter(|core| match entry {
                Entry::Event(from, event, bytes) => {
                    core.remove_pending(bytes);
                    event.go_on(core, from);
                }
                Entry::Call(call) => call(core),
            });
        }
        release_room(&mut self.rare.make().entries);
    }

    /// Tells a completion what became of its operation, when the outermost call has returned.
    pub(crate) fn complete_later(self: &Rc<Self>, done: Completion, result: Result<(), Error>) {
        if !done.is_none() {
            self.rare.make().completions.push_back((done, result));
            self.mark(Work::COMPLETIONS);
        }
    }

    /// Those that are there now; those they cause wait for the next round.
    #[inline(always)]
    pub(super) fn tell_completions(self: &Rc<Self>) {
        if self.rare.has_value() {
            self.tell_those_there();
        }
    }

    fn tell_those_there(self: &Rc<Self>) {
        let waiting = self.rare.look().map_or(0, |rare| rare.completions.len());
        for _ in 0..waiting {
            let Some((done, result)) = self.rare.make().completions.pop_front() else { return };
            if let Err(error) = &result {
                self.operation_failure(&done, error);
            }
            done.complete(result);
        }
        if waiting > 0 {
            release_room(&mut self.rare.make().completions);
        }
    }

    pub(crate) fn drop_guarded<T>(&self, label: &'static str, value: T) {
        let _ = guarded(UserCode::Destructor, label, || drop(value));
    }
}

/// Calls `f`. A panic is reported; nothing comes back then.
pub(crate) fn guarded<R>(what: UserCode, label: &'static str, f: impl FnOnce() -> R) -> Option<R> {
    let called = catch_unwind(AssertUnwindSafe(f)).or_else(|payload| {
        // The label is made only when it is needed: it is kept for ever.
        let origin = Origin::labelled(label);
        run_user_code(what, origin, || resume_unwind(payload))
    });
    called.ok()
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
