//! Fuzzes the request decoder: the requests do not depend on how their bytes are cut, stay within the limits, and are
//! those that httparse and a naive reader see.
#![no_main]

use http::{HeaderMap, Version};
use libfuzzer_sys::fuzz_target;
use waterwheel_fuzz::Input;
use waterwheel_fuzz::http::{
    NaiveRequest, Seen, assert_same, decode_requests, limits, read_naively,
};
use waterwheel_http::{BodyFraming, RequestHead};

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let limits = limits(&mut input);
    let step = 1 + input.below(64);
    let Input(stream) = input;
    let whole = decode_requests(limits, [stream]);
    check_with_others(&whole, stream);
    assert_same(
        decode_requests(limits, stream.chunks(step)),
        decode_requests(limits, stream.chunks(1)),
    );
    assert_same(whole, decode_requests(limits, stream.chunks(1)));
});

/// Checks every whole request that was accepted.
fn check_with_others(events: &[Seen<RequestHead>], stream: &[u8]) {
    let mut rest = stream;
    let mut events = events.iter();
    while let Some(Seen::Head(head)) = events.next() {
        let has_body = !matches!(head.framing(), BodyFraming::None | BodyFraming::Length(0));
        let mut body = &Vec::new();
        if has_body {
            let mut event = events.next();
            if let Some(Seen::Data(data)) = event {
                body = data;
                event = events.next();
            }
            let Some(Seen::End(_)) = event else { return };
        }
        let naive;
        (naive, rest) = read_naively(rest);
        assert_eq!(&naive.body, body);
        assert_eq!(format!("{:?}", head.version()), naive.version);
        check_head(head, &naive);
        check_with_httparse(&naive);
    }
}

fn check_head(head: &RequestHead, naive: &NaiveRequest<'_>) {
    assert_eq!(head.method().as_str(), naive.method);
    assert_eq!(Some(head.uri()), naive.target.parse().ok().as_ref());
    if naive.target.starts_with('/') {
        assert_eq!(head.uri().to_string(), naive.target);
    }
    assert!(matches!(head.version(), Version::HTTP_10 | Version::HTTP_11));
    let mut fields = HeaderMap::new();
    for (name, value) in &naive.fields {
        let name: http::HeaderName = name.parse().unwrap();
        fields.append(name, http::HeaderValue::from_bytes(value).unwrap());
    }
    assert_eq!(*head.headers(), fields);
}

/// Checks that httparse accepts the head, and reads it as the naive reader does.
fn check_with_httparse(naive: &NaiveRequest<'_>) {
    let mut fields = vec![httparse::EMPTY_HEADER; naive.fields.len()];
    let mut other = httparse::Request::new(&mut fields);
    let parsed = other.parse(naive.head);
    assert_eq!(parsed, Ok(httparse::Status::Complete(naive.head.len())));
    assert_eq!(other.method, Some(naive.method));
    assert_eq!(other.path, Some(naive.target));
    assert_eq!(
        other.version.map(|minor| format!("HTTP/1.{minor}")).as_deref(),
        Some(naive.version)
    );
    let others: Vec<_> = other
        .headers
        .iter()
        .map(|field| (field.name.to_ascii_lowercase(), field.value.trim_ascii()))
        .collect();
    assert_eq!(others, naive.fields);
}
