//! The end of groups with a loop per channel: shutdown (L10), drain (L11), the last handle (E21).

use std::io::Read;
use std::sync::mpsc::channel;
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::{
    Ctx, DrainOptions, Drained, Draining, EventLoopGroup, Handler, HandlerResult, LoopDraining,
    LoopShutDown, Msg, ServerBootstrap,
};
use waterwheel_executor::ErrorKind;
use waterwheel_net::{Blocking, Tcp};

use crate::support::{
    AnnouncesChannel, Bench, Echo, TIME_LIMIT, assert_echoes, connect, failure, get, ip,
    read_to_end,
};

/// More bytes than the buffers of both sockets hold.
const MUCH: usize = 16 << 20;

/// Sends many bytes, and "goodbye" when the drain begins.
struct Sends;

impl Handler for Sends {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.write_and_flush(Bytes::from(vec![b'.'; MUCH]));
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.is::<Draining>() {
            ctx.write_and_flush(Bytes::from_static(b"goodbye"));
        }
        Ok(())
    }
}

fn within(time: Duration) -> DrainOptions {
    DrainOptions::within(time).shutdown(Duration::ZERO, TIME_LIMIT).unwrap()
}

#[test]
fn l11_a_drain_ends_the_loops_of_all_channels_when_everything_is_sent() {
    let bench = Bench::new();
    let (server, address) = bench.server(|| Sends);
    let mut peers: Vec<_> = (0..5).map(|_| connect(address)).collect();
    for peer in &mut peers {
        peer.read_exact(&mut [0]).unwrap();
    }
    let drained = bench.group.drain(within(TIME_LIMIT));
    server.closed().wait_timeout(TIME_LIMIT).unwrap();
    assert!(std::net::TcpStream::connect(address).is_err(), "the listener is closed");
    assert!(bench.group.is_draining() && !drained.is_done());
    let refused = failure(bench.client().connect(address));
    let why = |kind: &ErrorKind| matches!(kind, ErrorKind::Other(why) if why.is::<LoopDraining>());
    assert!(why(refused.kind()), "{refused}");
    assert_eq!(bench.loops(), 6, "no loop was added");
    // One after the other: the loops of finished channels wait for the rest.
    for peer in &mut peers {
        let mut rest = vec![0; MUCH - 1 + "goodbye".len()];
        peer.read_exact(&mut rest).unwrap();
        assert!(rest.ends_with(b".goodbye"));
    }
    for peer in &mut peers {
        assert_eq!(read_to_end(peer), b"");
    }
    bench.group.termination().wait_timeout(TIME_LIMIT).unwrap();
    assert_eq!(drained.join().unwrap(), Drained::Complete);
}

#[test]
fn l11_a_drain_that_is_overdue_counts_the_channels_of_all_loops() {
    let bench = Bench::new();
    let (_server, address) = bench.server(|| Sends);
    let mut peers: Vec<_> = (0..3).map(|_| connect(address)).collect();
    for peer in &mut peers {
        peer.read_exact(&mut [0]).unwrap();
    }
    let drained = bench.group.drain(within(Duration::from_millis(50)));
    drained.wait_timeout(TIME_LIMIT).unwrap();
    assert_eq!(drained.join().unwrap(), Drained::DeadlineReached { channels: 3 });
    bench.group.termination().wait_timeout(TIME_LIMIT).unwrap();
}

#[test]
fn l11_a_drain_of_idle_loops_completes_at_once() {
    let bench = Bench::new();
    let (server, address) = bench.server(|| Echo);
    let mut peers = [0; 3].map(|_| connect(address));
    peers.iter_mut().for_each(assert_echoes);
    drop(peers);
    get(server.close());
    bench.until_channels(0);
    let drained = bench.group.drain(within(TIME_LIMIT));
    drained.wait_timeout(TIME_LIMIT).unwrap();
    assert_eq!(drained.join().unwrap(), Drained::Complete);
    bench.group.termination().wait_timeout(TIME_LIMIT).unwrap();
}

#[test]
fn l13_a_group_that_was_shut_down_reports_that_even_if_it_was_full() {
    for max in [1, 10] {
        let bench = Bench::with(Blocking, |builder| builder.max_channels(max));
        let there = Bench::new();
        let (_server, address) = there.server(|| Echo);
        get(bench.client().connect(address));
        drop(bench.group.shutdown_gracefully(Duration::ZERO, TIME_LIMIT).unwrap());
        let refused = failure(bench.client().connect(address));
        let why =
            |kind: &ErrorKind| matches!(kind, ErrorKind::Other(why) if why.is::<LoopShutDown>());
        assert!(why(refused.kind()), "{refused}");
        bench.group.termination().wait_timeout(TIME_LIMIT).unwrap();
        let refused = failure(ServerBootstrap::new(&bench.group, Tcp).bind("127.0.0.1:0"));
        assert!(why(refused.kind()), "{refused}");
    }
}

#[test]
fn e21_the_last_handle_ends_the_loops_of_all_channels() {
    let bench = Bench::new();
    let (server, address) = bench.server(|| Echo);
    let mut peers = [0; 3].map(|_| connect(address));
    peers.iter_mut().for_each(assert_echoes);
    let ended = bench.group.termination();
    drop(bench);
    ended.wait_timeout(TIME_LIMIT).unwrap();
    assert!(!server.is_open());
    for peer in &mut peers {
        assert_eq!(read_to_end(peer), b"");
    }
}

#[test]
fn l13_a_server_outlives_its_workers_and_closes_new_connections() {
    let boss = EventLoopGroup::per_channel(Blocking).build().unwrap();
    let bench = Bench::new();
    let (sender, events) = channel();
    let server =
        ServerBootstrap::new(&bench.group, Tcp).boss(&boss).child_initialiser(move |edit| {
            edit.add_last("shows", AnnouncesChannel(sender.clone()))?;
            Ok(())
        });
    let server = get(server.bind("127.0.0.1:0"));
    let address = ip(server.local_address());
    let mut peer = connect(address);
    events.recv_timeout(TIME_LIMIT).unwrap();
    bench.end();
    assert_eq!(read_to_end(&mut peer), b"");
    for _ in 0..10 {
        assert_eq!(read_to_end(&mut connect(address)), b"");
    }
    assert!(server.is_active());
    assert!(bench.reports().is_empty(), "this is not reported as a fault");
}
