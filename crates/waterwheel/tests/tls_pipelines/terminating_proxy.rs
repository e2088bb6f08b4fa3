//! The example `tls_proxy` with curl, openssl and servers of these tests.

use std::fmt::Display;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use waterwheel::bytes::Bytes;
use waterwheel::channel::{Ctx, EventLoopGroup, Handler, HandlerResult, Msg, ServerBootstrap};
use waterwheel::codec::{ProxyDecoder, ProxyTlv};
use waterwheel::net::{Auto, Tcp};
use waterwheel::tls::TlsHandler;

use crate::program::{Program, WAIT_LIMIT};
use crate::support::{BlockingTls, Identity, connect_tls, run};

fn start(identity: &Identity, target: SocketAddr, options: &[&str]) -> Program {
    let (certificate, key) = (identity.certificate.display(), identity.key.display());
    let mut args: Vec<&dyn Display> = vec![&"127.0.0.1:0", &certificate, &key, &target];
    args.extend(options.iter().map(|option| option as &dyn Display));
    Program::start("tls_proxy", &args)
}

/// Starts the proxy in front of a listener of the test.
fn proxy(test: &str, options: &[&str]) -> (Program, TcpListener, Identity) {
    let (target, identity) = (TcpListener::bind("127.0.0.1:0").unwrap(), Identity::new(test));
    let program = start(&identity, target.local_addr().unwrap(), options);
    (program, target, identity)
}

fn accept(listener: &TcpListener) -> TcpStream {
    let stream = listener.accept().unwrap().0;
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    stream
}

/// Reads exactly this much.
fn read(from: &mut impl Read, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    from.read_exact(&mut bytes).unwrap();
    bytes
}

/// Reads to an end in order: an end without close_notify is an error.
fn read_all(from: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).unwrap();
    bytes
}

/// `python3 -m http.server`; dropping the value kills it.
struct HttpServer(Child, SocketAddr);

impl HttpServer {
    fn start(folder: &std::path::Path) -> Self {
        let mut command = Command::new("python3");
        command.args(["-u", "-m", "http.server", "--bind", "127.0.0.1", "0"]).current_dir(folder);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        // "Serving HTTP on 127.0.0.1 port 41234 (http://127.0.0.1:41234/) ..."
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.split(' ').nth(5).and_then(|port| port.parse().ok());
        let port: u16 = port.unwrap_or_else(|| panic!("http.server prints {line:?}"));
        Self(child, ([127, 0, 0, 1], port).into())
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn t01_curl_fetches_a_file_over_https_from_a_plain_http_server() {
    let identity = Identity::new("t01_proxy_curl");
    let folder = identity.certificate.parent().unwrap();
    let text = "0123456789abcdef\n".repeat(100_000);
    std::fs::write(folder.join("file.txt"), &text).unwrap();
    let server = HttpServer::start(folder);
    let proxy = start(&identity, server.1, &[]);
    let url = format!("https://localhost:{}/file.txt", proxy.address().port());
    let roots = identity.certificate.to_str().unwrap();
    for version in ["--tlsv1.2", "--tlsv1.3"] {
        let options = ["-sS", "--max-time", "60", "--cacert", roots, version];
        let output = run("curl", &[&options[..], &[&url, &url]].concat(), "");
        assert!(output.is_success, "{version}: {}", output.stderr);
        assert!(output.stdout == text.repeat(2), "{version}: {} bytes", output.stdout.len());
    }
    let refused = run("curl", &["-sS", "--max-time", "60", &url], "");
    assert!(!refused.is_success, "the certificate is not trusted without --cacert");
}

#[test]
fn t01_openssl_talks_to_a_plain_server() {
    let (proxy, target, identity) = proxy("t01_proxy_openssl", &[]);
    let server = std::thread::spawn(move || {
        let mut stream = accept(&target);
        let line = read(&mut stream, 6);
        stream.write_all(&line).unwrap();
    });
    let (address, roots) = (proxy.address().to_string(), identity.certificate.to_str().unwrap());
    let args =
        ["s_client", "-quiet", "-verify_return_error", "-connect", &address, "-CAfile", roots];
    let output = run("openssl", &args, "hello\n");
    assert_eq!(output.stdout, "hello\n", "{}", output.stderr);
    assert!(output.is_success && !output.stderr.contains("error"), "{}", output.stderr);
    server.join().unwrap();
}

#[test]
fn t02_half_closure_is_a_close_notify_in_both_directions() {
    let (proxy, target, identity) = proxy("t02_proxy_half_closure", &[]);
    // The client ends first: the server reads the end, and its answer still arrives.
    let mut client = connect_tls(proxy.address(), identity.config(&[]));
    client.write_all(b"request").unwrap();
    client.conn.send_close_notify();
    client.flush().unwrap();
    let mut server = accept(&target);
    assert_eq!(read_all(&mut server), b"request");
    server.write_all(b"answer").unwrap();
    drop(server);
    assert_eq!(read_all(&mut client), b"answer", "with a close_notify at its end");

    // The server ends first.
    let mut client = connect_tls(proxy.address(), identity.config(&[]));
    client.write_all(b"hello").unwrap();
    let mut server = accept(&target);
    server.write_all(b"all").unwrap();
    server.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&mut client), b"all", "with a close_notify at its end");
    client.write_all(b" and more").unwrap();
    client.conn.send_close_notify();
    client.flush().unwrap();
    assert_eq!(read_all(&mut server), b"hello and more");
}

#[test]
fn t02_a_client_that_is_cut_off_ends_the_connection_of_the_server() {
    let (proxy, target, identity) = proxy("t02_proxy_cut_off", &[]);
    let mut client = connect_tls(proxy.address(), identity.config(&[]));
    client.write_all(b"hello").unwrap();
    let mut server = accept(&target);
    // The end of the stream without a close_notify.
    client.sock.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&mut server), b"hello");
}

#[test]
fn t08_a_client_without_a_handshake_costs_the_server_no_connection() {
    let (proxy, target, identity) = proxy("t08_proxy_half_open", &[]);
    let mut garbage = proxy.connect();
    garbage.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(read_all(&mut garbage).first(), Some(&21), "an alert");
    let _silent = proxy.connect();
    let mut client = connect_tls(proxy.address(), identity.config(&[]));
    client.write_all(b"hello").unwrap();
    assert_eq!(read(&mut accept(&target), 5), b"hello", "the first connection of all");
}

#[test]
fn t01_a_server_that_refuses_ends_the_client_in_order() {
    let (proxy, target, identity) = proxy("t01_proxy_refused", &[]);
    drop(target);
    for _ in 0..2 {
        let mut client = connect_tls(proxy.address(), identity.config(&[]));
        client.write_all(b"hello").unwrap();
        assert_eq!(read_all(&mut client), b"", "a close_notify");
    }
}

#[test]
fn k04_the_server_gets_the_address_of_the_client_and_the_name_in_a_header() {
    let (proxy, target, identity) = proxy("k04_tls_proxy", &["--proxy-v2"]);
    let mut client = connect_tls(proxy.address(), identity.config(&[]));
    client.write_all(b"hello").unwrap();
    client.conn.send_close_notify();
    client.flush().unwrap();
    let mut bytes = Bytes::from(read_all(&mut accept(&target)));
    let header = ProxyDecoder::new().next_header(&mut bytes).unwrap().unwrap();
    let source = header.source().and_then(|source| source.socket_addr());
    assert_eq!(source, Some(client.sock.local_addr().unwrap()));
    assert_eq!(header.tlv(ProxyTlv::AUTHORITY).unwrap(), "localhost");
    assert_eq!(bytes, "hello");
}

/// Echoes bytes.
struct Echo;

impl Handler for Echo {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.write_and_flush(msg);
        Ok(())
    }
}

#[test]
fn t01_tls_to_the_server_is_verified() {
    let (front, back) = (Identity::new("t01_proxy_front"), Identity::new("t01_proxy_back"));
    let group = EventLoopGroup::builder(Auto).threads(1).build().unwrap();
    let config = back.server(&[]);
    let server = ServerBootstrap::new(&group, Tcp)
        .child_initialiser(move |edit| {
            edit.add_last("tls", TlsHandler::server(config.clone()))?;
            edit.add_last("echo", Echo)?;
            Ok(())
        })
        .bind("127.0.0.1:0")
        .join()
        .unwrap();
    let address = server.local_address().and_then(|address| address.socket_addr()).unwrap();
    let roots = back.certificate.to_str().unwrap();
    let verified = start(&front, address, &["--backend-tls", roots, "localhost"]);
    let mut client = connect_tls(verified.address(), front.config(&[]));
    client.write_all(b"hello").unwrap();
    assert_eq!(read(&mut client, 5), b"hello");
    // Of another name, and of another root: no byte of the client reaches the server, and the client's ends in order.
    let other_root = front.certificate.to_str().unwrap();
    for options in
        [["--backend-tls", roots, "other.example"], ["--backend-tls", other_root, "localhost"]]
    {
        let refusing = start(&front, address, &options);
        let mut client = connect_tls(refusing.address(), front.config(&[]));
        client.write_all(b"hello").unwrap();
        assert_eq!(read_all(&mut client), b"");
    }
}

/// Writes `total` bytes, and sends the number written so far after each write.
fn write_all_of(writer: &mut impl Write, total: usize, wrote: &std::sync::mpsc::Sender<usize>) {
    let block = vec![7; 1 << 16];
    let mut written = 0;
    while written < total {
        written += writer.write(&block[..block.len().min(total - written)]).unwrap();
        let _ = wrote.send(written);
    }
    writer.flush().unwrap();
}

/// Waits until no write has succeeded for half a second, and returns the number of bytes written.
fn wait_until_stuck(writes: &Receiver<usize>) -> usize {
    let mut written = 0;
    while let Ok(more) = writes.recv_timeout(Duration::from_millis(500)) {
        written = more;
    }
    written
}

#[test]
fn t05_a_slow_reader_slows_its_writer_through_tls_and_costs_no_memory() {
    const TOTAL: usize = 60_000_000;
    for to_server in [true, false] {
        let (proxy, target, identity) = proxy("t05_proxy_back_pressure", &[]);
        let mut client: BlockingTls = connect_tls(proxy.address(), identity.config(&[]));
        client.write_all(b"!").unwrap();
        let mut server = accept(&target);
        assert_eq!(read(&mut server, 1), b"!");
        client.sock.set_write_timeout(None).unwrap();
        let before = proxy.memory();
        let (wrote, writes) = channel();
        // The writer lives to the end: a client that is dropped with unread session tickets resets the connection.
        let (reader, writing): (Box<dyn Read>, _) = if to_server {
            let writing = std::thread::spawn(move || {
                write_all_of(&mut client, TOTAL, &wrote);
                Box::new(client) as Box<dyn Send>
            });
            (Box::new(server), writing)
        } else {
            let writing = std::thread::spawn(move || {
                write_all_of(&mut server, TOTAL, &wrote);
                Box::new(server) as Box<dyn Send>
            });
            (Box::new(client), writing)
        };
        let stuck = wait_until_stuck(&writes);
        assert!(stuck < TOTAL / 2, "{stuck} bytes were taken while the other side reads none");
        let grown = proxy.memory().saturating_sub(before);
        assert!(grown < 10_000, "the proxy grew by {grown} KiB");
        // Nothing is lost when the other side reads.
        let (mut reader, mut read, mut buffer) = (reader, 0, vec![0; 1 << 16]);
        while read < TOTAL {
            let n = reader.read(&mut buffer).unwrap();
            assert!(n > 0 && buffer[..n].iter().all(|byte| *byte == 7), "after {read} bytes");
            read += n;
        }
        let grown = proxy.memory().saturating_sub(before);
        assert!(grown < 10_000, "the proxy grew by {grown} KiB");
        drop(writing.join().unwrap());
    }
}
