//! The examples `async_echo` and `async_chat` as programs.

use std::fmt;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::line_client::LineClient;
use crate::program::Program;

/// Both ways of writing the function of a connection.
const MODES: [&[&dyn fmt::Display]; 2] = [&[&0], &[&"--bytes", &0]];

/// Sends SIGTERM and waits for the end of the program.
fn terminate(program: &mut Program) {
    kill_process(Pid::from_child(&program.child), Signal::TERM).unwrap();
    assert!(program.child.wait().unwrap().success());
}

fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn a02_async_echo_returns_a_mebibyte_and_ends_after_the_half_close() {
    for args in MODES {
        let echo = Program::start("async_echo", args);
        let mut client = echo.connect();
        let sent: Vec<u8> = (0..1 << 20).map(|n: u32| (n >> 5) as u8).collect();
        let mut writer = client.try_clone().unwrap();
        let writing = std::thread::spawn({
            let sent = sent.clone();
            move || {
                writer.write_all(&sent).unwrap();
                writer.shutdown(Shutdown::Write).unwrap();
            }
        });
        assert!(read_all(&mut client) == sent);
        writing.join().unwrap();
    }
}

#[test]
fn a02_async_echo_serves_many_connections_on_several_loops() {
    let runs: [&[&dyn fmt::Display]; 2] =
        [&[&"--threads", &2, &0], &[&"--bytes", &"--threads", &2, &0]];
    for args in runs {
        let echo = Program::start("async_echo", args);
        let mut clients: Vec<_> = (0..300).map(|_| echo.connect()).collect();
        for (n, client) in clients.iter_mut().enumerate() {
            client.write_all(format!("{n:04}").as_bytes()).unwrap();
        }
        for (n, client) in clients.iter_mut().enumerate().rev() {
            let mut answer = [0; 4];
            client.read_exact(&mut answer).unwrap();
            assert_eq!(answer, *format!("{n:04}").as_bytes());
        }
    }
}

#[test]
fn a02_async_echo_drains_at_sigterm() {
    for args in MODES {
        let mut echo = Program::start("async_echo", args);
        let mut client = echo.connect();
        client.write_all(b"hello").unwrap();
        let mut answer = [0; 5];
        client.read_exact(&mut answer).unwrap();
        terminate(&mut echo);
        assert_eq!(read_all(&mut client), b"", "the connection is closed in order");
    }
}

#[test]
fn a01_async_echo_bounds_memory_for_a_client_that_never_reads() {
    const TOTAL: usize = 300_000_000;
    for args in MODES {
        let echo = Program::start("async_echo", args);
        let mut client = echo.connect();
        // A send that is only slow does not make the test wrong: the server then receives less.
        client.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        let block = vec![b'x'; 1 << 20];
        let is_all_sent = (0..TOTAL / block.len()).all(|_| client.write_all(&block).is_ok());
        assert!(!is_all_sent, "the server took all {TOTAL} bytes");
        let peak = echo.peak_memory();
        assert!(peak < 24 * 1024, "peak memory: {peak} KiB");
    }
}

/// Connects to the chat, and gives a name.
fn member(chat: &Program, name: &str) -> LineClient {
    let mut client = LineClient::connect(chat.address());
    assert_eq!(client.receive(), "What is your name?");
    client.send(&[name]);
    assert_eq!(client.receive(), format!("Hello {name}."));
    client
}

#[test]
fn a02_async_chat_sends_lines_to_all_others() {
    let chat = Program::start("async_chat", &[&0]);
    let mut ann = member(&chat, "ann");
    let mut bob = member(&chat, "bob");
    assert_eq!(ann.receive(), "* bob is here");
    ann.send(&["hello"]);
    assert_eq!(bob.receive(), "ann: hello");
    bob.send(&[&"x".repeat(5000)]);
    assert!(bob.receive().starts_with("! a line has 5000 bytes"), "the next line is read");
    bob.send(&["/quit"]);
    assert_eq!(ann.receive(), "* bob has gone");
    assert_eq!(bob.receive(), "", "the connection is closed");
}

#[test]
fn a02_async_chat_says_good_bye_to_everybody_when_it_drains() {
    let mut chat = Program::start("async_chat", &[&0]);
    let mut members: Vec<_> = (0..200).map(|n| member(&chat, &format!("n{n}"))).collect();
    // Each of them has read what was said before, so that its queue is empty.
    for (n, client) in members.iter_mut().enumerate() {
        for other in n + 1..200 {
            assert_eq!(client.receive(), format!("* n{other} is here"));
        }
    }
    terminate(&mut chat);
    for client in &mut members {
        assert_eq!(client.receive(), "* the server goes down, good bye");
        assert_eq!(client.receive(), "");
    }
}

#[test]
fn a01_async_chat_bounds_memory_for_a_client_that_never_reads() {
    let chat = Program::start("async_chat", &[&0]);
    let mut carl = member(&chat, "carl");
    let (mut ann, mut bob) = (member(&chat, "ann"), member(&chat, "bob"));
    assert_eq!(ann.receive(), "* bob is here");
    let before = chat.memory();
    let line = "x".repeat(1000);
    for _ in 0..20_000 {
        ann.send(&[&line]);
        assert_eq!(bob.receive().len(), 1005);
    }
    let grown = chat.memory().saturating_sub(before);
    assert!(grown < 10_000, "the server grew by {grown} KiB while 20 MB were sent");
    // Carl reads two lines for each that Ann says, until there is room to tell him how many are missing.
    let is_told = (0..40_000).any(|n| {
        if n % 2 == 0 {
            ann.send(&["still there?"]);
        }
        carl.receive().starts_with("! you missed ")
    });
    assert!(is_told);
}
