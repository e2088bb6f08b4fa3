//! Fuzzes the delimiter decoder, with delimiters of the fuzzer's choice.
#![no_main]

use libfuzzer_sys::fuzz_target;
use waterwheel_codec::Delimiters;
use waterwheel_fuzz::{Input, check};

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let delimiters: Vec<Vec<u8>> = (0..1 + input.below(4))
        .map(|_| (0..1 + input.below(4)).map(|_| input.byte()).collect())
        .collect();
    let mut shape = Delimiters::new(&delimiters).max_frame(input.below(40));
    if input.flag() {
        shape = shape.keep();
    }
    if input.flag() {
        shape = shape.fail_fast();
    }
    if input.flag() {
        shape = shape.give_unfinished();
    }
    if let Ok(decoder) = shape.decoder() {
        check(input, || decoder.clone());
    }
});
