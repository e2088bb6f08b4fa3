//! Fuzzes the length-field decoder, with any valid options.
#![no_main]

use libfuzzer_sys::fuzz_target;
use waterwheel_codec::LengthField;
use waterwheel_fuzz::{Input, check};

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let mut shape = LengthField::new(input.below(10))
        .offset(input.below(8))
        .adjustment(i64::from(input.byte() as i8))
        .max_frame(1 + input.below(200));
    if input.flag() {
        shape = shape.strip(input.below(16));
    }
    if input.flag() {
        shape = shape.little_endian();
    }
    if input.flag() {
        shape = shape.fail_late();
    }
    if let Ok(decoder) = shape.decoder() {
        check(input, || decoder.clone());
    }
});
