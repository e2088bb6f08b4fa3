//! One place of a pipeline: its handler, what is known of it, and what waits there.
//!
//! ```text
//!   slot ─┬ handler     None while it runs
//!         ├ stops       what the walk stops for
//!         └ about       its name, its types; and for those that have them
//!             └ more    timers, the way to another executor, what came while it ran (rules 2 to 4)
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use super::name::Name;
use super::slot_list::{HEAD, TAIL};
use crate::pipeline::context::timers::SlotTimer;
use crate::pipeline::dispatch::event::AnyEvent;
use crate::pipeline::event_set::Events;
use crate::pipeline::handler::Handler;
use crate::pipeline::offload::OffloadLink;
use crate::pipeline::typed::signature::{Signature, TypeTag};
use crate::queue_capacity::shrink_if_empty;

pub(crate) struct Slot {
    /// `None` while it runs, at both ends, and when the slot is free.
    pub(crate) handler: Option<Box<dyn Handler>>,
    pub(crate) next: u32,
    pub(crate) prev: u32,
    /// What the walk stops for.
    pub(super) stops_for: Events,
    pub(crate) state: SlotState,
    /// Something waits here.
    has_backlog: bool,
    pub(super) info: Option<Box<HandlerInfo>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotState {
    Free,
    /// Added in an edit that is not through yet: in its place, but nothing stops here.
    Staged,
    Live,
    /// To be removed by an edit that is not through yet.
    Leaving,
    /// Removed while it runs: gone when the call returns.
    Removed,
    /// Removed, but events stop here until what was on its way to its offloaded handler has come
    /// through.
    Lingering,
    /// A panic has passed through its handler.
    Poisoned,
}

/// What is known of a handler besides the handler.
pub(crate) struct HandlerInfo {
    pub(crate) name: Name,
    /// Its type.
    pub(crate) handler_type: &'static TypeTag,
    pub(crate) interest: Events,
    /// Tells it from those that were in the same place before.
    pub(super) generation: u32,
    /// `None` if it says nothing.
    signature: Option<Box<Signature>>,
    /// Made when it is first needed, kept from then on.
    cold: Option<Box<ColdSlotState>>,
}

/// What few handlers have.
#[derive(Default)]
pub(crate) struct ColdSlotState {
    /// Its timers that are not due yet.
    pub(crate) timers: Vec<SlotTimer>,
    /// If it runs on another executor: the way there.
    pub(crate) offload_link: Option<Arc<OffloadLink>>,
    pub(crate) backlog: Backlog,
    /// The handler, while others have their turn before the rest of the backlog: it counts as running.
    pub(crate) suspended: Option<Box<dyn Handler>>,
}

/// What came to a slot while its handler ran.
#[derive(Default)]
pub(crate) struct Backlog {
    events: VecDeque<QueuedEvent>,
    /// How many of them were there before the running call began.
    older_than_call: usize,
    /// How many of them are writes.
    writes: usize,
    /// They are being delivered.
    is_delivering: bool,
    /// How many have come while others were delivered, since there were none: those that the handler causes
    /// itself, and that may go on for ever.
    added_during_delivery: usize,
}

/// An event that waits at a slot.
pub(crate) struct QueuedEvent {
    pub(crate) event: AnyEvent,
    /// What it adds to the bytes that wait to be written. Asked once: a message may change its mind.
    pub(crate) bytes: usize,
    /// For the handler; otherwise past it, to the next one.
    pub(crate) for_handler: bool,
}

impl Backlog {
    fn push(&mut self, queued: QueuedEvent) {
        self.added_during_delivery += usize::from(self.is_delivering);
        self.writes += usize::from(matches!(queued.event, AnyEvent::Write(_)));
        self.events.push_back(queued);
    }

    /// The next one; whatever is left is older than the call that follows.
    pub(crate) fn pop(&mut self) -> Option<QueuedEvent> {
        let queued = self.events.pop_front()?;
        self.writes -= usize::from(matches!(queued.event, AnyEvent::Write(_)));
        self.older_than_call = self.events.len();
        shrink_if_empty(&mut self.events);
        Some(queued)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub(crate) fn writes(&self) -> usize {
        self.writes
    }
}

impl HandlerInfo {
    pub(crate) fn new<H: Handler>(name: Name, handler: &H) -> Self {
        let (interest, signature) = (handler.interest(), handler.signature());
        Self {
            name,
            handler_type: TypeTag::of_any::<H>(),
            interest,
            generation: 0,
            signature: (!signature.is_any()).then(|| Box::new(signature)),
            cold: None,
        }
    }

    /// What few handlers have, if it does.
    pub(crate) fn cold(&self) -> Option<&ColdSlotState> {
        self.cold.as_deref()
    }

    pub(crate) fn cold_mut(&mut self) -> &mut ColdSlotState {
        self.cold.get_or_insert_default()
    }

    pub(crate) fn take_cold(mut self) -> Option<Box<ColdSlotState>> {
        self.cold.take()
    }

    pub(crate) fn link(&self) -> Option<Arc<OffloadLink>> {
        self.cold()?.offload_link.clone()
    }

    /// True if it says something of its types.
    pub(crate) fn has_signature(&self) -> bool {
        self.signature.is_some()
    }

    pub(crate) fn signature(&self) -> Signature {
        self.signature.as_deref().copied().unwrap_or(Signature::any())
    }
}

impl Slot {
    pub(super) fn end(prev: u32, next: u32) -> Self {
        Self { prev, next, stops_for: Events::ALL, state: SlotState::Live, ..Self::free() }
    }

    pub(super) fn free() -> Self {
        Self {
            handler: None,
            next: TAIL,
            prev: HEAD,
            stops_for: Events::NONE,
            state: SlotState::Free,
            has_backlog: false,
            info: None,
        }
    }

    /// Whether something waits here.
    #[inline]
    pub(crate) fn has_backlog(&self) -> bool {
        self.has_backlog
    }

    /// Whether something came since the running call began: what the handler emits outward from now
    /// on has to stand behind it (rule 3).
    #[inline]
    pub(crate) fn must_queue_outbound(&self) -> bool {
        self.has_backlog
            && self.backlog().is_some_and(|backlog| backlog.events.len() > backlog.older_than_call)
    }

    /// Takes the handler out, to be called. What waits here is older than that call.
    #[inline]
    pub(crate) fn begin_call(&mut self) -> Option<Box<dyn Handler>> {
        let handler = self.handler.take()?;
        if self.has_backlog
            && let Some(backlog) = self.backlog_mut()
        {
            backlog.older_than_call = backlog.events.len();
        }
        Some(handler)
    }

    /// Puts the handler back after its call.
    #[inline]
    pub(crate) fn end_call(&mut self, handler: Box<dyn Handler>) {
        let previous = self.handler.replace(handler);
        debug_assert!(previous.is_none(), "it was backlog out");
        std::mem::forget(previous); // Spares the way out a destructor that finds nothing to do.
    }

    fn backlog(&self) -> Option<&Backlog> {
        self.info()?.cold().map(|cold| &cold.backlog)
    }

    fn backlog_mut(&mut self) -> Option<&mut Backlog> {
        self.info_mut()?.cold.as_deref_mut().map(|cold| &mut cold.backlog)
    }

    /// Lets an event wait; how many writes do so now.
    pub(crate) fn enqueue(&mut self, queued: QueuedEvent) -> usize {
        self.has_backlog = true;
        let Some(info) = self.info_mut() else { unreachable!("nothing waits at the ends") };
        let backlog = &mut info.cold_mut().backlog;
        backlog.push(queued);
        backlog.writes
    }

    /// Begins to deliver what waits here. Returns how many came while others were delivered, and
    /// how many wait now.
    pub(crate) fn begin_delivery(&mut self) -> (usize, usize) {
        self.backlog_mut().map_or((0, 0), |backlog| {
            backlog.is_delivering = true;
            (backlog.added_during_delivery, backlog.events.len())
        })
    }

    /// Returns how many of the waiting events came while others were delivered.
    pub(crate) fn added_during_delivery(&self) -> usize {
        self.backlog().map_or(0, |backlog| backlog.added_during_delivery)
    }

    /// How many wait here.
    pub(crate) fn backlog_len(&self) -> usize {
        self.backlog().map_or(0, |backlog| backlog.events.len())
    }

    /// Everything that has waited here was delivered, and the handler is put back.
    pub(crate) fn end_delivery(&mut self, handler: Box<dyn Handler>) {
        if let Some(backlog) = self.backlog_mut() {
            (backlog.is_delivering, backlog.added_during_delivery) = (false, 0);
        }
        self.handler = Some(handler);
    }

    /// The rest is delivered later.
    pub(crate) fn suspend(&mut self, handler: Box<dyn Handler>) {
        if let Some(cold) = self.info_mut().map(HandlerInfo::cold_mut) {
            cold.backlog.is_delivering = false;
            cold.suspended = Some(handler);
        }
    }

    /// Takes the handler out that was parked.
    pub(crate) fn take_suspended(&mut self) -> Option<Box<dyn Handler>> {
        self.info_mut()?.cold.as_mut()?.suspended.take()
    }

    /// Takes out all that waits here.
    pub(crate) fn take_backlog(&mut self) -> Backlog {
        self.has_backlog = false;
        let backlog = self.backlog_mut().map(std::mem::take).unwrap_or_default();
        let _ = self.begin_delivery();
        backlog
    }

    /// The next one that waits, with how many writes did so before and do now. None if so many were caused.
    pub(crate) fn next_queued(&mut self, max_added: usize) -> Option<(QueuedEvent, usize, usize)> {
        let backlog =
            self.backlog_mut().filter(|backlog| backlog.added_during_delivery <= max_added)?;
        let before = backlog.writes;
        let queued = backlog.pop()?;
        let (after, has_more) = (backlog.writes, !backlog.is_empty());
        self.has_backlog = has_more;
        Some((queued, before, after))
    }

    pub(crate) fn info(&self) -> Option<&HandlerInfo> {
        self.info.as_deref()
    }

    pub(crate) fn info_mut(&mut self) -> Option<&mut HandlerInfo> {
        self.info.as_deref_mut()
    }

    /// Whether it is part of the pipeline as an edit under way sees it.
    pub(crate) fn is_present(&self) -> bool {
        matches!(self.state, SlotState::Live | SlotState::Staged)
    }
}
