//! Completion, cancel, listeners and consumers of a promise.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use super::{AtomicUsize, Ordering, model, park, parker, thread};
use crate::clock::Nanos;
use crate::engine::current::ExecutorId;
use crate::engine::registry::{self, NotifyTarget};
use crate::promise::{AnyPromise, promise};
use crate::raw::block::Allocator;
use crate::raw::origin::Origin;
use crate::sync::{Mutex, lock, yield_now};
use crate::timer::MissedTicks;
use crate::timer::entry::{self, Fired};
use crate::timer::periodic::Repeat;
use crate::wake::park::Unpark;

/// An executor as a promise sees it: a queue of things to call.
struct Loop {
    id: ExecutorId,
    calls: Mutex<VecDeque<AnyPromise>>,
}

impl Loop {
    fn new() -> Arc<Self> {
        let loop_ = Arc::new(Self { id: ExecutorId::next(), calls: Mutex::default() });
        let target: std::sync::Weak<Self> = Arc::downgrade(&loop_);
        registry::register(loop_.id, target);
        loop_
    }

    fn next(&self) -> Option<AnyPromise> {
        lock(&self.calls).pop_front()
    }

    /// Makes the queued calls until `done` returns true.
    fn run_until(&self, done: impl Fn() -> bool) {
        while !done() {
            match self.next() {
                Some(call) => call.notify(),
                None => yield_now(),
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        registry::unregister(self.id);
    }
}

impl NotifyTarget for Loop {
    fn queue_notify(self: Arc<Self>, notify: AnyPromise) -> Result<(), AnyPromise> {
        lock(&self.calls).push_back(notify);
        Ok(())
    }

    fn queue_timer_removal(&self, _: AnyPromise) {}
}

/// Unparks the thread that polls.
struct UnparkWaker(Arc<dyn Unpark>);

impl Wake for UnparkWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Awaits a future on its own thread: a lost wake-up is a deadlock, which loom reports.
fn block_on<F: Future + Unpin>(mut future: F) -> F::Output {
    let (mut parker, unpark) = parker();
    let waker = Waker::from(Arc::new(UnparkWaker(unpark)));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = Pin::new(&mut future).poll(&mut context) {
            return output;
        }
        park(&mut parker);
    }
}

#[test]
fn p01_completion_and_cancel_have_one_winner() {
    model(|| {
        let (mut promise, mut future) = promise::<u8>(ExecutorId::next());
        let canceller = future.canceller();
        let cancel = thread::spawn(move || canceller.cancel());
        let completed = promise.try_success(7);
        let cancelled = cancel.join().unwrap();
        let outcome = future.try_take().expect("one of the two completed it");
        match (completed, cancelled) {
            (Ok(()), false) => assert_eq!(outcome.unwrap(), 7),
            (Err(7), true) => assert!(outcome.unwrap_err().is_cancelled()),
            both => panic!("two winners or none: {both:?}"),
        }
    });
}

#[test]
fn p02_uncancellable_and_cancel_have_one_winner() {
    model(|| {
        let (mut promise, future) = promise::<u8>(ExecutorId::next());
        let canceller = future.canceller();
        let cancel = thread::spawn(move || canceller.cancel());
        let mine = promise.set_uncancellable();
        assert_ne!(mine, cancel.join().unwrap());
        assert_eq!(promise.is_cancelled(), !mine);
    });
}

#[test]
fn p03_a_listener_runs_once_before_or_after_completion() {
    model(|| {
        let loop_ = Loop::new();
        let (promise, mut future) = promise::<u8>(loop_.id);
        let completer = thread::spawn(move || promise.set_success(7));
        let heard = Arc::new(AtomicUsize::new(0));
        for _ in 0..2 {
            let heard = heard.clone();
            future.add_listener(move |outcome| {
                heard.fetch_add(usize::from(*outcome.as_ref().unwrap()), Ordering::SeqCst);
            });
        }
        loop_.run_until(|| heard.load(Ordering::SeqCst) == 14);
        completer.join().unwrap();
        assert_eq!(heard.load(Ordering::SeqCst), 14);
        assert_eq!(future.try_take().unwrap().unwrap(), 7, "the consumer comes after them");
    });
}

#[test]
fn p03_listeners_and_the_taker_never_hold_the_value_at_once() {
    model(|| {
        let loop_ = Loop::new();
        let (promise, mut future) = promise::<u8>(loop_.id);
        let heard = Arc::new(AtomicUsize::new(0));
        let listener = heard.clone();
        future.add_listener(move |outcome| {
            assert_eq!(*outcome.as_ref().unwrap(), 7, "taken under the listener's eyes");
            listener.fetch_add(1, Ordering::SeqCst);
        });
        promise.set_success(7);
        let taker = thread::spawn(move || block_on(future).unwrap());
        loop_.run_until(|| heard.load(Ordering::SeqCst) == 1);
        // The notification may still be under way: it wakes the taker.
        while let Some(call) = loop_.next() {
            call.notify();
        }
        assert_eq!(taker.join().unwrap(), 7);
    });
}

#[test]
fn p04_a_blocked_thread_is_released() {
    model(|| {
        let (promise, future) = promise::<u8>(ExecutorId::next());
        let completer = thread::spawn(move || promise.set_success(7));
        assert_eq!(future.join().unwrap(), 7);
        completer.join().unwrap();
    });
}

#[test]
fn p05_a_dropped_promise_fails_its_future() {
    model(|| {
        let (promise, future) = promise::<u8>(ExecutorId::next());
        let dropper = thread::spawn(move || drop(promise));
        assert!(block_on(future).is_err());
        dropper.join().unwrap();
    });
}

#[test]
fn p08_the_value_is_dropped_once_if_the_future_is_dropped_during_completion() {
    model(|| {
        let (promise, future) = promise::<Arc<()>>(ExecutorId::next());
        let value = Arc::new(());
        let sent = value.clone();
        let completer = thread::spawn(move || promise.set_success(sent));
        drop(future);
        assert!(completer.join().unwrap());
        assert_eq!(Arc::strong_count(&value), 1, "dropped, and once");
    });
}

#[test]
fn p08_a_canceller_does_not_keep_the_value() {
    model(|| {
        let (promise, future) = promise::<Arc<()>>(ExecutorId::next());
        let canceller = future.canceller();
        let value = Arc::new(());
        promise.set_success(value.clone());
        let dropper = thread::spawn(move || drop(future));
        assert!(!canceller.cancel());
        dropper.join().unwrap();
        assert_eq!(Arc::strong_count(&value), 1);
    });
}

#[test]
fn p06_an_awaiting_task_is_woken() {
    model(|| {
        let (promise, future) = promise::<u8>(ExecutorId::next());
        let completer = thread::spawn(move || promise.set_success(7));
        assert_eq!(block_on(future).unwrap(), 7);
        completer.join().unwrap();
    });
}

#[test]
fn p06_every_consumer_of_a_shared_future_is_woken() {
    model(|| {
        let (promise, future) = promise::<u8>(ExecutorId::next());
        let shared = future.shared();
        let other = shared.clone();
        let reader = thread::spawn(move || block_on(other).unwrap());
        promise.set_success(7);
        assert_eq!(block_on(shared).unwrap(), 7);
        assert_eq!(reader.join().unwrap(), 7);
    });
}

#[test]
fn e13_a_timer_fires_or_is_cancelled_never_both() {
    model(|| {
        let run = Arc::new(AtomicUsize::new(0));
        let alive = run.clone();
        let (timer, mut future) = entry::one_shot(
            (ExecutorId::next(), Allocator::Global),
            Origin::labelled("timer"),
            move || {
                alive.fetch_add(1, Ordering::SeqCst);
            },
        );
        let canceller = future.canceller();
        let cancel = thread::spawn(move || canceller.cancel());
        let fired = timer.fire(&|| Nanos(1));
        let cancelled = cancel.join().unwrap();
        assert_eq!(fired == Fired::Ran, !cancelled);
        assert_eq!(run.load(Ordering::SeqCst), usize::from(!cancelled));
        assert_eq!(future.try_take().unwrap().is_ok(), !cancelled);
        assert_eq!(Arc::strong_count(&run), 1, "the closure is dropped, whichever won");
    });
}

#[test]
fn e13_a_periodic_timer_cancelled_while_it_runs_is_dropped() {
    model(|| {
        let alive = Arc::new(());
        let held = alive.clone();
        let repeat = Repeat::Rate { period: Duration::from_nanos(1), missed: MissedTicks::CatchUp };
        let (timer, future) = entry::periodic(
            (ExecutorId::next(), Allocator::Global),
            Origin::labelled("timer"),
            (Nanos(1), repeat),
            move || drop(Arc::clone(&held)),
        );
        let cancel = thread::spawn(move || future.cancel());
        let _first: Fired = timer.fire(&|| Nanos(1));
        assert!(cancel.join().unwrap());
        assert_eq!(Arc::strong_count(&alive), 1, "the closure is dropped at once");
        assert_eq!(timer.fire(&|| Nanos(2)), Fired::Cancelled);
    });
}
