//! Async functions that a server runs for its connections.

use waterwheel_executor::Error;
use waterwheel_websocket::{WebSocket, WebSocketMessage, WebSocketOptions};

use crate::support::frames::frame;
use crate::support::script::Script;
use crate::support::server_bench::ServerBench;

/// Opens a connection of a server that runs this function for it.
fn running<F>(connection: impl Fn(WebSocket) -> F + Clone + Send + Sync + 'static) -> ServerBench
where
    F: Future<Output = Result<(), Error>> + 'static,
{
    let options = WebSocketOptions::default();
    ServerBench::upgraded(
        &options,
        Script::silent(),
        |bootstrap| bootstrap,
        move |upgrade| upgrade.run(connection.clone()),
    )
}

async fn echo(mut socket: WebSocket) -> Result<(), Error> {
    while let Some(message) = socket.next().await {
        let message = message?;
        if message == WebSocketMessage::text("leave") {
            return Ok(());
        }
        if message == WebSocketMessage::text("fail") {
            return Err(Error::new("the table is full"));
        }
        socket.send(message).await?;
    }
    Ok(())
}

#[test]
fn w05_a_function_answers_what_comes_before_the_close_or_a_violation_in_one_read() {
    for (last, expected) in
        [(frame(0x88, b"\x03\xe8", true), "close 1000"), (frame(0x83, b"", true), "close 1002")]
    {
        let mut bench = running(echo);
        let texts = [frame(0x81, b"one", true), frame(0x81, b"two", true), last].concat();
        bench.send_raw(texts);
        let received = bench.received();
        assert_eq!(received[..2], ["text one", "text two"]);
        assert!(received[2].starts_with(expected), "{received:?}");
        bench.finish();
        bench.assert_gone();
    }
}

#[test]
fn w05_a_function_that_returns_closes_with_1000() {
    let mut bench = running(echo);
    bench.send_raw([frame(0x81, b"one", true), frame(0x81, b"leave", true)].concat());
    assert_eq!(bench.received(), ["text one", "close 1000"]);
    assert!(!bench.peer.is_closed(), "the answer is waited for");
    bench.send_close(1000);
    bench.finish();
    bench.assert_gone();
    assert!(bench.faults.take().is_empty());
}

#[test]
fn w05_a_function_that_fails_is_reported_and_closes_with_1011() {
    let mut bench = running(echo);
    bench.send_text("fail");
    assert_eq!(bench.received(), ["close 1011"]);
    bench.send_close(1011);
    bench.finish();
    bench.assert_gone();
    let faults = bench.faults.take();
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].contains("the table is full"), "{faults:?}");
}

#[test]
fn w05_a_function_is_dropped_with_its_connection() {
    let mut bench = running(async |mut socket: WebSocket| {
        socket.send("waiting for ever").await?;
        std::future::pending().await
    });
    assert_eq!(bench.received(), ["text waiting for ever"]);
    bench.peer.reset();
    bench.run();
    bench.assert_gone();
}
