//! The spawned futures of a loop, and their wakers.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
use waterwheel_executor::engine::{report, run_as, run_user_code};
use waterwheel_executor::{CommandSender, Error, ErrorKind, Fault, Origin, Promise, UserCode};

use super::join::{JoinSlot, LocalJoin};
use super::ready_list::ReadyList;
use crate::base::token::{Slab, Token};
use crate::base::wake_flag::WakeFlag;
use crate::event_loop::command::LoopCommand;
use crate::event_loop::local_loop::LocalLoop;

/// A spawned future that delivers its own outcome.
type BoxedFuture = Pin<Box<dyn Future<Output = ()>>>;

/// The spawned futures of a loop. Only the loop's thread uses them; wakers on other threads send commands.
#[derive(Default)]
pub(crate) struct SpawnedFutures {
    slots: RefCell<Slab<FutureSlot>>,
    ready: ReadyList,
    closed: Cell<bool>,
    /// Futures that were spawned after the loop had ended, to be dropped.
    late_futures: RefCell<VecDeque<(Origin, BoxedFuture)>>,
    is_dropping_late: Cell<bool>,
}

/// The maximum number of futures, spawned after the loop has ended, that are dropped at once. If their destructors
/// spawn more, the rest is leaked.
const MAX_LATE_DROPS: usize = 1000;

/// One spawned future.
struct FutureSlot {
    /// `None` while the future is polled.
    task: Option<(BoxedFuture, Waker)>,
    future_waker: Arc<FutureWaker>,
    origin: Origin,
}

/// The waker of one future. Any thread may raise `woken`; the loop lowers it just before it polls, and disables it when
/// the future has ended. `slot` is written when the future arrives on its loop, before any waker exists that could read
/// it.
pub(crate) struct FutureWaker {
    woken: WakeFlag,
    slot: AtomicU64,
    sender: CommandSender<LoopCommand>,
}

/// The slot of a future that has not arrived on its loop.
const NO_SLOT: u64 = u64::MAX;

impl FutureWaker {
    pub(crate) fn new(sender: CommandSender<LoopCommand>) -> Arc<Self> {
        let (woken, slot) = (WakeFlag::new(), AtomicU64::new(NO_SLOT));
        Arc::new(Self { woken, slot, sender })
    }

    fn slot(&self) -> Token {
        Token::from_bits(self.slot.load(Ordering::Relaxed))
    }

    #[inline(never)]
    fn wake_from_elsewhere(&self, slot: Token) {
        // The command is refused once the loop has run its last commands: no future is polled then.
        let _ = self.sender.send(LoopCommand::new(move |here| here.futures().queue_poll(slot)));
    }

    /// Drops the future on its loop, by a command.
    pub(crate) fn abort(self: &Arc<Self>) {
        // The command is refused once the loop has run its last commands: then the loop drops all futures anyway.
        let future_waker = self.clone();
        let abort = LoopCommand::new(move |here| here.futures().abort(&future_waker));
        let _ = self.sender.send(abort);
    }
}

impl Wake for FutureWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.raise() {
            return; // A poll is already queued, or the future has ended.
        }
        let slot = self.slot();
        let queue_poll = |here: &LocalLoop| here.futures().queue_poll(slot);
        if !LocalLoop::with_current(&self.sender, queue_poll) {
            self.wake_from_elsewhere(slot);
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
        let future_waker = FutureWaker::new(here.sender().clone());
        let outcome = JoinSlot::new();
        let completer = outcome.completer();
        let task = catch_panics(origin, future, move |result| completer.complete(result));
        self.add(future_waker.clone(), origin, Box::pin(task));
        LocalJoin::new(outcome, future_waker)
    }

    /// Adds a future that arrived through the queue, with the promise of its outcome.
    pub(crate) fn spawn<F: Future<Output: Send> + 'static>(
        &self,
        future_waker: Arc<FutureWaker>,
        origin: Origin,
        future: F,
        promise: Promise<F::Output>,
    ) {
        if promise.is_cancelled() {
            return;
        }
        let promise = CancelOnDrop(Some(promise));
        let task = catch_panics(origin, future, move |result| promise.complete(result));
        self.add(future_waker, origin, Box::pin(task));
    }

    fn add(&self, future_waker: Arc<FutureWaker>, origin: Origin, task: BoxedFuture) {
        if self.closed.get() {
            return self.drop_late(origin, task);
        }
        let waker = Waker::from(future_waker.clone());
        let slot =
            FutureSlot { task: Some((task, waker)), future_waker: future_waker.clone(), origin };
        let (token, futures) = {
            let mut slots = self.slots.borrow_mut();
            (slots.insert(slot), slots.len())
        };
        self.ready.reserve(futures);
        future_waker.slot.store(token.to_bits(), Ordering::Relaxed);
        if future_waker.woken.raise() {
            self.queue_poll(token);
        }
    }

    /// Drops a future that was spawned after the loop had ended, then the futures that its destructor spawns, one after
    /// the other and at most [`MAX_LATE_DROPS`].
    fn drop_late(&self, origin: Origin, task: BoxedFuture) {
        self.late_futures.borrow_mut().push_back((origin, task));
        if self.is_dropping_late.replace(true) {
            return;
        }
        for _ in 0..MAX_LATE_DROPS {
            let Some((origin, task)) = self.late_futures.borrow_mut().pop_front() else { break };
            drop_future(origin, task);
        }
        self.is_dropping_late.set(false);
        let left = std::mem::take(&mut *self.late_futures.borrow_mut());
        if let Some((origin, _)) = left.front() {
            let what = format!("the destructor of the future from {origin} keeps spawning futures");
            report(Fault::Driver(format!("{what}: the last {} are leaked", left.len())));
            std::mem::forget(left);
        }
    }

    /// Queues a future for polling.
    #[inline]
    pub(crate) fn queue_poll(&self, token: Token) {
        self.ready.push(token);
    }

    /// Returns the number of futures that are queued for polling.
    #[inline]
    pub(crate) fn ready_count(&self) -> usize {
        self.ready.len()
    }

    /// Polls the futures that are ready now, each once; returns their number. Called when no user code runs.
    pub(crate) fn poll_ready(&self, sender: &CommandSender<LoopCommand>) -> u64 {
        let mut polled = 0;
        let futures = self.slots.borrow().len();
        self.ready.take_all(futures, |token| polled += u64::from(self.poll_queued(sender, token)));
        polled
    }

    /// Polls a future from the ready list, unless it was polled since it was woken.
    #[inline]
    fn poll_queued(&self, sender: &CommandSender<LoopCommand>, token: Token) -> bool {
        let taken = self.slots.borrow_mut().get_mut(token).and_then(|slot| {
            let is_woken = slot.future_waker.woken.lower();
            if is_woken { slot.task.take().map(|task| (task, slot.origin)) } else { None }
        });
        let Some((task, origin)) = taken else { return false };
        let _begun = sender.begin(UserCode::Future, origin);
        self.poll(token, task, origin);
        true
    }

    /// Polls a future that was taken out of its slot, for a caller that has published it as the loop's activity.
    #[inline]
    fn poll(&self, token: Token, (mut task, waker): (BoxedFuture, Waker), origin: Origin) {
        // The task catches a panic of its future; this guard is for the rest of the task.
        let poll = || task.as_mut().poll(&mut Context::from_waker(&waker));
        let is_done = match run_user_code(UserCode::Future, origin, poll) {
            Ok(poll) => poll.is_ready(),
            Err(_panicked) => true,
        };
        if let Some(slot) = self.slots.borrow_mut().get_mut(token)
            && !is_done
        {
            slot.task = Some((task, waker));
            return;
        }
        // The future has completed, or was removed from its slot while it was polled.
        self.remove(token);
        drop_future(origin, task);
    }

    /// Removes a future, for which its wakers do nothing any more. The caller drops it outside of any borrow.
    fn remove(&self, token: Token) -> Option<(BoxedFuture, Origin)> {
        let slot = self.slots.borrow_mut().remove(token)?;
        slot.future_waker.woken.disable();
        slot.task.map(|(task, _)| (task, slot.origin))
    }

    /// Polls a future at once, inside of other code that the loop runs. Returns false if the future is gone, or is being
    /// polled. An entry in the ready list stays, and finds nothing to do.
    pub(super) fn poll_now(
        &self,
        sender: &CommandSender<LoopCommand>,
        future_waker: &FutureWaker,
    ) -> bool {
        let token = future_waker.slot();
        let taken = self.slots.borrow_mut().get_mut(token).and_then(|slot| {
            // The flag of a future that is being polled stays: its wake is served by the ready list.
            let task = slot.task.take()?;
            slot.future_waker.woken.lower_early();
            Some((task, slot.origin))
        });
        let Some((task, origin)) = taken else { return false };
        let poll = || self.poll(token, task, origin);
        sender.run_user_code(UserCode::Future, origin, poll).is_ok()
    }

    /// Drops a future that was aborted.
    pub(crate) fn abort(&self, future_waker: &FutureWaker) {
        if let Some((task, origin)) = self.remove(future_waker.slot()) {
            drop_future(origin, task);
        }
    }

    /// Drops all futures, and from now on every future that is spawned.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        let tokens: Vec<_> = self.slots.borrow().tokens().collect();
        for token in tokens {
            if let Some((task, origin)) = self.remove(token) {
                drop_future(origin, task);
            }
        }
        self.ready.take_all(0, |_| ());
    }
}

/// Runs a future and passes its output to `complete`. A panic is reported, and passed as an error.
async fn catch_panics<F: Future>(
    origin: Origin,
    future: F,
    complete: impl FnOnce(Result<F::Output, Error>),
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
    // `complete` runs before the future is dropped: if the destructor panics, the output is not lost.
    complete(result);
}

fn drop_future(origin: Origin, task: BoxedFuture) {
    // A panic has already been reported, and no caller waits for the result.
    let _ = run_as(UserCode::Destructor, origin, || drop(task));
}

/// A promise that fails with `Cancelled` if it is dropped before its future has completed.
struct CancelOnDrop<T: Send + 'static>(Option<Promise<T>>);

impl<T: Send + 'static> CancelOnDrop<T> {
    fn complete(mut self, result: Result<T, Error>) {
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
