//! Runs the examples as programs, and talks to them over sockets.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use waterwheel_testkit::temp_file::TempFile;

#[path = "support/program.rs"]
mod program;

use program::{Program, WAIT_LIMIT, path_of};

fn accept(listener: &TcpListener) -> TcpStream {
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    stream.set_write_timeout(Some(WAIT_LIMIT)).unwrap();
    stream
}

fn read(stream: &mut TcpStream, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

/// A client that sends and receives lines.
struct LineClient {
    stream: BufReader<TcpStream>,
}

impl LineClient {
    fn new(program: &Program) -> Self {
        Self { stream: BufReader::new(program.connect()) }
    }

    /// Connects to the chat server, and gives a name.
    fn with_name(program: &Program, name: &str) -> Self {
        let mut client = Self::new(program);
        assert_eq!(client.receive(), "What is your name?");
        client.send(name);
        assert_eq!(client.receive(), format!("Hello {name}."));
        client
    }

    fn send(&mut self, line: &str) {
        self.stream.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn receive(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

#[test]
fn c12_echo_returns_the_received_bytes() {
    let runs: [&[&dyn fmt::Display]; 3] = [&[&0], &[&"--threads", &2, &0], &[&"--spin", &0]];
    for args in runs {
        let echo = Program::start("echo", args);
        let mut clients = [echo.connect(), echo.connect()];
        let text = vec![b'x'; 30_000];
        for client in &mut clients {
            client.write_all(&text).unwrap();
        }
        for client in &mut clients {
            assert!(read(client, text.len()) == text);
        }
    }
}

/// Sends this many bytes and reads none. Returns true if all of them were sent.
fn send_without_reading(mut peer: impl Write, bytes: usize) -> bool {
    let block = vec![b'x'; 1 << 20];
    (0..bytes / block.len()).all(|_| peer.write_all(&block).is_ok())
}

/// Time after which a blocked send counts as stuck. A send that is only slow does not make the test wrong: the server
/// then receives less.
const SEND_TIMEOUT: Option<Duration> = Some(Duration::from_secs(1));

#[test]
fn k14_echo_servers_bound_memory_for_a_client_that_sends_300_mb_and_never_reads() {
    const TOTAL: usize = 300_000_000;
    const MAX_KIB: usize = 24 * 1024;
    let runs: [(&str, &[&dyn fmt::Display]); 4] = [
        ("echo", &[&0]),
        ("echo", &[&"--threads", &2, &0]),
        ("blocking_echo", &[&0]),
        ("reuseport_echo", &[&0, &2]),
    ];
    for (name, args) in runs {
        let echo = Program::start(name, args);
        let client = echo.connect();
        client.set_write_timeout(SEND_TIMEOUT).unwrap();
        let is_all_sent = send_without_reading(&client, TOTAL);
        let peak = echo.peak_memory();
        assert!(peak < MAX_KIB, "peak memory of {name}: {peak} KiB");
        assert!(!is_all_sent, "{name} took all {TOTAL} bytes");
    }
    let path = std::env::temp_dir().join(format!("waterwheel-flood-{}", std::process::id()));
    let echo = Program::start("unix_echo", &[&path.display()]);
    let client = UnixStream::connect(&path).unwrap();
    client.set_write_timeout(SEND_TIMEOUT).unwrap();
    assert!(!send_without_reading(&client, TOTAL));
    let peak = echo.peak_memory();
    assert!(peak < MAX_KIB, "peak memory of unix_echo: {peak} KiB");
}

#[test]
fn c13_unix_echo_prints_peer_credentials_and_removes_its_socket_file() {
    let name = format!("waterwheel-unix-echo-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let mut program = Program::start("unix_echo", &[&path.display()]);
    assert_eq!(program.listen_address, format!("unix:{}", path.display()));
    let mut peer = UnixStream::connect(&path).unwrap();
    peer.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    peer.write_all(b"hello").unwrap();
    let mut answer = [0; 5];
    peer.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"hello");
    let mut line = String::new();
    program.stdout.read_line(&mut line).unwrap();
    let expected = format!("connected: process {} of user ", std::process::id());
    assert!(line.starts_with(&expected), "{line}");
    drop(peer);
    kill_process(Pid::from_child(&program.child), Signal::TERM).unwrap();
    assert!(program.child.wait().unwrap().success());
    assert!(!path.exists());
}

#[test]
fn l13_blocking_echo_has_a_thread_per_client_and_closes_clients_beyond_the_limit() {
    let mut echo = Program::start("blocking_echo", &[&"--max", &2, &0]);
    let mut clients = [echo.connect(), echo.connect()];
    let mut served = Vec::new();
    for client in &mut clients {
        client.write_all(b"hello").unwrap();
        assert_eq!(read(client, 5), b"hello");
        let mut line = String::new();
        echo.stdout.read_line(&mut line).unwrap();
        served.push(line.trim_end().rsplit_once(' ').unwrap().1.to_owned());
    }
    assert_ne!(served[0], served[1]);
    assert_eq!(read_all(&mut echo.connect()), b"");
}

#[test]
fn c12_reuseport_echo_serves_on_every_loop() {
    let echo = Program::start("reuseport_echo", &[&0, &3]);
    let mut clients: Vec<_> = (0..64).map(|_| LineClient::new(&echo)).collect();
    let mut threads = BTreeSet::new();
    for client in &mut clients {
        let greeting = client.receive();
        threads.extend(greeting.split_once(" serves you").map(|(thread, _)| thread.to_owned()));
        client.send("hello");
        assert_eq!(client.receive(), "hello");
    }
    assert!(threads.len() > 1, "{threads:?}");
}

#[test]
fn c12_discard_prints_its_throughput() {
    let mut discard = Program::start("discard", &[&0]);
    let mut client = discard.connect();
    client.write_all(&vec![0; 1_000_000]).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&mut client), b"", "discard sends nothing");
    let mut line = String::new();
    while !line.starts_with("1000000 bytes in total, ") {
        line.clear();
        assert!(discard.stdout.read_line(&mut line).unwrap() > 0, "discard ended early");
    }
    assert!(line.trim_end().ends_with(" MB/s"), "{line}");
}

#[test]
fn c15_chat_sends_lines_to_all_other_clients() {
    let chat = Program::start("chat", &[&0]);
    let mut ann = LineClient::with_name(&chat, "ann");
    let mut bob = LineClient::with_name(&chat, "bob");
    assert_eq!(ann.receive(), "* bob is here");
    // Enough clients for several on every loop.
    let mut others: Vec<LineClient> =
        (0..20).map(|n| LineClient::with_name(&chat, &format!("n{n}"))).collect();
    for _ in 0..20 {
        assert!(ann.receive().ends_with("is here") && bob.receive().ends_with("is here"));
    }
    ann.send("hello");
    assert_eq!(bob.receive(), "ann: hello");
    assert!(others.iter_mut().all(|client| loop {
        match client.receive().as_str() {
            "ann: hello" => break true,
            line if line.ends_with("is here") => {}
            _ => break false,
        }
    }));
    bob.send(&"x".repeat(5000));
    assert!(bob.receive().starts_with("! "), "a line that is too long is answered with an error");
    bob.send("/quit");
    assert_eq!(ann.receive(), "* bob has gone", "a client does not receive its own lines");
    assert_eq!(bob.receive(), "", "the connection is closed");
}

#[test]
fn c07_chat_memory_is_bounded_while_a_client_does_not_read() {
    let chat = Program::start("chat", &[&0]);
    let _never_reads = LineClient::with_name(&chat, "carl");
    let (mut ann, mut bob) =
        (LineClient::with_name(&chat, "ann"), LineClient::with_name(&chat, "bob"));
    assert_eq!(ann.receive(), "* bob is here");
    let before = chat.memory();
    let line = "x".repeat(1000);
    for _ in 0..20_000 {
        ann.send(&line);
        assert!(bob.receive().len() == 1005);
    }
    let grown = chat.memory().saturating_sub(before);
    assert!(grown < 10_000, "the server grew by {grown} KiB while 20 MB were sent");
}

/// Starts the proxy example in front of a listener, and returns both.
fn proxy() -> (Program, TcpListener) {
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Program::start("proxy", &[&"127.0.0.1:0", &target.local_addr().unwrap()]);
    (proxy, target)
}

#[test]
fn c10_proxy_forwards_both_directions_and_half_closes() {
    let (proxy, target) = proxy();
    let mut client = proxy.connect();
    let mut server = accept(&target);
    client.write_all(b"request").unwrap();
    assert_eq!(read(&mut server, 7), b"request");
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&mut server), b"", "the half-close is forwarded");
    server.write_all(b"answer").unwrap();
    assert_eq!(read(&mut client, 6), b"answer", "the other direction stays open");
    drop(server);
    assert_eq!(read_all(&mut client), b"");
}

#[test]
fn c05_proxy_delivers_pending_bytes_after_one_side_closes() {
    let (proxy, target) = proxy();
    let mut client = proxy.connect();
    let mut server = accept(&target);
    let text = vec![7; 4_000_000];
    let wrote = std::thread::spawn({
        let text = text.clone();
        move || server.write_all(&text).unwrap() // Then the thread drops the socket, which closes it.
    });
    assert!(read_all(&mut client) == text);
    wrote.join().unwrap();
}

#[test]
fn c12_proxy_closes_a_client_when_the_target_refuses() {
    let (proxy, target) = proxy();
    drop(target);
    assert_eq!(read_all(&mut proxy.connect()), b"");
    assert_eq!(read_all(&mut proxy.connect()), b"", "the proxy keeps serving");
}

#[test]
fn k14_proxy_forwards_one_direction_while_the_other_is_not_read() {
    let (proxy, target) = proxy();
    let mut client = proxy.connect();
    let mut server = accept(&target);
    server.set_write_timeout(SEND_TIMEOUT).unwrap();
    assert!(
        !send_without_reading(&server, 300_000_000),
        "the proxy took everything although the client does not read"
    );
    client.write_all(b"hello").unwrap();
    assert_eq!(read(&mut server, 5), b"hello");
}

#[test]
fn c07_proxy_applies_back_pressure_from_a_slow_reader_to_its_writer() {
    const TOTAL: usize = 200_000_000;
    // Both directions: back-pressure applies to the server and to the client.
    for to_server in [true, false] {
        let (proxy, target) = proxy();
        let client = proxy.connect();
        let server = accept(&target);
        let (writer, mut reader) = if to_server { (client, server) } else { (server, client) };
        let before = proxy.memory();
        let (wrote, writes) = mpsc::channel();
        let writing = std::thread::spawn(move || write_all_of(writer, TOTAL, &wrote));
        let stuck = wait_until_stuck(&writes);
        assert!(stuck < TOTAL / 4, "{stuck} bytes were taken while the other side reads none");
        let grown = proxy.memory().saturating_sub(before);
        assert!(grown < 10_000, "the proxy grew by {grown} KiB");
        // Nothing is lost when the other side reads.
        let mut read = 0;
        let mut buffer = vec![0; 1 << 16];
        let mut max_growth = 0;
        while read < TOTAL {
            let n = reader.read(&mut buffer).unwrap();
            assert!(n > 0 && buffer[..n].iter().all(|byte| *byte == 7), "after {read} bytes");
            read += n;
            max_growth = max_growth.max(proxy.memory().saturating_sub(before));
        }
        assert!(max_growth < 10_000, "the proxy grew by {max_growth} KiB");
        writing.join().unwrap();
    }
}

/// Writes `total` bytes, and sends the number written so far after each write.
fn write_all_of(mut writer: TcpStream, total: usize, wrote: &mpsc::Sender<usize>) {
    let block = vec![7; 1 << 16];
    let mut written = 0;
    while written < total {
        let n = writer.write(&block[..block.len().min(total - written)]).unwrap();
        written += n;
        let _ = wrote.send(written);
    }
}

/// Waits until no write has succeeded for half a second, and returns the number of bytes written.
fn wait_until_stuck(writes: &Receiver<usize>) -> usize {
    let quiet = Duration::from_millis(500);
    let mut written = 0;
    while let Ok(more) = writes.recv_timeout(quiet) {
        written = more;
    }
    written
}

#[test]
fn c07_file_server_sends_the_file_and_closes() {
    let temp_file = TempFile::new(5_000_000);
    let server = Program::start("file_server", &[&0, &temp_file.path().display()]);
    for _ in 0..2 {
        assert!(read_all(&mut server.connect()) == temp_file.contents());
    }
}

#[test]
fn c13_time_answers_datagrams_and_asks_a_server() {
    let server = Program::start("time", &[&0]);
    let ask = |server: SocketAddr| {
        let output = Command::new(path_of("time")).arg("--ask").arg(server.to_string()).output();
        output.unwrap()
    };
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() as u32;
    let answer = String::from_utf8(ask(server.address()).stdout).unwrap();
    let seconds =
        answer.trim().strip_suffix(" seconds since 1900").unwrap().parse::<u32>().unwrap();
    assert!(seconds.wrapping_sub(now.wrapping_add(2_208_988_800)) < 60, "{seconds} at {now}");
    // Any datagram is answered with the time.
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    socket.send_to(b"what time is it?", server.address()).unwrap();
    assert_eq!(socket.recv(&mut [0; 100]).unwrap(), 4);
    let unanswered = ask(socket.local_addr().unwrap());
    assert!(!unanswered.status.success());
    assert!(String::from_utf8_lossy(&unanswered.stderr).contains("no reply from the server"));
}
