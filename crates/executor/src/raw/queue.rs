//! The queue between threads: any number of producers, one consumer, no bound.
//!
//! A list of blocks of [`SLOTS`] slots. Producers claim a slot with one compare-and-swap of the tail
//! index; the consumer owns its position and takes without any read-modify-write, so that the load
//! of the next slot, whose cache line another core has just written, overlaps with whatever runs.
//!
//! ```text
//!            cursor (the consumer's)                           tail (the producers')
//!               │                                               │
//!   ┌───────────▼──────────┐ next ┌──────────────────────┐ next ┌▼─────────────────────┐
//!   │ taken │ full │ full  │─────►│ full │ claimed │ full│─────►│ claimed │ free │ free│
//!   └──────────────────────┘      └──────────────────────┘      └──────────────────────┘
//!     once all are taken: kept as the spare, or freed
//! ```
//!
//! An index counts slots, and one place more per block: `lap * LAP + offset`. At the offset `SLOTS`
//! the tail says that the next block is being installed. The rules:
//!
//! 1. A slot belongs to the producer that claimed it, until it writes the block's lap into the slot's
//!    `lap`; from then on to the consumer. A slot that is used again sees a later lap, so nothing is
//!    ever reset.
//! 2. Whoever claims the last slot of a block installs the next one, before it marks its slot: the
//!    consumer that finds the last slot full finds `next` too. Installing is exclusive.
//! 3. A producer dereferences a block between its claim and its mark only, so the consumer that has
//!    seen every mark is alone with the block, and may free it.
//! 4. The cursor belongs to the [`QueueConsumer`], of which there is one at a time (`is_claimed`).
//! 5. The spare is stored by the consumer when there is none, and removed by whoever installs when
//!    there is one: no two threads ever write it at once.
//! 6. The queue is not empty as soon as a slot is claimed. The consumer waits for a claimed slot to
//!    be written, because whoever claimed it may rely on the consumer having seen it (`wake.rs`).

use std::fmt;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicBool, AtomicPtr, AtomicU64, Backoff, Ordering, UnsafeCell};

/// Slots of a block. An entry of 40 bytes and its mark make a slot of 48, a block about 1.5 KiB.
const SLOTS: u64 = if cfg!(any(loom, miri)) { 2 } else { 31 };

/// How far ahead of its claim a producer asks for a slot's cache line: the consumer has it, and a
/// store that waits for it holds up the next claim. Eight slots are six lines, some 200 ns of pushing.
const AHEAD: usize = 8;

/// What an index moves by per block.
const LAP: u64 = SLOTS + 1;

/// The tail before the first push: nobody has begun to install the first block.
const NO_BLOCK: u64 = SLOTS;
/// The tail while the first block is being installed.
const INSTALLING_FIRST: u64 = LAP + SLOTS;
/// The index of the first slot. Its lap is not 0, the mark of a slot that was never full.
const FIRST: u64 = 2 * LAP;

/// See the module's documentation.
pub(crate) struct MpscQueue<T> {
    /// Written by producers, on a cache line of their own.
    tail: CachePadded<QueueTail<T>>,
    /// Written by the consumer.
    head: CachePadded<QueueHead<T>>,
    /// Written by both, once per block.
    spare: CachePadded<AtomicPtr<QueueBlock<T>>>,
}

struct QueueTail<T> {
    index: AtomicU64,
    /// Where the slots of `index` are.
    block: AtomicPtr<QueueBlock<T>>,
}

struct QueueHead<T> {
    /// The cursor's index, for everyone to read.
    index: AtomicU64,
    is_claimed: AtomicBool,
    cursor: UnsafeCell<QueueCursor<T>>,
    /// The first block of all; written before the tail leaves `INSTALLING_FIRST`.
    first: UnsafeCell<*mut QueueBlock<T>>,
}

/// The consumer's position; never at the offset `SLOTS`.
struct QueueCursor<T> {
    index: u64,
    /// Null until something was pushed.
    block: *mut QueueBlock<T>,
}

struct QueueBlock<T> {
    /// Written before the last slot is marked, read after that.
    next: UnsafeCell<*mut QueueBlock<T>>,
    slots: [QueueSlot<T>; SLOTS as usize],
}

struct QueueSlot<T> {
    value: UnsafeCell<MaybeUninit<T>>,
    /// The lap in which it was filled last.
    lap: AtomicU64,
}

// SAFETY: values move from one thread to another (T: Send) and are touched by one at a time, as the
// rules above say; nobody holds a reference to a value in the queue, so T need not be Sync.
unsafe impl<T: Send> Sync for MpscQueue<T> {}
// SAFETY: as above; the queue owns its blocks.
unsafe impl<T: Send> Send for MpscQueue<T> {}

impl<T> MpscQueue<T> {
    /// An empty one; the first block comes with the first push.
    pub(crate) fn new() -> Self {
        Self {
            tail: CachePadded::new(QueueTail {
                index: AtomicU64::new(NO_BLOCK),
                block: AtomicPtr::new(ptr::null_mut()),
            }),
            head: CachePadded::new(QueueHead {
                index: AtomicU64::new(FIRST),
                is_claimed: AtomicBool::new(false),
                cursor: UnsafeCell::new(QueueCursor { index: FIRST, block: ptr::null_mut() }),
                first: UnsafeCell::new(ptr::null_mut()),
            }),
            spare: CachePadded::new(AtomicPtr::new(ptr::null_mut())),
        }
    }

    /// Appends a value. Inlined, as is all between `execute` and here: a command passed on by memory
    /// waits for its own stores.
    #[inline(always)]
    pub(crate) fn push(&self, value: T) {
        let backoff = Backoff::new();
        let mut index = self.tail.index.load(Ordering::Acquire);
        loop {
            let offset = index % LAP;
            if offset == SLOTS {
                index = self.wait_for_block(index, &backoff);
                continue;
            }
            // Stored before `index` was: this one, or a later one, and then the claim fails.
            let block = self.tail.block.load(Ordering::Relaxed);
            let claim = self.tail.index.compare_exchange_weak(
                index,
                index + 1,
                Ordering::SeqCst,
                Ordering::Acquire,
            );
            if let Err(now) = claim {
                index = now;
                backoff.spin();
                continue;
            }
            // SAFETY: we have claimed a slot of this block and not marked it, so it is not freed.
            let block = unsafe { &*block };
            if offset + 1 == SLOTS {
                self.install(&block.next, index + 2);
            }
            if let Some(later) = block.slots.get(offset as usize + AHEAD) {
                prefetch_for_write(later);
            }
            let slot = &block.slots[offset as usize];
            // SAFETY: the claim makes the slot ours; it holds no value, the consumer took it.
            slot.value.with_mut(|place| unsafe { place.write(MaybeUninit::new(value)) });
            slot.lap.store(index / LAP, Ordering::Release);
            return;
        }
    }

    /// How many values are in it, those included that are being written; for anyone but the consumer
    /// it may have changed already.
    pub(crate) fn len(&self) -> usize {
        let head = self.head.index.load(Ordering::Relaxed);
        let tail = self.tail.index.load(Ordering::Relaxed);
        values_before(tail).saturating_sub(values_before(head)) as usize
    }

    /// Whether nothing is in it, not even a claim. One side of the wake word's Dekker pair: claims are SeqCst, too.
    pub(crate) fn is_empty(&self) -> bool {
        // The tail is behind while the next block is being installed.
        self.head.index.load(Ordering::Relaxed) >= self.tail.index.load(Ordering::SeqCst)
    }

    /// The right to take; `None` while somebody else has it.
    pub(crate) fn consumer(self: &Arc<Self>) -> Option<QueueConsumer<T>> {
        let is_claimed = self.head.is_claimed.swap(true, Ordering::Acquire);
        (!is_claimed).then(|| QueueConsumer { queue: self.clone() })
    }

    /// The tail is at the end of its block, or there is none yet: sees to it that there is, or waits
    /// for the one who does.
    #[cold]
    fn wait_for_block(&self, index: u64, backoff: &Backoff) -> u64 {
        let is_mine = index == NO_BLOCK
            && self
                .tail
                .index
                .compare_exchange(NO_BLOCK, INSTALLING_FIRST, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        if is_mine {
            self.install(&self.head.first, FIRST);
        } else {
            backoff.snooze();
        }
        self.tail.index.load(Ordering::Acquire)
    }

    /// Puts a block at the end of the list. The caller has moved the tail to the offset `SLOTS`, so
    /// nobody else does; `link` is what leads to the block, `index` its first slot's.
    #[cold]
    fn install(&self, link: &UnsafeCell<*mut QueueBlock<T>>, index: u64) {
        let mut block = self.spare.load(Ordering::Acquire);
        if block.is_null() {
            block = QueueBlock::allocate();
        } else {
            self.spare.store(ptr::null_mut(), Ordering::Relaxed);
        }
        // SAFETY: nobody else knows of the block yet.
        unsafe { &*block }.slots.iter().take(AHEAD).for_each(prefetch_for_write);
        // SAFETY: installing is exclusive, and the consumer reads the link only after the last slot
        // was marked, or after the tail left `INSTALLING_FIRST`.
        link.with_mut(|link| unsafe { *link = block });
        self.tail.block.store(block, Ordering::Relaxed);
        self.tail.index.store(index, Ordering::Release);
    }

    /// Takes the first value, waiting for it to be written if it is only claimed.
    ///
    /// # Safety
    /// The cursor must be this queue's, and the caller the one consumer.
    #[inline(always)]
    unsafe fn take(&self, cursor: &mut QueueCursor<T>) -> Option<T> {
        if cursor.block.is_null() {
            if self.is_empty_for(cursor) {
                return None;
            }
            // SAFETY: the tail has left `INSTALLING_FIRST`, as we have just read with Acquire.
            cursor.block = self.head.first.with(|first| unsafe { *first });
        }
        // SAFETY: only the consumer frees blocks, and it moves the cursor away before.
        let block = unsafe { &*cursor.block };
        let (lap, offset) = (cursor.index / LAP, cursor.index % LAP);
        let slot = &block.slots[offset as usize];
        if slot.lap.load(Ordering::Acquire) != lap {
            if self.is_empty_for(cursor) {
                return None;
            }
            slot.wait_for(lap);
        }
        // SAFETY: the mark says that the producer has written a value and left; the cursor moves on,
        // so it is read once.
        let value = slot.value.with(|place| unsafe { place.cast::<T>().read() });
        cursor.index += 1;
        if offset + 1 == SLOTS {
            cursor.index += 1;
            // SAFETY: written before the last slot was marked.
            let next = block.next.with(|next| unsafe { *next });
            let through = std::mem::replace(&mut cursor.block, next);
            // SAFETY: every slot of it was marked and read, and the cursor has left it.
            unsafe { self.retire(through) };
        }
        self.head.index.store(cursor.index, Ordering::Relaxed);
        Some(value)
    }

    /// As `is_empty`, but what it finds may be looked at.
    fn is_empty_for(&self, cursor: &QueueCursor<T>) -> bool {
        cursor.index >= self.tail.index.load(Ordering::Acquire)
    }

    /// Keeps a block for the next one who installs, or frees it.
    ///
    /// # Safety
    /// Nobody else may know of the block any more.
    #[cold]
    unsafe fn retire(&self, block: *mut QueueBlock<T>) {
        if self.spare.load(Ordering::Relaxed).is_null() {
            self.spare.store(block, Ordering::Release);
        } else {
            // SAFETY: it came from `allocate`, and the caller is the last to know of it.
            drop(unsafe { Box::from_raw(block) });
        }
    }
}

impl<T> Drop for MpscQueue<T> {
    /// Drops what is left. Should one of them panic, the others are leaked.
    fn drop(&mut self) {
        let mut cursor = self.head.cursor.with_mut(|cursor| {
            // SAFETY: `&mut self`: there is no consumer and no producer.
            let cursor = unsafe { &mut *cursor };
            QueueCursor { index: cursor.index, block: cursor.block }
        });
        // SAFETY: as above.
        while let Some(value) = unsafe { self.take(&mut cursor) } {
            drop(value);
        }
        for block in [cursor.block, self.spare.load(Ordering::Acquire)] {
            if !block.is_null() {
                // SAFETY: it came from `allocate`; all others were retired before.
                drop(unsafe { Box::from_raw(block) });
            }
        }
    }
}

impl<T> QueueBlock<T> {
    fn allocate() -> *mut Self {
        let mut block = Box::<Self>::new_uninit();
        let start = block.as_mut_ptr();
        // SAFETY: in bounds of the allocation.
        let next = unsafe { &raw mut (*start).next };
        // SAFETY: as above, and nothing is overwritten.
        unsafe { next.write(UnsafeCell::new(ptr::null_mut())) };
        // SAFETY: as above.
        let slots = unsafe { &raw mut (*start).slots }.cast::<QueueSlot<T>>();
        for offset in 0..SLOTS as usize {
            // SAFETY: in bounds of the array.
            let slot = unsafe { slots.add(offset) };
            // SAFETY: as for `next`.
            unsafe { slot.write(QueueSlot::new()) };
        }
        // SAFETY: both fields were written.
        Box::into_raw(unsafe { block.assume_init() })
    }
}

impl<T> QueueSlot<T> {
    fn new() -> Self {
        Self { value: UnsafeCell::new(MaybeUninit::uninit()), lap: AtomicU64::new(0) }
    }

    /// Waits for whoever claimed it: between its claim and its mark there are a few instructions, and
    /// at the end of a block an allocation.
    #[cold]
    fn wait_for(&self, lap: u64) {
        let backoff = Backoff::new();
        while self.lap.load(Ordering::Acquire) != lap {
            backoff.snooze();
        }
    }
}

/// The one that takes.
pub(crate) struct QueueConsumer<T> {
    queue: Arc<MpscQueue<T>>,
}

impl<T> QueueConsumer<T> {
    /// The first value, waiting for it to be written if it is only claimed.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<T> {
        let queue = &*self.queue;
        queue.head.cursor.with_mut(|cursor| {
            // SAFETY: `is_claimed` is ours, and `&mut self` is the only consumer.
            let cursor = unsafe { &mut *cursor };
            // SAFETY: as above; it is this queue's.
            unsafe { queue.take(cursor) }
        })
    }
}

impl<T> Drop for QueueConsumer<T> {
    fn drop(&mut self) {
        self.queue.head.is_claimed.store(false, Ordering::Release);
    }
}

impl<T> fmt::Debug for MpscQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MpscQueue").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Asks for the cache line of a place that will be written soon.
#[inline(always)]
fn prefetch_for_write<T>(place: &T) {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    // SAFETY: a hint: it reads and writes nothing.
    unsafe {
        std::arch::asm!(
            "prefetchw [{place}]",
            place = in(reg) ptr::from_ref(place),
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom), not(miri))))]
    let _ = place;
}

/// How many slots there are before an index.
fn values_before(index: u64) -> u64 {
    index / LAP * SLOTS + index % LAP
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn queue<T>() -> (Arc<MpscQueue<T>>, QueueConsumer<T>) {
        let queue = Arc::new(MpscQueue::new());
        let consumer = queue.consumer().unwrap();
        (queue, consumer)
    }

    #[test]
    fn what_goes_in_comes_out_in_order_across_blocks() {
        let (queue, mut consumer) = queue();
        assert_eq!(consumer.pop(), None);
        for round in 0..5 {
            let count = 3 * SLOTS + round;
            assert!(queue.is_empty());
            (0..count).for_each(|n| queue.push(n));
            assert_eq!(queue.len() as u64, count);
            for n in 0..count {
                assert_eq!(queue.len() as u64, count - n);
                assert_eq!(consumer.pop(), Some(n));
            }
            assert_eq!(consumer.pop(), None);
        }
    }

    #[test]
    fn there_is_one_consumer_at_a_time() {
        let (queue, mut consumer) = queue();
        assert!(queue.consumer().is_none());
        queue.push(1);
        queue.push(2);
        assert_eq!(consumer.pop(), Some(1));
        drop(consumer);
        assert_eq!(queue.consumer().unwrap().pop(), Some(2), "goes on where the other one was");
    }

    #[test]
    fn a_trickle_goes_through_two_blocks_for_ever() {
        let (queue, mut consumer) = queue();
        let mut seen = Vec::new();
        for n in 0..10 * SLOTS {
            queue.push(n);
            let block = queue.tail.block.load(Ordering::Relaxed);
            if !seen.contains(&block) {
                seen.push(block);
            }
            assert_eq!(consumer.pop(), Some(n));
        }
        assert_eq!(seen.len(), 2);
    }

    #[test]
    fn what_is_left_is_dropped_with_the_queue() {
        for count in [0, 1, SLOTS - 1, SLOTS, SLOTS + 1, 3 * SLOTS] {
            let alive = Arc::new(());
            let (queue, mut consumer) = queue();
            (0..count + 1).for_each(|_| queue.push(alive.clone()));
            drop(consumer.pop());
            drop((queue, consumer));
            assert_eq!(Arc::strong_count(&alive), 1, "of {count}");
        }
    }

    #[test]
    fn values_of_any_size_are_carried() {
        let (queue, mut consumer) = queue();
        (0..100).for_each(|_| queue.push(()));
        assert_eq!((0..200).filter(|_| consumer.pop().is_some()).count(), 100);
        let (queue, mut consumer) = self::queue();
        (0..100u8).for_each(|n| queue.push([n; 1000]));
        assert!((0..100u8).all(|n| consumer.pop() == Some([n; 1000])));
    }

    #[test]
    fn r01_nothing_is_lost_between_threads() {
        const EACH: u64 = if cfg!(miri) { 10 } else { 20_000 };
        let (queue, mut consumer) = queue();
        let producers: Vec<_> = (0..3u64)
            .map(|producer| {
                let queue = queue.clone();
                std::thread::spawn(move || (0..EACH).for_each(|n| queue.push((producer, n))))
            })
            .collect();
        let mut next = [0; 3];
        while next != [EACH; 3] {
            match consumer.pop() {
                Some((producer, n)) => {
                    let expected = &mut next[producer as usize];
                    assert_eq!(n, *expected);
                    *expected += 1;
                }
                None => std::thread::yield_now(),
            }
        }
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        assert!(queue.is_empty());
    }
}
