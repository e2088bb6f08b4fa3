//! What is read, how much of it, and when.

use waterwheel_channel::{ChannelOptions, Datagram, ReceiveSizes};

use crate::loop_rig::on_every_loop;
use crate::support::{Maker, Post, Told, peer, received, text};

#[test]
fn c13_whoever_sends_is_told_apart_and_can_be_answered() {
    on_every_loop(|rig| {
        let post = Post::bound(rig);
        let peers = [peer(), peer(), peer()];
        for word in ["hello", "", "world"] {
            for peer in &peers {
                peer.send_to(word.as_bytes(), post.address()).unwrap();
                let datagram = post.datagram();
                assert_eq!(datagram.peer(), Some(&peer.local_addr().unwrap().into()));
                assert_eq!((text(&datagram), datagram.is_truncated()), (word.into(), false));
                post.channel.send(datagram.answer(datagram.bytes().clone()));
                assert_eq!(received(peer), (word.into(), post.address()));
            }
        }
    });
}

#[test]
fn c13_a_datagram_beyond_the_largest_read_is_cut_off_and_says_so() {
    on_every_loop(|rig| {
        let receive_sizes = ReceiveSizes::new(64, 64, 100).unwrap();
        let options = ChannelOptions { receive_sizes, ..ChannelOptions::default() };
        let post = Maker::new(rig).options(options).bind("127.0.0.1:0");
        let peer = peer();
        for len in [99, 100, 101, 1000] {
            peer.send_to(&vec![b'x'; len], post.address()).unwrap();
            let datagram = post.datagram();
            assert_eq!(datagram.bytes(), &vec![b'x'; len.min(100)]);
            assert_eq!((datagram.whole_len(), datagram.is_truncated()), (len, len > 100));
        }
    });
}

#[test]
fn c13_the_largest_datagram_there_is_arrives_whole_unless_told_otherwise() {
    on_every_loop(|rig| {
        let post = Post::bound(rig);
        let there = Maker::new(rig).connect(post.address());
        let body = vec![b'x'; 65_507];
        there.channel.send(Datagram::new(body.clone()));
        let datagram = post.datagram();
        assert!(datagram.bytes() == &body && !datagram.is_truncated());
    });
}

#[test]
fn c09_nothing_is_read_while_reads_are_off_and_nothing_is_lost() {
    on_every_loop(|rig| {
        let post = Post::silent(rig);
        let peer = peer();
        for word in ["1", "2", "3"] {
            peer.send_to(word.as_bytes(), post.address()).unwrap();
        }
        rig.assert_calm();
        assert_eq!(post.rest(), []);
        post.channel.set_auto_read(true);
        assert_eq!(post.texts(3), ["1", "2", "3"]);
    });
}

#[test]
fn l05_reads_that_go_off_in_the_middle_of_a_batch_hold_the_rest_of_it_back() {
    on_every_loop(|rig| {
        let post = Post::silent(rig);
        let peer = peer();
        for word in ["1", "off", "3", "4", "off", "6"] {
            peer.send_to(word.as_bytes(), post.address()).unwrap();
        }
        for part in [&["1", "off"][..], &["3", "4", "off"], &["6"]] {
            post.channel.set_auto_read(true);
            assert_eq!(post.texts(part.len()), part);
            assert_eq!(post.next(), Told::RoundOver);
            rig.assert_calm();
            assert_eq!(post.rest(), []);
        }
    });
}

#[test]
fn c09_datagrams_are_read_one_by_one_as_asked() {
    on_every_loop(|rig| {
        let options =
            ChannelOptions { auto_read: false, reads_per_round: 1, ..ChannelOptions::default() };
        let post = Maker::new(rig).options(options).bind("127.0.0.1:0");
        let peer = peer();
        for word in ["1", "2", "3"] {
            peer.send_to(word.as_bytes(), post.address()).unwrap();
        }
        for word in ["1", "2", "3"] {
            post.channel.read();
            assert_eq!(post.texts(1), [word]);
            assert_eq!(post.next(), Told::RoundOver);
            rig.until_asleep();
            assert_eq!(post.rest(), []);
        }
    });
}

#[test]
fn c09_a_round_has_at_most_sixteen_datagrams() {
    on_every_loop(|rig| {
        let post = Post::silent(rig);
        let peer = peer();
        for n in 0..20 {
            peer.send_to(&[n], post.address()).unwrap();
        }
        for round in [16, 4] {
            post.channel.read();
            for _ in 0..round {
                assert!(matches!(post.next(), Told::Read(_)));
            }
            assert_eq!(post.next(), Told::RoundOver);
            rig.until_asleep();
            assert_eq!(post.rest(), []);
        }
    });
}

#[test]
fn c13_a_connected_channel_hears_its_peer_and_nobody_else() {
    on_every_loop(|rig| {
        let (friend, stranger) = (peer(), peer());
        let post = Maker::new(rig).connect(friend.local_addr().unwrap());
        stranger.send_to(b"hey", post.address()).unwrap();
        friend.send_to(b"hello", post.address()).unwrap();
        assert_eq!(post.texts(1), ["hello"]);
        rig.until_asleep();
        assert_eq!(post.rest(), []);
    });
}
