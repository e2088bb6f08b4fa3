//! Clients of HTTP/1 and HTTP/2.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1;
use hyper::rt::Executor;
use waterwheel_async::{ByteStream, ConnectAsync, ScopeExecutor};

use crate::http_bench::{
    HttpBench, address, ask, connect_http2, describe, serve_http1, serve_http2,
};

#[test]
fn a04_a_client_of_http1_sends_requests_on_one_connection() {
    let mut bench = HttpBench::new();
    bench.serve(|connection| serve_http1(connection, describe));
    let client = bench.client();
    let answers = bench.spawn(async move {
        let connection = client.connect_async::<Bytes, Bytes>(address()).await.unwrap();
        let executor = ScopeExecutor::of(&connection);
        let (mut requests, http) = http1::handshake(ByteStream::new(connection)).await.unwrap();
        executor.execute(http);
        let mut answers = Vec::new();
        for size in [0, 10, 1_000_000] {
            let body = Full::new(Bytes::from(vec![0; size]));
            let request = Request::post("/upload").body(body).unwrap();
            let answer = requests.send_request(request).await.unwrap();
            answers.push(answer.into_body().collect().await.unwrap().to_bytes());
        }
        answers
    });
    bench.run();
    let answers = answers.take().unwrap();
    assert_eq!(answers, ["POST /upload 0", "POST /upload 10", "POST /upload 1000000"]);
}

#[test]
fn a04_a_client_of_http2_sends_requests_at_once() {
    let mut bench = HttpBench::new();
    bench.serve(|connection| serve_http2(connection, describe));
    let client = bench.client();
    let requests = bench.spawn(connect_http2(client)).take().unwrap();
    let answers: Vec<_> = (0..100)
        .map(|number| {
            let mut requests = requests.clone();
            bench.spawn(async move { ask(&mut requests, &format!("/{number}")).await.unwrap() })
        })
        .collect();
    for (number, answer) in answers.iter().enumerate() {
        assert_eq!(answer.take().unwrap(), format!("GET /{number} 0"));
    }
}

#[test]
fn a04_the_last_handle_of_a_client_closes_its_connection() {
    let mut bench = HttpBench::new();
    bench.serve(|connection| serve_http2(connection, describe));
    let client = bench.client();
    let mut requests = bench.spawn(connect_http2(client)).take().unwrap();
    let asked = bench.spawn(async move {
        ask(&mut requests, "/").await.unwrap();
    });
    assert!(asked.take().is_some());
    let drained = bench.drain();
    assert!(drained.is_done(), "neither side has anything left");
    assert_eq!(bench.reports().take_texts(), [""; 0]);
}

#[test]
fn a04_a_request_fails_when_the_server_disappears() {
    let mut bench = HttpBench::new();
    bench.serve(|connection| async move { drop(connection) });
    let client = bench.client();
    let answer = bench.spawn(async move {
        let mut requests = connect_http2(client).await;
        ask(&mut requests, "/").await
    });
    assert!(answer.take().unwrap().is_err());
}
