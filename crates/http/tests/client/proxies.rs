//! Proxies.

use http::{HeaderValue, Method};
use waterwheel_http::{ClientError, Proxy};

use crate::support::{Bench, OK_HELLO, SECOND};
use crate::tls_server::{TlsServer, trusting_client};

fn proxied() -> Bench {
    Bench::with(|client| {
        let proxy = Proxy::http("http://192.0.2.9:3128").unwrap();
        let authorization = HeaderValue::from_static("Basic abc");
        client.proxy(proxy.authorization(authorization)).tls(trusting_client())
    })
}

#[test]
fn h11_requests_for_http_go_to_the_proxy_as_whole_urls() {
    let mut bench = proxied();
    let call = bench.get_text("http://Example.org:81?q");
    let connect = bench.next_connect().unwrap();
    assert_eq!(connect.target().unwrap().to_string(), "192.0.2.9:3128");
    let peer = connect.accept();
    assert_eq!(
        bench.received(&peer),
        "GET http://Example.org:81/?q HTTP/1.1\r\nhost: Example.org:81\r\n\
         proxy-authorization: Basic abc\r\n\r\n"
    );
    bench.send(&peer, OK_HELLO);
    assert_eq!(call.take().unwrap(), "hello");
    // The connection to the proxy serves every server.
    let call = bench.get_text("http://other.example/");
    assert!(bench.received(&peer).starts_with("GET http://other.example/ HTTP/1.1\r\n"));
    bench.send(&peer, OK_HELLO);
    assert_eq!(call.take().unwrap(), "hello");
    bench.assert_nothing_left();
}

#[test]
fn h11_requests_for_https_go_through_a_tunnel() {
    let mut bench = proxied();
    let call = bench.get_text("https://192.0.2.1/secret");
    let peer = bench.accept();
    assert_eq!(
        bench.received(&peer),
        "CONNECT 192.0.2.1:443 HTTP/1.1\r\nhost: 192.0.2.1:443\r\n\
         proxy-authorization: Basic abc\r\n\r\n"
    );
    bench.send(&peer, "HTTP/1.1 200 Connected\r\nVia: x\r\n\r\n");
    let mut server = TlsServer::new(&[b"http/1.1"]);
    assert_eq!(
        server.exchange(&mut bench, &peer),
        "GET /secret HTTP/1.1\r\nhost: 192.0.2.1\r\n\r\n"
    );
    server.send(&mut bench, &peer, OK_HELLO);
    assert_eq!(call.take().unwrap(), "hello");
    // The tunnel is used again, for its server only.
    let call = bench.get_text("https://192.0.2.1/more");
    assert!(server.exchange(&mut bench, &peer).starts_with("GET /more "));
    server.send(&mut bench, &peer, OK_HELLO);
    assert_eq!(call.take().unwrap(), "hello");
    let other = bench.get_text("https://192.0.2.2/");
    let second = bench.accept();
    assert!(bench.received(&second).starts_with("CONNECT 192.0.2.2:443 "));
    other.cancel(&mut bench);
    assert!(second.is_closed());
    bench.assert_nothing_left();
}

#[test]
fn h11_a_tunnel_that_is_refused_names_the_status() {
    let mut bench = proxied();
    let call = bench.get_text("https://192.0.2.1/");
    let peer = bench.accept();
    bench.send(&peer, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(
        call.take().unwrap_err(),
        "the proxy 192.0.2.9:3128 refused a tunnel to 192.0.2.1:443 with status 407 Proxy \
         Authentication Required"
    );
    bench.assert_nothing_left();
}

#[test]
fn h11_a_proxy_that_fails_is_named() {
    let mut bench = proxied();
    let call = bench.get_url("https://192.0.2.1/");
    let peer = bench.accept();
    bench.send(&peer, "HTTP/1.1 200");
    bench.finish(&peer);
    let error = call.take().unwrap_err();
    assert!(matches!(error, ClientError::Closed { .. }), "{error}");
    assert!(error.to_string().starts_with("192.0.2.9:3128 closed the connection"), "{error}");

    // Bytes behind the answer of the proxy are not the server's.
    let call = bench.get_url("https://192.0.2.1/");
    let peer = bench.accept();
    bench.send(&peer, "HTTP/1.1 200 Connected\r\n\r\nx");
    let error = call.take().unwrap_err();
    assert!(matches!(error, ClientError::Tls { .. }), "{error}");
    assert!(peer.is_closed());
    bench.assert_nothing_left();
}

#[test]
fn h11_a_tunnel_and_its_handshake_have_the_time_of_a_connect() {
    for progress in ["", "HTTP/1.1 200 Connected\r\n\r\n"] {
        let mut bench = proxied();
        let call = bench.get_url("https://192.0.2.1/");
        let connect = bench.next_connect().unwrap();
        bench.advance(10 * SECOND);
        let peer = connect.accept();
        bench.send(&peer, progress);
        bench.advance(19 * SECOND);
        assert!(!call.is_done());
        bench.advance(SECOND);
        let error = call.take().unwrap_err();
        assert!(matches!(error, ClientError::ConnectTimeout { .. }), "{error}");
        assert!(peer.is_closed());
        bench.assert_nothing_left();
    }
}

#[test]
fn h11_connect_of_the_caller_goes_to_the_proxy_too() {
    let mut bench = proxied();
    let call = bench.start(|client| async move {
        client.request(Method::CONNECT, "192.0.2.1:22").send().await
    });
    let connect = bench.next_connect().unwrap();
    assert_eq!(connect.target().unwrap().to_string(), "192.0.2.9:3128");
    let peer = connect.accept();
    assert!(bench.received(&peer).starts_with("CONNECT 192.0.2.1:22 HTTP/1.1\r\n"));
    call.cancel(&mut bench);
    bench.assert_nothing_left();
}
