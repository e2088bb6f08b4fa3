//! Peers that do not read: what waits stays bounded (C07), also on a server that does not look (K14).

use std::sync::mpsc::{Receiver, channel};

use bytes::Bytes;
use waterwheel::channel::{
    Channel, ChannelOptions, Ctx, Handler, HandlerResult, PauseReads, WaterMarks,
};

use crate::cell::Cell;
use crate::random::SeededRng;
use crate::test_bed::{Echo, TestBed, WAIT_LIMIT, get, until};

const BLOCK: usize = 8 * 1024;

fn deaf() -> ChannelOptions {
    ChannelOptions { auto_read: false, ..ChannelOptions::default() }
}

/// Writes as long as there is room.
struct ReportThrottle;

impl ReportThrottle {
    fn write(ctx: &Ctx<'_>) {
        while ctx.is_writable() {
            ctx.write(Bytes::from_static(&[7; BLOCK]));
            ctx.flush();
        }
    }
}

impl Handler for ReportThrottle {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        Self::write(ctx);
        Ok(())
    }

    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        Self::write(ctx);
        Ok(())
    }
}

pub(crate) fn c07_a_peer_that_never_reads_leaves_memory_at_the_mark(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let (server, mut ear) = test_bed.tapped(deaf());
    let marks = WaterMarks::new(32 * 1024, 64 * 1024).unwrap();
    let options = ChannelOptions { water_marks: marks, ..ChannelOptions::default() };
    let client = cell
        .client(&test_bed.group)
        .options(options)
        .initialiser(|edit| Ok(edit.add_last("flood", ReportThrottle).map(drop)?))
        .connect(server.local_address().unwrap());
    let client = get(client).unwrap();
    let child = ear.channel();
    // The kernel takes some too: until it does not, for a while.
    let mut full = 0;
    until("there is no room anywhere", || {
        get(client.with_pipeline(|_| ())).unwrap();
        assert!(client.pending_bytes() <= marks.high() + BLOCK, "{}", client.pending_bytes());
        full = if client.is_writable() { 0 } else { full + 1 };
        full == 500
    });
    // When somebody reads it goes on.
    let written = client.event_loop().metrics().bytes_written;
    child.set_auto_read(true);
    until("it goes on", || client.event_loop().metrics().bytes_written > written);
    assert!(client.pending_bytes() <= marks.high() + BLOCK, "{}", client.pending_bytes());
    get(client.close()).unwrap();
}

pub(crate) fn c07_beyond_the_cap_writes_fail_and_the_others_arrive(cell: &Cell) {
    const CAP: usize = 128 * 1024;
    let test_bed = TestBed::new(cell, 2);
    let (server, mut ear) = test_bed.tapped(deaf());
    let marks = WaterMarks::new(BLOCK, 2 * BLOCK).unwrap().with_hard_cap(CAP).unwrap();
    let options = ChannelOptions { water_marks: marks, ..ChannelOptions::default() };
    let (client, _) = test_bed.client_with(&server, options);
    let child = ear.channel();
    let (mut accepted, mut written, mut refused) = (Vec::new(), 0, 0);
    until("enough is refused", || {
        let mut write = client.write_and_flush(Bytes::from_static(&[7; BLOCK]));
        // One that is just being taken by the loop may be write_counter by neither side for a moment, and let
        // another one in: that is refused on the loop.
        let pending = client.pending_bytes();
        assert!(pending <= CAP + BLOCK, "{pending}");
        match write.try_take() {
            Some(Err(error)) => {
                assert!(error.to_string().contains("131072"), "{error}");
                refused += 1;
                // So that it is the peer that is in the way, and not what is under way to the loop.
                get(client.with_pipeline(|_| ())).unwrap();
            }
            Some(Ok(())) => written += 1,
            None => accepted.push(write),
        }
        refused == 500
    });
    assert!(client.is_open() && !client.is_writable());
    child.set_auto_read(true);
    for write in accepted {
        // What was under way to the loop may still have been refused there.
        written += usize::from(get(write).is_ok());
    }
    ear.bytes(written * BLOCK);
    until("it is writable again", || client.is_writable());
    get(client.close()).unwrap();
    assert_eq!(ear.rest().len(), 0, "those that failed did not arrive");
}

/// An echo server that never asks whether its connections are writable, and the connections it accepts.
fn echo(test_bed: &TestBed<'_>, options: ChannelOptions) -> (Channel, Receiver<Channel>) {
    struct Accepted(std::sync::mpsc::Sender<Channel>);

    impl Handler for Accepted {
        fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
            let _ = self.0.send(ctx.channel());
            ctx.fire_active();
            Ok(())
        }
    }

    let (tell, told) = channel();
    let server = test_bed.serve(options, move |edit| {
        edit.add_last("accepted", Accepted(tell.clone()))?;
        edit.add_last("echo", Echo).map(drop)
    });
    (server, told)
}

/// More than the buffers of all kernels on the way have room for.
const MUCH: usize = 32 << 20;

pub(crate) fn k14_a_server_that_ignores_writability_holds_no_more_than_its_mark(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let (server, children) = echo(&test_bed, ChannelOptions::default());
    let (client, mut ear) = test_bed.client_with(&server, deaf());
    let child = children.recv_timeout(WAIT_LIMIT).unwrap();
    let data = SeededRng::new().bytes(BLOCK);
    for _ in 0..MUCH / data.len() {
        client.send(data.clone());
    }
    // Beyond the high mark by what one read may bring.
    let most = ChannelOptions::default().water_marks.high() + 64 * 1024;
    let mut full = 0;
    until("the server is held back", || {
        get(child.with_pipeline(|_| ())).unwrap();
        get(client.with_pipeline(|_| ())).unwrap();
        assert!(child.pending_bytes() <= most, "{} bytes are pending", child.pending_bytes());
        full = if child.is_writable() || client.is_writable() { 0 } else { full + 1 };
        full == 500
    });
    // The client was never paused: it can read, and then everything arrives.
    client.set_auto_read(true);
    for _ in 0..MUCH / data.len() {
        assert!(ear.bytes(data.len()) == data, "what came back is not what was sent");
        assert!(child.pending_bytes() <= most, "{} bytes are pending", child.pending_bytes());
    }
    get(client.close()).unwrap();
}

pub(crate) fn k14_a_server_that_is_told_not_to_pause_reads_on(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let never = PauseReads::Never;
    let options = ChannelOptions { pause_reads_while_unwritable: never, ..Default::default() };
    let (server, children) = echo(&test_bed, options);
    let (client, mut ear) = test_bed.client_with(&server, deaf());
    let child = children.recv_timeout(WAIT_LIMIT).unwrap();
    let data = SeededRng::new().bytes(BLOCK);
    for _ in 0..MUCH / data.len() {
        client.send(data.clone());
    }
    until("the client could send all of it", || client.pending_bytes() == 0);
    until("the server holds what nobody reads", || child.pending_bytes() > MUCH / 4);
    client.set_auto_read(true);
    for _ in 0..MUCH / data.len() {
        assert!(ear.bytes(data.len()) == data, "what came back is not what was sent");
    }
    get(client.close()).unwrap();
}
