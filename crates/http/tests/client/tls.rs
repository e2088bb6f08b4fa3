//! Requests for https.

use http::Method;
use waterwheel_http::{Body, BodyError, ClientError};

use crate::support::{Bench, OK_HELLO, URL};
use crate::tls_server::{TlsServer, trusting_client};

const SECURE_URL: &str = "https://192.0.2.1/a";

fn secure() -> Bench {
    Bench::with(|client| client.tls(trusting_client()).redirects(5))
}

#[test]
fn h11_requests_for_https_are_encrypted_and_their_connection_is_used_again() {
    let mut bench = secure();
    let call = bench.get_text(SECURE_URL);
    let connect = bench.next_connect().unwrap();
    assert_eq!(connect.target().unwrap().to_string(), "192.0.2.1:443");
    let peer = connect.accept();
    let mut server = TlsServer::new(&[b"h2", b"http/1.1"]);
    let request = "GET /a HTTP/1.1\r\nhost: 192.0.2.1\r\n\r\n";
    assert_eq!(server.exchange(&mut bench, &peer), request);
    assert_eq!(server.connection.alpn_protocol(), Some(&b"http/1.1"[..]));
    server.send(&mut bench, &peer, OK_HELLO);
    assert_eq!(call.take().unwrap(), "hello");
    let call = bench.get_text(SECURE_URL);
    assert_eq!(server.exchange(&mut bench, &peer), request);
    server.send(&mut bench, &peer, OK_HELLO);
    assert_eq!(call.take().unwrap(), "hello");
    // The server closes an idle connection.
    server.close(&mut bench, &peer);
    assert!(peer.is_closed());
    bench.assert_nothing_left();
}

#[test]
fn h11_a_file_is_read_and_encrypted() {
    let file = std::fs::File::open("Cargo.toml").unwrap();
    let region = waterwheel_channel::FileRegion::new(file, 1..8).unwrap();
    let mut bench = secure();
    let call = bench.start(|client| async move {
        client.request(Method::PUT, SECURE_URL).body(Body::file(region)).send().await
    });
    let peer = bench.accept();
    let mut server = TlsServer::new(&[]);
    assert!(server.exchange(&mut bench, &peer).ends_with("\r\n\r\npackage"));
    server.send(&mut bench, &peer, OK_HELLO);
    assert_eq!(call.take().unwrap().status(), 200);
    bench.assert_nothing_left();
}

#[test]
fn h11_a_certificate_for_another_host_is_refused() {
    let mut bench = secure();
    let call = bench.get_url("https://192.0.2.2/");
    let peer = bench.accept();
    TlsServer::new(&[]).exchange(&mut bench, &peer);
    let error = call.take().unwrap_err();
    assert!(matches!(error, ClientError::Tls { .. }), "{error}");
    let text = "no TLS connection to 192.0.2.2:443: the TLS handshake failed: ";
    assert!(error.to_string().starts_with(text), "{error}");
    assert!(peer.is_closed());
    bench.assert_nothing_left();
}

#[test]
fn h11_a_server_without_tls_is_an_error_and_sees_no_request() {
    let mut bench = secure();
    let call = bench.get_url(SECURE_URL);
    let peer = bench.accept();
    bench.send(&peer, "HTTP/1.1 400 Bad Request\r\n\r\n");
    let error = call.take().unwrap_err().to_string();
    assert!(error.contains("the peer does not speak TLS"), "{error}");
    assert!(peer.is_closed());
    bench.assert_nothing_left();

    let mut bench = secure();
    let call = bench.get_url(SECURE_URL);
    let peer = bench.accept();
    bench.finish(&peer);
    let error = call.take().unwrap_err();
    assert!(matches!(error, ClientError::Tls { .. }), "{error}");
    bench.assert_nothing_left();
}

#[test]
fn h11_a_body_until_the_close_needs_the_close_of_tls() {
    for is_in_order in [true, false] {
        let mut bench = secure();
        let call = bench.get_text(SECURE_URL);
        let peer = bench.accept();
        let mut server = TlsServer::new(&[]);
        server.exchange(&mut bench, &peer);
        server.send(&mut bench, &peer, "HTTP/1.1 200 OK\r\n\r\nall of it");
        match is_in_order {
            true => server.close(&mut bench, &peer),
            false => bench.finish(&peer),
        }
        match call.take() {
            Ok(text) => assert!(is_in_order && text == "all of it"),
            Err(error) => assert!(!is_in_order && error == BodyError::Aborted.to_string()),
        }
        bench.assert_nothing_left();
    }
}

#[test]
fn h11_a_redirect_from_https_to_http_is_refused_unless_it_is_allowed() {
    for is_allowed in [false, true] {
        let mut bench = Bench::with(|client| {
            client.tls(trusting_client()).redirects(1).allow_downgrade(is_allowed)
        });
        let call = bench.get_url(SECURE_URL);
        let peer = bench.accept();
        let mut server = TlsServer::new(&[]);
        server.exchange(&mut bench, &peer);
        let answer = format!("HTTP/1.1 302 Found\r\nLocation: {URL}\r\nContent-Length: 0\r\n\r\n");
        server.send(&mut bench, &peer, answer);
        match is_allowed {
            true => {
                let second = bench.accept();
                bench.send(&second, OK_HELLO);
                assert_eq!(call.take().unwrap().status(), 200);
            }
            false => {
                let error = call.take().unwrap_err().to_string();
                assert!(error.ends_with("it leads from https to http"), "{error}");
                assert!(bench.next_connect().is_none());
            }
        }
        bench.assert_nothing_left();
    }
}

#[test]
fn h11_a_caller_that_gives_up_in_a_handshake_closes_the_connection() {
    let mut bench = secure();
    let call = bench.get_url(SECURE_URL);
    let peer = bench.accept();
    assert!(!peer.take_received().is_empty(), "a ClientHello");
    call.cancel(&mut bench);
    assert!(peer.is_closed());
    bench.assert_nothing_left();
}
