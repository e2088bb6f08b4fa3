//! Sends of datagrams: destinations, order, and the number of system calls (C05, C07, C13).

use waterwheel_channel::Datagram;
use waterwheel_testkit::faulty::DriverCall;

use crate::loop_rig::{get, on_counting_drivers, on_every_loop};
use crate::support::{ProbeBuilder, UdpProbe, peer, received};

#[test]
fn c13_sixty_four_flushed_datagrams_are_sent_sixteen_per_call_and_in_order() {
    on_counting_drivers(|rig, faults| {
        let (peer, probe) = (peer(), UdpProbe::bound(rig));
        let before = faults.calls(DriverCall::Write);
        for n in 0..64 {
            drop(probe.channel.write(Datagram::to(peer.local_addr().unwrap(), n.to_string())));
        }
        probe.channel.flush();
        for n in 0..64 {
            assert_eq!(received(&peer).0, n.to_string());
        }
        rig.wait_until_asleep();
        assert_eq!(faults.calls(DriverCall::Write) - before, 4);
    });
}

#[test]
fn c13_a_datagram_without_an_address_goes_to_the_connected_peer() {
    on_every_loop(|rig| {
        let peer = peer();
        let probe = ProbeBuilder::new(rig).connect(peer.local_addr().unwrap());
        assert_eq!(probe.channel.peer_address(), Some(peer.local_addr().unwrap().into()));
        get(probe.channel.write_and_flush(Datagram::new("hello")));
        assert_eq!(received(&peer), ("hello".into(), probe.address()));
    });
}

#[test]
fn c13_a_datagram_with_an_address_goes_there_from_a_connected_channel_too() {
    on_every_loop(|rig| {
        let (friend, stranger) = (peer(), peer());
        let probe = ProbeBuilder::new(rig).connect(friend.local_addr().unwrap());
        let to = |peer: &std::net::UdpSocket| peer.local_addr().unwrap();
        get(probe.channel.write_and_flush(Datagram::to(to(&stranger), "hey")));
        get(probe.channel.write_and_flush(Datagram::to(to(&friend), "hello")));
        assert_eq!(received(&stranger), ("hey".into(), probe.address()));
        assert_eq!(received(&friend), ("hello".into(), probe.address()));
    });
}

#[test]
fn c07_a_write_cancelled_before_the_flush_is_not_sent() {
    on_every_loop(|rig| {
        let (peer, probe) = (peer(), UdpProbe::bound(rig));
        let write = |text: &'static str| {
            probe.channel.write(Datagram::to(peer.local_addr().unwrap(), text))
        };
        let (first, second, third) = (write("1"), write("2"), write("3"));
        assert!(second.cancel());
        probe.channel.flush();
        get(first);
        get(third);
        assert_eq!([received(&peer).0, received(&peer).0], ["1", "3"]);
        assert_eq!(probe.channel.pending_bytes(), 0);
    });
}

#[test]
fn c05_datagrams_flushed_before_a_close_are_sent() {
    on_every_loop(|rig| {
        let (peer, probe) = (peer(), UdpProbe::bound(rig));
        let mut writes = Vec::new();
        for n in 0..20 {
            writes
                .push(probe.channel.write(Datagram::to(peer.local_addr().unwrap(), n.to_string())));
        }
        probe.channel.flush();
        get(probe.channel.close());
        writes.into_iter().for_each(get);
        for n in 0..20 {
            assert_eq!(received(&peer).0, n.to_string());
        }
    });
}
