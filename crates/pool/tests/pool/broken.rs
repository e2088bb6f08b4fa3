//! Connections that break are not handed out.

use bytes::Bytes;
use waterwheel_channel::{ChannelOptions, Ctx, Handler, HandlerResult, Msg};
use waterwheel_pool::PoolCloseReason;
use waterwheel_testkit::recorder::Log;

use super::support::{ADDRESS, Fixture};

#[test]
fn k12_a_connection_closed_while_idle_leaves_the_pool_at_once() {
    let fixture = Fixture::new(|pool| pool);
    let (lease, peer) = fixture.open(ADDRESS);
    drop(lease);
    peer.finish();
    fixture.assert_at_rest(0, 0);
    assert_eq!(fixture.closed(PoolCloseReason::Closed), 1);
    let (lease, peer) = fixture.open(ADDRESS);
    drop(lease);
    peer.reset();
    fixture.assert_at_rest(0, 0);
    // By a user of the channel.
    let (lease, _peer) = fixture.open(ADDRESS);
    let channel = lease.clone();
    drop(lease);
    channel.close().join().unwrap();
    fixture.assert_at_rest(0, 0);
}

#[test]
fn k12_the_close_future_of_a_connection_comes_after_it_left_the_pool() {
    let fixture = Fixture::new(|pool| pool.max_open(1));
    let (lease, _peer) = fixture.open(ADDRESS);
    let channel = lease.clone();
    drop(lease);
    let pool = fixture.pool.clone();
    let (told, open) = std::sync::mpsc::channel();
    channel.closed().add_listener(move |_| told.send(pool.metrics().now.open).unwrap());
    drop(channel.close());
    fixture.settle();
    assert_eq!(open.try_recv(), Ok(0));
}

#[test]
fn k12_a_lease_of_a_closed_connection_frees_its_place_before_it_is_dropped() {
    let fixture = Fixture::new(|pool| pool.max_open(1));
    let (lease, peer) = fixture.open(ADDRESS);
    let waiting = fixture.pool.acquire(ADDRESS);
    peer.reset();
    let _peer = fixture.accept();
    drop(waiting.join().unwrap());
    fixture.assert_at_rest(1, 0);
    drop(lease);
    fixture.assert_at_rest(1, 0);
}

#[test]
fn k12_bytes_that_arrive_while_idle_close_the_connection_and_reach_nobody() {
    let log = Log::new();
    let seen = log.clone();
    let recording = move |bootstrap: waterwheel_channel::Bootstrap| {
        bootstrap.initialiser(move |edit| {
            edit.add_last("reads", RecordReads(seen.clone()))?;
            Ok(())
        })
    };
    let fixture = Fixture::with_bootstrap(1, recording, |pool| pool);
    let (lease, peer) = fixture.open(ADDRESS);
    peer.send("answer");
    fixture.settle();
    drop(lease);
    peer.send("nobody waits for this");
    peer.send([b'x'; 100_000]); // In several reads.
    fixture.assert_at_rest(0, 0);
    assert!(peer.is_closed());
    assert_eq!(fixture.closed(PoolCloseReason::UnexpectedRead), 1);
    assert_eq!(log.take(), ["answer"]);
}

struct RecordReads(Log);

impl Handler for RecordReads {
    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let bytes = msg.take::<Bytes>().unwrap();
        self.0.push(String::from_utf8_lossy(&bytes));
        Ok(())
    }
}

#[test]
fn k12_unread_data_and_the_end_of_the_stream_are_noticed_without_auto_read() {
    let manual_reads = |bootstrap: waterwheel_channel::Bootstrap| {
        bootstrap.options(ChannelOptions { auto_read: false, ..ChannelOptions::default() })
    };
    let fixture = Fixture::with_bootstrap(1, manual_reads, |pool| pool);
    let (lease, peer) = fixture.open(ADDRESS);
    peer.send("unread");
    fixture.settle();
    fixture.assert_at_rest(0, 1);
    drop(lease);
    fixture.assert_at_rest(0, 0);
    assert_eq!(fixture.closed(PoolCloseReason::UnexpectedRead), 1);
    let (lease, peer) = fixture.open(ADDRESS);
    drop(lease);
    fixture.settle();
    peer.finish();
    fixture.assert_at_rest(0, 0);
}

#[test]
fn k12_a_half_closed_connection_is_not_handed_out() {
    let half = |bootstrap: waterwheel_channel::Bootstrap| {
        let options = ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() };
        bootstrap.options(options)
    };
    // While idle.
    let fixture = Fixture::with_bootstrap(1, half, |pool| pool);
    let (lease, peer) = fixture.open(ADDRESS);
    drop(lease);
    peer.finish();
    fixture.assert_at_rest(0, 0);
    assert_eq!(fixture.closed(PoolCloseReason::HalfClosed), 1);
    // While leased: by the peer, then by us.
    let (lease, peer) = fixture.open(ADDRESS);
    peer.finish();
    fixture.settle();
    assert!(lease.is_open());
    drop(lease);
    fixture.assert_at_rest(0, 0);
    let (lease, _peer) = fixture.open(ADDRESS);
    lease.shutdown_output().join().unwrap();
    drop(lease);
    fixture.assert_at_rest(0, 0);
    assert_eq!(fixture.closed(PoolCloseReason::HalfClosed), 3);
}

#[test]
fn k12_a_connection_whose_watch_was_removed_is_closed_when_given_back() {
    let fixture = Fixture::new(|pool| pool);
    let (lease, peer) = fixture.open(ADDRESS);
    lease.with_pipeline(|pipeline| pipeline.remove("pool-watch").unwrap()).join().unwrap();
    drop(lease);
    fixture.assert_at_rest(0, 0);
    assert!(peer.is_closed());
    assert_eq!(fixture.closed(PoolCloseReason::HookFailed), 1);
}

#[test]
fn k12_a_handler_that_panics_costs_its_connection_only() {
    struct Panics;

    impl Handler for Panics {
        fn on_read(&mut self, _: &Ctx<'_>, _: Msg) -> HandlerResult {
            panic!("of the test");
        }
    }

    let panicking = |bootstrap: waterwheel_channel::Bootstrap| {
        bootstrap.initialiser(|edit| {
            edit.add_last("panics", Panics)?;
            Ok(())
        })
    };
    let fixture = Fixture::with_bootstrap(1, panicking, |pool| pool.max_open(1));
    let (lease, peer) = fixture.open(ADDRESS);
    peer.send("boom");
    fixture.settle();
    assert!(!lease.is_open());
    drop(lease);
    let (_next, _peer) = fixture.open(ADDRESS);
}

#[test]
fn k12_a_connection_whose_close_was_requested_is_not_handed_out() {
    let fixture = Fixture::new(|pool| pool.max_open(1));
    let (lease, peer) = fixture.open(ADDRESS);
    let waiting = fixture.pool.acquire(ADDRESS);
    // The loop is busy: the close is still in its queue when the lease is given back.
    let (go, wait) = std::sync::mpsc::channel::<()>();
    fixture.event_loop(0).execute(move || wait.recv().unwrap()).unwrap();
    drop(lease.close());
    drop(lease);
    assert!(!waiting.is_done(), "handed out although its close was requested");
    go.send(()).unwrap();
    let _next = fixture.accept();
    assert!(peer.is_closed());
    assert!(waiting.join().unwrap().is_open());
    assert_eq!(fixture.closed(PoolCloseReason::Closed), 1);
}
