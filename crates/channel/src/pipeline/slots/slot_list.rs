//! The slots of a pipeline, as a doubly linked list.
//!
//! ```text
//!   0 head ⇄ 2 "lines" ⇄ 5 "app" ⇄ 1 tail       indices into a vector, linked both ways
//! ```
//!
//! A slot that is removed while its handler runs stays linked until the call returns. So the handler still has
//! neighbours to pass events to (rule 5), and outbound events keep their order (rule 4). Only events that have to queue
//! after its backlog stop at it. Its index is reused only after it was unlinked.
//!
//! Nothing in this file calls a handler.

use std::any::TypeId;
use std::fmt;

use super::slot::{HandlerInfo, Slot, SlotState};
use crate::pipeline::event_set::Events;
use crate::pipeline::handler::Handler;

/// Index of the head, the transport's end of the pipeline. Its slot has no handler.
pub(crate) const HEAD: u32 = 0;
/// Index of the tail, the other end of the pipeline. Its slot has no handler.
pub(crate) const TAIL: u32 = 1;

/// Identifies a handler of a pipeline by its slot. Invalid once the handler was removed: slots are
/// reused, but never with the same generation.
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

/// The slots of a pipeline, linked in order from [`HEAD`] to [`TAIL`].
pub(crate) struct SlotList {
    slots: Vec<Slot>,
    /// The first free slot; free slots are linked by `next`. [`HEAD`] if no slot is free.
    first_free: u32,
    /// The generation given to the latest handler.
    last_generation: u32,
    /// The first slot that stops for `READ`, and the first that stops for `READ_COMPLETE`; the tail if none does.
    /// Cached, because every read of the transport starts there.
    first_read: u32,
    first_read_complete: u32,
}

impl SlotList {
    pub(crate) fn new() -> Self {
        // Room for both ends and one handler.
        let mut slots = Vec::with_capacity(3);
        slots.extend([Slot::pipeline_end(HEAD, TAIL), Slot::pipeline_end(HEAD, TAIL)]);
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

    /// Returns the next slot inward that stops for this event; the tail stops for every event.
    #[inline]
    pub(crate) fn next_inward(&self, from: u32, event: Events) -> u32 {
        let mut at = self.at(from).next;
        while !self.at(at).stops_for.contains(event) {
            at = self.at(at).next;
        }
        at
    }

    /// Returns the first slot that stops for `READ`; the tail if none does.
    #[inline]
    pub(crate) fn first_read(&self) -> u32 {
        self.first_read
    }

    /// True if this slot, whose handler is running, is the first that stops for `READ_COMPLETE`, and has no backlog:
    /// then that event may be delivered within the same call.
    #[inline]
    pub(crate) fn may_get_read_complete(&self, at: u32) -> bool {
        let slot = self.at(at);
        self.first_read_complete == at && slot.state == SlotState::Live && !slot.has_backlog()
    }

    /// Sets the events that stop at a slot.
    pub(crate) fn set_stops_for(&mut self, at: u32, stops_for: Events) {
        self.at_mut(at).stops_for = stops_for;
        self.update_first_slots();
    }

    /// Makes all events of one direction stop at a slot where an event of that direction is queued, so that none
    /// overtakes it, whatever its handler is interested in (rule 12).
    pub(crate) fn stop_direction(&mut self, at: u32, direction: Events) {
        let slot = self.at_mut(at);
        if !slot.stops_for.contains(direction) {
            slot.stops_for = slot.stops_for | direction;
            if direction == Events::INBOUND {
                self.update_first_slots();
            }
        }
    }

    /// Makes only the events that its handler is interested in stop at a slot whose backlog is empty again.
    pub(crate) fn stop_for_interest(&mut self, at: u32) {
        let slot = self.at(at);
        if let (SlotState::Live | SlotState::Leaving, Some(info)) = (slot.state, slot.info())
            && slot.stops_for != info.interest
        {
            let interest = info.interest;
            self.set_stops_for(at, interest);
        }
    }

    fn update_first_slots(&mut self) {
        self.first_read = self.next_inward(HEAD, Events::READ);
        self.first_read_complete = self.next_inward(HEAD, Events::READ_COMPLETE);
    }

    /// Returns the only slot that stops for `WRITE`, if none stops for `FLUSH`: the head if there is none. `None` if a write
    /// and a flush pass several slots.
    #[inline]
    pub(crate) fn only_writer(&self) -> Option<u32> {
        let (mut writer, mut at) = (HEAD, self.at(TAIL).prev);
        while at != HEAD {
            let slot = self.at(at);
            let (stops_for, here) = (slot.stops_for, at);
            at = slot.prev;
            if stops_for.contains(Events::WRITE) {
                if writer != HEAD {
                    return None;
                }
                writer = here;
            }
            if stops_for.contains(Events::FLUSH) {
                return None;
            }
        }
        Some(writer)
    }

    /// Returns the next slot outward that stops for this event; the head stops for every event.
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

    /// Returns the index of a slot, if its handler is still there.
    pub(crate) fn find(&self, id: SlotId) -> Option<u32> {
        let info = self.slots.get(id.index as usize)?.info()?;
        (info.generation == id.generation).then_some(id.index)
    }

    /// Returns the index of a slot, if it is in this state.
    pub(crate) fn find_in_state(&self, id: SlotId, state: SlotState) -> Option<u32> {
        self.find(id).filter(|at| self.at(*at).state == state)
    }

    /// Iterates over the slots of all handlers in order, including those being removed.
    pub(crate) fn linked(&self) -> impl DoubleEndedIterator<Item = u32> + Clone + '_ {
        SlotIter {
            slots: self,
            front: self.at(HEAD).next,
            back: self.at(TAIL).prev,
            is_done: false,
        }
    }

    /// Iterates over the slots of the handlers further inward than this slot, including those being removed.
    pub(crate) fn linked_after(&self, from: u32) -> impl Iterator<Item = u32> + '_ {
        SlotIter {
            slots: self,
            front: self.at(from).next,
            back: self.at(TAIL).prev,
            is_done: false,
        }
    }

    /// Iterates over the slots of the handlers in order, as an edit in progress sees them.
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

    /// Links a handler in after the slot `after`, in state [`SlotState::Staged`].
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
        // Exactly one: memory per channel matters more than the speed of adding a handler.
        self.slots.reserve_exact(1);
        self.slots.push(Slot::free());
        u32::try_from(self.slots.len() - 1)
            .unwrap_or_else(|_| unreachable!("a pipeline has fewer than 2^32 slots"))
    }

    /// Unlinks a slot; its index may be reused. The caller drops the slot's contents outside of any borrow.
    pub(crate) fn unlink(&mut self, index: u32) -> Option<Box<HandlerInfo>> {
        let slot = self.at_mut(index);
        let (prev, next) = (slot.prev, slot.next);
        let info = slot.info.take();
        *slot = Slot::free();
        self.at_mut(prev).next = next;
        self.at_mut(next).prev = prev;
        self.update_first_slots();
        self.at_mut(index).next = std::mem::replace(&mut self.first_free, index);
        info
    }
}

/// Iterates over linked slots from either side.
#[derive(Clone)]
struct SlotIter<'a> {
    slots: &'a SlotList,
    front: u32,
    back: u32,
    is_done: bool,
}

impl SlotIter<'_> {
    fn advance(&mut self, at: u32) -> Option<u32> {
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
        let at = self.advance(self.front)?;
        self.front = self.slots.at(at).next;
        Some(at)
    }
}

impl DoubleEndedIterator for SlotIter<'_> {
    fn next_back(&mut self) -> Option<u32> {
        let at = self.advance(self.back)?;
        self.back = self.slots.at(at).prev;
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::slots::name::Name;

    /// Inserts a live slot that stops for these events behind all others.
    fn add(slots: &mut SlotList, stops_for: Events) -> u32 {
        let last = slots.at(TAIL).prev;
        let at = slots.insert(last, Box::new(Idle), HandlerInfo::new(Name::from("idle"), &Idle));
        slots.at_mut(at).state = SlotState::Live;
        slots.set_stops_for(at, stops_for);
        at
    }

    #[test]
    fn c14_the_only_writer_is_found_unless_another_slot_sees_writes_or_flushes() {
        let mut slots = SlotList::new();
        assert_eq!(slots.only_writer(), Some(HEAD));
        add(&mut slots, Events::READ | Events::CLOSE);
        assert_eq!(slots.only_writer(), Some(HEAD));
        let writer = add(&mut slots, Events::WRITE);
        add(&mut slots, Events::READ);
        assert_eq!(slots.only_writer(), Some(writer));
        let other = add(&mut slots, Events::FLUSH);
        assert_eq!(slots.only_writer(), None);
        slots.set_stops_for(other, Events::WRITE);
        assert_eq!(slots.only_writer(), None);
        slots.unlink(other);
        assert_eq!(slots.only_writer(), Some(writer));
        slots.stop_direction(slots.at(TAIL).prev, Events::OUTBOUND);
        assert_eq!(slots.only_writer(), None, "an event is queued there");
    }

    struct Idle;

    impl Handler for Idle {
        fn interest(&self) -> Events {
            Events::USER_EVENT
        }
    }

    #[test]
    fn c05_rule_12_reads_stop_at_a_slot_while_an_inbound_event_is_queued_there() {
        let mut slots = SlotList::new();
        let at = slots.insert(HEAD, Box::new(Idle), HandlerInfo::new(Name::from("idle"), &Idle));
        slots.at_mut(at).state = SlotState::Live;
        slots.set_stops_for(at, Events::USER_EVENT);
        assert_eq!(slots.first_read(), TAIL);
        slots.stop_direction(at, Events::OUTBOUND);
        assert_eq!(slots.first_read(), TAIL);
        slots.stop_direction(at, Events::INBOUND);
        assert_eq!(slots.first_read(), at);
        slots.stop_for_interest(at);
        assert_eq!(slots.first_read(), TAIL);
    }
}
