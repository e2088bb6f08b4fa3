//! The examples, run as programs and talked to as anybody would.

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

use program::{PATIENCE, Program, path_of};

fn accept(listener: &TcpListener) -> TcpStream {
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
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

/// Somebody at a terminal.
struct Guest {
    stream: BufReader<TcpStream>,
}

impl Guest {
    fn new(program: &Program) -> Self {
        Self { stream: BufReader::new(program.connect()) }
    }

    fn named(program: &Program, name: &str) -> Self {
        let mut guest = Self::new(program);
        assert_eq!(guest.hears(), "What is your name?");
        guest.says(name);
        assert_eq!(guest.hears(), format!("Hello {name}."));
        guest
    }

    fn says(&mut self, line: &str) {
        self.stream.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn hears(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

#[test]
fn c12_echo_sends_back_what_it_gets() {
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

/// Sends so many bytes, and reads none. Whether all of them could be sent.
fn pour(mut peer: impl Write, bytes: usize) -> bool {
    let block = vec![b'x'; 1 << 20];
    (0..bytes / block.len()).all(|_| peer.write_all(&block).is_ok())
}

/// How long a send waits before it counts as stuck. One that was only slow changes nothing: the server then
/// has been sent less.
const STUCK: Option<Duration> = Some(Duration::from_secs(1));

#[test]
fn k14_echo_servers_hold_little_for_a_client_that_sends_300_mb_and_never_reads() {
    const MUCH: usize = 300_000_000;
    const FLAT: usize = 24 * 1024;
    let runs: [(&str, &[&dyn fmt::Display]); 4] = [
        ("echo", &[&0]),
        ("echo", &[&"--threads", &2, &0]),
        ("blocking_echo", &[&0]),
        ("reuseport_echo", &[&0, &2]),
    ];
    for (name, args) in runs {
        let echo = Program::start(name, args);
        let client = echo.connect();
        client.set_write_timeout(STUCK).unwrap();
        let all = pour(&client, MUCH);
        let peak = echo.peak_memory();
        assert!(peak < FLAT, "{name} has had {peak} KiB");
        assert!(!all, "{name} has no room for {MUCH} bytes");
    }
    let path = std::env::temp_dir().join(format!("waterwheel-flood-{}", std::process::id()));
    let echo = Program::start("unix_echo", &[&path.display()]);
    let client = UnixStream::connect(&path).unwrap();
    client.set_write_timeout(STUCK).unwrap();
    assert!(!pour(&client, MUCH));
    let peak = echo.peak_memory();
    assert!(peak < FLAT, "unix_echo has had {peak} KiB");
}

#[test]
fn c13_unix_echo_knows_who_talks_to_it_and_takes_its_file_along() {
    let name = format!("waterwheel-unix-echo-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let mut program = Program::start("unix_echo", &[&path.display()]);
    assert_eq!(program.place, format!("unix:{}", path.display()));
    let mut peer = UnixStream::connect(&path).unwrap();
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    peer.write_all(b"hello").unwrap();
    let mut answer = [0; 5];
    peer.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"hello");
    let mut line = String::new();
    program.said.read_line(&mut line).unwrap();
    let us = format!("connected: process {} of user ", std::process::id());
    assert!(line.starts_with(&us), "{line}");
    drop(peer);
    kill_process(Pid::from_child(&program.child), Signal::TERM).unwrap();
    assert!(program.child.wait().unwrap().success());
    assert!(!path.exists());
}

#[test]
fn l13_blocking_echo_has_a_thread_for_each_and_closes_who_comes_too_late() {
    let mut echo = Program::start("blocking_echo", &[&"--max", &2, &0]);
    let mut clients = [echo.connect(), echo.connect()];
    let mut served = Vec::new();
    for client in &mut clients {
        client.write_all(b"hello").unwrap();
        assert_eq!(read(client, 5), b"hello");
        let mut line = String::new();
        echo.said.read_line(&mut line).unwrap();
        served.push(line.trim_end().rsplit_once(' ').unwrap().1.to_owned());
    }
    assert_ne!(served[0], served[1]);
    assert_eq!(read_all(&mut echo.connect()), b"");
}

#[test]
fn c12_reuseport_echo_serves_on_every_loop() {
    let echo = Program::start("reuseport_echo", &[&0, &3]);
    let mut clients: Vec<_> = (0..64).map(|_| Guest::new(&echo)).collect();
    let mut threads = BTreeSet::new();
    for client in &mut clients {
        let greeting = client.hears();
        threads.extend(greeting.split_once(" serves you").map(|(thread, _)| thread.to_owned()));
        client.says("hello");
        assert_eq!(client.hears(), "hello");
    }
    assert!(threads.len() > 1, "{threads:?}");
}

#[test]
fn c12_discard_says_how_much_it_has_thrown_away() {
    let mut discard = Program::start("discard", &[&0]);
    let mut client = discard.connect();
    client.write_all(&vec![0; 1_000_000]).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&mut client), b"", "it answers nothing");
    let mut line = String::new();
    while !line.starts_with("1000000 bytes in all, ") {
        line.clear();
        assert!(discard.said.read_line(&mut line).unwrap() > 0, "it has ended");
    }
    assert!(line.trim_end().ends_with(" MB/s"), "{line}");
}

#[test]
fn c15_chat_passes_lines_to_all_others() {
    let chat = Program::start("chat", &[&0]);
    let mut ann = Guest::named(&chat, "ann");
    let mut bob = Guest::named(&chat, "bob");
    assert_eq!(ann.hears(), "* bob is here");
    // Enough of them that there are several on every loop.
    let mut others: Vec<Guest> = (0..20).map(|n| Guest::named(&chat, &format!("n{n}"))).collect();
    for _ in 0..20 {
        assert!(ann.hears().ends_with("is here") && bob.hears().ends_with("is here"));
    }
    ann.says("hello");
    assert_eq!(bob.hears(), "ann: hello");
    assert!(others.iter_mut().all(|guest| loop {
        match guest.hears().as_str() {
            "ann: hello" => break true,
            line if line.ends_with("is here") => {}
            _ => break false,
        }
    }));
    bob.says(&"x".repeat(5000));
    assert!(bob.hears().starts_with("! "), "it is too long");
    bob.says("/quit");
    assert_eq!(ann.hears(), "* bob has gone", "ann does not hear what she says herself");
    assert_eq!(bob.hears(), "", "the end");
}

#[test]
fn c07_chat_goes_on_when_somebody_does_not_listen() {
    let chat = Program::start("chat", &[&0]);
    let _deaf = Guest::named(&chat, "deaf");
    let (mut ann, mut bob) = (Guest::named(&chat, "ann"), Guest::named(&chat, "bob"));
    assert_eq!(ann.hears(), "* bob is here");
    let before = chat.memory();
    let line = "x".repeat(1000);
    for _ in 0..20_000 {
        ann.says(&line);
        assert!(bob.hears().len() == 1005);
    }
    let grown = chat.memory().saturating_sub(before);
    assert!(grown < 10_000, "20 MB were said, and it grew by {grown} KiB");
}

/// A proxy, and what is behind it.
fn proxy() -> (Program, TcpListener) {
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Program::start("proxy", &[&"127.0.0.1:0", &target.local_addr().unwrap()]);
    (proxy, target)
}

#[test]
fn c10_proxy_passes_both_directions_and_their_ends() {
    let (proxy, target) = proxy();
    let mut client = proxy.connect();
    let mut server = accept(&target);
    client.write_all(b"request").unwrap();
    assert_eq!(read(&mut server, 7), b"request");
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&mut server), b"", "the end is passed on");
    server.write_all(b"answer").unwrap();
    assert_eq!(read(&mut client, 6), b"answer", "the other direction is open");
    drop(server);
    assert_eq!(read_all(&mut client), b"");
}

#[test]
fn c05_proxy_delivers_what_was_on_its_way_when_a_side_goes() {
    let (proxy, target) = proxy();
    let mut client = proxy.connect();
    let mut server = accept(&target);
    let text = vec![7; 4_000_000];
    let wrote = std::thread::spawn({
        let text = text.clone();
        move || server.write_all(&text).unwrap() // Then it is closed.
    });
    assert!(read_all(&mut client) == text);
    wrote.join().unwrap();
}

#[test]
fn c12_proxy_closes_a_client_whose_target_is_gone() {
    let (proxy, target) = proxy();
    drop(target);
    assert_eq!(read_all(&mut proxy.connect()), b"");
    assert_eq!(read_all(&mut proxy.connect()), b"", "and goes on");
}

#[test]
fn k14_proxy_passes_one_direction_on_while_nobody_reads_the_other() {
    let (proxy, target) = proxy();
    let mut client = proxy.connect();
    let mut server = accept(&target);
    server.set_write_timeout(STUCK).unwrap();
    assert!(!pour(&server, 300_000_000), "nobody reads it");
    client.write_all(b"hello").unwrap();
    assert_eq!(read(&mut server, 5), b"hello");
}

#[test]
fn c07_proxy_lets_a_slow_reader_slow_its_writer_down() {
    const MUCH: usize = 200_000_000;
    // To the server and to the client: back-pressure goes both ways.
    for to_server in [true, false] {
        let (proxy, target) = proxy();
        let client = proxy.connect();
        let server = accept(&target);
        let (writer, mut reader) = if to_server { (client, server) } else { (server, client) };
        let before = proxy.memory();
        let (wrote, writes) = mpsc::channel();
        let writing = std::thread::spawn(move || flood(writer, MUCH, &wrote));
        let stuck = settled(&writes);
        assert!(stuck < MUCH / 4, "{stuck} bytes were taken that nobody reads");
        let grown = proxy.memory().saturating_sub(before);
        assert!(grown < 10_000, "it grew by {grown} KiB");
        // Read slowly at first, then all of it: nothing is lost.
        let mut read = 0;
        let mut buffer = vec![0; 1 << 16];
        let mut most = 0;
        while read < MUCH {
            let n = reader.read(&mut buffer).unwrap();
            assert!(n > 0 && buffer[..n].iter().all(|byte| *byte == 7), "after {read} bytes");
            read += n;
            most = most.max(proxy.memory().saturating_sub(before));
        }
        assert!(most < 10_000, "it grew by {most} KiB");
        writing.join().unwrap();
    }
}

/// Writes so much, and tells how much it was so far.
fn flood(mut writer: TcpStream, much: usize, wrote: &mpsc::Sender<usize>) {
    let block = vec![7; 1 << 16];
    let mut written = 0;
    while written < much {
        let n = writer.write(&block[..block.len().min(much - written)]).unwrap();
        written += n;
        let _ = wrote.send(written);
    }
}

/// How much was written when nothing more goes.
fn settled(writes: &Receiver<usize>) -> usize {
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
fn c13_time_tells_and_asks_the_time() {
    let server = Program::start("time", &[&0]);
    let ask = |whom: SocketAddr| {
        let asked = Command::new(path_of("time")).arg("--ask").arg(whom.to_string()).output();
        asked.unwrap()
    };
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() as u32;
    let answer = String::from_utf8(ask(server.address()).stdout).unwrap();
    let seconds =
        answer.trim().strip_suffix(" seconds since 1900").unwrap().parse::<u32>().unwrap();
    assert!(seconds.wrapping_sub(now.wrapping_add(2_208_988_800)) < 60, "{seconds} at {now}");
    // Somebody whom nobody understands gets an answer too.
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send_to(b"what time is it?", server.address()).unwrap();
    assert_eq!(socket.recv(&mut [0; 100]).unwrap(), 4);
    let nobody = ask(socket.local_addr().unwrap());
    assert!(!nobody.status.success());
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("no reply from the server"));
}
