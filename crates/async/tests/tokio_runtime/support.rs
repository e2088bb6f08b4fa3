//! A loop and a runtime on the test's thread, and futures that count their drops.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::{Builder, Runtime};
use waterwheel_async::TokioRuntime;
use waterwheel_channel::{LocalJoin, LocalLoop};
use waterwheel_testkit::embedded::Embedded;

/// A manual loop with a virtual clock, and a current-thread runtime. Nothing runs but in the calls of the test.
pub(crate) struct Bench {
    pub(crate) channel: Embedded,
    pub(crate) tokio: Runtime,
    pub(crate) runtime: TokioRuntime,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let channel = Embedded::new(|_| Ok(())).unwrap();
        let tokio = Builder::new_current_thread().build().unwrap();
        let runtime = TokioRuntime::new(tokio.handle().clone());
        Self { channel, tokio, runtime }
    }

    /// Spawns a future on the loop.
    pub(crate) fn spawn<F: Future + 'static>(&mut self, future: F) -> LocalJoin<F::Output> {
        self.channel.on_loop(|_| LocalLoop::current().unwrap().spawn_local(future))
    }

    /// Spawns a future on the loop, turns the loop, and returns the place where the output will appear.
    pub(crate) fn start<F: Future + 'static>(
        &mut self,
        future: F,
    ) -> Rc<RefCell<Option<F::Output>>> {
        let output = Rc::new(RefCell::new(None));
        let place = output.clone();
        drop(self.spawn(async move {
            let value = future.await;
            place.replace(Some(value));
        }));
        self.channel.run();
        output
    }

    /// Lets the runtime run until its tasks wait.
    pub(crate) fn drive_tokio(&self) {
        drive(&self.tokio);
    }

    /// Lets the runtime run, and then the loop.
    pub(crate) fn drive_both(&mut self) {
        self.drive_tokio();
        self.channel.run();
    }
}

/// Lets a current-thread runtime run until its tasks wait.
pub(crate) fn drive(tokio: &Runtime) {
    // Every yield lets each task run once that is ready: more than any chain of wakes in these tests.
    tokio.block_on(async {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    });
}

/// Counts drops of its guards.
#[derive(Clone, Default)]
pub(crate) struct DropCounter(Arc<AtomicUsize>);

impl DropCounter {
    /// Returns a value whose drop is counted.
    pub(crate) fn guard(&self) -> DropGuard {
        DropGuard(self.0.clone())
    }

    pub(crate) fn dropped(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    /// Returns the number of guards that exist.
    pub(crate) fn alive(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}

pub(crate) struct DropGuard(Arc<AtomicUsize>);

impl Drop for DropGuard {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// Panics without the message of the panic hook, which would disturb the output of the tests.
pub(crate) fn panic_quietly(message: impl Send + 'static) -> ! {
    std::panic::resume_unwind(Box::new(message))
}
