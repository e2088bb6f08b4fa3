//! When and how much is read (C09).

use bytes::Bytes;
use waterwheel::channel::{ChannelOptions, Ctx, Handler, HandlerResult, Msg, ReceiveSizes};

use crate::cell::Cell;
use crate::random::SeededRng;
use crate::test_bed::{ChannelEvent, EventTap, TestBed, get, tap};

/// Size of each read, in cases that fix it.
const SIZE: usize = 64;

/// Default maximum number of reads in a round.
const ROUND: usize = 16;

fn without_auto_read() -> ChannelOptions {
    ChannelOptions { auto_read: false, ..ChannelOptions::default() }
}

/// No auto-read, and every read has [`SIZE`] bytes.
fn fixed_reads_on_request() -> ChannelOptions {
    ChannelOptions {
        receive_sizes: ReceiveSizes::new(SIZE, SIZE, SIZE).unwrap(),
        ..without_auto_read()
    }
}

pub(crate) fn c09_nothing_is_read_while_auto_read_is_off(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let (server, mut events) = test_bed.tapped(without_auto_read());
    let (client, _) = test_bed.client(&server);
    let child = events.channel();
    get(client.write_and_flush(Bytes::from_static(b"first"))).unwrap();
    test_bed.wait_until_idle();
    events.assert_nothing_read();
    child.read();
    assert_eq!(events.bytes(5), "first");
    // Bytes that arrive before the round is over would belong to it.
    events.find(|event| matches!(event, ChannelEvent::RoundOver).then_some(()));

    get(client.write_and_flush(Bytes::from_static(b"second"))).unwrap();
    test_bed.wait_until_idle();
    events.assert_nothing_read();
    child.set_auto_read(true);
    assert_eq!(events.bytes(6), "second");
    client.send(Bytes::from_static(b"third"));
    assert_eq!(events.bytes(5), "third");

    let off = child.clone();
    get(child.with_pipeline(move |_| off.set_auto_read(false))).unwrap();
    get(client.write_and_flush(Bytes::from_static(b"fourth"))).unwrap();
    get(client.close()).unwrap();
    test_bed.wait_until_idle();
    events.assert_nothing_read();
    assert!(child.is_active(), "the end of the stream was not read either");
    child.set_auto_read(true);
    assert_eq!(events.rest(), "fourth");
}

/// Asks for one round of reads as soon as it is in a pipeline and again when the channel is registered: both
/// before the channel is active. Logs reads.
struct EarlyReader(EventTap);

impl Handler for EarlyReader {
    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.read();
        Ok(())
    }

    fn on_registered(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        assert!(!ctx.is_active(), "the test must request the read before the channel is active");
        ctx.read();
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.0.on_read(ctx, msg)
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.0.on_read_complete(ctx)
    }
}

pub(crate) fn c09_a_read_requested_before_the_channel_is_active_is_honoured(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let server = test_bed.echo();
    let (tap, mut events) = tap();
    let client = cell.client(&test_bed.group).options(without_auto_read());
    let client = client
        .initialiser(move |edit| Ok(edit.add_last("early", EarlyReader(tap.clone())).map(drop)?));
    let client = get(client.connect(server.local_address().expect("the server is bound"))).unwrap();
    client.send(Bytes::from_static(b"first"));
    assert_eq!(events.bytes(5), "first");
    events.find(|event| matches!(event, ChannelEvent::RoundOver).then_some(()));
    client.send(Bytes::from_static(b"second"));
    test_bed.wait_until_idle();
    events.assert_nothing_read(); // Both requests were for the same round.
}

pub(crate) fn c09_a_read_requested_before_or_while_a_channel_is_deregistered_is_honoured(
    cell: &Cell,
) {
    let test_bed = TestBed::new(cell, 1);
    let (server, mut events) = test_bed.tapped(without_auto_read());
    let (client, _) = test_bed.client(&server);
    let child = events.channel();
    for asked_before in [false, true] {
        if asked_before {
            child.read();
        }
        get(child.deregister()).unwrap();
        if !asked_before {
            child.read();
        }
        get(client.write_and_flush(Bytes::from_static(b"meanwhile"))).unwrap();
        test_bed.wait_until_idle();
        events.assert_nothing_read();
        get(child.register()).unwrap();
        assert_eq!(events.bytes(9), "meanwhile");
        events.find(|event| matches!(event, ChannelEvent::RoundOver).then_some(()));
    }
    client.send(Bytes::from_static(b"later"));
    test_bed.wait_until_idle();
    events.assert_nothing_read();
}

pub(crate) fn c09_switching_auto_read_off_and_on_loses_nothing(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let (server, mut events) = test_bed.tapped(ChannelOptions::default());
    let (client, _) = test_bed.client(&server);
    let child = events.channel();
    let mut rng = SeededRng::new();
    let data = rng.bytes(1 << 19);
    for piece in rng.cut(data.clone(), 4_000) {
        client.send(piece);
        match rng.below(4) {
            0 => child.set_auto_read(false),
            1 => child.read(),
            2 => child.set_auto_read(true),
            _ => {}
        }
    }
    child.set_auto_read(true);
    assert!(events.bytes(data.len()) == data, "the bytes read differ from the bytes sent");
}

pub(crate) fn c09_a_round_has_at_most_sixteen_reads(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let (server, mut events) = test_bed.tapped(fixed_reads_on_request());
    let (client, _) = test_bed.client(&server);
    let child = events.channel();
    let (data, rounds) = (SeededRng::new().bytes(SIZE * ROUND * 5), 5);
    let mut rest = data.clone();
    while !rest.is_empty() {
        drop(client.write(rest.split_to(SIZE)));
    }
    get(client.write_and_flush(Bytes::new())).unwrap();
    test_bed.wait_until_idle();
    child.set_auto_read(true);
    let (mut read, mut in_round) = (Vec::new(), Vec::new());
    let mut reads = 0;
    while in_round.len() < rounds {
        match events.next().1 {
            ChannelEvent::Read(bytes) => {
                read.extend_from_slice(&bytes);
                reads += 1;
            }
            ChannelEvent::RoundOver if reads > 0 => in_round.push(std::mem::take(&mut reads)),
            _ => {}
        }
    }
    // The empty message at the end is a read of its own in transports that keep message boundaries.
    assert_eq!(in_round, [ROUND; 5]);
    assert!(read == data, "the bytes read differ from the bytes sent");
}

/// Two channels of one loop have much to read: neither gets two rounds in a row.
pub(crate) fn c09_two_flooding_peers_take_turns(cell: &Cell) {
    const ROUNDS: usize = 8;
    let test_bed = TestBed::new(cell, 1);
    let (server, mut events) = test_bed.tapped(fixed_reads_on_request());
    let mut children = Vec::new();
    let mut clients = Vec::new();
    for _ in 0..2 {
        let (client, _) = test_bed.client(&server);
        children.push(events.channel());
        for _ in 1..ROUNDS * ROUND {
            drop(client.write(Bytes::from_static(&[7; SIZE])));
        }
        get(client.write_and_flush(Bytes::from_static(&[7; SIZE]))).unwrap();
        clients.push(client);
    }
    test_bed.wait_until_idle();
    let both = children.clone();
    let begun =
        children[0].with_pipeline(move |_| both.iter().for_each(|it| it.set_auto_read(true)));
    get(begun).unwrap();
    let (mut rounds, mut left) = (Vec::new(), 2 * ROUNDS * ROUND);
    while left > 0 || rounds.len() < 2 * ROUNDS {
        match events.next() {
            (_, ChannelEvent::Read(_)) => left -= 1,
            (id, ChannelEvent::RoundOver) => rounds.push(id),
            _ => {}
        }
    }
    let twice = rounds.windows(2).position(|pair| pair[0] == pair[1]);
    assert_eq!(twice, None, "one channel had two rounds in a row: {rounds:?}");
}
