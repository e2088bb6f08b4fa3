//! Closures that are stored inside of the queue.
//!
//! A closure that fits a few words is stored inline; a larger one, or one with a larger alignment, is boxed and
//! its pointer is stored. Measured with the wake word, a boxed task costs two to three times an inline one on
//! any queue: the allocation is the cost, not the queue.

use std::fmt;
use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop, MaybeUninit, align_of, size_of};
use std::ptr;

/// A closure to call once, inline if it fits `N` words.
pub(crate) struct InlineClosure<A: CallArgument, R: Default + 'static, const N: usize> {
    table: &'static CallTable<A, R, N>,
    words: Words<N>,
}

type Words<const N: usize> = MaybeUninit<[usize; N]>;

/// The two functions for the closure that the words hold.
struct CallTable<A: CallArgument, R: 'static, const N: usize> {
    /// Moves the closure out of the words and calls it.
    run: for<'a> unsafe fn(*mut Words<N>, A::Input<'a>) -> R,
    /// Moves the closure out of the words and drops it.
    drop: unsafe fn(*mut Words<N>),
}

/// The argument of a closure: nothing, or a reference that lasts for the call.
pub(crate) trait CallArgument: 'static {
    type Input<'a>;
}

impl CallArgument for () {
    type Input<'a> = ();
}

/// A reference to a `T`.
pub(crate) struct ByRef<T>(PhantomData<T>);

impl<T: 'static> CallArgument for ByRef<T> {
    type Input<'a> = &'a T;
}

impl<A: CallArgument, R: Default + 'static, const N: usize> InlineClosure<A, R, N> {
    /// The table of a spent call, which has no closure. The compiler may copy this constant; a copy is not recognised,
    /// and costs a call that does nothing.
    const SPENT: &'static CallTable<A, R, N> = &CallTable { run: Self::do_nothing, drop: |_| () };

    unsafe fn do_nothing(_: *mut Words<N>, _: A::Input<'_>) -> R {
        R::default()
    }

    #[inline]
    pub(crate) fn new<F>(closure: F) -> Self
    where
        F: for<'a> FnOnce(A::Input<'a>) -> R + Send + 'static,
    {
        // The words are written in place: a closure that is written word by word and then moved as a whole
        // would wait for its own stores.
        let mut call = Self { table: Self::SPENT, words: Words::uninit() };
        if fits::<F, N>() {
            // SAFETY: F fits the words in size and alignment; they are uninitialised, so nothing is
            // overwritten.
            unsafe { call.words.as_mut_ptr().cast::<F>().write(closure) };
            call.table = Inline::<F, A, R, N>::TABLE;
        } else {
            let boxed = Box::into_raw(Box::new(closure));
            // SAFETY: a thin pointer fits the first word; nothing is overwritten.
            unsafe { call.words.as_mut_ptr().cast::<*mut F>().write(boxed) };
            call.table = Boxed::<F, A, R, N>::TABLE;
        }
        call
    }

    /// Calls the closure in place. If it panics the closure is dropped too. A second run does nothing, and
    /// returns the default.
    #[inline]
    pub(crate) fn run(&mut self, input: A::Input<'_>) -> R {
        let table = mem::replace(&mut self.table, Self::SPENT);
        // SAFETY: the words hold what the table expects since `new`; the table was replaced, so the closure is
        // moved out exactly once.
        unsafe { (table.run)(&raw mut self.words, input) }
    }
}

impl<A: CallArgument, R: Default + 'static, const N: usize> Drop for InlineClosure<A, R, N> {
    #[inline]
    fn drop(&mut self) {
        if !ptr::eq(self.table, Self::SPENT) {
            // SAFETY: the words hold what the table expects since `new`, and `run` replaces the table, so this
            // is the only move out.
            unsafe { (self.table.drop)(&raw mut self.words) };
        }
    }
}

/// A closure that is called once with a reference to a `T`: a command of a layer above. A closure of up to two
/// words allocates nothing.
pub struct InlineCall<T: 'static> {
    call: ReferenceCall<T>,
    /// Makes the call `Send` and not `Sync`, as a boxed closure is: the words alone would be `Sync` too.
    _as: PhantomData<BoxedCall<T>>,
}

type BoxedCall<T> = Box<dyn FnOnce(&T) + Send>;

/// How many words of a command are stored inline: an `Arc` and a `Box`, or two tokens. With one more, an entry
/// of a loop's queue would be larger than a task.
const COMMAND_WORDS: usize = 2;

type ReferenceCall<T> = InlineClosure<ByRef<T>, (), COMMAND_WORDS>;

impl<T: 'static> InlineCall<T> {
    /// Stores a closure that fits inline, which is checked at compile time.
    ///
    /// ```
    /// use waterwheel_executor::engine::InlineCall;
    ///
    /// let two = [1_usize, 2];
    /// InlineCall::new(move |input: &usize| assert_eq!(two.iter().sum::<usize>(), *input)).call(&3);
    /// ```
    ///
    /// ```compile_fail
    /// use waterwheel_executor::engine::InlineCall;
    ///
    /// let three = [1_usize, 2, 3];
    /// InlineCall::new(move |input: &usize| assert_eq!(three.iter().sum::<usize>(), *input)).call(&6);
    /// ```
    #[inline]
    pub fn new<F: FnOnce(&T) + Send + 'static>(closure: F) -> Self {
        const { assert!(fits::<F, COMMAND_WORDS>(), "box some of what it captures") };
        Self { call: ReferenceCall::<T>::new(closure), _as: PhantomData }
    }

    /// Stores a closure of any size. One that does not fit is boxed.
    #[inline]
    pub fn of_any_size<F: FnOnce(&T) + Send + 'static>(closure: F) -> Self {
        Self { call: ReferenceCall::<T>::new(closure), _as: PhantomData }
    }

    /// Calls the closure.
    #[inline]
    pub fn call(self, with: &T) {
        let mut call = ManuallyDrop::new(self);
        // If the closure panics it is dropped too, and there is nothing else to drop.
        call.call.run(with);
    }
}

impl<T> fmt::Debug for InlineCall<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InlineCall")
    }
}

/// True if the closure fits the words in size and alignment.
const fn fits<F, const N: usize>() -> bool {
    size_of::<F>() <= size_of::<Words<N>>() && align_of::<F>() <= align_of::<Words<N>>()
}

/// The table of closures that are stored in the words.
struct Inline<F, A, R, const N: usize>(PhantomData<(F, A, R)>);

impl<F, A: CallArgument, R: 'static, const N: usize> Inline<F, A, R, N>
where
    F: for<'a> FnOnce(A::Input<'a>) -> R,
{
    const TABLE: &'static CallTable<A, R, N> = &CallTable { run: Self::run, drop: Self::drop };

    unsafe fn run(words: *mut Words<N>, input: A::Input<'_>) -> R {
        // SAFETY: the caller promises that the words hold an F, to be moved out once.
        let closure = unsafe { words.cast::<F>().read() };
        closure(input)
    }

    unsafe fn drop(words: *mut Words<N>) {
        // SAFETY: as in `run`.
        drop(unsafe { words.cast::<F>().read() });
    }
}

/// The table of closures whose pointer is stored in the first word.
struct Boxed<F, A, R, const N: usize>(PhantomData<(F, A, R)>);

impl<F, A: CallArgument, R: 'static, const N: usize> Boxed<F, A, R, N>
where
    F: for<'a> FnOnce(A::Input<'a>) -> R,
{
    const TABLE: &'static CallTable<A, R, N> = &CallTable { run: Self::run, drop: Self::drop };

    unsafe fn take(words: *mut Words<N>) -> Box<F> {
        // SAFETY: the caller promises that the first word holds the pointer of `Box::into_raw`.
        let pointer = unsafe { words.cast::<*mut F>().read() };
        // SAFETY: it is taken once, so the box has one owner.
        unsafe { Box::from_raw(pointer) }
    }

    unsafe fn run(words: *mut Words<N>, input: A::Input<'_>) -> R {
        // SAFETY: the caller's promise.
        let closure = unsafe { Self::take(words) };
        closure(input)
    }

    unsafe fn drop(words: *mut Words<N>) {
        // SAFETY: the caller's promise.
        drop(unsafe { Self::take(words) });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::{Arc, Mutex};

    #[test]
    fn a_command_of_a_layer_above_is_three_words() {
        assert_eq!(size_of::<InlineCall<u8>>(), 24);
        assert_eq!(size_of::<Option<InlineCall<u8>>>(), 24);
    }

    #[test]
    fn a_call_is_made_once_with_what_it_is_given() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (small, large) = (heard.clone(), heard.clone());
        InlineCall::new(move |given: &u32| small.lock().unwrap().push(*given)).call(&7);
        let payload = [1_u32; 50];
        let sum =
            move |given: &u32| large.lock().unwrap().push(payload.iter().sum::<u32>() + given);
        InlineCall::of_any_size(sum).call(&8);
        assert_eq!((&*heard.lock().unwrap(), Arc::strong_count(&heard)), (&vec![7, 58], 1));
    }

    #[test]
    fn a_call_that_is_not_made_or_panics_drops_its_captures_once() {
        let alive = Arc::new(());
        let (never, panics) = (alive.clone(), alive.clone());
        drop(InlineCall::new(move |_: &()| drop(never)));
        let call = InlineCall::new(move |_: &()| {
            let _held = panics;
            panic!("on purpose");
        });
        assert!(catch_unwind(AssertUnwindSafe(|| call.call(&()))).is_err());
        assert_eq!(Arc::strong_count(&alive), 1);
    }
}
