//! What is sent, in which order, and in how many calls.

use waterwheel_channel::Datagram;
use waterwheel_testkit::faulty::DriverCall;

use crate::loop_rig::{counted, get, on_every_loop};
use crate::support::{Maker, Post, peer, received};

#[test]
fn c13_sixty_four_datagrams_flushed_at_once_go_out_sixteen_at_a_time_and_in_order() {
    counted(|rig, faults| {
        let (peer, post) = (peer(), Post::bound(rig));
        let before = faults.calls(DriverCall::Write);
        for n in 0..64 {
            drop(post.channel.write(Datagram::to(peer.local_addr().unwrap(), n.to_string())));
        }
        post.channel.flush();
        for n in 0..64 {
            assert_eq!(received(&peer).0, n.to_string());
        }
        rig.until_asleep();
        assert_eq!(faults.calls(DriverCall::Write) - before, 4);
    });
}

#[test]
fn c13_without_an_address_it_goes_to_whom_the_channel_is_connected() {
    on_every_loop(|rig| {
        let peer = peer();
        let post = Maker::new(rig).connect(peer.local_addr().unwrap());
        assert_eq!(post.channel.peer_address(), Some(peer.local_addr().unwrap().into()));
        get(post.channel.write_and_flush(Datagram::new("hello")));
        assert_eq!(received(&peer), ("hello".into(), post.address()));
    });
}

#[test]
fn c13_with_an_address_it_goes_there_from_a_connected_channel_too() {
    on_every_loop(|rig| {
        let (friend, stranger) = (peer(), peer());
        let post = Maker::new(rig).connect(friend.local_addr().unwrap());
        let to = |peer: &std::net::UdpSocket| peer.local_addr().unwrap();
        get(post.channel.write_and_flush(Datagram::to(to(&stranger), "hey")));
        get(post.channel.write_and_flush(Datagram::to(to(&friend), "hello")));
        assert_eq!(received(&stranger), ("hey".into(), post.address()));
        assert_eq!(received(&friend), ("hello".into(), post.address()));
    });
}

#[test]
fn c07_a_write_cancelled_before_the_flush_is_left_out() {
    on_every_loop(|rig| {
        let (peer, post) = (peer(), Post::bound(rig));
        let write =
            |text: &'static str| post.channel.write(Datagram::to(peer.local_addr().unwrap(), text));
        let (first, second, third) = (write("1"), write("2"), write("3"));
        assert!(second.cancel());
        post.channel.flush();
        get(first);
        get(third);
        assert_eq!([received(&peer).0, received(&peer).0], ["1", "3"]);
        assert_eq!(post.channel.pending_bytes(), 0);
    });
}

#[test]
fn c05_what_was_flushed_before_a_close_is_sent() {
    on_every_loop(|rig| {
        let (peer, post) = (peer(), Post::bound(rig));
        let mut writes = Vec::new();
        for n in 0..20 {
            writes
                .push(post.channel.write(Datagram::to(peer.local_addr().unwrap(), n.to_string())));
        }
        post.channel.flush();
        get(post.channel.close());
        writes.into_iter().for_each(get);
        for n in 0..20 {
            assert_eq!(received(&peer).0, n.to_string());
        }
    });
}
