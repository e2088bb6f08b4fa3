//! Fuzzes the RESP command decoder: a decoded command's bytes decode to the same command.
#![no_main]

use libfuzzer_sys::fuzz_target;
use waterwheel_codec::{RespCommand, RespCommandDecoder, RespLimits};
use waterwheel_fuzz::{Input, check, decode};

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let limits = RespLimits {
        message: 1 + 8 * input.below(256),
        bulk: input.below(256),
        line: input.below(256),
        elements: input.below(64),
        ..RespLimits::default()
    };
    let outcomes = check(input, || RespCommandDecoder::new(limits));
    for command in outcomes.into_iter().flatten() {
        assert!(!command.is_empty());
        let again = decode(RespCommandDecoder::default(), [&command.wire()[..]]);
        assert_eq!(again, [Ok(command.clone())]);
        let arguments: Vec<_> = command.iter().collect();
        let rebuilt = RespCommand::new(&arguments);
        assert!(
            rebuilt.iter().eq(command.iter()),
            "the arguments are equal, although the bytes may differ"
        );
    }
});
