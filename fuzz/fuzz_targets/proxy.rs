//! Fuzzes the PROXY decoder: a decoded header that is encoded again decodes to itself.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use waterwheel_codec::ProxyDecoder;
use waterwheel_fuzz::{Input, check, decode};

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let limit = 16 + 4 * input.below(256);
    let outcomes = check(input, || ProxyDecoder::new().max_header(limit));
    for header in outcomes.into_iter().flatten() {
        let mut wire = BytesMut::new();
        header.encode_v2(&mut wire).expect("a decoded header can be encoded");
        let again = decode(ProxyDecoder::new().max_header(usize::MAX), [&wire[..]]);
        assert_eq!(again, [Ok(header)]);
    }
});
