//! Decodes and encodes lines of text.

use std::convert::Infallible;

use bytes::Bytes;
use waterwheel_channel::{
    Ctx, Decode, Edit, Emit, HandlerResult, In, Inbound, InboundHandler, PipelineError, Stage,
    Types,
};
use waterwheel_codec::{EmbeddedLineEnd, LineDecoder, LineEncoder, NotUtf8, Utf8};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;

fn embedded(make: impl FnOnce(&mut Edit<'_>) -> Result<(), PipelineError>) -> Embedded {
    Embedded::builder().stream().build(|edit| make(edit).map_err(Error::from)).unwrap()
}

/// Returns an embedded stream channel with only a line codec.
fn codec() -> Embedded {
    embedded(|edit| {
        edit.add_codec("lines", LineDecoder::new(80).text(), LineEncoder::new())?;
        Ok(())
    })
}

fn sent(channel: &mut Embedded) -> String {
    let sent: Vec<Bytes> = std::iter::from_fn(|| channel.read_outbound()).collect();
    String::from_utf8(sent.concat()).unwrap()
}

fn texts(channel: &mut Embedded) -> Vec<String> {
    std::iter::from_fn(|| channel.read_inbound()).collect()
}

#[test]
fn c15_lines_are_decoded_to_strings_and_strings_encoded_to_lines() {
    let mut channel = codec();
    channel.write_inbound(Bytes::from("grüß\r\n\nGott\n"));
    assert_eq!(texts(&mut channel), ["grüß", "", "Gott"]);
    channel.on_loop(|channel| {
        channel.send(String::from("grüß"));
        channel.send("dich");
        channel.send(Bytes::from_static(b"Gott"));
        channel.send("");
    });
    assert_eq!(sent(&mut channel), "grüß\ndich\nGott\n\n");
}

#[test]
fn c15_a_utf8_character_may_be_split_between_reads() {
    let mut channel = codec();
    for byte in "ü€𐍈\n".bytes() {
        channel.write_inbound(Bytes::from(vec![byte]));
    }
    assert_eq!(texts(&mut channel), ["ü€𐍈"]);
}

#[test]
fn c15_a_line_that_is_not_utf8_is_one_error_and_the_next_one_is_read() {
    let mut channel = codec();
    channel.write_inbound(Bytes::from_static(b"ab\nab\xffc\ncd\n"));
    assert_eq!(texts(&mut channel), ["ab", "cd"]);
    let error = channel.read_error().unwrap();
    assert_eq!(error.to_string(), NotUtf8 { at: 2, length: 4 }.to_string());
    assert_eq!(error.to_string(), "text of 4 bytes is not valid UTF-8 from byte 2 on");
    assert!(channel.read_error().is_none());
}

#[test]
fn c15_a_message_that_contains_a_line_end_is_refused() {
    let mut channel = codec();
    for (line, at, length) in [("a\nb", 1, 3), ("ab\n", 2, 3), ("\n", 0, 1), ("ab\r", 2, 3)] {
        let [text, bytes] = channel.on_loop(|channel| {
            [
                channel.write_and_flush(String::from(line)),
                channel.write_and_flush(Bytes::from(line)),
            ]
        });
        channel.run();
        let expected = EmbeddedLineEnd { at, length }.to_string();
        assert_eq!(text.join().unwrap_err().to_string(), expected);
        assert_eq!(bytes.join().unwrap_err().to_string(), expected);
    }
    assert_eq!(sent(&mut channel), "", "nothing of a refused message is written");
    channel.on_loop(|channel| channel.send("\ra\rb"));
    assert_eq!(sent(&mut channel), "\ra\rb\n", "a carriage return alone is part of the line");
    assert_eq!(channel.channel().pending_bytes(), 0);
}

#[test]
fn c15_lines_may_end_with_crlf() {
    let mut channel = embedded(|edit| {
        edit.add_last("lines", LineEncoder::crlf())?;
        Ok(())
    });
    channel.on_loop(|channel| {
        channel.send("QUIT");
        channel.send("");
    });
    assert_eq!(sent(&mut channel), "QUIT\r\n\r\n");
}

#[test]
fn c15_long_and_short_lines_are_written_in_order() {
    let mut channel = codec();
    let long = "x".repeat(100_000);
    let copy = long.clone();
    channel.on_loop(move |channel| {
        channel.send("a");
        channel.send(copy);
        channel.send("b");
    });
    channel.run();
    assert_eq!(sent(&mut channel), format!("a\n{long}\nb\n"));
}

#[test]
fn c15_the_encoder_forwards_other_messages() {
    let mut channel = Embedded::new(|edit| {
        edit.add_last("lines", LineEncoder::new())?;
        Ok(())
    })
    .unwrap();
    channel.on_loop(|channel| channel.send(7u32));
    assert_eq!(channel.read_outbound::<u32>(), Some(7));
}

/// Accepts one type of message, and writes another.
struct App<const TEXT: bool>;

impl InboundHandler for App<true> {
    type In = String;

    fn on_read(&mut self, ctx: &Ctx<'_>, line: String) -> HandlerResult {
        ctx.write_and_flush(line);
        Ok(())
    }

    fn answers(&self) -> Types {
        Types::of::<String>()
    }
}

impl InboundHandler for App<false> {
    type In = u32;

    fn on_read(&mut self, _: &Ctx<'_>, _: u32) -> HandlerResult {
        Ok(())
    }
}

#[test]
fn c15_types_are_checked_when_lines_are_added() {
    let build = |make: fn(&mut Edit<'_>) -> Result<(), PipelineError>| {
        let built = Embedded::builder().stream().build(|edit| make(edit).map_err(Error::from));
        built.map(drop).map_err(|error| error.to_string())
    };
    let fits = build(|edit| {
        edit.add_codec("lines", LineDecoder::new(80).text(), LineEncoder::new())?;
        edit.add_last("app", In(App::<true>))?;
        Ok(())
    });
    assert_eq!(fits, Ok(()));
    let bytes = build(|edit| {
        edit.add_codec("lines", Decode::new(LineDecoder::new(80)), LineEncoder::new())?;
        edit.add_last("app", In(App::<true>))?;
        Ok(())
    });
    assert_eq!(
        bytes.unwrap_err(),
        "`app` accepts alloc::string::String but `lines/decoder` before it emits bytes::bytes::Bytes"
    );
    let number = build(|edit| {
        edit.add_codec("lines", LineDecoder::new(80).text(), LineEncoder::new())?;
        edit.add_last("app", In(App::<false>))?;
        Ok(())
    });
    assert_eq!(
        number.unwrap_err(),
        "`app` accepts u32 but `lines/decoder` before it emits alloc::string::String"
    );
}

/// The last stage: answers in upper case, and fails for the line "fail".
struct Uppercase;

impl Stage for Uppercase {
    type In = String;
    type Out = Infallible;

    fn on<O: Emit<Infallible>>(&mut self, line: String, out: &mut O) -> HandlerResult {
        if line == "fail" {
            return Err(Error::new("failed on purpose"));
        }
        out.ctx().write_and_flush(line.to_uppercase());
        Ok(())
    }

    fn answers(&self) -> Types {
        Types::of::<String>()
    }
}

#[test]
fn c15_lines_are_stages_of_a_chain() {
    let mut channel = embedded(|edit| {
        edit.add_last("encoder", LineEncoder::new())?;
        edit.add_last(
            "app",
            Inbound(Decode::new(LineDecoder::new(80)).then(Utf8).then(Uppercase)),
        )?;
        Ok(())
    });
    channel.write_inbound(Bytes::from_static(b"a\nfail\n\xff\nb\nc"));
    assert_eq!((sent(&mut channel), channel.writes()), (String::from("A\nB\n"), 1));
    let errors: Vec<_> = std::iter::from_fn(|| channel.read_error()).collect();
    let said: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(said, ["failed on purpose", "text of 1 bytes is not valid UTF-8 from byte 0 on"]);
}

#[test]
fn c15_a_removed_decoder_passes_unread_bytes_to_the_next_protocol() {
    /// Removes the codec at the line "UPGRADE".
    struct Upgrade;

    impl InboundHandler for Upgrade {
        type In = String;

        fn on_read(&mut self, ctx: &Ctx<'_>, line: String) -> HandlerResult {
            if line == "UPGRADE" {
                ctx.pipeline().edit(|edit| {
                    edit.remove_codec("lines")?;
                    edit.remove(ctx.slot())
                })?;
            }
            Ok(())
        }
    }

    let mut channel = embedded(|edit| {
        edit.add_codec("lines", LineDecoder::new(80).text(), LineEncoder::new())?;
        edit.add_last("app", In(Upgrade))?;
        Ok(())
    });
    channel.write_inbound(Bytes::from_static(b"hello\nUPGR"));
    channel.write_inbound(Bytes::from_static(b"ADE\n\x01\n\x02"));
    channel.write_inbound(Bytes::from_static(b"\x03"));
    let rest: Vec<Bytes> = std::iter::from_fn(|| channel.read_inbound()).collect();
    assert_eq!(rest, [&b"\x01\n\x02"[..], b"\x03"]);
}
