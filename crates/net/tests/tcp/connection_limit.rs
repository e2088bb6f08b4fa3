//! The limit on the connections of a server (C12).

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use waterwheel_channel::{
    Channel, ConnectionLimit, Ctx, DrainOptions, EventLoopGroup, Handler, HandlerResult, Msg,
    NewChannel, ServerBootstrap,
};
use waterwheel_executor::Error;
use waterwheel_net::{Epoll, Tcp};

use crate::loop_rig::{LoopRig, TIME_LIMIT, get, on_every_loop};
use crate::probe::{Echo, assert_echoed, connect_and_send, group, ip, read_to_end, wait_until};

/// Returns the bootstrap of an echo server with this limit.
fn limited(group: &EventLoopGroup, limit: &ConnectionLimit) -> ServerBootstrap {
    ServerBootstrap::new(group, Tcp).connection_limit(limit).child_initialiser(|edit| {
        edit.add_last("echo", Echo)?;
        Ok(())
    })
}

fn serve(rig: &LoopRig, limit: &ConnectionLimit) -> (Channel, SocketAddr) {
    let server = get(limited(&group(rig), limit).bind("127.0.0.1:0"));
    let address = ip(server.local_address());
    (server, address)
}

#[track_caller]
fn assert_unanswered(peer: &mut TcpStream) {
    peer.set_nonblocking(true).unwrap();
    let read = peer.read(&mut [0; 4]).map_err(|error| error.kind());
    assert_eq!(read, Err(ErrorKind::WouldBlock));
    peer.set_nonblocking(false).unwrap();
}

#[test]
fn c12_at_the_limit_new_connections_wait_until_one_closes() {
    on_every_loop(|rig| {
        let limit = ConnectionLimit::new(2);
        let (_server, address) = serve(rig, &limit);
        let mut served = [connect_and_send(address), connect_and_send(address)];
        served.iter_mut().for_each(assert_echoed);
        let mut waiting = [(); 3].map(|()| connect_and_send(address));
        rig.assert_not_spinning();
        waiting.iter_mut().for_each(assert_unanswered);
        assert_eq!((limit.open(), limit.max(), limit.turned_away()), (2, 2, 0));
        // Each closed connection lets the server accept the next connection of the backlog.
        let [first, second] = served;
        let [mut third, mut fourth, mut fifth] = waiting;
        drop(first);
        assert_echoed(&mut third);
        drop(second);
        assert_echoed(&mut fourth);
        rig.assert_not_spinning();
        assert_unanswered(&mut fifth);
        drop(third);
        assert_echoed(&mut fifth);
        assert_eq!(limit.open(), 2);
    });
}

#[test]
fn c12_connections_above_the_limit_are_closed_if_configured() {
    on_every_loop(|rig| {
        let limit = ConnectionLimit::new(1).turn_away();
        let (_server, address) = serve(rig, &limit);
        let mut first = connect_and_send(address);
        assert_echoed(&mut first);
        for n in 1..=3 {
            assert_eq!(read_to_end(&mut connect_and_send(address)), b"");
            assert_eq!((limit.open(), limit.turned_away()), (1, n));
        }
        drop(first);
        wait_until("no connection counts", || limit.open() == 0);
        assert_echoed(&mut connect_and_send(address));
    });
}

#[test]
fn c12_of_servers_that_share_a_limit_the_one_with_waiting_connections_is_woken() {
    on_every_loop(|rig| {
        let limit = ConnectionLimit::new(1);
        let ((one, at_one), (_other, at_other)) = (serve(rig, &limit), serve(rig, &limit));
        let mut first = connect_and_send(at_one);
        assert_echoed(&mut first);
        let mut at_the_other = connect_and_send(at_other);
        rig.assert_not_spinning();
        assert_unanswered(&mut at_the_other);
        // The server of the closed connection has no waiting connection.
        drop(first);
        assert_echoed(&mut at_the_other);
        let mut again = connect_and_send(at_one);
        rig.assert_not_spinning();
        assert_unanswered(&mut again);
        drop(at_the_other);
        assert_echoed(&mut again);
        // A closed server closes its waiting connections, and other servers are still woken.
        let (mut late, mut later) = (connect_and_send(at_other), connect_and_send(at_one));
        rig.assert_not_spinning();
        get(one.close());
        assert_eq!(read_to_end(&mut later), b"");
        drop(again);
        assert_echoed(&mut late);
    });
}

#[test]
fn c12_a_limit_can_be_changed_at_any_time() {
    on_every_loop(|rig| {
        let limit = ConnectionLimit::new(0);
        let (_server, address) = serve(rig, &limit);
        let mut peers = [(); 3].map(|()| connect_and_send(address));
        rig.assert_not_spinning();
        peers.iter_mut().for_each(assert_unanswered);
        limit.set_max(2);
        peers[..2].iter_mut().for_each(assert_echoed);
        limit.set_max(1);
        rig.assert_not_spinning();
        assert_unanswered(&mut peers[2]);
        assert_eq!(limit.open(), 2, "open connections stay");
        let [first, second, mut third] = peers;
        drop(first);
        wait_until("one connection is closed", || limit.open() == 1);
        rig.assert_not_spinning();
        assert_unanswered(&mut third);
        drop(second);
        assert_echoed(&mut third);
    });
}

/// Drops every accepted connection with an odd number.
struct DropsOdd(usize);

impl Handler for DropsOdd {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.0 += 1;
        if msg.is::<NewChannel>() && self.0.is_multiple_of(2) {
            ctx.fire_read(msg);
        }
        Ok(())
    }
}

#[test]
fn c12_a_connection_that_does_not_become_a_channel_does_not_count() {
    on_every_loop(|rig| {
        let (limit, tries) = (ConnectionLimit::new(1), AtomicUsize::new(0));
        let server = limited(&group(rig), &limit)
            .initialiser(|edit| {
                edit.add_last("picky", DropsOdd(0))?;
                Ok(())
            })
            .child_initialiser(move |edit| {
                if tries.fetch_add(1, Ordering::Relaxed) < 3 {
                    return Err(Error::new("not yet"));
                }
                edit.add_last("echo", Echo)?;
                Ok(())
            });
        let server = get(server.bind("127.0.0.1:0"));
        let address = ip(server.local_address());
        for _ in 0..7 {
            assert_eq!(read_to_end(&mut connect_and_send(address)), b"");
        }
        let mut served = connect_and_send(address);
        assert_echoed(&mut served);
        assert_eq!(limit.open(), 1);
        rig.wait_for_report("not yet");
    });
}

#[test]
fn c12_a_handle_of_a_closed_connection_does_not_count() {
    on_every_loop(|rig| {
        let limit = ConnectionLimit::new(1);
        let (_server, address) = serve(rig, &limit);
        let mut first = connect_and_send(address);
        assert_echoed(&mut first);
        let is_child = |channel: &Channel| channel.parent().is_some();
        let channels = get(rig.event_loop.registered_channels());
        let kept: Vec<_> = channels.into_iter().filter(is_child).collect();
        assert_eq!(kept.len(), 1);
        drop(first);
        assert_echoed(&mut connect_and_send(address));
        assert!(!kept[0].is_open());
    });
}

#[test]
fn l11_a_drain_at_the_limit_closes_waiting_connections_and_ends() {
    on_every_loop(|rig| {
        let limit = ConnectionLimit::new(1);
        let ((_one, at_one), (_other, at_other)) = (serve(rig, &limit), serve(rig, &limit));
        let mut served = connect_and_send(at_one);
        assert_echoed(&mut served);
        let mut waiting =
            [connect_and_send(at_one), connect_and_send(at_other), connect_and_send(at_other)];
        rig.assert_not_spinning();
        waiting.iter_mut().for_each(assert_unanswered);
        let drained = group(rig).drain(DrainOptions::default());
        for peer in &mut waiting {
            assert_eq!(read_to_end(peer), b"");
        }
        drained.wait_timeout(TIME_LIMIT).unwrap();
        drop(served);
        wait_until("all connections are closed", || limit.open() == 0);
    });
}

/// An echo handler that counts the connections being served.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(now: &Arc<AtomicUsize>, most: &AtomicUsize) -> Self {
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        Self(now.clone())
    }
}

impl Handler for Counted {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.write_and_flush(msg);
        Ok(())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn c12_under_load_all_connections_are_served_within_the_limit() {
    const MOST: usize = 3;
    const CLIENTS: usize = 8;
    const CALLS: usize = 50;
    let loops = EventLoopGroup::builder(Epoll).threads(3).build().unwrap();
    let limit = ConnectionLimit::new(MOST);
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counted = most.clone();
    let server = limited(&loops, &limit).child_initialiser(move |edit| {
        edit.add_last("counted", Counted::new(&now, &counted))?;
        Ok(())
    });
    // Three servers, each on a loop of its own.
    let doors = [(); 3].map(|()| get(server.bind("127.0.0.1:0")));
    let addresses = doors.each_ref().map(|server| ip(server.local_address()));
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || {
                for n in 0..CALLS {
                    assert_echoed(&mut connect_and_send(addresses[(client + n) % 3]));
                }
            });
        }
    });
    wait_until("all connections are closed", || limit.open() == 0);
    loops
        .shutdown_gracefully(Duration::ZERO, TIME_LIMIT)
        .unwrap()
        .wait_timeout(TIME_LIMIT)
        .unwrap();
    assert_eq!(most.load(Ordering::SeqCst), MOST);
}
