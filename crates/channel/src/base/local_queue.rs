//! A queue for the loop's own thread. The length is stored beside the items, because every turn checks several queues
//! for items, and most of the queues are empty.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use crate::base::queue_capacity::shrink_if_empty;

/// A FIFO queue on the loop's thread. No borrow outlives a call.
#[derive(Debug)]
pub(crate) struct LocalQueue<T> {
    items: RefCell<VecDeque<T>>,
    len: Cell<usize>,
}

impl<T> LocalQueue<T> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len.get()
    }

    pub(crate) fn push(&self, item: T) {
        self.items.borrow_mut().push_back(item);
        self.len.set(self.len.get() + 1);
    }

    pub(crate) fn pop(&self) -> Option<T> {
        let mut items = self.items.borrow_mut();
        let item = items.pop_front()?;
        shrink_if_empty(&mut items);
        self.len.set(self.len.get() - 1);
        Some(item)
    }
}

impl<T> Default for LocalQueue<T> {
    fn default() -> Self {
        Self { items: RefCell::default(), len: Cell::new(0) }
    }
}
