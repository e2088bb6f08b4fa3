//! TLS over TCP with another program at the other end: openssl s_client and s_server (T09). `scripts/test` installs it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

use waterwheel::bytes::Bytes;
use waterwheel::channel::{
    Bootstrap, Channel, Ctx, EventLoopGroup, Events, Handler, HandlerResult, Msg, ServerBootstrap,
};
use waterwheel::executor::Error;
use waterwheel::net::{Auto, Tcp};
use waterwheel::tls::rustls::ProtocolVersion;
use waterwheel::tls::rustls::pki_types::ServerName;
use waterwheel::tls::{ClientTls, ServerTls, TlsHandler, TlsHandshake};

#[path = "support/program.rs"]
mod program;

use program::WAIT_LIMIT;

const NAME: &str = "wheel.example";

/// The versions, and the options of openssl that allow no other.
const VERSIONS: [(&str, ProtocolVersion); 2] =
    [("-tls1_2", ProtocolVersion::TLSv1_2), ("-tls1_3", ProtocolVersion::TLSv1_3)];

/// Writes a certificate that signs itself, and its key. Returns both paths.
fn certificate(test: &str) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
    let at = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    fs::create_dir_all(&at).unwrap();
    let (certificate, key) = (at.join("server.crt"), at.join("server.key"));
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (certificate, key)
}

/// An event that a handler after TLS has seen.
#[derive(Debug)]
enum Seen {
    Handshake(TlsHandshake),
    Failed(Error),
    Read(Bytes),
}

/// Echoes, and closes the channel after a line "bye"; tells the test what it sees.
struct EchoUntilBye(Sender<Seen>);

impl Handler for EchoUntilBye {
    fn interest(&self) -> Events {
        Events::READ | Events::USER_EVENT | Events::ERROR
    }

    fn on_user_event(&mut self, _: &Ctx<'_>, event: Msg) -> HandlerResult {
        if let Ok(handshake) = event.take::<TlsHandshake>() {
            let _ = self.0.send(Seen::Handshake(handshake));
        }
        Ok(())
    }

    fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
        let _ = self.0.send(Seen::Failed(error));
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let is_bye = msg.get::<Bytes>().is_some_and(|bytes| bytes.ends_with(b"bye\n"));
        ctx.write_and_flush(msg);
        if is_bye {
            ctx.close();
        }
        Ok(())
    }
}

fn serve(group: &EventLoopGroup, test: &str) -> (Channel, SocketAddr, PathBuf, Receiver<Seen>) {
    let (certificate, key) = certificate(test);
    let config = ServerTls::builder().certificate_files(&certificate, &key).alpn(["echo"]);
    let config = config.build().unwrap();
    let (sender, seen) = channel();
    let server = ServerBootstrap::new(group, Tcp)
        .child_initialiser(move |edit| {
            edit.add_last("tls", TlsHandler::server(config.clone()))?;
            edit.add_last("echo", EchoUntilBye(sender.clone()))?;
            Ok(())
        })
        .bind("127.0.0.1:0")
        .join()
        .unwrap();
    let address = server.local_address().and_then(|address| address.socket_addr()).unwrap();
    (server, address, certificate, seen)
}

#[test]
fn t09_openssl_s_client_talks_to_a_server() {
    let group = EventLoopGroup::builder(Auto).threads(1).build().unwrap();
    let (_server, address, certificate, seen) = serve(&group, "t09_s_client");
    for (option, version) in VERSIONS {
        let mut client = Command::new("openssl")
            .args(["s_client", "-quiet", "-verify_return_error", "-alpn", "echo", option])
            .args(["-servername", NAME, "-verify_hostname", NAME, "-CAfile"])
            .arg(&certificate)
            .args(["-connect", &address.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("openssl: {error}; scripts/test installs it"));
        // More than the socket buffers and the water marks hold.
        let mut input = b"0123456789abcdef\n".repeat(60_000);
        input.extend_from_slice(b"bye\n");
        let mut stdin = client.stdin.take().unwrap();
        let sent = input.clone();
        let writer = std::thread::spawn(move || stdin.write_all(&sent).map(|()| stdin));
        let mut output = Vec::new();
        client.stdout.take().unwrap().read_to_end(&mut output).unwrap();
        let _stdin = writer.join().unwrap();
        let status = client.wait().unwrap();
        let mut log = String::new();
        client.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        assert!(output == input, "{option}: {} bytes came back; {log}", output.len());
        assert!(status.success() && !log.contains("error"), "{option}: {status}; {log}");
        match seen.recv_timeout(WAIT_LIMIT).unwrap() {
            Seen::Handshake(handshake) => {
                assert_eq!(handshake.version, Some(version));
                assert_eq!(handshake.server_name.as_deref(), Some(NAME));
                assert_eq!(handshake.alpn.as_deref(), Some(&b"echo"[..]));
            }
            other => panic!("{option}: {other:?}"),
        }
        assert!(seen.try_recv().is_err(), "an error of an orderly connection");
    }
}

#[test]
fn t09_the_example_tls_echo_answers_openssl_and_refuses_plain_text() {
    let (certificate, key) = certificate("t09_example");
    let paths: [&dyn std::fmt::Display; 3] = [&0, &certificate.display(), &key.display()];
    let mut example = program::Program::start("tls_echo", &paths);
    let mut plain = example.connect();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut alert = Vec::new();
    plain.read_to_end(&mut alert).unwrap();
    assert_eq!(alert.first(), Some(&21), "an alert");
    let mut line = String::new();
    example.stdout.read_line(&mut line).unwrap();
    assert!(line.contains("the TLS handshake failed"), "{line}");

    let mut client = Command::new("openssl")
        .args(["s_client", "-quiet", "-no_ign_eof", "-verify_return_error", "-CAfile"])
        .arg(&certificate)
        .args(["-servername", NAME, "-connect", &example.listen_address])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("openssl: {error}; scripts/test installs it"));
    let mut stdin = client.stdin.take().unwrap();
    stdin.write_all(b"hello\n").unwrap();
    let mut answer = String::new();
    BufReader::new(client.stdout.take().unwrap()).read_line(&mut answer).unwrap();
    assert_eq!(answer, "hello\n");
    drop(stdin);
    client.wait().unwrap();
    line.clear();
    example.stdout.read_line(&mut line).unwrap();
    assert!(line.starts_with("handshake: Some(TLSv1_3)"), "{line}");
}

/// An `openssl s_server` that reverses lines; killed when dropped.
struct ReversingServer(Child, SocketAddr);

impl ReversingServer {
    fn start(test: &str, option: &str) -> (Self, PathBuf) {
        let (certificate, key) = certificate(test);
        let mut child = Command::new("openssl")
            .args(["s_server", "-accept", "127.0.0.1:0", "-rev", option, "-cert"])
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
        (Self(child, address.unwrap()), certificate)
    }
}

impl Drop for ReversingServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Tells the test what it reads.
struct Forward(Sender<Seen>);

impl Handler for Forward {
    fn interest(&self) -> Events {
        Events::READ | Events::USER_EVENT | Events::ERROR
    }

    fn on_user_event(&mut self, _: &Ctx<'_>, event: Msg) -> HandlerResult {
        if let Ok(handshake) = event.take::<TlsHandshake>() {
            let _ = self.0.send(Seen::Handshake(handshake));
        }
        Ok(())
    }

    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let _ = self.0.send(Seen::Read(msg.into_bytes().unwrap_or_default()));
        Ok(())
    }

    fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
        let _ = self.0.send(Seen::Failed(error));
        Ok(())
    }
}

#[test]
fn t09_a_client_talks_to_openssl_s_server() {
    let group = EventLoopGroup::builder(Auto).threads(1).build().unwrap();
    for (option, version) in VERSIONS {
        let (server, certificate) = ReversingServer::start("t09_s_server", option);
        let config = ClientTls::builder().trust_file(&certificate).build().unwrap();
        let (sender, seen) = channel();
        let client = Bootstrap::new(&group, Tcp)
            .initialiser(move |edit| {
                let name = ServerName::try_from(NAME).map_err(Error::new)?;
                edit.add_last("tls", TlsHandler::client(config.clone(), name))?;
                edit.add_last("forward", Forward(sender.clone()))?;
                Ok(())
            })
            .connect(server.1)
            .join()
            .unwrap();
        client.write_and_flush(Bytes::from_static(b"wheel\n")).join().unwrap();
        match seen.recv_timeout(WAIT_LIMIT).unwrap() {
            Seen::Handshake(handshake) => assert_eq!(handshake.version, Some(version)),
            Seen::Failed(error) => panic!("{option}: {error}"),
            other => panic!("{option}: {other:?}"),
        }
        let mut answer = Vec::new();
        while !answer.ends_with(b"\n") {
            match seen.recv_timeout(WAIT_LIMIT).unwrap() {
                Seen::Read(bytes) => answer.extend_from_slice(&bytes),
                other => panic!("{option}: {other:?}"),
            }
        }
        assert_eq!(answer, b"leehw\n", "{option}");
        client.close().join().unwrap();
        assert!(seen.try_recv().is_err(), "an error of an orderly connection");
    }
}
