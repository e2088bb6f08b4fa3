//! T06: TLS begins and ends in the middle of a stream, in the example `starttls_lines` and in a client.

use std::fmt::Display;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

use waterwheel::channel::{
    Bootstrap, Channel, Ctx, EventLoopGroup, HandlerResult, In, InboundHandler, Msg, Name, SlotId,
};
use waterwheel::codec::{LineDecoder, LineEncoder};
use waterwheel::executor::Error;
use waterwheel::net::{Auto, Tcp};
use waterwheel::tls::rustls::{ClientConnection, StreamOwned};
use waterwheel::tls::{ClientTls, TlsError, TlsHandler, TlsHandshake};

use crate::program::{Program, WAIT_LIMIT, connect};
use crate::support::{Identity, name, read_line, run, run_python};

fn start(test: &str) -> (Program, Identity) {
    let identity = Identity::new(test);
    let (certificate, key) = (identity.certificate.display(), identity.key.display());
    let args: [&dyn Display; 3] = [&0, &certificate, &key];
    (Program::start("starttls_lines", &args), identity)
}

#[test]
fn t06_openssl_starts_tls_as_with_smtp_lmtp_and_ftp() {
    let (server, identity) = start("t06_openssl_starttls");
    let (address, roots) = (server.address().to_string(), identity.certificate.to_str().unwrap());
    for protocol in ["smtp", "lmtp", "ftp"] {
        let args = ["s_client", "-starttls", protocol, "-connect", &address, "-CAfile", roots];
        let options = ["-quiet", "-verify_return_error", "-verify_hostname", "localhost"];
        let output =
            run("openssl", &[&args[..], &options].concat(), "hello\r\nSTARTTLS\r\nQUIT\r\n");
        let expected = "250 Tls: hello\r\n503 not now\r\n221 bye\r\n";
        assert!(
            output.stdout.ends_with(expected),
            "{protocol}: {} {}",
            output.stdout,
            output.stderr
        );
        assert!(output.is_success, "{protocol}: {}", output.stderr);
    }
}

#[test]
fn t06_a_client_hello_in_the_segment_of_starttls_is_not_lost() {
    let (server, identity) = start("t06_pipelined_hello");
    let mut tls = ClientConnection::new(identity.config(&[]), name()).unwrap();
    let mut first = b"EHLO me\r\nSTARTTLS\r\n".to_vec();
    tls.write_tls(&mut first).unwrap();
    let mut socket = server.connect();
    socket.write_all(&first).unwrap();
    for expected in ["220 lines, STARTTLS and CCC", "250-hello me", "250 STARTTLS", "220 go ahead"]
    {
        assert_eq!(read_line(&mut socket).trim_end(), expected);
    }
    let mut tls = StreamOwned::new(tls, socket);
    tls.write_all(b"secret\r\nQUIT\r\n").unwrap();
    let mut answers = String::new();
    tls.read_to_string(&mut answers).unwrap();
    assert_eq!(answers, "250 Tls: secret\r\n221 bye\r\n");
}

/// CVE-2011-0411: an attacker in the middle sends commands behind the victim's STARTTLS, and the server takes them for
/// part of the encrypted session.
#[test]
fn t06_commands_in_the_clear_behind_starttls_are_not_carried_out() {
    let (server, identity) = start("t06_injection");
    for injected in ["EVIL\r\n", "E", "EHLO evil\r\nQUIT\r\n"] {
        let mut socket = server.connect();
        assert_eq!(read_line(&mut socket).trim_end(), "220 lines, STARTTLS and CCC");
        socket.write_all(format!("STARTTLS\r\n{injected}").as_bytes()).unwrap();
        assert_eq!(read_line(&mut socket).trim_end(), "220 go ahead");
        // The victim goes on with its hello.
        let mut tls = ClientConnection::new(identity.config(&[]), name()).unwrap();
        let mut hello = Vec::new();
        tls.write_tls(&mut hello).unwrap();
        let _refused_meanwhile = socket.write_all(&hello);
        let mut rest = Vec::new();
        let _reset = socket.read_to_end(&mut rest);
        assert!(!rest.windows(3).any(|bytes| bytes == b"250"), "{rest:?}");
        if let Some(first) = rest.first() {
            assert_eq!(*first, 21, "an alert, and nothing else: {rest:?}");
        }
    }
}

#[test]
fn t06_python_ends_tls_and_begins_it_again() {
    let (server, identity) = start("t06_python_unwrap");
    let script = "
import socket, ssl, sys
plain = socket.create_connection(('localhost', int(sys.argv[1])), timeout=20)
context = ssl.create_default_context(cafile=sys.argv[2])

def line(stream):
    text = b''
    while not text.endswith(b'\\n'):
        byte = stream.recv(1)
        if not byte: break
        text += byte
    print(text.decode().strip())

def start_tls():
    plain.sendall(b'STARTTLS\\r\\n'); line(plain)
    return context.wrap_socket(plain, server_hostname='localhost')

line(plain)
plain.sendall(b'before\\r\\n'); line(plain)
tls = start_tls()
# This side ends TLS, in the middle of a line, which is not continued in the clear.
tls.sendall(b'secret\\r\\nhalf a '); line(tls)
plain = tls.unwrap()
plain.sendall(b'line\\r\\n'); line(plain)
# The other side ends TLS. A line behind the request gets no answer, since that would be in the clear.
tls = start_tls()
tls.sendall(b'CCC\\r\\nlate\\r\\n'); line(tls)
plain = tls.unwrap()
plain.sendall(b'after\\r\\nQUIT\\r\\n'); line(plain); line(plain); line(plain)
";
    let (port, roots) = (server.address().port().to_string(), identity.certificate);
    let output = run_python(script, &[&port, roots.to_str().unwrap()]);
    let expected = [
        "220 lines, STARTTLS and CCC",
        "250 Clear: before",
        "220 go ahead",
        "250 Tls: secret",
        "250 Clear: line",
        "220 go ahead",
        "200 in the clear from here",
        "250 Clear: after",
        "221 bye",
        "",
    ];
    assert_eq!(output.lines().collect::<Vec<_>>(), expected);
}

/// An event that the client has seen.
#[derive(Debug, PartialEq)]
enum Seen {
    Line(String),
    Handshake,
    Failed(TlsError),
}

/// Asks for TLS, begins it at the answer, and sends a line.
struct StartTlsClient {
    config: ClientTls,
    decoder: SlotId,
    has_asked: bool,
    seen: Sender<Seen>,
}

impl InboundHandler for StartTlsClient {
    type In = String;

    fn on_read(&mut self, ctx: &Ctx<'_>, line: String) -> HandlerResult {
        let is_ready = line.starts_with("220 ");
        let _ = self.seen.send(Seen::Line(line));
        if is_ready && !self.has_asked {
            self.has_asked = true;
            ctx.write_and_flush("STARTTLS");
        } else if is_ready {
            let tls = TlsHandler::client(self.config.clone(), name());
            ctx.pipeline().edit(|edit| {
                edit.replace(self.decoder, "tls", tls)?;
                edit.add_after("tls", Name::auto(), LineDecoder::new(1024).text())
            })?;
            ctx.write_and_flush("secret"); // Waits for the handshake.
        }
        Ok(())
    }

    fn on_user_event(&mut self, _: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.is::<TlsHandshake>() {
            let _ = self.seen.send(Seen::Handshake);
        }
        Ok(())
    }

    fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
        if let Some(error) = error.find::<TlsError>() {
            let _ = self.seen.send(Seen::Failed(error.clone()));
        }
        ctx.close();
        Ok(())
    }
}

fn connect_client(
    group: &EventLoopGroup,
    to: SocketAddr,
    config: ClientTls,
) -> (Channel, Receiver<Seen>) {
    let (sender, seen) = channel();
    let client = Bootstrap::new(group, Tcp).initialiser(move |edit| {
        let decoder = edit.add_last(Name::auto(), LineDecoder::new(1024).text())?;
        edit.add_last("encode lines", LineEncoder::crlf())?;
        let (config, seen) = (config.clone(), sender.clone());
        let client = StartTlsClient { config, decoder, has_asked: false, seen };
        edit.add_last("client", In(client))?;
        Ok(())
    });
    (client.connect(to).join().unwrap(), seen)
}

#[test]
fn t06_a_client_begins_tls_at_the_answer() {
    let (server, identity) = start("t06_client");
    let group = EventLoopGroup::builder(Auto).threads(1).build().unwrap();
    let (client, seen) = connect_client(&group, server.address(), identity.client(&[]));
    let expected = [
        Seen::Line("220 lines, STARTTLS and CCC".into()),
        Seen::Line("220 go ahead".into()),
        Seen::Handshake,
        Seen::Line("250 Tls: secret".into()),
    ];
    for expected in expected {
        assert_eq!(seen.recv_timeout(WAIT_LIMIT).unwrap(), expected);
    }
    client.write_and_flush("QUIT").join().unwrap();
    assert_eq!(seen.recv_timeout(WAIT_LIMIT).unwrap(), Seen::Line("221 bye".into()));
    client.closed().join().unwrap();
    assert!(seen.try_recv().is_err(), "an orderly end");
}

/// CVE-2011-0411 on the other side: answers in the clear behind the one to STARTTLS.
#[test]
fn t06_answers_in_the_clear_behind_that_to_starttls_are_not_taken() {
    let identity = Identity::new("t06_client_injection");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let group = EventLoopGroup::builder(Auto).threads(1).build().unwrap();
    let (client, seen) =
        connect_client(&group, listener.local_addr().unwrap(), identity.client(&[]));
    let mut server: TcpStream = listener.accept().unwrap().0;
    server.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    server.write_all(b"220 hello\r\n").unwrap();
    assert_eq!(read_line(&mut server), "STARTTLS\r\n");
    server.write_all(b"220 go ahead\r\n250 evil\r\n").unwrap();
    assert_eq!(seen.recv_timeout(WAIT_LIMIT).unwrap(), Seen::Line("220 hello".into()));
    assert_eq!(seen.recv_timeout(WAIT_LIMIT).unwrap(), Seen::Line("220 go ahead".into()));
    match seen.recv_timeout(WAIT_LIMIT).unwrap() {
        Seen::Failed(TlsError::NotTls { .. }) => {}
        other => panic!("{other:?}"),
    }
    client.closed().join().unwrap();
    let mut sent = Vec::new();
    let _reset = server.read_to_end(&mut sent);
    assert!(!sent.windows(6).any(|bytes| bytes == b"secret"), "nothing in the clear");
}

#[test]
fn t06_a_connection_that_stays_in_the_clear_works_too() {
    let (server, _) = start("t06_clear");
    let mut socket = connect(server.address());
    socket.write_all(b"CCC\r\nhello\r\nQUIT\r\n").unwrap();
    let mut answers = String::new();
    socket.read_to_string(&mut answers).unwrap();
    let expected = "220 lines, STARTTLS and CCC\r\n503 not now\r\n250 Clear: hello\r\n221 bye\r\n";
    assert_eq!(answers, expected);
}
