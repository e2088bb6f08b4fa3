//! Which answers are compressed, and what becomes of their header fields.

use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, ETAG, HeaderMap, VARY};
use http::{HeaderValue, Method, StatusCode, response};
use waterwheel_http::{
    Compression, CompressionFacts, ContentCoding, ContentEncodeError, EncoderOptions,
};

const LARGE: Option<u64> = Some(10_000);

/// Header fields by name and value.
type Fields = &'static [(&'static str, &'static str)];

fn request(method: Method, accept: &'static str) -> CompressionFacts {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(accept));
    CompressionFacts::of(&method, &headers)
}

fn get() -> CompressionFacts {
    request(Method::GET, "gzip")
}

fn answer(status: u16, fields: &[(&'static str, &'static str)]) -> response::Parts {
    let mut parts = http::Response::new(()).into_parts().0;
    parts.status = StatusCode::from_u16(status).unwrap();
    for (name, value) in fields {
        parts.headers.append(*name, HeaderValue::from_static(value));
    }
    parts
}

/// Returns the fields as "name: value", in the order of their names.
fn fields(answer: &response::Parts) -> Vec<String> {
    let field = |(name, value): (_, &HeaderValue)| format!("{name}: {}", value.to_str().unwrap());
    let mut fields = answer.headers.iter().map(field).collect::<Vec<_>>();
    fields.sort();
    fields
}

#[test]
fn h09_an_answer_that_is_compressed_has_its_header_fields_changed() {
    let mut answer = answer(
        200,
        &[
            ("content-type", "text/html"),
            ("content-length", "10000"),
            ("accept-ranges", "bytes"),
            ("etag", "\"one\""),
            ("x-other", "kept"),
        ],
    );
    let coding = Compression::default().prepare(&get(), &mut answer, LARGE);
    assert_eq!(coding, Some(ContentCoding::Gzip));
    let expected = [
        "content-encoding: gzip",
        "content-type: text/html",
        "etag: W/\"one\"",
        "vary: accept-encoding",
        "x-other: kept",
    ];
    assert_eq!(fields(&answer), expected);
}

#[test]
fn h09_an_answer_that_is_not_worth_it_or_not_ours_to_change_is_left_as_it_is() {
    const HTML: (&str, &str) = ("content-type", "text/html");
    let table: &[(u16, Fields, Option<u64>)] = &[
        (200, &[], LARGE),
        (200, &[("content-type", "image/png")], LARGE),
        (200, &[("content-type", "application/zip")], LARGE),
        (200, &[HTML], Some(859)),
        (200, &[HTML], Some(0)),
        (200, &[HTML, ("content-length", "859")], None),
        (200, &[HTML, ("content-encoding", "br")], LARGE),
        (200, &[HTML, ("content-encoding", "identity")], LARGE),
        (200, &[HTML, ("cache-control", "no-transform")], LARGE),
        (200, &[HTML, ("cache-control", "public"), ("cache-control", "a=b, No-Transform")], LARGE),
        (200, &[HTML, ("content-digest", "sha-256=:AA==:")], LARGE),
        (200, &[HTML, ("repr-digest", "sha-256=:AA==:")], LARGE),
        (200, &[HTML, ("digest", "sha-256=AA==")], LARGE),
        (200, &[HTML, ("content-md5", "AA==")], LARGE),
        (200, &[HTML, ("content-range", "bytes 0-9/10")], LARGE),
        (206, &[HTML], LARGE),
        (204, &[HTML], None),
        (205, &[HTML], None),
        (101, &[HTML], None),
        (103, &[HTML], None),
    ];
    for (status, before, length) in table {
        let mut parts = answer(*status, before);
        let unchanged = fields(&parts);
        let coding = Compression::default().prepare(&get(), &mut parts, *length);
        assert_eq!((coding, fields(&parts)), (None, unchanged), "{status} {before:?}");
    }
}

#[test]
fn h09_an_answer_is_compressed_from_the_least_size_on_or_of_unknown_length() {
    for length in [Some(860), None] {
        let mut parts = answer(200, &[("content-type", "text/html")]);
        let coding = Compression::default().prepare(&get(), &mut parts, length);
        assert_eq!(coding, Some(ContentCoding::Gzip), "{length:?}");
    }
    let compression = Compression::builder().min_size(0).build().unwrap();
    let mut parts = answer(404, &[("content-type", "application/problem+json")]);
    assert!(compression.prepare(&get(), &mut parts, Some(1)).is_some());
}

#[test]
fn h09_vary_is_added_to_what_could_have_been_compressed() {
    for accept in ["", "identity", "gzip;q=0", "identity;q=0", "gzip"] {
        let mut parts = answer(200, &[("content-type", "text/css"), ("etag", "\"one\"")]);
        let coding =
            Compression::default().prepare(&request(Method::GET, accept), &mut parts, LARGE);
        assert_eq!(parts.headers[VARY], "accept-encoding", "{accept:?}");
        if accept != "gzip" {
            assert_eq!(coding, None);
            assert_eq!(parts.headers[ETAG], "\"one\"");
            assert!(!parts.headers.contains_key(CONTENT_ENCODING));
        }
    }
}

#[test]
fn h09_vary_lists_accept_encoding_once() {
    for (before, after) in [
        ("origin", vec!["vary: accept-encoding", "vary: origin"]),
        ("Origin, Accept-Encoding", vec!["vary: Origin, Accept-Encoding"]),
        ("*", vec!["vary: *"]),
    ] {
        let mut parts = answer(200, &[("content-type", "text/css"), ("vary", before)]);
        Compression::default().prepare(&get(), &mut parts, LARGE).unwrap();
        let mut listed = fields(&parts);
        listed.retain(|field| field.starts_with("vary"));
        assert_eq!(listed, after);
    }
}

#[test]
fn h09_an_etag_that_is_weak_or_invalid_stays_as_it_is() {
    for tag in ["W/\"one\"", "one", ""] {
        let mut parts = answer(200, &[("content-type", "text/css"), ("etag", tag)]);
        Compression::default().prepare(&get(), &mut parts, LARGE).unwrap();
        assert_eq!(parts.headers[ETAG], tag);
    }
}

#[test]
fn h09_head_is_answered_with_the_fields_of_get_and_nothing_is_encoded() {
    let head = request(Method::HEAD, "gzip");
    // The service declares the length of the body that it leaves out.
    let mut parts = answer(200, &[("content-type", "text/css"), ("content-length", "10000")]);
    assert_eq!(Compression::default().prepare(&head, &mut parts, Some(0)), None);
    let expected = ["content-encoding: gzip", "content-type: text/css", "vary: accept-encoding"];
    assert_eq!(fields(&parts), expected);
    // Nothing is known of the body that GET would bring.
    let mut parts = answer(200, &[("content-type", "text/css")]);
    assert_eq!(Compression::default().prepare(&head, &mut parts, Some(0)), None);
    assert_eq!(fields(&parts), ["content-type: text/css"]);
    let mut parts = answer(200, &[("content-type", "text/css"), ("content-length", "10")]);
    assert_eq!(Compression::default().prepare(&head, &mut parts, None), None);
    assert_eq!(parts.headers[CONTENT_LENGTH], "10");
}

#[test]
fn h09_a_304_varies_and_is_not_encoded() {
    let mut parts = answer(304, &[("content-type", "text/css"), ("etag", "\"one\"")]);
    assert_eq!(Compression::default().prepare(&get(), &mut parts, Some(0)), None);
    let expected = ["content-type: text/css", "etag: \"one\"", "vary: accept-encoding"];
    assert_eq!(fields(&parts), expected);
}

#[test]
fn h09_a_tunnel_is_not_compressed_and_a_refused_one_is_answered_as_usual() {
    let connect = request(Method::CONNECT, "gzip");
    let mut parts = answer(200, &[("content-type", "text/plain")]);
    assert_eq!(Compression::default().prepare(&connect, &mut parts, None), None);
    assert_eq!(fields(&parts), ["content-type: text/plain"]);
    let mut parts = answer(403, &[("content-type", "text/plain")]);
    let coding = Compression::default().prepare(&connect, &mut parts, LARGE);
    assert_eq!(coding, Some(ContentCoding::Gzip));
}

#[test]
fn h09_the_rules_are_configurable_and_checked() {
    let compression = Compression::builder()
        .preference([ContentCoding::Gzip, ContentCoding::Zstd])
        .media_type("Application/X-Protobuf")
        .build()
        .unwrap();
    let mut parts = answer(200, &[("content-type", "application/x-protobuf; v=1")]);
    let all = request(Method::GET, "zstd, gzip, br");
    assert_eq!(compression.prepare(&all, &mut parts, LARGE), Some(ContentCoding::Gzip));
    let mut parts = answer(200, &[("content-type", "text/css")]);
    let default = Compression::default().prepare(&all, &mut parts, LARGE);
    assert_eq!(default, Some(ContentCoding::Zstd));

    let deflate = Compression::builder().preference([ContentCoding::Deflate]).build();
    let coding = ContentCoding::Deflate;
    assert_eq!(deflate.unwrap_err(), ContentEncodeError::NotAvailable { coding });
    let options = EncoderOptions { gzip_level: 10, ..EncoderOptions::default() };
    let error = Compression::builder().encoders(options).build().unwrap_err();
    assert_eq!(error.to_string(), "gzip_level is 10; 1 to 9 are allowed");
}
