//! An executor whose parks and unparks are counted, and whose loop can be held in a park.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};

use waterwheel_executor::engine::{LoopCore, LoopWork, PassLimit, TurnOutcome};
use waterwheel_executor::{
    Clock, EventExecutor, EventExecutorBuilder, Nanos, NoExtension, Park, TokenPark, Unpark,
};

use super::{TIMEOUT, lock};

/// An executor with the ordinary task loop over a park that announces each sleep.
pub(crate) struct ObservedExecutor {
    pub(crate) executor: EventExecutor,
    /// While locked, a loop that was woken does not return from its park.
    pub(crate) hold: Arc<Mutex<()>>,
    parks: Arc<AtomicUsize>,
    unparks: Arc<AtomicUsize>,
    announced: Receiver<Parked>,
}

/// One park of the loop: its number and its deadline.
pub(crate) struct Parked {
    number: usize,
    pub(crate) until: Option<Nanos>,
}

impl ObservedExecutor {
    pub(crate) fn new(builder: EventExecutorBuilder) -> Self {
        let inner = TokenPark::new(Clock::Monotonic);
        let unparks = Arc::new(AtomicUsize::new(0));
        let unpark = CountingUnpark(inner.unparker(), unparks.clone());
        let (announce, announced) = mpsc::channel();
        let (hold, parks) = (Arc::default(), Arc::default());
        let park =
            ObservedPark { inner, announce, hold: Arc::clone(&hold), parks: Arc::clone(&parks) };
        let seed = Box::new(move || Box::new(TaskLoop(park)) as Box<dyn LoopWork<NoExtension>>);
        let executor = builder.build_loop(Arc::new(unpark), seed).unwrap();
        Self { executor, hold, parks, unparks, announced }
    }

    /// Returns how often other threads woke the loop.
    pub(crate) fn unparks(&self) -> usize {
        self.unparks.load(Ordering::SeqCst)
    }

    /// Returns how often the loop went to sleep.
    pub(crate) fn parks(&self) -> usize {
        self.parks.load(Ordering::SeqCst)
    }

    /// Waits until the loop has nothing to do and has gone to sleep.
    #[track_caller]
    pub(crate) fn wait_asleep(&self) -> Parked {
        let parks = self.parks.clone();
        let so_far = self.executor.submit(move || parks.load(Ordering::SeqCst));
        let so_far = so_far.unwrap().join().unwrap();
        loop {
            let parked = self.announced.recv_timeout(TIMEOUT).expect("the loop sleeps");
            if parked.number > so_far {
                return parked;
            }
        }
    }

    /// Waits for the loop's next sleep.
    #[track_caller]
    pub(crate) fn next_park(&self) -> Parked {
        self.announced.recv_timeout(TIMEOUT).expect("the loop sleeps")
    }
}

struct CountingUnpark(Arc<dyn Unpark>, Arc<AtomicUsize>);

impl Unpark for CountingUnpark {
    fn unpark(&self) {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.unpark();
    }
}

struct ObservedPark {
    inner: TokenPark,
    announce: Sender<Parked>,
    hold: Arc<Mutex<()>>,
    parks: Arc<AtomicUsize>,
}

impl Park for ObservedPark {
    fn park(&mut self, until: Option<Nanos>) {
        let number = self.parks.fetch_add(1, Ordering::SeqCst) + 1;
        let _ = self.announce.send(Parked { number, until });
        self.inner.park(until);
        drop(lock(&self.hold));
    }
}

struct TaskLoop(ObservedPark);

impl LoopWork<NoExtension> for TaskLoop {
    fn turn(&mut self, core: &mut LoopCore<NoExtension>) -> TurnOutcome {
        core.wait(&mut self.0);
        core.run_tasks(PassLimit::Queued, &mut |none| match none {});
        core.check_shutdown()
    }

    fn on_command(&mut self, none: NoExtension) {
        match none {}
    }
}
