//! The module ssl of Python, as client and as server.

use std::process::Command;

use waterwheel::tls::rustls::{AlertDescription, Error, ProtocolVersion};
use waterwheel::tls::{OnCloseNotify, TlsOptions};

use crate::support::certificates::Authority;
use crate::support::endpoints::{Client, Seen, Server, Service, one_loop};
use crate::support::peer_program::PeerProgram;
use crate::support::{NAME, VERSIONS, unequal_bytes};

/// The Python of the system.
const PYTHON: &str = "/usr/bin/python3";

/// The beginning of every client: connects with `session`, verifying chain and name.
const CONNECT: &str = r#"
import select, socket, ssl, sys
port, version, root, name = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
context = ssl.create_default_context(cafile=root)
assert context.check_hostname and context.verify_mode == ssl.CERT_REQUIRED
context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
context.set_alpn_protocols(["other", "echo"])
def connect(session=None, name=name):
    plain = socket.create_connection(("127.0.0.1", port), timeout=60)
    return context.wrap_socket(plain, server_hostname=name, session=session)
def exchange(stream, data):
    # On one thread: two must not use a connection of openssl at the same time.
    stream.setblocking(False)
    sent, got = 0, bytearray()
    while len(got) < len(data):
        try:
            if sent < len(data):
                sent += stream.send(data[sent:sent + 16384])
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        try:
            piece = stream.recv(65536)
            assert piece, ("the server has closed", sent, len(got))
            got += piece
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            select.select([stream], [stream] if sent < len(data) else [], [], 60)
    stream.settimeout(60)
    return bytes(got)
"#;

fn run_client(
    server: &Server,
    authority: &Authority,
    version: ProtocolVersion,
    script: &str,
) -> String {
    let version = version.as_str().unwrap();
    let mut command = Command::new(PYTHON);
    command.args(["-c", &format!("{CONNECT}{script}"), &server.port(), version]);
    command.arg(&authority.root).arg(NAME);
    PeerProgram::run(&mut command).expect_success()
}

#[test]
fn t09_a_python_client_talks_unwraps_and_resumes() {
    let authority = Authority::new("python_client");
    let config = authority.server().serve().alpn(["echo"]).build().unwrap();
    let server = Server::start(config, Service::Echo);
    let script = r#"
import os
data = os.urandom(1 << 20)
session = None
for number in range(3):
    with connect(session) as stream:
        assert exchange(stream, data) == data
        print(stream.version(), stream.selected_alpn_protocol(), stream.session_reused)
        session = stream.session
        plain = stream.unwrap()
        assert plain.recv(1) == b"", "the server has closed"
        plain.close()
"#;
    for version in VERSIONS {
        let output = run_client(&server, &authority, version, script);
        let name = if version == ProtocolVersion::TLSv1_2 { "TLSv1.2" } else { "TLSv1.3" };
        let expected = format!("{name} echo False\n{name} echo True\n{name} echo True\n");
        assert_eq!(output, expected);
        for number in 0..3 {
            let handshake = server.observer.handshake();
            assert_eq!((handshake.version, handshake.is_resumed), (Some(version), number > 0));
            server.observer.expect_peer_closed();
        }
    }
}

#[test]
fn t09_a_python_client_refuses_another_name() {
    let authority = Authority::new("python_name");
    let server = Server::start(authority.server().serve().build().unwrap(), Service::Echo);
    let script = r#"
try:
    connect(name="other.example")
except ssl.SSLCertVerificationError as error:
    print(error.verify_message)
"#;
    for version in VERSIONS {
        let output = run_client(&server, &authority, version, script);
        assert!(output.starts_with("Hostname mismatch"), "{output}");
        let refused = Error::AlertReceived(AlertDescription::BadCertificate);
        assert_eq!(server.observer.handshake_failure(), refused);
    }
}

/// The client ends its direction, and reads on until the server has ended the other.
#[test]
fn t02_a_python_client_closes_its_half_and_is_answered() {
    let authority = Authority::new("python_half");
    let config = authority.server().serve().build().unwrap();
    let options = TlsOptions::builder().on_close_notify(OnCloseNotify::HalfClose).build().unwrap();
    let server = Server::with_options(config, Service::EchoAfterEnd, options);
    // With memory between, so that close_notify can be sent without waiting for the answer.
    let script = r#"
plain = socket.create_connection(("127.0.0.1", port), timeout=60)
inward, outward = ssl.MemoryBIO(), ssl.MemoryBIO()
tls = context.wrap_bio(inward, outward, server_hostname=name)
def perform(operation, *args):
    while True:
        try:
            result = operation(*args)
            plain.sendall(outward.read())
            return result
        except ssl.SSLWantReadError:
            plain.sendall(outward.read())
            piece = plain.recv(65536)
            inward.write(piece) if piece else inward.write_eof()
perform(tls.do_handshake)
perform(tls.write, b"question\n")
try:
    tls.unwrap()
    raise AssertionError("the server has not ended yet")
except ssl.SSLWantReadError:
    plain.sendall(outward.read())
answer = b""
try:
    while True:
        answer += perform(tls.read, 100)
        if answer.endswith(b"bye\n"):
            perform(tls.unwrap)
            break
except ssl.SSLZeroReturnError:
    pass
assert plain.recv(1) == b"", "nothing follows close_notify but the end"
print(answer)
"#;
    for version in VERSIONS {
        let output = run_client(&server, &authority, version, script);
        assert_eq!(output, "b'question\\nbye\\n'\n");
        server.observer.handshake();
        let events: Vec<_> = (0..3).map(|_| format!("{:?}", server.observer.next())).collect();
        assert_eq!(events, ["PeerClosed", "InputClosed", "Inactive"], "{version:?}");
    }
}

/// Serves connections one after the other: echoes until the client's end, says "after the end", and unwraps.
const SERVER: &str = r#"
import socket, ssl, sys
version, chain, key, root = sys.argv[1:]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(chain, key)
context.load_verify_locations(root)
context.verify_mode = ssl.CERT_REQUIRED
context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
context.set_alpn_protocols(["echo"])
names = []
context.sni_callback = lambda stream, name, context: names.append(name)
listener = socket.create_server(("127.0.0.1", 0))
print("port", listener.getsockname()[1], flush=True)
while True:
    plain, _ = listener.accept()
    plain.settimeout(60)
    stream = context.wrap_socket(plain, server_side=True)
    total = 0
    while piece := stream.recv(65536):
        total += len(piece)
        stream.sendall(piece)
    peer = stream.getpeercert()["subject"][0][0][1]
    seen = stream.version(), stream.selected_alpn_protocol(), stream.session_reused, names[-1], peer, total
    stream.sendall(b"after the end")
    stream.unwrap().close()
    print(*seen, flush=True)
"#;

#[test]
fn t09_a_client_talks_to_a_python_server_resumes_and_closes_its_half() {
    let authority = Authority::new("python_server");
    let (identity, own) = (authority.server(), authority.client());
    let group = one_loop();
    let data = unequal_bytes(1 << 20);
    for version in VERSIONS {
        let mut command = Command::new(PYTHON);
        command.args(["-c", SERVER, version.as_str().unwrap()]);
        command.arg(&identity.chain).arg(&identity.key).arg(&authority.root);
        let mut server = PeerProgram::start(&mut command);
        let port: u16 = server.wait_for_line("port ").parse().unwrap();
        let config = authority.trusting_client().alpn(["echo"]);
        let config = config.certificate_files(&own.chain, &own.key).build().unwrap();
        for number in 0..3 {
            let client = Client::connect(&group, ([127, 0, 0, 1], port).into(), &config);
            client.send(data.clone());
            let handshake = client.observer.handshake();
            assert_eq!((handshake.version, handshake.is_resumed), (Some(version), number > 0));
            assert!(client.observer.read(data.len()) == data);
            client.channel.shutdown_output().join().unwrap();
            assert_eq!(client.observer.read(13), b"after the end");
            loop {
                match client.observer.next() {
                    Seen::Inactive => break,
                    Seen::PeerClosed | Seen::InputClosed => {}
                    other => panic!("{version:?}: {other:?}"),
                }
            }
            let name = if version == ProtocolVersion::TLSv1_2 { "TLSv1.2" } else { "TLSv1.3" };
            let resumed = if number > 0 { "True" } else { "False" };
            let expected = format!("{resumed} {NAME} client.example {}", data.len());
            assert_eq!(server.wait_for_line(&format!("{name} echo ")), expected);
        }
    }
}
