//! Requests and responses, and the connections they use.

use http::{Method, Request, StatusCode};
use waterwheel_http::{Body, ClientError, MessageLimits};

use crate::support::{Bench, OK_HELLO, SECOND, URL, read_text};

#[test]
fn h11_a_get_over_a_new_connection() {
    let mut bench = Bench::new();
    let call = bench.get_url("http://192.0.2.1:8080/a/b?c=d");
    let connect = bench.next_connect().unwrap();
    assert_eq!(connect.target().unwrap().to_string(), "192.0.2.1:8080");
    let peer = connect.accept();
    assert_eq!(bench.received(&peer), "GET /a/b?c=d HTTP/1.1\r\nhost: 192.0.2.1:8080\r\n\r\n");
    bench.send(&peer, "HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 5\r\n\r\nhello");
    let response = call.take().unwrap();
    assert_eq!(
        (response.status(), &response.headers()["x-a"]),
        (StatusCode::OK, &"b".parse().unwrap())
    );
    let text = bench.start(|_| read_text(response));
    assert_eq!(text.take().unwrap(), "hello");
    assert!(!peer.is_closed());
    bench.assert_nothing_left();
}

#[test]
fn h11_a_connection_is_used_again() {
    let mut bench = Bench::new();
    let peer = bench.open_connection();
    for _ in 0..3 {
        let call = bench.get_text(URL);
        assert!(bench.next_connect().is_none());
        assert_eq!(bench.received(&peer), "GET / HTTP/1.1\r\nhost: 192.0.2.1\r\n\r\n");
        bench.send(&peer, OK_HELLO);
        assert_eq!(call.take().unwrap(), "hello");
    }
    bench.assert_nothing_left();
}

#[test]
fn h11_two_requests_at_once_use_two_connections() {
    let mut bench = Bench::new();
    let (one, other) = (bench.get_text(URL), bench.get_text(URL));
    let (first, second) = (bench.accept(), bench.accept());
    bench.send(&second, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2");
    assert!(other.is_done() && !one.is_done());
    bench.send(&first, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1");
    assert_eq!((one.take().unwrap(), other.take().unwrap()), ("1".to_owned(), "2".to_owned()));
    bench.assert_nothing_left();
}

#[test]
fn h11_a_request_waits_for_a_connection_at_the_limit_of_the_pool() {
    let mut bench = Bench::with(|client| client.pool(|pool| pool.max_open(1)));
    let (one, other) = (bench.get_text(URL), bench.get_text(URL));
    let peer = bench.accept();
    assert!(bench.next_connect().is_none());
    bench.received(&peer);
    bench.send(&peer, OK_HELLO);
    assert!(one.is_done() && !other.is_done());
    assert!(bench.received(&peer).starts_with("GET / "));
    bench.send(&peer, OK_HELLO);
    assert_eq!(other.take().unwrap(), "hello");

    // A response that is not read keeps its connection; the request that waits gives up.
    let unread = bench.get();
    bench.send(&peer, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
    let waits = bench.get_text(URL);
    bench.advance(30 * SECOND);
    let error = waits.take().unwrap_err();
    assert_eq!(error, "no connection to 192.0.2.1:80 was ready within 30s");
    bench.drop_on_loop(unread.take());
    bench.advance(SECOND);
    assert!(peer.is_closed(), "the rest of the response did not come");
    bench.assert_nothing_left();
}

#[test]
fn h11_responses_end_their_connection_when_they_say_so() {
    for (response, body) in [
        ("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi", "hi"),
        ("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", "hi"),
        ("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", ""),
        // Bytes behind a response answer no request.
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\n", "hi"),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\nhi", ""),
    ] {
        let mut bench = Bench::new();
        let call = bench.get_text(URL);
        let peer = bench.accept();
        bench.send(&peer, response);
        assert_eq!(call.take().unwrap(), body, "{response}");
        assert!(peer.is_closed(), "{response}");
        bench.assert_nothing_left();
    }
}

#[test]
fn h11_responses_without_a_body_keep_their_connection() {
    let mut bench = Bench::new();
    let peer = bench.open_connection();
    for (method, response) in [
        (Method::HEAD, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
        (Method::DELETE, "HTTP/1.1 204 No Content\r\n\r\n"),
        (Method::GET, "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"),
        (Method::GET, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        (Method::GET, "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n"),
    ] {
        let call = bench.start(move |client| async move {
            read_text(client.request(method, URL).send().await.unwrap()).await
        });
        bench.send(&peer, response);
        assert_eq!(call.take().unwrap(), "", "{response}");
        assert!(!peer.is_closed(), "{response}");
    }
    bench.assert_nothing_left();
}

#[test]
fn h11_bytes_that_nobody_asked_for_close_an_idle_connection() {
    let mut bench = Bench::new();
    let peer = bench.open_connection();
    bench.send(&peer, "HTTP/1.1 200 OK\r\n");
    assert!(peer.is_closed());
    let call = bench.get_text(URL);
    let peer = bench.accept();
    bench.send(&peer, OK_HELLO);
    assert_eq!(call.take().unwrap(), "hello");
    bench.assert_nothing_left();
}

#[test]
fn h11_an_idle_connection_is_closed_after_its_limit_and_when_the_server_closes_it() {
    let mut bench = Bench::with(|client| client.pool(|pool| pool.idle_limit(10 * SECOND)));
    let peer = bench.open_connection();
    bench.advance(9 * SECOND);
    assert!(!peer.is_closed());
    bench.advance(2 * SECOND);
    assert!(peer.is_closed());
    let peer = bench.open_connection();
    bench.finish(&peer);
    assert!(peer.is_closed());
    bench.open_connection();
    bench.assert_nothing_left();
}

#[test]
fn h11_interim_responses_are_skipped_up_to_a_limit() {
    let interim = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
    for (count, is_accepted) in [(1, true), (16, true), (17, false)] {
        let mut bench = Bench::new();
        let call = bench.get();
        let peer = bench.accept();
        bench.send(&peer, interim.repeat(count));
        bench.send(&peer, "HTTP/1.1 204 No Content\r\n\r\n");
        match call.take() {
            Ok(response) => assert!(is_accepted && response.status() == 204),
            Err(error) => {
                assert!(!is_accepted && peer.is_closed());
                assert!(matches!(error, ClientError::TooManyInterim { limit: 16, .. }), "{error}");
            }
        }
        bench.assert_nothing_left();
    }
}

#[test]
fn h11_the_head_of_a_request_is_written_by_the_client() {
    let cases: [(http::Request<Body>, &str); 7] = [
        (
            Request::put("http://a.test/x").header("host", "b.test").body("hi".into()).unwrap(),
            "PUT /x HTTP/1.1\r\nhost: b.test\r\ncontent-type: text/plain; charset=utf-8\r\n\
             content-length: 2\r\n\r\nhi",
        ),
        (
            Request::post("http://A.test").body(Body::empty()).unwrap(),
            "POST / HTTP/1.1\r\nhost: A.test\r\ncontent-length: 0\r\n\r\n",
        ),
        (
            Request::get("http://a.test?q")
                .header("connection", "close")
                .body(Body::empty())
                .unwrap(),
            "GET /?q HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n\r\n",
        ),
        (
            Request::get("http://a.test/")
                .header("content-length", "7")
                .body(Body::empty())
                .unwrap(),
            "GET / HTTP/1.1\r\nhost: a.test\r\n\r\n",
        ),
        (
            Request::get("http://a.test:80/").header("upgrade", "x").body(Body::empty()).unwrap(),
            "GET / HTTP/1.1\r\nhost: a.test\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        ),
        (
            Request::get("http://[::1]:81/").body(Body::empty()).unwrap(),
            "GET / HTTP/1.1\r\nhost: [::1]:81\r\n\r\n",
        ),
        (
            Request::connect("a.test:443").body(Body::empty()).unwrap(),
            "CONNECT a.test:443 HTTP/1.1\r\nhost: a.test:443\r\n\r\n",
        ),
    ];
    for (mut request, head) in cases {
        let mut bench = Bench::new();
        // The manual driver has no resolver: the names stand for one address.
        let uri = request.uri().to_string().to_lowercase().replace("a.test", "192.0.2.1");
        let is_named = uri.contains("192.0.2.1");
        if is_named {
            let host = request.headers_mut().remove("host");
            request.headers_mut().extend(host.map(|host| (Some(http::header::HOST), host)));
            *request.uri_mut() = uri.parse().unwrap();
        }
        let expected = head.replace("A.test", "a.test").replace("a.test", "192.0.2.1");
        let call = bench.start(|client| async move { client.send(request).await });
        let peer = bench.accept();
        assert_eq!(bench.received(&peer), expected);
        call.cancel(&mut bench);
        assert!(peer.is_closed());
        bench.assert_nothing_left();
    }
}

#[test]
fn h11_the_connection_field_of_a_request_is_kept() {
    let mut bench = Bench::new();
    let call = bench.start(|client| async move {
        let request = client.request(Method::GET, URL).header("connection", "close");
        read_text(request.send().await.unwrap()).await
    });
    let peer = bench.accept();
    bench.send(&peer, OK_HELLO);
    assert_eq!(call.take().unwrap(), "hello");
    assert!(peer.is_closed(), "the server was told that this is the last request");
    bench.assert_nothing_left();
}

#[test]
fn h11_requests_that_cannot_be_sent_are_refused_before_a_connect() {
    let mut bench = Bench::new();
    let refusals: [(Method, &str, &str); 6] = [
        (Method::GET, "ftp://a/", "the URL ftp://a/ cannot be requested: its scheme is neither"),
        (Method::GET, "/a", "the URL /a cannot be requested: it has no scheme"),
        (Method::GET, "http://me:secret@a/", "the URL of a cannot be requested: user names"),
        (Method::GET, "https://a/", "a:443 needs TLS, which the client was built without"),
        (Method::CONNECT, "http://a/", "the URL http://a/ cannot be requested: it has no port"),
        (Method::GET, "http://a b/", "the request is invalid: "),
    ];
    for (method, url, text) in refusals {
        let call = bench.start(|client| async move { client.request(method, url).send().await });
        let error = call.take().unwrap_err().to_string();
        assert!(error.starts_with(text), "{error}");
    }
    let call = bench.start(|client| async move {
        let request = client.request(Method::GET, URL).header("a b", "c");
        request.send().await
    });
    assert!(matches!(call.take().unwrap_err(), ClientError::InvalidRequest { .. }));
    let call = bench.start(|client| async move {
        client.request(Method::POST, URL).body(Body::upgrade(|_| Ok(()))).send().await
    });
    assert!(matches!(call.take().unwrap_err(), ClientError::InvalidRequest { .. }));
    assert!(bench.next_connect().is_none());
    bench.assert_nothing_left();
}

#[test]
fn h11_requests_off_a_loop_are_an_error() {
    let bench = Bench::new();
    let call = std::pin::pin!(bench.client.get(URL));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let polled = call.poll(&mut context);
    assert!(matches!(polled, std::task::Poll::Ready(Err(ClientError::NoLoop))));
}

#[test]
fn h11_limits_of_responses() {
    let limits = MessageLimits::default().max_head_bytes(100).max_body_bytes(4);
    for (response, text) in [
        (
            format!("HTTP/1.1 200 OK\r\na: {}\r\n\r\n", "b".repeat(100)),
            "the head is longer than 100 bytes",
        ),
        (OK_HELLO.to_owned(), "the body has 5 bytes or more, and at most 4 are accepted"),
    ] {
        let mut bench = Bench::with(|client| client.limits(limits));
        let call = bench.get_text(URL);
        let peer = bench.accept();
        bench.send(&peer, response);
        let error = call.take().unwrap_err();
        assert_eq!(error, format!("192.0.2.1:80 sent an invalid response: {text}"));
        assert!(peer.is_closed());
        bench.assert_nothing_left();
    }
}

#[test]
fn h11_builders_check_their_options() {
    let build = |change: fn(waterwheel_http::ClientBuilder) -> waterwheel_http::ClientBuilder| {
        let bench = Bench::new();
        let loops = bench.event_loop.event_loop();
        let bootstrap = waterwheel_channel::Bootstrap::new(&loops, bench.sockets.clone());
        change(waterwheel_http::Client::builder(bootstrap)).build().unwrap_err().to_string()
    };
    assert_eq!(
        build(|client| client.head_timeout(std::time::Duration::ZERO)),
        "`head_timeout` of a client is zero: no server would meet it"
    );
    assert!(build(|client| client.timeout(std::time::Duration::ZERO)).contains("`timeout`"));
    assert!(build(|client| client.pool(|pool| pool.max_open(0))).contains("max_open is 0"));
}
