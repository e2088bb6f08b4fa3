//! Bytes that a handler sends at once, from a buffer of its own (C07).

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use waterwheel_channel::{ChannelOptions, Ctx, Events, Handler, WaterMarks};
use waterwheel_testkit::manual::{Manual, Peer};

use crate::support::{StreamFixture, over_both_drivers};

/// Builds a channel that calls `on_read` with each message of its peer.
fn fixture_with(
    manual: &Manual,
    options: ChannelOptions,
    on_read: impl FnMut(&Ctx<'_>, &Peer) + 'static,
) -> StreamFixture {
    StreamFixture::with(manual, manual, options, on_read)
}

/// Runs the channel, and returns all that its peer gets. With a limit the peer takes a few bytes at a time.
fn received(fixture: &mut StreamFixture) -> String {
    let mut all = Vec::new();
    for _ in 0..20 {
        fixture.run();
        all.extend_from_slice(&fixture.peer.take_received());
    }
    String::from_utf8(all).unwrap()
}

#[test]
fn c07_bytes_sent_at_once_are_with_the_transport_when_the_call_returns() {
    over_both_drivers(|manual| {
        let counts = manual.clone();
        let mut fixture = fixture_with(&manual, ChannelOptions::default(), move |ctx, _| {
            let before = counts.counts().writes;
            assert!(ctx.try_send(b"at once"));
            assert_eq!(counts.counts().writes, before + 1, "not at the end of the call");
        });
        fixture.peer.send(b"x");
        assert_eq!(received(&mut fixture), "at once");
        assert_eq!((manual.counts().writes, fixture.channel.pending_bytes()), (1, 0));
    });
}

#[test]
fn c07_bytes_that_the_transport_does_not_take_at_once_follow_before_later_ones() {
    over_both_drivers(|manual| {
        for limit in [0, 1, 3, 7, 100] {
            let pending = Rc::new(RefCell::new(Vec::new()));
            let seen = pending.clone();
            let mut fixture = fixture_with(&manual, ChannelOptions::default(), move |ctx, _| {
                let is_sent = ctx.try_send(b"abcdef ");
                seen.borrow_mut().push((is_sent, ctx.pending_bytes()));
                ctx.write_and_flush(Bytes::from_static(b"ghi "));
            });
            fixture.peer.set_limit(limit);
            fixture.peer.send(b"x");
            fixture.run();
            fixture.peer.set_limit(limit.max(2));
            assert_eq!(received(&mut fixture), "abcdef ghi ", "limit {limit}");
            assert_eq!(fixture.channel.pending_bytes(), 0);
            // A driver that completes writes later holds all bytes until then.
            let (is_sent, left) = pending.borrow()[0];
            assert!(
                is_sent && (left == 7 - limit.min(7) || left == 7),
                "limit {limit}: {left} left"
            );
        }
    });
}

#[test]
fn c07_bytes_that_others_are_before_are_not_sent_at_once() {
    over_both_drivers(|manual| {
        let mut reads = 0;
        let mut fixture = fixture_with(&manual, ChannelOptions::default(), move |ctx, _| {
            reads += 1;
            match reads {
                1 => {
                    ctx.write(Bytes::from_static(b"written "));
                    assert!(!ctx.try_send(b"x"), "unflushed bytes are before them");
                    ctx.flush();
                    assert!(!ctx.try_send(b"x"), "flushed bytes are before them");
                }
                2 => {
                    ctx.write_encoded(|dst| {
                        dst.extend_from_slice(b"encoded ");
                        Ok(())
                    })
                    .unwrap();
                    assert!(!ctx.try_send(b"x"), "encoded bytes are before them");
                    ctx.flush();
                }
                3 => {
                    assert!(!ctx.try_send(b""), "there is nothing to send");
                    assert!(ctx.try_send(b"sent "));
                    ctx.shutdown_output();
                }
                _ => assert!(!ctx.try_send(b"x"), "the output is over"),
            }
        });
        for _ in 0..4 {
            fixture.peer.send(b"x");
            fixture.run();
        }
        assert_eq!(received(&mut fixture), "written encoded sent ");
    });
}

#[test]
fn c07_bytes_above_the_high_water_mark_are_not_sent_at_once() {
    over_both_drivers(|manual| {
        let water_marks = WaterMarks::new(1, 8).unwrap();
        let options = ChannelOptions { water_marks, ..ChannelOptions::default() };
        let mut fixture = fixture_with(&manual, options, |ctx, _| {
            assert!(!ctx.try_send(b"nine byte"));
            assert!(ctx.try_send(b"8 bytes."));
        });
        fixture.peer.send(b"x");
        assert_eq!(received(&mut fixture), "8 bytes.");
    });
}

#[test]
fn c07_bytes_that_another_handler_has_to_see_are_not_sent_at_once() {
    struct Watch(Events);

    impl Handler for Watch {
        fn interest(&self) -> Events {
            self.0
        }
    }

    over_both_drivers(|manual| {
        for (interest, expected) in
            [(Events::WRITE, false), (Events::FLUSH, false), (Events::READ | Events::CLOSE, true)]
        {
            let mut fixture = fixture_with(&manual, ChannelOptions::default(), move |ctx, _| {
                assert_eq!(ctx.try_send(b"x"), expected, "{interest:?}");
            });
            let channel = fixture.channel.clone();
            let added = fixture.bench.here(move |_| {
                channel.with_pipeline(move |pipeline| {
                    pipeline
                        .edit(|edit| edit.add_first("watch", Watch(interest)).map(drop))
                        .unwrap();
                })
            });
            fixture.run();
            added.join().unwrap();
            fixture.peer.send(b"x");
            assert_eq!(received(&mut fixture).len(), usize::from(expected));
        }
    });
}

#[test]
fn c07_an_error_of_the_transport_while_bytes_are_sent_at_once_closes_the_channel() {
    let manual = Manual::readiness();
    let mut fixture = fixture_with(&manual, ChannelOptions::default(), |ctx, peer| {
        peer.reset();
        let _taken = ctx.try_send(b"x");
    });
    fixture.peer.send(b"x");
    fixture.run();
    assert!(!fixture.channel.is_open());
    assert!(fixture.channel.close_cause().is_some());
    assert_eq!(fixture.channel.pending_bytes(), 0);
}
