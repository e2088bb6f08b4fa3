//! Protocol detection on real sockets: the `sniff` example with nc, redis-cli and HAProxy, and the stock probes with
//! openssl and curl. `scripts/test` installs these programs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

use waterwheel::bytes::Bytes;
use waterwheel::channel::{
    Channel, Ctx, DrainOptions, Drained, EventLoopGroup, HandlerResult, In, InboundHandler,
    ServerBootstrap,
};
use waterwheel::handlers::{ProtocolDetector, StockProbe};
use waterwheel::net::{Auto, Tcp};

use crate::haproxy::HaProxy;
use crate::program::{Program, WAIT_LIMIT, connect};

/// Runs a program with this standard input, and returns its output.
fn run(program: &str, args: &[&str], input: &str) -> String {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}; scripts/test installs it"));
    // Ends the input, as a shell's pipe does. The program may have ended before.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned()
}

fn ask_redis(server: SocketAddr, command: &str) -> String {
    run("redis-cli", &["-p", &server.port().to_string(), command], "")
}

/// Sends lines with nc, and returns the answers. nc waits for the last answer and the server's close.
fn ask_nc(server: SocketAddr, lines: &str) -> String {
    run("nc", &["-N", "-w", "20", "127.0.0.1", &server.port().to_string()], lines)
}

#[test]
fn k13_sniff_serves_lines_and_redis_commands_on_one_port() {
    let sniff = Program::start("sniff", &[&0]);
    let answers = ask_nc(sniff.address(), "hello\nPING\n");
    let answers: Vec<_> = answers.lines().collect();
    assert!(
        answers[0].starts_with("127.0.0.1:") && answers[0].ends_with(" says hello"),
        "{answers:?}"
    );
    assert!(answers[1].ends_with(" says PING"), "an inline command is a line: {answers:?}");
    assert_eq!(ask_redis(sniff.address(), "PING"), "PONG\n");
    assert!(ask_redis(sniff.address(), "PEER").starts_with("127.0.0.1:"));
    // The header and the first line are one write, and probably one read.
    let behind = "PROXY TCP4 203.0.113.7 192.0.2.1 51000 7000\r\nhello\n";
    assert_eq!(ask_nc(sniff.address(), behind), "203.0.113.7:51000 says hello\n");
    let behind =
        "PROXY TCP4 203.0.113.7 192.0.2.1 51000 7000\r\n*1\r\n$4\r\nPEER\r\n*1\r\n$4\r\nPING\r\n";
    assert_eq!(ask_nc(sniff.address(), behind), "$17\r\n203.0.113.7:51000\r\n+PONG\r\n");
}

#[test]
fn k13_sniff_behind_haproxy_serves_both_protocols() {
    let sniff = Program::start("sniff", &[&0]);
    for send in ["send-proxy", "send-proxy-v2", "send-proxy-v2 proxy-v2-options crc32c,unique-id"] {
        let proxy = HaProxy::start(sniff.address(), send);
        let proxy = proxy.expect("HAProxy is missing; scripts/test installs it");
        let mut client = connect(proxy.address);
        client.write_all(b"hello\n").unwrap();
        let mut answer = String::new();
        BufReader::new(&client).read_line(&mut answer).unwrap();
        assert_eq!(answer, format!("{} says hello\n", client.local_addr().unwrap()), "{send}");
        assert_eq!(ask_redis(proxy.address, "PING"), "PONG\n", "{send}");
    }
}

#[test]
fn k13_no_byte_is_lost_wherever_a_socket_cuts_the_stream() {
    let sniff = Program::start("sniff", &[&0]);
    let stream =
        b"PROXY TCP4 203.0.113.7 192.0.2.1 51000 7000\r\n*1\r\n$4\r\nPEER\r\n*1\r\n$4\r\nPING\r\n";
    for cut in 1..stream.len() {
        let mut client = connect(sniff.address());
        client.set_nodelay(true).unwrap();
        client.write_all(&stream[..cut]).unwrap();
        std::thread::yield_now();
        client.write_all(&stream[cut..]).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "$17\r\n203.0.113.7:51000\r\n+PONG\r\n", "cut at {cut}");
    }
}

/// Sends the name of the chosen protocol to the test, and closes the connection.
struct SendChoice(&'static str, Sender<(&'static str, Bytes)>);

impl InboundHandler for SendChoice {
    type In = Bytes;

    fn on_read(&mut self, ctx: &Ctx<'_>, bytes: Bytes) -> HandlerResult {
        let _ = self.1.send((self.0, bytes));
        ctx.close();
        Ok(())
    }
}

/// Binds a server that detects all stock protocols.
fn serve(group: &EventLoopGroup) -> (Channel, SocketAddr, Receiver<(&'static str, Bytes)>) {
    let (sender, choices) = channel();
    let stock = [
        ("tls", StockProbe::Tls),
        ("http/1", StockProbe::Http1),
        ("http/2", StockProbe::Http2),
        ("resp", StockProbe::Resp),
        ("proxy", StockProbe::Proxy),
    ];
    let add = |name, sender: &Sender<_>| {
        let sender = sender.clone();
        move |edit: &mut waterwheel::channel::Edit<'_>| {
            edit.add_last("send choice", In(SendChoice(name, sender.clone())))?;
            Ok(())
        }
    };
    let builder = stock.into_iter().fold(ProtocolDetector::builder(), |builder, (name, probe)| {
        builder.protocol(name, probe, add(name, &sender))
    });
    let detector = builder.otherwise(add("other", &sender)).build().unwrap();
    let server = ServerBootstrap::new(group, Tcp)
        .child_initialiser(move |edit| {
            edit.add_last("detect", detector.clone())?;
            Ok(())
        })
        .bind("127.0.0.1:0")
        .join()
        .unwrap();
    let address = server.local_address().and_then(|address| address.socket_addr()).unwrap();
    (server, address, choices)
}

#[test]
fn k13_stock_probes_recognise_real_clients() {
    let group = EventLoopGroup::builder(Auto).threads(1).build().unwrap();
    let (_server, address, choices) = serve(&group);
    let (port, target) = (address.port().to_string(), address.to_string());
    let (url, tls) = (format!("http://{address}/a?b"), format!("https://{address}/"));
    let weak = "ALL:@SECLEVEL=0";
    let clients: &[(&str, &[&str], &str)] = &[
        ("openssl", &["s_client", "-connect", &target, "-tls1", "-cipher", weak], "tls"),
        ("openssl", &["s_client", "-connect", &target, "-tls1_1", "-cipher", weak], "tls"),
        ("openssl", &["s_client", "-connect", &target, "-tls1_2"], "tls"),
        ("openssl", &["s_client", "-connect", &target, "-tls1_3"], "tls"),
        ("curl", &["-sk", "--max-time", "60", &tls], "tls"),
        ("curl", &["-s", "--max-time", "60", "--http1.0", &url], "http/1"),
        ("curl", &["-s", "--max-time", "60", "--http1.1", &url], "http/1"),
        ("curl", &["-s", "--max-time", "60", "--http2", &url], "http/1"),
        ("curl", &["-s", "--max-time", "60", "-T", "-", &url], "http/1"),
        ("curl", &["-s", "--max-time", "60", "--http2-prior-knowledge", &url], "http/2"),
        ("curl", &["-s", "--max-time", "60", "--haproxy-protocol", &url], "proxy"),
        ("redis-cli", &["-p", &port, "get", "x"], "resp"),
        ("redis-cli", &["-3", "-p", &port, "get", "x"], "resp"),
        ("nc", &["-N", "-w", "20", "127.0.0.1", &port], "other"),
    ];
    for (program, args, expected) in clients {
        run(program, args, "input\n");
        let (name, first) = choices.recv_timeout(WAIT_LIMIT).unwrap();
        assert_eq!(name, *expected, "{program} {args:?} begins with {first:?}");
        // A client that connects again, after the close, makes the same choice.
        while let Ok((again, _)) = choices.try_recv() {
            assert_eq!(again, name, "{program} {args:?}");
        }
    }
}

#[test]
fn k13_a_drain_does_not_wait_for_a_connection_of_an_unknown_protocol() {
    let group = EventLoopGroup::builder(Auto).threads(1).build().unwrap();
    let (_server, address, choices) = serve(&group);
    let mut silent = connect(address);
    let mut undecided = connect(address);
    undecided.write_all(b"GET /").unwrap();
    // Served after the two: the loop has accepted them.
    connect(address).write_all(b"*1\r\n").unwrap();
    assert_eq!(choices.recv_timeout(WAIT_LIMIT).unwrap().0, "resp");
    let outcome = group.drain(DrainOptions::default()).join().unwrap();
    assert_eq!(outcome, Drained::Complete);
    group.termination().join().unwrap();
    assert_eq!(silent.read(&mut [0]).unwrap(), 0);
    // Its bytes were read before the end, or the close with unread bytes is a reset.
    let _ = undecided.read(&mut [0]);
    if let Ok((name, bytes)) = choices.try_recv() {
        assert_eq!((name, &bytes[..]), ("other", &b"GET /"[..]), "decided by the end");
    }
}
