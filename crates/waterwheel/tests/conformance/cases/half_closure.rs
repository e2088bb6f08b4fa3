//! Half-close: shutting down one direction of a connection (C10).

use bytes::Bytes;
use waterwheel::channel::{ChannelOptions, Ctx, HalfClosed, Handler, HandlerResult, Msg};

use crate::cell::Cell;
use crate::random::SeededRng;
use crate::test_bed::{ChannelEvent, TestBed, WAIT_LIMIT, get};

fn half_open() -> ChannelOptions {
    ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() }
}

/// Answers when its peer has shut down its output, then shuts down its own.
struct Answer {
    question: Vec<u8>,
    answer: Vec<Bytes>,
}

impl Handler for Answer {
    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.question.extend_from_slice(&msg.into_bytes().expect("the message is bytes"));
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.get::<HalfClosed>() == Some(&HalfClosed::Input) {
            assert_eq!(self.question, b"what?");
            self.answer.drain(..).for_each(|piece| ctx.write(piece));
            ctx.flush();
            ctx.shutdown_output();
        }
        Ok(())
    }
}

/// Binds a server with the [`Answer`] handler.
fn answering_server(test_bed: &TestBed<'_>, answer: &Bytes) -> waterwheel::channel::Channel {
    let answer = SeededRng::new().cut(answer.clone(), 30_000);
    test_bed.serve(half_open(), move |edit| {
        let handler = Answer { question: Vec::new(), answer: answer.clone() };
        edit.add_last("answer", handler).map(drop)
    })
}

pub(crate) fn c10_a_peer_that_has_shut_down_its_output_reads_the_whole_answer(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let answer = SeededRng::new().bytes(1 << 20);
    let server = answering_server(&test_bed, &answer);
    for _ in 0..10 {
        let (client, mut events) = test_bed.client(&server);
        client.send(Bytes::from_static(b"what?"));
        get(client.shutdown_output()).unwrap();
        assert!(events.rest() == answer, "the bytes read differ from the bytes sent");
        client.closed().wait_timeout(WAIT_LIMIT).unwrap();
    }
}

pub(crate) fn c10_a_foreign_peer_that_has_shut_down_its_output_reads_the_whole_answer(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let answer = SeededRng::new().bytes(1 << 20);
    let server = answering_server(&test_bed, &answer);
    let mut peer = cell.connect_foreign(&server);
    peer.send(b"what?");
    peer.finish();
    assert!(peer.receive_all().unwrap() == answer, "the bytes read differ from the bytes sent");
}

pub(crate) fn c10_end_of_stream_closes_a_channel_without_allow_half_closure(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let (server, mut events) = test_bed.tapped(ChannelOptions::default());
    let (client, mut client_events) = test_bed.client_with(&server, half_open());
    client.send(Bytes::from_static(b"last words"));
    get(client.shutdown_output()).unwrap();
    assert_eq!(events.rest(), "last words");
    assert_eq!(client_events.ending(), ["Output", "Input"]);
}

pub(crate) fn c10_flushed_bytes_are_sent_before_the_end_of_stream(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let (server, mut events) = test_bed.tapped(ChannelOptions { auto_read: false, ..half_open() });
    let (client, _) = test_bed.client_with(&server, half_open());
    let child = events.channel();
    let mut rng = SeededRng::new();
    let data = rng.bytes(1 << 22);
    let pieces = rng.cut(data.clone(), 60_000);
    let written: Vec<_> = pieces.into_iter().map(|piece| client.write(piece)).collect();
    client.flush();
    let unflushed = client.write(Bytes::from_static(b"never flushed"));
    let finished = client.shutdown_output();
    let late = client.write_and_flush(Bytes::from_static(b"too late"));
    for refused in [unflushed, late] {
        let error = get(refused).unwrap_err();
        assert_eq!(error.to_string(), "the output of the channel was shut down");
    }
    child.set_auto_read(true);
    assert!(events.bytes(data.len()) == data, "the bytes read differ from the bytes sent");
    events.find(|event| match event {
        ChannelEvent::Half(HalfClosed::Input) => Some(()),
        ChannelEvent::Half(other) => panic!("{other:?}"),
        ChannelEvent::Read(bytes) => panic!("{} bytes too many", bytes.len()),
        _ => None,
    });
    get(finished).unwrap();
    written.into_iter().for_each(|write| get(write).unwrap());
    assert!(client.is_active() && child.is_active());
    child.send(Bytes::from_static(b"still here"));
    get(child.close()).unwrap();
}

pub(crate) fn c10_when_both_peers_shut_down_their_output_both_channels_close(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let (server, mut events) = test_bed.tapped(half_open());
    for _ in 0..50 {
        let (client, mut client_events) = test_bed.client_with(&server, half_open());
        let child = events.channel();
        let (one, other) = (client.shutdown_output(), child.shutdown_output());
        // A shutdown may fail: the channel is already closed if its peer's end of stream came first.
        drop((one.wait_timeout(WAIT_LIMIT), other.wait_timeout(WAIT_LIMIT)));
        for ending in [client_events.ending(), events.ending()] {
            let mut halves = ending;
            halves.sort();
            assert_eq!(halves, ["Input", "Output"], "each half-close is reported once");
        }
        client.closed().wait_timeout(WAIT_LIMIT).unwrap();
        child.closed().wait_timeout(WAIT_LIMIT).unwrap();
    }
}

pub(crate) fn c10_a_channel_reads_nothing_after_its_input_is_shut_down(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let (server, mut events) = test_bed.tapped(ChannelOptions { auto_read: false, ..half_open() });
    let (client, mut client_events) = test_bed.client_with(&server, half_open());
    let child = events.channel();
    get(client.write_and_flush(Bytes::from_static(b"unheard"))).unwrap();
    test_bed.wait_until_idle();
    get(child.shutdown_input()).unwrap();
    assert!(matches!(events.next().1, ChannelEvent::Half(HalfClosed::Input)));
    child.read();
    test_bed.wait_until_idle();
    events.assert_nothing_read();
    child.send(Bytes::from_static(b"said"));
    assert_eq!(client_events.bytes(4), "said");
    get(child.shutdown_output()).unwrap();
    assert_eq!(events.ending(), ["Output"]);
}

pub(crate) fn c10_a_peer_may_send_to_a_channel_whose_input_is_shut_down(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let (server, mut events) = test_bed.tapped(half_open());
    let (client, mut client_events) = test_bed.client_with(&server, half_open());
    let child = events.channel();
    get(child.shutdown_input()).unwrap();
    assert!(matches!(events.next().1, ChannelEvent::Half(HalfClosed::Input)));
    get(client.write_and_flush(Bytes::from_static(b"unheard"))).unwrap();
    child.read();
    test_bed.wait_until_idle();
    events.assert_nothing_read();
    child.send(Bytes::from_static(b"said"));
    assert_eq!(client_events.bytes(4), "said");
    assert!(client.is_active() && child.is_active());
}

pub(crate) fn c10_a_channel_that_does_not_read_is_notified_that_its_peer_has_finished(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    for (allow_half_closure, finishes) in [(true, true), (false, true), (false, false)] {
        let paused =
            ChannelOptions { auto_read: false, allow_half_closure, ..ChannelOptions::default() };
        let (server, mut events) = test_bed.tapped(paused);
        let (client, _) = test_bed.client_with(&server, half_open());
        let child = events.channel();
        get(client.write_and_flush(Bytes::from_static(b"last words"))).unwrap();
        get(if finishes { client.shutdown_output() } else { client.close() }).unwrap();
        events.find(|event| match event {
            ChannelEvent::PeerFinished => Some(()),
            ChannelEvent::Read(bytes) => panic!("{bytes:?} were read without a read request"),
            _ => None,
        });
        assert!(child.is_active(), "the channel stays active");
        child.set_auto_read(true);
        assert_eq!(events.bytes(10), "last words", "the bytes sent before the end are still read");
        let is_half = events.find(|event| match event {
            ChannelEvent::Half(HalfClosed::Input) => Some(true),
            ChannelEvent::Inactive => Some(false),
            ChannelEvent::PeerFinished => panic!("PeerFinished was reported twice"),
            _ => None,
        });
        assert_eq!(is_half, allow_half_closure);
    }
}
