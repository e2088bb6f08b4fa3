//! The drain of the core: operations under way end, then all clients are closed.

use std::future::Future;
use std::pin::pin;
use std::sync::Barrier;
use std::task::{Context, Poll, Waker};
use std::thread;

use waterwheel_gateway::session::command::GatewayCommand;

use crate::support::{Bench, publish, subscribe};

#[test]
fn g01_a_drain_waits_for_operations_under_way_and_closes_clients_after_what_was_published() {
    let mut bench = Bench::start();
    let (ann, bob) = (bench.client(), bench.client());
    bench.subscribe(&bob, "a");
    bench.engine.hold(true);
    bench.execute(&ann, 1, publish("a"));
    let drained = bench.drain();
    assert!(!drained.get() && bench.core.is_draining());
    assert!(bob.told().is_empty());
    // New ones are refused meanwhile, and commands that wait as well.
    assert_eq!(bench.named_client(None).err().unwrap().code.name(), "closing");
    bench.execute(&bob, 2, publish("a"));
    assert_eq!(bob.told(), ["2 closing"]);
    bench.execute(&ann, 3, publish("a"));
    bench.engine.hold(false);
    bench.event_loop.run();
    assert!(drained.get());
    assert_eq!(ann.told(), ["1 published at 1 for 1", "3 closing", "close closing"]);
    assert_eq!(bob.told(), ["1", "close closing"]);
}

#[test]
fn g01_a_drain_without_operations_ends_at_once() {
    let mut bench = Bench::start();
    let client = bench.client();
    bench.execute(&client, 1, GatewayCommand::Ping);
    assert!(bench.drain().get());
    assert_eq!(client.told(), ["1 ok", "close closing"]);
    assert!(bench.drain().get(), "a second time too");
}

#[test]
fn g01_an_operation_whose_client_leaves_does_not_hold_up_the_drain() {
    let mut bench = Bench::start();
    let client = bench.client();
    bench.engine.hold(true);
    bench.execute(&client, 1, subscribe("a", Some(0)));
    let drained = bench.drain();
    assert!(!drained.get());
    client.leave(&mut bench);
    assert!(drained.get());
    assert_eq!(bench.engine.take_calls(), ["subscribe a", "unsubscribe a"]);
}

#[test]
fn g01_a_client_that_comes_as_the_drain_begins_is_refused_or_closed() {
    for _ in 0..500 {
        let mut bench = Bench::start();
        let (core, begin) = (bench.core.clone(), Barrier::new(2));
        let opened = thread::scope(|scope| {
            scope.spawn(|| {
                begin.wait();
                let drained = pin!(core.drain()).poll(&mut Context::from_waker(Waker::noop()));
                assert_eq!(drained, Poll::Ready(()), "no operation is under way");
            });
            begin.wait();
            bench.named_client(None)
        });
        bench.event_loop.run();
        if let Ok(client) = opened {
            assert_eq!(client.told(), ["close closing"]);
        }
    }
}
