//! Encoders in a pipeline: messages become bytes, and the promise of each write follows its bytes.

use bytes::{BufMut, Bytes, BytesMut};
use waterwheel_channel::{ChannelFuture, Decode, Encode, Encoder, HandlerResult, Message, Msg};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;

use crate::lines::{Line, LineEncoder, Lines};

fn channel(encoder: impl Encoder) -> Embedded {
    Embedded::new(|edit| {
        edit.add_last("encoder", Encode::new(encoder)).map(drop).map_err(Error::from)
    })
    .unwrap()
}

fn write(channel: &mut Embedded, msg: impl Into<Msg>) -> ChannelFuture {
    let written = channel.on_loop(|channel| channel.write_and_flush(msg));
    channel.run();
    written
}

fn sent(channel: &mut Embedded) -> Vec<Bytes> {
    std::iter::from_fn(|| channel.read_outbound::<Bytes>()).collect()
}

#[test]
fn c06_a_message_becomes_bytes_and_its_promise_goes_with_them() {
    let mut channel = channel(LineEncoder);
    channel.set_room(0);
    let written = write(&mut channel, Line::new("hello"));
    assert!(!written.is_done(), "encoded, but not sent");
    channel.clear_faults();
    assert_eq!(sent(&mut channel), ["hello\n"]);
    assert!(written.join().is_ok());
}

#[test]
fn c07_a_message_that_cannot_be_encoded_fails_its_promise_and_leaves_nothing_behind() {
    let mut channel = channel(LineEncoder);
    let bad = write(&mut channel, Line::new("a\nb"));
    assert_eq!(bad.join().unwrap_err().to_string(), "two lines are not one");
    let good = write(&mut channel, Line::new("c"));
    assert!(good.join().is_ok());
    assert_eq!(sent(&mut channel), ["c\n"], "none of the bytes that were there already");
    assert!(channel.read_error().is_none(), "the error goes to the promise only");
}

#[test]
fn c06_messages_of_other_types_pass_an_encoder() {
    let mut channel = channel(LineEncoder);
    let written = write(&mut channel, 7u32);
    assert!(written.join().is_ok());
    assert_eq!(channel.read_outbound::<u32>(), Some(7));
}

/// Encodes a message of `Fill` bytes.
struct FillEncoder;
struct Fill(usize);

impl Message for Fill {}

impl Encoder for FillEncoder {
    type In = Fill;

    fn encode(&mut self, fill: Fill, dst: &mut BytesMut) -> HandlerResult {
        assert!(dst.is_empty(), "the buffer is empty before each message");
        dst.put_bytes(u8::try_from(fill.0 % 251).unwrap(), fill.0);
        Ok(())
    }
}

#[test]
fn c06_messages_of_all_sizes_are_encoded_separately() {
    let mut channel = channel(FillEncoder);
    let sizes = [1, 4000, 96, 1, 0, 4096, 4097, 1 << 20, 3, 5000, 4096, 2];
    let written: Vec<_> = sizes.iter().map(|size| write(&mut channel, Fill(*size))).collect();
    assert!(written.into_iter().all(|written| written.join().is_ok()), "the empty one too");
    for (bytes, size) in sent(&mut channel).into_iter().zip(sizes) {
        assert_eq!(bytes.len(), size);
        assert!(bytes.iter().all(|byte| usize::from(*byte) == size % 251), "{size}");
    }
}

#[test]
fn c03_a_codec_is_added_and_removed_as_a_pair() {
    let mut channel = Embedded::builder()
        .stream()
        .build(|edit| {
            edit.add_codec("lines", Decode::new(Lines::new(80)), Encode::new(LineEncoder))?;
            Ok(())
        })
        .unwrap();
    assert_eq!(channel.with_pipeline(|it| it.names()).unwrap(), ["lines/decoder", "lines/encoder"]);
    channel.write_inbound(Bytes::from_static(b"in\n"));
    assert_eq!(channel.read_inbound::<Line>(), Some(Line::new("in")));
    assert!(write(&mut channel, Line::new("out")).join().is_ok());
    assert_eq!(sent(&mut channel), ["out\n"]);
    let removed = channel.with_pipeline(|it| it.edit(|edit| edit.remove_codec("lines")));
    assert!(removed.unwrap().is_ok());
    let refused = write(&mut channel, Line::new("out")).join().unwrap_err().to_string();
    assert!(refused.contains("Line cannot be written"), "{refused}");
}
