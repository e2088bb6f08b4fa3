//! Allocations of codecs and chains: none, except the box of a message that needs one.

use std::convert::Infallible;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use waterwheel_channel::{
    Decode, Decoder, Emit, Encode, Encoder, Handler, HandlerResult, Inbound, Stage,
};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;

use crate::counting_allocator::allocations_in;

const ROUNDS: u64 = 200;

/// A codec of length-prefixed bytes; a decoded message is a slice of the read buffer.
struct LengthPrefixed;

impl Decoder for LengthPrefixed {
    type Out = Bytes;

    fn decode(&mut self, buf: &mut Bytes) -> Result<Option<Bytes>, Error> {
        let Some(&len) = buf.first() else { return Ok(None) };
        if buf.len() <= usize::from(len) {
            return Ok(None);
        }
        buf.advance(1);
        Ok(Some(buf.split_to(len.into())))
    }
}

impl Encoder for LengthPrefixed {
    type In = u64;

    fn encode(&mut self, number: u64, dst: &mut BytesMut) -> HandlerResult {
        dst.put_u8(8);
        dst.put_u64(number);
        Ok(())
    }
}

/// A stage that turns a message into its length.
struct Length;

impl Stage for Length {
    type In = Bytes;
    type Out = usize;

    fn on<O: Emit<usize>>(&mut self, bytes: Bytes, out: &mut O) -> HandlerResult {
        out.emit(bytes.len())
    }
}

#[derive(Default)]
struct Total(usize);

impl Stage for Total {
    type In = usize;
    type Out = Infallible;

    fn on<O: Emit<Infallible>>(&mut self, len: usize, out: &mut O) -> HandlerResult {
        self.0 += len;
        out.ctx().write_and_flush(Bytes::from_static(b"ok"));
        Ok(())
    }
}

fn embedded(handler: impl Handler) -> Embedded {
    Embedded::builder()
        .stream()
        .build(|edit| {
            edit.add_last("handler", handler)?;
            Ok(())
        })
        .unwrap()
}

/// Returns the allocations of all rounds after a warm-up, less the cost of entering the loop.
fn allocated(handler: impl Handler, round: fn(&Bytes, waterwheel_channel::Pipeline<'_>)) -> u64 {
    let mut channel = embedded(handler);
    // Each round clones this block and shares its memory, as bytes that a driver has read do.
    let block = Bytes::from([3, b'a', b'b', b'c'].repeat(25));
    let mut run = |round: fn(&Bytes, waterwheel_channel::Pipeline<'_>)| {
        let mut rounds = || {
            for _ in 0..ROUNDS {
                let block = block.clone();
                channel.with_pipeline(move |pipeline| round(&block, pipeline));
                while channel.read_outbound_any().is_some() {}
                while channel.read_inbound_any().is_some() {}
            }
        };
        rounds();
        allocations_in(rounds).0
    };
    let nothing = run(|_, _| ());
    run(round) - nothing
}

#[test]
fn c06_messages_that_are_slices_of_the_read_buffer_are_decoded_without_an_allocation() {
    let read =
        allocated(Decode::new(LengthPrefixed), |block, pipeline| pipeline.fire_read(block.clone()));
    assert_eq!(read, 0, "for {} messages", 25 * ROUNDS);
}

#[test]
fn c06_a_chain_allocates_nothing() {
    let chain = || Inbound(Decode::new(LengthPrefixed).then(Length).then(Total::default()));
    let read = allocated(chain(), |block, pipeline| pipeline.fire_read(block.clone()));
    assert_eq!(read, 0, "for {} messages", 25 * ROUNDS);
}

#[test]
fn c06_a_message_in_two_pieces_needs_one_buffer() {
    let read = allocated(Decode::new(LengthPrefixed), |block, pipeline| {
        pipeline.fire_read(block.slice(..2));
        pipeline.fire_read(block.slice(2..4));
    });
    assert_eq!(read, 2 * ROUNDS, "its bytes, and their count of references");
}

#[test]
fn c06_an_encoder_reuses_its_buffer() {
    let written = allocated(Encode::new(LengthPrefixed), |_, pipeline| {
        pipeline.write(7u64);
        pipeline.flush();
    });
    assert_eq!(written, ROUNDS, "the box of each message, and nothing else");
}
