//! A queue between threads whose consumer is called once when items arrive, not once per item.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::base::queue_capacity::shrink_if_empty;

/// A first-in, first-out queue with one consumer.
///
/// Producers lock it to push, the consumer to pop, one item at a time. No other code runs under the lock, and items are
/// dropped outside of it. `is_consumer_called` is true while the consumer is scheduled or at work: the producer that
/// sets it has to call the consumer, and only the consumer clears it, when it has found the queue empty.
pub(super) struct Fifo<T>(Mutex<FifoState<T>>);

struct FifoState<T> {
    items: VecDeque<T>,
    is_consumer_called: bool,
    is_closed: bool,
}

impl<T> Fifo<T> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(FifoState {
            items: VecDeque::new(),
            is_consumer_called: false,
            is_closed: false,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, FifoState<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends an item. Returns true if the caller has to call the consumer.
    ///
    /// # Errors
    /// Returns the item if the queue is closed.
    pub(super) fn push(&self, item: T) -> Result<bool, T> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(item);
        }
        state.items.push_back(item);
        Ok(!std::mem::replace(&mut state.is_consumer_called, true))
    }

    /// Requests a call of the consumer without an item. Returns true if the caller has to call it.
    #[must_use]
    pub(super) fn request_consumer(&self) -> bool {
        let mut state = self.lock();
        !state.is_closed && !std::mem::replace(&mut state.is_consumer_called, true)
    }

    pub(super) fn pop(&self) -> Option<T> {
        self.lock().items.pop_front()
    }

    /// Ends a batch of the consumer. Returns true if there are more items and the consumer has to be called again;
    /// otherwise the next producer calls it.
    #[must_use]
    pub(super) fn finish_batch(&self) -> bool {
        let mut state = self.lock();
        state.is_consumer_called = !state.items.is_empty();
        shrink_if_empty(&mut state.items);
        state.is_consumer_called
    }

    /// Closes the queue: returns its items, and refuses further ones.
    #[must_use]
    pub(super) fn close(&self) -> VecDeque<T> {
        let mut state = self.lock();
        state.is_closed = true;
        std::mem::take(&mut state.items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, mpsc};
    use std::thread;

    #[test]
    fn c03_the_consumer_is_called_once_for_many_items() {
        let fifo = Fifo::new();
        assert_eq!([fifo.push(1), fifo.push(2), fifo.push(3)], [Ok(true), Ok(false), Ok(false)]);
        assert_eq!(fifo.pop(), Some(1));
        assert!(fifo.finish_batch(), "there is more, and the consumer stays called");
        assert_eq!(fifo.push(4), Ok(false));
        assert_eq!(
            [fifo.pop(), fifo.pop(), fifo.pop(), fifo.pop()],
            [Some(2), Some(3), Some(4), None]
        );
        assert_eq!(fifo.push(5), Ok(false), "the consumer is at work until it finishes its batch");
        assert!(fifo.finish_batch());
        assert_eq!(fifo.pop(), Some(5));
        assert!(!fifo.finish_batch());
        assert!(fifo.request_consumer() && !fifo.request_consumer());
        assert!(!fifo.finish_batch());
        assert_eq!(fifo.push(6), Ok(true));
    }

    #[test]
    fn c03_a_closed_queue_refuses_items() {
        let fifo = Fifo::new();
        fifo.push(1).unwrap();
        assert_eq!(fifo.close(), [1]);
        assert_eq!(fifo.push(2), Err(2));
        assert!(!fifo.request_consumer());
        assert_eq!(fifo.pop(), None);
    }

    #[test]
    fn r01_items_of_two_producers_are_taken_once_in_order_and_no_call_is_missed() {
        const EACH: usize = if cfg!(miri) { 20 } else { 2_000 };
        let fifo = Arc::new(Fifo::new());
        let (call, calls) = mpsc::channel();
        let producers: Vec<_> = (0..2)
            .map(|producer| {
                let (fifo, call) = (fifo.clone(), call.clone());
                thread::spawn(move || {
                    for n in 0..EACH {
                        if fifo.push((producer, Box::new(n))).unwrap() {
                            call.send(()).unwrap();
                        }
                    }
                })
            })
            .collect();
        drop(call);
        let mut next = [0; 2];
        while calls.recv().is_ok() {
            loop {
                while let Some((producer, n)) = fifo.pop() {
                    assert_eq!(*n, next[producer], "of {producer}");
                    next[producer] += 1;
                }
                if !fifo.finish_batch() {
                    break;
                }
            }
        }
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        assert_eq!(next, [EACH; 2]);
    }
}
