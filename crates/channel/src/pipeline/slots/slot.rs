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
use crate::pipeline::offload::Link;
use crate::pipeline::typed::signature::{Signature, TypeTag};
use crate::queue_capacity::shrink_if_empty;

pub(crate) struct Slot {
    /// `None` while it runs, at both ends, and when the slot is free.
    pub(crate) handler: Option<Box<dyn Handler>>,
    pub(crate) next: u32,
    pub(crate) prev: u32,
    /// What the walk stops for.
    pub(super) stops: Events,
    pub(crate) state: SlotState,
    /// Something waits here.
    waits: bool,
    pub(super) about: Option<Box<About>>,
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
pub(crate) struct About {
    pub(crate) name: Name,
    /// Its type.
    pub(crate) kind: &'static TypeTag,
    pub(crate) interest: Events,
    /// Tells it from those that were in the same place before.
    pub(super) generation: u32,
    /// `None` if it says nothing.
    signature: Option<Box<Signature>>,
    /// Made when it is first needed, kept from then on.
    more: Option<Box<More>>,
}

/// What few handlers have.
#[derive(Default)]
pub(crate) struct More {
    /// Its timers that are not due yet.
    pub(crate) timers: Vec<SlotTimer>,
    /// If it runs on another executor: the way there.
    pub(crate) offloaded: Option<Arc<Link>>,
    pub(crate) backlog: Backlog,
    /// The handler, while others have their turn before the rest of the backlog: it counts as running.
    pub(crate) parked: Option<Box<dyn Handler>>,
}

/// What came to a slot while its handler ran.
#[derive(Default)]
pub(crate) struct Backlog {
    waiting: VecDeque<Waiting>,
    /// How many of them were there before the running call began.
    older: usize,
    /// How many of them are writes.
    writes: usize,
    /// They are being delivered.
    delivering: bool,
    /// How many have come while others were delivered, since there were none: those that the handler causes
    /// itself, and that may go on for ever.
    caused: usize,
}

/// An event that waits at a slot.
pub(crate) struct Waiting {
    pub(crate) event: AnyEvent,
    /// What it adds to the bytes that wait to be written. Asked once: a message may change its mind.
    pub(crate) bytes: usize,
    /// For the handler; otherwise past it, to the next one.
    pub(crate) for_handler: bool,
}

impl Backlog {
    fn push(&mut self, waiting: Waiting) {
        self.caused += usize::from(self.delivering);
        self.writes += usize::from(matches!(waiting.event, AnyEvent::Write(_)));
        self.waiting.push_back(waiting);
    }

    /// The next one; whatever is left is older than the call that follows.
    pub(crate) fn pop(&mut self) -> Option<Waiting> {
        let waiting = self.waiting.pop_front()?;
        self.writes -= usize::from(matches!(waiting.event, AnyEvent::Write(_)));
        self.older = self.waiting.len();
        shrink_if_empty(&mut self.waiting);
        Some(waiting)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn writes(&self) -> usize {
        self.writes
    }
}

impl About {
    pub(crate) fn new<H: Handler>(name: Name, handler: &H) -> Self {
        let (interest, signature) = (handler.interest(), handler.signature());
        Self {
            name,
            kind: TypeTag::of_any::<H>(),
            interest,
            generation: 0,
            signature: (!signature.is_any()).then(|| Box::new(signature)),
            more: None,
        }
    }

    /// What few handlers have, if it does.
    pub(crate) fn more(&self) -> Option<&More> {
        self.more.as_deref()
    }

    pub(crate) fn more_mut(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }

    pub(crate) fn take_more(mut self) -> Option<Box<More>> {
        self.more.take()
    }

    pub(crate) fn link(&self) -> Option<Arc<Link>> {
        self.more()?.offloaded.clone()
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
        Self { prev, next, stops: Events::ALL, state: SlotState::Live, ..Self::free() }
    }

    pub(super) fn free() -> Self {
        Self {
            handler: None,
            next: TAIL,
            prev: HEAD,
            stops: Events::NONE,
            state: SlotState::Free,
            waits: false,
            about: None,
        }
    }

    /// Whether something waits here.
    #[inline]
    pub(crate) fn has_backlog(&self) -> bool {
        self.waits
    }

    /// Whether something came since the running call began: what the handler emits outward from now
    /// on has to stand behind it (rule 3).
    #[inline]
    pub(crate) fn holds_back(&self) -> bool {
        self.waits && self.backlog().is_some_and(|backlog| backlog.waiting.len() > backlog.older)
    }

    /// Takes the handler out, to be called. What waits here is older than that call.
    #[inline]
    pub(crate) fn begin_call(&mut self) -> Option<Box<dyn Handler>> {
        let handler = self.handler.take()?;
        if self.waits
            && let Some(backlog) = self.backlog_mut()
        {
            backlog.older = backlog.waiting.len();
        }
        Some(handler)
    }

    /// Puts the handler back after its call.
    #[inline]
    pub(crate) fn end_call(&mut self, handler: Box<dyn Handler>) {
        let nobody = self.handler.replace(handler);
        debug_assert!(nobody.is_none(), "it was taken out");
        std::mem::forget(nobody); // Spares the way out a destructor that finds nothing to do.
    }

    fn backlog(&self) -> Option<&Backlog> {
        self.about()?.more().map(|more| &more.backlog)
    }

    fn backlog_mut(&mut self) -> Option<&mut Backlog> {
        self.about_mut()?.more.as_deref_mut().map(|more| &mut more.backlog)
    }

    /// Lets an event wait; how many writes do so now.
    pub(crate) fn wait(&mut self, waiting: Waiting) -> usize {
        self.waits = true;
        let Some(about) = self.about_mut() else { unreachable!("nothing waits at the ends") };
        let backlog = &mut about.more_mut().backlog;
        backlog.push(waiting);
        backlog.writes
    }

    /// Begins to deliver what waits here. Returns how many came while others were delivered, and
    /// how many wait now.
    pub(crate) fn begin_delivery(&mut self) -> (usize, usize) {
        self.backlog_mut().map_or((0, 0), |backlog| {
            backlog.delivering = true;
            (backlog.caused, backlog.waiting.len())
        })
    }

    /// Returns how many of the waiting events came while others were delivered.
    pub(crate) fn caused(&self) -> usize {
        self.backlog().map_or(0, |backlog| backlog.caused)
    }

    /// How many wait here.
    pub(crate) fn waiting(&self) -> usize {
        self.backlog().map_or(0, |backlog| backlog.waiting.len())
    }

    /// Everything that has waited here was delivered, and the handler is put back.
    pub(crate) fn end_delivery(&mut self, handler: Box<dyn Handler>) {
        if let Some(backlog) = self.backlog_mut() {
            (backlog.delivering, backlog.caused) = (false, 0);
        }
        self.handler = Some(handler);
    }

    /// The rest is delivered later.
    pub(crate) fn park(&mut self, handler: Box<dyn Handler>) {
        if let Some(more) = self.about_mut().map(About::more_mut) {
            more.backlog.delivering = false;
            more.parked = Some(handler);
        }
    }

    /// Takes the handler out that was parked.
    pub(crate) fn unpark(&mut self) -> Option<Box<dyn Handler>> {
        self.about_mut()?.more.as_mut()?.parked.take()
    }

    /// Takes out all that waits here.
    pub(crate) fn take_backlog(&mut self) -> Backlog {
        self.waits = false;
        let taken = self.backlog_mut().map(std::mem::take).unwrap_or_default();
        let _ = self.begin_delivery();
        taken
    }

    /// The next one that waits, with how many writes did so before and do now. None if so many were caused.
    pub(crate) fn next_waiting(&mut self, most: usize) -> Option<(Waiting, usize, usize)> {
        let backlog = self.backlog_mut().filter(|backlog| backlog.caused <= most)?;
        let before = backlog.writes;
        let waiting = backlog.pop()?;
        let (after, waits) = (backlog.writes, !backlog.is_empty());
        self.waits = waits;
        Some((waiting, before, after))
    }

    pub(crate) fn about(&self) -> Option<&About> {
        self.about.as_deref()
    }

    pub(crate) fn about_mut(&mut self) -> Option<&mut About> {
        self.about.as_deref_mut()
    }

    /// Whether it is part of the pipeline as an edit under way sees it.
    pub(crate) fn is_present(&self) -> bool {
        matches!(self.state, SlotState::Live | SlotState::Staged)
    }
}
