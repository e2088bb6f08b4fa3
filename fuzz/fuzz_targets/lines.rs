//! Fuzzes the line decoder, with any options.
#![no_main]

use libfuzzer_sys::fuzz_target;
use waterwheel_codec::LineDecoder;
use waterwheel_fuzz::{Input, check};

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let (limit, options) = (input.below(40), input.byte());
    check(input, || {
        let mut decoder = LineDecoder::new(limit);
        if options & 1 != 0 {
            decoder = decoder.fail_fast();
        }
        if options & 2 != 0 {
            decoder = decoder.keep_ends();
        }
        match options & 12 {
            4 => decoder.give_unfinished(),
            8 => decoder.fail_unfinished(),
            _ => decoder,
        }
    });
});
