//! Awaiting promises on any runtime, and shared futures (P06).

use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use waterwheel_executor::{Error, ErrorKind, EventExecutor, ManualExecutor, SharedFuture};

use crate::support::futures::{LIMIT, on_loop};
use crate::support::{lock, panic_quietly, shut_down};

fn executor(name: &str) -> EventExecutor {
    EventExecutor::builder().name(name).build().unwrap()
}

/// A minimal runtime that knows nothing of executors.
fn block_on<F: Future>(future: F) -> F::Output {
    let (waker, woken) = signal_waker();
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        woken.recv_timeout(LIMIT).expect("woken in time");
    }
}

struct SignalWaker(mpsc::SyncSender<()>);

impl Wake for SignalWaker {
    fn wake(self: Arc<Self>) {
        let _ = self.0.try_send(()); // A full channel means that the waker was called before.
    }
}

fn signal_waker() -> (Waker, mpsc::Receiver<()>) {
    let (ring, woken) = mpsc::sync_channel(1);
    (Waker::from(Arc::new(SignalWaker(ring))), woken)
}

fn poll_with<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

#[test]
fn p06_a_future_is_awaited_on_a_foreign_runtime() {
    let executor = executor("any");
    let answer = async {
        let six = executor.submit(|| 6)?.await?;
        let seven = executor.submit(|| 7)?.await?;
        Ok::<_, Box<dyn std::error::Error>>(six * seven)
    };
    assert_eq!(block_on(answer).unwrap(), 42);
    let failed: Result<(), _> = block_on(executor.submit(|| panic!("on purpose")).unwrap());
    assert!(matches!(failed.unwrap_err().kind(), ErrorKind::Panicked { .. }));
    assert_eq!(block_on(executor.succeeded(7)).unwrap(), 7);
    let (promise, future) = executor.new_promise::<u8>();
    drop(promise);
    assert!(block_on(future).is_err());
}

#[test]
fn p06_a_future_is_awaited_on_the_loop() {
    let mut manual = ManualExecutor::new();
    let own = manual.executor().clone();
    let foreign = executor("foreign");
    let answer = async {
        let six = own.submit(|| 6).unwrap().await.unwrap();
        let seven = foreign.submit(|| 7).unwrap().await.unwrap();
        assert!(own.in_event_loop());
        six * seven
    };
    assert_eq!(manual.block_on(answer).unwrap(), 42);
}

#[test]
fn p06_a_pending_future_wakes_the_last_waker() {
    let (promise, mut future) = executor("any").new_promise();
    let ((first, first_woken), (last, last_woken)) = (signal_waker(), signal_waker());
    assert!(poll_with(&mut future, &first).is_pending());
    assert!(poll_with(&mut future, &last).is_pending());
    promise.set_success(7);
    assert!(last_woken.try_recv().is_ok());
    assert!(first_woken.try_recv().is_err(), "it has been replaced");
    assert!(matches!(poll_with(&mut future, &last), Poll::Ready(Ok(7))));
}

#[test]
fn p06_a_cancel_wakes_the_awaiting_task() {
    let (_promise, mut future) = executor("any").new_promise::<u8>();
    let (waker, woken) = signal_waker();
    assert!(poll_with(&mut future, &waker).is_pending());
    assert!(future.cancel());
    assert!(woken.try_recv().is_ok());
    assert!(matches!(poll_with(&mut future, &waker), Poll::Ready(Err(e)) if e.is_cancelled()));
}

#[test]
fn p06_the_awaiting_task_is_woken_after_the_listeners_ran() {
    let mut manual = ManualExecutor::new();
    let (promise, mut future) = manual.executor().new_promise();
    let told = Arc::new(AtomicBool::new(false));
    let tell = told.clone();
    future.add_listener(move |_| tell.store(true, Ordering::SeqCst));
    let (waker, woken) = signal_waker();
    assert!(poll_with(&mut future, &waker).is_pending());
    promise.set_success(7);
    assert!(woken.try_recv().is_err(), "the listener has not been called");
    assert!(poll_with(&mut future, &waker).is_pending());
    manual.run_now();
    assert!(told.load(Ordering::SeqCst) && woken.try_recv().is_ok());
    assert!(matches!(poll_with(&mut future, &waker), Poll::Ready(Ok(7))));
}

#[test]
fn p06_awaiting_never_misses_the_completion() {
    let executor = executor("any");
    for round in 0..1_000u32 {
        let (promise, mut future) = executor.new_promise();
        let listened = round % 2 == 0;
        if listened {
            future.add_listener(|_| ());
        }
        thread::scope(|scope| {
            scope.spawn(move || promise.set_success(round));
            assert_eq!(block_on(future).unwrap(), round);
        });
    }
}

#[test]
fn p06_shared_gives_every_consumer_a_clone() {
    const CONSUMERS: usize = 4;
    let executor = executor("any");
    for round in 0..200 {
        let (promise, future) = executor.new_promise();
        let shared = future.shared();
        let (told, listened) = mpsc::channel();
        let start = Barrier::new(2 * CONSUMERS + 1);
        thread::scope(|scope| {
            let joining = || {
                let shared = shared.clone();
                start.wait();
                shared.join()
            };
            let awaiting = || {
                let shared = shared.clone();
                let told = told.clone();
                shared.add_listener(move |outcome| told.send(outcome.clone()).unwrap());
                start.wait();
                block_on(shared)
            };
            let consumers: Vec<_> = (0..CONSUMERS)
                .flat_map(|_| [scope.spawn(joining), scope.spawn(awaiting)])
                .collect();
            start.wait();
            promise.set_success(round.to_string());
            for consumer in consumers {
                assert_eq!(consumer.join().unwrap().unwrap(), round.to_string());
            }
        });
        for _ in 0..CONSUMERS {
            let outcome = listened.recv_timeout(LIMIT).unwrap();
            assert_eq!(outcome.unwrap(), round.to_string());
        }
        assert_eq!(shared.try_get().unwrap().unwrap(), round.to_string(), "and later ones");
    }
}

#[test]
fn p06_shared_consumers_share_failure_and_cancel() {
    let executor = executor("any");
    let (promise, future) = executor.new_promise::<u8>();
    let one = future.shared();
    let twin = one.clone();
    assert!(one.try_get().is_none());
    promise.set_failure(Error::new("for all"));
    for shared in [one, twin] {
        assert_eq!(shared.join().unwrap_err().to_string(), "for all");
    }

    let (promise, future) = executor.new_promise::<u8>();
    let one = future.shared();
    let mut twin = one.clone();
    let (waker, woken) = signal_waker();
    assert!(poll_with(&mut twin, &waker).is_pending());
    assert!(one.cancel() && !twin.cancel());
    assert!(promise.is_cancelled() && twin.is_cancelled());
    assert!(woken.try_recv().is_ok());
    assert!(twin.join().unwrap_err().is_cancelled() && one.join().unwrap_err().is_cancelled());
}

#[test]
fn p06_a_value_that_is_not_sync_is_shared() {
    let executor = executor("any");
    let (promise, future) = executor.new_promise();
    let shared = future.shared();
    let (told, listened) = mpsc::channel();
    shared.add_listener(move |outcome| told.send(outcome.clone()).unwrap());
    promise.set_success(Cell::new(7));
    let joined = thread::scope(|scope| scope.spawn(|| shared.join()).join().unwrap());
    let listened = listened.recv_timeout(LIMIT).unwrap();
    for clone in [listened, joined] {
        assert_eq!(clone.unwrap().replace(8), 7, "a clone of its own");
    }
    assert_eq!(shared.join().unwrap().get(), 7);
}

#[test]
fn p06_a_dropped_clone_forgets_its_waker() {
    let (promise, future) = executor("any").new_promise::<u8>();
    let shared = future.shared();
    let (ring, woken) = mpsc::sync_channel(1);
    let signal_waker = Arc::new(SignalWaker(ring));
    let waker = Waker::from(signal_waker.clone());
    let mut short_lived = shared.clone();
    assert!(poll_with(&mut short_lived, &waker).is_pending());
    drop((short_lived, waker));
    assert_eq!(Arc::strong_count(&signal_waker), 1);
    promise.set_success(7);
    assert!(woken.try_recv().is_err());
}

/// A value whose first clone waits at a barrier and then panics.
struct PanicsOnFirstClone {
    first: Cell<bool>,
    half_way: Arc<Barrier>,
}

impl Clone for PanicsOnFirstClone {
    fn clone(&self) -> Self {
        if self.first.replace(false) {
            self.half_way.wait();
            self.half_way.wait();
            panic!("on purpose: no clone");
        }
        Self { first: Cell::new(false), half_way: self.half_way.clone() }
    }
}

#[test]
fn p06_a_clone_that_panics_does_not_strand_other_waiters() {
    let executor = executor("any");
    let half_way = Arc::new(Barrier::new(2));
    let panics_on_first_clone =
        PanicsOnFirstClone { first: Cell::new(true), half_way: half_way.clone() };
    let shared = executor.succeeded(panics_on_first_clone).shared();
    let panicking = shared.clone();
    let panicking =
        thread::spawn(move || catch_unwind(AssertUnwindSafe(|| panicking.join().map(drop))));
    half_way.wait(); // The first clone has the value: every other reader has to wait for it.

    let mut awaiting = shared.clone();
    let (waker, woken) = signal_waker();
    assert!(poll_with(&mut awaiting, &waker).is_pending());
    let (told, listened) = mpsc::channel();
    shared.add_listener(move |outcome| told.send(outcome.is_ok()).unwrap());
    on_loop(&executor, || ()); // Runs after the listener's first attempt.

    half_way.wait();
    assert!(panicking.join().unwrap().is_err(), "the panic is its own");
    assert_eq!(listened.recv_timeout(Duration::from_secs(60)), Ok(true), "the listener is lost");
    woken.recv_timeout(Duration::from_secs(60)).expect("the one who awaits is lost");
    assert!(matches!(poll_with(&mut awaiting, &waker), Poll::Ready(Ok(_))));
}

/// A task that owns a clone of the future it waits for, and is kept alive by its own waker.
struct Task {
    _future: SharedFuture<u8>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn p06_a_replaced_waker_is_dropped_without_a_lock() {
    let (promise, future) = executor("any").new_promise::<u8>();
    let mut shared = future.shared();
    let mut owned = shared.clone();
    assert!(poll_with(&mut owned, Waker::noop()).is_pending());
    let task = Waker::from(Arc::new(Task { _future: owned }));
    assert!(poll_with(&mut shared, &task).is_pending());
    drop(task); // Now the future holds the last reference to the waker.
    let (told, replaced) = mpsc::channel();
    thread::spawn(move || {
        let pending = poll_with(&mut shared, Waker::noop()).is_pending();
        told.send(pending).unwrap();
        drop(promise);
    });
    let replaced = replaced.recv_timeout(Duration::from_secs(60));
    assert_eq!(replaced, Ok(true), "the waker's destructor met the lock it was dropped under");
}

/// A waker that panics.
struct PanickingWaker;

impl Wake for PanickingWaker {
    fn wake(self: Arc<Self>) {
        panic_quietly("the waker is broken")
    }
}

#[test]
fn p06_a_waker_that_panics_does_not_stop_the_other_wakers() {
    let executor = executor("any");
    let (promise, future) = executor.new_promise();
    let future = future.shared();
    let (mut first, mut second) = (pin!(future.clone()), pin!(future.clone()));
    let broken = Waker::from(Arc::new(PanickingWaker));
    assert!(first.as_mut().poll(&mut Context::from_waker(&broken)).is_pending());
    let (waker, woken) = signal_waker();
    assert!(second.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let completed = catch_unwind(AssertUnwindSafe(|| promise.set_success(7)));
    assert!(matches!(completed, Ok(true)), "the panic came out of set_success");
    woken.recv_timeout(LIMIT).expect("the second one is woken");
    let Poll::Ready(outcome) = second.as_mut().poll(&mut Context::from_waker(&waker)) else {
        panic!("woken for nothing");
    };
    assert_eq!(outcome.unwrap(), 7);
}

/// A value whose first clone announces itself and then waits.
struct SlowToClone(Arc<Mutex<Option<Pause>>>);

type Pause = (mpsc::Sender<()>, mpsc::Receiver<()>);

impl Clone for SlowToClone {
    fn clone(&self) -> Self {
        let first = lock(&self.0).take();
        if let Some((begun, go_on)) = first {
            begun.send(()).unwrap();
            let _ = go_on.recv_timeout(LIMIT);
        }
        Self(self.0.clone())
    }
}

#[test]
fn p06_awaiting_a_shared_future_does_not_wait_for_its_listeners() {
    let executor = executor("any");
    let (promise, future) = executor.new_promise();
    let future = future.shared();
    let (listening, is_listening) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    future.add_listener(move |_| {
        listening.send(()).unwrap();
        let _ = released.recv();
    });
    let ((begun, has_begun), (go_on, may_go_on)) = (mpsc::channel(), mpsc::channel());
    let value = SlowToClone(Arc::new(Mutex::new(Some((begun, may_go_on)))));
    executor.execute(move || assert!(promise.set_success(value))).unwrap();
    has_begun.recv_timeout(LIMIT).expect("the listeners' clone is being made");
    let (waker, woken) = signal_waker();
    let mut awaited = pin!(future.clone());
    assert!(awaited.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    go_on.send(()).unwrap();
    is_listening.recv_timeout(LIMIT).expect("the listener runs");
    woken.recv_timeout(LIMIT).expect("woken while the listener is at it");
    assert!(awaited.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
    drop(release);
    shut_down(&executor);
}
