//! Fuzzes the NATS decoder in both roles: what is decoded is encoded and decoded to the same operation.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use waterwheel_codec::{NatsDecoder, NatsLimits};
use waterwheel_fuzz::{Input, check, decode};

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let make = if input.flag() { NatsDecoder::client } else { NatsDecoder::server };
    let limits = NatsLimits {
        control_line: input.below(256),
        options: input.below(256),
        payload: input.below(256),
        headers: input.below(256),
    };
    for operation in check(input, || make(limits)).into_iter().flatten() {
        let mut wire = BytesMut::new();
        operation.encode(&mut wire).expect("what was decoded can be encoded");
        let again = decode(make(NatsLimits::default()), [&wire[..]]);
        assert_eq!(again, [Ok(operation)]);
    }
});
