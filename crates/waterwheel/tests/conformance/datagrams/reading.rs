//! What is read, how much of it, and when.

use bytes::Bytes;
use waterwheel::channel::{ChannelOptions, Datagram, ReceiveSizes};

use super::cell::Cell;
use super::test_bed::{ChannelEvent, Post, TestBed, address};
use crate::random::SeededRng;
use crate::test_bed::get;

const PEERS: usize = 8;
const ROUNDS: usize = 30;

/// Sizes and contents are random; each peer has one on its way at a time, so that none is lost.
pub(super) fn c13_datagrams_of_many_peers_are_echoed_whole(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let echo = test_bed.echo();
    let peers: Vec<_> = (0..PEERS).map(|_| test_bed.connected(address(&echo))).collect();
    let mut dice = SeededRng::new();
    for _ in 0..ROUNDS {
        let mut bodies = Vec::<Bytes>::new();
        for peer in &peers {
            let len = dice.below(4_000);
            bodies.push(dice.bytes(len));
            peer.channel.send(Datagram::new(bodies[bodies.len() - 1].clone()));
        }
        for (peer, body) in peers.iter().zip(&bodies) {
            let answer = peer.datagram();
            assert!(answer.bytes() == body && !answer.is_truncated());
            assert_eq!(answer.peer(), echo.local_address().as_ref());
        }
    }
}

pub(super) fn c13_an_empty_datagram_is_one_too(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let post = test_bed.connected(address(&test_bed.echo()));
    for text in ["", "full", "", ""] {
        post.send(text);
        assert_eq!(post.text(), text);
    }
}

pub(super) fn c13_what_is_beyond_the_largest_read_is_cut_off_and_says_so(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let receive_sizes = ReceiveSizes::new(64, 64, 100).expect("sizes in order");
    let post = test_bed.bound_with(ChannelOptions { receive_sizes, ..ChannelOptions::default() });
    let sender = test_bed.connected(post.address());
    for len in [99, 100, 101, 3_000] {
        sender.channel.send(Datagram::new(vec![b'x'; len]));
        let datagram = post.datagram();
        assert_eq!(datagram.bytes(), &vec![b'x'; len.min(100)]);
        assert_eq!((datagram.whole_len(), datagram.is_truncated()), (len, len > 100));
    }
}

pub(super) fn c13_a_long_datagram_arrives_whole(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let most = cell.kind().long().max(64 * 1024);
    let receive_sizes = ReceiveSizes::new(64, 2048, most).expect("sizes in order");
    let post = test_bed.bound_with(ChannelOptions { receive_sizes, ..ChannelOptions::default() });
    let sender = test_bed.connected(post.address());
    let body = SeededRng::new().bytes(cell.kind().long());
    get(sender.channel.write_and_flush(Datagram::new(body.clone()))).expect("it is sent");
    let datagram = post.datagram();
    assert!(datagram.bytes() == &body && !datagram.is_truncated());
}

pub(super) fn c13_a_connected_channel_hears_its_peer_alone(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let (friend, std_socket) = (test_bed.bound(), test_bed.bound());
    let post = test_bed.connected(friend.address());
    // Some transports refuse it, others lose it.
    let _ = get(std_socket.channel.write_and_flush(Datagram::to(post.address(), "hey")));
    friend.send_to(&post, "hello");
    assert_eq!(post.text(), "hello");
    test_bed.wait_until_idle();
    assert_eq!(post.rest(), []);
}

pub(super) fn c09_nothing_is_read_while_reads_are_off(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let (post, sender) = (test_bed.silent(), test_bed.bound());
    for text in ["1", "2", "3"] {
        sender.send_to(&post, text);
    }
    test_bed.wait_until_idle();
    assert_eq!(post.rest(), []);
    post.channel.set_auto_read(true);
    assert_eq!(post.texts(3), ["1", "2", "3"]);
}

pub(super) fn l05_reads_that_go_off_in_the_middle_of_a_batch_hold_the_rest_back(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let (post, sender) = (test_bed.silent(), test_bed.bound());
    for text in ["1", "off", "3", "4", "off", "6"] {
        sender.send_to(&post, text);
    }
    for part in [&["1", "off"][..], &["3", "4", "off"], &["6"]] {
        post.channel.set_auto_read(true);
        assert_eq!(post.texts(part.len()), part);
        test_bed.wait_until_idle();
        assert_eq!(post.rest(), []);
    }
}

/// Whoever asks for a round is given so many, and no more before the next is asked for.
fn assert_rounds(test_bed: &TestBed<'_>, post: &Post, rounds: &[usize]) {
    for round in rounds {
        post.channel.read();
        for _ in 0..*round {
            assert!(matches!(post.next(), ChannelEvent::Read(_)));
        }
        assert_eq!(post.next(), ChannelEvent::RoundOver);
        test_bed.wait_until_idle();
        assert_eq!(post.rest(), []);
    }
}

pub(super) fn c09_datagrams_are_read_one_by_one_as_asked(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let options =
        ChannelOptions { auto_read: false, reads_per_round: 1, ..ChannelOptions::default() };
    let (post, sender) = (test_bed.bound_with(options), test_bed.bound());
    for text in ["1", "2", "3"] {
        sender.send_to(&post, text);
    }
    assert_rounds(&test_bed, &post, &[1, 1, 1]);
}

/// Eight: there are transports whose receivers hold no more than a few.
pub(super) fn c09_a_round_has_at_most_so_many_datagrams(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let options =
        ChannelOptions { auto_read: false, reads_per_round: 5, ..ChannelOptions::default() };
    let (post, sender) = (test_bed.bound_with(options), test_bed.bound());
    for _ in 0..8 {
        sender.send_to(&post, "x");
    }
    assert_rounds(&test_bed, &post, &[5, 3]);
}
