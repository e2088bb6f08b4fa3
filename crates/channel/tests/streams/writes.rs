//! Writes of a stream (C07).

use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::{ChannelOptions, Ctx};
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::manual::Peer;

use crate::support::{StreamFixture, over_both_drivers};

#[test]
fn c07_several_writes_become_one_write_of_the_driver() {
    over_both_drivers(|manual| {
        let mut fixture = StreamFixture::new(&manual);
        for (number, word) in ["one ", "two ", "", "three"].into_iter().enumerate() {
            fixture.write(number, word, false);
        }
        fixture.run();
        assert_eq!((manual.counts().writes, fixture.channel.pending_bytes()), (0, 13));
        fixture.on_loop(|channel| channel.flush());
        fixture.run();
        assert_eq!(fixture.peer.take_received(), "one two three");
        assert_eq!(manual.counts().writes, 1);
        assert_eq!(fixture.write_outcomes(), [(0, true), (1, true), (2, true), (3, true)]);
        assert_eq!(fixture.channel.pending_bytes(), 0);
    });
}

#[test]
fn c07_no_write_begins_while_one_is_in_flight() {
    over_both_drivers(|manual| {
        let mut fixture = StreamFixture::new(&manual);
        fixture.peer.set_limit(4);
        manual.hold_completions();
        for number in 0..5 {
            fixture.write(number, "abcd", true);
        }
        fixture.bench.turns(3);
        let begun = manual.counts().writes;
        assert!(begun <= 2, "one, and in readiness one that found no room: {begun}");
        fixture.write(5, "efgh", true);
        fixture.bench.turns(3);
        assert_eq!(manual.counts().writes, begun);
        manual.release();
        fixture.peer.set_limit(1000);
        fixture.run();
        assert_eq!(fixture.peer.take_received(), "abcdabcdabcdabcdabcdefgh");
        assert_eq!(manual.counts().writes, begun + 1, "the rest was one write");
        assert_eq!(
            fixture.write_outcomes(),
            (0..6).map(|number| (number, true)).collect::<Vec<_>>()
        );
    });
}

#[test]
fn c07_a_write_resumes_when_there_is_room_again() {
    over_both_drivers(|manual| {
        let mut fixture = StreamFixture::new(&manual);
        fixture.peer.set_limit(0);
        fixture.write(0, "hello", true);
        fixture.run();
        assert_eq!((manual.counts().writes, fixture.channel.pending_bytes()), (1, 5));
        assert_eq!(fixture.write_outcomes(), []);
        fixture.peer.set_limit(2);
        let mut all = Vec::new();
        for _ in 0..10 {
            fixture.run();
            all.extend(fixture.peer.take_received());
        }
        assert_eq!((all.as_slice(), fixture.write_outcomes()), (&b"hello"[..], vec![(0, true)]));
        assert!(manual.counts().writes <= 8, "it does not spin: {:?}", manual.counts());
        assert_eq!(fixture.channel.pending_bytes(), 0);
    });
}

#[test]
fn c07_a_flush_in_many_parts_does_not_starve_tasks() {
    let mut channel = Embedded::builder().stream().build(|_| Ok(())).unwrap();
    channel.short_writes(1);
    let seen = Arc::new(Mutex::new(Vec::new()));
    channel.on_loop(|channel| {
        let note = |seen: &Arc<Mutex<Vec<usize>>>| {
            let (seen, channel) = (seen.clone(), channel.clone());
            channel.event_loop().execute(move || {
                seen.lock().unwrap().push(channel.pending_bytes());
            })
        };
        note(&seen).unwrap();
        channel.send(Bytes::from(vec![7; 40]));
        note(&seen).unwrap();
    });
    channel.run();
    assert_eq!(*seen.lock().unwrap(), [24, 8], "sixteen parts, then the rest in its turn");
    assert_eq!(std::iter::from_fn(|| channel.read_outbound::<Bytes>()).count(), 40);
    assert_eq!(channel.channel().pending_bytes(), 0);
}

#[test]
fn c07_the_last_write_time_is_set_when_the_driver_completes_the_write() {
    over_both_drivers(|manual| {
        let when = Rc::new(Cell::new(None));
        let tells = when.clone();
        let asks = move |ctx: &Ctx<'_>, _: &Peer| tells.set(ctx.last_write());
        let mut fixture = StreamFixture::with(&manual, &manual, ChannelOptions::default(), asks);
        fixture.peer.send(b"when?");
        fixture.run();
        manual.hold_completions();
        fixture.peer.set_limit(0);
        fixture.write(0, "hello", true);
        fixture.run();
        fixture.peer.send(b"when?");
        fixture.run();
        assert_eq!(when.get(), None, "it is under way, or waits");
        manual.advance(Duration::from_secs(1));
        manual.release();
        fixture.peer.set_limit(1000);
        fixture.run();
        let then = manual.clock().now();
        manual.advance(Duration::from_secs(1));
        fixture.peer.send(b"when?");
        fixture.run();
        assert_eq!((fixture.write_outcomes(), when.get()), (vec![(0, true)], Some(then)));
    });
}
