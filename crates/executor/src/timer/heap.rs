//! The queue of deadlines: a 4-ary indexed heap over a generational slab.
//!
//! ```text
//!   heap:  [ (deadline, order, slot) … ]      four children per node: half the levels of a binary
//!              ▲ position   │ slot            heap, and siblings share a cache line or two
//!   slab:  [ generation, position, value … ]  finds a timer's place in the heap, for O(log n) cancel
//! ```
//!
//! A key is a slot and its generation: a key that outlives its timer finds nothing. Neither
//! scheduling nor cancelling allocates once both vectors have grown.

use crate::clock::Nanos;

/// Children per node.
const ARITY: usize = 4;

/// Marks the end of the free list.
const NIL: u32 = u32::MAX;

/// Names a timer in the heap of its loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimerKey {
    slot: u32,
    generation: u32,
}

impl TimerKey {
    pub(crate) fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self { slot: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct TimerHeap<V> {
    heap: Vec<Node>,
    slab: Vec<Slot<V>>,
    free: u32,
    scheduled: u64,
}

/// Ordered by deadline, then by the order of scheduling.
#[derive(Clone, Copy, Debug)]
struct Node {
    deadline: Nanos,
    order: u64,
    slot: u32,
}

#[derive(Debug)]
struct Slot<V> {
    generation: u32,
    /// Position in the heap; in a free slot, the next free one.
    position: u32,
    value: Option<V>,
}

impl<V> TimerHeap<V> {
    pub(crate) fn new() -> Self {
        Self { heap: Vec::new(), slab: Vec::new(), free: NIL, scheduled: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// The earliest deadline.
    pub(crate) fn peek(&self) -> Option<Nanos> {
        self.heap.first().map(|node| node.deadline)
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
        let slot = self.take_slot();
        let key = TimerKey { slot, generation: self.slab[slot as usize].generation };
        self.slab[slot as usize].value = Some(make(key));
        let node = Node { deadline, order: self.scheduled, slot };
        self.scheduled += 1;
        self.heap.push(node);
        self.sift_up(self.heap.len() - 1, node);
        key
    }

    /// Looks at a timer, if it is still there.
    pub(crate) fn get(&self, key: TimerKey) -> Option<&V> {
        let slot = self.slab.get(key.slot as usize)?;
        slot.value.as_ref().filter(|_| slot.generation == key.generation)
    }

    /// Takes a timer out, if it is still there.
    pub(crate) fn remove(&mut self, key: TimerKey) -> Option<V> {
        self.get(key)?;
        self.remove_at(self.slab[key.slot as usize].position as usize);
        self.give_back_slot(key.slot)
    }

    /// Takes the earliest timer out, if it is due.
    pub(crate) fn pop_due(&mut self, now: Nanos) -> Option<V> {
        let first = self.heap.first()?;
        if first.deadline > now {
            return None;
        }
        let slot = first.slot;
        self.remove_at(0);
        self.give_back_slot(slot)
    }

    /// Takes any timer out.
    pub(crate) fn pop_any(&mut self) -> Option<V> {
        let last = self.heap.pop()?;
        self.give_back_slot(last.slot)
    }

    /// Fills the hole at `position` with the last node.
    fn remove_at(&mut self, position: usize) {
        let Some(last) = self.heap.pop() else { return };
        if position == self.heap.len() {
            return;
        }
        if position > 0 && last.is_before(&self.heap[(position - 1) / ARITY]) {
            self.sift_up(position, last);
        } else {
            self.sift_down(position, last);
        }
    }

    /// Moves the hole at `position` towards the root until `node` fits.
    fn sift_up(&mut self, mut position: usize, node: Node) {
        while position > 0 {
            let parent = (position - 1) / ARITY;
            if !node.is_before(&self.heap[parent]) {
                break;
            }
            self.place(position, self.heap[parent]);
            position = parent;
        }
        self.place(position, node);
    }

    /// Moves the hole at `position` towards the leaves until `node` fits.
    fn sift_down(&mut self, mut position: usize, node: Node) {
        loop {
            let first = position * ARITY + 1;
            let children = first..self.heap.len().min(first + ARITY);
            let Some(least) = children.reduce(|least, child| {
                if self.heap[child].is_before(&self.heap[least]) { child } else { least }
            }) else {
                break;
            };
            if !self.heap[least].is_before(&node) {
                break;
            }
            self.place(position, self.heap[least]);
            position = least;
        }
        self.place(position, node);
    }

    fn place(&mut self, position: usize, node: Node) {
        self.heap[position] = node;
        // Positions are below 2³² because slots are.
        self.slab[node.slot as usize].position = position as u32;
    }

    fn take_slot(&mut self) -> u32 {
        if self.free == NIL {
            let slot = u32::try_from(self.slab.len()).ok().filter(|slot| *slot != NIL);
            let slot = slot.expect("four billion timers on one loop");
            self.slab.push(Slot { generation: 0, position: 0, value: None });
            return slot;
        }
        let slot = self.free;
        self.free = self.slab[slot as usize].position;
        slot
    }

    fn give_back_slot(&mut self, slot: u32) -> Option<V> {
        let entry = &mut self.slab[slot as usize];
        entry.generation = entry.generation.wrapping_add(1);
        entry.position = self.free;
        self.free = slot;
        entry.value.take()
    }
}

impl Node {
    fn is_before(&self, other: &Node) -> bool {
        (self.deadline, self.order) < (other.deadline, other.order)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

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
    fn e13_nothing_is_due_early() {
        let mut heap = TimerHeap::new();
        heap.insert(Nanos(10), ());
        assert_eq!(heap.pop_due(Nanos(9)), None);
        assert_eq!(heap.peek(), Some(Nanos(10)));
        assert_eq!(heap.pop_due(Nanos(10)), Some(()));
        assert_eq!((heap.len(), heap.peek()), (0, None));
    }

    #[test]
    fn e13_a_key_that_outlived_its_timer_finds_nothing() {
        let mut heap = TimerHeap::new();
        let first = heap.insert(Nanos(1), 'a');
        assert_eq!(heap.remove(first), Some('a'));
        assert_eq!(heap.remove(first), None, "twice");
        let second = heap.insert(Nanos(1), 'b');
        assert_eq!(second.slot, first.slot, "slots are reused");
        assert_eq!(heap.remove(first), None, "an old key in a new generation");
        assert_eq!(heap.remove(second), Some('b'));
    }
}
