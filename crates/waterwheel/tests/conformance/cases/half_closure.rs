//! Closing one direction (C10).

use bytes::Bytes;
use waterwheel::channel::{ChannelOptions, Ctx, HalfClosed, Handler, HandlerResult, Msg};

use crate::cell::Cell;
use crate::random::SeededRng;
use crate::test_bed::{ChannelEvent, TestBed, WAIT_LIMIT, get};

fn half_open() -> ChannelOptions {
    ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() }
}

/// Answers when its peer has finished, and finishes too.
struct Answer {
    question: Vec<u8>,
    answer: Vec<Bytes>,
}

impl Handler for Answer {
    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.question.extend_from_slice(&msg.into_bytes().expect("bytes are sent here"));
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

/// A server that answers like that.
fn answering(test_bed: &TestBed<'_>, answer: &Bytes) -> waterwheel::channel::Channel {
    let answer = SeededRng::new().cut(answer.clone(), 30_000);
    test_bed.serve(half_open(), move |edit| {
        let handler = Answer { question: Vec::new(), answer: answer.clone() };
        edit.add_last("answer", handler).map(drop)
    })
}

pub(crate) fn c10_a_peer_that_has_finished_reads_the_whole_answer(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let answer = SeededRng::new().bytes(1 << 20);
    let server = answering(&test_bed, &answer);
    for _ in 0..10 {
        let (client, mut ear) = test_bed.client(&server);
        client.send(Bytes::from_static(b"what?"));
        get(client.shutdown_output()).unwrap();
        assert!(ear.rest() == answer, "what was read is not what was sent");
        client.closed().wait_timeout(WAIT_LIMIT).unwrap();
    }
}

pub(crate) fn c10_a_foreign_peer_that_has_finished_reads_the_whole_answer(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let answer = SeededRng::new().bytes(1 << 20);
    let server = answering(&test_bed, &answer);
    let mut peer = cell.foreign(&server);
    peer.send(b"what?");
    peer.finish();
    assert!(peer.receive_all().unwrap() == answer, "what was read is not what was sent");
}

pub(crate) fn c10_the_end_closes_a_channel_that_does_not_allow_half_of_it(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let (server, mut ear) = test_bed.tapped(ChannelOptions::default());
    let (client, mut heard) = test_bed.client_with(&server, half_open());
    client.send(Bytes::from_static(b"last words"));
    get(client.shutdown_output()).unwrap();
    assert_eq!(ear.rest(), "last words");
    assert_eq!(heard.ending(), ["Output", "Input"]);
}

pub(crate) fn c10_what_was_flushed_goes_before_the_end(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let (server, mut ear) = test_bed.tapped(ChannelOptions { auto_read: false, ..half_open() });
    let (client, _) = test_bed.client_with(&server, half_open());
    let child = ear.channel();
    let mut dice = SeededRng::new();
    let data = dice.bytes(1 << 22);
    let pieces = dice.cut(data.clone(), 60_000);
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
    assert!(ear.bytes(data.len()) == data, "what was read is not what was sent");
    ear.find(|told| match told {
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

pub(crate) fn c10_when_both_have_finished_both_are_closed(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    let (server, mut ear) = test_bed.tapped(half_open());
    for _ in 0..50 {
        let (client, mut heard) = test_bed.client_with(&server, half_open());
        let child = ear.channel();
        let (one, other) = (client.shutdown_output(), child.shutdown_output());
        // If the other was quicker it is closed already, by its peer's end.
        drop((one.wait_timeout(WAIT_LIMIT), other.wait_timeout(WAIT_LIMIT)));
        for ending in [heard.ending(), ear.ending()] {
            let mut halves = ending;
            halves.sort();
            assert_eq!(halves, ["Input", "Output"], "each once");
        }
        client.closed().wait_timeout(WAIT_LIMIT).unwrap();
        child.closed().wait_timeout(WAIT_LIMIT).unwrap();
    }
}

pub(crate) fn c10_an_input_that_is_shut_down_reads_nothing_more(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let (server, mut ear) = test_bed.tapped(ChannelOptions { auto_read: false, ..half_open() });
    let (client, mut heard) = test_bed.client_with(&server, half_open());
    let child = ear.channel();
    get(client.write_and_flush(Bytes::from_static(b"unheard"))).unwrap();
    test_bed.wait_until_idle();
    get(child.shutdown_input()).unwrap();
    assert!(matches!(ear.next().1, ChannelEvent::Half(HalfClosed::Input)));
    child.read();
    test_bed.wait_until_idle();
    ear.assert_nothing_read();
    child.send(Bytes::from_static(b"said"));
    assert_eq!(heard.bytes(4), "said");
    get(child.shutdown_output()).unwrap();
    assert_eq!(ear.ending(), ["Output"]);
}

pub(crate) fn c10_who_is_not_read_any_more_may_go_on_sending(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let (server, mut ear) = test_bed.tapped(half_open());
    let (client, mut heard) = test_bed.client_with(&server, half_open());
    let child = ear.channel();
    get(child.shutdown_input()).unwrap();
    assert!(matches!(ear.next().1, ChannelEvent::Half(HalfClosed::Input)));
    get(client.write_and_flush(Bytes::from_static(b"unheard"))).unwrap();
    child.read();
    test_bed.wait_until_idle();
    ear.assert_nothing_read();
    child.send(Bytes::from_static(b"said"));
    assert_eq!(heard.bytes(4), "said");
    assert!(client.is_active() && child.is_active());
}

pub(crate) fn c10_that_the_peer_has_finished_is_told_to_one_who_does_not_read(cell: &Cell) {
    let test_bed = TestBed::new(cell, 2);
    for (allow_half_closure, finishes) in [(true, true), (false, true), (false, false)] {
        let paused =
            ChannelOptions { auto_read: false, allow_half_closure, ..ChannelOptions::default() };
        let (server, mut ear) = test_bed.tapped(paused);
        let (client, _) = test_bed.client_with(&server, half_open());
        let child = ear.channel();
        get(client.write_and_flush(Bytes::from_static(b"last words"))).unwrap();
        get(if finishes { client.shutdown_output() } else { client.close() }).unwrap();
        ear.find(|told| match told {
            ChannelEvent::PeerFinished => Some(()),
            ChannelEvent::Read(bytes) => panic!("{bytes:?}, and nobody reads"),
            _ => None,
        });
        assert!(child.is_active(), "nothing else has changed");
        child.set_auto_read(true);
        assert_eq!(ear.bytes(10), "last words", "it is read all the same");
        let is_half = ear.find(|told| match told {
            ChannelEvent::Half(HalfClosed::Input) => Some(true),
            ChannelEvent::Inactive => Some(false),
            ChannelEvent::PeerFinished => panic!("that was told"),
            _ => None,
        });
        assert_eq!(is_half, allow_half_closure);
    }
}
