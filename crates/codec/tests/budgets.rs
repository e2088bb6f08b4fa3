//! Allocation budgets of lines, frames and commands.

use std::convert::Infallible;

use bytes::Bytes;
use waterwheel_channel::{
    Completion, Decode, Decoder, Edit, Emit, Handler, HandlerResult, Inbound, Pipeline,
    PipelineError, Stage,
};
use waterwheel_codec::{
    Delimiters, FixedLength, JsonDecoder, LengthField, LineDecoder, LineEncoder, NatsDecoder,
    NatsLimits, NatsOperation, RespCommand, RespCommandDecoder, RespValue, RespVersion, Utf8,
    VarintDecoder,
};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;

#[path = "../../../support/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::allocations_in;

const ROUNDS: u64 = 200;

/// The number of lines in one read.
const LINES: u64 = 25;

/// Returns the allocations of all rounds beyond those of an empty round, after every buffer has grown to its size.
fn allocated(
    make: impl FnOnce(&mut Edit<'_>) -> Result<(), PipelineError>,
    round: fn(&Bytes, Pipeline<'_>),
) -> u64 {
    allocated_for(b"hello, world\r\n", make, round)
}

fn allocated_for(
    message: &[u8],
    make: impl FnOnce(&mut Edit<'_>) -> Result<(), PipelineError>,
    round: fn(&Bytes, Pipeline<'_>),
) -> u64 {
    let mut channel =
        Embedded::builder().stream().build(|edit| make(edit).map_err(Error::from)).unwrap();
    // A slice of a shared block, like the bytes that a driver reads.
    let block = Bytes::from(message.repeat(LINES as usize));
    let mut run = |round: fn(&Bytes, Pipeline<'_>)| {
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

/// Returns the allocations of reading blocks of lines with this handler.
fn read(handler: impl Handler) -> u64 {
    let make = |edit: &mut Edit<'_>| edit.add_last("lines", handler).map(drop);
    allocated(make, |block, pipeline| pipeline.fire_read(block.clone()))
}

/// A line in as many pieces as it has bytes: the most expensive way to read it.
#[test]
fn c15_a_line_received_byte_by_byte_is_copied_into_one_buffer() {
    let mut channel = Embedded::builder()
        .stream()
        .build(|edit| Ok(edit.add_last("lines", Decode::new(LineDecoder::new(LONG))).map(drop)?))
        .unwrap();
    let line = Bytes::from([&[b'x'; LONG][..], b"\n"].concat());
    let feed = line.clone();
    let (allocated, _) = allocations_in(|| {
        channel.with_pipeline(move |pipeline| {
            for at in 0..feed.len() {
                pipeline.fire_read(feed.slice(at..=at));
            }
        });
    });
    assert_eq!(channel.read_inbound::<Bytes>().unwrap(), line[..LONG]);
    assert!(
        allocated < 40,
        "{allocated} allocations: the buffer doubles each time, and has a reference count"
    );
}

const LONG: usize = 64 * 1024;

/// The last stage of a chain: answers without an allocation of its own.
struct Answer;

impl Stage for Answer {
    type In = Bytes;
    type Out = Infallible;

    fn on<O: Emit<Infallible>>(&mut self, line: Bytes, out: &mut O) -> HandlerResult {
        out.ctx().write_and_flush(line);
        Ok(())
    }
}

#[test]
fn c15_a_line_is_decoded_without_an_allocation() {
    assert_eq!(read(Decode::new(LineDecoder::new(80))), 0, "for {} lines", LINES * ROUNDS);
}

#[test]
fn c15_a_line_in_a_chain_is_answered_without_an_allocation() {
    let chain = Inbound(Decode::new(LineDecoder::new(80)).then(Answer));
    assert_eq!(read(chain), 0, "for {} lines", LINES * ROUNDS);
}

#[test]
fn c15_a_text_line_allocates_its_string_and_a_box() {
    assert_eq!(read(LineDecoder::new(80).text()), 2 * LINES * ROUNDS);
}

#[test]
fn c15_a_text_line_in_a_chain_allocates_only_its_string() {
    struct DropLine;

    impl Stage for DropLine {
        type In = String;
        type Out = Infallible;

        fn on<O: Emit<Infallible>>(&mut self, _: String, _: &mut O) -> HandlerResult {
            Ok(())
        }
    }

    let chain = Inbound(Decode::new(LineDecoder::new(80)).then(Utf8).then(DropLine));
    assert_eq!(read(chain), LINES * ROUNDS);
}

#[test]
fn c15_lines_are_encoded_without_an_allocation_each() {
    let encoder = |edit: &mut Edit<'_>| edit.add_last("lines", LineEncoder::new()).map(drop);
    let written = allocated(encoder, |block, pipeline| {
        pipeline.write(block.slice(..12));
        pipeline.flush();
    });
    assert_eq!(written, 0, "for {ROUNDS} lines");
}

/// Reads each line `hello, world\r\n` as a frame: its first byte, `h` (104), is the length; 104 − 91 = 13 bytes follow.
fn frames_of_lines() -> LengthField {
    LengthField::new(1).adjustment(-91).strip(0)
}

#[test]
fn k05_a_frame_with_a_length_field_is_decoded_without_an_allocation() {
    let decoder = frames_of_lines().decoder().unwrap();
    assert_eq!(read(Decode::new(decoder)), 0, "for {} frames", LINES * ROUNDS);
}

#[test]
fn k05_a_frame_with_a_length_field_in_a_chain_is_answered_without_an_allocation() {
    let chain = Inbound(Decode::new(frames_of_lines().decoder().unwrap()).then(Answer));
    assert_eq!(read(chain), 0, "for {} frames", LINES * ROUNDS);
}

#[test]
fn k05_lengths_are_prepended_without_an_allocation() {
    let prepender = LengthField::new(4).prepender().unwrap();
    let make = |edit: &mut Edit<'_>| edit.add_last("frames", prepender).map(drop);
    let written = allocated(make, |block, pipeline| {
        pipeline.write(block.slice(..12));
        pipeline.flush();
    });
    assert_eq!(written, 0, "for {ROUNDS} frames");
}

/// The last stage of a chain: answers a command without an allocation of its own.
struct AnswerArgument;

impl Stage for AnswerArgument {
    type In = RespCommand;
    type Out = Infallible;

    fn on<O: Emit<Infallible>>(&mut self, command: RespCommand, out: &mut O) -> HandlerResult {
        out.ctx().write_and_flush(command.argument(2).unwrap());
        Ok(())
    }
}

#[test]
fn k05_a_command_in_a_chain_is_answered_without_an_allocation() {
    let command = RespCommand::new(&["SET", "key", "hello, world", "EX", "10", "NX"]);
    let chain = Inbound(Decode::new(RespCommandDecoder::default()).then(AnswerArgument));
    let make = |edit: &mut Edit<'_>| edit.add_last("commands", chain).map(drop);
    let read = allocated_for(command.wire(), make, |block, pipeline| {
        pipeline.fire_read(block.clone());
    });
    assert_eq!(read, 0, "for {} commands", LINES * ROUNDS);
}

/// The last stage of a chain: answers each command with a small value.
struct AnswerInteger;

impl Stage for AnswerInteger {
    type In = RespCommand;
    type Out = Infallible;

    fn on<O: Emit<Infallible>>(&mut self, command: RespCommand, out: &mut O) -> HandlerResult {
        let reply = RespValue::Integer(command.len() as i64);
        reply.write(&out.ctx(), RespVersion::Resp2, &mut Completion::none())?;
        out.ctx().flush();
        Ok(())
    }
}

#[test]
fn k05_small_resp_replies_are_one_part_and_need_no_allocation() {
    const PIPELINED: usize = 16;
    let chain = Inbound(Decode::new(RespCommandDecoder::default()).then(AnswerInteger));
    let mut channel = Embedded::builder()
        .stream()
        .build(|edit| edit.add_last("commands", chain).map(drop).map_err(Error::from))
        .unwrap();
    let commands = Bytes::from(RespCommand::new(&["INCR", "key"]).wire().repeat(PIPELINED));
    let mut parts = 0;
    let writes = channel.writes();
    let mut rounds = || {
        for _ in 0..ROUNDS {
            let commands = commands.clone();
            channel.with_pipeline(move |pipeline| pipeline.fire_read(commands));
            while let Some(part) = channel.read_outbound::<Bytes>() {
                assert_eq!(part.len(), PIPELINED * b":2\r\n".len());
                parts += 1;
            }
        }
    };
    rounds();
    let (allocated, _) = allocations_in(rounds);
    assert_eq!(
        (parts, channel.writes() - writes),
        (2 * ROUNDS, 2 * ROUNDS as usize),
        "one part a round"
    );
    // Entering the loop from the test allocates; an answer does not.
    let (entering, _) = allocations_in(|| {
        for _ in 0..ROUNDS {
            let commands = commands.clone();
            channel.with_pipeline(move |_| drop(commands));
        }
    });
    assert_eq!(allocated - entering, 0, "for {} replies", PIPELINED as u64 * ROUNDS);
}

/// Answers a message of NATS with its payload.
struct AnswerPayload;

impl Stage for AnswerPayload {
    type In = NatsOperation;
    type Out = Infallible;

    fn on<O: Emit<Infallible>>(&mut self, operation: NatsOperation, out: &mut O) -> HandlerResult {
        if let NatsOperation::Deliver { message, .. } = operation {
            out.ctx().write_and_flush(message.payload);
        }
        Ok(())
    }
}

#[test]
fn k05_a_nats_message_in_a_chain_is_decoded_without_an_allocation() {
    let message = b"HMSG news.de 7 _INBOX.1 12 24\r\nNATS/1.0\r\n\r\nhello, world\r\n";
    let chain =
        Inbound(Decode::new(NatsDecoder::client(NatsLimits::default())).then(AnswerPayload));
    let make = |edit: &mut Edit<'_>| edit.add_last("messages", chain).map(drop);
    let read = |block: &Bytes, pipeline: Pipeline<'_>| pipeline.fire_read(block.clone());
    assert_eq!(allocated_for(message, make, read), 0, "for {} messages", LINES * ROUNDS);
}

/// Returns the allocations of reading blocks of this message with this decoder.
fn decoding(message: &[u8], decoder: impl Decoder) -> u64 {
    let make = |edit: &mut Edit<'_>| edit.add_last("frames", Decode::new(decoder)).map(drop);
    allocated_for(message, make, |block, pipeline| pipeline.fire_read(block.clone()))
}

#[test]
fn k05_frames_of_every_kind_are_decoded_without_an_allocation() {
    let delimiters = Delimiters::new(["\r\n", "\n"]).decoder().unwrap();
    assert_eq!(decoding(b"hello, world\r\n", delimiters), 0, "delimiters");
    assert_eq!(decoding(b"hello, world", FixedLength::new(12).unwrap()), 0, "fixed length");
    assert_eq!(decoding(b"\x0chello, world", VarintDecoder::new(80)), 0, "varint");
    // The first frame allocates the stack of brackets, once.
    assert_eq!(decoding(br#"{"hello": ["world"]}"#, JsonDecoder::new()), 0, "JSON");
}
