//! Rounds are finite: relays whose peers answer with errors (R04, L05, L17).

use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use waterwheel_channel::{Bootstrap, Channel, Ctx, Datagram, Handler, HandlerResult, Msg};
use waterwheel_net::Udp;

use crate::errors::empty_port;
use crate::loop_rig::{LoopRig, TIME_LIMIT, get, on_every_loop};
use crate::support::{ProbeBuilder, ReadyMadeSocket, group, ip, peer, peer_at, received};

/// Forwards its reads by another channel of the same loop.
struct Relay(Channel);

impl Handler for Relay {
    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let datagram = msg.take::<Datagram>().expect("a datagram");
        self.0.send(Datagram::new(datagram.into_bytes()));
        Ok(())
    }
}

/// Returns a channel whose datagrams are relayed by another one.
fn relay(rig: &LoopRig, to: &Channel) -> Channel {
    let to = to.clone();
    let bootstrap = Bootstrap::new(&group(rig), Udp).initialiser(move |edit| {
        edit.add_last("relay", Relay(to.clone()))?;
        Ok(())
    });
    get(bootstrap.bind("127.0.0.1:0"))
}

#[test]
fn r04_a_relay_to_an_unreachable_port_does_not_block_its_loop() {
    on_every_loop(|rig| {
        let (there, client) = (empty_port(), peer());
        let back = ProbeBuilder::new(rig).connect(&*there);
        let front = relay(rig, &back.channel);
        let front_address = ip(front.local_address());
        // All sends run in one task: the loop finds the error and the datagram in one round, and sends by the failing
        // channel before it handles that channel's error.
        let (back_channel, at, from) = (back.channel.clone(), there.clone(), client);
        let peer = rig.run_on_loop(move |_| {
            from.send_to(b"to be relayed", front_address).unwrap();
            back_channel.send(Datagram::new("anybody?"));
            peer_at(&at)
        });
        assert_eq!(received(&peer).0, "to be relayed");
        assert!(back.error().contains("refused"));
        rig.assert_not_spinning();
        assert_eq!(back.rest(), [], "one error");
        assert!(back.channel.is_active() && front.is_active());
    });
}

#[test]
fn r04_a_relay_between_two_closed_peers_does_not_starve_the_loop() {
    on_every_loop(|rig| {
        let (client, back) = (peer(), ProbeBuilder::new(rig).connect(&*empty_port()));
        let front = relay(rig, &back.channel);
        for _ in 0..50 {
            client.send_to(b"x", ip(front.local_address())).unwrap();
        }
        assert!(back.error().contains("refused"));
        // A task and a timer run, and then the loop is idle.
        rig.assert_not_spinning();
    });
}

#[test]
fn r04_an_error_together_with_epollout_does_not_make_a_round_endless() {
    on_every_loop(|rig| {
        let (given, theirs) = ReadyMadeSocket::pair();
        let probe = ProbeBuilder::of(rig, given).bind("127.0.0.1:0");
        let all = (0..1000).map(|_| probe.channel.write_and_flush(Datagram::new("x")));
        let all: Vec<_> = all.collect();
        rig.wait_until_asleep();
        assert!(probe.channel.pending_bytes() > 0, "no room is left");
        // The peer connects to another socket, which makes room and raises an error.
        let name = format!("waterwheel-{}-{}", std::process::id(), theirs.as_raw_fd());
        let name = SocketAddr::from_abstract_name(name).unwrap();
        let _elsewhere = UnixDatagram::bind_addr(&name).unwrap();
        theirs.connect_addr(&name).unwrap();
        // The kernel makes room before it raises the error: a write in between is refused, because the peer is connected
        // to another socket.
        let error = probe.error();
        assert!(error.contains("reset") || error.contains("not permitted"), "{error}");
        for write in all {
            write.wait_timeout(TIME_LIMIT).expect("each write completes");
        }
        rig.assert_not_spinning();
        assert!(probe.channel.is_active());
    });
}
