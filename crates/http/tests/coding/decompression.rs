//! Requests whose bodies are decoded while they are read.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH};
use waterwheel_http::{
    BodyError, ContentCoding, ContentDecodeError, DecodeLimits, Incoming, IntoResponse, Request,
    decompress,
};

use crate::coding_support::{SENT, decode, encode, encoder, without_reason};

const BODY: &[u8] = b"A body of a few words, and a few words more: words, words, words.";

fn request(coding: &str, body: impl Into<Bytes>) -> Request {
    let body = body.into();
    let request = http::Request::post("/").header(CONTENT_LENGTH, body.len());
    let request = match coding {
        "" => request,
        coding => request.header(CONTENT_ENCODING, coding),
    };
    request.body(Incoming::from(body)).unwrap().into()
}

/// Runs a future that only waits for further turns of a loop. Returns how many it took, and its output.
fn turns<F: Future>(future: F) -> (usize, F::Output) {
    let mut future = pin!(future);
    let mut turns = 0;
    loop {
        turns += 1;
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return (turns, output);
        }
        assert!(turns < 10_000, "the future does not end");
    }
}

fn collect(request: Request, limits: DecodeLimits) -> Result<Bytes, BodyError> {
    turns(decompress(request, limits).unwrap().into_body().collect(usize::MAX)).1
}

#[test]
fn h09_a_request_is_decoded_and_loses_the_fields_that_are_no_longer_true() {
    for coding in SENT {
        let request = request(coding.name(), encode(coding, BODY));
        let request = decompress(request, DecodeLimits::default()).unwrap();
        assert!(!request.headers().contains_key(CONTENT_ENCODING));
        assert!(!request.headers().contains_key(CONTENT_LENGTH));
        assert_eq!(request.body().exact_len(), None);
        assert_eq!(turns(request.into_body().collect(BODY.len())).1.unwrap(), BODY);
    }
}

#[test]
fn h09_a_request_without_a_coding_passes_as_it_is() {
    for coding in ["", "identity"] {
        let request = decompress(request(coding, BODY), DecodeLimits::default()).unwrap();
        assert_eq!(request.headers()[CONTENT_LENGTH], BODY.len().to_string());
        assert_eq!(request.body().exact_len(), Some(BODY.len() as u64));
        assert_eq!(turns(request.into_body().collect(BODY.len())).1.unwrap(), BODY);
    }
    let limits = DecodeLimits { size: 10, ..DecodeLimits::default() };
    let error = collect(request("", BODY), limits).unwrap_err();
    assert_eq!(error, ContentDecodeError::TooLarge { limit: 10 }.into());
}

#[test]
fn h09_two_codings_are_decoded_in_the_reverse_order() {
    let body = encode(ContentCoding::Brotli, &encode(ContentCoding::Gzip, BODY));
    let decoded = collect(request("gzip, br", body), DecodeLimits::default());
    assert_eq!(decoded.unwrap(), BODY);
}

#[test]
fn h09_a_body_is_decoded_in_turns_and_chunks_that_are_bounded() {
    let body = vec![b'x'; 1024 * 1024];
    let limits = DecodeLimits { ratio: u64::MAX, ..DecodeLimits::default() };
    for coding in SENT {
        let request = decompress(request(coding.name(), encode(coding, &body)), limits).unwrap();
        let (turns, bytes) = turns(request.into_body().collect(body.len()));
        assert_eq!(bytes.unwrap(), body);
        assert!(turns >= 16, "{coding}: 1 MiB in {turns} turns");
    }
}

#[test]
fn h09_a_body_ends_with_its_first_error() {
    let mut body = decompress(request("gzip", "no gzip"), DecodeLimits::default()).unwrap();
    let coding = ContentCoding::Gzip;
    let error = ContentDecodeError::Corrupt { coding, reason: "no gzip magic number" };
    assert_eq!(turns(body.body_mut().chunk()).1, Some(Err(error.into())));
    assert_eq!(turns(body.body_mut().chunk()).1, None);
    let mut body =
        decompress(request("gzip", BODY[..0].to_vec()), DecodeLimits::default()).unwrap();
    let error = ContentDecodeError::Truncated { coding };
    assert_eq!(turns(body.body_mut().chunk()).1, Some(Err(error.into())));
}

#[test]
fn h09_collecting_more_than_the_callers_limit_is_an_error() {
    let request =
        decompress(request("gzip", encode(ContentCoding::Gzip, BODY)), DecodeLimits::default());
    let (_, result) = turns(request.unwrap().into_body().collect(BODY.len() - 1));
    let limit = BODY.len() - 1;
    assert_eq!(result.unwrap_err(), BodyError::LongerThan { limit });
}

#[test]
fn h09_an_unsupported_coding_is_answered_with_415_and_the_codings_that_are_decoded() {
    for coding in ["compress", "gzip, gzip, gzip"] {
        let error = decompress(request(coding, BODY), DecodeLimits::default()).unwrap_err();
        let response = error.into_response();
        assert_eq!(response.status(), 415);
        assert_eq!(response.headers()[ACCEPT_ENCODING], "gzip, deflate, br, zstd");
    }
}

#[test]
fn h09_limits_are_answered_with_413_and_corrupt_bodies_with_400() {
    let zeros = encode(ContentCoding::Gzip, &vec![0; 1024 * 1024]);
    let small = DecodeLimits { size: 10, ..DecodeLimits::default() };
    let narrow = DecodeLimits { window_log: 10, ..DecodeLimits::default() };
    let mut streamed = encoder(ContentCoding::Brotli);
    let mut brotli = bytes::BytesMut::new();
    streamed.encode(&mut &BODY[..], &mut brotli).unwrap();
    streamed.finish(&mut brotli).unwrap();
    let truncated = encode(ContentCoding::Zstd, BODY).split_to(10);
    let trailing = [&encode(ContentCoding::Brotli, BODY)[..], b"x"].concat();
    for (coding, body, limits, status) in [
        ("gzip", zeros.freeze(), DecodeLimits::default(), 413),
        ("gzip", encode(ContentCoding::Gzip, BODY).freeze(), small, 413),
        ("br", brotli.freeze(), narrow, 413),
        ("gzip", Bytes::from_static(BODY), DecodeLimits::default(), 400),
        ("zstd", truncated.freeze(), DecodeLimits::default(), 400),
        ("br", trailing.into(), DecodeLimits::default(), 400),
    ] {
        let error = collect(request(coding, body), limits).unwrap_err();
        assert_eq!(error.into_response().status(), status, "{error}");
    }
}

/// The reading side without bodies gives the same outcome, cut or whole.
#[test]
fn h09_a_decoded_body_agrees_with_the_decoder() {
    for coding in SENT {
        let encoded = encode(coding, BODY);
        for end in 0..=encoded.len() {
            let whole = decode(&[coding], DecodeLimits::default(), [&encoded[..end]]);
            let read = collect(
                request(coding.name(), encoded.clone().split_to(end)),
                DecodeLimits::default(),
            );
            match (without_reason(whole), read) {
                (Ok(whole), Ok(read)) => assert_eq!(whole, read),
                (Err(error), Err(read)) => assert_eq!(BodyError::Undecodable(error), read),
                (whole, read) => panic!("{coding}: {whole:?}, but {read:?}"),
            }
        }
    }
}
