//! The places of a pipeline, linked in order.
//!
//! ```text
//!   0 head ⇄ 2 "lines" ⇄ 5 "app" ⇄ 1 tail       slots by index, linked both ways
//! ```
//!
//! A slot that is removed while its handler runs stays linked until the call returns: so it still
//! has neighbours to pass things on to (rule 5), and its place in the order of what goes out
//! (rule 4). Nothing but its own backlog stops at it any more. Its index is used again only after that.
//!
//! Nothing in here calls a handler.

use std::any::TypeId;
use std::fmt;

use super::slot::{About, Slot, SlotState};
use crate::pipeline::event_set::Events;
use crate::pipeline::handler::Handler;

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
    /// The first slot that stops for what was read, and for the end of a round; the tail if none does. Every event of
    /// the transport begins here, so the walk is made once for all of them.
    first_reader: u32,
    first_completer: u32,
}

impl Slots {
    pub(crate) fn new() -> Self {
        // Both ends, and one handler.
        let mut slots = Vec::with_capacity(3);
        slots.extend([Slot::end(HEAD, TAIL), Slot::end(HEAD, TAIL)]);
        Self { slots, free: HEAD, generations: 0, first_reader: TAIL, first_completer: TAIL }
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

    /// Returns the first slot that stops for what was read; the tail if none does.
    #[inline]
    pub(crate) fn first_reader(&self) -> u32 {
        self.first_reader
    }

    /// Whether this slot, whose handler runs, is the first that the end of a round comes to, and nothing
    /// waits there.
    #[inline]
    pub(crate) fn is_next(&self, at: u32) -> bool {
        let slot = self.at(at);
        self.first_completer == at && slot.state == SlotState::Live && !slot.has_backlog()
    }

    /// Makes a slot stop for these events, and for no others.
    pub(crate) fn set_stops(&mut self, at: u32, stops: Events) {
        self.at_mut(at).stops = stops;
        self.find_first();
    }

    fn find_first(&mut self) {
        self.first_reader = self.inward(HEAD, Events::READ);
        self.first_completer = self.inward(HEAD, Events::READ_COMPLETE);
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
    pub(crate) fn insert(
        &mut self,
        after: u32,
        handler: Box<dyn Handler>,
        mut about: About,
    ) -> u32 {
        let index = self.take_free();
        self.generations = self.generations.wrapping_add(1);
        about.generation = self.generations;
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
        self.find_first();
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
