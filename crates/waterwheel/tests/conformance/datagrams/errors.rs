//! Errors of one datagram that leave the channel and other datagrams unaffected.

use waterwheel::channel::Datagram;

use super::cell::Cell;
use super::test_bed::{ChannelEvent, Echo, TestBed};
use crate::test_bed::get;

/// Longer than any transport's limit.
const TOO_LONG: usize = 16 << 20;

pub(super) fn c13_a_datagram_that_is_too_long_fails_its_own_write(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let receiver = test_bed.bound();
    let sender = test_bed.connected(receiver.address());
    let write = |bytes: Vec<u8>| sender.channel.write(Datagram::new(bytes));
    let writes = [write(b"1".to_vec()), write(vec![0; TOO_LONG]), write(b"3".to_vec())];
    sender.channel.flush();
    let [first, second, third] = writes.map(get);
    assert!(first.is_ok() && third.is_ok());
    let why = second.unwrap_err().to_string();
    assert!(why.contains("too long"), "{why}");
    assert_eq!(receiver.texts(2), ["1", "3"]);
    assert!(sender.channel.is_active());
}

pub(super) fn c13_a_datagram_without_an_address_needs_a_connected_channel(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let (receiver, other) = (test_bed.bound(), test_bed.bound());
    get(receiver.channel.write_and_flush(Datagram::new("no address"))).unwrap_err();
    receiver.send_to(&other, "you");
    assert_eq!(other.text(), "you");
}

pub(super) fn c13_a_closed_peer_is_reported_as_an_error_and_the_channel_stays_open(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let gone = cell.kind().unbound_address();
    let client = test_bed.connected(gone.clone());
    client.send("to a closed peer");
    loop {
        match client.next() {
            ChannelEvent::Failed(why) => break assert!(why.contains("refused"), "{why}"),
            ChannelEvent::RoundOver => {}
            other => panic!("{other:?} instead of an error"),
        }
    }
    let there = test_bed.bootstrap(|edit| edit.add_last("echo", Echo).map(drop));
    let _there = get(there.bind(gone)).expect("the address is free");
    client.send("hello");
    assert_eq!(client.text(), "hello");
}

pub(super) fn c13_binding_an_address_in_use_fails_with_an_error_that_names_it(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let receiver = test_bed.bound();
    let taken = get(test_bed.bootstrap(|_| Ok(())).bind(receiver.address()));
    let why = taken.unwrap_err().to_string();
    assert!(why.contains(&receiver.address().to_string()) && why.contains("in use"), "{why}");
}
