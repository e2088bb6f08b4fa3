//! Decoders in a pipeline: their input, their errors, and the end of the stream.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::{Buf, Bytes};
use waterwheel_channel::{
    ChannelOptions, Ctx, DEFAULT_MAX_UNREAD, Decode, Decoder, HalfClosed, Handler, HandlerResult,
    In, Inbound, InboundHandler, Msg,
};
use waterwheel_executor::Error;
use waterwheel_testkit::decoder_verifier::DecoderVerifier;
use waterwheel_testkit::embedded::Embedded;

use crate::lines::{Line, Lines};

fn channel(decoder: impl Decoder) -> Embedded {
    Embedded::new(|edit| {
        edit.add_last("decoder", Decode::new(decoder)).map(drop).map_err(Error::from)
    })
    .unwrap()
}

/// Returns the lines that were read.
fn lines(channel: &mut Embedded) -> Vec<String> {
    std::iter::from_fn(|| channel.read_inbound::<Line>())
        .map(|line| String::from_utf8(line.0.to_vec()).unwrap())
        .collect()
}

fn errors(channel: &mut Embedded) -> Vec<String> {
    std::iter::from_fn(|| channel.read_error()).map(|error| error.to_string()).collect()
}

#[test]
fn c06_messages_are_the_same_however_their_bytes_are_cut() {
    DecoderVerifier::new(|| Lines::new(8))
        .gives("one\n", [Line::new("one")])
        .gives("two\n\nfour\n", [Line::new("two"), Line::new(""), Line::new("four")])
        .fails("much too long\n", "the line is too long")
        .gives("after it\nunfin", [Line::new("after it")])
        .gives_at_end([Line::new("unfin")])
        .verify();
}

#[test]
fn c06_a_part_of_a_message_waits_for_the_rest() {
    let mut channel = channel(Lines::new(80));
    channel.write_inbound(Bytes::from_static(b"one\ntw"));
    assert_eq!(lines(&mut channel), ["one"]);
    channel.write_inbound(Bytes::from_static(b"o\nthree"));
    assert_eq!(lines(&mut channel), ["two"]);
    channel.write_inbound(Bytes::from_static(b"\n"));
    assert_eq!(lines(&mut channel), ["three"]);
}

#[test]
fn c06_messages_that_are_not_bytes_pass_a_decoder() {
    let mut channel = channel(Lines::new(80));
    channel.write_inbound_all([Msg::from(7u32), Bytes::from_static(b"a\n").into()]);
    assert_eq!(channel.read_inbound::<u32>(), Some(7));
    assert_eq!(lines(&mut channel), ["a"]);
}

/// Returns a message in every call and consumes no byte.
struct ConsumesNothing;

impl Decoder for ConsumesNothing {
    type Out = u32;

    fn decode(&mut self, _: &mut Bytes) -> Result<Option<u32>, Error> {
        Ok(Some(1))
    }
}

#[test]
fn c06_a_decoder_that_consumes_nothing_is_an_error_and_not_a_loop() {
    let mut channel = channel(ConsumesNothing);
    channel.write_inbound(Bytes::from_static(b"abc"));
    channel.write_inbound(Bytes::from_static(b"abc"));
    let errors = errors(&mut channel);
    let [error] = &errors[..] else { panic!("one error, not {errors:?}") };
    assert!(
        error.contains("ConsumesNothing returned a message without consuming a byte"),
        "{error}"
    );
    assert!(channel.read_inbound_any().is_none(), "and nothing else");
}

/// Decodes numbers of one digit. An error consumes its byte if `consume` is set.
struct Digits {
    consume: bool,
}

impl Decoder for Digits {
    type Out = u32;

    fn decode(&mut self, buf: &mut Bytes) -> Result<Option<u32>, Error> {
        let byte = buf[0];
        if let Some(digit) = char::from(byte).to_digit(10) {
            buf.advance(1);
            return Ok(Some(digit));
        }
        if self.consume {
            buf.advance(1);
        }
        Err(Error::new(format!("{byte} is no digit")))
    }
}

fn numbers(channel: &mut Embedded) -> Vec<u32> {
    std::iter::from_fn(|| channel.read_inbound::<u32>()).collect()
}

#[test]
fn c05_decoding_continues_after_an_error_that_consumed_bytes() {
    let mut channel = channel(Digits { consume: true });
    channel.write_inbound(Bytes::from_static(b"1a23"));
    assert_eq!(numbers(&mut channel), [1, 2, 3], "without waiting for more");
    assert_eq!(errors(&mut channel), ["97 is no digit"]);
}

#[test]
fn c05_after_an_error_that_consumed_nothing_the_rest_is_dropped() {
    let mut channel = channel(Digits { consume: false });
    channel.write_inbound(Bytes::from_static(b"1a2"));
    channel.write_inbound(Bytes::from_static(b"3"));
    channel.finish_inbound();
    assert_eq!(numbers(&mut channel), [1]);
    assert_eq!(errors(&mut channel), ["97 is no digit"], "said once");
}

/// Removes the decoder when it reports an error.
struct RemovesDecoderOnError;

impl Handler for RemovesDecoderOnError {
    fn on_error(&mut self, ctx: &Ctx<'_>, _: Error) -> HandlerResult {
        ctx.pipeline().remove("decoder").map_err(Error::from)
    }
}

#[test]
fn c05_a_decoder_removed_for_its_error_passes_on_the_bytes_it_failed_at() {
    for consume in [false, true] {
        let mut channel = channel(Digits { consume });
        channel.with_pipeline(|it| it.add_last("unless", RemovesDecoderOnError)).unwrap().unwrap();
        channel.write_inbound(Bytes::from_static(b"1abc"));
        channel.write_inbound(Bytes::from_static(b"2"));
        assert_eq!(channel.read_inbound::<u32>(), Some(1));
        let unread = if consume { "bc" } else { "abc" };
        assert_eq!(channel.read_inbound::<Bytes>().unwrap(), unread);
        assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "2");
    }
}

/// Logs inbound events by name.
struct RecordingHandler(Rc<RefCell<Vec<String>>>);

impl RecordingHandler {
    fn note(&self, what: impl Into<String>) -> HandlerResult {
        self.0.borrow_mut().push(what.into());
        Ok(())
    }
}

impl Handler for RecordingHandler {
    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.note(match msg.get::<Line>() {
            Some(line) => format!("{:?}", line.0),
            None => format!("{msg:?}"),
        })
    }

    fn on_read_complete(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.note("read complete")
    }

    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.note("inactive")
    }

    fn on_user_event(&mut self, _: &Ctx<'_>, event: Msg) -> HandlerResult {
        assert_eq!(event.get(), Some(&HalfClosed::Input));
        self.note("half closed")
    }

    fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
        self.note(error.to_string())
    }
}

/// Returns the events after a decoder for `bytes` followed by the end of the stream.
fn events_of(decoder: impl Decoder, bytes: &'static str) -> Vec<String> {
    let notes = Rc::new(RefCell::new(Vec::new()));
    let mut channel = channel(decoder);
    let last = RecordingHandler(notes.clone());
    channel.with_pipeline(|it| it.add_last("notes", last)).unwrap().unwrap();
    channel.write_inbound(Bytes::from_static(bytes.as_bytes()));
    channel.finish_inbound();
    notes.take()
}

#[test]
fn c05_messages_left_at_the_end_come_before_on_inactive() {
    assert_eq!(
        events_of(Lines::new(80), "a\nrest"),
        ["b\"a\"", "read complete", "b\"rest\"", "read complete", "inactive"]
    );
    assert_eq!(events_of(Lines::new(80), "a\n"), ["b\"a\"", "read complete", "inactive"]);
}

/// Emits one message at the end of the stream: the stream's length.
#[derive(Default)]
struct WholeStream {
    len: u32,
    strict: bool,
    ended: bool,
}

impl Decoder for WholeStream {
    type Out = u32;

    fn decode(&mut self, buf: &mut Bytes) -> Result<Option<u32>, Error> {
        self.len += u32::try_from(buf.len()).unwrap();
        buf.clear();
        Ok(None)
    }

    fn decode_last(&mut self, _: &mut Bytes) -> Result<Option<u32>, Error> {
        assert!(!std::mem::replace(&mut self.ended, true), "asked once, if it consumes nothing");
        if self.strict { Err(Error::new("cut off")) } else { Ok(Some(self.len)) }
    }
}

#[test]
fn c05_the_end_itself_can_complete_a_message() {
    let notes = events_of(WholeStream::default(), "12345");
    assert_eq!(notes, ["read complete", "Msg(u32)", "read complete", "inactive"]);
    DecoderVerifier::new(WholeStream::default).gives("12345", []).gives_at_end([5]).verify();
}

#[test]
fn c05_a_decoder_may_fail_at_the_end_of_the_stream() {
    let strict = WholeStream { strict: true, ..WholeStream::default() };
    assert_eq!(events_of(strict, "12345"), ["read complete", "cut off", "inactive"]);
}

/// Returns the events after a decoder when the peer finishes, and then the events of the close.
fn events_at_half_closure(handler: impl Handler) -> (Vec<String>, Vec<String>) {
    let options = ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() };
    let notes = Rc::new(RefCell::new(Vec::new()));
    let last = RecordingHandler(notes.clone());
    let made = Embedded::builder().options(options).build(|edit| {
        edit.add_last("decoder", handler)?;
        edit.add_last("notes", last)?;
        Ok(())
    });
    let mut channel = made.unwrap();
    channel.write_inbound(Bytes::from_static(b"12345"));
    channel.finish_inbound();
    assert!(channel.channel().is_open());
    let at_half = notes.take();
    channel.close();
    (at_half, notes.take())
}

#[test]
fn c10_decode_last_is_called_when_the_peer_has_finished() {
    let expected = ["read complete", "Msg(u32)", "read complete", "half closed"];
    let (at_half, at_end) = events_at_half_closure(Decode::new(WholeStream::default()));
    assert_eq!(at_half, expected);
    assert_eq!(at_end, ["inactive"], "and not again");
    let (at_half, at_end) = events_at_half_closure(Inbound(Decode::new(WholeStream::default())));
    assert_eq!(at_half, expected);
    assert_eq!(at_end, ["inactive"]);
}

#[test]
fn c05_half_a_message_at_the_end_is_dropped_unless_the_decoder_says_otherwise() {
    struct Pairs;
    impl Decoder for Pairs {
        type Out = u32;

        fn decode(&mut self, buf: &mut Bytes) -> Result<Option<u32>, Error> {
            if buf.len() < 2 {
                return Ok(None);
            }
            buf.advance(2);
            Ok(Some(2))
        }
    }
    assert_eq!(events_of(Pairs, "123"), ["Msg(u32)", "read complete", "inactive"]);
}

/// A decoder that never completes a message.
struct NeverCompletes(Option<usize>);

impl Decoder for NeverCompletes {
    type Out = u32;

    fn decode(&mut self, _: &mut Bytes) -> Result<Option<u32>, Error> {
        Ok(None)
    }

    fn max_unread(&self) -> usize {
        self.0.unwrap_or(DEFAULT_MAX_UNREAD)
    }
}

#[test]
fn r04_a_peer_that_never_ends_its_message_does_not_fill_the_memory() {
    let mut small = channel(NeverCompletes(Some(10)));
    small.write_inbound(Bytes::from_static(b"0123456789"));
    assert_eq!(errors(&mut small), Vec::<String>::new());
    small.write_inbound(Bytes::from_static(b"x"));
    small.write_inbound(Bytes::from_static(b"y"));
    let told = errors(&mut small);
    let why =
        "NeverCompletes left 11 bytes unread, more than its limit of 10: see Decoder::max_unread";
    assert!(told.len() == 1 && told[0].ends_with(why), "once: {told:?}");

    let mut default = channel(NeverCompletes(None));
    let block = Bytes::from(vec![b'x'; 64 * 1024]);
    for _ in 0..=DEFAULT_MAX_UNREAD / block.len() {
        default.write_inbound(block.clone());
    }
    assert_eq!(errors(&mut default).len(), 1);
}

#[test]
fn c09_without_auto_read_a_decoder_that_emitted_nothing_requests_a_read() {
    let options = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
    let mut channel = Embedded::builder()
        .options(options)
        .build(|edit| {
            edit.add_last("lines", Decode::new(Lines::new(80)))?;
            Ok(())
        })
        .unwrap();
    channel.write_inbound(Bytes::from_static(b"on"));
    assert_eq!(channel.unread(), 1, "no read was requested");
    channel.on_loop(|channel| channel.read());
    channel.run();
    assert_eq!(channel.unread(), 0);
    channel.write_inbound(Bytes::from_static(b"e"));
    assert_eq!(channel.unread(), 0, "half a line: the decoder requested a read");
    channel.write_inbound(Bytes::from_static(b"\n"));
    assert_eq!((channel.unread(), lines(&mut channel)), (0, vec!["one".to_owned()]));
    channel.write_inbound(Bytes::from_static(b"two\n"));
    assert_eq!(
        channel.unread(),
        1,
        "the handler that received the line must request the next read"
    );
}

#[test]
fn c09_a_decoder_that_failed_requests_no_read() {
    let options = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
    let mut channel = Embedded::builder()
        .options(options)
        .build(|edit| {
            edit.add_last("digits", Decode::new(Digits { consume: false }))?;
            Ok(())
        })
        .unwrap();
    channel.on_loop(|channel| channel.read());
    channel.write_inbound(Bytes::from_static(b"a"));
    assert_eq!((channel.unread(), errors(&mut channel).len()), (0, 1));
    channel.write_inbound(Bytes::from_static(b"a"));
    assert_eq!(channel.unread(), 1);
}

/// Counts calls of `read`.
struct CountsReadRequests(Rc<Cell<u32>>);

impl Handler for CountsReadRequests {
    fn read(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.0.set(self.0.get() + 1);
        ctx.read();
        Ok(())
    }
}

#[test]
fn c09_with_auto_read_a_decoder_requests_no_read() {
    let asked = Rc::new(Cell::new(0));
    let mut channel = channel(Lines::new(80));
    let first = CountsReadRequests(asked.clone());
    channel.with_pipeline(|it| it.add_first("asked", first)).unwrap().unwrap();
    channel.write_inbound(Bytes::from_static(b"half"));
    assert_eq!(asked.get(), 1, "once for the round");
}

#[test]
fn c06_a_handler_for_a_type_that_no_decoder_emits_is_refused_with_both_names() {
    struct Numbers;
    impl InboundHandler for Numbers {
        type In = u32;

        fn on_read(&mut self, _: &Ctx<'_>, _: u32) -> HandlerResult {
            Ok(())
        }
    }
    let refused = Embedded::builder().stream().build(|edit| {
        edit.add_last("lines", Decode::new(Lines::new(80)))?;
        edit.add_last("numbers", In(Numbers))?;
        Ok(())
    });
    assert_eq!(
        refused.unwrap_err().to_string(),
        "`numbers` accepts u32 but `lines` before it emits typed::lines::Line"
    );
}
