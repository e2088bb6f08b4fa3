//! How what is written gets out (C07), and what becomes of it when the channel is closed meanwhile (C05).

use std::sync::mpsc;

use bytes::Bytes;
use waterwheel::channel::driver::SocketOption;
use waterwheel::channel::{Channel, ChannelOptions, Ctx, Handler, HandlerResult};

use crate::cell::Cell;
use crate::random::SeededRng;
use crate::test_bed::{ChannelEvent, TestBed, WAIT_LIMIT, get, tap};

pub(crate) fn c07_small_writes_flushed_at_once_are_gathered_in_few_system_writes(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let (server, mut ear) = test_bed.tapped(ChannelOptions::default());
    let (client, _) = test_bed.client(&server);
    let data = SeededRng::new().bytes(1_000 * 8);
    let (mut rest, before) = (data.clone(), cell.writes());
    let written = client.with_pipeline(move |pipeline| {
        while !rest.is_empty() {
            pipeline.write(rest.split_to(8));
            pipeline.flush();
        }
    });
    get(written).unwrap();
    assert!(ear.bytes(data.len()) == data, "what was read is not what was sent");
    let writes = cell.writes() - before;
    assert!(writes <= 1_000 / 32, "{writes} system writes for 1000 small ones");
}

/// Two small buffers in the kernel, so that nearly every write is short.
pub(crate) fn c07_short_writes_arrive_whole_and_are_told_in_order(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let (tapped, mut ear) = tap();
    let server = cell
        .server(&test_bed.group)
        .child_socket_option(SocketOption::ReceiveBuffer(4096))
        .child_initialiser(move |edit| Ok(edit.add_last("tap", tapped.clone()).map(drop)?))
        .bind(cell.unused_address());
    let address = get(server).unwrap().local_address().unwrap();
    let client = cell.client(&test_bed.group).socket_option(SocketOption::SendBuffer(4096));
    let client = get(client.connect(address)).unwrap();
    let mut dice = SeededRng::new();
    let data = dice.bytes(1 << 18);
    let (told, order) = mpsc::channel();
    let pieces = dice.cut(data.clone(), 30_000);
    let count = pieces.len();
    for (number, piece) in pieces.into_iter().enumerate() {
        let told = told.clone();
        client.write(piece).on_complete(move |written| {
            let _ = told.send((number, written.is_ok()));
        });
    }
    client.flush();
    assert!(ear.bytes(data.len()) == data, "what was read is not what was sent");
    let order: Vec<_> = (0..count).map(|_| order.recv_timeout(WAIT_LIMIT).unwrap()).collect();
    assert_eq!(order, (0..count).map(|number| (number, true)).collect::<Vec<_>>());
    assert_eq!(client.pending_bytes(), 0);
}

pub(crate) fn c07_a_long_write_to_a_slow_reader_arrives_whole(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let slow = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
    let (server, mut ear) = test_bed.tapped(slow);
    let (client, _) = test_bed.client(&server);
    let child = ear.channel();
    let mut dice = SeededRng::new();
    let data = dice.bytes(1 << 20);
    let pieces = dice.cut(data.clone(), 30_000);
    let written: Vec<_> = pieces.into_iter().map(|piece| client.write(piece)).collect();
    client.flush();
    let mut read = Vec::new();
    while read.len() < data.len() {
        child.read();
        ear.find(|told| match told {
            ChannelEvent::Read(bytes) => {
                read.extend_from_slice(&bytes);
                None
            }
            ChannelEvent::RoundOver => Some(()),
            other => panic!("{other:?}"),
        });
    }
    assert!(read == data, "what was read is not what was sent");
    written.into_iter().for_each(|write| get(write).unwrap());
}

pub(crate) fn c07_a_write_cancelled_before_the_flush_is_skipped(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let (server, mut ear) = test_bed.tapped(ChannelOptions::default());
    let (client, _) = test_bed.client(&server);
    for _ in 0..50 {
        let kept = client.write(Bytes::from_static(b"kept"));
        let cancelled = client.write(Bytes::from_static(b"cancelled"));
        let last = client.write(Bytes::from_static(b"last"));
        assert!(cancelled.cancel(), "nobody has flushed it");
        client.flush();
        get(kept).unwrap();
        get(last).unwrap();
        assert!(cancelled.is_cancelled());
        assert_eq!(ear.bytes(8), "keptlast");
    }
    assert_eq!(client.pending_bytes(), 0);
}

pub(crate) fn c07_a_write_in_a_write_listener_is_next(cell: &Cell) {
    fn write_on(channel: Channel, mut rest: Bytes) {
        if !rest.is_empty() {
            let write = channel.write_and_flush(rest.split_to(1));
            write.on_complete(move |written| {
                if written.is_ok() {
                    write_on(channel, rest);
                }
            });
        }
    }
    let test_bed = TestBed::new(cell, 2);
    let (server, mut ear) = test_bed.tapped(ChannelOptions::default());
    let (client, _) = test_bed.client(&server);
    let data = SeededRng::new().bytes(1_000);
    write_on(client, data.clone());
    assert!(ear.bytes(data.len()) == data, "what was read is not what was sent");
}

/// Closes the channel after each flush.
struct Slam;

impl Handler for Slam {
    fn flush(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.flush();
        ctx.close();
        Ok(())
    }
}

pub(crate) fn c05_a_close_inside_of_a_flush_delivers_what_was_flushed(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let (server, mut ear) = test_bed.tapped(ChannelOptions::default());
    let client = cell
        .client(&test_bed.group)
        .initialiser(|edit| Ok(edit.add_last("slam", Slam).map(drop)?))
        .connect(server.local_address().unwrap());
    let client = get(client).unwrap();
    let first = client.write(Bytes::from_static(b"all of "));
    let last = client.write_and_flush(Bytes::from_static(b"it"));
    get(first).unwrap();
    get(last).unwrap();
    assert_eq!(ear.rest(), "all of it");
    client.closed().wait_timeout(WAIT_LIMIT).unwrap();
    let late = get(client.write_and_flush(Bytes::from_static(b"late"))).unwrap_err();
    assert!(late.to_string().starts_with("the channel is closed"), "{late}");
}

/// The completion of the first of many writes closes the channel, while the rest is on its way or is not.
pub(crate) fn c07_a_close_in_the_middle_of_a_flush_tells_every_write(cell: &Cell) {
    const WRITES: usize = 200;
    let test_bed = TestBed::new(cell, 2);
    let (server, mut ear) = test_bed.tapped(ChannelOptions::default());
    let (client, _) = test_bed.client(&server);
    let mut dice = SeededRng::new();
    let data = dice.bytes(WRITES * 20_000);
    let (told, outcomes) = mpsc::channel();
    let mut rest = data.clone();
    for number in 0..WRITES {
        let piece = rest.split_to(20_000);
        let (told, closes, len) = (told.clone(), client.clone(), piece.len());
        client.write(piece).on_complete(move |written| {
            if number == 0 {
                drop(closes.close());
            }
            let _ = told.send((number, written.map(|()| len)));
        });
    }
    client.flush();
    let mut sent = 0;
    for expected in 0..WRITES {
        let (number, outcome) = outcomes.recv_timeout(WAIT_LIMIT).expect("every write is told");
        assert_eq!(number, expected, "in order");
        match outcome {
            Ok(len) => sent += len,
            Err(error) => {
                assert!(error.to_string().starts_with("the channel is closed"), "{error}")
            }
        }
    }
    let read = ear.rest();
    assert!(read.len() >= sent, "{sent} bytes were sent, {} arrived", read.len());
    assert!(data.starts_with(&read), "what was read is not what was sent");
    assert_eq!(client.pending_bytes(), 0);
}
