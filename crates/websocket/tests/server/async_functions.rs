//! Async functions whose connection ends while they send.

use waterwheel_channel::DrainOptions;
use waterwheel_executor::Error;
use waterwheel_websocket::{CloseCode, WebSocket, WebSocketMessage, WebSocketOptions};

use crate::support::loop_bench::SECOND;
use crate::support::script::Script;
use crate::support::server_bench::ServerBench;

fn serve<F>(connection: impl Fn(WebSocket) -> F + Clone + Send + Sync + 'static) -> ServerBench
where
    F: Future<Output = Result<(), Error>> + 'static,
{
    let options = WebSocketOptions::default();
    let configure = |bootstrap| bootstrap;
    ServerBench::upgraded(&options, Script::silent(), configure, move |upgrade| {
        upgrade.run(connection.clone())
    })
}

async fn echo(mut socket: WebSocket) -> Result<(), Error> {
    while let Some(message) = socket.next().await {
        socket.send(message?).await?;
    }
    Ok(())
}

#[test]
fn r04_a_violation_that_an_async_function_returns_is_no_line_in_the_log() {
    let mut bench = serve(echo);
    bench.send(0x83, b"");
    assert_eq!(bench.received(), ["close 1002 the opcode 0x3 is reserved"]);
    bench.advance(5 * SECOND);
    bench.assert_gone();
    assert_eq!(bench.faults.take(), [""; 0]);
}

#[test]
fn w05_a_send_refused_while_closing_is_no_failure_of_an_async_function() {
    let mut bench = serve(echo);
    drop(bench.event_loop.event_loop().drain(DrainOptions::default()));
    assert_eq!(bench.received(), ["close 1001"]);
    bench.send_text("on its way");
    bench.send_close(1001);
    bench.finish();
    assert_eq!(bench.faults.take(), [""; 0]);
}

#[test]
fn w02_an_error_of_an_async_function_is_reported() {
    let mut bench = serve(|mut socket| async move {
        socket.next().await;
        Err(Error::new("the table is full"))
    });
    bench.send_text("go");
    let faults = bench.faults.take();
    assert!(faults.len() == 1 && faults[0].contains("the table is full"), "{faults:?}");
}

#[test]
fn w05_an_async_close_to_a_peer_that_does_not_read_has_the_limit_of_the_handshake() {
    let mut bench = serve(|mut socket| async move {
        socket.next().await;
        socket.send(WebSocketMessage::binary(vec![0; 100_000])).await?;
        socket.close(CloseCode::NORMAL).await;
        Ok(())
    });
    bench.peer.set_limit(1_000);
    bench.send_text("go");
    bench.advance(5 * SECOND);
    bench.assert_gone();
    assert_eq!(bench.faults.take(), [""; 0]);
}
