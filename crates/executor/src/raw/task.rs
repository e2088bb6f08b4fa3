//! A task: a closure stored inside of the queue, with its origin.

use std::fmt;

use super::call::InlineClosure;
use super::origin::Origin;

/// A closure to run once, with its origin. Three words are inline: an `Arc` and a fat pointer, or a promise and
/// two words of arguments. With the function table and the origin this makes a task of 40 bytes.
pub(crate) struct Task {
    call: InlineClosure<(), bool, 3>,
    origin: Origin,
}

impl Task {
    /// Makes a task. The closure returns whether it did anything: one whose promise was cancelled does nothing.
    #[inline]
    pub(crate) fn new<F: FnOnce() -> bool + Send + 'static>(origin: Origin, closure: F) -> Self {
        Self { call: InlineClosure::new(|()| closure()), origin }
    }

    pub(crate) fn origin(&self) -> Origin {
        self.origin
    }

    /// Runs the closure in place. Returns whether it did anything. If it panics the closure is dropped too. A
    /// second call does nothing.
    #[inline]
    pub(crate) fn run(&mut self) -> bool {
        self.call.run(())
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Task({})", self.origin)
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
