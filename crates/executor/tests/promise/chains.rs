//! Long chains of promises on a small stack (P03).

use std::sync::Arc;

use waterwheel_executor::{ErrorKind, EventExecutor, Promise, PromiseFuture, ThreadFactory};

use crate::support::futures::{LIMIT, get, on_loop};

const LINKS: u32 = 100_000;
const STACK: usize = 256 * 1024;

/// An executor on a small stack.
fn small() -> EventExecutor {
    let threads = ThreadFactory::new("small").stack_size(STACK);
    EventExecutor::builder().thread_supplier(Arc::new(threads)).build().unwrap()
}

type Chain = (Promise<u32>, PromiseFuture<u32>);

/// Each promise's consumer completes the next one.
fn consumers(executor: &EventExecutor) -> Chain {
    let (head, mut tail) = executor.new_promise::<u32>();
    for _ in 0..LINKS {
        let (next, after) = executor.new_promise();
        tail.on_complete(move |outcome| {
            next.complete(outcome.map(|n| n + 1));
        });
        tail = after;
    }
    (head, tail)
}

/// Each promise's listener completes the next one.
fn listeners(executor: &EventExecutor) -> Chain {
    let (head, mut tail) = executor.new_promise::<u32>();
    for _ in 0..LINKS {
        let (next, after) = executor.new_promise();
        tail.add_listener(move |outcome| {
            next.complete(outcome.clone().map(|n| n + 1));
        });
        tail = after;
    }
    (head, tail)
}

fn maps(executor: &EventExecutor) -> Chain {
    let (head, tail) = executor.new_promise::<u32>();
    (head, (0..LINKS).fold(tail, |tail, _| tail.map(|n| n + 1)))
}

fn thens(executor: &EventExecutor) -> Chain {
    let (head, tail) = executor.new_promise::<u32>();
    let link = |tail: PromiseFuture<u32>, _| {
        let own = executor.clone();
        tail.then(move |n| own.succeeded(n + 1))
    };
    (head, (0..LINKS).fold(tail, link))
}

/// Builds a chain and completes it, on the loop and off it.
fn assert_completes(build: fn(&EventExecutor) -> Chain) {
    let executor = small();
    let (head, tail) = build(&executor);
    head.set_success(0);
    assert_eq!(get(tail).unwrap(), LINKS, "off the loop");

    let own = executor.clone();
    let tail = on_loop(&executor, move || {
        let (head, tail) = build(&own);
        head.set_success(0);
        tail
    });
    assert_eq!(get(tail).unwrap(), LINKS, "on the loop");

    let (head, tail) = build(&executor);
    drop(head);
    let error = get(tail).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::PromiseDropped { .. }), "{error}");
}

#[test]
fn p03_100_000_chained_consumers_complete_on_a_small_stack() {
    assert_completes(consumers);
}

#[test]
fn p03_100_000_chained_listeners_complete_on_a_small_stack() {
    assert_completes(listeners);
}

#[test]
fn p03_100_000_chained_maps_complete_on_a_small_stack() {
    assert_completes(maps);
}

#[test]
fn p03_100_000_chained_thens_complete_on_a_small_stack() {
    assert_completes(thens);
}

#[test]
fn p03_100_000_nested_thens_complete_on_a_small_stack() {
    fn steps(executor: &EventExecutor, left: u32) -> PromiseFuture<u32> {
        let own = executor.clone();
        let step = executor.submit(move || left).unwrap();
        step.then(move |left| match left {
            0 => own.succeeded(LINKS),
            left => steps(&own, left - 1),
        })
    }
    assert_eq!(get(steps(&small(), LINKS)).unwrap(), LINKS);
}

#[test]
fn p03_100_000_chained_maps_complete_after_their_executor_terminated() {
    let executor = small();
    let (head, tail) = maps(&executor);
    executor.shutdown().wait_timeout(LIMIT).unwrap();
    head.set_success(0);
    assert_eq!(get(tail).unwrap(), LINKS);
}

#[test]
fn p03_a_cancel_at_the_head_reaches_the_tail_of_100_000_links() {
    let executor = small();
    let (head, tail) = executor.new_promise::<u32>();
    let canceller = tail.canceller();
    let tail = (0..LINKS).fold(tail, |tail, _| tail.map(|n| n + 1));
    on_loop(&executor, move || assert!(canceller.cancel()));
    assert!(get(tail).unwrap_err().is_cancelled());
    assert!(head.is_cancelled());
}

#[test]
fn p03_a_cancel_at_the_tail_reaches_the_head_of_100_000_links() {
    let executor = small();
    let (head, tail) = maps(&executor);
    on_loop(&executor, move || assert!(tail.cancel()));
    assert!(head.is_cancelled());
}
