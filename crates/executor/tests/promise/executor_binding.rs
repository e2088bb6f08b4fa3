//! A promise and its executor (P03): without listeners the executor is not touched; once it has
//! terminated, its listeners run on the global executor.

use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle};

use waterwheel_executor::engine::{LoopCore, LoopWork, PassLimit, TurnOutcome};
use waterwheel_executor::{
    Clock, ErrorKind, EventExecutor, ExecutorState, GlobalExecutor, LoopBody, Nanos, NoExtension,
    Park, Promise, PromiseFuture, ThreadSupplier, TokenPark, Unpark,
};

use crate::support::futures::{LIMIT, Notes, get, on_loop};

fn executor() -> EventExecutor {
    EventExecutor::builder().build().unwrap()
}

/// An unparker and thread supplier that fail the test when they are called.
struct MustNotBeCalled;

impl Unpark for MustNotBeCalled {
    fn unpark(&self) {
        panic!("the executor was woken");
    }
}

impl ThreadSupplier for MustNotBeCalled {
    fn start(&self, _: LoopBody) -> io::Result<Option<JoinHandle<()>>> {
        panic!("the executor was started");
    }
}

impl Wake for MustNotBeCalled {
    fn wake(self: Arc<Self>) {}
}

/// Completes promises in every way that involves no listener.
fn complete_without_listeners(executor: &EventExecutor) {
    let (promise, future) = executor.new_promise();
    promise.set_success(7);
    assert_eq!(get(future).unwrap(), 7);
    let (promise, future) = executor.new_promise::<u8>();
    drop(promise);
    assert!(get(future).is_err());
    let (_promise, future) = executor.new_promise::<u8>();
    assert!(future.cancel());
    let (promise, future) = executor.new_promise();
    drop(future);
    promise.set_success(7);
    let (promise, future) = executor.new_promise();
    let shared = future.shared();
    promise.set_success(7);
    assert_eq!(shared.join().unwrap(), 7);
    // A future that is awaited, and one that a thread blocks on.
    let waker = Waker::from(Arc::new(MustNotBeCalled));
    let (promise, mut future) = executor.new_promise();
    let poll = |future: &mut PromiseFuture<u8>| {
        std::pin::Pin::new(future).poll(&mut Context::from_waker(&waker))
    };
    assert!(poll(&mut future).is_pending());
    promise.set_success(7);
    assert!(matches!(poll(&mut future), Poll::Ready(Ok(7))));
    let (promise, future) = executor.new_promise();
    thread::scope(|scope| {
        let joined = scope.spawn(move || get(future));
        promise.set_success(7);
        assert_eq!(joined.join().unwrap().unwrap(), 7);
    });
    let (mut promise, future) = executor.new_progressive_promise();
    promise.set_progress(1, None).unwrap();
    promise.set_success(7);
    assert_eq!(get(future.into_future()).unwrap(), 7);
}

#[test]
fn p03_without_listeners_the_executor_is_not_touched() {
    let executor = EventExecutor::builder()
        .thread_supplier(Arc::new(MustNotBeCalled))
        .build_loop::<NoExtension>(Arc::new(MustNotBeCalled), Box::new(|| panic!("it was started")))
        .unwrap();
    let before = executor.stats();
    complete_without_listeners(&executor);
    assert_eq!(executor.state(), ExecutorState::NotStarted);
    assert_eq!(executor.stats(), before);
}

/// A loop that announces each sleep, and whether the task had run by then.
struct AnnouncingLoop {
    park: TokenPark,
    has_run: Arc<AtomicBool>,
    asleep: mpsc::Sender<bool>,
}

impl Park for AnnouncingLoop {
    fn park(&mut self, until: Option<Nanos>) {
        let _ = self.asleep.send(self.has_run.load(Ordering::SeqCst));
        self.park.park(until);
    }
}

impl LoopWork<NoExtension> for AnnouncingLoop {
    fn turn(&mut self, core: &mut LoopCore<NoExtension>) -> TurnOutcome {
        core.wait(self);
        core.run_tasks(PassLimit::Queued, &mut |none| match none {});
        core.check_shutdown()
    }

    fn on_command(&mut self, none: NoExtension) {
        match none {}
    }
}

#[test]
fn p03_without_listeners_a_sleeping_loop_is_not_woken() {
    let park = TokenPark::new(Clock::Monotonic);
    let unpark = park.unparker();
    let (asleep, sleeps) = mpsc::channel();
    let has_run = Arc::new(AtomicBool::new(false));
    let run = has_run.clone();
    let seed = Box::new(move || {
        Box::new(AnnouncingLoop { park, has_run, asleep }) as Box<dyn LoopWork<_>>
    });
    let executor = EventExecutor::builder().build_loop(unpark, seed).unwrap();
    executor.execute(move || run.store(true, Ordering::SeqCst)).unwrap();
    while !sleeps.recv_timeout(LIMIT).unwrap() {}
    let settled = executor.stats(); // The loop sleeps and has nothing left to do.
    complete_without_listeners(&executor);
    assert_eq!(executor.stats(), settled);
    let mut future = executor.succeeded(7);
    future.add_listener(|_| ());
    sleeps.recv_timeout(LIMIT).expect("a listener wakes it, and then it sleeps again");
    assert_eq!(executor.stats().wake_ups, settled.wake_ups + 1);
}

#[test]
fn p03_listeners_of_a_terminated_executor_run_on_the_global_one() {
    let executor = executor();
    on_loop(&executor, || ());
    let notes = Notes::default();
    let (told, global) = mpsc::channel();
    let (promise, mut future) = executor.new_promise();
    future.add_listener(notes.listener(1));
    executor.shutdown().wait_timeout(LIMIT).unwrap();
    promise.set_success(7); // After the executor has terminated.
    future.add_listener(notes.listener(2));
    let late = notes.clone();
    future.add_listener(move |outcome| {
        late.add(*outcome.as_ref().unwrap());
        told.send(GlobalExecutor::get().in_event_loop()).unwrap();
    });
    assert_eq!(global.recv_timeout(LIMIT), Ok(true));
    assert_eq!(notes.take(), [1, 2, 7]);
    assert_eq!(get(future).unwrap(), 7, "and the consumer gets it");
}

#[test]
fn p03_listeners_of_an_executor_whose_handles_are_gone_run_on_the_global_one() {
    let (promise, future) = executor().new_promise();
    let (told, global) = mpsc::channel();
    future.on_complete(move |outcome| {
        told.send((GlobalExecutor::get().in_event_loop(), outcome.unwrap())).unwrap();
    });
    promise.set_success(7);
    assert_eq!(global.recv_timeout(LIMIT), Ok((true, 7)));
}

#[test]
fn p03_listeners_of_an_executor_without_a_thread_run_on_the_global_one() {
    struct RefusingSupplier;
    impl ThreadSupplier for RefusingSupplier {
        fn start(&self, _: LoopBody) -> io::Result<Option<JoinHandle<()>>> {
            Err(io::Error::other("no thread today"))
        }
    }
    let executor =
        EventExecutor::builder().thread_supplier(Arc::new(RefusingSupplier)).build().unwrap();
    let mut future = executor.succeeded(7);
    let (told, global) = mpsc::channel();
    future.add_listener(move |_| told.send(GlobalExecutor::get().in_event_loop()).unwrap());
    assert_eq!(global.recv_timeout(LIMIT), Ok(true));
    assert_eq!(executor.state(), ExecutorState::NotStarted);
}

#[test]
fn p03_listeners_queued_on_a_loop_that_dies_run_on_the_global_one() {
    struct DyingLoop(mpsc::Receiver<()>);
    impl LoopWork<NoExtension> for DyingLoop {
        fn turn(&mut self, _: &mut LoopCore<NoExtension>) -> TurnOutcome {
            let _ = self.0.recv();
            panic!("on purpose: the loop dies");
        }
        fn on_command(&mut self, none: NoExtension) {
            match none {}
        }
    }
    let (die, dies) = mpsc::channel();
    let unpark = TokenPark::new(Clock::Monotonic).unparker();
    let seed = Box::new(move || Box::new(DyingLoop(dies)) as Box<dyn LoopWork<_>>);
    let executor = EventExecutor::builder().build_loop(unpark, seed).unwrap();
    let mut future = executor.succeeded(7);
    let (told, global) = mpsc::channel();
    future.add_listener(move |_| told.send(GlobalExecutor::get().in_event_loop()).unwrap());
    assert_eq!(executor.stats().queue_depth, 1, "queued, and the loop does not turn");
    die.send(()).unwrap();
    assert_eq!(global.recv_timeout(LIMIT), Ok(true));
}

#[test]
fn p03_listeners_run_although_the_queue_is_full() {
    let executor = EventExecutor::builder().queue_bound(16).build().unwrap();
    let (go, gate) = mpsc::channel();
    let (told, started) = mpsc::channel();
    executor
        .execute(move || {
            told.send(()).unwrap();
            let _: Result<(), _> = gate.recv();
        })
        .unwrap();
    started.recv_timeout(LIMIT).unwrap();
    while executor.execute(|| ()).is_ok() {}
    let mut future = executor.succeeded(7);
    let (told, listened) = mpsc::channel();
    let own = executor.clone();
    future.add_listener(move |_| told.send(own.in_event_loop()).unwrap());
    go.send(()).unwrap();
    assert_eq!(listened.recv_timeout(LIMIT), Ok(true));
}

#[test]
fn p03_no_listener_is_lost_or_doubled_while_the_executor_ends() {
    const PROMISES: u32 = 100;
    for _ in 0..100 {
        let executor = executor();
        on_loop(&executor, || ());
        let (told, calls) = mpsc::channel();
        let promises: Vec<_> = (0..PROMISES)
            .map(|n| {
                let (promise, mut future) = executor.new_promise();
                let told = told.clone();
                future.add_listener(move |_| told.send(n).unwrap());
                promise
            })
            .collect();
        drop(told);
        thread::scope(|scope| {
            scope.spawn(|| executor.shutdown());
            promises.into_iter().for_each(|promise| assert!(promise.set_success(())));
        });
        // The channel disconnects when every listener has been dropped, called or not.
        let mut calls: Vec<_> = calls.iter().collect();
        calls.sort_unstable();
        assert!(calls.into_iter().eq(0..PROMISES));
    }
}

thread_local! {
    static PROMISE: RefCell<Option<(Promise<u8>, PromiseFuture<u8>)>> =
        const { RefCell::new(None) };
}

#[test]
fn p03_listeners_run_when_a_thread_local_destructor_drops_the_promise() {
    let (tell, told) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        PROMISE.with(|kept| assert!(kept.borrow().is_none()));
        let (promise, mut future) = GlobalExecutor::get().new_promise::<u8>();
        future.add_listener(move |outcome| {
            let dropped = outcome
                .as_ref()
                .map_err(|error| matches!(error.kind(), ErrorKind::PromiseDropped { .. }));
            tell.send((dropped.copied(), GlobalExecutor::get().in_event_loop())).unwrap();
        });
        PROMISE.with(|kept| *kept.borrow_mut() = Some((promise, future)));
        assert!(!GlobalExecutor::get().in_event_loop());
    });
    thread.join().expect("the thread ends in peace");
    assert_eq!(told.recv_timeout(LIMIT).unwrap(), (Err(true), true));
}
