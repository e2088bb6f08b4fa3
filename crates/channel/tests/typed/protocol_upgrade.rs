//! Protocol upgrades in the middle of a buffer.

use bytes::{Buf, Bytes};
use waterwheel_channel::{
    Ctx, Decode, Decoder, Encode, Handler, HandlerResult, In, InboundHandler, Msg, Pipeline, Types,
};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;

use crate::lines::{Line, LineEncoder, Lines};

/// Decodes frames with a length byte before each.
struct Frames;

#[derive(Debug, PartialEq)]
struct Frame(Bytes);

impl waterwheel_channel::Message for Frame {}

impl Decoder for Frames {
    type Out = Frame;

    fn decode(&mut self, buf: &mut Bytes) -> Result<Option<Frame>, Error> {
        let Some(&len) = buf.first() else { return Ok(None) };
        if buf.len() <= usize::from(len) {
            return Ok(None);
        }
        buf.advance(1);
        Ok(Some(Frame(buf.split_to(len.into()))))
    }
}

/// Answers requests; switches to frames at an UPGRADE request.
struct Requests;

impl InboundHandler for Requests {
    type In = Line;

    fn answers(&self) -> Types {
        Types::of::<Line>()
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, request: Line) -> HandlerResult {
        if request.0 != "UPGRADE" {
            ctx.write_and_flush(Line::new(&format!("200 {:?}", request.0)));
            return Ok(());
        }
        ctx.write_and_flush(Line::new("101"));
        ctx.pipeline().edit(|edit| {
            edit.remove_codec("lines")?;
            edit.add_last("frames", Decode::new(Frames))?;
            edit.add_last("echo", In(EchoFrames))?;
            edit.remove(ctx.slot())
        })?;
        Ok(())
    }
}

struct EchoFrames;

impl InboundHandler for EchoFrames {
    type In = Frame;

    fn on_read(&mut self, ctx: &Ctx<'_>, frame: Frame) -> HandlerResult {
        ctx.write_and_flush(frame.0);
        Ok(())
    }
}

fn server() -> Embedded {
    Embedded::builder()
        .stream()
        .build(|edit| {
            edit.add_codec("lines", Decode::new(Lines::new(80)), Encode::new(LineEncoder))?;
            edit.add_last("requests", In(Requests))?;
            Ok(())
        })
        .unwrap()
}

fn sent(channel: &mut Embedded) -> Vec<Bytes> {
    std::iter::from_fn(|| channel.read_outbound::<Bytes>()).collect()
}

/// Contains a frame that the line decoder would take for lines.
const STREAM: &[u8] = b"a\nUPGRADE\n\x05hello\x02we\x06a\nline";
const ANSWERS: [&str; 5] = ["200 b\"a\"\n", "101\n", "hello", "we", "a\nline"];

#[test]
fn c05_frames_behind_an_upgrade_request_are_answered_in_order_after_it() {
    let mut channel = server();
    channel.write_inbound(Bytes::from_static(STREAM));
    assert_eq!(sent(&mut channel).concat(), ANSWERS.concat().into_bytes());
    assert_eq!(channel.with_pipeline(|it| it.names()).unwrap(), ["frames", "echo"]);
    channel.write_inbound(Bytes::from_static(b"\x03and"));
    assert_eq!(sent(&mut channel), ["and"], "and those that come later");
    assert!(channel.read_inbound_any().is_none() && channel.read_error().is_none());
}

#[test]
fn c05_an_upgrade_works_wherever_the_stream_is_cut() {
    let stream = Bytes::from_static(STREAM);
    for cut in 0..stream.len() {
        let mut channel = server();
        channel.write_inbound_all([stream.slice(..cut).into(), stream.slice(cut..).into()]);
        assert_eq!(
            sent(&mut channel).concat(),
            ANSWERS.concat().into_bytes(),
            "cut after byte {cut}"
        );
    }
}

#[test]
fn c05_a_decoder_removed_by_other_code_passes_on_its_unread_bytes() {
    let mut channel = server();
    channel.write_inbound(Bytes::from_static(b"half a li"));
    let removed = channel.with_pipeline(|it: Pipeline<'_>| {
        it.edit(|edit| {
            edit.remove("requests")?;
            edit.remove("lines/decoder")
        })
    });
    assert!(removed.unwrap().is_ok());
    assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "half a li");
    channel.write_inbound(Bytes::from_static(b"ne\n"));
    assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "ne\n");
}

#[test]
fn c03_unread_bytes_of_a_decoder_reach_its_replacement() {
    let mut channel = Embedded::new(|edit| {
        edit.add_last("lines", Decode::new(Lines::new(80)))?;
        Ok(())
    })
    .unwrap();
    channel.write_inbound(Bytes::from_static(b"\x05hel"));
    let replaced = channel.with_pipeline(|it| it.replace("lines", "frames", Decode::new(Frames)));
    assert!(replaced.unwrap().is_ok());
    channel.write_inbound(Bytes::from_static(b"lo"));
    assert_eq!(channel.read_inbound::<Frame>().unwrap(), Frame(Bytes::from_static(b"hello")));
}

/// Fires more bytes from the head of the pipeline, then removes the decoder.
struct Refill;

impl Handler for Refill {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        if msg.get::<Line>().is_some_and(|line| line.0 == "first") {
            ctx.pipeline().fire_read(Bytes::from_static(b"later\n"));
            ctx.pipeline().fire_read_complete();
            ctx.pipeline().remove("lines")?;
        }
        ctx.fire_read(msg);
        Ok(())
    }
}

#[test]
fn c05_bytes_deferred_at_a_decoder_stay_behind_its_unread_bytes() {
    let mut channel = Embedded::new(|edit| {
        edit.add_last("lines", Decode::new(Lines::new(80)))?;
        edit.add_last("refill", Refill)?;
        Ok(())
    })
    .unwrap();
    channel.write_inbound(Bytes::from_static(b"first\nunread"));
    assert_eq!(channel.read_inbound::<Line>(), Some(Line::new("first")));
    assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "unread");
    assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "later\n");
    assert!(channel.read_inbound_any().is_none() && channel.read_error().is_none());
}
