//! A socket that takes no more for now. On the loopback UDP takes, and loses, whatever it is given: here the
//! other end of a pair holds a few datagrams, and no more until it has read some.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use waterwheel_channel::{
    Address, ChannelFuture, ChannelOptions, Datagram, DrainOptions, Drained, UnixAddress,
    WaterMarks,
};

use crate::loop_rig::{LONG, Rig, get, on_every_loop};
use crate::support::{Given, Maker, Post, Told, group, refusal};

/// More than the other end holds.
const MANY: usize = 600;

fn pair(rig: &Rig) -> (Post, UnixDatagram) {
    let (given, peer) = Given::pair();
    let water_marks = WaterMarks::new(100, 1000).unwrap();
    let options = ChannelOptions { water_marks, ..ChannelOptions::default() };
    (Maker::of(rig, given).options(options).connect(UnixAddress::Unnamed), peer)
}

fn flood(post: &Post) -> Vec<ChannelFuture> {
    let writes = (0..MANY).map(|n| post.channel.write(Datagram::new(format!("{n:010}")))).collect();
    post.channel.flush();
    writes
}

#[track_caller]
fn assert_read(peer: &UnixDatagram, numbers: std::ops::Range<usize>) {
    for n in numbers {
        let mut room = [0; 100];
        let len = peer.recv(&mut room).expect("a datagram");
        assert_eq!(room[..len], *format!("{n:010}").as_bytes());
    }
}

#[test]
fn c07_what_finds_no_room_waits_at_the_marks_and_goes_on_in_order() {
    on_every_loop(|rig| {
        let (post, peer) = pair(rig);
        let writes = flood(&post);
        assert_eq!(post.next(), Told::Writable(false));
        rig.assert_calm();
        assert!(!post.channel.is_writable());
        assert!(post.channel.pending_bytes() > 1000);
        assert_read(&peer, 0..MANY);
        writes.into_iter().for_each(get);
        assert_eq!(post.next(), Told::Writable(true));
        assert_eq!(post.channel.pending_bytes(), 0);
        rig.assert_calm();
    });
}

#[test]
fn c02_a_close_fails_what_found_no_room() {
    on_every_loop(|rig| {
        let (post, peer) = pair(rig);
        let mut writes = flood(&post);
        rig.until_asleep();
        get(post.channel.close());
        peer.set_nonblocking(true).unwrap();
        let sent = std::iter::from_fn(|| peer.recv(&mut [0; 100]).ok()).count();
        assert!(sent > 0 && sent < MANY, "{sent} were sent");
        for left in writes.drain(sent..) {
            assert!(refusal(left).contains("closed"));
        }
        writes.into_iter().for_each(get);
    });
}

#[test]
fn l11_a_drain_waits_until_what_was_flushed_is_sent() {
    on_every_loop(|rig| {
        let (post, peer) = pair(rig);
        let writes = flood(&post);
        rig.until_asleep();
        let options = DrainOptions::within(LONG).shutdown(Duration::ZERO, LONG).unwrap();
        let drained = group(rig).drain(options);
        rig.until_asleep();
        assert!(!drained.is_done());
        assert_read(&peer, 0..MANY);
        drained.wait_timeout(LONG).unwrap();
        assert_eq!(drained.join().unwrap(), Drained::Complete);
        writes.into_iter().for_each(get);
    });
}

#[test]
fn c04_a_channel_that_leaves_while_there_is_no_room_goes_on_when_it_is_back() {
    on_every_loop(|rig| {
        let (post, peer) = pair(rig);
        let writes = flood(&post);
        rig.until_asleep();
        get(post.channel.deregister());
        rig.assert_calm();
        get(post.channel.register());
        assert_read(&peer, 0..MANY);
        writes.into_iter().for_each(get);
    });
}

/// A Unix socket that is not connected: the kernel does not tell it when a receiver has room again.
#[test]
fn l17_a_full_receiver_of_an_unconnected_channel_fails_writes_and_does_not_spin() {
    on_every_loop(|rig| {
        let (given, peer) = Given::unconnected();
        let there = Address::from(UnixAddress::abstract_name(peer.1));
        let post = Maker::of(rig, given).bind(UnixAddress::Unnamed);
        let write = |n: usize| post.channel.write(Datagram::to(there.clone(), format!("{n:010}")));
        let writes: Vec<_> = (0..MANY).map(write).collect();
        post.channel.flush();
        let mut sent = 0;
        for (n, write) in writes.into_iter().enumerate() {
            write.wait_timeout(LONG).unwrap();
            match write.join() {
                Ok(()) => sent += 1,
                Err(error) => {
                    assert!(error.to_string().contains("is full (EAGAIN)"), "{n}: {error}")
                }
            }
        }
        assert!(sent > 0 && sent < MANY, "{sent} were sent");
        rig.assert_calm();
        assert_read(&peer.0, 0..sent);
        get(post.channel.write_and_flush(Datagram::to(there.clone(), format!("{sent:010}"))));
        assert_read(&peer.0, sent..sent + 1);
    });
}
