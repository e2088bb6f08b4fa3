//! One slot of a pipeline: its handler, the handler's name and types, and the events queued for it.
//!
//! ```text
//!   slot ─┬ handler     None while the handler runs
//!         ├ stops_for   the events that stop at this slot
//!         └ info        name, type and signature of the handler
//!             └ cold    timers, the link to another executor, the backlog (rules 2 to 4); allocated on first use
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use super::name::Name;
use super::slot_list::{HEAD, TAIL};
use crate::base::queue_capacity::shrink_if_empty;
use crate::pipeline::context::timers::SlotTimer;
use crate::pipeline::dispatch::event::AnyEvent;
use crate::pipeline::event_set::Events;
use crate::pipeline::handler::Handler;
use crate::pipeline::message::Msg;
use crate::pipeline::offload::OffloadLink;
use crate::pipeline::typed::signature::{Signature, TypeTag};

/// One slot of a pipeline: a handler, or one of the two ends.
pub(crate) struct Slot {
    /// `None` while the handler runs, at both ends of the pipeline, and in a free slot.
    pub(crate) handler: Option<Box<dyn Handler>>,
    pub(crate) next: u32,
    pub(crate) prev: u32,
    /// The events that stop at this slot; all others skip it.
    pub(super) stops_for: Events,
    pub(crate) state: SlotState,
    /// True while events are queued at this slot, or one waits for the return of its handler.
    has_backlog: bool,
    pub(super) info: Option<Box<HandlerInfo>>,
}

/// The life cycle of a slot: free, staged, live, then one of the ways of being removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotState {
    /// Not in use; in the list of free slots.
    Free,
    /// Added by an edit that is not committed yet: linked in its place, but no event stops here.
    Staged,
    /// Takes part in the pipeline.
    Live,
    /// Marked for removal by an edit that is not committed yet.
    Leaving,
    /// Removed while its handler runs; unlinked when the call returns.
    Removed,
    /// Removed, but all events stop here until its offloaded handler has processed everything that was
    /// queued for it.
    Lingering,
    /// The slot's handler panicked, or a panic of a handler that it called passed through it.
    Poisoned,
}

/// The name, types and events of a handler, beside the handler itself.
pub(crate) struct HandlerInfo {
    pub(crate) name: Name,
    /// The type of the handler.
    pub(crate) handler_type: &'static TypeTag,
    pub(crate) interest: Events,
    /// Distinguishes the handler from earlier ones in the same slot.
    pub(super) generation: u32,
    /// `None` if the handler declares no types.
    signature: Option<Box<Signature>>,
    /// Allocated on first use, kept from then on.
    cold: Option<Box<ColdSlotState>>,
}

/// The part of a slot's state that few handlers need.
#[derive(Default)]
pub(crate) struct ColdSlotState {
    /// The handler's timers that are not due yet.
    pub(crate) timers: Vec<SlotTimer>,
    /// The link to the executor of an offloaded handler.
    pub(crate) offload_link: Option<Arc<OffloadLink>>,
    pub(crate) backlog: Backlog,
    /// The event that the handler fires when its call returns.
    pub(crate) on_return: Option<EventOnReturn>,
    /// The handler while the delivery of its backlog is suspended, so that other channels get a turn. The handler
    /// counts as running meanwhile.
    pub(crate) suspended: Option<Box<dyn Handler>>,
}

/// An event that a handler fires when its call has returned.
pub(crate) enum EventOnReturn {
    Read(Msg),
    ReadComplete,
}

/// The events that reached a slot while its handler ran.
#[derive(Default)]
pub(crate) struct Backlog {
    events: VecDeque<QueuedEvent>,
    /// The number of events queued before the current call of the handler began.
    older_than_call: usize,
    /// The number of writes among the events.
    writes: usize,
    /// True while the backlog is being delivered.
    is_delivering: bool,
    /// The number of events queued during deliveries since the backlog was last empty. The handler causes these
    /// events itself, possibly without end.
    added_during_delivery: usize,
}

/// An event queued at a slot.
pub(crate) struct QueuedEvent {
    pub(crate) event: AnyEvent,
    /// The pending bytes that the event adds. Computed once, because a message may change its size hint.
    pub(crate) bytes: usize,
    /// True if the event is for the handler; false if the event continues to the next slot.
    pub(crate) is_for_handler: bool,
}

impl Backlog {
    fn push(&mut self, queued: QueuedEvent) {
        self.added_during_delivery += usize::from(self.is_delivering);
        self.writes += usize::from(matches!(queued.event, AnyEvent::Write(_)));
        self.events.push_back(queued);
    }

    /// Takes the next event. The remaining ones count as older than the call that follows.
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

    /// Returns the cold state, if it was allocated.
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

    /// True if the handler declares its types.
    pub(crate) fn has_signature(&self) -> bool {
        self.signature.is_some()
    }

    pub(crate) fn signature(&self) -> Signature {
        self.signature.as_deref().copied().unwrap_or(Signature::any())
    }
}

impl Slot {
    /// Returns the slot of one end of a pipeline, which stops every event.
    pub(super) fn pipeline_end(prev: u32, next: u32) -> Self {
        Self { prev, next, stops_for: Events::ALL, state: SlotState::Live, ..Self::free() }
    }

    /// Returns a free slot.
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

    /// True while events are queued at this slot, or one waits for the return of its handler.
    #[inline]
    pub(crate) fn has_backlog(&self) -> bool {
        self.has_backlog
    }

    /// True if an event was queued since the current call of the handler began. Outbound events that the handler sends
    /// from then on have to queue after it (rule 3).
    #[inline]
    pub(crate) fn must_queue_outbound(&self) -> bool {
        self.has_backlog
            && self.backlog().is_some_and(|backlog| backlog.events.len() > backlog.older_than_call)
    }

    /// Takes the handler out for a call. Events queued so far count as older than that call.
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
        debug_assert!(previous.is_none(), "the handler was taken out");
        std::mem::forget(previous); // Always `None`: saves the check of its destructor on the way out.
    }

    /// Keeps an event until the call of the handler returns. Returns the one that was kept before.
    pub(crate) fn set_on_return(&mut self, event: EventOnReturn) -> Option<EventOnReturn> {
        let previous = self.info_mut()?.cold_mut().on_return.replace(event);
        self.has_backlog = true;
        previous
    }

    /// Takes the event that waits for the return of the handler.
    pub(crate) fn take_on_return(&mut self) -> Option<EventOnReturn> {
        let cold = self.info.as_deref_mut()?.cold.as_deref_mut()?;
        let event = cold.on_return.take()?;
        self.has_backlog = !cold.backlog.is_empty();
        Some(event)
    }

    fn backlog(&self) -> Option<&Backlog> {
        self.info()?.cold().map(|cold| &cold.backlog)
    }

    fn backlog_mut(&mut self) -> Option<&mut Backlog> {
        self.info_mut()?.cold.as_deref_mut().map(|cold| &mut cold.backlog)
    }

    /// Queues an event. Returns how many writes are queued now.
    pub(crate) fn enqueue(&mut self, queued: QueuedEvent) -> usize {
        self.has_backlog = true;
        let Some(info) = self.info_mut() else {
            unreachable!("events are never queued at the ends of a pipeline")
        };
        let backlog = &mut info.cold_mut().backlog;
        backlog.push(queued);
        backlog.writes
    }

    /// Begins a delivery of the backlog. Returns how many events earlier deliveries have added, and how
    /// many are queued now.
    pub(crate) fn begin_delivery(&mut self) -> (usize, usize) {
        self.backlog_mut().map_or((0, 0), |backlog| {
            backlog.is_delivering = true;
            (backlog.added_during_delivery, backlog.events.len())
        })
    }

    /// Returns how many events were queued during deliveries since the backlog was last empty.
    pub(crate) fn added_during_delivery(&self) -> usize {
        self.backlog().map_or(0, |backlog| backlog.added_during_delivery)
    }

    /// Returns how many events are queued here.
    pub(crate) fn backlog_len(&self) -> usize {
        self.backlog().map_or(0, |backlog| backlog.events.len())
    }

    /// Ends the delivery of the backlog, which is empty now, and puts the handler back.
    pub(crate) fn end_delivery(&mut self, handler: Box<dyn Handler>) {
        if let Some(backlog) = self.backlog_mut() {
            (backlog.is_delivering, backlog.added_during_delivery) = (false, 0);
        }
        self.handler = Some(handler);
    }

    /// Suspends the delivery; the rest of the backlog is delivered later.
    pub(crate) fn suspend(&mut self, handler: Box<dyn Handler>) {
        if let Some(cold) = self.info_mut().map(HandlerInfo::cold_mut) {
            cold.backlog.is_delivering = false;
            cold.suspended = Some(handler);
        }
    }

    /// Takes the handler whose delivery was suspended.
    pub(crate) fn take_suspended(&mut self) -> Option<Box<dyn Handler>> {
        self.info_mut()?.cold.as_mut()?.suspended.take()
    }

    /// Takes all queued events.
    pub(crate) fn take_backlog(&mut self) -> Backlog {
        self.has_backlog = false;
        let backlog = self.backlog_mut().map(std::mem::take).unwrap_or_default();
        let _ = self.begin_delivery();
        backlog
    }

    /// Takes the next queued event, and returns it with the number of queued writes before and after. `None` if the
    /// backlog is empty, or if deliveries have added more than `max_added` events.
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

    /// True if the slot is part of the pipeline as an edit in progress sees it.
    pub(crate) fn is_present(&self) -> bool {
        matches!(self.state, SlotState::Live | SlotState::Staged)
    }
}
