//! Gathered, short and cancelled writes (C07), and writes of a channel that is closed meanwhile (C05).

use std::sync::mpsc;

use bytes::Bytes;
use waterwheel::channel::driver::SocketOption;
use waterwheel::channel::{Channel, ChannelOptions, Ctx, Handler, HandlerResult};

use crate::cell::Cell;
use crate::random::SeededRng;
use crate::test_bed::{ChannelEvent, TestBed, WAIT_LIMIT, get, tap};

pub(crate) fn c07_small_writes_flushed_at_once_are_gathered_in_few_system_writes(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let (server, mut events) = test_bed.tapped(ChannelOptions::default());
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
    assert!(events.bytes(data.len()) == data, "the bytes read differ from the bytes sent");
    let writes = cell.writes() - before;
    assert!(writes <= 1_000 / 32, "{writes} system writes for 1000 small ones");
}

/// Small kernel buffers make nearly every write short.
pub(crate) fn c07_short_writes_arrive_whole_and_complete_in_order(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let (tapped, mut events) = tap();
    let server = cell
        .server(&test_bed.group)
        .child_socket_option(SocketOption::ReceiveBuffer(4096))
        .child_initialiser(move |edit| Ok(edit.add_last("tap", tapped.clone()).map(drop)?))
        .bind(cell.unused_address());
    let address = get(server).unwrap().local_address().unwrap();
    let client = cell.client(&test_bed.group).socket_option(SocketOption::SendBuffer(4096));
    let client = get(client.connect(address)).unwrap();
    let mut rng = SeededRng::new();
    let data = rng.bytes(1 << 18);
    let (sender, order) = mpsc::channel();
    let pieces = rng.cut(data.clone(), 30_000);
    let count = pieces.len();
    for (number, piece) in pieces.into_iter().enumerate() {
        let sender = sender.clone();
        client.write(piece).on_complete(move |written| {
            let _ = sender.send((number, written.is_ok()));
        });
    }
    client.flush();
    assert!(events.bytes(data.len()) == data, "the bytes read differ from the bytes sent");
    let order: Vec<_> = (0..count).map(|_| order.recv_timeout(WAIT_LIMIT).unwrap()).collect();
    assert_eq!(order, (0..count).map(|number| (number, true)).collect::<Vec<_>>());
    assert_eq!(client.pending_bytes(), 0);
}

pub(crate) fn c07_a_long_write_to_a_slow_reader_arrives_whole(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let slow = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
    let (server, mut events) = test_bed.tapped(slow);
    let (client, _) = test_bed.client(&server);
    let child = events.channel();
    let mut rng = SeededRng::new();
    let data = rng.bytes(1 << 20);
    let pieces = rng.cut(data.clone(), 30_000);
    let written: Vec<_> = pieces.into_iter().map(|piece| client.write(piece)).collect();
    client.flush();
    let mut read = Vec::new();
    while read.len() < data.len() {
        child.read();
        events.find(|event| match event {
            ChannelEvent::Read(bytes) => {
                read.extend_from_slice(&bytes);
                None
            }
            ChannelEvent::RoundOver => Some(()),
            other => panic!("{other:?}"),
        });
    }
    assert!(read == data, "the bytes read differ from the bytes sent");
    written.into_iter().for_each(|write| get(write).unwrap());
}

pub(crate) fn c07_a_write_cancelled_before_the_flush_is_skipped(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let (server, mut events) = test_bed.tapped(ChannelOptions::default());
    let (client, _) = test_bed.client(&server);
    for _ in 0..50 {
        let kept = client.write(Bytes::from_static(b"kept"));
        let cancelled = client.write(Bytes::from_static(b"cancelled"));
        let last = client.write(Bytes::from_static(b"last"));
        assert!(cancelled.cancel(), "an unflushed write can be cancelled");
        client.flush();
        get(kept).unwrap();
        get(last).unwrap();
        assert!(cancelled.is_cancelled());
        assert_eq!(events.bytes(8), "keptlast");
    }
    assert_eq!(client.pending_bytes(), 0);
}

pub(crate) fn c07_a_write_made_in_a_write_listener_is_sent_next(cell: &Cell) {
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
    let (server, mut events) = test_bed.tapped(ChannelOptions::default());
    let (client, _) = test_bed.client(&server);
    let data = SeededRng::new().bytes(1_000);
    write_on(client, data.clone());
    assert!(events.bytes(data.len()) == data, "the bytes read differ from the bytes sent");
}

/// Closes the channel after each flush.
struct CloseAfterFlush;

impl Handler for CloseAfterFlush {
    fn flush(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.flush();
        ctx.close();
        Ok(())
    }
}

pub(crate) fn c05_a_close_inside_a_flush_delivers_the_flushed_bytes(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let (server, mut events) = test_bed.tapped(ChannelOptions::default());
    let client = cell
        .client(&test_bed.group)
        .initialiser(|edit| Ok(edit.add_last("close after flush", CloseAfterFlush).map(drop)?))
        .connect(server.local_address().unwrap());
    let client = get(client).unwrap();
    let first = client.write(Bytes::from_static(b"all of "));
    let last = client.write_and_flush(Bytes::from_static(b"it"));
    get(first).unwrap();
    get(last).unwrap();
    assert_eq!(events.rest(), "all of it");
    client.closed().wait_timeout(WAIT_LIMIT).unwrap();
    let late = get(client.write_and_flush(Bytes::from_static(b"late"))).unwrap_err();
    assert!(late.to_string().starts_with("the channel is closed"), "{late}");
}

/// The completion of the first of many writes closes the channel while the others are still pending or under way.
pub(crate) fn c07_a_close_during_a_flush_completes_every_write(cell: &Cell) {
    const WRITES: usize = 200;
    let test_bed = TestBed::new(cell, 2);
    let (server, mut events) = test_bed.tapped(ChannelOptions::default());
    let (client, _) = test_bed.client(&server);
    let mut rng = SeededRng::new();
    let data = rng.bytes(WRITES * 20_000);
    let (sender, outcomes) = mpsc::channel();
    let mut rest = data.clone();
    for number in 0..WRITES {
        let piece = rest.split_to(20_000);
        let (sender, closing, len) = (sender.clone(), client.clone(), piece.len());
        client.write(piece).on_complete(move |written| {
            if number == 0 {
                drop(closing.close());
            }
            let _ = sender.send((number, written.map(|()| len)));
        });
    }
    client.flush();
    let mut sent = 0;
    for expected in 0..WRITES {
        let (number, outcome) = outcomes.recv_timeout(WAIT_LIMIT).expect("every write completes");
        assert_eq!(number, expected, "writes complete in order");
        match outcome {
            Ok(len) => sent += len,
            Err(error) => {
                assert!(error.to_string().starts_with("the channel is closed"), "{error}")
            }
        }
    }
    let read = events.rest();
    assert!(read.len() >= sent, "{sent} bytes were sent, {} arrived", read.len());
    assert!(data.starts_with(&read), "the bytes read differ from the bytes sent");
    assert_eq!(client.pending_bytes(), 0);
}
