//! Fuzzes the response decoder: the responses do not depend on how their bytes are cut, stay within the limits, and are
//! the same after they were encoded again.
#![no_main]

use bytes::BytesMut;
use http::{Method, Version};
use libfuzzer_sys::fuzz_target;
use waterwheel_fuzz::Input;
use waterwheel_fuzz::http::{Seen, assert_same, decode_responses, limits};
use waterwheel_http::{
    BodyFraming, ConnectionField, MessageLimits, ResponseHead, encode_body_end, encode_chunk_start,
    encode_response_head,
};

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let limits = limits(&mut input);
    let step = 1 + input.below(64);
    let method = [Method::GET, Method::HEAD, Method::CONNECT][input.below(3)].clone();
    let Input(stream) = input;
    let whole = decode_responses(limits, &method, [stream]);
    check_encoding(&whole, &method);
    let bytewise = || decode_responses(limits, &method, stream.chunks(1));
    assert_same(decode_responses(limits, &method, stream.chunks(step)), bytewise());
    assert_same(whole, bytewise());
});

/// Encodes every whole response again, and compares what that decodes to.
fn check_encoding(events: &[Seen<ResponseHead>], method: &Method) {
    let limits = MessageLimits::default().max_head_bytes(1 << 20).max_field_lines(1 << 14);
    let mut events = events.iter().peekable();
    while let Some(event) = events.next() {
        let Seen::Head(head) = event else { return };
        let mut wire = BytesMut::new();
        let connection =
            if head.keeps_alive { ConnectionField::Absent } else { ConnectionField::Close };
        encode_response_head(head.status, &head.headers, head.framing, connection, &mut wire);
        let mut body: &[u8] = b"";
        if !matches!(head.framing, BodyFraming::None | BodyFraming::Length(0)) {
            if let Some(Seen::Data(data)) = events.next_if(|event| matches!(event, Seen::Data(_))) {
                body = data;
            }
            let Some(Seen::End(trailers)) = events.next() else { return };
            if head.framing == BodyFraming::Chunked {
                encode_chunk_start(body.len() as u64, &mut wire);
                wire.extend_from_slice(body);
                wire.extend_from_slice(if body.is_empty() { b"" } else { b"\r\n" });
                encode_body_end(Some(trailers), &mut wire);
            } else {
                wire.extend_from_slice(body);
            }
        }
        let again = decode_responses(limits, method, [&wire[..]]);
        let Some(Seen::Head(read)) = again.first() else { panic!("{again:?}") };
        assert_eq!((read.status, read.framing), (head.status, head.framing));
        assert_eq!(read.version, Version::HTTP_11);
        assert!(read.keeps_alive == head.keeps_alive || head.version == Version::HTTP_10);
        let data = again.get(1).map(|event| match event {
            Seen::Data(data) => &data[..],
            _ => b"",
        });
        assert_eq!(data.unwrap_or(b""), body);
    }
}
