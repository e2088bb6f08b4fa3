//! Fuzzes the fixed-length decoder.
#![no_main]

use libfuzzer_sys::fuzz_target;
use waterwheel_codec::FixedLength;
use waterwheel_fuzz::{Input, check};

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    if let Ok(frames) = FixedLength::new(input.below(20)) {
        check(input, || frames);
    }
});
