//! K05: small encoded messages become one part of the outbound buffer.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::{BufMut, Bytes, BytesMut};
use proptest::prelude::*;
use waterwheel_channel::{
    ChannelFuture, ChannelOptions, Completion, Ctx, Encode, Encoder, Events, Handler,
    HandlerResult, Inbound, LocalLoop, Message, Msg, Stage, WaterMarks,
};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::{Embedded, EmbeddedBuilder, connected_pair};

use crate::support::{PipelineFixture, fixture_with, text};

type Request = Box<dyn FnOnce(&Ctx<'_>) + Send>;

/// Code that the handler `App` runs.
struct Run(Request);

impl Message for Run {}

struct App;

impl Handler for App {
    fn interest(&self) -> Events {
        Events::USER_EVENT
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        match event.take::<Run>() {
            Ok(Run(request)) => request(ctx),
            Err(other) => ctx.fire_user_event(other),
        }
        Ok(())
    }
}

/// Runs `f` with the context of the handler, in one call into the channel.
fn run(fixture: &mut PipelineFixture, f: impl FnOnce(&Ctx<'_>) + Send + 'static) {
    fixture.fire_user_event(Run(Box::new(f)));
}

fn encode(ctx: &Ctx<'_>, text: &str) {
    ctx.write_encoded(|dst| {
        assert!(dst.is_empty(), "the buffer is empty before each message");
        dst.put_slice(text.as_bytes());
        Ok(())
    })
    .expect("the message can be encoded");
}

fn app_fixture(builder: EmbeddedBuilder) -> PipelineFixture {
    let mut fixture = fixture_with(builder, |edit, _| {
        edit.add_last("app", App)?;
        Ok(())
    });
    fixture.run();
    fixture
}

fn stream() -> PipelineFixture {
    app_fixture(Embedded::builder().stream())
}

#[test]
fn k05_encoded_messages_of_one_call_are_one_part_and_one_write() {
    let mut fixture = stream();
    let writes = fixture.writes();
    run(&mut fixture, |ctx| {
        for reply in 0..16 {
            encode(ctx, &format!(":{reply}\r\n"));
            ctx.flush();
        }
        assert_eq!(ctx.channel().pending_bytes(), 16 * 4 + 6);
    });
    assert_eq!(fixture.writes() - writes, 1);
    let sent: Vec<Bytes> = std::iter::from_fn(|| fixture.read_outbound()).collect();
    assert_eq!(sent.len(), 1, "one part");
    assert_eq!(sent[0], (0..16).map(|reply| format!(":{reply}\r\n")).collect::<String>());
    assert_eq!(fixture.channel().pending_bytes(), 0);
}

#[test]
fn k05_messages_after_the_flush_mark_are_not_sent() {
    let mut fixture = stream();
    run(&mut fixture, |ctx| {
        encode(ctx, "ab");
        ctx.flush();
        encode(ctx, "cd");
    });
    assert_eq!(fixture.sent(), ["ab"]);
    assert_eq!(fixture.channel().pending_bytes(), 2);
    run(&mut fixture, |ctx| encode(ctx, "ef"));
    assert_eq!(fixture.sent(), [""; 0]);
    fixture.flush();
    assert_eq!(fixture.sent().concat(), "cdef");
}

#[test]
fn k05_encoded_messages_keep_their_order_with_all_other_writes() {
    let mut fixture = stream();
    run(&mut fixture, |ctx| {
        encode(ctx, "a");
        ctx.write(text("b"));
        encode(ctx, "c");
        encode(ctx, "d");
        let mut done = Completion::local(|result| result.expect("the write succeeds"));
        ctx.write_encoded_with(&mut done, |dst| {
            dst.put_u8(b'e');
            Ok(())
        })
        .expect("the message can be encoded");
        encode(ctx, &"f".repeat(5_000));
        encode(ctx, "g");
        ctx.write_then(text("h"), |result| result.expect("the write succeeds"));
        encode(ctx, "i");
        ctx.flush();
    });
    assert_eq!(fixture.sent().concat(), "abcde5000 bytesghi");
    assert_eq!(fixture.channel().pending_bytes(), 0);
}

#[test]
fn k05_an_encoded_write_with_a_future_can_be_cancelled_before_its_flush() {
    let mut fixture = fixture_with(Embedded::builder().stream(), |edit, _| {
        edit.add_last("texts", Encode::new(Texts))?;
        edit.add_last("app", App)?;
        Ok(())
    });
    fixture.run();
    run(&mut fixture, |ctx| ctx.write(String::from("a")));
    let cancelled = fixture.write(String::from("b"));
    run(&mut fixture, |ctx| ctx.write(String::from("c")));
    let kept = fixture.write(String::from("d"));
    assert!(cancelled.cancel());
    fixture.flush();
    assert_eq!(fixture.sent().concat(), "acd");
    assert!(kept.join().is_ok());
    assert_eq!(fixture.channel().pending_bytes(), 0);
}

/// Writes texts as they are; an empty one is an error, and `!` panics.
struct Texts;

impl Encoder for Texts {
    type In = String;

    fn encode(&mut self, text: String, dst: &mut BytesMut) -> HandlerResult {
        dst.put_slice(text.as_bytes());
        assert_ne!(text, "!", "on purpose");
        if text.is_empty() {
            dst.put_slice(b"half a message");
            return Err(Error::new("empty"));
        }
        Ok(())
    }
}

#[test]
fn k05_a_message_that_cannot_be_encoded_leaves_nothing_behind() {
    let mut fixture = stream();
    run(&mut fixture, |ctx| {
        encode(ctx, "a");
        let failed = ctx.write_encoded(|dst| {
            dst.put_slice(b"half");
            Err(Error::new("cannot be encoded"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "cannot be encoded");
        encode(ctx, "b");
        ctx.flush();
    });
    assert_eq!(fixture.sent(), ["ab"]);
}

#[test]
fn k05_a_message_may_be_written_while_another_is_encoded() {
    let mut fixture = stream();
    run(&mut fixture, |ctx| {
        encode(ctx, "a");
        let outer = ctx.write_encoded(|dst| {
            dst.put_slice(b"c");
            encode(ctx, "b");
            Ok(())
        });
        outer.expect("the message can be encoded");
        encode(ctx, "d");
        ctx.flush();
    });
    assert_eq!(fixture.sent().concat(), "abcd");
}

#[test]
fn k05_handlers_on_the_way_receive_each_message_as_bytes() {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let log = seen.clone();
    let mut fixture = fixture_with(Embedded::builder().stream(), |edit, _| {
        edit.add_last("seen", Seen(log))?;
        edit.add_last("app", App)?;
        Ok(())
    });
    fixture.run();
    run(&mut fixture, |ctx| {
        encode(ctx, "a");
        encode(ctx, "b");
        ctx.flush();
    });
    assert_eq!(*seen.borrow(), ["a", "b"]);
    assert_eq!(fixture.sent(), ["a", "b"], "a handler may rely on what it has passed on");
}

struct Seen(Rc<RefCell<Vec<String>>>);

impl Handler for Seen {
    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        let bytes = msg.get::<Bytes>().expect("bytes");
        self.0.borrow_mut().push(String::from_utf8_lossy(bytes).into_owned());
        ctx.write_with(msg, done.take());
        Ok(())
    }
}

#[test]
fn k05_a_transport_of_messages_gets_each_message() {
    let mut fixture = app_fixture(Embedded::builder());
    run(&mut fixture, |ctx| {
        encode(ctx, "a");
        encode(ctx, "b");
        ctx.flush();
    });
    assert_eq!(fixture.sent(), ["a", "b"]);
}

#[test]
fn k05_encoded_messages_count_for_the_water_marks() {
    let water_marks = WaterMarks::new(4, 8).and_then(|marks| marks.with_hard_cap(12));
    let water_marks = water_marks.expect("valid water marks");
    let options = ChannelOptions { water_marks, ..ChannelOptions::default() };
    let mut fixture = app_fixture(Embedded::builder().stream().options(options));
    fixture.set_room(0);
    run(&mut fixture, |ctx| {
        encode(ctx, "abcdefgh");
        assert!(ctx.is_writable());
        encode(ctx, "i");
        assert!(!ctx.is_writable());
        ctx.flush();
        let refused = ctx.write_encoded_with(&mut Completion::none(), |dst| {
            dst.put_slice(b"jklm");
            Ok(())
        });
        refused.expect("the message can be encoded; the hard cap refuses it later");
    });
    assert_eq!(fixture.channel().pending_bytes(), 9);
    assert!(fixture.reports.take().iter().any(|line| line.contains("refused")));
    fixture.clear_faults();
    assert_eq!(fixture.sent().concat(), "abcdefghi");
    assert!(fixture.channel().is_writable());
}

#[test]
fn k05_a_cancelled_write_before_joined_messages_is_left_out() {
    let mut fixture = stream();
    let write = fixture.write(text("cancelled"));
    assert!(write.cancel());
    run(&mut fixture, |ctx| {
        encode(ctx, "x");
        ctx.flush();
        encode(ctx, "y");
        assert_eq!(ctx.channel().pending_bytes(), 2, "the cancelled write is gone");
    });
    assert_eq!((fixture.sent().concat(), fixture.channel().pending_bytes()), ("x".into(), 1));
}

/// Passes everything on, and encodes a message after each user event.
struct Pings;

impl Handler for Pings {
    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        ctx.fire_user_event(event);
        encode(ctx, "ping");
        ctx.flush();
        Ok(())
    }
}

#[test]
fn c05_rule_3_an_encoded_message_does_not_overtake_a_write_that_waits_at_its_handler() {
    let mut fixture = fixture_with(Embedded::builder().stream(), |edit, _| {
        edit.add_last("pings", Pings)?;
        edit.add_last("app", App)?;
        Ok(())
    });
    run(&mut fixture, |ctx| ctx.write(Bytes::from_static(b"answer ")));
    assert_eq!(fixture.sent().concat(), "answer ping");
}

#[test]
fn k05_messages_for_a_peer_that_does_not_read_are_copies() {
    let mut fixture = stream();
    fixture.set_room(0);
    for _ in 0..3 {
        run(&mut fixture, |ctx| {
            encode(ctx, "x");
            ctx.flush();
        });
    }
    fixture.clear_faults();
    let sent: Vec<Bytes> = std::iter::from_fn(|| fixture.read_outbound()).collect();
    let shared: Vec<bool> = sent.iter().map(|bytes| !bytes.is_unique()).collect();
    assert_eq!(shared, [true, false, false], "only the first part is in the loop's block");
}

#[test]
fn k05_a_flush_above_the_high_mark_writes_joined_messages_at_once() {
    let water_marks = WaterMarks::new(10, 20).unwrap();
    let options = ChannelOptions { water_marks, ..ChannelOptions::default() };
    let mut fixture = app_fixture(Embedded::builder().stream().options(options));
    run(&mut fixture, |ctx| {
        encode(ctx, "abc");
        let held = ctx.count_held_bytes(21);
        ctx.flush();
        assert_eq!(ctx.channel().pending_bytes(), 21);
        drop(held);
    });
    assert_eq!(fixture.sent(), ["abc"]);
    assert!(fixture.errors().is_empty() && fixture.channel().is_open());
}

#[test]
fn k05_a_peer_that_does_not_read_gets_everything_later_in_order() {
    let mut fixture = stream();
    fixture.set_room(3);
    for round in 0..50 {
        run(&mut fixture, move |ctx| {
            encode(ctx, &format!("{round},"));
            encode(ctx, &format!("{round};"));
            ctx.flush();
        });
    }
    fixture.short_writes(7);
    fixture.clear_faults();
    let expected: String = (0..50).map(|round| format!("{round},{round};")).collect();
    assert_eq!(fixture.sent().concat(), expected);
    assert_eq!(fixture.channel().pending_bytes(), 0);
}

#[test]
fn k05_a_close_sends_flushed_messages_and_drops_the_others() {
    let mut fixture = stream();
    run(&mut fixture, |ctx| {
        encode(ctx, "sent");
        ctx.flush();
        encode(ctx, "dropped");
        ctx.close();
    });
    assert_eq!(fixture.sent(), ["sent"]);
    assert_eq!(fixture.channel().pending_bytes(), 0);
    // A message after the close is refused, and does not appear on another channel.
    let mut other = stream();
    run(&mut other, |ctx| {
        encode(ctx, "x");
        ctx.flush();
    });
    assert_eq!(other.sent(), ["x"]);
}

#[test]
fn k05_a_half_close_sends_flushed_messages_first() {
    let mut fixture = stream();
    run(&mut fixture, |ctx| {
        encode(ctx, "last words");
        ctx.flush();
        ctx.shutdown_output();
        encode(ctx, "too late");
        ctx.flush();
    });
    assert_eq!(fixture.sent(), ["last words"]);
}

#[test]
fn k05_an_unconnected_channel_fails_its_flushed_messages() {
    let mut fixture = app_fixture(Embedded::builder().stream().unconnected());
    run(&mut fixture, |ctx| {
        encode(ctx, "early");
        ctx.flush();
    });
    assert_eq!(fixture.channel().pending_bytes(), 0);
    assert_eq!(fixture.sent(), [""; 0]);
}

#[test]
fn k05_a_panic_of_an_encoder_closes_its_channel_and_harms_no_other() {
    let mut fixture = fixture_with(Embedded::builder().stream(), |edit, _| {
        edit.add_last("texts", Encode::new(Texts))?;
        edit.add_last("app", App)?;
        Ok(())
    });
    fixture.run();
    run(&mut fixture, |ctx| {
        ctx.write(String::from("a"));
        ctx.write(String::new());
        ctx.write(String::from("!"));
    });
    assert!(!fixture.channel().is_open());
    let mut other = stream();
    run(&mut other, |ctx| {
        encode(ctx, "x");
        ctx.flush();
    });
    assert_eq!(other.sent(), ["x"]);
}

#[test]
fn k05_an_encoder_is_the_last_stage_of_a_chain() {
    struct Double;

    impl Stage for Double {
        type In = Bytes;
        type Out = String;

        fn on<O: waterwheel_channel::Emit<String>>(
            &mut self,
            word: Bytes,
            out: &mut O,
        ) -> HandlerResult {
            let word = String::from_utf8_lossy(&word);
            out.emit(format!("{word}{word}"))
        }
    }

    let mut fixture = fixture_with(Embedded::builder().stream(), |edit, _| {
        edit.add_last("chain", Inbound(Double.then(Encode::new(Texts))))?;
        Ok(())
    });
    fixture.write_inbound_all([text("a").into(), text("b").into()]);
    assert_eq!(fixture.sent().concat(), "aabb");
    fixture.write_inbound(text(""));
    assert_eq!(fixture.errors(), ["empty"]);
}

#[test]
fn k05_channels_of_a_loop_encode_in_turn_without_mixing_their_bytes() {
    let mut fixture = stream();
    let (ours, theirs) = connected_pair();
    let log = Rc::new(RefCell::new(String::new()));
    let seen = log.clone();
    let (other, _peer) = fixture.on_loop(|_| {
        let here = LocalLoop::current().expect("the closure runs on the loop");
        let other = here.register_with(ours, |edit| {
            edit.add_last("app", App)?;
            Ok(())
        });
        let peer = here.register_with(theirs, |edit| {
            edit.add_last("seen", Received(seen))?;
            Ok(())
        });
        (other.expect("registered"), peer.expect("registered"))
    });
    fixture.run();
    run(&mut fixture, move |ctx| {
        for round in 0..3 {
            encode(ctx, &format!("a{round}"));
            ctx.flush();
            other.fire_user_event(Run(Box::new(move |ctx| {
                encode(ctx, &format!("b{round}"));
                ctx.flush();
                encode(ctx, &format!("c{round}"));
            })));
            encode(ctx, &format!("d{round}"));
        }
        ctx.flush();
        other.flush();
    });
    fixture.run();
    assert_eq!(fixture.sent().concat(), "a0d0a1d1a2d2");
    assert_eq!(*log.borrow(), "b0c0b1c1b2c2");
}

struct Received(Rc<RefCell<String>>);

impl Handler for Received {
    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let bytes = msg.take::<Bytes>().expect("bytes");
        self.0.borrow_mut().push_str(&String::from_utf8_lossy(&bytes));
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Action {
    Encode(usize),
    EncodeAwaited(usize),
    Write(usize),
    Flush,
    Room(usize),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => (1_usize..40).prop_map(Action::Encode),
        1 => (500_usize..6_000).prop_map(Action::Encode),
        1 => (1_usize..700).prop_map(Action::EncodeAwaited),
        1 => (1_usize..100).prop_map(Action::Write),
        3 => Just(Action::Flush),
        1 => (0_usize..3_000).prop_map(Action::Room),
    ]
}

proptest! {
    /// Whatever is written, in however many calls, the bytes arrive in order, once, and only when flushed.
    #[test]
    fn k05_joined_messages_are_the_same_stream_as_separate_ones(
        calls in proptest::collection::vec(proptest::collection::vec(action(), 1..12), 1..20)
    ) {
        let mut fixture = stream();
        let (mut expected, mut flushed, mut next) = (Vec::new(), 0, 0_u8);
        let mut awaited: Vec<ChannelFuture> = Vec::new();
        for call in calls {
            let mut rooms = Vec::new();
            let mut steps: Vec<(Action, Bytes)> = Vec::new();
            for action in call {
                let size = match &action {
                    Action::Encode(n) | Action::EncodeAwaited(n) | Action::Write(n) => *n,
                    Action::Flush => { flushed = expected.len(); 0 }
                    Action::Room(room) => { rooms.push(*room); 0 }
                };
                let message: Vec<u8> = (0..size).map(|_| { next = next.wrapping_add(1); next }).collect();
                expected.extend_from_slice(&message);
                steps.push((action, message.into()));
            }
            let (sender, receiver) = std::sync::mpsc::channel();
            run(&mut fixture, move |ctx| {
                for (action, message) in steps {
                    let put = |dst: &mut BytesMut| { dst.put_slice(&message); Ok(()) };
                    match action {
                        Action::Encode(_) => ctx.write_encoded(put).unwrap(),
                        Action::EncodeAwaited(_) => {
                            let (promise, future) = ctx.channel().event_loop().new_promise::<()>();
                            sender.send(future).unwrap();
                            ctx.write_encoded_with(&mut promise.into(), put).unwrap();
                        }
                        Action::Write(_) => ctx.write(message),
                        Action::Flush => ctx.flush(),
                        Action::Room(_) => {}
                    }
                }
            });
            awaited.extend(receiver.try_iter());
            for room in rooms {
                fixture.set_room(room);
            }
        }
        fixture.clear_faults();
        let mut sent = Vec::new();
        while let Some(bytes) = fixture.read_outbound::<Bytes>() {
            sent.extend_from_slice(&bytes);
        }
        prop_assert_eq!(&sent[..], &expected[..flushed]);
        prop_assert_eq!(fixture.channel().pending_bytes(), expected.len() - flushed);
        fixture.flush();
        while let Some(bytes) = fixture.read_outbound::<Bytes>() {
            sent.extend_from_slice(&bytes);
        }
        prop_assert_eq!(sent, expected);
        for write in awaited {
            prop_assert!(write.join().is_ok());
        }
        prop_assert_eq!(fixture.channel().pending_bytes(), 0);
    }
}
