//! RESP values; what was read is written, and read again as the same.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use waterwheel_codec::{RespDecoder, RespLimits, RespValue, RespVersion};
use waterwheel_fuzz::{Input, check, decode};

/// Wide enough for what is written of a value that was read within the others.
const WIDE: RespLimits =
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
    // A NaN equals nothing: the words that show a value are compared.
    let outcomes = check(input, || Shown(RespDecoder::new(limits)));
    for value in outcomes.into_iter().flatten() {
        for version in [RespVersion::Resp2, RespVersion::Resp3] {
            let mut wire = BytesMut::new();
            value.0.encode(version, &mut wire).expect("what was read can be written");
            let read = decode(Shown(RespDecoder::new(WIDE)), [&wire[..]]);
            assert_eq!(read.len(), 1, "one value");
            if version == RespVersion::Resp3 {
                assert_eq!(read[0], Ok(Value(value.0.clone())));
            }
        }
    }
});

/// Gives values that are compared as they are shown.
struct Shown(RespDecoder);

#[derive(Debug)]
struct Value(RespValue);

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

impl waterwheel_channel::Message for Value {}

impl waterwheel_channel::Decoder for Shown {
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
