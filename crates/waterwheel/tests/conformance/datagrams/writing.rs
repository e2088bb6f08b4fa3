//! Which datagrams are sent, and in which order (C05, C06, C07).

use bytes::Bytes;
use waterwheel::channel::{Datagram, Offloaded, RemoteHandler};
use waterwheel::executor::EventExecutorGroup;

use super::cell::Cell;
use super::test_bed::{Echo, TestBed, address};
use crate::test_bed::get;

/// Number of datagrams sent before the receiver reads: receivers of some transports hold no more than ten.
const WAVE: usize = 8;

/// Far more datagrams than a receiver holds, in every transport whose senders wait.
const MANY: usize = 600;

fn numbered(n: usize) -> Datagram {
    Datagram::new(n.to_string())
}

pub(super) fn c07_datagrams_flushed_at_once_arrive_in_order(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let receiver = test_bed.bound();
    let sender = test_bed.connected(receiver.address());
    for wave in 0..20 {
        let numbers = wave * WAVE..(wave + 1) * WAVE;
        let writes: Vec<_> = numbers.clone().map(|n| sender.channel.write(numbered(n))).collect();
        sender.channel.flush();
        writes.into_iter().for_each(|write| get(write).expect("the datagram is sent"));
        assert_eq!(receiver.texts(WAVE), numbers.map(|n| n.to_string()).collect::<Vec<_>>());
    }
}

pub(super) fn c07_a_write_cancelled_before_the_flush_is_skipped(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let receiver = test_bed.bound();
    let sender = test_bed.connected(receiver.address());
    let writes: Vec<_> = (0..3).map(|n| sender.channel.write(numbered(n))).collect();
    assert!(writes[1].cancel());
    sender.channel.flush();
    assert_eq!(receiver.texts(2), ["0", "2"]);
    test_bed.wait_until_idle();
    assert_eq!(receiver.rest(), []);
    assert_eq!(sender.channel.pending_bytes(), 0);
}

/// Nothing is lost, and the sender does not spin: the driver reports when there is room.
pub(super) fn c07_a_sender_waits_for_a_full_receiver_and_continues_in_order(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let receiver = test_bed.bound_without_auto_read();
    let sender = test_bed.connected(receiver.address());
    let writes: Vec<_> = (0..MANY).map(|n| sender.channel.write(numbered(n))).collect();
    sender.channel.flush();
    test_bed.wait_until_idle();
    assert!(!writes[MANY - 1].is_done(), "the receiver has no room for all of them");
    receiver.channel.set_auto_read(true);
    assert_eq!(receiver.texts(MANY), (0..MANY).map(|n| n.to_string()).collect::<Vec<_>>());
    writes.into_iter().for_each(|write| get(write).expect("the datagram is sent"));
    assert_eq!(sender.channel.pending_bytes(), 0);
}

pub(super) fn c05_datagrams_flushed_before_a_close_are_sent(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let receiver = test_bed.bound();
    let sender = test_bed.connected(receiver.address());
    (0..WAVE).for_each(|n| drop(sender.channel.write(numbered(n))));
    sender.channel.flush();
    get(sender.channel.close()).expect("the channel closes");
    assert_eq!(receiver.texts(WAVE), (0..WAVE).map(|n| n.to_string()).collect::<Vec<_>>());
}

pub(super) fn c06_writing_a_message_that_is_not_a_datagram_fails(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let client = test_bed.connected(address(&test_bed.echo()));
    let why = get(client.channel.write_and_flush(Bytes::from_static(b"bytes"))).unwrap_err();
    assert!(why.to_string().contains("Datagram"), "{why}");
    client.send("still here");
    assert_eq!(client.text(), "still here");
}

/// Forwards every event, on another executor.
struct PassThrough;

impl RemoteHandler for PassThrough {}

pub(super) fn c03_an_offloaded_handler_in_the_middle_loses_and_reorders_nothing(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let executors =
        EventExecutorGroup::builder().threads(1).build().expect("the executors are built");
    let elsewhere = executors.clone();
    let echo = test_bed.bootstrap(move |edit| {
        edit.add_last("pass-through", Offloaded::new(&elsewhere, || PassThrough))?;
        edit.add_last("echo", Echo).map(drop)
    });
    let echo = get(echo.bind(cell.kind().unused_address())).expect("the address is free");
    let client = test_bed.connected(address(&echo));
    for wave in 0..20 {
        let numbers = wave * WAVE..(wave + 1) * WAVE;
        numbers.clone().for_each(|n| client.channel.send(numbered(n)));
        assert_eq!(client.texts(WAVE), numbers.map(|n| n.to_string()).collect::<Vec<_>>());
    }
}
