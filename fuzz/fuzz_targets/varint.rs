//! Fuzzes the varint decoder.
#![no_main]

use libfuzzer_sys::fuzz_target;
use waterwheel_codec::VarintDecoder;
use waterwheel_fuzz::{Input, check};

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let limit = input.below(256);
    check(input, || VarintDecoder::new(limit));
});
