//! Fuzzes the JSON decoder: each frame decodes to itself when it is decoded alone.
#![no_main]

use libfuzzer_sys::fuzz_target;
use waterwheel_codec::JsonDecoder;
use waterwheel_fuzz::{Input, check, decode};

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let (limit, depth) = (input.below(256), input.below(16));
    let make = || JsonDecoder::new().max_frame(limit).max_depth(depth);
    for frame in check(input, make).into_iter().flatten() {
        assert_eq!(decode(make(), [&frame[..]]), [Ok(frame)]);
    }
});
