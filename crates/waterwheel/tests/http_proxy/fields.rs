//! The fields that the reverse proxy removes and adds, and the lengths that it keeps.

use crate::program::connect;
use crate::support::scripted_server::ScriptedServer;
use crate::support::{exchange, field, read_all, start_proxy};

/// A server that answers with the head of the request.
fn head_echo() -> ScriptedServer {
    ScriptedServer::start(|connection| {
        while let Some(head) = connection.read_head() {
            let length = head.len();
            connection.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{head}"));
        }
    })
}

/// Sends a request through the proxy, and returns its head as the upstream has seen it.
fn seen_by_upstream(options: &[&str], request: &str) -> String {
    let upstream = head_echo();
    let proxy = start_proxy(upstream.address, options);
    let answer = exchange(proxy.address(), request);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{answer}");
    body.replace(&upstream.address.to_string(), "UPSTREAM")
}

#[test]
fn h11_fields_of_the_connection_are_removed_and_those_of_the_proxy_added() {
    let seen = seen_by_upstream(
        &[],
        "GET /a?b=c HTTP/1.1\r\nHost: example.org:81\r\nConnection: close, X-Mine, host\r\n\
         X-Mine: 1\r\nX-Other: 2\r\nKeep-Alive: 5\r\nProxy-Connection: keep-alive\r\n\
         Proxy-Authorization: Basic eA==\r\nProxy: http://evil/\r\nTE: trailers\r\nUpgrade: h2c\r\n\
         Via: 1.0 before\r\nX-Forwarded-For: 192.0.2.7\r\nForwarded: for=192.0.2.7\r\n\r\n",
    );
    assert!(seen.starts_with("GET /a?b=c HTTP/1.1\r\nhost: example.org:81\r\n"), "{seen}");
    for removed in [
        "connection",
        "x-mine",
        "keep-alive",
        "proxy-connection",
        "proxy-authorization",
        "proxy",
        "te",
        "upgrade",
        "transfer-encoding",
    ] {
        assert_eq!(field(&seen, removed), None, "{removed}: {seen}");
    }
    assert_eq!(field(&seen, "x-other"), Some("2"));
    assert_eq!(field(&seen, "via"), Some("1.0 before, 1.1 waterwheel"));
    assert_eq!(field(&seen, "x-forwarded-for"), Some("192.0.2.7, 127.0.0.1"));
    assert_eq!(field(&seen, "x-forwarded-proto"), Some("http"));
    let forwarded = "for=192.0.2.7, for=127.0.0.1;host=\"example.org:81\";proto=http";
    assert_eq!(field(&seen, "forwarded"), Some(forwarded));
}

#[test]
fn h11_the_host_of_requests_may_be_set() {
    let request =
        "GET http://example.org/x HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n";
    let seen = seen_by_upstream(&["--host", "inner.example"], request);
    assert!(seen.starts_with("GET /x HTTP/1.1\r\nhost: inner.example\r\n"), "{seen}");
    assert_eq!(field(&seen, "forwarded"), Some("for=127.0.0.1;host=\"example.org\";proto=http"));
    // Requests of HTTP/1.0 may have none.
    let seen = seen_by_upstream(&[], "GET / HTTP/1.0\r\n\r\n");
    assert!(seen.starts_with("GET / HTTP/1.1\r\nhost: UPSTREAM\r\n"), "{seen}");
}

#[test]
fn h11_fields_of_the_upstreams_connection_stay_there() {
    let upstream = ScriptedServer::answering(
        "HTTP/1.1 299 Fine\r\nConnection: X-Mine\r\nX-Mine: 1\r\nX-Other: 2\r\nKeep-Alive: timeout=5\r\n\
         Proxy-Status: cache\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nVia: 1.1 inner\r\n\
         Content-Length: 2\r\n\r\nok",
    );
    let proxy = start_proxy(upstream.address, &[]);
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let answer = exchange(proxy.address(), request);
    assert!(answer.starts_with("HTTP/1.1 299 ") && answer.ends_with("\r\n\r\nok"), "{answer}");
    assert_eq!(field(&answer, "connection"), Some("close"));
    assert_eq!(field(&answer, "x-mine"), None);
    assert_eq!(field(&answer, "keep-alive"), None);
    assert_eq!(field(&answer, "x-other"), Some("2"));
    assert_eq!(field(&answer, "proxy-status"), Some("cache"));
    assert_eq!(field(&answer, "via"), Some("1.1 inner, 1.1 waterwheel"));
    assert!(
        answer.contains("set-cookie: a\r\n") && answer.contains("set-cookie: b\r\n"),
        "{answer}"
    );
}

#[test]
fn h04_responses_without_a_body_pass_with_the_lengths_that_they_name() {
    let upstream = ScriptedServer::start(|connection| {
        while let Some(head) = connection.read_head() {
            connection.send(match head.split(' ').nth(1) {
                Some("/204") => "HTTP/1.1 204 No Content\r\n\r\n",
                Some("/304") => "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n",
                Some("/chunked") => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                _ => "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
            });
        }
    });
    let proxy = start_proxy(upstream.address, &[]);
    // Pipelined: a response that is one byte too long or too short spoils the next.
    let answers = exchange(
        proxy.address(),
        "GET /204 HTTP/1.1\r\nHost: a\r\n\r\nGET /304 HTTP/1.1\r\nHost: a\r\n\r\n\
         HEAD /chunked HTTP/1.1\r\nHost: a\r\n\r\nHEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    let answers: Vec<_> = answers.split_inclusive("\r\n\r\n").collect();
    let [no_content, not_modified, chunked, sized] = answers[..] else { panic!("{answers:?}") };
    assert!(no_content.starts_with("HTTP/1.1 204 "), "{no_content}");
    assert_eq!(field(no_content, "content-length"), None);
    assert!(not_modified.starts_with("HTTP/1.1 304 "), "{not_modified}");
    assert_eq!(field(not_modified, "content-length"), Some("7"));
    assert!(chunked.starts_with("HTTP/1.1 200 "), "{chunked}");
    assert_eq!(field(chunked, "content-length"), None);
    assert!(sized.starts_with("HTTP/1.1 200 "), "{sized}");
    assert_eq!(field(sized, "content-length"), Some("9"));
}

#[test]
fn h04_a_client_of_http_1_0_gets_a_body_without_a_length_until_the_close() {
    let upstream = ScriptedServer::answering(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n",
    );
    let proxy = start_proxy(upstream.address, &[]);
    let stream = connect(proxy.address());
    std::io::Write::write_all(&mut &stream, b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let answer = read_all(&stream);
    assert!(answer.ends_with("\r\n\r\nhello"), "{answer}");
    assert_eq!(field(&answer, "transfer-encoding"), None);
}

#[test]
fn h04_methods_that_are_no_requests_to_the_upstream_are_answered_by_the_proxy() {
    let upstream = ScriptedServer::start(|_| panic!("the upstream is not asked"));
    let proxy = start_proxy(upstream.address, &[]);
    for (line, status) in
        [("CONNECT a:1", "405"), ("TRACE /", "405"), ("OPTIONS *", "204"), ("GET a", "400")]
    {
        let request = format!("{line} HTTP/1.1\r\nHost: a:1\r\nConnection: close\r\n\r\n");
        let answer = exchange(proxy.address(), &request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{line}: {answer}");
    }
}
