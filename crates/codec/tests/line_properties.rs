//! Decodes random streams split at random, and compares the lines with those of a simple model.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use waterwheel_codec::{LineDecoder, LineEncoder, LineTooLong};

mod support;

use support::{Outcome, decode, parts, pieces, writer};

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

    /// Returns the lines and errors of a complete stream, by a simple model of the decoder.
    fn model(self, stream: &[u8]) -> Vec<Outcome<Bytes>> {
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

/// Generates streams that consist mostly of the bytes that matter to lines.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    vec(select(b"ab\xff\0\r\r\n\n\n".to_vec()), 0..80)
}

proptest! {
    #[test]
    fn c15_decoded_lines_do_not_depend_on_how_the_stream_is_split(
        options in options(),
        stream in stream(),
        cuts in vec(any::<Index>(), 0..20),
        own_buffers in any::<bool>(),
    ) {
        let decoded = decode(options.decoder(), pieces(&stream, &cuts, own_buffers));
        prop_assert_eq!(decoded, options.model(&stream));
    }

    #[test]
    fn c15_an_encoded_line_decodes_to_the_same_line(
        lines in vec(vec(select(b"ab\xff\0\r\n".to_vec()), 0..12), 0..20),
        cuts in vec(any::<Index>(), 0..20),
        crlf in any::<bool>(),
    ) {
        let mut writer = writer(if crlf { LineEncoder::crlf() } else { LineEncoder::new() });
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
        let sent = parts(&mut writer).concat();
        prop_assert_eq!(decode(LineDecoder::new(12), pieces(&sent, &cuts, false)), accepted);
    }
}
