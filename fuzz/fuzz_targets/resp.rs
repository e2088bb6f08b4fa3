//! Fuzzes the RESP value decoder: a decoded value that is encoded again decodes to itself.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use waterwheel_codec::{RespDecoder, RespLimits, RespValue, RespVersion};
use waterwheel_fuzz::{Input, check, decode};

/// Limits that admit the encoding of every value decoded within the fuzzer's limits.
const WIDE_LIMITS: RespLimits =
    RespLimits { message: 1 << 20, bulk: 1 << 20, line: 1 << 16, elements: 1 << 16, depth: 128 };

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let limits = RespLimits {
        message: 1 + 8 * input.below(256),
        bulk: input.below(256),
        line: input.below(256),
        elements: input.below(64),
        depth: input.below(16),
    };
    // NaN does not equal itself: values are compared by their debug text.
    let outcomes = check(input, || DebugComparedDecoder(RespDecoder::new(limits)));
    for value in outcomes.into_iter().flatten() {
        for version in [RespVersion::Resp2, RespVersion::Resp3] {
            let mut wire = BytesMut::new();
            value.0.encode(version, &mut wire).expect("a decoded value can be encoded");
            let read = decode(DebugComparedDecoder(RespDecoder::new(WIDE_LIMITS)), [&wire[..]]);
            assert_eq!(read.len(), 1, "the encoding decodes to one value");
            if version == RespVersion::Resp3 {
                assert_eq!(read[0], Ok(Value(value.0.clone())));
            }
        }
    }
});

/// Decodes values that are compared by their debug text.
struct DebugComparedDecoder(RespDecoder);

#[derive(Debug)]
struct Value(RespValue);

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

impl waterwheel_channel::Message for Value {}

impl waterwheel_channel::Decoder for DebugComparedDecoder {
    type Out = Value;

    fn decode(&mut self, buf: &mut bytes::Bytes) -> Result<Option<Value>, waterwheel_fuzz::Error> {
        Ok(waterwheel_channel::Decoder::decode(&mut self.0, buf)?.map(Value))
    }

    fn max_unread(&self) -> usize {
        waterwheel_channel::Decoder::max_unread(&self.0)
    }

    fn decode_last(
        &mut self,
        buf: &mut bytes::Bytes,
    ) -> Result<Option<Value>, waterwheel_fuzz::Error> {
        Ok(waterwheel_channel::Decoder::decode_last(&mut self.0, buf)?.map(Value))
    }
}
