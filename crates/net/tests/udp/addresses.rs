//! Bound and connected addresses of UDP channels, and the options of their sockets (C11–C13).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use socket2::SockRef;
use waterwheel_channel::driver::{MulticastMembership, NetworkInterface, SocketOption};
use waterwheel_channel::{Address, Bootstrap, Datagram, Resolver};
use waterwheel_executor::Promise;
use waterwheel_net::Udp;

use crate::loop_rig::{TIME_LIMIT, get, on_every_loop};
use crate::support::{
    ProbeBuilder, ReadyMadeSocket, UdpProbe, failure_text, group, ip, peer, peer_at, received,
};

#[test]
fn c13_a_port_chosen_by_the_system_is_in_the_local_address() {
    on_every_loop(|rig| {
        let (one, other) = (UdpProbe::bound(rig), UdpProbe::bound(rig));
        assert!(one.address().port() != 0 && one.address() != other.address());
        assert_eq!(one.channel.peer_address(), None);
        let taken = Bootstrap::new(&group(rig), Udp).bind(one.address());
        taken.wait_timeout(TIME_LIMIT).unwrap();
        let why = taken.join().unwrap_err().to_string();
        let address = one.address();
        assert!(
            why.contains(&format!("cannot bind to {address}: Address already in use")),
            "{why}"
        );
    });
}

#[test]
fn c13_a_connected_channel_can_have_a_local_address() {
    on_every_loop(|rig| {
        let peer = peer();
        let from_there = |bootstrap: Bootstrap| {
            bootstrap.local_address("127.0.0.2:0".parse::<SocketAddr>().unwrap())
        };
        let probe = ProbeBuilder::new(rig).with(from_there).connect(peer.local_addr().unwrap());
        probe.channel.send(Datagram::new("hello"));
        let (_, from) = received(&peer);
        assert_eq!((from.ip(), from), (IpAddr::from([127, 0, 0, 2]), probe.address()));
    });
}

#[test]
fn c13_an_address_of_another_kind_is_refused_and_named() {
    on_every_loop(|rig| {
        let bound = Bootstrap::new(&group(rig), Udp).bind(Address::local("door"));
        bound.wait_timeout(TIME_LIMIT).unwrap();
        let why = bound.join().unwrap_err().to_string();
        assert!(why.contains("door is not an IP address, and UDP needs one"), "{why}");
        let probe = UdpProbe::bound(rig);
        let why =
            failure_text(probe.channel.write_and_flush(Datagram::to(Address::local("door"), "x")));
        assert!(why.contains("door is not an address of the operating system's sockets"), "{why}");
    });
}

#[test]
fn c13_an_ipv6_channel_talks_to_ipv6_peers() {
    on_every_loop(|rig| {
        let peer = peer_at("[::1]:0");
        let probe = ProbeBuilder::new(rig).bind("[::1]:0");
        peer.send_to(b"six", probe.address()).unwrap();
        let datagram = probe.datagram();
        probe.channel.send(datagram.answer("six too"));
        assert_eq!(received(&peer), ("six too".into(), probe.address()));
        let there = ProbeBuilder::new(rig).connect(peer.local_addr().unwrap());
        there.channel.send(Datagram::new("me too"));
        assert_eq!(received(&peer), ("me too".into(), there.address()));
    });
}

#[test]
fn c13_an_ipv6_channel_receives_ipv4_too_unless_only_v6_is_set() {
    on_every_loop(|rig| {
        let peer = peer();
        let at = |probe: &UdpProbe| SocketAddr::from(([127, 0, 0, 1], probe.address().port()));
        let both = ProbeBuilder::new(rig).bind("[::]:0");
        peer.send_to(b"four", at(&both)).unwrap();
        let datagram = both.datagram();
        let from = ip(datagram.peer().cloned());
        assert_eq!(from.ip().to_canonical(), IpAddr::V4(Ipv4Addr::LOCALHOST));
        both.channel.send(datagram.answer("to four"));
        assert_eq!(received(&peer).0, "to four");
        both.channel.send(Datagram::to(peer.local_addr().unwrap(), "once more"));
        assert_eq!(received(&peer).0, "once more");

        let only = |bootstrap: Bootstrap| bootstrap.socket_option(SocketOption::OnlyV6(true));
        let six = ProbeBuilder::new(rig).with(only).bind("[::]:0");
        peer.connect(at(&six)).unwrap();
        peer.send(b"four").unwrap();
        let refused = peer.recv(&mut [0; 10]).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    });
}

#[test]
fn c13_several_channels_share_a_port() {
    on_every_loop(|rig| {
        let share = |bootstrap: Bootstrap| bootstrap.socket_option(SocketOption::ReusePort(true));
        let one = ProbeBuilder::new(rig).with(share).bind("127.0.0.1:0");
        let other = ProbeBuilder::new(rig).with(share).bind(one.address());
        let peers: Vec<_> = (0..64).map(|_| peer()).collect();
        for peer in &peers {
            peer.send_to(b"for one of you", one.address()).unwrap();
        }
        let mut received_by = (Vec::new(), Vec::new());
        while received_by.0.len() + received_by.1.len() < peers.len() {
            rig.wait_until_asleep();
            received_by.0.extend(one.rest());
            received_by.1.extend(other.rest());
        }
        assert!(
            !received_by.0.is_empty() && !received_by.1.is_empty(),
            "each channel has received some"
        );
    });
}

/// Resolves every name to these addresses.
struct FixedResolver(Vec<Address>);

impl Resolver for FixedResolver {
    fn resolve(&self, _: &str, found: Promise<Vec<Address>>) {
        let _ = found.set_success(self.0.clone());
    }
}

#[test]
fn c12_all_addresses_of_a_name_are_tried() {
    on_every_loop(|rig| {
        let peer = peer();
        // A broadcast address without SO_BROADCAST is refused.
        let all = SocketAddr::from((Ipv4Addr::BROADCAST, 9));
        let found = Arc::new(FixedResolver(vec![all.into(), peer.local_addr().unwrap().into()]));
        let probe = ProbeBuilder::new(rig).with(|it| it.resolver(found)).connect("somewhere:9");
        assert_eq!(probe.channel.peer_address(), Some(peer.local_addr().unwrap().into()));
        probe.channel.send(Datagram::new("found"));
        assert_eq!(received(&peer), ("found".into(), probe.address()));
        let named = ProbeBuilder::new(rig).bind(("localhost", 0));
        assert!(named.address().ip().is_loopback());
    });
}

#[test]
fn c11_options_of_datagram_sockets_are_set_in_the_kernel() {
    on_every_loop(|rig| {
        let (given, behind) = ReadyMadeSocket::bound();
        let probe = ProbeBuilder::of(rig, given).bind("127.0.0.1:0");
        let at = SockRef::from(&behind);
        let set = |option| get(probe.channel.set_option(option));
        set(SocketOption::Broadcast(true));
        set(SocketOption::TimeToLive(33));
        set(SocketOption::MulticastTimeToLive(7));
        set(SocketOption::MulticastLoop(false));
        set(SocketOption::MulticastInterface(NetworkInterface::Address(Ipv4Addr::LOCALHOST)));
        assert!(at.broadcast().unwrap());
        assert_eq!((at.ttl_v4().unwrap(), at.multicast_ttl_v4().unwrap()), (33, 7));
        assert!(!at.multicast_loop_v4().unwrap());
        assert_eq!(at.multicast_if_v4().unwrap(), Ipv4Addr::LOCALHOST);
        set(SocketOption::MulticastInterface(NetworkInterface::Any));
        assert_eq!(at.multicast_if_v4().unwrap(), Ipv4Addr::UNSPECIFIED);
    });
}

#[test]
fn c11_datagram_options_that_cannot_be_set_are_named() {
    on_every_loop(|rig| {
        let probe = UdpProbe::bound(rig);
        let why = |option| failure_text(probe.channel.set_option(option));
        let stranger = MulticastMembership::new([192, 0, 2, 1]);
        let found = why(SocketOption::JoinGroup(stranger));
        assert!(found.starts_with("cannot set the option join_group for 192.0.2.1: "), "{found}");
        let group = MulticastMembership::new([239, 1, 2, 3]);
        let found = why(SocketOption::LeaveGroup(group.at(NetworkInterface::Index(1))));
        let named = "cannot set the option leave_group for 239.1.2.3 at interface 1: ";
        assert!(found.starts_with(named), "{found}");
        let found = why(SocketOption::MulticastTimeToLive(1000));
        assert!(found.starts_with("cannot set the option multicast_time_to_live: "), "{found}");
        let six = ProbeBuilder::new(rig).bind("[::1]:0");
        let here = NetworkInterface::Address(Ipv4Addr::LOCALHOST);
        let found = failure_text(six.channel.set_option(SocketOption::MulticastInterface(here)));
        assert!(found.contains("IPv6 needs the index of an interface"), "{found}");
        assert!(probe.channel.is_active() && six.channel.is_active());
    });
}

#[test]
fn c13_broadcast_needs_the_so_broadcast_option() {
    on_every_loop(|rig| {
        let probe = UdpProbe::bound(rig);
        let all = SocketAddr::from(([127, 255, 255, 255], probe.address().port()));
        let why = failure_text(probe.channel.write_and_flush(Datagram::to(all, "all")));
        assert!(why.contains("Permission denied"), "{why}");
        get(probe.channel.set_option(SocketOption::Broadcast(true)));
        get(probe.channel.write_and_flush(Datagram::to(all, "all")));
    });
}
