//! A queue between two threads whose consumer is called when there is something, and only once.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::queue_capacity::shrink_if_empty;

/// First in, first out.
///
/// Producers lock it to push, the consumer to pop, one item at a time; nobody calls anything meanwhile,
/// and items are dropped outside. `called` says that the consumer is on its way or at work: it is set by
/// whoever pushes first, who then calls the consumer, and taken back by the consumer alone, when it has
/// found the queue empty.
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

    /// Appends an item. `true`: the caller has to call the consumer.
    ///
    /// # Errors
    /// The item, if the queue is closed.
    pub(super) fn push(&self, item: T) -> Result<bool, T> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(item);
        }
        state.items.push_back(item);
        Ok(!std::mem::replace(&mut state.is_consumer_called, true))
    }

    /// Asks for the consumer without an item. `true`: the caller has to call it.
    #[must_use]
    pub(super) fn request_consumer(&self) -> bool {
        let mut state = self.lock();
        !state.is_closed && !std::mem::replace(&mut state.is_consumer_called, true)
    }

    pub(super) fn pop(&self) -> Option<T> {
        self.lock().items.pop_front()
    }

    /// The consumer is done for now. `true`: there is more, and it has to come again; otherwise the
    /// next to push calls it.
    #[must_use]
    pub(super) fn finish_batch(&self) -> bool {
        let mut state = self.lock();
        state.is_consumer_called = !state.items.is_empty();
        shrink_if_empty(&mut state.items);
        state.is_consumer_called
    }

    /// Nobody will consume any more: gives back what is in it, and takes no more.
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
    fn c03_the_consumer_is_called_once_for_many() {
        let fifo = Fifo::new();
        assert_eq!([fifo.push(1), fifo.push(2), fifo.push(3)], [Ok(true), Ok(false), Ok(false)]);
        assert_eq!(fifo.pop(), Some(1));
        assert!(fifo.finish_batch(), "there is more, and the consumer stays called");
        assert_eq!(fifo.push(4), Ok(false));
        assert_eq!(
            [fifo.pop(), fifo.pop(), fifo.pop(), fifo.pop()],
            [Some(2), Some(3), Some(4), None]
        );
        assert_eq!(fifo.push(5), Ok(false), "it is at work until it rests");
        assert!(fifo.finish_batch());
        assert_eq!(fifo.pop(), Some(5));
        assert!(!fifo.finish_batch());
        assert!(fifo.request_consumer() && !fifo.request_consumer());
        assert!(!fifo.finish_batch());
        assert_eq!(fifo.push(6), Ok(true));
    }

    #[test]
    fn c03_a_closed_queue_takes_nothing() {
        let fifo = Fifo::new();
        fifo.push(1).unwrap();
        assert_eq!(fifo.close(), [1]);
        assert_eq!(fifo.push(2), Err(2));
        assert!(!fifo.request_consumer());
        assert_eq!(fifo.pop(), None);
    }
    #[test]
    fn r01_what_two_threads_push_is_taken_once_in_order_and_no_call_is_missed() {
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
