//! Requests that are decompressed before a service sees them.

use waterwheel_http::{
    BodyError, ContentCoding, DecodeLimits, HttpServer, Request, Router, decompressed,
};

use crate::client::{Client, SENT, encode, field};

const BODY: &str = "A body of a few words, and a few words more: words, words, words.";

/// Answers with the fields that describe the body, and the body.
async fn echo(request: Request) -> Result<String, BodyError> {
    let names = ["content-encoding", "content-length", "transfer-encoding"];
    let present = names.into_iter().filter(|name| request.headers().contains_key(*name));
    let present = present.collect::<Vec<_>>().join(" ");
    let has_channel = request.body().channel().is_some();
    let body = request.into_body().collect(1024 * 1024).await?;
    Ok(format!("{present}|{has_channel}|{}", String::from_utf8_lossy(&body)))
}

fn client(limits: DecodeLimits) -> Client {
    Client::new(decompressed(echo, limits))
}

/// Posts a body with this coding; returns status and body of the answer.
fn post(client: &mut Client, coding: &str, body: &[u8]) -> (u16, String) {
    let fields = format!("Content-Encoding: {coding}\r\nContent-Length: {}\r\n", body.len());
    let answer = client.ask_with("POST /", &fields, body);
    (answer.status().as_u16(), String::from_utf8(answer.into_body()).unwrap())
}

#[test]
fn h09_a_service_sees_the_decoded_body() {
    let mut client = client(DecodeLimits::default());
    for coding in SENT {
        let encoded = encode(coding, BODY.as_bytes());
        assert_eq!(post(&mut client, coding.name(), &encoded), (200, format!("|true|{BODY}")));
        let mut chunks = Vec::new();
        for chunk in encoded.chunks(7) {
            chunks.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            chunks.extend_from_slice(chunk);
            chunks.extend_from_slice(b"\r\n");
        }
        chunks.extend_from_slice(b"0\r\n\r\n");
        let fields = format!("Content-Encoding: {coding}\r\nTransfer-Encoding: chunked\r\n");
        let answer = client.ask_with("POST /", &fields, &chunks);
        let text = String::from_utf8(answer.into_body()).unwrap();
        assert_eq!(text.rsplit('|').next(), Some(BODY));
    }
    let plain = post(&mut client, "identity", BODY.as_bytes());
    assert_eq!(plain, (200, format!("content-encoding content-length|true|{BODY}")));
    assert_eq!(client.ask("GET /", "").body(), b"|true|");
}

#[test]
fn h09_an_unknown_coding_is_415_in_place_of_the_service() {
    let mut client = client(DecodeLimits::default());
    let fields = "Content-Encoding: compress\r\nContent-Length: 2\r\n";
    let answer = client.ask_with("POST /", fields, b"hi");
    assert_eq!(answer.status(), 415);
    assert_eq!(field(&answer, "accept-encoding"), "gzip, deflate, br, zstd");
    assert_eq!(post(&mut client, "gzip, gzip, gzip", b"hi").0, 415);
}

#[test]
fn h09_bodies_that_are_corrupt_or_exceed_a_limit_are_400_and_413() {
    let bomb = encode(ContentCoding::Gzip, &vec![0; 1024 * 1024]);
    let (status, text) = post(&mut client(DecodeLimits::default()), "gzip", &bomb);
    assert!(status == 413 && text.contains("at most 100 for each are allowed"), "{text}");
    let small = DecodeLimits { size: 10, ..DecodeLimits::default() };
    let too_large = (413, String::from("the decoded body is larger than 10 bytes"));
    let encoded = encode(ContentCoding::Zstd, BODY.as_bytes());
    assert_eq!(post(&mut client(small), "zstd", &encoded), too_large);
    assert_eq!(post(&mut client(small), "identity", BODY.as_bytes()), too_large);
    let mut client = client(DecodeLimits::default());
    assert_eq!(post(&mut client, "gzip", b"no gzip").0, 400);
    assert_eq!(post(&mut client, "zstd", &encoded[..encoded.len() - 1]).0, 400);
    assert_eq!(post(&mut client, "zstd", &encoded).0, 200, "the connection goes on");
}

#[test]
fn h09_a_router_may_stand_behind_decompression() {
    let router = || Router::builder().post("/", echo).build().unwrap();
    let make = move || decompressed(router(), DecodeLimits::default());
    let mut client = Client::of(&HttpServer::per_loop(make).build().unwrap());
    let encoded = encode(ContentCoding::Brotli, BODY.as_bytes());
    assert_eq!(post(&mut client, "br", &encoded), (200, format!("|true|{BODY}")));
    assert_eq!(client.ask("GET /", "").status(), 405);
}
