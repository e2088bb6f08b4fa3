//! T06, K13, T03: TLS and plain text on one port, and ALPN within TLS.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use waterwheel::bytes::Bytes;
use waterwheel::channel::{
    Channel, Ctx, Edit, EventLoopGroup, HandlerResult, In, InboundHandler, ServerBootstrap,
};
use waterwheel::codec::{LineDecoder, LineEncoder};
use waterwheel::executor::Error;
use waterwheel::handlers::{
    AtLimit, DetectError, ProtocolDetector, ProtocolDetectorBuilder, StockProbe,
};
use waterwheel::net::{Auto, Tcp};
use waterwheel::tls::rustls::{ClientConnection, StreamOwned};
use waterwheel::tls::{AlpnHandler, TlsError, TlsHandler};
use waterwheel_testkit::embedded::Embedded;

use crate::program::connect;
use crate::random::SeededRng;
use crate::support::{Dribble, Identity, connect_tls, name, read_line, run};

/// Answers lines with the name of the pipeline.
struct Lines(&'static str);

impl InboundHandler for Lines {
    type In = String;

    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.write_and_flush(format!("welcome to {}", self.0));
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, line: String) -> HandlerResult {
        ctx.write_and_flush(format!("{}: {line}", self.0));
        if line == "bye" {
            ctx.close();
        }
        Ok(())
    }
}

/// Returns an initialiser of a pipeline of lines.
fn lines(name: &'static str) -> impl Fn(&mut Edit<'_>) -> Result<(), Error> + Send + Sync + Clone {
    move |edit| {
        edit.add_codec("lines", LineDecoder::new(1024).text(), LineEncoder::new())?;
        edit.add_last("app", In(Lines(name)))?;
        Ok(())
    }
}

/// TLS with the protocols `red` and `green` within it, and plain lines for everything else.
fn detector(identity: &Identity) -> ProtocolDetectorBuilder {
    let alpn = AlpnHandler::builder()
        .on("red", lines("red"))
        .on("green", lines("green"))
        .otherwise(lines("TLS"))
        .build()
        .unwrap();
    let config = identity.server(&["red", "green"]);
    ProtocolDetector::builder()
        .protocol("tls", StockProbe::Tls, move |edit| {
            edit.add_last("tls", TlsHandler::server(config.clone()))?;
            edit.add_last("alpn", alpn.clone())?;
            Ok(())
        })
        .otherwise(lines("plain"))
}

fn embedded(builder: ProtocolDetectorBuilder) -> Embedded {
    let detector = builder.build().unwrap();
    let channel = Embedded::builder().stream().build(|edit| {
        edit.add_last("detect", detector)?;
        Ok(())
    });
    channel.unwrap()
}

fn sent(channel: &mut Embedded) -> Vec<u8> {
    (0..4).for_each(|_| channel.run());
    std::iter::from_fn(|| channel.read_outbound::<Bytes>()).flatten().collect()
}

/// Exchanges bytes with a client of rustls, in pieces from `cut`, until both are silent. Returns what the client has read.
fn exchange(
    server: &mut Embedded,
    client: &mut ClientConnection,
    cut: &mut dyn FnMut(Bytes) -> Vec<Bytes>,
) -> Vec<u8> {
    let mut received = Vec::new();
    loop {
        let mut to_server = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut to_server).unwrap();
        }
        let is_silent = to_server.is_empty();
        for piece in cut(to_server.into()) {
            server.write_inbound(piece);
        }
        let to_client = sent(server);
        if is_silent && to_client.is_empty() {
            return received;
        }
        let mut rest = &to_client[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            client.process_new_packets().unwrap();
            let _would_block = client.reader().read_to_end(&mut received);
        }
    }
}

fn client(identity: &Identity, alpn: &[&'static str]) -> ClientConnection {
    ClientConnection::new(identity.config(alpn), name()).unwrap()
}

#[test]
fn t06_a_hello_in_any_pieces_reaches_tls_through_the_detector_with_nothing_lost() {
    let identity = Identity::new("t06_pieces");
    let mut random = SeededRng::new();
    for max in [1, 2, 5, 6, 7, 100, 1_000, 100_000] {
        let mut server = embedded(detector(&identity));
        let mut client = client(&identity, &["green"]);
        // rustls sends it with the end of the handshake: the first plaintext is behind it in the same read.
        client.writer().write_all(b"one\ntwo\n").unwrap();
        let received = exchange(&mut server, &mut client, &mut |bytes| random.cut(bytes, max));
        let expected = "welcome to green\ngreen: one\ngreen: two\n";
        assert_eq!(String::from_utf8(received).unwrap(), expected, "pieces of at most {max}");
        let names = server.with_pipeline(|pipeline| pipeline.names()).unwrap();
        assert_eq!(names.len(), 4, "TLS, a codec and its handler: {names:?}");
        assert_eq!(names[0], "tls");
    }
}

#[test]
fn t03_the_protocol_within_tls_is_the_negotiated_one() {
    let identity = Identity::new("t03_within");
    for (offered, expected) in [(&["red"][..], "red"), (&["green", "red"], "red"), (&[], "TLS")] {
        let mut server = embedded(detector(&identity));
        let mut client = client(&identity, offered);
        let received = exchange(&mut server, &mut client, &mut |bytes| vec![bytes]);
        assert_eq!(received, format!("welcome to {expected}\n").into_bytes());
    }
}

#[test]
fn k13_plain_lines_on_the_port_of_tls_stay_plain() {
    let identity = Identity::new("k13_plain");
    for pieces in [&["hello\n"][..], &["h", "ello", "\n"]] {
        let mut server = embedded(detector(&identity));
        for piece in pieces {
            server.write_inbound(Bytes::from_static(piece.as_bytes()));
        }
        assert_eq!(sent(&mut server), b"welcome to plain\nplain: hello\n");
    }
}

#[test]
fn t08_garbage_on_one_port_is_refused_by_whom_it_looks_like() {
    let identity = Identity::new("t08_garbage");
    // Not the beginning of TLS: a line, though a strange one.
    let mut server = embedded(detector(&identity));
    server.write_inbound(Bytes::from_static(b"\x16\x03\x09garbage\n"));
    assert_eq!(sent(&mut server), b"welcome to plain\nplain: \x16\x03\x09garbage\n");
    // The beginning of TLS, and then garbage: an alert, and no plain pipeline.
    let mut server = embedded(detector(&identity));
    server
        .write_inbound(Bytes::from_static(b"\x16\x03\x01\x00\x08\x01\xff\xff\xff\x00\x00\x00\x00"));
    server.write_inbound(Bytes::from_static(b"hello\nhello\n"));
    let answer = sent(&mut server);
    assert_eq!(answer.first(), Some(&21), "an alert: {answer:?}");
    let error = server.read_error().unwrap();
    assert!(matches!(error.find(), Some(TlsError::Handshake(_))), "{error}");
    assert!(!server.channel().is_open());
}

#[test]
fn k13_a_peer_that_stops_is_closed_at_the_limit_of_its_phase() {
    let identity = Identity::new("k13_limits");
    let limit = Duration::from_secs(2);
    // Too little to tell.
    let mut server = embedded(detector(&identity).timeout(limit));
    server.write_inbound(Bytes::from_static(b"\x16\x03\x01"));
    server.advance(limit);
    let error = server.read_error().unwrap();
    assert!(matches!(error.find(), Some(DetectError::TimedOut { length: 3, .. })), "{error}");
    assert!(!server.channel().is_open());
    // TLS, and then silence: the limit of the handshake begins with the choice.
    let mut server = embedded(detector(&identity).timeout(limit));
    server.write_inbound(Bytes::from_static(b"\x16\x03\x01\x02\x00\x01"));
    server.advance(limit);
    assert!(server.channel().is_open());
    server.advance(Duration::from_secs(8));
    let error = server.read_error().unwrap();
    assert!(matches!(error.find(), Some(TlsError::HandshakeTimeout { .. })), "{error}");
    // A silent peer of a server that speaks first.
    let mut server = embedded(detector(&identity).timeout(limit).at_timeout(AtLimit::Decide));
    server.advance(limit);
    assert_eq!(sent(&mut server), b"welcome to plain\n");
}

fn serve(group: &EventLoopGroup, detector: ProtocolDetector) -> (Channel, SocketAddr) {
    let server = ServerBootstrap::new(group, Tcp)
        .child_initialiser(move |edit| {
            edit.add_last("detect", detector.clone())?;
            Ok(())
        })
        .bind("127.0.0.1:0")
        .join()
        .unwrap();
    let address = server.local_address().and_then(|address| address.socket_addr()).unwrap();
    (server, address)
}

#[test]
fn t06_openssl_and_nc_speak_on_one_port() {
    let identity = Identity::new("t06_one_port");
    let group = EventLoopGroup::builder(Auto).threads(1).build().unwrap();
    let (_server, address) = serve(&group, detector(&identity).build().unwrap());
    let (target, port) = (address.to_string(), address.port());
    let roots = identity.certificate.to_str().unwrap();
    for (alpn, expected) in [(Some("red"), "red"), (Some("green,red"), "red"), (None, "TLS")] {
        let mut args = vec!["s_client", "-quiet", "-verify_return_error", "-CAfile", roots];
        args.extend(["-connect", &target]);
        args.extend(alpn.into_iter().flat_map(|alpn| ["-alpn", alpn]));
        let output = run("openssl", &args, "hello\nbye\n");
        let lines = format!("welcome to {expected}\n{expected}: hello\n{expected}: bye\n");
        assert_eq!(output.stdout, lines, "{}", output.stderr);
        assert!(output.is_success, "{}", output.stderr);
    }
    let mismatch = ["s_client", "-quiet", "-CAfile", roots, "-connect", &target, "-alpn", "blue"];
    let output = run("openssl", &mismatch, "hello\n");
    assert!(output.stderr.contains("no application protocol"), "{}", output.stderr);
    let nc = format!("printf 'hello\\nbye\\n' | nc -N -w 20 127.0.0.1 {port}");
    let output = run("sh", &["-c", &nc], "");
    assert_eq!(output.stdout, "welcome to plain\nplain: hello\nplain: bye\n");
}

#[test]
fn t06_a_hello_that_comes_byte_by_byte_over_tcp_is_not_lost() {
    let identity = Identity::new("t06_dribble");
    let group = EventLoopGroup::builder(Auto).threads(1).build().unwrap();
    let (_server, address) = serve(&group, detector(&identity).build().unwrap());
    let socket = connect(address);
    socket.set_nodelay(true).unwrap();
    let mut tls = StreamOwned::new(client(&identity, &["red"]), Dribble(socket));
    tls.write_all(b"hello\n").unwrap();
    assert_eq!(read_line(&mut tls), "welcome to red\n");
    assert_eq!(read_line(&mut tls), "red: hello\n");
    let mut plain = connect(address);
    plain.set_nodelay(true).unwrap();
    for byte in b"hello\n" {
        plain.write_all(&[*byte]).unwrap();
    }
    assert_eq!(read_line(&mut plain), "welcome to plain\n");
    assert_eq!(read_line(&mut plain), "plain: hello\n");
}

/// Answers each request with a fixed response, and closes.
struct Respond(Arc<str>);

impl InboundHandler for Respond {
    type In = String;

    fn on_read(&mut self, ctx: &Ctx<'_>, line: String) -> HandlerResult {
        if line.is_empty() {
            ctx.write_and_flush(Bytes::copy_from_slice(self.0.as_bytes()));
            ctx.close();
        }
        Ok(())
    }
}

/// Returns an initialiser that answers requests without a body.
fn respond(response: &str) -> impl Fn(&mut Edit<'_>) -> Result<(), Error> + Send + Sync + use<> {
    let response: Arc<str> = response.into();
    move |edit| {
        edit.add_last("lines", LineDecoder::new(8 * 1024).text())?;
        edit.add_last("respond", In(Respond(response.clone())))?;
        Ok(())
    }
}

#[test]
fn k13_curl_is_redirected_from_http_to_https_on_the_same_port() {
    let identity = Identity::new("k13_redirect");
    let group = EventLoopGroup::builder(Auto).threads(1).build().unwrap();
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\nsecret\n";
    let alpn = AlpnHandler::builder().on("http/1.1", respond(answer)).otherwise(respond(answer));
    let (alpn, config) = (alpn.build().unwrap(), identity.server(&["http/1.1"]));
    // The port is known when the server is bound; curl's `Host` names it as well as `--connect-to` does.
    let moved = "HTTP/1.1 301 Moved Permanently\r\nLocation: https://localhost:1/\r\n\
                 Content-Length: 0\r\nConnection: close\r\n\r\n";
    let detector = ProtocolDetector::builder()
        .protocol("https", StockProbe::Tls, move |edit| {
            edit.add_last("tls", TlsHandler::server(config.clone()))?;
            edit.add_last("alpn", alpn.clone())?;
            Ok(())
        })
        .protocol("http", StockProbe::Http1, respond(moved));
    let (_server, address) = serve(&group, detector.build().unwrap());
    let port = address.port();
    let (roots, map) =
        (identity.certificate.to_str().unwrap(), format!("localhost:1:127.0.0.1:{port}"));
    let options = ["-sS", "-L", "--max-time", "60", "--cacert", roots, "--connect-to", &map];
    let url = format!("http://127.0.0.1:{port}/");
    let output = run("curl", &[&options[..], &[&url]].concat(), "");
    assert_eq!(output.stdout, "secret\n", "{}", output.stderr);
}

#[test]
fn k13_a_connection_by_rustls_and_a_plain_one_are_served_at_once() {
    let identity = Identity::new("k13_both");
    let group = EventLoopGroup::builder(Auto).threads(1).build().unwrap();
    let (_server, address) = serve(&group, detector(&identity).build().unwrap());
    let (mut tls, mut plain) = (connect_tls(address, identity.config(&["red"])), connect(address));
    for round in 0..3 {
        writeln!(plain, "{round}").unwrap();
        tls.write_all(format!("{round}\n").as_bytes()).unwrap();
        if round == 0 {
            assert_eq!(read_line(&mut tls), "welcome to red\n");
            assert_eq!(read_line(&mut plain), "welcome to plain\n");
        }
        assert_eq!(read_line(&mut tls), format!("red: {round}\n"));
        assert_eq!(read_line(&mut plain), format!("plain: {round}\n"));
    }
}
