//! The queue between threads, with two slots per block: every second push installs a block.
//!
//! The consumer pops a fixed number of times while producers push, and takes the rest when they are done: if
//! it polled without a limit, loom would not terminate.
//!
//! Before each push and each pop a thread writes a common word, which orders nothing. Loom tries another
//! order only where the last access to an object conflicts with the next, and forgets that the consumer has
//! read the tail as soon as a producer has read it too. Without the word, loom would explore a single order.

use std::sync::Arc;

use super::{AtomicUsize, Ordering, model, model_of_three, thread};
use crate::raw::queue::{MpscQueue, QueueConsumer};

/// A value that owns memory, so that taking it twice is detected.
type Value = Box<(usize, usize)>;

/// The word that every thread writes before each step, so that loom explores more than one order.
#[derive(Clone)]
struct Pace(Arc<AtomicUsize>);

impl Pace {
    fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(0)))
    }

    fn step(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The consumer, and how many values of each producer it has taken.
struct Taker<const PRODUCERS: usize> {
    queue: Arc<MpscQueue<Value>>,
    pace: Pace,
    consumer: QueueConsumer<Value>,
    next: [usize; PRODUCERS],
}

impl<const PRODUCERS: usize> Taker<PRODUCERS> {
    fn new(queue: &Arc<MpscQueue<Value>>) -> Self {
        let consumer = queue.consumer().unwrap();
        Self { queue: queue.clone(), pace: Pace::new(), consumer, next: [0; PRODUCERS] }
    }

    /// Starts a thread that pushes `count` numbered values.
    fn produce(&self, producer: usize, count: usize) -> thread::JoinHandle<()> {
        let (queue, pace) = (self.queue.clone(), self.pace.clone());
        thread::spawn(move || {
            for n in 0..count {
                pace.step();
                queue.push(Box::new((producer, n)));
            }
        })
    }

    /// Pops once. Returns whether the queue had a value.
    fn look(&mut self) -> bool {
        self.pace.step();
        let Some(value) = self.consumer.pop() else { return false };
        let (producer, n) = *value;
        assert_eq!(n, self.next[producer], "of producer {producer}");
        self.next[producer] += 1;
        true
    }

    /// Takes the remaining values when the producers are done.
    fn finish(
        mut self,
        producers: impl IntoIterator<Item = thread::JoinHandle<()>>,
    ) -> [usize; PRODUCERS] {
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        while self.look() {}
        self.next
    }
}

#[test]
fn e07_two_producers_lose_nothing_and_keep_their_order() {
    model_of_three(|| {
        let queue = Arc::new(MpscQueue::new());
        let mut taker = Taker::new(&queue);
        let producers = [taker.produce(0, 2), taker.produce(1, 1)];
        taker.look();
        taker.look();
        assert_eq!(taker.finish(producers), [2, 1]);
        assert!(queue.is_empty());
    });
}

/// The consumer finishes a block, which becomes the spare; the producer uses the spare, or allocates a block
/// if it is ahead of the consumer.
#[test]
fn e07_blocks_are_handed_over_and_used_again() {
    model(|| {
        let queue = Arc::new(MpscQueue::new());
        let mut taker = Taker::<1>::new(&queue);
        let producer = taker.produce(0, 5);
        for _ in 0..3 {
            taker.look();
        }
        assert_eq!(taker.finish([producer]), [5]);
        assert_eq!(queue.len(), 0);
    });
}

/// Two producers reach the end of a block; the one that installs the next block uses the spare.
#[test]
fn e07_two_producers_share_the_spare() {
    model_of_three(|| {
        let queue = Arc::new(MpscQueue::new());
        let mut taker = Taker::<3>::new(&queue);
        (0..3).for_each(|n| queue.push(Box::new((2, n))));
        let producers = [taker.produce(0, 1), taker.produce(1, 1)];
        (0..3).for_each(|_| assert!(taker.look()));
        taker.look();
        assert_eq!(taker.finish(producers), [1, 1, 3]);
        assert!(queue.is_empty());
    });
}

#[test]
fn remaining_values_are_dropped_with_the_queue() {
    model(|| {
        let alive = Arc::new(());
        let queue = Arc::new(MpscQueue::new());
        let mut consumer = queue.consumer().unwrap();
        let pace = Pace::new();
        let producer = {
            let (queue, alive, pace) = (queue.clone(), alive.clone(), pace.clone());
            thread::spawn(move || {
                for _ in 0..4 {
                    pace.step();
                    queue.push(alive.clone());
                }
            })
        };
        pace.step();
        drop(consumer.pop());
        producer.join().unwrap();
        drop((queue, consumer));
        assert_eq!(Arc::strong_count(&alive), 1);
    });
}

/// The teardown of a loop may be a second consumer.
#[test]
fn a_second_consumer_continues_where_the_first_stopped() {
    model(|| {
        let queue = Arc::new(MpscQueue::new());
        (1..=3).for_each(|n| queue.push(n));
        let other = {
            let queue = queue.clone();
            thread::spawn(move || queue.consumer().map_or(0, |mut it| it.pop().unwrap()))
        };
        let mine = queue.consumer().map_or(0, |mut it| it.pop().unwrap());
        let sum = mine + other.join().unwrap();
        assert!(sum == 1 || sum == 3, "taken twice, or by no consumer: {sum}");
    });
}
