//! The places of a pipeline, linked in order.
//!
//! ```text
//!   0 head ⇄ 2 "lines" ⇄ 5 "app" ⇄ 1 tail       slots by index, linked both ways
//!               │
//!               ├ handler     None while it runs
//!               ├ interest    what the walk stops for
//!               └ backlog     what came while it ran (rules 2 to 4)
//! ```
//!
//! A slot that is removed while its handler runs stays linked until the call returns: so it still
//! has neighbours to pass things on to (rule 5), and its place in the order of what goes out
//! (rule 4). Nothing but its own backlog stops at it any more. Its index is used again only after that.
//!
//! Nothing in here calls a handler.

use std::any::TypeId;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use waterwheel_executor::TimerKey;

use super::event::AnyEvent;
use super::events::Events;
use super::handler::Handler;
use super::name::Name;
use super::offload::Link;
use super::signature::{Signature, TypeTag};

/// The transport's end. No handler; its slot is there to be linked.
pub(crate) const HEAD: u32 = 0;
/// The other end.
pub(crate) const TAIL: u32 = 1;

/// Names a place in a pipeline, and stops doing so when its handler has been removed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SlotId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl fmt::Debug for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlotId({}.{})", self.index, self.generation)
    }
}

pub(crate) struct Slots {
    slots: Vec<Slot>,
    /// The first that is free, from which the others follow; the head if none is.
    free: u32,
    /// How many handlers there have been.
    generations: u32,
}

pub(crate) struct Slot {
    /// `None` while it runs, at both ends, and when the slot is free.
    pub(crate) handler: Option<Box<dyn Handler>>,
    pub(crate) next: u32,
    pub(crate) prev: u32,
    /// What the walk stops for.
    pub(crate) stops: Events,
    pub(crate) state: SlotState,
    /// Something waits here.
    waits: bool,
    about: Option<Box<About>>,
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
    generation: u32,
    /// `None` if it says nothing.
    signature: Option<Box<Signature>>,
    /// Made when it is first needed, kept from then on.
    more: Option<Box<More>>,
}

/// What few handlers have.
#[derive(Default)]
pub(crate) struct More {
    /// Its timers that are not due yet, each with its number.
    pub(crate) timers: Vec<(u32, TimerKey)>,
    /// If it runs on another executor: the way there.
    pub(crate) offloaded: Option<Arc<Link>>,
    pub(crate) backlog: Backlog,
}

/// What came to a slot while its handler ran.
#[derive(Default)]
pub(crate) struct Backlog {
    waiting: VecDeque<Waiting>,
    /// How many of them were there before the running call began.
    older: usize,
    /// How many of them are writes.
    writes: usize,
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
        self.writes += usize::from(matches!(waiting.event, AnyEvent::Write(_)));
        self.waiting.push_back(waiting);
    }

    /// The next one; whatever is left is older than the call that follows.
    pub(crate) fn pop(&mut self) -> Option<Waiting> {
        let waiting = self.waiting.pop_front()?;
        self.writes -= usize::from(matches!(waiting.event, AnyEvent::Write(_)));
        self.older = self.waiting.len();
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
            signature: (signature != Signature::any()).then(|| Box::new(signature)),
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

    pub(crate) fn signature(&self) -> Signature {
        self.signature.as_deref().copied().unwrap_or(Signature::any())
    }
}

impl Slot {
    fn end(prev: u32, next: u32) -> Self {
        Self { prev, next, stops: Events::ALL, state: SlotState::Live, ..Self::free() }
    }

    fn free() -> Self {
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

    /// The next one that waits, with how many writes did so before and do now.
    pub(crate) fn next_waiting(&mut self) -> Option<(Waiting, usize, usize)> {
        let backlog = self.backlog_mut()?;
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

impl Slots {
    pub(crate) fn new() -> Self {
        // Both ends, and one handler.
        let mut slots = Vec::with_capacity(3);
        slots.extend([Slot::end(HEAD, TAIL), Slot::end(HEAD, TAIL)]);
        Self { slots, free: HEAD, generations: 0 }
    }

    #[inline]
    pub(crate) fn at(&self, index: u32) -> &Slot {
        &self.slots[index as usize]
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, index: u32) -> &mut Slot {
        &mut self.slots[index as usize]
    }

    /// The next slot inward that stops for this event; the tail does for all.
    #[inline]
    pub(crate) fn inward(&self, from: u32, event: Events) -> u32 {
        let mut at = self.at(from).next;
        while !self.at(at).stops.contains(event) {
            at = self.at(at).next;
        }
        at
    }

    /// Whether this slot, whose handler runs, is the first that the end of a round comes to, and nothing
    /// waits there.
    #[inline]
    pub(crate) fn is_next(&self, at: u32) -> bool {
        let slot = self.at(at);
        slot.state == SlotState::Live
            && !slot.has_backlog()
            && self.inward(HEAD, Events::READ_COMPLETE) == at
    }

    /// The next slot outward that stops for this event; the head does for all.
    #[inline]
    pub(crate) fn outward(&self, from: u32, event: Events) -> u32 {
        let mut at = self.at(from).prev;
        while !self.at(at).stops.contains(event) {
            at = self.at(at).prev;
        }
        at
    }

    pub(crate) fn id(&self, index: u32) -> SlotId {
        let generation = self.at(index).about().map_or(0, |about| about.generation);
        SlotId { index, generation }
    }

    /// The index, if the slot is still in use.
    pub(crate) fn find(&self, id: SlotId) -> Option<u32> {
        let about = self.slots.get(id.index as usize)?.about()?;
        (about.generation == id.generation).then_some(id.index)
    }

    /// The index, if the slot is in this state.
    pub(crate) fn find_as(&self, id: SlotId, state: SlotState) -> Option<u32> {
        self.find(id).filter(|at| self.at(*at).state == state)
    }

    /// The handlers' slots in order, those on their way out included.
    pub(crate) fn linked(&self) -> impl DoubleEndedIterator<Item = u32> + Clone + '_ {
        Walk { slots: self, front: self.at(HEAD).next, back: self.at(TAIL).prev, over: false }
    }

    /// The handlers' slots further inward than this one, those on their way out included.
    pub(crate) fn behind(&self, from: u32) -> impl Iterator<Item = u32> + '_ {
        Walk { slots: self, front: self.at(from).next, back: self.at(TAIL).prev, over: false }
    }

    /// The handlers' slots in order, as an edit under way sees them.
    pub(crate) fn present(&self) -> impl DoubleEndedIterator<Item = u32> + Clone + '_ {
        self.linked().filter(|index| self.at(*index).is_present())
    }

    pub(crate) fn by_name(&self, name: &str) -> Option<u32> {
        self.present()
            .find(|index| self.at(*index).about().is_some_and(|about| about.name == *name))
    }

    pub(crate) fn by_type(&self, type_id: TypeId) -> Option<u32> {
        self.present()
            .find(|index| self.at(*index).about().is_some_and(|about| about.kind.id() == type_id))
    }

    /// Puts a handler behind the slot `after`, staged.
    pub(crate) fn insert(&mut self, after: u32, handler: Box<dyn Handler>, about: About) -> u32 {
        let index = self.take_free();
        self.generations = self.generations.wrapping_add(1);
        let about = About { generation: self.generations, ..about };
        let before = self.at(after).next;
        let slot = self.at_mut(index);
        slot.handler = Some(handler);
        slot.about = Some(Box::new(about));
        slot.state = SlotState::Staged;
        slot.stops = Events::NONE;
        (slot.prev, slot.next) = (after, before);
        self.at_mut(after).next = index;
        self.at_mut(before).prev = index;
        index
    }

    fn take_free(&mut self) -> u32 {
        if self.free != HEAD {
            let next = self.at(self.free).next;
            return std::mem::replace(&mut self.free, next);
        }
        // Few are added, and none of them in a hurry.
        self.slots.reserve_exact(1);
        self.slots.push(Slot::free());
        u32::try_from(self.slots.len() - 1).unwrap_or_else(|_| unreachable!("four billion"))
    }

    /// Takes a slot out of the order; its index may be used again. The caller drops what was in it
    /// outside of any borrow.
    pub(crate) fn unlink(&mut self, index: u32) -> Option<Box<About>> {
        let slot = self.at_mut(index);
        let (prev, next) = (slot.prev, slot.next);
        let left = slot.about.take();
        *slot = Slot::free();
        self.at_mut(prev).next = next;
        self.at_mut(next).prev = prev;
        self.at_mut(index).next = std::mem::replace(&mut self.free, index);
        left
    }
}

#[derive(Clone)]
struct Walk<'a> {
    slots: &'a Slots,
    front: u32,
    back: u32,
    over: bool,
}

impl Walk<'_> {
    fn step(&mut self, at: u32) -> Option<u32> {
        if self.over || self.front == TAIL || self.back == HEAD {
            return None;
        }
        self.over = self.front == self.back;
        Some(at)
    }
}

impl Iterator for Walk<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let at = self.step(self.front)?;
        self.front = self.slots.at(at).next;
        Some(at)
    }
}

impl DoubleEndedIterator for Walk<'_> {
    fn next_back(&mut self) -> Option<u32> {
        let at = self.step(self.back)?;
        self.back = self.slots.at(at).prev;
        Some(at)
    }
}
