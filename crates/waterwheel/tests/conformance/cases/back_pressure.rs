//! Peers that do not read: pending bytes stay bounded (C07), also on a server that ignores writability (K14).

use std::sync::mpsc::{Receiver, channel};

use bytes::Bytes;
use waterwheel::channel::{
    Channel, ChannelOptions, Ctx, Handler, HandlerResult, PauseReads, WaterMarks,
};

use crate::cell::Cell;
use crate::random::SeededRng;
use crate::test_bed::{Echo, TestBed, WAIT_LIMIT, get, wait_until};

const BLOCK: usize = 8 * 1024;

fn without_auto_read() -> ChannelOptions {
    ChannelOptions { auto_read: false, ..ChannelOptions::default() }
}

/// Writes whenever the channel is writable.
struct FloodWriter;

impl FloodWriter {
    fn write(ctx: &Ctx<'_>) {
        while ctx.is_writable() {
            ctx.write(Bytes::from_static(&[7; BLOCK]));
            ctx.flush();
        }
    }
}

impl Handler for FloodWriter {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        Self::write(ctx);
        Ok(())
    }

    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        Self::write(ctx);
        Ok(())
    }
}

pub(crate) fn c07_pending_bytes_for_a_peer_that_never_reads_stay_at_the_high_water_mark(
    cell: &Cell,
) {
    let test_bed = TestBed::new(cell, 1);
    let (server, mut events) = test_bed.tapped(without_auto_read());
    let marks = WaterMarks::new(32 * 1024, 64 * 1024).unwrap();
    let options = ChannelOptions { water_marks: marks, ..ChannelOptions::default() };
    let client = cell
        .client(&test_bed.group)
        .options(options)
        .initialiser(|edit| Ok(edit.add_last("flood", FloodWriter).map(drop)?))
        .connect(server.local_address().unwrap());
    let client = get(client).unwrap();
    let child = events.channel();
    // The kernel's buffers fill too: the channel stays unwritable for 500 polls when they are full.
    let mut full = 0;
    wait_until("all buffers are full", || {
        get(client.with_pipeline(|_| ())).unwrap();
        assert!(client.pending_bytes() <= marks.high() + BLOCK, "{}", client.pending_bytes());
        full = if client.is_writable() { 0 } else { full + 1 };
        full == 500
    });
    // Writing continues when the peer reads.
    let written = client.event_loop().metrics().bytes_written;
    child.set_auto_read(true);
    wait_until("writing continues", || client.event_loop().metrics().bytes_written > written);
    assert!(client.pending_bytes() <= marks.high() + BLOCK, "{}", client.pending_bytes());
    get(client.close()).unwrap();
}

pub(crate) fn c07_writes_beyond_the_hard_cap_fail_and_the_others_arrive(cell: &Cell) {
    const CAP: usize = 128 * 1024;
    let test_bed = TestBed::new(cell, 2);
    let (server, mut events) = test_bed.tapped(without_auto_read());
    let marks = WaterMarks::new(BLOCK, 2 * BLOCK).unwrap().with_hard_cap(CAP).unwrap();
    let options = ChannelOptions { water_marks: marks, ..ChannelOptions::default() };
    let (client, _) = test_bed.client_with(&server, options);
    let child = events.channel();
    let (mut accepted, mut written, mut refused) = (Vec::new(), 0, 0);
    wait_until("500 writes are refused", || {
        let mut write = client.write_and_flush(Bytes::from_static(&[7; BLOCK]));
        // A write that the loop is just taking from its queue may be counted by neither side for a moment, which lets
        // another write in: the loop refuses that write.
        let pending = client.pending_bytes();
        assert!(pending <= CAP + BLOCK, "{pending}");
        match write.try_take() {
            Some(Err(error)) => {
                assert!(error.to_string().contains("131072"), "{error}");
                refused += 1;
                // The loop takes the queued writes, so that the next refusal is due to the peer and not to its queue.
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
        // The loop may still have refused a write that was queued for it.
        written += usize::from(get(write).is_ok());
    }
    events.bytes(written * BLOCK);
    wait_until("the client is writable again", || client.is_writable());
    get(client.close()).unwrap();
    assert_eq!(events.rest().len(), 0, "refused writes must not arrive");
}

/// Binds an echo server that ignores writability, and returns it with the channels it accepts.
fn echo(test_bed: &TestBed<'_>, options: ChannelOptions) -> (Channel, Receiver<Channel>) {
    struct Accepted(std::sync::mpsc::Sender<Channel>);

    impl Handler for Accepted {
        fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
            let _ = self.0.send(ctx.channel());
            ctx.fire_active();
            Ok(())
        }
    }

    let (sender, accepted) = channel();
    let server = test_bed.serve(options, move |edit| {
        edit.add_last("accepted", Accepted(sender.clone()))?;
        edit.add_last("echo", Echo).map(drop)
    });
    (server, accepted)
}

/// Total bytes to send: more than all kernel buffers on the way hold.
const TOTAL: usize = 32 << 20;

pub(crate) fn k14_a_server_that_ignores_writability_holds_no_more_than_its_high_water_mark(
    cell: &Cell,
) {
    let test_bed = TestBed::new(cell, 2);
    let (server, children) = echo(&test_bed, ChannelOptions::default());
    let (client, mut events) = test_bed.client_with(&server, without_auto_read());
    let child = children.recv_timeout(WAIT_LIMIT).unwrap();
    let data = SeededRng::new().bytes(BLOCK);
    for _ in 0..TOTAL / data.len() {
        client.send(data.clone());
    }
    // One read may exceed the high-water mark.
    let limit = ChannelOptions::default().water_marks.high() + 64 * 1024;
    let mut full = 0;
    wait_until("the server stops reading", || {
        get(child.with_pipeline(|_| ())).unwrap();
        get(client.with_pipeline(|_| ())).unwrap();
        assert!(child.pending_bytes() <= limit, "{} bytes are pending", child.pending_bytes());
        full = if child.is_writable() || client.is_writable() { 0 } else { full + 1 };
        full == 500
    });
    // The client itself was never paused: it can read, and then everything arrives.
    client.set_auto_read(true);
    for _ in 0..TOTAL / data.len() {
        assert!(events.bytes(data.len()) == data, "the echoed bytes differ from the sent bytes");
        assert!(child.pending_bytes() <= limit, "{} bytes are pending", child.pending_bytes());
    }
    get(client.close()).unwrap();
}

pub(crate) fn k14_a_server_with_pause_reads_never_keeps_reading(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let never = PauseReads::Never;
    let options = ChannelOptions { pause_reads_while_unwritable: never, ..Default::default() };
    let (server, children) = echo(&test_bed, options);
    let (client, mut events) = test_bed.client_with(&server, without_auto_read());
    let child = children.recv_timeout(WAIT_LIMIT).unwrap();
    let data = SeededRng::new().bytes(BLOCK);
    for _ in 0..TOTAL / data.len() {
        client.send(data.clone());
    }
    wait_until("the client has sent everything", || client.pending_bytes() == 0);
    wait_until("the server holds the bytes that the client does not read", || {
        child.pending_bytes() > TOTAL / 4
    });
    client.set_auto_read(true);
    for _ in 0..TOTAL / data.len() {
        assert!(events.bytes(data.len()) == data, "the echoed bytes differ from the sent bytes");
    }
    get(client.close()).unwrap();
}
