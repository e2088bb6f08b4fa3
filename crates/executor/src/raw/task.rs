//! A closure that lives inside the queue.
//!
//! A closure of up to three words is moved into the task itself; a larger one (or one with a larger
//! alignment) is boxed and the task holds the pointer. Measured with the wake word, a boxed task
//! costs two to three times an inline one on any queue: the allocation is the price, not the queue.

use std::fmt;
use std::mem::{self, MaybeUninit, align_of, size_of};
use std::ptr;

use super::origin::Origin;

/// Three words: an `Arc` and a fat pointer, or a promise and two words of arguments. With the
/// function table and the origin this makes a task of 40 bytes.
const INLINE_WORDS: usize = 3;

type Words = MaybeUninit<[usize; INLINE_WORDS]>;

/// A closure to run once, with the place it came from.
pub(crate) struct Task {
    table: &'static Table,
    origin: Origin,
    words: Words,
}

/// What the words hold is known only to these two functions.
struct Table {
    /// Moves the closure out of the words and calls it.
    run: unsafe fn(*mut Words) -> bool,
    /// Moves the closure out of the words and drops it.
    drop: unsafe fn(*mut Words),
}

/// The table of a task without a closure.
static SPENT: Table = Table { run: |_| false, drop: |_| () };

impl Task {
    /// The closure says whether it did anything: one that finds itself cancelled does not.
    pub(crate) fn new<F: FnOnce() -> bool + Send + 'static>(origin: Origin, closure: F) -> Self {
        // The words are written where they stay: a closure written word by word and then moved as a
        // whole would have to wait for its own stores.
        let mut task = Self { table: &SPENT, origin, words: Words::uninit() };
        if Inline::<F>::FITS {
            // SAFETY: F fits the words in size and alignment; they are uninitialised, so nothing is
            // overwritten.
            unsafe { task.words.as_mut_ptr().cast::<F>().write(closure) };
            task.table = Inline::<F>::TABLE;
        } else {
            let boxed = Box::into_raw(Box::new(closure));
            // SAFETY: a thin pointer fits the first word; nothing is overwritten.
            unsafe { task.words.as_mut_ptr().cast::<*mut F>().write(boxed) };
            task.table = Boxed::<F>::TABLE;
        }
        task
    }

    pub(crate) fn origin(&self) -> Origin {
        self.origin
    }

    /// Runs the closure where it is; whether it did anything. If it panics the closure is gone all
    /// the same; a second call does nothing.
    #[inline]
    pub(crate) fn run(&mut self) -> bool {
        let table = mem::replace(&mut self.table, &SPENT);
        // SAFETY: the words hold what the table expects since `new`; the table is gone, so the
        // closure is moved out exactly once.
        unsafe { (table.run)(&raw mut self.words) }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if !ptr::eq(self.table, &SPENT) {
            // SAFETY: the words hold what the table expects since `new`, and `run` takes the table
            // away, so this is the only move out.
            unsafe { (self.table.drop)(&raw mut self.words) };
        }
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Task({})", self.origin)
    }
}

/// The closure itself is in the words.
struct Inline<F>(F);

impl<F: FnOnce() -> bool> Inline<F> {
    const FITS: bool =
        size_of::<F>() <= size_of::<Words>() && align_of::<F>() <= align_of::<Words>();
    const TABLE: &'static Table = &Table { run: Self::run, drop: Self::drop };

    unsafe fn run(words: *mut Words) -> bool {
        // SAFETY: the caller promises that the words hold an F, to be moved out once.
        let closure = unsafe { words.cast::<F>().read() };
        closure()
    }

    unsafe fn drop(words: *mut Words) {
        // SAFETY: as in `run`.
        drop(unsafe { words.cast::<F>().read() });
    }
}

/// A pointer to the boxed closure is in the first word.
struct Boxed<F>(F);

impl<F: FnOnce() -> bool> Boxed<F> {
    const TABLE: &'static Table = &Table { run: Self::run, drop: Self::drop };

    unsafe fn take(words: *mut Words) -> Box<F> {
        // SAFETY: the caller promises that the first word holds the pointer of `Box::into_raw`.
        let pointer = unsafe { words.cast::<*mut F>().read() };
        // SAFETY: it is taken once, so the box has one owner.
        unsafe { Box::from_raw(pointer) }
    }

    unsafe fn run(words: *mut Words) -> bool {
        // SAFETY: passed on from the caller.
        let closure = unsafe { Self::take(words) };
        closure()
    }

    unsafe fn drop(words: *mut Words) {
        // SAFETY: passed on from the caller.
        drop(unsafe { Self::take(words) });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    fn task<F: FnOnce() + Send + 'static>(f: F) -> Task {
        Task::new(Origin::here(), || {
            f();
            true
        })
    }

    /// Captures `payload` and an `Arc` whose count tells whether the closure is still alive.
    fn counted<T: Send + 'static>(payload: T) -> (Task, Arc<()>) {
        let alive = Arc::new(());
        let held = alive.clone();
        let task = task(move || {
            let _payload = payload;
            let _held = held;
        });
        (task, alive)
    }

    #[test]
    fn a_task_is_five_words() {
        assert_eq!(size_of::<Task>(), 40);
    }

    #[test]
    fn small_and_large_closures_run_and_are_dropped_once() {
        for (mut task, alive) in [counted(()), counted([1u8; 16]), counted([7u8; 200])] {
            assert_eq!(Arc::strong_count(&alive), 2);
            assert!(task.run());
            assert!(!task.run(), "spent");
            assert_eq!(Arc::strong_count(&alive), 1);
        }
    }

    #[test]
    fn a_task_that_never_runs_drops_its_closure() {
        for (task, alive) in [counted(()), counted([7u8; 200])] {
            drop(task);
            assert_eq!(Arc::strong_count(&alive), 1);
        }
    }

    #[test]
    fn over_aligned_closures_are_boxed() {
        #[repr(align(64))]
        struct Line(u8);
        let line = Line(7);
        let (sent, received) = std::sync::mpsc::channel();
        task(move || {
            let line = &line;
            sent.send((std::ptr::from_ref(line).addr() % 64, line.0)).unwrap();
        })
        .run();
        assert_eq!(received.recv().unwrap(), (0, 7));
    }

    #[test]
    fn a_panic_drops_the_captures_once() {
        let alive = Arc::new(());
        let held = alive.clone();
        let mut task = task(move || {
            let _held = held;
            panic!("on purpose");
        });
        assert!(catch_unwind(AssertUnwindSafe(|| task.run())).is_err());
        assert_eq!(Arc::strong_count(&alive), 1);
    }
}
