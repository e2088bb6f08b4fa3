//! Random lines, cut at random: what comes out is what a loop over the bytes would say.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use waterwheel_channel::{Ctx, Decode, HandlerResult, In, InboundHandler};
use waterwheel_codec::{LineDecoder, LineEncoder, LineTooLong};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;

type Outcome = Result<Bytes, String>;

/// What came out of a decoder.
#[derive(Clone, Default)]
struct Record(Rc<RefCell<Vec<Outcome>>>);

impl InboundHandler for Record {
    type In = Bytes;

    fn on_read(&mut self, _: &Ctx<'_>, line: Bytes) -> HandlerResult {
        self.0.borrow_mut().push(Ok(line));
        Ok(())
    }

    fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
        self.0.borrow_mut().push(Err(error.to_string()));
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
struct Options {
    limit: usize,
    fail_fast: bool,
    keep_ends: bool,
    give_unfinished: bool,
}

impl Options {
    fn decoder(self) -> LineDecoder {
        let mut decoder = LineDecoder::new(self.limit);
        if self.fail_fast {
            decoder = decoder.fail_fast();
        }
        if self.keep_ends {
            decoder = decoder.keep_ends();
        }
        if self.give_unfinished {
            decoder = decoder.give_unfinished();
        }
        decoder
    }

    /// The same, in a few lines, for a stream that is there as a whole.
    fn model(self, stream: &[u8]) -> Vec<Outcome> {
        let line = |whole: &[u8]| {
            let ended = whole.ends_with(b"\n");
            let line = whole.strip_suffix(b"\n").unwrap_or(whole);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.len() > self.limit {
                let length = (!self.fail_fast).then_some(line.len());
                Some(Err(LineTooLong { limit: self.limit, length }.to_string()))
            } else if ended || self.give_unfinished {
                let given = if self.keep_ends { whole } else { line };
                Some(Ok(Bytes::copy_from_slice(given)))
            } else {
                None
            }
        };
        stream.split_inclusive(|byte| *byte == b'\n').filter_map(line).collect()
    }
}

fn options() -> impl Strategy<Value = Options> {
    (0..9usize, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(limit, fail_fast, keep_ends, give_unfinished)| Options {
            limit,
            fail_fast,
            keep_ends,
            give_unfinished,
        },
    )
}

/// Mostly what lines are made of.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    vec(select(b"ab\xff\0\r\r\n\n\n".to_vec()), 0..80)
}

/// The stream in pieces, as parts of one block or each with a buffer of its own.
fn pieces(stream: &[u8], cuts: &[Index], own: bool) -> Vec<Bytes> {
    let block = Bytes::copy_from_slice(stream);
    let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
    cuts.extend([0, stream.len()]);
    cuts.sort_unstable();
    let piece = |ends: &[usize]| {
        let piece = block.slice(ends[0]..ends[1]);
        if own { Bytes::copy_from_slice(&piece) } else { piece }
    };
    cuts.windows(2).map(piece).filter(|piece| !piece.is_empty()).collect()
}

proptest! {
    #[test]
    fn c15_lines_are_the_same_however_they_are_cut(
        options in options(),
        stream in stream(),
        cuts in vec(any::<Index>(), 0..20),
        own in any::<bool>(),
    ) {
        let record = Record::default();
        let mut channel = Embedded::builder().stream().build(|edit| {
            edit.add_last("lines", Decode::new(options.decoder()))?;
            edit.add_last("record", In(record.clone()))?;
            Ok(())
        }).unwrap();
        for piece in pieces(&stream, &cuts, own) {
            channel.write_inbound(piece);
        }
        channel.finish_inbound();
        prop_assert_eq!(record.0.take(), options.model(&stream));
    }

    #[test]
    fn c15_what_is_written_as_a_line_is_read_as_that_line(
        lines in vec(vec(select(b"ab\xff\0\r\n".to_vec()), 0..12), 0..20),
        cuts in vec(any::<Index>(), 0..20),
        crlf in any::<bool>(),
    ) {
        let record = Record::default();
        let mut writer = Embedded::builder().stream().build(|edit| {
            edit.add_last("lines", if crlf { LineEncoder::crlf() } else { LineEncoder::new() })?;
            Ok(())
        }).unwrap();
        let mut accepted = Vec::new();
        for line in lines {
            let line = Bytes::from(line);
            let written = writer.on_loop(|channel| channel.write_and_flush(line.clone()));
            writer.run();
            let refused = line.contains(&b'\n') || line.ends_with(b"\r");
            prop_assert_eq!(written.join().is_err(), refused, "{:?}", line);
            if !refused {
                accepted.push(Ok(line));
            }
        }
        let sent: Vec<Bytes> = std::iter::from_fn(|| writer.read_outbound()).collect();
        let mut reader = Embedded::builder().stream().build(|edit| {
            edit.add_last("lines", Decode::new(LineDecoder::new(12)))?;
            edit.add_last("record", In(record.clone()))?;
            Ok(())
        }).unwrap();
        for piece in pieces(&sent.concat(), &cuts, false) {
            reader.write_inbound(piece);
        }
        reader.finish_inbound();
        prop_assert_eq!(record.0.take(), accepted);
    }
}
