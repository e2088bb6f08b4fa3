//! Slots that are taken, given back on this and on other threads, and the memory they leave.

use super::*;

/// Slots of a pool, sent to another thread.
struct Slots(Vec<NonNull<u8>>);

// SAFETY: a slot belongs to its holder.
unsafe impl Send for Slots {}

fn take(pool: &mut Pool, count: usize) -> Slots {
    let fill = |slot: NonNull<u8>| {
        // SAFETY: a slot has this many bytes.
        unsafe { slot.write_bytes(0xA5, SLOT) };
        slot
    };
    Slots((0..count).map(|_| fill(pool.take().unwrap())).collect())
}

fn give_back(pool: &mut Pool, slots: Slots) {
    for slot in slots.0 {
        // SAFETY: taken from this pool, and not used afterwards.
        assert!(unsafe { pool.give_back_own(slot) });
    }
}

fn give_back_elsewhere(slots: Slots) {
    let give_back = move || {
        let slots = slots;
        for slot in slots.0 {
            // SAFETY: taken from a pool, and not used afterwards.
            unsafe { super::give_back(slot) };
        }
    };
    std::thread::spawn(give_back).join().unwrap();
}

/// Returns how many chunks of a pool are allocated.
fn chunks(returns: &Arc<ReturnList>, pool_lives: bool) -> usize {
    Arc::strong_count(returns) - 1 - usize::from(pool_lives)
}

const PER_CHUNK: usize = SLOTS - RESERVED as usize;

#[test]
fn slots_are_apart_and_neighbours_are_taken_one_after_the_other() {
    let mut pool = Pool::new();
    let slots = take(&mut pool, 2 * PER_CHUNK);
    let returns = pool.returns.clone().unwrap();
    assert_eq!(chunks(&returns, true), 2);
    let first: Vec<_> = slots.0[..PER_CHUNK].to_vec();
    assert!(first.windows(2).all(|two| two[1].addr().get() - two[0].addr().get() == SLOT));
    let mut backwards = slots;
    backwards.0.reverse();
    give_back(&mut pool, backwards);
    pool.slots.flush_recent();
    let again = take(&mut pool, PER_CHUNK);
    assert_eq!(again.0, first);
    give_back(&mut pool, again);
}

#[test]
fn slots_given_back_elsewhere_are_used_before_new_memory() {
    let mut pool = Pool::new();
    let slots = take(&mut pool, PER_CHUNK);
    let sorted = slots.0.clone();
    give_back_elsewhere(slots);
    let mut again = take(&mut pool, PER_CHUNK);
    again.0.sort();
    assert_eq!(again.0, sorted);
    assert_eq!(chunks(&pool.returns.clone().unwrap(), true), 1);
    give_back(&mut pool, again);
}

#[test]
fn a_pool_shrinks_after_a_burst_although_some_slots_stay() {
    let mut pool = Pool::new();
    let mut slots = take(&mut pool, if cfg!(miri) { 5 } else { 40 } * PER_CHUNK);
    let returns = pool.returns.clone().unwrap();
    let kept = Slots(slots.0.drain(PER_CHUNK + 7..PER_CHUNK + 9).collect());
    let half = Slots(slots.0.split_off(slots.0.len() / 2));
    give_back_elsewhere(half);
    give_back(&mut pool, slots);
    pool.shrink();
    let spare = SPARE / SLOTS;
    assert!((2..=2 + spare + 1).contains(&chunks(&returns, true)), "{}", chunks(&returns, true));
    give_back(&mut pool, kept);
    drop(pool);
    assert_eq!(chunks(&returns, false), 0);
}

#[test]
fn a_dropped_pool_leaves_its_chunks_to_the_last_slots() {
    let mut pool = Pool::new();
    let mut slots = take(&mut pool, PER_CHUNK + 3);
    let returns = pool.returns.clone().unwrap();
    let late = Slots(slots.0.split_off(PER_CHUNK - 1));
    let before = Slots(slots.0.split_off(PER_CHUNK - 2));
    give_back_elsewhere(before);
    give_back(&mut pool, slots);
    drop(pool);
    assert_eq!(chunks(&returns, false), 2, "one slot of the first is missing, three of the second");
    give_back_elsewhere(late);
    assert_eq!(chunks(&returns, false), 0);
}

#[test]
fn a_thread_that_ends_leaves_its_slots_to_others() {
    let taken = std::thread::spawn(|| Slots(vec![super::take().unwrap(); 1])).join().unwrap();
    for slot in taken.0 {
        // SAFETY: taken from a pool that was dropped, and not used afterwards.
        unsafe { super::give_back(slot) };
    }
}
