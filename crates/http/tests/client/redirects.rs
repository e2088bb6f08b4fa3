//! Redirects.

use http::{Method, Response};
use waterwheel_http::{Body, ClientError, Incoming};

use crate::support::{Bench, OK_HELLO, URL, read_text};

type Outcome = Result<Response<Incoming>, ClientError>;

/// The answer that sends a client elsewhere.
fn redirect(status: u16, location: &str) -> String {
    format!("HTTP/1.1 {status} Elsewhere\r\nLocation: {location}\r\nContent-Length: 2\r\n\r\n..")
}

fn following(max: u32) -> Bench {
    Bench::with(|client| client.redirects(max))
}

#[test]
fn h11_redirects_are_the_callers_by_default() {
    let mut bench = Bench::new();
    let call = bench.get();
    let peer = bench.accept();
    bench.send(&peer, redirect(302, "/b"));
    let response = call.take().unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["location"]),
        (302, &"/b".parse().unwrap())
    );
    bench.drop_on_loop(response);
    bench.assert_nothing_left();
}

#[test]
fn h11_a_redirect_is_followed_on_the_same_connection() {
    let mut bench = following(3);
    let call = bench.get_text("http://192.0.2.1/a/b?c");
    let peer = bench.accept();
    bench.received(&peer);
    for (location, target) in
        [("d", "/a/d"), ("../e?f#g", "/e?f"), ("/caf\u{e9} x", "/caf%C3%A9%20x")]
    {
        bench.send(&peer, redirect(302, location));
        assert_eq!(
            bench.received(&peer),
            format!("GET {target} HTTP/1.1\r\nhost: 192.0.2.1\r\n\r\n")
        );
    }
    assert!(bench.next_connect().is_none());
    bench.send(&peer, OK_HELLO);
    assert_eq!(call.take().unwrap(), "hello");
    bench.assert_nothing_left();
}

#[test]
fn h11_the_method_after_a_redirect() {
    for (status, method, next, has_body) in [
        (301, "POST", "GET", false),
        (302, "POST", "GET", false),
        (303, "POST", "GET", false),
        (303, "PUT", "GET", false),
        (303, "HEAD", "HEAD", true),
        (301, "PUT", "PUT", true),
        (302, "DELETE", "DELETE", true),
        (307, "POST", "POST", true),
        (308, "POST", "POST", true),
    ] {
        let mut bench = following(1);
        let method: Method = method.parse().unwrap();
        let call = bench.start(|client| async move {
            client.request(method, URL).header("content-language", "en").body("data").send().await
        });
        let peer = bench.accept();
        bench.received(&peer);
        let answer = redirect(status, "/b");
        let is_head = next == "HEAD";
        bench.send(&peer, if is_head { answer.trim_end_matches('.') } else { &answer });
        let request = bench.received(&peer);
        assert!(request.starts_with(&format!("{next} /b HTTP/1.1\r\n")), "{status}: {request}");
        assert_eq!(request.ends_with("\r\n\r\ndata"), has_body, "{status}: {request}");
        assert_eq!(request.contains("content-"), has_body, "{status}: {request}");
        bench.send(&peer, "HTTP/1.1 204 No Content\r\n\r\n");
        assert_eq!(call.take().unwrap().status(), 204);
        bench.assert_nothing_left();
    }
}

#[test]
fn h11_secrets_stay_with_the_server_they_were_meant_for() {
    for (location, is_same) in [
        ("http://192.0.2.1:80/b", true),
        ("//192.0.2.1/b", true),
        ("http://192.0.2.2/b", false),
        ("http://192.0.2.1:8080/b", false),
    ] {
        let mut bench = following(1);
        let call = bench.start(|client| async move {
            let request = client.request(Method::GET, URL);
            let request = request.header("authorization", "secret").header("cookie", "secret");
            request.header("host", "given").header("accept", "text/plain").send().await
        });
        let first = bench.accept();
        bench.received(&first);
        bench.send(&first, redirect(302, location));
        let peer = if is_same { first } else { bench.accept() };
        let request = bench.received(&peer);
        assert!(request.starts_with("GET /b ") && request.contains("accept: text/plain\r\n"));
        assert_eq!(request.contains("secret"), is_same, "{request}");
        assert_eq!(request.contains("host: given"), is_same, "{request}");
        call.cancel(&mut bench);
        bench.assert_nothing_left();
    }
}

/// Sends a request that is redirected once, and returns the outcome.
fn redirected(mut bench: Bench, body: Body, status: u16, location: &str) -> (Bench, Outcome) {
    let call = bench
        .start(|client| async move { client.request(Method::POST, URL).body(body).send().await });
    let peer = bench.accept();
    bench.send(&peer, redirect(status, location));
    (bench, call.take())
}

#[test]
fn h11_redirects_that_are_refused() {
    let stream =
        || Body::from_source(waterwheel_http::poll_source(|_| std::task::Poll::Ready(None)));
    for (body, status, location, reason) in [
        (stream(), 307, "/b", "the body of the request is a stream, which was sent already"),
        (Body::empty(), 302, "http://", "its Location is no URL"),
        (Body::empty(), 302, "ftp://a/", "its scheme is neither http nor https"),
        (
            Body::empty(),
            302,
            "http://me:pass@a/",
            "user names and passwords in URLs are not supported",
        ),
        (
            Body::empty(),
            302,
            "https://a/",
            "a:443 needs TLS, which the client was built without: see ClientBuilder::tls",
        ),
    ] {
        let (mut bench, outcome) = redirected(following(5), body, status, location);
        let error = outcome.unwrap_err().to_string();
        assert!(error.ends_with(reason), "{error}");
        assert!(bench.next_connect().is_none());
        bench.assert_nothing_left();
    }
}

#[test]
fn h11_a_stream_may_be_redirected_to_a_get() {
    let mut bench = following(1);
    let call = bench.start(|client| async move {
        let source = waterwheel_http::poll_source(|_| std::task::Poll::Ready(None));
        client.request(Method::POST, URL).body(Body::from_source(source)).send().await
    });
    let peer = bench.accept();
    bench.received(&peer);
    bench.send(&peer, redirect(303, "/b"));
    assert_eq!(bench.received(&peer), "GET /b HTTP/1.1\r\nhost: 192.0.2.1\r\n\r\n");
    call.cancel(&mut bench);
    bench.assert_nothing_left();
}

#[test]
fn h11_a_loop_of_redirects_ends() {
    let mut bench = following(10);
    let call = bench.get();
    let peer = bench.accept();
    for _ in 0..10 {
        bench.send(&peer, redirect(302, "/"));
        assert!(!call.is_done());
    }
    bench.send(&peer, redirect(302, "/again"));
    let error = call.take().unwrap_err();
    assert_eq!(error.to_string(), "more than 10 redirects, the last one to /again");
    bench.assert_nothing_left();
}

#[test]
fn h11_a_redirect_without_location_and_other_statuses_are_responses() {
    for (answer, status) in [
        ("HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n", 302),
        ("HTTP/1.1 304 Not Modified\r\nLocation: /b\r\n\r\n", 304),
        ("HTTP/1.1 300 Choices\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n", 300),
        ("HTTP/1.1 201 Created\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n", 201),
    ] {
        let mut bench = following(5);
        let call = bench.get();
        let peer = bench.accept();
        bench.send(&peer, answer);
        assert_eq!(call.take().unwrap().status(), status);
        bench.assert_nothing_left();
    }
}

#[test]
fn h11_the_whole_time_counts_over_redirects() {
    let second = crate::support::SECOND;
    let mut bench = Bench::with(|client| client.redirects(9).timeout(5 * second));
    let call = bench.start(|client| async move { read_text(client.get(URL).await.unwrap()).await });
    let peer = bench.accept();
    bench.advance(2 * second);
    bench.send(&peer, redirect(302, "/b"));
    bench.advance(2 * second);
    bench.send(&peer, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
    assert!(!call.is_done());
    bench.advance(second);
    assert_eq!(call.take().unwrap_err(), "the body did not come within 5s");
    bench.assert_nothing_left();
}

#[test]
fn h11_a_connect_is_not_redirected() {
    let mut bench = following(5);
    let call = bench.start(|client| async move {
        client.request(Method::CONNECT, "192.0.2.1:22").send().await
    });
    let peer = bench.accept();
    bench.received(&peer);
    bench.send(&peer, redirect(307, "http://192.0.2.7:25/"));
    assert!(bench.next_connect().is_none(), "a tunnel to a server that the caller did not name");
    assert_eq!(call.take().unwrap().status(), 307);
    bench.assert_nothing_left();
}
