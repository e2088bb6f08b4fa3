//! Allocation budgets: a lease of an idle connection allocates nothing, nor do reads of a pooled channel.

use std::net::SocketAddr;

use bytes::Bytes;
use waterwheel_channel::{Bootstrap, EventLoopGroup, ManualEventLoop};
use waterwheel_pool::ChannelPool;
use waterwheel_testkit::manual::Manual;

#[path = "../../../support/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::allocations_in;

const ROUNDS: usize = 200;

fn run_until_idle(event_loop: &mut ManualEventLoop) {
    while !event_loop.is_idle() {
        event_loop.turn(Some(std::time::Duration::ZERO));
    }
}

#[test]
fn k12_a_lease_of_an_idle_connection_allocates_nothing() {
    let manual = Manual::readiness();
    let mut event_loop = EventLoopGroup::builder(manual.clone()).build_manual().unwrap();
    let sockets = manual.sockets();
    let pool = ChannelPool::builder(Bootstrap::new(&event_loop, sockets.clone()));
    let pool = pool.max_age(std::time::Duration::from_secs(1000)).build().unwrap();
    let server: SocketAddr = "192.0.2.1:80".parse().unwrap();
    let acquire = pool.acquire(server);
    run_until_idle(&mut event_loop);
    let peer = sockets.next_connect().unwrap().accept();
    while !acquire.is_done() {
        event_loop.turn(Some(std::time::Duration::ZERO));
    }
    let lease = acquire.join().unwrap();
    lease.send(Bytes::from_static(b"hello"));
    run_until_idle(&mut event_loop);
    assert_eq!(peer.take_received(), "hello");
    drop(lease);
    let rounds = || {
        for _ in 0..ROUNDS {
            let lease = pool.acquire(server).join().unwrap();
            assert!(lease.is_active());
            drop(lease);
        }
    };
    rounds();
    assert_eq!(allocations_in(rounds).0, 0, "off the loop");
    event_loop.on_loop(|_| {
        rounds();
        assert_eq!(allocations_in(rounds).0, 0, "on the loop");
    });
    assert_eq!(pool.metrics().acquired, 1 + 4 * ROUNDS as u64);
}
