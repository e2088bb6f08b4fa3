//! Random sequences of requests, cuts, delays, bodies and faults against a model: every answer once, in order.

use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use waterwheel_channel::{Msg, sleep};
use waterwheel_executor::Error;
use waterwheel_http::{Body, BodyError, HttpServer, IntoResponse, Request, Response, poll_source};

use crate::bench::Bench;

/// How a service treats the body of a request.
#[derive(Clone, Copy, Debug)]
enum Reading {
    Collects,
    Drops,
    /// Answers with the body as it comes.
    Echoes,
}

/// A request, and how it is answered.
#[derive(Clone, Debug)]
struct Plan {
    method: &'static str,
    /// The length of the request's body, and whether it is sent in chunks.
    body: Option<(usize, bool)>,
    reading: Reading,
    delay: u64,
    /// The length of the answer's body, and whether it is streamed.
    answer: (usize, bool),
}

fn plans() -> impl Strategy<Value = Vec<Plan>> {
    let method = prop_oneof![3 => Just("GET"), 3 => Just("POST"), 1 => Just("HEAD")];
    let body = prop_oneof![
        2 => Just(None),
        1 => (0usize..3_000, any::<bool>()).prop_map(Some),
        1 => (0usize..50_000, any::<bool>()).prop_map(Some),
    ];
    let reading = prop_oneof![Just(Reading::Collects), Just(Reading::Drops), Just(Reading::Echoes)];
    let delay = prop_oneof![3 => Just(0u64), 2 => 1u64..400];
    let answer = (prop_oneof![3 => 0usize..300, 1 => 0usize..90_000], any::<bool>());
    let plan = (method, body, reading, delay, answer).prop_map(
        |(method, body, reading, delay, answer)| Plan { method, body, reading, delay, answer },
    );
    prop::collection::vec(plan, 1..24)
}

/// Returns the byte with which the bodies of a request are filled.
fn letter(index: usize) -> u8 {
    b'a' + (index % 26) as u8
}

/// Returns the request as bytes.
fn encode(index: usize, plan: &Plan, is_last: bool) -> Vec<u8> {
    let Plan { method, reading, delay, answer: (len, streams), .. } = plan;
    let mut bytes =
        format!("{method} /{index}/{reading:?}/{delay}/{len}/{streams} HTTP/1.1\r\nHost: a\r\n")
            .into_bytes();
    if is_last {
        bytes.extend_from_slice(b"Connection: close\r\n");
    }
    let Some((len, in_chunks)) = plan.body else {
        bytes.extend_from_slice(b"\r\n");
        return bytes;
    };
    let body = vec![letter(index); len];
    if !in_chunks {
        bytes.extend_from_slice(format!("Content-Length: {len}\r\n\r\n").as_bytes());
        bytes.extend_from_slice(&body);
        return bytes;
    }
    bytes.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
    for chunk in body.chunks(700) {
        bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

/// Answers as the path says.
async fn service(request: Request) -> Result<Response, BodyError> {
    let path = request.uri().path().to_owned();
    let parts: Vec<&str> = path[1..].split('/').collect();
    let [index, reading, delay, len, streams] = parts[..] else { unreachable!("{path}") };
    let (delay, len) = (delay.parse().unwrap(), len.parse::<usize>().unwrap());
    let body = request.into_body();
    let mut received = 0;
    let echo = match reading {
        "Collects" => {
            received = body.collect(1 << 20).await?.len();
            None
        }
        "Drops" => None,
        _ => Some(body),
    };
    if delay > 0 {
        sleep(Duration::from_millis(delay)).await;
    }
    let filling = letter(index.parse().unwrap());
    let body = match (echo, streams) {
        (Some(body), _) => Body::from(body),
        (None, "false") => Body::from(vec![filling; len]),
        (None, _) => Body::from_source(pieces(filling, len)),
    };
    let mut response = body.into_response();
    response.headers_mut().insert("index", index.parse().unwrap());
    response.headers_mut().insert("received", received.into());
    Ok(response)
}

/// Returns a source of pieces, of which every third one waits for another turn.
fn pieces(filling: u8, len: usize) -> impl waterwheel_http::BodySource {
    let (mut left, mut turn) = (len, 0);
    poll_source(move |cx| {
        turn += 1;
        if turn % 3 == 0 {
            cx.waker().wake_by_ref();
            return std::task::Poll::Pending;
        }
        let piece = left.min(1_500);
        left -= piece;
        let bytes = Ok::<_, Error>(Bytes::from(vec![filling; piece]));
        std::task::Poll::Ready((piece > 0).then_some(bytes))
    })
}

/// An answer as the client sees it.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    index: usize,
    received: usize,
    body: Vec<u8>,
}

/// Returns the answer of the model.
fn expected(index: usize, plan: &Plan) -> Answer {
    let sent = plan.body.map_or(0, |(len, _)| len);
    let received = if matches!(plan.reading, Reading::Collects) { sent } else { 0 };
    let len = if matches!(plan.reading, Reading::Echoes) { sent } else { plan.answer.0 };
    let body = if plan.method == "HEAD" { Vec::new() } else { vec![letter(index); len] };
    Answer { index, received, body }
}

/// Decodes all answers of a connection.
fn decode(mut bytes: &[u8], plans: &[Plan]) -> Vec<Answer> {
    let mut answers = Vec::new();
    while !bytes.is_empty() {
        let end = bytes.windows(4).position(|end| end == b"\r\n\r\n").expect("a whole head") + 4;
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        bytes = &bytes[end..];
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        let field = |name: &str| {
            let line = head.split("\r\n").find_map(|line| line.strip_prefix(name));
            line.map(|value| value.trim_start_matches(": ").to_owned())
        };
        let index: usize = field("index").unwrap().parse().unwrap();
        let mut body = Vec::new();
        if plans[index].method != "HEAD" {
            match field("content-length") {
                Some(len) => {
                    let (own, rest) = bytes.split_at(len.parse().unwrap());
                    body.extend_from_slice(own);
                    bytes = rest;
                }
                None => bytes = decode_chunks(bytes, &mut body),
            }
        }
        let received = field("received").unwrap().parse().unwrap();
        answers.push(Answer { index, received, body });
    }
    answers
}

/// Decodes a body in chunks; returns what follows.
fn decode_chunks<'a>(mut bytes: &'a [u8], body: &mut Vec<u8>) -> &'a [u8] {
    loop {
        let end = bytes.windows(2).position(|end| end == b"\r\n").expect("a whole size");
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        body.extend_from_slice(&bytes[end + 2..end + 2 + size]);
        bytes = &bytes[end + 2 + size + 2..];
        if size == 0 {
            return bytes;
        }
    }
}

/// The acts of the network and the clock between the pieces.
#[derive(Clone, Copy, Debug)]
enum Event {
    Send(usize),
    SendTwo(usize),
    Advance(u64),
    Room(usize),
    ShortWrites(usize),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => prop_oneof![1usize..60, 1usize..20_000].prop_map(Event::Send),
        1 => (2usize..2_000).prop_map(Event::SendTwo),
        2 => (0u64..200).prop_map(Event::Advance),
        1 => (0usize..30_000).prop_map(Event::Room),
        1 => (1usize..5_000).prop_map(Event::ShortWrites),
    ];
    prop::collection::vec(event, 0..80)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn h04_every_request_has_its_answer_once_and_in_order(
        plans in plans(),
        events in events(),
        max_pipelined in 1usize..20,
        ends in 0usize..3,
    ) {
        let server = HttpServer::builder(service).max_pipelined(max_pipelined).build().unwrap();
        let mut bench = Bench::of(&server);
        let closes = ends == 1;
        let last = plans.len() - 1;
        let mut bytes = Bytes::from(
            plans.iter().enumerate().flat_map(|(n, plan)| encode(n, plan, closes && n == last)).collect::<Vec<u8>>(),
        );
        let mut received = Vec::new();
        for event in events {
            match event {
                Event::Send(len) => bench.channel.write_inbound(bytes.split_to(len.min(bytes.len()))),
                Event::SendTwo(len) => {
                    let mut piece = bytes.split_to(len.min(bytes.len()));
                    let first = piece.split_to(piece.len() / 2);
                    bench.channel.write_inbound_all([Msg::from(first), Msg::from(piece)]);
                }
                Event::Advance(millis) => bench.channel.advance(Duration::from_millis(millis)),
                Event::Room(room) => bench.channel.set_room(room),
                Event::ShortWrites(at_most) => bench.channel.short_writes(at_most),
            }
            bench.channel.run();
            received.extend(bench.received_bytes());
            let metrics = server.metrics();
            prop_assert!(metrics.in_flight <= max_pipelined as u64);
            let answered: u64 = metrics.responses.iter().sum();
            prop_assert_eq!(metrics.requests, answered + metrics.in_flight);
        }
        bench.channel.clear_faults();
        bench.channel.write_inbound(bytes);
        if ends == 2 {
            bench.channel.finish_inbound();
        }
        for _ in 0..plans.len() + 2 {
            bench.channel.advance(Duration::from_millis(400));
            received.extend(bench.received_bytes());
        }
        let model: Vec<_> = plans.iter().enumerate().map(|(n, plan)| expected(n, plan)).collect();
        let answers = decode(&received, &plans);
        for (answer, expected) in answers.iter().zip(&model) {
            prop_assert_eq!(answer, expected);
        }
        prop_assert_eq!(answers.len(), model.len());
        prop_assert_eq!(bench.faults(), 0);
        prop_assert_eq!(server.metrics().in_flight, 0);
        if closes {
            bench.channel.finish_inbound();
        }
        bench.channel.run();
        prop_assert_eq!(bench.is_open(), ends == 0);
    }
}
