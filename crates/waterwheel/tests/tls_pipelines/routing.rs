//! The example `sni_router`: connections are routed by name without the end of TLS, with openssl at both ends and with
//! plain sockets that see each byte. `scripts/test` installs openssl.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use waterwheel::tls::rustls::pki_types::ServerName;
use waterwheel::tls::rustls::{AlertDescription, ClientConnection};
use waterwheel::tls::{ClientTls, fatal_alert};

use crate::program::{Program, WAIT_LIMIT};

/// An `openssl s_server` that reverses lines; killed when dropped.
struct ReversingServer {
    child: Child,
    address: SocketAddr,
    /// The file of its certificate, which signs itself.
    certificate: PathBuf,
}

impl ReversingServer {
    /// Starts a server whose certificate has this name.
    fn start(name: &str, file: &str) -> Self {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let at = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("tls_routing");
        fs::create_dir_all(&at).unwrap();
        let (certificate, key) = (at.join(format!("{file}.crt")), at.join(format!("{file}.key")));
        fs::write(&certificate, made.cert.pem()).unwrap();
        fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let mut child = Command::new("openssl")
            .args(["s_server", "-accept", "127.0.0.1:0", "-rev", "-cert"])
            .arg(&certificate)
            .arg("-key")
            .arg(&key)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("openssl: {error}; scripts/test installs it"));
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("ACCEPT ").map(|address| address.parse().unwrap()));
        Self { child, address: address.unwrap(), certificate }
    }
}

impl Drop for ReversingServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Connects with `openssl s_client` under a name, trusting only this server's certificate. Returns the reversed line, or
/// what openssl complains about.
fn reverse(
    router: &Program,
    name: &str,
    server: &ReversingServer,
    option: &str,
) -> Result<String, String> {
    let mut client = Command::new("openssl")
        .args(["s_client", "-quiet", "-no_ign_eof", "-verify_return_error", option, "-CAfile"])
        .arg(&server.certificate)
        .args(["-servername", name, "-verify_hostname", name])
        .args(["-connect", &router.listen_address])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("openssl: {error}; scripts/test installs it"));
    let mut stdin = client.stdin.take().unwrap();
    let _ = stdin.write_all(b"wheel\n"); // A refused client does not read its input.
    let mut answer = String::new();
    BufReader::new(client.stdout.take().unwrap()).read_line(&mut answer).unwrap();
    drop(stdin);
    let mut log = String::new();
    client.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    client.wait().unwrap();
    if answer.is_empty() { Err(log) } else { Ok(answer) }
}

/// The bytes of a client's first flight.
fn hello(name: &str) -> Vec<u8> {
    let certificate = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap().cert.pem();
    let config = ClientTls::builder().trust_pem("roots", certificate.as_bytes()).build().unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::clone(config.config()), name).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    hello
}

fn route(name: &str, to: SocketAddr) -> String {
    format!("{name}={to}")
}

fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn accept(listener: &TcpListener) -> TcpStream {
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    stream
}

fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    all
}

#[test]
fn t03_sni_router_connects_openssl_with_the_server_of_its_name() {
    let one = ReversingServer::start("one.example", "one");
    let many = ReversingServer::start("*.many.example", "many");
    let (to_one, to_many) =
        (route("one.example", one.address), route("*.many.example", many.address));
    let router = Program::start("sni_router", &[&"127.0.0.1:0", &to_one, &to_many]);
    for option in ["-tls1_2", "-tls1_3"] {
        // The client accepts one certificate only: a wrong route fails.
        for (name, server) in
            [("one.example", &one), ("a.many.example", &many), ("B.Many.Example", &many)]
        {
            let answer = reverse(&router, name, server, option);
            assert_eq!(answer.as_deref(), Ok("leehw\n"), "{name} {option}");
        }
    }
    for name in ["other.example", "many.example", "a.b.many.example"] {
        let complaint = reverse(&router, name, &one, "-tls1_3").unwrap_err();
        assert!(complaint.contains("unrecognized name"), "{name}: {complaint}");
    }
    assert!(reverse(&router, "one.example", &one, "-tls1_3").is_ok(), "the router keeps serving");
}

#[test]
fn t03_sni_router_has_a_default_for_other_names_and_for_none() {
    let other = ReversingServer::start("other.example", "other");
    let (_unused, address) = listen();
    let (one, rest) = (route("one.example", address), route("*", other.address));
    let router = Program::start("sni_router", &[&"127.0.0.1:0", &one, &rest]);
    let answer = reverse(&router, "other.example", &other, "-tls1_3");
    assert_eq!(answer.as_deref(), Ok("leehw\n"));
    let mut client = router.connect();
    client.write_all(&hello("192.0.2.1")).unwrap(); // An address is not sent as a name.
    assert_eq!(client.read(&mut [0; 5]).unwrap(), 5, "the server answers");
}

#[test]
fn t03_sni_router_forwards_each_byte_both_ways_with_half_closure() {
    let (listener, address) = listen();
    let router = Program::start("sni_router", &[&"127.0.0.1:0", &route("one.example", address)]);
    let (hello, mut client) = (hello("one.example"), router.connect());
    client.set_nodelay(true).unwrap();
    // The hello in segments of few bytes, and more in the same segment as its end.
    let (begin, end) = hello.split_at(hello.len() - 10);
    for piece in begin.chunks(7) {
        client.write_all(piece).unwrap();
    }
    let more = b"behind the hello".repeat(100_000);
    let last = [end, &more[..]].concat();
    let mut sender = client.try_clone().unwrap();
    let sending = std::thread::spawn(move || {
        sender.write_all(&last).unwrap();
        sender.shutdown(Shutdown::Write).unwrap();
    });
    let mut server = accept(&listener);
    assert!(read_all(&mut server) == [&hello[..], &more[..]].concat(), "another stream");
    sending.join().unwrap();
    // The other direction is still open.
    let answer = b"answer".repeat(100_000);
    let sent = answer.clone();
    let sending = std::thread::spawn(move || server.write_all(&sent).map(|()| drop(server)));
    assert!(read_all(&mut client) == answer, "another answer");
    sending.join().unwrap().unwrap();
}

#[test]
fn t03_sni_router_refuses_what_is_no_hello_with_an_alert() {
    let (_listener, address) = listen();
    let to = route("one.example", address);
    let options: [&dyn std::fmt::Display; 4] = [&"--hello-limit", &150, &"127.0.0.1:0", &to];
    let router = Program::start("sni_router", &options);
    for (bytes, alert) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], AlertDescription::DecodeError),
        (&hello("one.example")[..100], AlertDescription::DecodeError), // Longer than the limit.
        (b"\x15\x03\x03\x00\x02\x01\x00", AlertDescription::UnexpectedMessage),
    ] {
        let mut client = router.connect();
        client.write_all(bytes).unwrap();
        assert_eq!(read_all(&mut client), fatal_alert(alert));
    }
}

#[test]
fn t03_sni_router_limits_the_time_of_a_hello() {
    let (_listener, address) = listen();
    let to = route("one.example", address);
    let options: [&dyn std::fmt::Display; 4] = [&"--hello-timeout", &1, &"127.0.0.1:0", &to];
    let router = Program::start("sni_router", &options);
    let mut client = router.connect();
    client.write_all(&hello("one.example")[..50]).unwrap();
    assert_eq!(read_all(&mut client), b"", "closed by the limit");
    let mut client = router.connect();
    client.write_all(&hello("one.example")[..50]).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&mut client), b"", "closed with the client");
}

#[test]
fn t03_sni_router_closes_a_client_whose_server_refuses() {
    let (listener, address) = listen();
    drop(listener);
    let router = Program::start("sni_router", &[&"127.0.0.1:0", &route("one.example", address)]);
    for _ in 0..2 {
        let mut client = router.connect();
        client.write_all(&hello("one.example")).unwrap();
        assert_eq!(read_all(&mut client), b"");
    }
}

#[test]
fn t03_sni_router_passes_back_pressure_on_and_loses_nothing() {
    const TOTAL: usize = 200_000_000;
    let (listener, address) = listen();
    let router = Program::start("sni_router", &[&"127.0.0.1:0", &route("one.example", address)]);
    let (hello, mut client) = (hello("one.example"), router.connect());
    client.write_all(&hello).unwrap();
    let mut server = accept(&listener);
    client.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let (block, mut sent) = (vec![7; 1 << 16], 0);
    while sent < TOTAL {
        match client.write(&block) {
            Ok(written) => sent += written,
            Err(_) => break, // The socket was full for the whole timeout.
        }
    }
    assert!(sent < TOTAL / 2, "{sent} bytes were taken while the server reads none");
    assert!(router.peak_memory() < 64 * 1024, "{} KiB", router.peak_memory());
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&mut server).len(), hello.len() + sent);
}
