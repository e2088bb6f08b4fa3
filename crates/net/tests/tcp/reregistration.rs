//! TCP channels that are deregistered from their loop and registered again (C04).

use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::Bytes;
use waterwheel_channel::driver::SocketOption;
use waterwheel_channel::{Ctx, Handler, HandlerResult, Msg};

use crate::loop_rig::{get, on_every_loop};
use crate::probe::{ProbedServer, read_to_end};

/// Deregisters and registers its channel in `on_read` or in `on_read_complete`.
struct Reregisters {
    in_read_complete: bool,
}

impl Reregisters {
    fn reregister(ctx: &Ctx<'_>) {
        ctx.deregister();
        drop(ctx.channel().register());
    }
}

impl Handler for Reregisters {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        if !self.in_read_complete {
            Self::reregister(ctx);
        }
        ctx.fire_read(msg);
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        if self.in_read_complete {
            Self::reregister(ctx);
        }
        ctx.fire_read_complete();
        Ok(())
    }
}

#[test]
fn c04_read_complete_comes_once_though_the_channel_was_reregistered_in_the_round() {
    on_every_loop(|rig| {
        let server = ProbedServer::open(rig, |server| server);
        for in_read_complete in [false, true] {
            let (channel, mut peer, log) = server.connect();
            let add = channel.with_pipeline(move |pipeline| {
                pipeline.add_first("restless", Reregisters { in_read_complete })
            });
            get(add).unwrap();
            for _ in 0..3 {
                peer.write_all(b"hello").unwrap();
                let events = log.take(4);
                assert_eq!(events, ["read hello", "complete", "unregistered", "registered"]);
            }
            rig.assert_not_spinning();
            assert_eq!(log.rest(), [""; 0]);
        }
    });
}

#[test]
fn c04_a_reregistered_connection_loses_no_bytes() {
    on_every_loop(|rig| {
        let server = ProbedServer::open(rig, |server| server);
        let (channel, mut peer, log) = server.connect();
        for _ in 0..3 {
            get(channel.deregister());
            assert_eq!(log.next(), "unregistered");
            peer.write_all(b"meanwhile").unwrap();
            let written = channel.write_and_flush(Bytes::from("later"));
            rig.assert_not_spinning();
            assert_eq!(log.rest(), [""; 0]);
            assert!(!written.is_done() && channel.is_active() && !channel.is_registered());
            get(channel.register());
            assert_eq!(log.take(3), ["registered", "read meanwhile", "complete"]);
            get(written);
            let mut later = [0; 5];
            peer.read_exact(&mut later).unwrap();
            assert_eq!(&later, b"later");
        }
        drop(peer);
        let events = log.until_removed();
        assert_eq!(events[events.len() - 3..], ["inactive", "unregistered", "removed"]);
    });
}

#[test]
fn c04_a_pending_write_continues_after_reregistration() {
    on_every_loop(|rig| {
        let server = ProbedServer::open(rig, |server| {
            server.child_socket_option(SocketOption::SendBuffer(8 * 1024))
        });
        let (channel, mut peer, log) = server.connect();
        let body = vec![7; 4_000_000];
        let written = channel.write_and_flush(Bytes::from(body.clone()));
        rig.assert_not_spinning();
        get(channel.deregister());
        assert_eq!(log.next(), "unregistered");
        get(channel.register());
        let shut = channel.shutdown_output();
        assert!(read_to_end(&mut peer) == body);
        get(written);
        get(shut);
    });
}

#[test]
fn c04_a_deregistered_listener_lets_connections_wait_in_the_backlog() {
    on_every_loop(|rig| {
        let server = ProbedServer::open(rig, |server| server);
        get(server.listener.deregister());
        let peers: Vec<_> = (0..3).map(|_| TcpStream::connect(server.address).unwrap()).collect();
        rig.assert_not_spinning();
        assert_eq!(rig.event_loop.metrics().channels, 1);
        get(server.listener.register());
        for _ in &peers {
            server.accepted();
        }
        assert!(server.listener.is_active());
    });
}

#[test]
fn c04_a_deregistered_connection_can_be_closed() {
    on_every_loop(|rig| {
        let server = ProbedServer::open(rig, |server| server);
        let (channel, mut peer, log) = server.connect();
        get(channel.deregister());
        get(channel.close());
        assert_eq!(read_to_end(&mut peer), b"");
        assert_eq!(log.until_removed(), ["unregistered", "inactive", "removed"]);
    });
}
