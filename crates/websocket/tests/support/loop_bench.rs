//! A manual loop with sockets whose peers the test plays.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use waterwheel_channel::{EventLoopGroup, LocalJoin, ManualEventLoop};
use waterwheel_testkit::manual::{Manual, ManualSockets};
use waterwheel_testkit::recorder::Log;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) struct LoopBench {
    pub(crate) manual: Manual,
    pub(crate) sockets: ManualSockets,
    pub(crate) event_loop: ManualEventLoop,
    /// The faults that were reported, such as panics.
    pub(crate) faults: Log,
}

/// A future on the loop.
pub(crate) struct Running<T> {
    output: Rc<RefCell<Option<T>>>,
    task: LocalJoin<()>,
}

impl<T> Running<T> {
    /// Takes the output, which must be there.
    #[track_caller]
    pub(crate) fn take(&self) -> T {
        self.output.take().expect("the future has completed")
    }

    pub(crate) fn is_done(&self) -> bool {
        self.output.borrow().is_some()
    }

    /// Drops the future.
    pub(crate) fn cancel(self, bench: &mut LoopBench) {
        self.task.abort();
        bench.run();
    }
}

impl LoopBench {
    pub(crate) fn new() -> Self {
        let (manual, faults) = (Manual::readiness(), Log::new());
        let event_loop = EventLoopGroup::builder(manual.clone())
            .reporter(Arc::new(faults.clone()))
            .build_manual()
            .unwrap();
        let sockets = manual.sockets();
        Self { manual, sockets, event_loop, faults }
    }

    /// Turns the loop until it has had nothing to do twice: the driver may have an event that the loop does not know of.
    pub(crate) fn run(&mut self) {
        let mut idle_turns = 0;
        while idle_turns < 2 && !self.event_loop.is_terminated() {
            self.event_loop.turn(Some(Duration::ZERO));
            idle_turns = if self.event_loop.is_idle() { idle_turns + 1 } else { 0 };
        }
    }

    /// Advances the clock in one step.
    pub(crate) fn advance(&mut self, by: Duration) {
        self.manual.advance(by);
        self.run();
    }

    /// Starts a future on the loop.
    pub(crate) fn start<F>(&mut self, future: F) -> Running<F::Output>
    where
        F: Future<Output: 'static> + 'static,
    {
        let output = Rc::new(RefCell::new(None));
        let kept = output.clone();
        let task = self.event_loop.on_loop(|here| {
            here.spawn_local(async move {
                let value = future.await;
                *kept.borrow_mut() = Some(value);
            })
        });
        self.run();
        Running { output, task: task.unwrap() }
    }

    /// Calls a closure on the loop, and runs the loop.
    pub(crate) fn on_loop<R>(&mut self, f: impl FnOnce() -> R) -> R {
        let result = self.event_loop.on_loop(|_| f()).unwrap();
        self.run();
        result
    }
}
