//! Combinators: `map`, `then`, `all`, `first` (P07).

use std::sync::mpsc;

use waterwheel_executor::{Error, ErrorKind, EventExecutor, PromiseFuture};

use crate::support::futures::{LIMIT, get, on_loop};

fn executor() -> EventExecutor {
    EventExecutor::builder().build().unwrap()
}

/// Returns the source line and the message of an error that stands for a panic.
fn panic_of(error: &Error) -> (u32, &str) {
    match error.kind() {
        ErrorKind::Panicked { origin, message } => (origin.location().unwrap().line(), message),
        other => panic!("another error: {other}"),
    }
}

#[test]
fn p07_map_runs_on_the_executor() {
    let executor = executor();
    let own = executor.clone();
    let mapped = executor.succeeded(20).map(move |n| (n + 1, own.in_event_loop()));
    assert_eq!(mapped.executor(), executor.id());
    assert_eq!(get(mapped).unwrap(), (21, true));
    let (promise, future) = executor.new_promise();
    let mapped = future.map(|n: u8| n + 1).map(|n| n.to_string());
    promise.set_success(6);
    assert_eq!(get(mapped).unwrap(), "7");
}

#[test]
fn p07_a_failure_skips_map_and_then() {
    let executor = executor();
    let mapped = executor.failed::<u8>(Error::new("lost")).map(|_| panic!("called"));
    assert_eq!(get::<()>(mapped).unwrap_err().to_string(), "lost");
    let own = executor.clone();
    let then = executor.failed::<u8>(Error::new("lost")).then(move |n| {
        own.execute(|| panic!("called")).unwrap();
        own.succeeded(n)
    });
    assert_eq!(get(then).unwrap_err().to_string(), "lost");
    let own = executor.clone();
    let then = executor.succeeded(1).then(move |_| own.failed::<u8>(Error::new("second")));
    assert_eq!(get(then).unwrap_err().to_string(), "second");
    let (promise, future) = executor.new_promise::<u8>();
    drop(promise);
    let error = get(future.map(|n| n)).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::PromiseDropped { .. }), "{error}");
}

#[test]
fn p07_a_panic_in_map_or_then_becomes_a_failure_with_its_origin() {
    let executor = executor();
    let panics = |_: u8| -> u8 { panic!("in map") };
    let (line, mapped) = (line!(), executor.succeeded(1).map(panics));
    assert_eq!(panic_of(&get(mapped).unwrap_err()), (line, "in map"));
    let panics = |_: u8| -> PromiseFuture<u8> { panic!("in then") };
    let (line, then) = (line!(), executor.succeeded(1).then(panics));
    assert_eq!(panic_of(&get(then).unwrap_err()), (line, "in then"));
    on_loop(&executor, || ()); // The loop still runs tasks.
}

#[test]
fn p07_then_follows_the_second_future() {
    let (own, foreign) = (executor(), executor());
    let (second, second_future) = foreign.new_promise();
    let then = own.succeeded(1).then(move |_| second_future);
    assert_eq!(then.executor(), own.id());
    on_loop(&own, || ());
    assert!(!then.is_done(), "the second is not");
    let here = own.clone();
    let then = then.map(move |n| (n, here.in_event_loop()));
    second.set_success(2);
    assert_eq!(get(then).unwrap(), (2, true));
}

#[test]
fn p07_cancelling_a_derived_future_cancels_its_source() {
    let executor = executor();
    let (promise, future) = executor.new_promise::<u8>();
    let mapped = future.map(|n| n + 1).map(|_| panic!("called"));
    assert!(mapped.cancel());
    assert!(promise.is_cancelled());
    assert!(get::<()>(mapped).unwrap_err().is_cancelled());

    let (first, future) = executor.new_promise::<u8>();
    let then = future.then(|_| -> PromiseFuture<u8> { panic!("called") });
    assert!(then.cancel());
    assert!(first.is_cancelled());
    assert!(get(then).unwrap_err().is_cancelled());

    let (second, second_future) = executor.new_promise::<u8>();
    let then = executor.succeeded(1).then(move |_| second_future);
    on_loop(&executor, || ()); // Now `then` waits for the second future.
    assert!(then.cancel());
    assert!(second.is_cancelled());
}

#[test]
fn p07_cancelling_a_source_fails_what_was_derived() {
    let executor = executor();
    let (_promise, future) = executor.new_promise::<u8>();
    let canceller = future.canceller();
    let own = executor.clone();
    let derived = future.map(|n| n + 1).then(move |n| own.succeeded(n));
    assert!(canceller.cancel());
    assert!(get(derived).unwrap_err().is_cancelled());
}

#[test]
fn p07_an_uncancellable_source_completes_although_the_derived_future_is_cancelled() {
    let executor = executor();
    let (mut promise, future) = executor.new_promise::<u8>();
    assert!(promise.set_uncancellable());
    let mapped = future.map(|_| panic!("called"));
    assert!(mapped.cancel(), "what is derived can be");
    assert!(promise.set_success(1), "and the source does not mind");
    on_loop(&executor, || ());
    assert!(get::<()>(mapped).unwrap_err().is_cancelled());
}

#[test]
fn p07_all_returns_the_values_in_the_order_of_the_futures() {
    let (own, foreign) = (executor(), executor());
    let (late, late_future) = foreign.new_promise();
    let (later, later_future) = own.new_promise();
    let all = own.all([late_future, later_future, foreign.succeeded(3)]);
    assert_eq!(all.executor(), own.id());
    on_loop(&foreign, || ());
    assert!(!all.is_done());
    later.set_success(2);
    late.set_success(1);
    assert_eq!(get(all).unwrap(), [1, 2, 3]);
    assert_eq!(get(own.all::<u8>([])).unwrap(), [], "none are all there");
}

#[test]
fn p07_all_fails_with_the_first_failure_and_leaves_the_rest_alone() {
    let executor = executor();
    let (pending, pending_future) = executor.new_promise::<u8>();
    let (failing, failing_future) = executor.new_promise();
    let all = executor.all([executor.succeeded(1), pending_future, failing_future]);
    failing.set_failure(Error::new("first of all"));
    assert_eq!(get(all).unwrap_err().to_string(), "first of all");
    assert!(!pending.is_cancelled());
    assert!(pending.set_failure(Error::new("second")));
    on_loop(&executor, || ());
}

#[test]
fn p07_first_takes_the_first_outcome_of_either_kind() {
    let executor = executor();
    let (slow, slow_future) = executor.new_promise();
    let (fast, fast_future) = executor.new_promise();
    let first = executor.first([slow_future, fast_future]);
    fast.set_success("fast");
    assert_eq!(get(first).unwrap(), "fast");
    assert!(!slow.is_cancelled(), "left alone");
    assert!(slow.set_success("slow"));

    let (pending, pending_future) = executor.new_promise::<u8>();
    let first = executor.first([pending_future, executor.failed(Error::new("no"))]);
    assert_eq!(get(first).unwrap_err().to_string(), "no");
    drop(pending);

    let none = get(executor.first::<u8>([])).unwrap_err();
    assert!(matches!(none.kind(), ErrorKind::NothingToWaitFor), "{none}");
}

#[test]
fn p07_cancelling_all_or_first_cancels_each() {
    let executor = executor();
    type Each = [PromiseFuture<u8>; 2];
    let all = |each: Each| executor.all(each).map(drop);
    let first = |each: Each| executor.first(each).map(drop);
    for combine in [&all as &dyn Fn(Each) -> PromiseFuture<()>, &first] {
        let (one, one_future) = executor.new_promise();
        let (other, other_future) = executor.new_promise();
        let combined = combine([one_future, other_future]);
        assert!(combined.cancel());
        assert!(one.is_cancelled() && other.is_cancelled());
        assert!(get(combined).unwrap_err().is_cancelled());
    }
}

#[test]
fn p07_a_future_derived_from_a_cancelled_one_is_cancelled() {
    let executor = executor();
    let (_promise, inner) = executor.new_promise::<u8>();
    let canceller = inner.canceller();
    let (reached, has_reached) = mpsc::channel();
    let then = executor.submit(|| ()).unwrap().then(move |()| {
        reached.send(()).unwrap();
        inner
    });
    has_reached.recv_timeout(LIMIT).unwrap();
    assert!(!then.is_done() && canceller.cancel());
    then.wait_timeout(LIMIT).unwrap();
    assert!(then.is_cancelled(), "then: {then:?}");

    let (_promise, outer) = executor.new_promise::<u8>();
    let canceller = outer.canceller();
    let map = outer.map(|n| n + 1);
    assert!(!map.is_done() && canceller.cancel());
    map.wait_timeout(LIMIT).unwrap();
    assert!(map.is_cancelled(), "map: {map:?}");
}
