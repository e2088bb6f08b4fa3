//! `FirstMessageDeadline`.

use bytes::Bytes;
use waterwheel_channel::{
    Address, ChannelOptions, Ctx, Decode, Decoder, Handler, HandlerResult, Msg,
};
use waterwheel_executor::Error;
use waterwheel_handlers::{FirstMessageDeadline, TimeoutError};
use waterwheel_testkit::embedded::{Embedded, EmbeddedBuilder};
use waterwheel_testkit::recorder::{Log, RecordedMethod};

use crate::support::{MS, NS, built_with, close_cause, stream_with, timeouts, timers};

fn ten_ms() -> FirstMessageDeadline {
    FirstMessageDeadline::new(MS * 10).unwrap()
}

struct Hundred;

impl Decoder for Hundred {
    type Out = String;

    fn decode(&mut self, from: &mut Bytes) -> Result<Option<String>, Error> {
        Ok((from.len() >= 100).then(|| format!("{} bytes", from.split_to(100).len())))
    }
}

/// A channel whose messages have a hundred bytes.
fn with_codec(builder: EmbeddedBuilder) -> Embedded {
    let built = builder.stream().build(|edit| {
        edit.add_last("codec", Decode::new(Hundred))?;
        edit.add_last("deadline", ten_ms())?;
        Ok(())
    });
    built.unwrap()
}

fn names(channel: &mut Embedded) -> Vec<String> {
    channel.with_pipeline(|pipeline| pipeline.names()).unwrap()
}

#[test]
fn k07_a_peer_that_says_nothing_is_closed_at_the_deadline() {
    let mut channel = stream_with(ten_ms());
    let id = channel.channel().id();
    channel.advance(MS * 10 - NS);
    assert!(channel.channel().is_open());
    channel.advance(NS);
    let expected = TimeoutError::FirstMessage { channel: id, peer: None, limit: MS * 10 };
    assert_eq!(timeouts(&mut channel), std::slice::from_ref(&expected));
    assert_eq!(expected.to_string(), format!("no first message within 10ms on channel {id}"));
    assert_eq!(close_cause(&mut channel).unwrap().to_string(), expected.to_string());
    assert_eq!(timers(&mut channel), 0);
}

#[test]
fn k07_a_peer_that_drips_bytes_does_not_extend_the_deadline() {
    let mut channel = with_codec(Embedded::builder());
    for _ in 0..99 {
        channel.write_inbound(Bytes::from_static(b"x"));
        channel.advance(MS / 10);
    }
    assert!(channel.channel().is_open());
    channel.advance(MS / 10);
    assert_eq!(timeouts(&mut channel).len(), 1);
    assert!(!channel.channel().is_open());
}

#[test]
fn k07_the_handler_removes_itself_with_the_first_message() {
    let mut channel = with_codec(Embedded::builder());
    channel.advance(MS * 9);
    channel.write_inbound(Bytes::from(vec![b'x'; 300]));
    let passed: Vec<_> = std::iter::from_fn(|| channel.read_inbound::<String>()).collect();
    assert_eq!(passed, ["100 bytes"; 3], "the messages after the first in their place");
    assert_eq!((names(&mut channel), timers(&mut channel)), (vec![String::from("codec")], 0));
    channel.advance(MS * 100);
    assert!(channel.channel().is_open());
}

/// Keeps `on_active` back, as a handler does that first has to shake hands.
struct ShakesHands;

impl Handler for ShakesHands {
    fn on_active(&mut self, _: &Ctx<'_>) -> HandlerResult {
        Ok(())
    }

    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        drop(msg);
        Ok(())
    }
}

#[test]
fn k07_time_in_handlers_before_counts_even_if_they_keep_on_active_back() {
    let built = Embedded::builder().stream().build(|edit| {
        edit.add_last("handshake", ShakesHands)?;
        edit.add_last("deadline", ten_ms())?;
        Ok(())
    });
    let mut channel = built.unwrap();
    for _ in 0..9 {
        channel.write_inbound(Bytes::from_static(b"hello"));
        channel.advance(MS);
    }
    assert!(channel.channel().is_open());
    channel.advance(MS);
    assert_eq!(timeouts(&mut channel).len(), 1);
}

#[test]
fn k07_a_client_has_the_time_from_its_connect() {
    let mut channel = built_with(Embedded::builder().stream().unconnected(), ten_ms());
    channel.advance(MS * 50);
    assert_eq!(timers(&mut channel), 0);
    channel.on_loop(|channel| drop(channel.connect(Address::local("there"))));
    channel.advance(MS * 9);
    assert!(channel.channel().is_open());
    channel.advance(MS);
    assert_eq!(timeouts(&mut channel).len(), 1);
}

#[test]
fn k07_neither_a_pause_nor_the_end_of_the_peers_data_stops_the_deadline() {
    let options = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
    let mut channel = with_codec(Embedded::builder().options(options));
    channel.advance(MS * 10);
    assert_eq!(timeouts(&mut channel).len(), 1);
    let options = ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() };
    let mut channel = with_codec(Embedded::builder().options(options));
    channel.finish_inbound();
    assert!(channel.channel().is_open());
    channel.advance(MS * 10);
    assert_eq!(timeouts(&mut channel).len(), 1);
}

#[test]
fn k07_removing_the_deadline_in_response_keeps_the_channel_open() {
    let log = Log::new();
    let forgives = log.recorder().holds(RecordedMethod::Error).at(RecordedMethod::Error, |ctx| {
        ctx.pipeline().remove("deadline")?;
        Ok(())
    });
    let built = Embedded::builder().stream().build(|edit| {
        edit.add_last("deadline", ten_ms())?;
        edit.add_last("forgives", forgives)?;
        Ok(())
    });
    let mut channel = built.unwrap();
    channel.advance(MS * 10);
    assert!(channel.channel().is_open());
    channel.advance(MS * 50);
    let fired = log.take().into_iter().filter(|line| line.contains("no first message")).count();
    assert_eq!((fired, timers(&mut channel)), (1, 0));
}

/// Removes the deadline with the first message, as a protocol switch would.
struct Switches;

impl Handler for Switches {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.pipeline().remove_if_present("deadline")?;
        ctx.fire_read(msg);
        Ok(())
    }
}

#[test]
fn k07_a_deadline_that_is_removed_while_it_passes_the_first_message_is_removed_once() {
    let built = Embedded::builder().build(|edit| {
        edit.add_last("deadline", ten_ms())?;
        edit.add_last("switches", Switches)?;
        Ok(())
    });
    let mut channel = built.unwrap();
    channel.write_inbound_all([1_u32.into(), 2_u32.into()]);
    assert_eq!((channel.read_inbound(), channel.read_inbound()), (Some(1_u32), Some(2_u32)));
    assert_eq!(names(&mut channel), ["switches"]);
    assert!(channel.read_error().is_none());
}

#[test]
fn k07_a_close_before_the_deadline_is_no_timeout() {
    let mut channel = stream_with(ten_ms());
    channel.advance(MS * 5);
    channel.close();
    channel.advance(MS * 50);
    assert_eq!((timeouts(&mut channel), timers(&mut channel)), (vec![], 0));
}
