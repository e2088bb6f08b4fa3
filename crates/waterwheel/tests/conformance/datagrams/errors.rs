//! What goes wrong with one datagram, and leaves the rest alone.

use waterwheel::channel::Datagram;

use super::cell::Cell;
use super::test_bed::{ChannelEvent, Echo, TestBed};
use crate::test_bed::get;

/// More than any kind takes: their buffers are smaller.
const TOO_LONG: usize = 16 << 20;

pub(super) fn c13_a_datagram_that_is_too_long_fails_its_own_write(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let post = test_bed.bound();
    let sender = test_bed.connected(post.address());
    let write = |bytes: Vec<u8>| sender.channel.write(Datagram::new(bytes));
    let writes = [write(b"1".to_vec()), write(vec![0; TOO_LONG]), write(b"3".to_vec())];
    sender.channel.flush();
    let [first, second, third] = writes.map(get);
    assert!(first.is_ok() && third.is_ok());
    let why = second.unwrap_err().to_string();
    assert!(why.contains("too long"), "{why}");
    assert_eq!(post.texts(2), ["1", "3"]);
    assert!(sender.channel.is_active());
}

pub(super) fn c13_a_datagram_to_nobody_in_particular_needs_a_connection(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let (post, other) = (test_bed.bound(), test_bed.bound());
    get(post.channel.write_and_flush(Datagram::new("whom to?"))).unwrap_err();
    post.send_to(&other, "you");
    assert_eq!(other.text(), "you");
}

pub(super) fn c13_a_peer_that_is_gone_is_an_error_and_the_channel_goes_on(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let gone = cell.kind().empty_address();
    let post = test_bed.connected(gone.clone());
    post.send("anybody?");
    loop {
        match post.next() {
            ChannelEvent::Failed(why) => break assert!(why.contains("refused"), "{why}"),
            ChannelEvent::RoundOver => {}
            other => panic!("{other:?} instead of an error"),
        }
    }
    let there = test_bed.bootstrap(|edit| edit.add_last("echo", Echo).map(drop));
    let _there = get(there.bind(gone)).expect("a place");
    post.send("hello");
    assert_eq!(post.text(), "hello");
}

pub(super) fn c13_a_place_that_is_taken_is_named(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let post = test_bed.bound();
    let taken = get(test_bed.bootstrap(|_| Ok(())).bind(post.address()));
    let why = taken.unwrap_err().to_string();
    assert!(why.contains(&post.address().to_string()) && why.contains("in use"), "{why}");
}
