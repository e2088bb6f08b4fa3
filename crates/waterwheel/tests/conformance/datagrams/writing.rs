//! What is sent, in which order.

use bytes::Bytes;
use waterwheel::channel::{Datagram, Offloaded, RemoteHandler};
use waterwheel::executor::EventExecutorGroup;

use super::cell::Cell;
use super::test_bed::{Echo, TestBed, address};
use crate::test_bed::get;

/// So many at most wait at a receiver: there are transports that hold no more than ten.
const FEW: usize = 8;

/// Far more than a receiver of any kind that makes senders wait holds.
const MANY: usize = 600;

fn numbered(n: usize) -> Datagram {
    Datagram::new(n.to_string())
}

pub(super) fn c07_datagrams_flushed_at_once_arrive_in_order(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let post = test_bed.bound();
    let sender = test_bed.connected(post.address());
    for wave in 0..20 {
        let numbers = wave * FEW..(wave + 1) * FEW;
        let writes: Vec<_> = numbers.clone().map(|n| sender.channel.write(numbered(n))).collect();
        sender.channel.flush();
        writes.into_iter().for_each(|write| get(write).expect("it is sent"));
        assert_eq!(post.texts(FEW), numbers.map(|n| n.to_string()).collect::<Vec<_>>());
    }
}

pub(super) fn c07_a_write_cancelled_before_the_flush_is_skipped(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let post = test_bed.bound();
    let sender = test_bed.connected(post.address());
    let writes: Vec<_> = (0..3).map(|n| sender.channel.write(numbered(n))).collect();
    assert!(writes[1].cancel());
    sender.channel.flush();
    assert_eq!(post.texts(2), ["0", "2"]);
    test_bed.wait_until_idle();
    assert_eq!(post.rest(), []);
    assert_eq!(sender.channel.pending_bytes(), 0);
}

/// Nothing is lost, and the sender does not spin: it is told when there is room.
pub(super) fn c07_who_finds_no_room_waits_and_goes_on_in_order(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let post = test_bed.silent();
    let sender = test_bed.connected(post.address());
    let writes: Vec<_> = (0..MANY).map(|n| sender.channel.write(numbered(n))).collect();
    sender.channel.flush();
    test_bed.wait_until_idle();
    assert!(!writes[MANY - 1].is_done(), "there is no room for all of them");
    post.channel.set_auto_read(true);
    assert_eq!(post.texts(MANY), (0..MANY).map(|n| n.to_string()).collect::<Vec<_>>());
    writes.into_iter().for_each(|write| get(write).expect("it is sent"));
    assert_eq!(sender.channel.pending_bytes(), 0);
}

pub(super) fn c05_what_was_flushed_before_a_close_is_sent(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let post = test_bed.bound();
    let sender = test_bed.connected(post.address());
    (0..FEW).for_each(|n| drop(sender.channel.write(numbered(n))));
    sender.channel.flush();
    get(sender.channel.close()).expect("it closes");
    assert_eq!(post.texts(FEW), (0..FEW).map(|n| n.to_string()).collect::<Vec<_>>());
}

pub(super) fn c06_what_is_no_datagram_fails_its_write(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let post = test_bed.connected(address(&test_bed.echo()));
    let why = get(post.channel.write_and_flush(Bytes::from_static(b"bytes"))).unwrap_err();
    assert!(why.to_string().contains("Datagram"), "{why}");
    post.send("still here");
    assert_eq!(post.text(), "still here");
}

/// Passes everything on, elsewhere.
struct Passes;

impl RemoteHandler for Passes {}

pub(super) fn c03_an_offloaded_handler_in_the_middle_loses_and_reorders_nothing(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let executors = EventExecutorGroup::builder().threads(1).build().expect("executors");
    let elsewhere = executors.clone();
    let echo = test_bed.bootstrap(move |edit| {
        edit.add_last("passes", Offloaded::new(&elsewhere, || Passes))?;
        edit.add_last("echo", Echo).map(drop)
    });
    let echo = get(echo.bind(cell.kind().free_address())).expect("a place");
    let post = test_bed.connected(address(&echo));
    for wave in 0..20 {
        let numbers = wave * FEW..(wave + 1) * FEW;
        numbers.clone().for_each(|n| post.channel.send(numbered(n)));
        assert_eq!(post.texts(FEW), numbers.map(|n| n.to_string()).collect::<Vec<_>>());
    }
}
