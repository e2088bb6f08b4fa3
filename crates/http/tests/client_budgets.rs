//! Allocation budgets of the client: what a request over a warm connection costs (H11).

use std::time::Duration;

use http::Uri;
use waterwheel_channel::{Bootstrap, EventLoopGroup, ManualEventLoop};
use waterwheel_http::Client;
use waterwheel_testkit::manual::{Manual, Peer};

#[path = "../../../support/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::allocations_in;

const ROUNDS: u64 = 100;

/// The requests that go before: queues and tables grow with them.
const WARM_UP: u64 = 20;

fn turn_until_idle(event_loop: &mut ManualEventLoop) {
    let mut idle_turns = 0;
    while idle_turns < 2 {
        event_loop.turn(Some(Duration::ZERO));
        idle_turns = if event_loop.is_idle() { idle_turns + 1 } else { 0 };
    }
}

/// Returns the allocations of the loop for one of many requests over one connection: sending it, and reading its
/// response.
fn allocations_per_request(
    request: impl AsyncFn(&Client) + 'static,
    answer: &'static str,
) -> (u64, u64) {
    let manual = Manual::readiness();
    let mut event_loop = EventLoopGroup::builder(manual.clone()).build_manual().unwrap();
    let sockets = manual.sockets();
    let bootstrap = Bootstrap::new(&event_loop.event_loop(), sockets.clone());
    let client = Client::builder(bootstrap).build().unwrap();
    let task = event_loop.on_loop(|here| {
        here.spawn_local(async move {
            loop {
                request(&client).await;
            }
        })
    });
    turn_until_idle(&mut event_loop);
    let peer: Peer = sockets.next_connect().unwrap().accept();
    turn_until_idle(&mut event_loop);
    let mut rounds = |count| {
        let mut allocations = 0;
        for _ in 0..count {
            assert!(peer.take_received().ends_with(b"\r\n\r\n"));
            peer.send(answer);
            allocations += allocations_in(|| turn_until_idle(&mut event_loop)).0;
        }
        allocations
    };
    rounds(WARM_UP);
    let total = rounds(ROUNDS);
    assert!(sockets.next_connect().is_none(), "one connection");
    drop(task);
    (total / ROUNDS, total % ROUNDS)
}

/// The name of the server (2), the fields of the request with Host and its value (3), its target, the call, and its head
/// as bytes (2); the head of the response.
const BARE_REQUEST: u64 = 10;

/// The map of fields (2); the pipe of the body, and its queue.
const FIELDS_AND_BODY: u64 = 4;

#[test]
fn h11_a_get_without_a_body_allocates_ten_times() {
    let uri = Uri::from_static("http://192.0.2.1/a/b?c");
    let get = async move |client: &Client| {
        let response = client.get(uri.clone()).await.unwrap();
        assert_eq!(response.status(), 204);
    };
    let counted = allocations_per_request(get, "HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(counted, (BARE_REQUEST, 0));
}

#[test]
fn h11_fields_and_a_body_allocate_four_times_more() {
    let uri = Uri::from_static("http://192.0.2.1/a/b?c");
    let get = async move |client: &Client| {
        let response = client.get(uri.clone()).await.unwrap();
        assert_eq!(response.into_body().collect(10).await.unwrap(), "hello");
    };
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Type: text/plain\r\n\r\nhello";
    assert_eq!(allocations_per_request(get, answer), (BARE_REQUEST + FIELDS_AND_BODY, 0));
}

/// A URL that is parsed for each request costs its bytes, which its parts share.
#[test]
fn h11_a_url_as_text_allocates_twice_more() {
    let get = async move |client: &Client| {
        let response = client.get("http://192.0.2.1/a/b?c").await.unwrap();
        assert_eq!(response.status(), 204);
    };
    let counted = allocations_per_request(get, "HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(counted, (BARE_REQUEST + 2, 0));
}
