//! Loops that drain, and the types of the client.

use waterwheel_channel::DrainOptions;
use waterwheel_http::{Client, ClientBuilder, ClientError, InvalidClient, Proxy};

use crate::support::{Bench, OK_HELLO, SECOND, URL};

#[test]
fn h11_a_drain_waits_for_responses_and_not_for_idle_connections() {
    let mut bench = Bench::new();
    let idle = bench.open_connection();
    let call = bench.get_text(URL);
    bench.send(&idle, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe");
    let drained = bench.event_loop.event_loop().drain(DrainOptions::within(60 * SECOND));
    bench.run();
    assert!(!drained.is_done());
    bench.send(&idle, "llo");
    assert_eq!(call.take().unwrap(), "hello");
    assert!(drained.is_done(), "nothing is left to wait for");
    assert!(idle.is_closed());
}

#[test]
fn h11_a_request_of_a_loop_that_drains_is_an_error() {
    let mut bench = Bench::new();
    let peer = bench.open_connection();
    let call = bench.get();
    let options = DrainOptions::within(60 * SECOND);
    let _drained = bench.event_loop.event_loop().drain(options);
    bench.run();
    let late = bench.get();
    let error = late.take().unwrap_err();
    assert!(matches!(error, ClientError::Connect { .. }), "{error}");
    bench.send(&peer, OK_HELLO);
    assert!(call.is_done());
}

#[test]
fn h11_a_client_may_be_used_on_any_loop() {
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<Client>();
    is_send_and_sync::<Proxy>();
    is_send_and_sync::<ClientError>();
    is_send_and_sync::<InvalidClient>();
    is_send_and_sync::<ClientBuilder>();
}
