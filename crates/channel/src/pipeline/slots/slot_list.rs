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

use super::slot::{HandlerInfo, Slot, SlotState};
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

pub(crate) struct SlotList {
    slots: Vec<Slot>,
    /// The first that is free, from which the others follow; the head if none is.
    first_free: u32,
    /// How many handlers there have been.
    last_generation: u32,
    /// The first slot that stops for what was read, and for the end of a round; the tail if none does. Every event of
    /// the transport begins here, so the walk is made once for all of them.
    first_read: u32,
    first_read_complete: u32,
}

impl SlotList {
    pub(crate) fn new() -> Self {
        // Both ends, and one handler.
        let mut slots = Vec::with_capacity(3);
        slots.extend([Slot::end(HEAD, TAIL), Slot::end(HEAD, TAIL)]);
        Self {
            slots,
            first_free: HEAD,
            last_generation: 0,
            first_read: TAIL,
            first_read_complete: TAIL,
        }
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
    pub(crate) fn next_inward(&self, from: u32, event: Events) -> u32 {
        let mut at = self.at(from).next;
        while !self.at(at).stops_for.contains(event) {
            at = self.at(at).next;
        }
        at
    }

    /// Returns the first slot that stops for what was read; the tail if none does.
    #[inline]
    pub(crate) fn first_read(&self) -> u32 {
        self.first_read
    }

    /// Whether this slot, whose handler runs, is the first that the end of a round comes to, and nothing
    /// waits there.
    #[inline]
    pub(crate) fn may_get_read_complete(&self, at: u32) -> bool {
        let slot = self.at(at);
        self.first_read_complete == at && slot.state == SlotState::Live && !slot.has_backlog()
    }

    /// Makes a slot stop for these events, and for no others.
    pub(crate) fn set_stops_for(&mut self, at: u32, stops_for: Events) {
        self.at_mut(at).stops_for = stops_for;
        self.update_first_slots();
    }

    fn update_first_slots(&mut self) {
        self.first_read = self.next_inward(HEAD, Events::READ);
        self.first_read_complete = self.next_inward(HEAD, Events::READ_COMPLETE);
    }

    /// The next slot outward that stops for this event; the head does for all.
    #[inline]
    pub(crate) fn next_outward(&self, from: u32, event: Events) -> u32 {
        let mut at = self.at(from).prev;
        while !self.at(at).stops_for.contains(event) {
            at = self.at(at).prev;
        }
        at
    }

    pub(crate) fn id(&self, index: u32) -> SlotId {
        let generation = self.at(index).info().map_or(0, |info| info.generation);
        SlotId { index, generation }
    }

    /// The index, if the slot is still in use.
    pub(crate) fn find(&self, id: SlotId) -> Option<u32> {
        let info = self.slots.get(id.index as usize)?.info()?;
        (info.generation == id.generation).then_some(id.index)
    }

    /// The index, if the slot is in this state.
    pub(crate) fn find_in_state(&self, id: SlotId, state: SlotState) -> Option<u32> {
        self.find(id).filter(|at| self.at(*at).state == state)
    }

    /// The handlers' slots in order, those on their way out included.
    pub(crate) fn linked(&self) -> impl DoubleEndedIterator<Item = u32> + Clone + '_ {
        SlotIter {
            slots: self,
            front: self.at(HEAD).next,
            back: self.at(TAIL).prev,
            is_done: false,
        }
    }

    /// The handlers' slots further inward than this one, those on their way out included.
    pub(crate) fn linked_after(&self, from: u32) -> impl Iterator<Item = u32> + '_ {
        SlotIter {
            slots: self,
            front: self.at(from).next,
            back: self.at(TAIL).prev,
            is_done: false,
        }
    }

    /// The handlers' slots in order, as an edit under way sees them.
    pub(crate) fn present(&self) -> impl DoubleEndedIterator<Item = u32> + Clone + '_ {
        self.linked().filter(|index| self.at(*index).is_present())
    }

    pub(crate) fn find_by_name(&self, name: &str) -> Option<u32> {
        self.present().find(|index| self.at(*index).info().is_some_and(|info| info.name == *name))
    }

    pub(crate) fn find_by_type(&self, type_id: TypeId) -> Option<u32> {
        self.present().find(|index| {
            self.at(*index).info().is_some_and(|info| info.handler_type.id() == type_id)
        })
    }

    /// Puts a handler behind the slot `after`, staged.
    pub(crate) fn insert(
        &mut self,
        after: u32,
        handler: Box<dyn Handler>,
        mut info: HandlerInfo,
    ) -> u32 {
        let index = self.take_free_index();
        self.last_generation = self.last_generation.wrapping_add(1);
        info.generation = self.last_generation;
        let before = self.at(after).next;
        let slot = self.at_mut(index);
        slot.handler = Some(handler);
        slot.info = Some(Box::new(info));
        slot.state = SlotState::Staged;
        slot.stops_for = Events::NONE;
        (slot.prev, slot.next) = (after, before);
        self.at_mut(after).next = index;
        self.at_mut(before).prev = index;
        index
    }

    fn take_free_index(&mut self) -> u32 {
        if self.first_free != HEAD {
            let next = self.at(self.first_free).next;
            return std::mem::replace(&mut self.first_free, next);
        }
        // Few are added, and none of them in a hurry.
        self.slots.reserve_exact(1);
        self.slots.push(Slot::free());
        u32::try_from(self.slots.len() - 1).unwrap_or_else(|_| unreachable!("four billion"))
    }

    /// Takes a slot out of the order; its index may be used again. The caller drops what was in it
    /// outside of any borrow.
    pub(crate) fn unlink(&mut self, index: u32) -> Option<Box<HandlerInfo>> {
        let slot = self.at_mut(index);
        let (prev, next) = (slot.prev, slot.next);
        let left = slot.info.take();
        *slot = Slot::free();
        self.at_mut(prev).next = next;
        self.at_mut(next).prev = prev;
        self.update_first_slots();
        self.at_mut(index).next = std::mem::replace(&mut self.first_free, index);
        left
    }
}

#[derive(Clone)]
struct SlotIter<'a> {
    slots: &'a SlotList,
    front: u32,
    back: u32,
    is_done: bool,
}

impl SlotIter<'_> {
    fn step(&mut self, at: u32) -> Option<u32> {
        if self.is_done || self.front == TAIL || self.back == HEAD {
            return None;
        }
        self.is_done = self.front == self.back;
        Some(at)
    }
}

impl Iterator for SlotIter<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let at = self.step(self.front)?;
        self.front = self.slots.at(at).next;
        Some(at)
    }
}

impl DoubleEndedIterator for SlotIter<'_> {
    fn next_back(&mut self) -> Option<u32> {
        let at = self.step(self.back)?;
        self.back = self.slots.at(at).prev;
        Some(at)
    }
}
