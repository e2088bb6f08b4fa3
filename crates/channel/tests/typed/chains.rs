//! Chains: several stages in one slot.

use std::convert::Infallible;

use bytes::{Buf, Bytes};
use waterwheel_channel::{
    ChannelOptions, Decode, Decoder, Emit, HandlerResult, Inbound, Msg, Stage, Types,
};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;

use crate::lines::{Line, Lines};

/// A number parsed from a line. Not a message: it never leaves the chain.
struct Number(u32);

struct Parse;

impl Stage for Parse {
    type In = Line;
    type Out = Number;

    fn on<O: Emit<Number>>(&mut self, line: Line, out: &mut O) -> HandlerResult {
        let text = std::str::from_utf8(&line.0).map_err(Error::new)?;
        out.emit(Number(text.parse().map_err(Error::new)?))
    }
}

/// Answers with the sum so far.
#[derive(Default)]
struct Sum(u32);

impl Stage for Sum {
    type In = Number;
    type Out = Infallible;

    fn on<O: Emit<Infallible>>(&mut self, number: Number, out: &mut O) -> HandlerResult {
        self.0 += number.0;
        out.ctx().write_and_flush(Bytes::from(self.0.to_string()));
        Ok(())
    }

    fn answers(&self) -> Types {
        Types::of::<Bytes>()
    }
}

/// Emits the double of each number, and at the end how many there were.
#[derive(Default)]
struct Double {
    seen: u32,
}

impl Stage for Double {
    type In = Number;
    type Out = u32;

    fn on<O: Emit<u32>>(&mut self, number: Number, out: &mut O) -> HandlerResult {
        self.seen += 1;
        out.emit(2 * number.0)
    }

    fn on_end<O: Emit<u32>>(&mut self, out: &mut O) -> HandlerResult {
        out.emit(self.seen)
    }
}

fn stream<S: Stage<In = Bytes, Out: waterwheel_channel::Message>>(chain: S) -> Embedded {
    Embedded::builder()
        .stream()
        .build(|edit| {
            edit.add_last("chain", Inbound(chain))?;
            Ok(())
        })
        .unwrap()
}

fn lines() -> Decode<Lines> {
    Decode::new(Lines::new(80))
}

fn numbers(channel: &mut Embedded) -> Vec<u32> {
    std::iter::from_fn(|| channel.read_inbound::<u32>()).collect()
}

#[test]
fn c06_the_last_stage_of_a_chain_answers() {
    let mut channel = stream(lines().then(Parse).then(Sum::default()));
    channel.write_inbound(Bytes::from_static(b"1\n2\n3"));
    channel.write_inbound(Bytes::from_static(b"0\n"));
    let sent: Vec<_> = std::iter::from_fn(|| channel.read_outbound::<Bytes>()).collect();
    assert_eq!(sent, ["1", "3", "33"]);
}

#[test]
fn c06_the_output_of_a_chain_and_messages_of_other_types_reach_the_next_handler() {
    let mut channel = Embedded::new(|edit| {
        edit.add_last("chain", Inbound(lines().then(Parse).then(Double::default())))?;
        Ok(())
    })
    .unwrap();
    channel.write_inbound_all([Msg::from(Bytes::from_static(b"1\n2\n")), true.into()]);
    assert_eq!(channel.read_inbound::<u32>(), Some(2));
    assert_eq!(channel.read_inbound::<u32>(), Some(4));
    assert_eq!(channel.read_inbound::<bool>(), Some(true));
}

#[test]
fn c05_an_error_of_a_later_stage_affects_its_own_message_only() {
    let mut channel = stream(lines().then(Parse).then(Double::default()));
    channel.write_inbound(Bytes::from_static(b"1\nx\n3\n"));
    assert_eq!(numbers(&mut channel), [2, 6]);
    let error = channel.read_error().unwrap().to_string();
    assert!(error.contains("invalid digit"), "{error}");
    assert!(channel.read_error().is_none());
}

#[test]
fn c05_the_end_goes_through_a_chain_from_its_first_stage_to_its_last() {
    let mut channel = stream(lines().then(Parse).then(Double::default()));
    channel.write_inbound(Bytes::from_static(b"1\n2"));
    assert_eq!(numbers(&mut channel), [2]);
    channel.finish_inbound();
    assert_eq!(numbers(&mut channel), [4, 2], "the last line, then how many there were");
}

/// Removes its chain from the pipeline at the line "go".
struct RemovesChain;

impl Stage for RemovesChain {
    type In = Line;
    type Out = Line;

    fn on<O: Emit<Line>>(&mut self, line: Line, out: &mut O) -> HandlerResult {
        if line.0 == "go" {
            let ctx = out.ctx();
            ctx.pipeline().remove(ctx.slot())?;
        }
        out.emit(line)
    }
}

#[test]
fn c05_a_removed_chain_passes_on_its_unread_bytes() {
    let mut channel = stream(lines().then(RemovesChain));
    channel.write_inbound(Bytes::from_static(b"a\ngo\nunread\n"));
    channel.write_inbound(Bytes::from_static(b"later"));
    assert_eq!(channel.read_inbound::<Line>(), Some(Line::new("a")));
    assert_eq!(channel.read_inbound::<Line>(), Some(Line::new("go")));
    assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "unread\n");
    assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "later");

    let mut channel = stream(lines().then(RemovesChain));
    channel.write_inbound(Bytes::from_static(b"half"));
    channel.with_pipeline(|it| it.remove("chain")).unwrap().unwrap();
    assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "half");
}

#[test]
fn c09_without_auto_read_a_chain_that_emitted_nothing_requests_a_read() {
    let options = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
    let mut channel = Embedded::builder()
        .options(options)
        .build(|edit| {
            edit.add_last("chain", Inbound(lines().then(Parse).then(Double::default())))?;
            Ok(())
        })
        .unwrap();
    channel.on_loop(|channel| channel.read());
    for piece in ["1", "2", "\n"] {
        channel.write_inbound(Bytes::from_static(piece.as_bytes()));
        assert_eq!(channel.unread(), 0, "{piece:?}");
    }
    assert_eq!(numbers(&mut channel), [24]);
    channel.write_inbound(Bytes::from_static(b"3\n"));
    assert_eq!(
        channel.unread(),
        1,
        "the handler that received the number must request the next read"
    );
}

#[test]
fn c06_a_chain_that_does_not_fit_its_neighbours_is_refused_with_both_names() {
    let refused = Embedded::builder().stream().build(|edit| {
        edit.add_last("lines", lines())?;
        edit.add_last("chain", Inbound(lines().then(Parse).then(Sum::default())))?;
        Ok(())
    });
    assert_eq!(
        refused.unwrap_err().to_string(),
        "`chain` accepts bytes::bytes::Bytes but `lines` before it emits typed::lines::Line"
    );
    // After a chain that emits nothing, no type can mismatch.
    let fits = Embedded::builder().stream().build(|edit| {
        edit.add_last("chain", Inbound(lines().then(Parse).then(Sum::default())))?;
        edit.add_last("lines", lines())?;
        Ok(())
    });
    assert!(fits.is_ok());
}

#[test]
fn c06_a_chain_of_decoders_decodes_the_output_of_the_first() {
    /// Emits the bytes of each line as a buffer for the next decoder.
    struct Words;

    impl Stage for Words {
        type In = Line;
        type Out = Bytes;

        fn on<O: Emit<Bytes>>(&mut self, line: Line, out: &mut O) -> HandlerResult {
            out.emit(line.0)
        }
    }

    struct Pairs;

    impl Decoder for Pairs {
        type Out = u32;

        fn decode(&mut self, buf: &mut Bytes) -> Result<Option<u32>, Error> {
            Ok((buf.len() >= 2).then(|| buf.get_u16().into()))
        }
    }

    let mut channel = stream(lines().then(Words).then(Decode::new(Pairs)));
    channel.write_inbound(Bytes::from_static(b"aba\nbc\nhalf"));
    assert_eq!(numbers(&mut channel), [0x6162, 0x6162]);
    channel.with_pipeline(|it| it.remove("chain")).unwrap().unwrap();
    assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "c", "of the second, which is older");
    assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "half");
}
