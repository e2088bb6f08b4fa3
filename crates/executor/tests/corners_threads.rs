//! E04, E16, E17, E21, P03: what a review found at both ends of a thread's life.

mod support;

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};

use support::{SOON, SupplyBy, blow, lock, within};
use waterwheel_executor::{
    BuildError, ErrorKind, EventExecutor, EventExecutorBuilder, EventExecutorGroup, GlobalExecutor,
    LoopBody, Promise, PromiseFuture, State, WaitError,
};

/// A waker that panics.
struct Broken;

impl Wake for Broken {
    fn wake(self: Arc<Self>) {
        blow("the waker is broken")
    }
}

thread_local! {
    static HANDLE: EventExecutor = EventExecutor::builder().build().unwrap();
    static PROMISE: RefCell<Option<(Promise<u8>, PromiseFuture<u8>)>> =
        const { RefCell::new(None) };
}

#[test]
fn e21_a_handle_may_die_in_the_destructor_of_a_thread_local() {
    // The executor's own thread-locals come after ours, and so they go before it.
    let ended = std::thread::spawn(|| {
        HANDLE.with(|executor| {
            assert_eq!(executor.submit(|| 7).unwrap().join().unwrap(), 7);
            executor.termination()
        })
    });
    let ended = ended.join().expect("the thread ends in peace");
    ended.wait_timeout(SOON).expect("the last handle is gone");
    ended.join().unwrap();
}

#[test]
fn p03_listeners_are_told_of_a_promise_that_dies_in_the_destructor_of_a_thread_local() {
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
    assert_eq!(told.recv_timeout(SOON).unwrap(), (Err(true), true));
}

#[test]
fn e04_a_loop_that_was_refused_a_thread_does_not_run_after_all() {
    let kept = Arc::new(Mutex::new(None));
    let keeps = kept.clone();
    let supplier = SupplyBy(move |body: LoopBody| {
        *lock(&keeps) = Some(body);
        Err(io::Error::other("no thread for you"))
    });
    let executor = EventExecutor::builder().thread_supplier(Arc::new(supplier)).build().unwrap();
    assert!(executor.execute(|| ()).is_err());
    assert_eq!(executor.state(), State::NotStarted);
    executor.shutdown().wait_timeout(SOON).expect("it ends without a thread");
    assert_eq!(executor.state(), State::Terminated);
    let body = lock(&kept).take().expect("kept");
    within(move || body.run());
    assert!(executor.thread_properties().is_none(), "it ran: {:?}", executor.thread_properties());
    assert_eq!((executor.state(), executor.stats().turns), (State::Terminated, 0));
}

#[test]
fn e16_a_waker_that_panics_does_not_keep_the_group_from_terminating() {
    let group = EventExecutorGroup::builder().threads(1).build().unwrap();
    let child = group.next();
    child.submit(|| ()).unwrap().join().unwrap();
    let mut ended = pin!(child.termination());
    let broken = Waker::from(Arc::new(Broken));
    assert!(ended.as_mut().poll(&mut Context::from_waker(&broken)).is_pending());
    group.shutdown().wait_timeout(SOON).expect("the group ends");
    assert!(child.is_terminated() && group.is_terminated() && group.termination().is_done());
}

#[test]
fn e16_join_is_refused_on_the_loops_own_thread_after_its_end() {
    let slot = Arc::new(Mutex::new(None::<EventExecutor>));
    let (tell, told) = mpsc::channel();
    let (inner, tell) = (slot.clone(), Mutex::new(tell));
    let supplier = SupplyBy(move |body: LoopBody| {
        let (slot, tell) = (inner.clone(), lock(&tell).clone());
        let thread = std::thread::Builder::new().spawn(move || {
            body.run();
            let executor = lock(&slot).take().expect("set before the shutdown");
            let joined = catch_unwind(AssertUnwindSafe(|| executor.join()));
            tell.send(joined.map_err(|_| "join panicked")).unwrap();
        })?;
        Ok(Some(thread))
    });
    let executor =
        EventExecutor::builder().name("own").thread_supplier(Arc::new(supplier)).build().unwrap();
    *lock(&slot) = Some(executor.clone());
    executor.submit(|| ()).unwrap().join().unwrap();
    drop(executor.shutdown());
    match told.recv_timeout(SOON).expect("it returns") {
        Ok(Err(WaitError::WouldDeadlock(refused))) => assert_eq!(refused.executor, "own"),
        other => panic!("{other:?}"),
    }
    within(move || executor.join()).expect("others may join");
}

#[test]
fn e17_the_same_executor_twice_is_an_error() {
    let mut first = None::<EventExecutor>;
    let twice = |builder: EventExecutorBuilder| {
        let child = first.clone().map_or_else(|| builder.build(), Ok)?;
        first = Some(child.clone());
        Ok::<_, BuildError>(child)
    };
    let built = EventExecutorGroup::builder().name("twins").threads(2).build_with(twice);
    let refused = built.map(|_| ()).unwrap_err();
    assert_eq!(refused, BuildError::AlreadyInGroup { executor: "twins-0".to_owned() });
    assert!(first.unwrap().is_terminated(), "the ones before it have ended");
}

#[test]
fn e17_a_child_of_another_group_is_an_error_and_stays_what_it_is() {
    let group = EventExecutorGroup::builder().name("home").threads(1).build().unwrap();
    let child = group.next();
    let lent = child.clone();
    let built = EventExecutorGroup::builder()
        .threads(1)
        .build_with(move |_| Ok::<_, BuildError>(lent.clone()));
    let refused = built.map(|_| ()).unwrap_err();
    assert_eq!(refused, BuildError::AlreadyInGroup { executor: "home-0".to_owned() });
    assert_eq!(child.parent().as_ref().map(|parent| parent.next()), Some(child.clone()));
    assert_eq!(child.submit(|| 7).unwrap().join().unwrap(), 7);
    group.shutdown().wait_timeout(SOON).expect("the group ends");
}
