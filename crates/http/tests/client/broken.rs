//! Servers that fail, are slow, or break the protocol; and callers that give up.

use std::io::ErrorKind;

use http::Method;
use waterwheel_executor::Error;
use waterwheel_http::{Body, BodyError, ClientError};

use crate::support::{Bench, OK_HELLO, SECOND, URL, read_text};

/// A response with every kind of part.
const CHUNKED: &str = "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                       5;a=b\r\nhello\r\n1\r\n!\r\n0\r\nsum: 1\r\n\r\n";

#[test]
fn h11_a_connect_that_fails_names_the_server() {
    let mut bench = Bench::new();
    let call = bench.get();
    bench.next_connect().unwrap().refuse(ErrorKind::ConnectionRefused);
    bench.run();
    let error = call.take().unwrap_err();
    assert!(matches!(error, ClientError::Connect { .. }), "{error}");
    let refused =
        "cannot connect to 192.0.2.1:80: cannot connect to 192.0.2.1:80: connection refused";
    assert_eq!(error.to_string(), refused);
    let io = Error::from(error);
    assert_eq!(io.find::<std::io::Error>().unwrap().kind(), ErrorKind::ConnectionRefused);
    bench.assert_nothing_left();
}

#[test]
fn h11_a_name_without_a_resolver_is_an_error_of_the_connect() {
    let mut bench = Bench::new();
    let call = bench.get_url("http://nowhere.test/");
    let error = call.take().unwrap_err();
    assert!(error.to_string().starts_with("cannot connect to nowhere.test:80: "), "{error}");
    bench.assert_nothing_left();
}

#[test]
fn h11_a_server_that_closes_at_any_byte_of_a_response_is_noticed() {
    for response in [CHUNKED, OK_HELLO] {
        for cut in 0..response.len() {
            for is_reset in [false, true] {
                let mut bench = Bench::new();
                let call = bench.get_text(URL);
                let peer = bench.accept();
                bench.send(&peer, &response[..cut]);
                match is_reset {
                    false => bench.finish(&peer),
                    true => bench.reset(&peer),
                }
                let error = call.take().unwrap_err();
                let aborted = BodyError::Aborted.to_string();
                let is_expected = error == aborted
                    || error.starts_with("192.0.2.1:80 closed the connection before the response");
                assert!(is_expected, "after {cut} bytes: {error}");
                assert!(peer.is_closed());
                assert!(bench.next_connect().is_none(), "a new connection is not tried again");
                bench.assert_nothing_left();
            }
        }
    }
}

#[test]
fn h11_a_response_may_come_byte_by_byte() {
    for (response, text) in [(CHUNKED, "hello!"), (OK_HELLO, "hello")] {
        let mut bench = Bench::new();
        let call = bench.get_text(URL);
        let peer = bench.accept();
        for byte in response.as_bytes() {
            bench.send(&peer, [*byte]);
        }
        assert_eq!(call.take().unwrap(), text);
        assert!(!peer.is_closed());
        bench.assert_nothing_left();
    }
}

#[test]
fn h11_malformed_responses_close_the_connection() {
    for response in [
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        // The request has not asked for another protocol.
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    ] {
        let mut bench = Bench::new();
        let call = bench.get();
        let peer = bench.accept();
        bench.send(&peer, response);
        let error = call.take().unwrap_err();
        assert!(matches!(error, ClientError::Malformed { .. }), "{error}");
        assert!(peer.is_closed());
        bench.assert_nothing_left();
    }
    let mut bench = Bench::new();
    let call = bench.get_text(URL);
    let peer = bench.accept();
    bench.send(&peer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n");
    assert!(call.take().unwrap_err().contains("malformed message"));
    assert!(peer.is_closed());
    bench.assert_nothing_left();
}

#[test]
fn h11_a_stale_connection_is_replaced_once_for_idempotent_requests() {
    for (method, is_repeated) in [
        (Method::GET, true),
        (Method::HEAD, true),
        (Method::PUT, true),
        (Method::DELETE, true),
        (Method::POST, false),
        (Method::PATCH, false),
    ] {
        let mut bench = Bench::new();
        let stale = bench.open_connection();
        let named = method.clone();
        let call = bench
            .start(|client| async move { client.request(method, URL).body("data").send().await });
        assert!(bench.received(&stale).starts_with(named.as_str()));
        bench.finish(&stale);
        if !is_repeated {
            let error = call.take().unwrap_err();
            assert!(matches!(error, ClientError::Closed { .. }), "{error}");
            assert!(bench.next_connect().is_none());
            bench.assert_nothing_left();
            continue;
        }
        let peer = bench.accept();
        assert!(bench.received(&peer).ends_with("\r\n\r\ndata"));
        bench.reset(&peer);
        assert!(matches!(call.take().unwrap_err(), ClientError::Closed { .. }));
        assert!(bench.next_connect().is_none(), "a request is not sent three times");
        bench.assert_nothing_left();
    }
}

#[test]
fn h11_a_request_that_meets_two_stale_connections_fails() {
    let mut bench = Bench::new();
    let (one, other) = (bench.get_text(URL), bench.get_text(URL));
    let peers = [bench.accept(), bench.accept()];
    for peer in &peers {
        bench.send(peer, OK_HELLO);
        peer.take_received();
    }
    assert!(one.take().is_ok() && other.take().is_ok());
    let call = bench.get();
    for _ in 0..2 {
        let asked = peers.iter().find(|peer| !peer.take_received().is_empty());
        bench.finish(asked.expect("one of the connections has the request"));
    }
    assert!(matches!(call.take().unwrap_err(), ClientError::Closed { .. }));
    assert!(bench.next_connect().is_none());
    bench.assert_nothing_left();
}

#[test]
fn h11_a_request_is_not_repeated_after_a_byte_of_the_response_or_with_a_stream() {
    let mut bench = Bench::new();
    let stale = bench.open_connection();
    let call = bench.get();
    bench.send(&stale, "H");
    bench.finish(&stale);
    assert!(matches!(call.take().unwrap_err(), ClientError::Closed { .. }));
    assert!(bench.next_connect().is_none());
    bench.assert_nothing_left();

    let mut bench = Bench::new();
    let stale = bench.open_connection();
    let call = bench.start(|client| async move {
        let source = waterwheel_http::poll_source(|_| std::task::Poll::Ready(None));
        client.request(Method::PUT, URL).body(Body::from_source(source)).send().await
    });
    bench.finish(&stale);
    assert!(matches!(call.take().unwrap_err(), ClientError::Closed { .. }));
    assert!(bench.next_connect().is_none());
    bench.assert_nothing_left();
}

#[test]
fn h11_a_connection_that_ended_while_it_was_idle_is_not_used() {
    let mut bench = Bench::new();
    let first = bench.open_connection();
    // The end is on the wire, and the loop has not read it.
    first.finish();
    let call = bench.get_text(URL);
    let second = bench.accept();
    bench.send(&second, OK_HELLO);
    assert_eq!(call.take().unwrap(), "hello");
    bench.assert_nothing_left();
}

#[test]
fn h11_a_caller_that_gives_up_closes_the_connection() {
    // While connecting.
    let mut bench = Bench::new();
    let call = bench.get();
    let connect = bench.next_connect().unwrap();
    call.cancel(&mut bench);
    let peer = connect.accept();
    bench.run();
    // The connection that was begun is kept for the next request.
    assert!(!peer.is_closed() && bench.received(&peer).is_empty());
    bench.assert_nothing_left();

    // While the request is sent.
    let mut bench = Bench::new();
    let call = bench.start(|client| async move {
        client.request(Method::POST, URL).body(vec![0; 1_000_000]).send().await
    });
    let peer = bench.next_connect().unwrap().accept();
    peer.set_limit(100);
    bench.run();
    call.cancel(&mut bench);
    assert!(peer.is_closed());
    bench.assert_nothing_left();

    // While the response is awaited, and in its head.
    for part in ["", "HTTP/1.1 200 OK\r\nContent-"] {
        let mut bench = Bench::new();
        let call = bench.get();
        let peer = bench.accept();
        bench.send(&peer, part);
        call.cancel(&mut bench);
        assert!(peer.is_closed());
        bench.assert_nothing_left();
    }

    // While the body is read.
    let mut bench = Bench::new();
    let call = bench.get_text(URL);
    let peer = bench.accept();
    bench.send(&peer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel");
    call.cancel(&mut bench);
    assert!(peer.is_closed());
    bench.assert_nothing_left();
}

#[test]
fn h11_a_connect_has_a_limit_of_time() {
    let mut bench = Bench::with(|client| client.connect_timeout(5 * SECOND));
    let call = bench.get();
    let connect = bench.next_connect().unwrap();
    bench.advance(4 * SECOND);
    assert!(!call.is_done());
    bench.advance(SECOND);
    let error = call.take().unwrap_err();
    assert_eq!(error.to_string(), "no connection to 192.0.2.1:80 was ready within 5s");
    assert!(connect.is_closed());
    bench.assert_nothing_left();
}

#[test]
fn h11_the_head_of_a_response_has_a_limit_of_time() {
    let mut bench = Bench::with(|client| client.head_timeout(5 * SECOND));
    let call = bench.get();
    let peer = bench.accept();
    bench.advance(4 * SECOND);
    bench.send(&peer, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200");
    assert!(!call.is_done());
    bench.advance(SECOND);
    let error = call.take().unwrap_err();
    assert_eq!(error.to_string(), "192.0.2.1:80 sent no response within 5s after the request");
    assert!(peer.is_closed());
    bench.assert_nothing_left();

    // The time begins with the end of the request.
    let mut bench = Bench::with(|client| client.head_timeout(5 * SECOND));
    let call = bench.start(|client| async move {
        client.request(Method::POST, URL).body(vec![0; 1_000]).send().await
    });
    let peer = bench.next_connect().unwrap().accept();
    peer.set_limit(100);
    bench.run();
    for _ in 0..12 {
        bench.advance(4 * SECOND);
        bench.received(&peer);
    }
    bench.send(&peer, OK_HELLO);
    assert_eq!(call.take().unwrap().status(), 200);
    bench.assert_nothing_left();
}

#[test]
fn h11_a_server_that_reads_nothing_has_a_limit_of_time() {
    let eight = Some(8 * SECOND);
    for (size, head, body) in
        [(1_000, eight, None), (1_000, None, eight), (1_000_000, eight, eight)]
    {
        let mut bench = Bench::with(|client| client.head_timeout(head).body_timeout(body));
        let call = bench.start(move |client| async move {
            client.request(Method::POST, URL).body(vec![0; size]).send().await
        });
        let peer = bench.next_connect().unwrap().accept();
        peer.set_limit(100);
        bench.run();
        for _ in 0..7 {
            bench.advance(SECOND);
        }
        assert!(!call.is_done());
        for _ in 0..4 {
            bench.advance(SECOND);
        }
        let error = call.take().unwrap_err();
        let text = "192.0.2.1:80 read nothing of the request for 8s";
        assert_eq!(error.to_string(), text, "with {size} bytes");
        assert!(peer.is_closed());
        bench.assert_nothing_left();
    }
}

#[test]
fn h11_a_body_that_stops_has_a_limit_of_time() {
    let mut bench = Bench::with(|client| client.body_timeout(8 * SECOND));
    let call = bench.get_text(URL);
    let peer = bench.accept();
    bench.send(&peer, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n");
    for _ in 0..5 {
        for _ in 0..7 {
            bench.advance(SECOND);
        }
        bench.send(&peer, "x");
    }
    for _ in 0..7 {
        bench.advance(SECOND);
    }
    assert!(!call.is_done());
    for _ in 0..3 {
        bench.advance(SECOND);
    }
    assert_eq!(call.take().unwrap_err(), "the body did not come within 8s");
    assert!(peer.is_closed());
    bench.assert_nothing_left();
}

#[test]
fn h11_the_time_of_a_reader_is_not_that_of_the_server() {
    let mut bench = Bench::with(|client| client.body_timeout(8 * SECOND));
    let call = bench.get();
    let peer = bench.accept();
    bench.send(&peer, "HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n");
    bench.send(&peer, vec![b'x'; 300_000]);
    assert!(peer.unread() > 0);
    for _ in 0..100 {
        bench.advance(SECOND);
    }
    let response = call.take().unwrap();
    let text = bench.start(|_| read_text(response));
    for _ in 0..10 {
        bench.run();
    }
    assert_eq!(text.take().unwrap().len(), 300_000);
    bench.assert_nothing_left();
}

#[test]
fn h11_a_whole_request_has_a_limit_of_time() {
    // Before the head.
    let mut bench = Bench::with(|client| client.timeout(5 * SECOND));
    let call = bench.get();
    let peer = bench.accept();
    bench.advance(5 * SECOND);
    let error = call.take().unwrap_err();
    assert_eq!(error.to_string(), "the request to 192.0.2.1:80 was not answered within 5s");
    assert!(peer.is_closed());
    bench.assert_nothing_left();

    // In the body; the request has a limit of its own.
    let mut bench = Bench::with(|client| client.timeout(5 * SECOND));
    let call = bench.start(|client| async move {
        let response = client.request(Method::GET, URL).timeout(7 * SECOND).send().await.unwrap();
        read_text(response).await
    });
    let peer = bench.accept();
    bench.advance(4 * SECOND);
    bench.send(&peer, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n");
    bench.advance(2 * SECOND);
    bench.send(&peer, "x");
    assert!(!call.is_done());
    bench.advance(SECOND);
    assert_eq!(call.take().unwrap_err(), "the body did not come within 7s");
    assert!(peer.is_closed());
    bench.assert_nothing_left();
}

#[test]
fn h11_dropping_the_client_lets_exchanges_finish() {
    let mut bench = Bench::new();
    let idle = bench.open_connection();
    let (one, other) = (bench.get_text(URL), bench.get());
    let peer = bench.accept();
    bench.client = Bench::new().client;
    bench.run();
    // A call that waits keeps the client's parts; a response does not.
    bench.send(&idle, OK_HELLO);
    bench.send(&peer, OK_HELLO);
    assert_eq!(one.take().unwrap(), "hello");
    let response = other.take().unwrap();
    let text = bench.start(|_| read_text(response));
    assert_eq!(text.take().unwrap(), "hello");
    assert!(idle.is_closed() && peer.is_closed());
    bench.assert_nothing_left();
}
