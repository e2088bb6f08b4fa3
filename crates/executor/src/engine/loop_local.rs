//! Loop-local values: like thread-locals, but one per loop, and dropped on the loop (E22).

use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::engine::current;
use crate::report::guard::guard_drop;

/// A value that exists once per loop, created at its first use on that loop.
///
/// The value need not be `Send`: it is created, used and dropped on the loop's thread. It is dropped when the
/// loop terminates.
///
/// ```
/// use std::cell::Cell;
/// use waterwheel_executor::{EventExecutor, LoopLocal};
///
/// static REQUESTS: LoopLocal<Cell<u64>> = LoopLocal::new(|| Cell::new(0));
///
/// let executor = EventExecutor::builder().build()?;
/// let count = || REQUESTS.with(|n| n.replace(n.get() + 1)).unwrap();
/// assert_eq!(executor.submit(count)?.join()?, 0);
/// assert_eq!(executor.submit(count)?.join()?, 1);
/// assert!(REQUESTS.with(|_| ()).is_none(), "this thread is no loop");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LoopLocal<T: 'static> {
    init: fn() -> T,
    index: OnceLock<usize>,
}

impl<T: 'static> LoopLocal<T> {
    /// Declares a value that each loop creates with `init` at its first use.
    #[must_use]
    pub const fn new(init: fn() -> T) -> Self {
        Self { init, index: OnceLock::new() }
    }

    /// Calls `f` with this loop's value. Returns `None` if the calling thread runs no loop, or a pooled loop,
    /// which has no thread of its own.
    ///
    /// No lock or borrow is held meanwhile: `f` may use this and other loop-locals.
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Option<R> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let locals = current::get()?.loop_locals?;
        let index = *self.index.get_or_init(|| NEXT.fetch_add(1, Ordering::Relaxed));
        let value = locals.get(index).unwrap_or_else(|| locals.put(index, Rc::new((self.init)())));
        let value = value.downcast::<T>().ok()?;
        Some(f(&value))
    }
}

/// The values of one loop, found by index.
#[derive(Debug, Default)]
pub(crate) struct LoopLocals {
    values: RefCell<Vec<Option<Rc<dyn Any>>>>,
}

/// The maximum number of rounds of drops: a destructor may create new values. Values left after the last
/// round are dropped with the table, unguarded.
const DROP_ROUNDS: usize = 8;

impl LoopLocals {
    fn get(&self, index: usize) -> Option<Rc<dyn Any>> {
        self.values.borrow().get(index).cloned().flatten()
    }

    fn put(&self, index: usize, value: Rc<dyn Any>) -> Rc<dyn Any> {
        // The initialiser may have created this same value: the first value stays, and the second one is dropped
        // in the caller's frame, outside of the borrow.
        if let Some(first) = self.get(index) {
            return first;
        }
        let mut values = self.values.borrow_mut();
        if values.len() <= index {
            values.resize(index + 1, None);
        }
        values[index] = Some(value.clone());
        value
    }

    /// Drops the values, on the loop. A panic of a destructor is reported, and the other values are still dropped.
    pub(crate) fn drop_all(&self) {
        for _ in 0..DROP_ROUNDS {
            let values = std::mem::take(&mut *self.values.borrow_mut());
            if values.is_empty() {
                return;
            }
            for value in values.into_iter().flatten() {
                guard_drop(|| drop(value));
            }
        }
    }
}
