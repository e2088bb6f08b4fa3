//! Slots of a pool that are given back on another thread while the pool collects them, or is dropped.

use super::{model, model_of_three, thread};
use crate::raw::pool::{LentSlot, Pool};
use crate::sync::yield_now;

fn lend(pool: &mut Pool, count: usize) -> Vec<LentSlot> {
    (0..count).map(|_| pool.lend()).collect()
}

#[test]
fn e13_slots_given_back_elsewhere_are_collected_once() {
    model(|| {
        let mut pool = Pool::new();
        let lent = lend(&mut pool, 2);
        let other = thread::spawn(move || lent.into_iter().for_each(LentSlot::give_back_elsewhere));
        // The thread is not joined first: only the list says that a slot was given back.
        while pool.taken() > 0 {
            pool.collect_returned();
            yield_now();
        }
        other.join().unwrap();
        let chunks = pool.chunks_alive();
        drop(pool);
        assert_eq!(chunks(), 0);
    });
}

#[test]
fn e13_a_dropped_pool_leaves_its_memory_to_the_last_slot() {
    model_of_three(|| {
        let mut pool = Pool::new();
        let (one, two) = (pool.lend(), pool.lend());
        let chunks = pool.chunks_alive();
        let one = thread::spawn(move || one.give_back_elsewhere());
        let two = thread::spawn(move || two.give_back_elsewhere());
        drop(pool);
        one.join().unwrap();
        two.join().unwrap();
        assert_eq!(chunks(), 0, "freed, and once");
    });
}
