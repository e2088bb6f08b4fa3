//! Which datagrams are read, and when (C09, C13).

use bytes::Bytes;
use waterwheel::channel::{ChannelOptions, Datagram, ReceiveSizes};

use super::cell::Cell;
use super::test_bed::{ChannelEvent, TestBed, TestChannel, address};
use crate::random::SeededRng;
use crate::test_bed::get;

const PEERS: usize = 8;
const ROUNDS: usize = 30;

/// Sizes and contents are random; each peer has one datagram under way at a time, so that none is lost.
pub(super) fn c13_datagrams_of_many_peers_are_echoed_whole(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let echo = test_bed.echo();
    let peers: Vec<_> = (0..PEERS).map(|_| test_bed.connected(address(&echo))).collect();
    let mut rng = SeededRng::new();
    for _ in 0..ROUNDS {
        let mut bodies = Vec::<Bytes>::new();
        for peer in &peers {
            let len = rng.below(4_000);
            bodies.push(rng.bytes(len));
            peer.channel.send(Datagram::new(bodies[bodies.len() - 1].clone()));
        }
        for (peer, body) in peers.iter().zip(&bodies) {
            let answer = peer.datagram();
            assert!(answer.bytes() == body && !answer.is_truncated());
            assert_eq!(answer.peer(), echo.local_address().as_ref());
        }
    }
}

pub(super) fn c13_an_empty_datagram_is_delivered(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let client = test_bed.connected(address(&test_bed.echo()));
    for text in ["", "full", "", ""] {
        client.send(text);
        assert_eq!(client.text(), text);
    }
}

pub(super) fn c13_a_datagram_longer_than_the_largest_read_is_marked_truncated(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let receive_sizes = ReceiveSizes::new(64, 64, 100).expect("sizes in order");
    let receiver =
        test_bed.bound_with(ChannelOptions { receive_sizes, ..ChannelOptions::default() });
    let sender = test_bed.connected(receiver.address());
    for len in [99, 100, 101, 3_000] {
        sender.channel.send(Datagram::new(vec![b'x'; len]));
        let datagram = receiver.datagram();
        assert_eq!(datagram.bytes(), &vec![b'x'; len.min(100)]);
        assert_eq!((datagram.whole_len(), datagram.is_truncated()), (len, len > 100));
    }
}

pub(super) fn c13_a_long_datagram_arrives_whole(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let max = cell.kind().long_len().max(64 * 1024);
    let receive_sizes = ReceiveSizes::new(64, 2048, max).expect("sizes in order");
    let receiver =
        test_bed.bound_with(ChannelOptions { receive_sizes, ..ChannelOptions::default() });
    let sender = test_bed.connected(receiver.address());
    let body = SeededRng::new().bytes(cell.kind().long_len());
    get(sender.channel.write_and_flush(Datagram::new(body.clone()))).expect("the datagram is sent");
    let datagram = receiver.datagram();
    assert!(datagram.bytes() == &body && !datagram.is_truncated());
}

pub(super) fn c13_a_connected_channel_receives_from_its_peer_only(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let (friend, stranger) = (test_bed.bound(), test_bed.bound());
    let client = test_bed.connected(friend.address());
    // Some transports refuse the datagram, others drop it.
    let _ = get(stranger.channel.write_and_flush(Datagram::to(client.address(), "hey")));
    friend.send_to(&client, "hello");
    assert_eq!(client.text(), "hello");
    test_bed.wait_until_idle();
    assert_eq!(client.rest(), []);
}

pub(super) fn c09_no_datagram_is_read_while_auto_read_is_off(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let (receiver, sender) = (test_bed.bound_without_auto_read(), test_bed.bound());
    for text in ["1", "2", "3"] {
        sender.send_to(&receiver, text);
    }
    test_bed.wait_until_idle();
    assert_eq!(receiver.rest(), []);
    receiver.channel.set_auto_read(true);
    assert_eq!(receiver.texts(3), ["1", "2", "3"]);
}

pub(super) fn l05_auto_read_switched_off_within_a_batch_holds_back_the_rest(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let (receiver, sender) = (test_bed.bound_without_auto_read(), test_bed.bound());
    for text in ["1", "off", "3", "4", "off", "6"] {
        sender.send_to(&receiver, text);
    }
    for part in [&["1", "off"][..], &["3", "4", "off"], &["6"]] {
        receiver.channel.set_auto_read(true);
        assert_eq!(receiver.texts(part.len()), part);
        test_bed.wait_until_idle();
        assert_eq!(receiver.rest(), []);
    }
}

/// Requests rounds one by one, and asserts how many datagrams each delivers.
fn assert_rounds(test_bed: &TestBed<'_>, receiver: &TestChannel, rounds: &[usize]) {
    for round in rounds {
        receiver.channel.read();
        for _ in 0..*round {
            assert!(matches!(receiver.next(), ChannelEvent::Read(_)));
        }
        assert_eq!(receiver.next(), ChannelEvent::RoundOver);
        test_bed.wait_until_idle();
        assert_eq!(receiver.rest(), []);
    }
}

pub(super) fn c09_a_round_of_one_read_delivers_one_datagram(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let options =
        ChannelOptions { auto_read: false, reads_per_round: 1, ..ChannelOptions::default() };
    let (receiver, sender) = (test_bed.bound_with(options), test_bed.bound());
    for text in ["1", "2", "3"] {
        sender.send_to(&receiver, text);
    }
    assert_rounds(&test_bed, &receiver, &[1, 1, 1]);
}

/// Sends eight datagrams only: receivers of some transports hold no more than ten.
pub(super) fn c09_a_round_has_at_most_reads_per_round_datagrams(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let options =
        ChannelOptions { auto_read: false, reads_per_round: 5, ..ChannelOptions::default() };
    let (receiver, sender) = (test_bed.bound_with(options), test_bed.bound());
    for _ in 0..8 {
        sender.send_to(&receiver, "x");
    }
    assert_rounds(&test_bed, &receiver, &[5, 3]);
}
