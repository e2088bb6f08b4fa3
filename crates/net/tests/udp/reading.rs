//! Reads of datagrams: senders, sizes, and when reads happen (C09, C13).

use waterwheel_channel::{ChannelOptions, Datagram, ReceiveSizes};

use crate::loop_rig::on_every_loop;
use crate::support::{ProbeBuilder, ProbeEvent, UdpProbe, peer, received, text};

#[test]
fn c13_each_datagram_has_its_senders_address_and_can_be_answered() {
    on_every_loop(|rig| {
        let probe = UdpProbe::bound(rig);
        let peers = [peer(), peer(), peer()];
        for word in ["hello", "", "world"] {
            for peer in &peers {
                peer.send_to(word.as_bytes(), probe.address()).unwrap();
                let datagram = probe.datagram();
                assert_eq!(datagram.peer(), Some(&peer.local_addr().unwrap().into()));
                assert_eq!((text(&datagram), datagram.is_truncated()), (word.into(), false));
                probe.channel.send(datagram.answer(datagram.bytes().clone()));
                assert_eq!(received(peer), (word.into(), probe.address()));
            }
        }
    });
}

#[test]
fn c13_a_datagram_larger_than_the_read_size_is_truncated_and_marked() {
    on_every_loop(|rig| {
        let receive_sizes = ReceiveSizes::new(64, 64, 100).unwrap();
        let options = ChannelOptions { receive_sizes, ..ChannelOptions::default() };
        let probe = ProbeBuilder::new(rig).options(options).bind("127.0.0.1:0");
        let peer = peer();
        for len in [99, 100, 101, 1000] {
            peer.send_to(&vec![b'x'; len], probe.address()).unwrap();
            let datagram = probe.datagram();
            assert_eq!(datagram.bytes(), &vec![b'x'; len.min(100)]);
            assert_eq!((datagram.whole_len(), datagram.is_truncated()), (len, len > 100));
        }
    });
}

#[test]
fn c13_the_largest_datagram_arrives_whole_by_default() {
    on_every_loop(|rig| {
        let probe = UdpProbe::bound(rig);
        let there = ProbeBuilder::new(rig).connect(probe.address());
        let body = vec![b'x'; 65_507];
        there.channel.send(Datagram::new(body.clone()));
        let datagram = probe.datagram();
        assert!(datagram.bytes() == &body && !datagram.is_truncated());
    });
}

#[test]
fn c09_nothing_is_read_while_reads_are_off_and_nothing_is_lost() {
    on_every_loop(|rig| {
        let probe = UdpProbe::with_reads_off(rig);
        let peer = peer();
        for word in ["1", "2", "3"] {
            peer.send_to(word.as_bytes(), probe.address()).unwrap();
        }
        rig.assert_not_spinning();
        assert_eq!(probe.rest(), []);
        probe.channel.set_auto_read(true);
        assert_eq!(probe.texts(3), ["1", "2", "3"]);
    });
}

#[test]
fn l05_turning_reads_off_in_a_batch_holds_back_the_rest_of_it() {
    on_every_loop(|rig| {
        let probe = UdpProbe::with_reads_off(rig);
        let peer = peer();
        for word in ["1", "off", "3", "4", "off", "6"] {
            peer.send_to(word.as_bytes(), probe.address()).unwrap();
        }
        for part in [&["1", "off"][..], &["3", "4", "off"], &["6"]] {
            probe.channel.set_auto_read(true);
            assert_eq!(probe.texts(part.len()), part);
            assert_eq!(probe.next(), ProbeEvent::ReadComplete);
            rig.assert_not_spinning();
            assert_eq!(probe.rest(), []);
        }
    });
}

#[test]
fn c09_each_read_request_reads_one_datagram() {
    on_every_loop(|rig| {
        let options =
            ChannelOptions { auto_read: false, reads_per_round: 1, ..ChannelOptions::default() };
        let probe = ProbeBuilder::new(rig).options(options).bind("127.0.0.1:0");
        let peer = peer();
        for word in ["1", "2", "3"] {
            peer.send_to(word.as_bytes(), probe.address()).unwrap();
        }
        for word in ["1", "2", "3"] {
            probe.channel.read();
            assert_eq!(probe.texts(1), [word]);
            assert_eq!(probe.next(), ProbeEvent::ReadComplete);
            rig.wait_until_asleep();
            assert_eq!(probe.rest(), []);
        }
    });
}

#[test]
fn c09_a_round_has_at_most_sixteen_datagrams() {
    on_every_loop(|rig| {
        let probe = UdpProbe::with_reads_off(rig);
        let peer = peer();
        for n in 0..20 {
            peer.send_to(&[n], probe.address()).unwrap();
        }
        for round in [16, 4] {
            probe.channel.read();
            for _ in 0..round {
                assert!(matches!(probe.next(), ProbeEvent::Read(_)));
            }
            assert_eq!(probe.next(), ProbeEvent::ReadComplete);
            rig.wait_until_asleep();
            assert_eq!(probe.rest(), []);
        }
    });
}

#[test]
fn c13_a_connected_channel_receives_from_its_peer_only() {
    on_every_loop(|rig| {
        let (friend, stranger) = (peer(), peer());
        let probe = ProbeBuilder::new(rig).connect(friend.local_addr().unwrap());
        stranger.send_to(b"hey", probe.address()).unwrap();
        friend.send_to(b"hello", probe.address()).unwrap();
        assert_eq!(probe.texts(1), ["hello"]);
        rig.wait_until_asleep();
        assert_eq!(probe.rest(), []);
    });
}
