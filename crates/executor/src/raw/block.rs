//! A reference-counted object behind one thin pointer: an `Arc` whose tail only the object's own type knows.
//!
//! ```text
//!   Ref<H, D>  ──►┌────────┬───────┬──────┬───────┐
//!   AnyRef<D>  ──►│ counts │ table │ head │ tail  │
//!   WeakRef<D> ──►└────────┴───┬───┴──────┴───────┘
//!                              └──► functions: convert to D, drop the contents
//! ```
//!
//! - [`Ref`] knows the type of the head, [`AnyRef`] does not. Both are one word, whatever the tail is, so an
//!   object can carry a tail that its users need not know: a timer's closure behind its promise, in one
//!   allocation.
//! - The interface of the object is `D`, usually a `dyn Trait`. The function that returns it is in the table,
//!   which is made together with the object, so it always fits.
//! - One word counts: strong handles, which keep the contents alive, in the lower half; weak handles, which
//!   keep the memory, in the upper one. All strong handles together count as one weak handle.
//! - A drop that finds its handle to be the only one frees the object without another atomic operation: no
//!   other thread can count.
//! - The memory comes from the global allocator, or from the [`pool`] of the thread that made the object. Each
//!   has a table of its own, so that the thread that frees the memory knows which.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use super::pool;
use crate::sync::{AtomicU64, Ordering};

/// One strong handle: it keeps the contents alive.
const STRONG: u64 = 1;
/// One weak handle: it keeps the memory.
const WEAK: u64 = 1 << 32;
/// The counts of an object that has a single handle, a strong one.
const ONLY: u64 = STRONG + WEAK;
/// The limit on handles. Only leaked handles can reach it, before the count could overflow.
const MAX_HANDLES: u64 = 1 << 31;

/// The object: header, head and tail.
#[repr(C)]
pub(crate) struct CountedBlock<H, T, D: ?Sized + 'static> {
    header: Header<D>,
    head: H,
    tail: T,
}

/// The first part of every block.
struct Header<D: ?Sized + 'static> {
    counts: AtomicU64,
    table: &'static BlockTable<D>,
}

/// The functions, layout and allocator of a block's own type.
struct BlockTable<D: ?Sized + 'static> {
    as_dyn: unsafe fn(NonNull<Header<D>>) -> NonNull<D>,
    /// Drops head and tail, not the memory.
    drop: unsafe fn(NonNull<Header<D>>),
    layout: Layout,
    allocator: Allocator,
}

/// Where the memory of a block comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allocator {
    Global,
    /// The pool of the thread that makes the block, or the global allocator if the block is too large. For
    /// blocks that are made and dropped by the thousand on one thread.
    Pool,
}

/// Converts a block to its interface `D`, for handles that do not know its type.
pub(crate) trait AsDyn<D: ?Sized> {
    fn as_dyn(&self) -> &D;
}

impl<H, T, D: ?Sized + 'static> CountedBlock<H, T, D>
where
    Self: AsDyn<D>,
{
    const GLOBAL: &'static BlockTable<D> = &Self::table(Allocator::Global);
    const POOLED: &'static BlockTable<D> = &Self::table(Allocator::Pool);

    const fn table(allocator: Allocator) -> BlockTable<D> {
        let (as_dyn, drop, layout) = (Self::dyn_of, Self::drop_contents, Layout::new::<Self>());
        BlockTable { as_dyn, drop, layout, allocator }
    }

    /// Allocates a block. Returns its memory, and the table that goes with it.
    #[inline]
    fn allocate(allocator: Allocator) -> (NonNull<Self>, &'static BlockTable<D>) {
        let layout = const { Layout::new::<Self>() };
        if allocator == Allocator::Pool
            && pool::fits(layout)
            && let Some(slot) = pool::take()
        {
            return (slot.cast(), Self::POOLED);
        }
        // SAFETY: a block has a header, so it is not empty.
        let memory = NonNull::new(unsafe { alloc(layout) });
        let memory = memory.unwrap_or_else(|| handle_alloc_error(layout));
        (memory.cast(), Self::GLOBAL)
    }

    unsafe fn dyn_of(block: NonNull<Header<D>>) -> NonNull<D> {
        // SAFETY: the caller promises a block of this very type, whose contents are alive.
        let this = unsafe { block.cast::<Self>().as_ref() };
        NonNull::from(this.as_dyn())
    }

    unsafe fn drop_contents(block: NonNull<Header<D>>) {
        /// Drops the tail even if the head's destructor panics.
        struct DropTail<T>(*mut T);
        impl<T> Drop for DropTail<T> {
            fn drop(&mut self) {
                // SAFETY: as below.
                unsafe { self.0.drop_in_place() };
            }
        }
        let this = block.cast::<Self>().as_ptr();
        // SAFETY: the caller promises a block of this very type.
        let tail = DropTail(unsafe { &raw mut (*this).tail });
        // SAFETY: as above.
        let head = unsafe { &raw mut (*this).head };
        // SAFETY: the caller promises that no other thread can reach the contents, now or later.
        unsafe { head.drop_in_place() };
        drop(tail);
    }
}

impl<H, T, D: ?Sized + 'static> CountedBlock<H, T, D> {
    pub(crate) fn head(&self) -> &H {
        &self.head
    }

    pub(crate) fn tail(&self) -> &T {
        &self.tail
    }
}

/// A strong handle that knows the type of the head.
pub(crate) struct Ref<H, D: ?Sized + 'static> {
    any: AnyRef<D>,
    head: PhantomData<H>,
}

impl<H, D: ?Sized + 'static> Ref<H, D> {
    /// Makes an object and two handles to it. Its parts are made in place: values made before the allocation
    /// would be moved in, at half the cost of everything else.
    #[inline]
    pub(crate) fn pair<T>(
        allocator: Allocator,
        head: impl FnOnce() -> H,
        tail: impl FnOnce() -> T,
    ) -> (Self, Self)
    where
        CountedBlock<H, T, D>: AsDyn<D> + Send + Sync + 'static,
    {
        let (block, table) = CountedBlock::<H, T, D>::allocate(allocator);
        let header = Header { counts: AtomicU64::new(STRONG + ONLY), table };
        // SAFETY: just allocated, for a block of this type. The pointer never becomes a reference: a pool finds the
        // chunk through it.
        unsafe { block.write(CountedBlock { header, head: head(), tail: tail() }) };
        let block = block.cast();
        let handle = || Self { any: AnyRef { block }, head: PhantomData };
        (handle(), handle())
    }

    /// Returns the same handle without the type of the head.
    pub(crate) fn any(&self) -> &AnyRef<D> {
        &self.any
    }

    pub(crate) fn into_any(self) -> AnyRef<D> {
        self.any
    }
}

impl<H, D: ?Sized + 'static> Deref for Ref<H, D> {
    type Target = H;

    #[inline]
    fn deref(&self) -> &H {
        // Whatever the tail is, header and head have the same layout as before an empty tail (`repr(C)`).
        let block = self.any.block.cast::<CountedBlock<H, (), D>>().as_ptr();
        // SAFETY: made by `pair` with this H in it.
        let head = unsafe { &raw const (*block).head };
        // SAFETY: this handle keeps the contents alive; no `&mut` to them exists.
        unsafe { &*head }
    }
}

/// Moving a handle does not move the head.
impl<H, D: ?Sized> Unpin for Ref<H, D> {}

impl<H: fmt::Debug, D: ?Sized + 'static> fmt::Debug for Ref<H, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<H, D: ?Sized + 'static> Clone for Ref<H, D> {
    fn clone(&self) -> Self {
        Self { any: self.any.clone(), head: PhantomData }
    }
}

/// A strong handle that knows the object by its interface alone.
pub(crate) struct AnyRef<D: ?Sized + 'static> {
    block: NonNull<Header<D>>,
}

// SAFETY: `pair` requires Send and Sync.
unsafe impl<D: ?Sized> Send for AnyRef<D> {}
// SAFETY: as above.
unsafe impl<D: ?Sized> Sync for AnyRef<D> {}
// SAFETY: as above; the head is a part of the object.
unsafe impl<H, D: ?Sized> Send for Ref<H, D> {}
// SAFETY: as above.
unsafe impl<H, D: ?Sized> Sync for Ref<H, D> {}

impl<D: ?Sized + 'static> AnyRef<D> {
    /// Returns a weak handle.
    pub(crate) fn downgrade(&self) -> WeakRef<D> {
        let before = self.header().counts.fetch_add(WEAK, Ordering::Relaxed);
        check_overflow(before >> 32);
        WeakRef { block: self.block }
    }

    /// True if there is no other strong handle. A weak handle may still be upgraded to one.
    pub(crate) fn is_unique(&self) -> bool {
        self.header().counts.load(Ordering::Acquire) & (WEAK - 1) == STRONG
    }

    fn header(&self) -> &Header<D> {
        // SAFETY: this handle keeps the memory; a header is only ever shared.
        unsafe { self.block.as_ref() }
    }
}

impl<D: ?Sized + 'static> Deref for AnyRef<D> {
    type Target = D;

    #[inline]
    fn deref(&self) -> &D {
        let as_dyn = self.header().table.as_dyn;
        // SAFETY: the table is that of the block's type, and this handle keeps the contents alive.
        let as_dyn = unsafe { as_dyn(self.block) };
        // SAFETY: it was just made from a reference, and lives as long as the contents.
        unsafe { as_dyn.as_ref() }
    }
}

impl<D: ?Sized + 'static> Clone for AnyRef<D> {
    fn clone(&self) -> Self {
        // Relaxed, because the owner of a handle already sees the contents.
        let before = self.header().counts.fetch_add(STRONG, Ordering::Relaxed);
        check_overflow(before & (WEAK - 1));
        Self { block: self.block }
    }
}

impl<D: ?Sized + 'static> Drop for AnyRef<D> {
    #[inline]
    fn drop(&mut self) {
        /// Frees the memory even if a destructor panics.
        struct FreeOnDrop<D: ?Sized + 'static>(NonNull<Header<D>>);
        impl<D: ?Sized + 'static> Drop for FreeOnDrop<D> {
            #[inline]
            fn drop(&mut self) {
                // SAFETY: there is no other handle, so only this frees the memory.
                unsafe { free(self.0) };
            }
        }
        let header = self.header();
        let drop_contents = header.table.drop;
        if header.counts.load(Ordering::Acquire) == ONLY {
            let _memory = FreeOnDrop(self.block);
            // SAFETY: the only handle of any kind: nothing else can reach the contents.
            return unsafe { drop_contents(self.block) };
        }
        if header.counts.fetch_sub(STRONG, Ordering::AcqRel) & (WEAK - 1) == STRONG {
            // The weak handle that all strong handles together count as.
            let _memory = WeakRef { block: self.block };
            // SAFETY: the last strong handle, and none can be made from a weak one.
            unsafe { drop_contents(self.block) };
        }
    }
}

/// A weak handle: it keeps the memory, not the contents.
pub(crate) struct WeakRef<D: ?Sized + 'static> {
    block: NonNull<Header<D>>,
}

// SAFETY: as for `AnyRef`.
unsafe impl<D: ?Sized> Send for WeakRef<D> {}
// SAFETY: as above.
unsafe impl<D: ?Sized> Sync for WeakRef<D> {}

impl<D: ?Sized + 'static> WeakRef<D> {
    /// Returns a strong handle, if the contents are still alive.
    pub(crate) fn upgrade(&self) -> Option<AnyRef<D>> {
        let counted = self.counts().fetch_update(Ordering::Acquire, Ordering::Relaxed, |counts| {
            check_overflow(counts & (WEAK - 1));
            (counts & (WEAK - 1) != 0).then_some(counts + STRONG)
        });
        counted.ok().map(|_| AnyRef { block: self.block })
    }

    fn counts(&self) -> &AtomicU64 {
        // SAFETY: this handle keeps the memory, and the counts are never dropped before it.
        &unsafe { self.block.as_ref() }.counts
    }
}

impl<D: ?Sized + 'static> Clone for WeakRef<D> {
    fn clone(&self) -> Self {
        check_overflow(self.counts().fetch_add(WEAK, Ordering::Relaxed) >> 32);
        Self { block: self.block }
    }
}

impl<D: ?Sized + 'static> Drop for WeakRef<D> {
    fn drop(&mut self) {
        if self.counts().fetch_sub(WEAK, Ordering::AcqRel) >> 32 == 1 {
            // SAFETY: the last handle that keeps the memory.
            unsafe { free(self.block) };
        }
    }
}

/// Frees the memory. Must be called once, when no other handle exists.
#[inline]
unsafe fn free<D: ?Sized + 'static>(block: NonNull<Header<D>>) {
    // SAFETY: the caller promises that the memory is still allocated.
    let BlockTable { layout, allocator, .. } = *unsafe { block.as_ref() }.table;
    match allocator {
        // SAFETY: `pair` took it from a pool, and nothing will read it again.
        Allocator::Pool => unsafe { pool::give_back(block.cast()) },
        // SAFETY: `pair` allocated it with this layout.
        Allocator::Global => unsafe { dealloc(block.as_ptr().cast(), layout) },
    }
}

/// Aborts at half the range, before the count can wrap. Only leaked handles can reach that count.
#[inline]
fn check_overflow(handles: u64) {
    if handles >= MAX_HANDLES {
        std::process::abort();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    /// Returns how many references there are to the token in its tail.
    trait Count: Send + Sync {
        fn count(&self) -> usize;
    }

    struct Tail<A>(Arc<()>, A);

    impl<H: Send + Sync, A: Send + Sync> Count for CountedBlock<H, Tail<A>, dyn Count> {
        fn count(&self) -> usize {
            Arc::strong_count(&self.tail().0)
        }
    }

    impl<H: Send + Sync + 'static, A: Send + Sync + 'static> AsDyn<dyn Count>
        for CountedBlock<H, Tail<A>, dyn Count>
    {
        fn as_dyn(&self) -> &(dyn Count + 'static) {
            self
        }
    }

    #[test]
    fn a_handle_is_one_word_and_reaches_head_and_interface() {
        #[repr(align(64))]
        struct Aligned;
        assert_eq!(size_of::<Option<Ref<u8, dyn Count>>>(), size_of::<usize>());
        let token = Arc::new(());
        let (one, other) =
            Ref::<u8, dyn Count>::pair(Allocator::Global, || 7, || Tail(token.clone(), Aligned));
        assert_eq!((*one, *other, one.any().count()), (7, 7, 2));
        drop(one);
        assert_eq!(other.into_any().count(), 2);
        assert_eq!(Arc::strong_count(&token), 1);
    }

    #[test]
    fn the_contents_are_dropped_with_the_last_strong_handle() {
        for allocator in [Allocator::Global, Allocator::Pool] {
            let token = Arc::new(());
            let (one, other) =
                Ref::<_, dyn Count>::pair(allocator, || "head", || Tail(token.clone(), ()));
            let weak = one.any().downgrade();
            let third = weak.upgrade().unwrap();
            drop((one, other));
            assert_eq!(third.count(), 2);
            drop(third);
            assert_eq!(Arc::strong_count(&token), 1, "a weak handle does not keep them");
            assert!(weak.upgrade().is_none() && weak.clone().upgrade().is_none());
        }
    }

    #[test]
    fn a_destructor_that_panics_leaves_the_tail_dropped_and_the_memory_free() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                std::panic::panic_any("on purpose");
            }
        }
        let both = |allocator| [(allocator, false), (allocator, true)];
        for (allocator, weak_left) in
            [Allocator::Global, Allocator::Pool].into_iter().flat_map(both)
        {
            let token = Arc::new(());
            let (one, other) =
                Ref::<_, dyn Count>::pair(allocator, || Bomb, || Tail(token.clone(), ()));
            let weak = weak_left.then(|| one.any().downgrade());
            drop(one);
            assert!(catch_unwind(AssertUnwindSafe(|| drop(other))).is_err());
            assert_eq!(Arc::strong_count(&token), 1);
            assert!(weak.is_none_or(|weak| weak.upgrade().is_none()));
        }
    }
}
