//! The futures of a loop, and their wakers.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use waterwheel_executor::engine::{report, run_as, run_user_code};
use waterwheel_executor::{CommandSender, Error, ErrorKind, Fault, Origin, Promise, UserCode};

use super::join::{JoinSlot, LocalJoin};
use crate::event_loop::command::LoopCommand;
use crate::event_loop::local_loop::LocalLoop;
use crate::local_queue::LocalQueue;
use crate::token::{Slab, Token};
use crate::wake_flag::WakeFlag;

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// The futures of a loop. Touched on the loop only; wakers reach it through the loop's queue.
#[derive(Default)]
pub(crate) struct SpawnedFutures {
    slots: RefCell<Slab<FutureSlot>>,
    ready: LocalQueue<Token>,
    closed: Cell<bool>,
    /// Came after the end, and are to be dropped.
    doomed: RefCell<VecDeque<(Origin, Task)>>,
    dooming: Cell<bool>,
}

/// So many futures that come after the end are dropped at once; if they spawn more, those are leaked.
const MAX_LATE_DROPS: usize = 1000;

struct FutureSlot {
    /// `None` while it is polled.
    task: Option<(Task, Waker)>,
    notifier: Arc<FutureWaker>,
    origin: Origin,
}

/// Wakes one future: its wakers are clones of this. Any thread may set `woken`; the loop lowers it
/// just before it polls. `slot` is written when the future arrives at its loop, before there is a
/// waker to read it.
pub(crate) struct FutureWaker {
    woken: WakeFlag,
    slot: AtomicU64,
    sender: CommandSender<LoopCommand>,
}

const NO_SLOT: u64 = u64::MAX;

impl FutureWaker {
    pub(crate) fn new(sender: CommandSender<LoopCommand>) -> Arc<Self> {
        let (woken, slot) = (WakeFlag::new(), AtomicU64::new(NO_SLOT));
        Arc::new(Self { woken, slot, sender })
    }

    fn slot(&self) -> Token {
        Token::from_bits(self.slot.load(Ordering::Relaxed))
    }

    /// Has the future dropped, on its loop, in turn with other commands.
    pub(crate) fn abort(self: &Arc<Self>) {
        // Refused once the loop is past its last pass: then it drops all futures anyway.
        let notifier = self.clone();
        let abort = LoopCommand::new(move |here| here.futures().abort(&notifier));
        let _ = self.sender.send(abort);
    }
}

impl Wake for FutureWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.raise() {
            return; // It will be polled anyway.
        }
        if self.sender.in_event_loop()
            && let Some(here) = LocalLoop::current()
        {
            here.futures().woken(self.slot());
        } else {
            // Refused once the loop is past its last pass: nothing is polled then.
            let slot = self.slot();
            let _ = self.sender.send(LoopCommand::new(move |here| here.futures().woken(slot)));
        }
    }
}

impl SpawnedFutures {
    pub(crate) fn spawn_local<F: Future + 'static>(
        &self,
        here: &LocalLoop,
        origin: Origin,
        future: F,
    ) -> LocalJoin<F::Output> {
        let notifier = FutureWaker::new(here.sender().clone());
        let outcome = JoinSlot::new();
        let settle = outcome.settle();
        let task = caught(origin, future, move |result| settle.settle(result));
        self.add(notifier.clone(), origin, Box::pin(task));
        LocalJoin::new(outcome, notifier)
    }

    /// A future that came from anywhere, with the promise of its outcome.
    pub(crate) fn spawn<F: Future<Output: Send> + 'static>(
        &self,
        notifier: Arc<FutureWaker>,
        origin: Origin,
        future: F,
        promise: Promise<F::Output>,
    ) {
        if promise.is_cancelled() {
            return;
        }
        let promise = CancelOnDrop(Some(promise));
        let task = caught(origin, future, move |result| promise.settle(result));
        self.add(notifier, origin, Box::pin(task));
    }

    fn add(&self, notifier: Arc<FutureWaker>, origin: Origin, task: Task) {
        if self.closed.get() {
            return self.doom(origin, task);
        }
        let waker = Waker::from(notifier.clone());
        let slot = FutureSlot { task: Some((task, waker)), notifier: notifier.clone(), origin };
        let token = self.slots.borrow_mut().insert(slot);
        notifier.slot.store(token.to_bits(), Ordering::Relaxed);
        if notifier.woken.raise() {
            self.woken(token);
        }
    }

    /// Drops a future that came too late; and those that its destructor spawns, one after the other
    /// and not for ever.
    fn doom(&self, origin: Origin, task: Task) {
        self.doomed.borrow_mut().push_back((origin, task));
        if self.dooming.replace(true) {
            return;
        }
        for _ in 0..MAX_LATE_DROPS {
            let Some((origin, task)) = self.doomed.borrow_mut().pop_front() else { break };
            drop_future(origin, task);
        }
        self.dooming.set(false);
        let left = std::mem::take(&mut *self.doomed.borrow_mut());
        if let Some((origin, _)) = left.front() {
            let what = format!("the future from {origin} spawns another whenever it is dropped");
            report(Fault::Driver(format!("{what}: {} of them are leaked", left.len())));
            std::mem::forget(left);
        }
    }

    /// It is to be polled.
    pub(crate) fn woken(&self, token: Token) {
        self.ready.push(token);
    }

    /// How many are to be polled.
    #[inline]
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Polls those that are ready now, each once; returns how many.
    pub(crate) fn poll_ready(&self, sender: &CommandSender<LoopCommand>) -> u64 {
        let count = self.ready.len();
        let mut polled = 0;
        for _ in 0..count {
            let Some(token) = self.ready.pop() else { break };
            polled += u64::from(self.poll(sender, token));
        }
        polled
    }

    fn poll(&self, sender: &CommandSender<LoopCommand>, token: Token) -> bool {
        let taken = self.slots.borrow_mut().get_mut(token).and_then(|slot| {
            slot.notifier.woken.lower();
            slot.task.take().map(|task| (task, slot.origin))
        });
        let Some(((mut task, waker), origin)) = taken else { return false };
        // The task catches what its future panics with; this is for what is left of it after that.
        let poll = || task.as_mut().poll(&mut Context::from_waker(&waker));
        let polled = sender.run_user_code(UserCode::Future, origin, poll);
        let done = polled.map_or(true, |poll| poll.is_ready());
        let mut slots = self.slots.borrow_mut();
        match slots.get_mut(token) {
            Some(slot) if !done => slot.task = Some((task, waker)),
            // Done, or aborted while it ran.
            _ => {
                let slot = slots.remove(token);
                drop(slots);
                drop(slot);
                drop_future(origin, task);
            }
        }
        true
    }

    /// Drops a future that is not wanted any more.
    pub(crate) fn abort(&self, notifier: &FutureWaker) {
        let slot = self.slots.borrow_mut().remove(notifier.slot());
        if let Some(FutureSlot { task: Some((task, _)), origin, .. }) = slot {
            drop_future(origin, task);
        }
    }

    /// Drops them all, and those that come.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        let tokens: Vec<_> = self.slots.borrow().tokens().collect();
        for token in tokens {
            let slot = self.slots.borrow_mut().remove(token);
            if let Some(FutureSlot { task: Some((task, _)), origin, .. }) = slot {
                drop_future(origin, task);
            }
        }
        while self.ready.pop().is_some() {}
    }
}

/// A future whose panics are reported, and settled as errors.
async fn caught<F: Future>(
    origin: Origin,
    future: F,
    settle: impl FnOnce(Result<F::Output, Error>),
) {
    let mut future = pin!(future);
    let result = poll_fn(|context| {
        let poll = || future.as_mut().poll(context);
        match run_user_code(UserCode::Future, origin, poll) {
            Ok(poll) => poll.map(Ok),
            Err(panicked) => Poll::Ready(Err(panicked)),
        }
    })
    .await;
    // Before the future goes: should its destructor panic, the value is not lost.
    settle(result);
}

fn drop_future(origin: Origin, task: Task) {
    // A panic was reported: nobody else waits for it.
    let _ = run_as(UserCode::Destructor, origin, || drop(task));
}

/// A promise that says "cancelled" if its future is dropped before it is through.
struct CancelOnDrop<T: Send + 'static>(Option<Promise<T>>);

impl<T: Send + 'static> CancelOnDrop<T> {
    fn settle(mut self, result: Result<T, Error>) {
        if let Some(promise) = self.0.take() {
            promise.complete(result);
        }
    }
}

impl<T: Send + 'static> Drop for CancelOnDrop<T> {
    fn drop(&mut self) {
        if let Some(promise) = self.0.take() {
            promise.set_failure(ErrorKind::Cancelled.into());
        }
    }
}

impl fmt::Debug for SpawnedFutures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpawnedFutures")
            .field("len", &self.slots.borrow().len())
            .field("ready", &self.ready.len())
            .finish_non_exhaustive()
    }
}
