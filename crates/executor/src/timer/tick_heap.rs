//! The timers whose tick has begun, in exact order: by deadline, then by arrival.
//!
//! A binary heap that reports the position of each of its timers, so that any of them can be taken out. It is
//! small: it holds the timers due within the current tick of the wheel, and late ones.

use crate::clock::Nanos;

/// The capacity that is kept (1024 × 24 bytes = 24 KiB).
const KEPT_CAPACITY: usize = 1024;

/// A heap of timers. Methods that move timers call `moved` with each slot and its new position.
#[derive(Debug)]
pub(super) struct TickHeap {
    heap: Vec<Node>,
    /// How many timers were ever added.
    arrivals: u64,
}

/// An entry of the heap. Entries are ordered by deadline, then by arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Node {
    deadline: Nanos,
    arrival: u64,
    slot: u32,
}

impl TickHeap {
    pub(super) fn new() -> Self {
        Self { heap: Vec::new(), arrivals: 0 }
    }

    /// Returns the earliest deadline, and the slot of its timer.
    #[inline]
    pub(super) fn first(&self) -> Option<(Nanos, u32)> {
        self.heap.first().map(|first| (first.deadline, first.slot))
    }

    /// Adds a timer.
    pub(super) fn push(&mut self, deadline: Nanos, slot: u32, moved: impl FnMut(u32, u32)) {
        let node = Node { deadline, arrival: self.arrivals, slot };
        self.arrivals += 1;
        self.heap.push(node);
        self.sift_up(self.heap.len() - 1, node, moved);
    }

    /// Takes out the timer at a position.
    pub(super) fn remove(&mut self, position: u32, moved: impl FnMut(u32, u32)) {
        let position = position as usize;
        let Some(last) = self.heap.pop() else { return };
        if position == self.heap.len() {
            return;
        }
        if position > 0 && last < self.heap[(position - 1) / 2] {
            self.sift_up(position, last, moved);
        } else {
            self.sift_down(position, last, moved);
        }
    }

    /// Frees memory that a burst has left.
    pub(super) fn shrink(&mut self) {
        if self.heap.len() < KEPT_CAPACITY / 2 {
            self.heap.shrink_to(KEPT_CAPACITY);
        }
    }

    /// Moves the hole at `position` towards the root until `node` fits.
    fn sift_up(&mut self, mut position: usize, node: Node, mut moved: impl FnMut(u32, u32)) {
        while position > 0 {
            let above = (position - 1) / 2;
            if node > self.heap[above] {
                break;
            }
            self.place(position, self.heap[above], &mut moved);
            position = above;
        }
        self.place(position, node, &mut moved);
    }

    /// Moves the hole at `position` towards the leaves until `node` fits.
    fn sift_down(&mut self, mut position: usize, node: Node, mut moved: impl FnMut(u32, u32)) {
        loop {
            let mut child = position * 2 + 1;
            if child >= self.heap.len() {
                break;
            }
            if child + 1 < self.heap.len() && self.heap[child + 1] < self.heap[child] {
                child += 1;
            }
            if node < self.heap[child] {
                break;
            }
            self.place(position, self.heap[child], &mut moved);
            position = child;
        }
        self.place(position, node, &mut moved);
    }

    fn place(&mut self, position: usize, node: Node, moved: &mut impl FnMut(u32, u32)) {
        self.heap[position] = node;
        moved(node.slot, position as u32); // A position is below 2³², because slots are.
    }
}
