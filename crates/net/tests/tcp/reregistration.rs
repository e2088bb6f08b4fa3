//! TCP channels that leave their loop and come back (C04).

use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::Bytes;
use waterwheel_channel::driver::SocketOption;
use waterwheel_channel::{Ctx, Handler, HandlerResult, Msg};

use crate::loop_rig::{get, on_every_loop};
use crate::probe::{Door, read_to_end};

/// Leaves and comes back, in the course of what is read or of the end of its round.
struct Restless {
    at_the_end: bool,
}

impl Restless {
    fn turn_round(ctx: &Ctx<'_>) {
        ctx.deregister();
        drop(ctx.channel().register());
    }
}

impl Handler for Restless {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        if !self.at_the_end {
            Self::turn_round(ctx);
        }
        ctx.fire_read(msg);
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        if self.at_the_end {
            Self::turn_round(ctx);
        }
        ctx.fire_read_complete();
        Ok(())
    }
}

#[test]
fn c04_the_end_of_a_round_is_told_once_though_the_channel_left_and_came_back_in_it() {
    on_every_loop(|rig| {
        let door = Door::open(rig, |server| server);
        for at_the_end in [false, true] {
            let (channel, mut peer, notes) = door.connect();
            let add = channel.with_pipeline(move |pipeline| {
                pipeline.add_first("restless", Restless { at_the_end })
            });
            get(add).unwrap();
            for _ in 0..3 {
                peer.write_all(b"hello").unwrap();
                let told = notes.take(4);
                assert_eq!(told, ["read hello", "complete", "unregistered", "registered"]);
            }
            rig.assert_calm();
            assert_eq!(notes.rest(), [""; 0]);
        }
    });
}

#[test]
fn c04_a_connection_that_was_away_loses_nothing() {
    on_every_loop(|rig| {
        let door = Door::open(rig, |server| server);
        let (channel, mut peer, notes) = door.connect();
        for _ in 0..3 {
            get(channel.deregister());
            assert_eq!(notes.next(), "unregistered");
            peer.write_all(b"meanwhile").unwrap();
            let written = channel.write_and_flush(Bytes::from("later"));
            rig.assert_calm();
            assert_eq!(notes.rest(), [""; 0]);
            assert!(!written.is_done() && channel.is_active() && !channel.is_registered());
            get(channel.register());
            assert_eq!(notes.take(3), ["registered", "read meanwhile", "complete"]);
            get(written);
            let mut later = [0; 5];
            peer.read_exact(&mut later).unwrap();
            assert_eq!(&later, b"later");
        }
        drop(peer);
        let told = notes.to_the_end();
        assert_eq!(told[told.len() - 3..], ["inactive", "unregistered", "removed"]);
    });
}

#[test]
fn c04_a_write_that_waits_for_room_goes_on_after_it_was_away() {
    on_every_loop(|rig| {
        let door = Door::open(rig, |server| {
            server.child_socket_option(SocketOption::SendBuffer(8 * 1024))
        });
        let (channel, mut peer, notes) = door.connect();
        let body = vec![7; 4_000_000];
        let written = channel.write_and_flush(Bytes::from(body.clone()));
        rig.assert_calm();
        get(channel.deregister());
        assert_eq!(notes.next(), "unregistered");
        get(channel.register());
        let shut = channel.shutdown_output();
        assert!(read_to_end(&mut peer) == body);
        get(written);
        get(shut);
    });
}

#[test]
fn c04_a_listener_that_is_away_lets_connections_wait() {
    on_every_loop(|rig| {
        let door = Door::open(rig, |server| server);
        get(door.server.deregister());
        let peers: Vec<_> = (0..3).map(|_| TcpStream::connect(door.address).unwrap()).collect();
        rig.assert_calm();
        assert_eq!(rig.event_loop.metrics().channels, 1);
        get(door.server.register());
        for _ in &peers {
            door.accepted();
        }
        assert!(door.server.is_active());
    });
}

#[test]
fn c04_a_connection_that_is_away_can_be_closed() {
    on_every_loop(|rig| {
        let door = Door::open(rig, |server| server);
        let (channel, mut peer, notes) = door.connect();
        get(channel.deregister());
        get(channel.close());
        assert_eq!(read_to_end(&mut peer), b"");
        assert_eq!(notes.to_the_end(), ["unregistered", "inactive", "removed"]);
    });
}
