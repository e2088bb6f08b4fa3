//! The queue between threads: any number of producers, one consumer, unbounded (MPSC).
//!
//! A linked list of blocks of [`SLOTS`] slots. Producers claim a slot with one compare-and-swap of the tail
//! index. The consumer owns its position and takes without any read-modify-write, so that the load of the next
//! slot, whose cache line another core has just written, overlaps with the running task.
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
//! An index counts slots, plus one position per block: `lap * LAP + offset`. At the offset `SLOTS` the tail
//! says that the next block is being installed. The rules:
//!
//! 1. A slot belongs to the producer that claimed it until it writes the block's lap into the slot's `lap` (the
//!    mark); from then on it belongs to the consumer. A reused slot gets a later lap, so nothing is ever reset.
//! 2. The producer that claims the last slot of a block installs the next block before it marks its slot: a
//!    consumer that finds the last slot full finds `next` too. Installing is exclusive.
//! 3. A producer dereferences a block only between its claim and its mark, so a consumer that has seen every
//!    mark has exclusive access to the block, and may free it.
//! 4. The cursor belongs to the [`QueueConsumer`], of which there is one at a time (`is_claimed`).
//! 5. The spare block is stored by the consumer when there is none, and removed by the installing producer when
//!    there is one: two threads never write it at once.
//! 6. The queue counts as not empty as soon as a slot is claimed. The consumer waits until a claimed slot is
//!    written, because its producer may rely on the consumer having seen the claim (`wake/wake_word.rs`).

use std::fmt;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicBool, AtomicPtr, AtomicU64, Backoff, Ordering, UnsafeCell};

/// Slots of a block. An entry of 40 bytes and its mark make a slot of 48 bytes, and a block about 1.5 KiB.
const SLOTS: u64 = if cfg!(any(loom, miri)) { 2 } else { 31 };

/// How far ahead of its claim a producer prefetches a slot's cache line: the consumer owns it, and a store that
/// waits for it would delay the next claim. Eight slots are six cache lines, some 200 ns of pushing.
const AHEAD: usize = 8;

/// The increment of an index per block.
const LAP: u64 = SLOTS + 1;

/// The tail before the first push: no producer has begun to install the first block.
const NO_BLOCK: u64 = SLOTS;
/// The tail while the first block is being installed.
const INSTALLING_FIRST: u64 = LAP + SLOTS;
/// The index of the first slot. Its lap is not 0: lap 0 marks a slot that was never full.
const FIRST: u64 = 2 * LAP;

/// The queue. See the module's documentation.
pub(crate) struct MpscQueue<T> {
    /// The tail, written by producers, on a cache line of its own.
    tail: CachePadded<QueueTail<T>>,
    /// The head, written by the consumer.
    head: CachePadded<QueueHead<T>>,
    /// The spare block, written by both sides, once per block.
    spare: CachePadded<AtomicPtr<QueueBlock<T>>>,
}

struct QueueTail<T> {
    index: AtomicU64,
    /// The block that holds the slots of `index`.
    block: AtomicPtr<QueueBlock<T>>,
}

struct QueueHead<T> {
    /// The cursor's index, for any thread to read.
    index: AtomicU64,
    is_claimed: AtomicBool,
    cursor: UnsafeCell<QueueCursor<T>>,
    /// The first block of the queue; written before the tail leaves `INSTALLING_FIRST`.
    first: UnsafeCell<*mut QueueBlock<T>>,
}

/// The consumer's position; never at the offset `SLOTS`.
struct QueueCursor<T> {
    index: u64,
    /// Null until the consumer has seen the first push.
    block: *mut QueueBlock<T>,
}

struct QueueBlock<T> {
    /// The next block. Written before the last slot is marked, read after that.
    next: UnsafeCell<*mut QueueBlock<T>>,
    slots: [QueueSlot<T>; SLOTS as usize],
}

struct QueueSlot<T> {
    value: UnsafeCell<MaybeUninit<T>>,
    /// The lap in which the slot was last filled.
    lap: AtomicU64,
}

// SAFETY: values move from one thread to another (T: Send) and are touched by one at a time, as the rules above
// say; no thread holds a reference to a value in the queue, so T need not be Sync.
unsafe impl<T: Send> Sync for MpscQueue<T> {}
// SAFETY: as above; the queue owns its blocks.
unsafe impl<T: Send> Send for MpscQueue<T> {}

impl<T> MpscQueue<T> {
    /// Creates an empty queue. The first push allocates the first block.
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

    /// Appends a value. Inlined, as is everything between `execute` and here: a command passed through memory
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
            // The block pointer was stored before `index`: it is this block, or a later one, and then the claim fails.
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
            // SAFETY: the claim makes the slot ours; it holds no value, because the consumer took it.
            slot.value.with_mut(|place| unsafe { place.write(MaybeUninit::new(value)) });
            slot.lap.store(index / LAP, Ordering::Release);
            return;
        }
    }

    /// Returns how many values are queued, including those being written. On any thread but the consumer's it
    /// may already be outdated.
    pub(crate) fn len(&self) -> usize {
        let head = self.head.index.load(Ordering::Relaxed);
        let tail = self.tail.index.load(Ordering::Relaxed);
        values_before(tail).saturating_sub(values_before(head)) as usize
    }

    /// True if the queue has neither a value nor a claim. One side of the wake word's Dekker pair: claims are
    /// SeqCst too.
    pub(crate) fn is_empty(&self) -> bool {
        // `>=`, because the tail index is below the head index until the first block is installed.
        self.head.index.load(Ordering::Relaxed) >= self.tail.index.load(Ordering::SeqCst)
    }

    /// Returns the consuming end; `None` while another consumer exists.
    pub(crate) fn consumer(self: &Arc<Self>) -> Option<QueueConsumer<T>> {
        let is_claimed = self.head.is_claimed.swap(true, Ordering::Acquire);
        (!is_claimed).then(|| QueueConsumer { queue: self.clone() })
    }

    /// Installs the first block, or waits for the producer that installs the next one. Called when the tail is
    /// at the end of its block, or there is no block yet. Returns the new tail index.
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

    /// Appends a block to the list. The caller has moved the tail to the offset `SLOTS`, so no other producer
    /// installs a block. `link` receives the block; `index` is the index of its first slot.
    #[cold]
    fn install(&self, link: &UnsafeCell<*mut QueueBlock<T>>, index: u64) {
        let mut block = self.spare.load(Ordering::Acquire);
        if block.is_null() {
            block = QueueBlock::allocate();
        } else {
            self.spare.store(ptr::null_mut(), Ordering::Relaxed);
        }
        // SAFETY: no other thread knows the block yet.
        unsafe { &*block }.slots.iter().take(AHEAD).for_each(prefetch_for_write);
        // SAFETY: installing is exclusive, and the consumer reads the link only after the last slot
        // was marked, or after the tail left `INSTALLING_FIRST`.
        link.with_mut(|link| unsafe { *link = block });
        self.tail.block.store(block, Ordering::Relaxed);
        self.tail.index.store(index, Ordering::Release);
    }

    /// Takes the first value. Waits until the value is written if its slot is only claimed.
    ///
    /// # Safety
    /// The cursor must be this queue's, and the caller the only consumer.
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
            let finished = std::mem::replace(&mut cursor.block, next);
            // SAFETY: every slot of it was marked and read, and the cursor has left it.
            unsafe { self.retire(finished) };
        }
        self.head.index.store(cursor.index, Ordering::Relaxed);
        Some(value)
    }

    /// Checks like `is_empty`, with Acquire: the caller may then read the memory of the claimed slot.
    fn is_empty_for(&self, cursor: &QueueCursor<T>) -> bool {
        cursor.index >= self.tail.index.load(Ordering::Acquire)
    }

    /// Keeps a block as the spare, or frees it.
    ///
    /// # Safety
    /// No other thread may know the block any more.
    #[cold]
    unsafe fn retire(&self, block: *mut QueueBlock<T>) {
        if self.spare.load(Ordering::Relaxed).is_null() {
            self.spare.store(block, Ordering::Release);
        } else {
            // SAFETY: it came from `allocate`, and no other thread knows it.
            drop(unsafe { Box::from_raw(block) });
        }
    }
}

impl<T> Drop for MpscQueue<T> {
    /// Drops the remaining values. If one of them panics, the others are leaked.
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
                // SAFETY: it came from `allocate`; all other blocks were retired before.
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

    /// Waits for the producer that claimed the slot: between its claim and its mark are a few instructions, and
    /// at the end of a block an allocation.
    #[cold]
    fn wait_for(&self, lap: u64) {
        let backoff = Backoff::new();
        while self.lap.load(Ordering::Acquire) != lap {
            backoff.snooze();
        }
    }
}

/// The consuming end of a queue. There is one at a time.
pub(crate) struct QueueConsumer<T> {
    queue: Arc<MpscQueue<T>>,
}

impl<T> QueueConsumer<T> {
    /// Takes the first value. Waits until the value is written if its slot is only claimed.
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

/// Prefetches the cache line of a value that will be written soon.
#[inline(always)]
fn prefetch_for_write<T>(place: &T) {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    // SAFETY: a hint, which reads and writes nothing.
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

/// Returns how many slots there are before an index.
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
    fn values_keep_their_order_across_blocks() {
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
    fn a_short_queue_reuses_two_blocks() {
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
    fn remaining_values_are_dropped_with_the_queue() {
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
