//! The queue of deadlines: a 4-ary indexed heap over a generational slab.
//!
//! ```text
//!   heap:  [ · · · 0 | 1 2 3 4 | 5 6 7 8 | … ]   (deadline, slot, order): four children per node, side
//!              │ slot     ▲ position             by side in one cache line: half the levels of a
//!   slab:  [ position, value … ]                 binary heap, and one line a level
//!                                                by slot: finds a timer's node, for O(log n) cancel
//! ```
//!
//! With many timers, what counts is how much memory a step touches: a node is 16 bytes, and so is a
//! slot that holds a pointer. The order of scheduling is 64 bits, half of it in the node and half in
//! the slot, which is looked at only for equal deadlines.
//!
//! A key is a slot and the lower half of the order: a key that outlives its timer finds nothing.
//! Neither scheduling nor cancelling allocates once the vectors have grown.

use crate::clock::Nanos;

/// Children per node: what fits a cache line.
const ARITY: usize = 64 / size_of::<Node>();

/// Nodes before the root that are never used, so that siblings share a line.
const UNUSED: usize = ARITY - 1;

/// Names a timer in the heap of its loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimerKey {
    slot: u32,
    order: u32,
}

impl TimerKey {
    pub(crate) fn to_bits(self) -> u64 {
        u64::from(self.order) << 32 | u64::from(self.slot)
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self { slot: bits as u32, order: (bits >> 32) as u32 }
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct TimerHeap<V> {
    heap: Vec<Siblings>,
    len: usize,
    slab: Vec<Slot<V>>,
    /// The slots without a timer. Apart, so that taking one need not wait for the slot itself.
    free: Vec<u32>,
    scheduled: u64,
}

/// The children of one node.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Siblings([Node; ARITY]);

/// Ordered by deadline, then by the order of scheduling.
#[derive(Clone, Copy, Debug)]
struct Node {
    deadline: Nanos,
    slot: u32,
    /// The lower half of the order.
    order: u32,
}

#[derive(Debug)]
struct Slot<V> {
    /// Position in the heap.
    position: u32,
    /// The upper half of the order.
    order: u32,
    value: Option<V>,
}

impl<V> TimerHeap<V> {
    pub(crate) fn new() -> Self {
        Self { heap: Vec::new(), len: 0, slab: Vec::new(), free: Vec::new(), scheduled: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The earliest deadline; the end of time if there is none.
    #[inline]
    pub(crate) fn peek(&self) -> Nanos {
        if self.len == 0 { Nanos::MAX } else { self.node(0).deadline }
    }

    pub(crate) fn insert(&mut self, deadline: Nanos, value: V) -> TimerKey {
        self.insert_with(deadline, |_| value)
    }

    /// Inserts what `make` gives, which is told its key.
    pub(crate) fn insert_with(
        &mut self,
        deadline: Nanos,
        make: impl FnOnce(TimerKey) -> V,
    ) -> TimerKey {
        let (slot, order) = (self.take_slot(), self.scheduled as u32);
        let key = TimerKey { slot, order };
        let entry = &mut self.slab[slot as usize];
        entry.order = (self.scheduled >> 32) as u32;
        // Forgotten, because it is known to be nothing: looking would wait for memory.
        std::mem::forget(entry.value.replace(make(key)));
        self.scheduled += 1;
        let (position, node) = (self.len, Node { deadline, slot, order });
        self.len += 1;
        if (position + UNUSED) / ARITY == self.heap.len() {
            self.heap.push(Siblings([node; ARITY]));
        }
        self.sift_up(position, node);
        key
    }

    /// Looks at a timer, if it is still there.
    pub(crate) fn get(&self, key: TimerKey) -> Option<&V> {
        let slot = self.slab.get(key.slot as usize)?;
        let value = slot.value.as_ref()?;
        (self.node(slot.position as usize).order == key.order).then_some(value)
    }

    /// Takes a timer out, if it is still there.
    pub(crate) fn remove(&mut self, key: TimerKey) -> Option<V> {
        self.get(key)?;
        self.remove_at(self.slab[key.slot as usize].position as usize);
        self.give_back_slot(key.slot)
    }

    /// Takes the earliest timer out, if it is due.
    pub(crate) fn pop_due(&mut self, now: Nanos) -> Option<V> {
        let first = self.first().filter(|first| first.deadline <= now)?;
        self.remove_at(0);
        self.give_back_slot(first.slot)
    }

    /// Takes any timer out.
    pub(crate) fn pop_any(&mut self) -> Option<V> {
        self.len = self.len.checked_sub(1)?;
        self.give_back_slot(self.node(self.len).slot)
    }

    fn first(&self) -> Option<Node> {
        (self.len > 0).then(|| self.node(0))
    }

    fn node(&self, position: usize) -> Node {
        let at = position + UNUSED;
        self.heap[at / ARITY].0[at % ARITY]
    }

    /// Fills the hole at `position` with the last node.
    fn remove_at(&mut self, position: usize) {
        self.len -= 1;
        if position == self.len {
            return;
        }
        // Seldom before the parent, so the processor goes on meanwhile. To compare it with the node
        // that went would spare a look, but is a coin toss: measured, it cost more than it spared.
        let last = self.node(self.len);
        if position > 0 && self.is_before(last, self.node((position - 1) / ARITY)) {
            self.sift_up(position, last);
        } else {
            self.sift_down(position, last);
        }
    }

    /// Moves the hole at `position` towards the root until `node` fits.
    fn sift_up(&mut self, mut position: usize, node: Node) {
        while position > 0 {
            let above = (position - 1) / ARITY;
            let parent = self.node(above);
            if !self.is_before(node, parent) {
                break;
            }
            self.place(position, parent);
            position = above;
        }
        self.place(position, node);
    }

    /// Moves the hole at `position` towards the leaves until `node` fits.
    fn sift_down(&mut self, mut position: usize, node: Node) {
        loop {
            let first = position * ARITY + 1;
            if first >= self.len {
                break;
            }
            let children = self.heap[position + 1].0;
            let mut least = 0;
            for child in 1..ARITY.min(self.len - first) {
                if self.is_before(children[child], children[least]) {
                    least = child;
                }
            }
            if !self.is_before(children[least], node) {
                break;
            }
            self.place(position, children[least]);
            position = first + least;
        }
        self.place(position, node);
    }

    fn is_before(&self, one: Node, other: Node) -> bool {
        let order = |node: Node| (self.slab[node.slot as usize].order, node.order);
        one.deadline < other.deadline || one.deadline == other.deadline && order(one) < order(other)
    }

    fn place(&mut self, position: usize, node: Node) {
        let at = position + UNUSED;
        self.heap[at / ARITY].0[at % ARITY] = node;
        // Positions are below 2³² because slots are.
        self.slab[node.slot as usize].position = position as u32;
    }

    fn take_slot(&mut self) -> u32 {
        if let Some(slot) = self.free.pop() {
            return slot;
        }
        let slot = u32::try_from(self.slab.len()).expect("four billion timers on one loop");
        self.slab.push(Slot { position: 0, order: 0, value: None });
        self.free.reserve(self.slab.len()); // Giving it back must not allocate.
        slot
    }

    fn give_back_slot(&mut self, slot: u32) -> Option<V> {
        self.free.push(slot);
        self.slab[slot as usize].value.take()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn e13_equal_deadlines_keep_the_order_of_scheduling() {
        let mut heap = TimerHeap::new();
        for value in 0..100 {
            heap.insert(Nanos(7), value);
        }
        let fired: Vec<_> = std::iter::from_fn(|| heap.pop_due(Nanos(7))).collect();
        assert_eq!(fired, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn e13_equal_deadlines_keep_their_order_when_its_lower_half_wraps() {
        let mut heap = TimerHeap { scheduled: u64::from(u32::MAX) - 50, ..TimerHeap::new() };
        let keys: Vec<_> = (0..100).map(|value| heap.insert(Nanos(7), value)).collect();
        assert_eq!(heap.remove(keys[70]), Some(70));
        let fired: Vec<_> = std::iter::from_fn(|| heap.pop_due(Nanos(7))).collect();
        assert_eq!(fired, (0..100).filter(|value| *value != 70).collect::<Vec<_>>());
    }

    #[test]
    fn siblings_are_a_cache_line_and_a_slot_with_a_pointer_is_as_large_as_a_node() {
        assert_eq!((ARITY, size_of::<Siblings>()), (4, 64));
        assert_eq!(size_of::<Slot<Box<()>>>(), size_of::<Node>());
    }

    /// Numbers that look random and are the same each time (xorshift).
    fn dice(state: &mut u64, limit: u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state % limit
    }

    #[test]
    fn e13_the_heap_does_as_a_sorted_map_does() {
        let (mut heap, mut model, mut keys) = (TimerHeap::new(), BTreeMap::new(), Vec::new());
        let (mut state, mut now) = (0x5EED_CAFE, 0);
        for id in 0..if cfg!(miri) { 150 } else { 20_000u64 } {
            // Few deadlines: equal ones are the rule. It grows, and shrinks to nothing, and grows.
            let deadline = now + dice(&mut state, 50);
            keys.push((heap.insert(Nanos(deadline), id), (deadline, id)));
            model.insert((deadline, id), id);
            for _ in 0..dice(&mut state, if id / 4000 % 2 == 0 { 2 } else { 4 }) {
                if keys.is_empty() {
                    break;
                }
                let at = usize::try_from(dice(&mut state, keys.len() as u64)).unwrap();
                let (key, ordered) = keys.swap_remove(at);
                let there = model.contains_key(&ordered);
                assert_eq!(heap.get(key).is_some(), there);
                assert_eq!(heap.remove(key), model.remove(&ordered));
                assert_eq!(heap.remove(key), None);
            }
            if dice(&mut state, 8) == 0 {
                now += dice(&mut state, 5);
                while let Some(due) = heap.pop_due(Nanos(now)) {
                    assert_eq!(model.pop_first().unwrap().1, due);
                }
            }
            let next = model.first_key_value().map(|((deadline, _), _)| *deadline);
            assert_eq!((heap.len(), heap.peek().if_ever()), (model.len(), next.map(Nanos)));
            assert!(next.is_none_or(|next| next > now || heap.len() > 0));
        }
        while let Some(any) = heap.pop_any() {
            model.retain(|_, id| *id != any);
        }
        assert!(model.is_empty() && heap.len() == 0);
    }

    #[test]
    fn e13_nothing_is_due_early() {
        let mut heap = TimerHeap::new();
        heap.insert(Nanos(10), ());
        assert_eq!(heap.pop_due(Nanos(9)), None);
        assert_eq!(heap.peek(), Nanos(10));
        assert_eq!(heap.pop_due(Nanos(10)), Some(()));
        assert_eq!((heap.len(), heap.peek()), (0, Nanos::MAX));
    }

    #[test]
    fn e13_a_key_that_outlived_its_timer_finds_nothing() {
        let mut heap = TimerHeap::new();
        let first = heap.insert(Nanos(1), 'a');
        assert_eq!(heap.remove(first), Some('a'));
        assert_eq!(heap.remove(first), None, "twice");
        let second = heap.insert(Nanos(1), 'b');
        assert_eq!(second.slot, first.slot, "slots are reused");
        assert_eq!(heap.remove(first), None, "an old key of a slot in use again");
        assert_eq!(heap.remove(second), Some('b'));
    }
}
