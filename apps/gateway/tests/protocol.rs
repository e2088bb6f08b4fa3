//! The line protocol over TCP, with its error cases.

mod support;

use std::io::Write;
use std::net::Shutdown;
use std::thread;

use support::{Client, InProcess};

#[test]
fn commands_get_their_documented_replies() {
    let gateway = InProcess::start(|_| {});
    let mut ann = Client::connect(gateway.address);
    ann.ask("SUB news", "ERR no name yet; send USER name first");
    ann.ask("USER ann", "OK hello ann");
    ann.ask("USER eve", "ERR your name is ann already; QUIT and reconnect to take another");
    ann.ask("SUB news", "OK");
    ann.ask("SUB news", "ERR you are subscribed to news already");
    ann.ask("UNSUB olds", "ERR you are not subscribed to olds");
    ann.ask("PING", "PONG");
    ann.ask("HOLA", "ERR unknown command HOLA; HELP lists the commands");
    ann.ask("PUSH bob hello", "ERR no user is called bob");
    let mut bob = gateway.client("bob");
    bob.ask("PUB news it rains", "OK 1");
    ann.expect("MSG news bob it rains");
    ann.ask("PUSH bob hello", "OK");
    bob.expect("PUSH ann hello");
    ann.ask("UNSUB news", "OK");
    bob.ask("PUB news the sun shines", "OK 0");
    ann.ask("QUIT", "BYE goodbye");
    ann.expect_end();
    bob.ask("PUSH ann hello", "ERR no user is called ann");
    gateway.end();
}

#[test]
fn help_lists_every_command() {
    let gateway = InProcess::start(|_| {});
    let mut client = Client::connect(gateway.address);
    client.say("HELP");
    let mut told = Vec::new();
    loop {
        let line = client.hear().unwrap();
        if line == "OK" {
            break;
        }
        told.push(line);
    }
    for command in ["USER", "SUB", "UNSUB", "PUB", "PUSH", "PING", "HELP", "QUIT"] {
        let usage = format!("HELP {command} ");
        assert!(told.iter().any(|line| line.starts_with(&usage)), "{command} in {told:?}");
    }
    gateway.end();
}

#[test]
fn a_line_sent_byte_by_byte_is_one_line() {
    let gateway = InProcess::start(|_| {});
    let mut client = Client::connect(gateway.address);
    for byte in b"USER ann\r\n" {
        client.send([*byte]);
    }
    client.expect("OK hello ann");
    gateway.end();
}

#[test]
fn many_commands_in_one_packet_are_answered_in_order() {
    let gateway = InProcess::start(|_| {});
    let mut client = Client::connect(gateway.address);
    client.send("USER ann\nSUB a\nWHAT\n\nPUB a 1\nPING\nPUSH ann 2\nQUIT\nPING\n");
    let mut heard: Vec<String> = std::iter::from_fn(|| client.hear()).collect();
    // Pushed lines are in order among themselves, at any place between the replies.
    let (pushed, answers): (Vec<String>, Vec<String>) =
        heard.drain(..).partition(|line| line.starts_with("MSG") || line.starts_with("PUSH"));
    let expected = [
        "OK hello ann",
        "OK",
        "ERR unknown command WHAT; HELP lists the commands",
        "ERR empty line; HELP lists the commands",
        "OK 1",
        "PONG",
        "OK",
        "BYE goodbye",
    ];
    assert_eq!(answers, expected);
    assert_eq!(pushed, ["MSG a ann 1", "PUSH ann 2"]);
    gateway.end();
}

#[test]
fn a_thousand_commands_at_once_are_answered_before_any_reply_is_read() {
    let gateway = InProcess::start(|_| {});
    let mut client = Client::connect(gateway.address);
    client.send("PING\n".repeat(1000));
    for _ in 0..1000 {
        client.expect("PONG");
    }
    gateway.end();
}

#[test]
fn a_line_that_is_too_long_is_an_error_and_the_next_is_read() {
    let gateway = InProcess::start(|config| config.max_line = 20);
    let mut client = Client::connect(gateway.address);
    client.ask("USER x2345678901234567890", "ERR a line is longer than 20 bytes");
    client.ask("USER x23456789012345", "OK hello x23456789012345");
    client.send("x".repeat(100_000));
    client.expect("ERR a line is longer than 20 bytes");
    client.send("\nPING\n");
    client.expect("PONG");
    gateway.end();
}

#[test]
fn invalid_utf_8_is_an_error_and_the_next_line_is_read() {
    let gateway = InProcess::start(|_| {});
    let mut client = Client::connect(gateway.address);
    client.send(b"USER \xff\xfe\nPING\n");
    client.expect("ERR text of 7 bytes is not valid UTF-8 from byte 5 on");
    client.expect("PONG");
    gateway.end();
}

#[test]
fn names_have_a_limit() {
    let gateway = InProcess::start(|_| {});
    let mut client = Client::connect(gateway.address);
    let long = "x".repeat(33);
    client.ask(&format!("USER {long}"), "ERR the name has 33 bytes; at most 32 are allowed");
    client.ask("USER ann", "OK hello ann");
    client.ask(&format!("SUB {long}"), "ERR the topic has 33 bytes; at most 32 are allowed");
    gateway.end();
}

#[test]
fn subscriptions_per_client_are_limited() {
    let gateway = InProcess::start(|_| {});
    let mut client = gateway.client("ann");
    for n in 0..64 {
        client.ask(&format!("SUB t{n}"), "OK");
    }
    let refused = "ERR you are subscribed to 64 topics, the maximum; UNSUB one first";
    client.ask("SUB t64", refused);
    client.ask("UNSUB t0", "OK");
    client.ask("SUB t64", "OK");
    assert_eq!(gateway.gateway.client_counts().topics, 64);
    gateway.end();
}

#[test]
fn two_clients_cannot_have_one_name() {
    let gateway = InProcess::start(|_| {});
    let mut first = gateway.client("ann");
    let mut second = Client::connect(gateway.address);
    second.ask("USER ann", "ERR the name ann is taken; choose another");
    first.ask("QUIT", "BYE goodbye");
    first.expect_end();
    second.ask("USER ann", "OK hello ann");
    gateway.end();
}

#[test]
fn a_half_closed_client_receives_its_replies_and_lines_then_eof() {
    let gateway = InProcess::start(|_| {});
    let mut client = Client::connect(gateway.address);
    client.send("USER ann\nPUSH ann note\nPING\nPUSH ann cut of");
    client.finish();
    let heard: Vec<String> = std::iter::from_fn(|| client.hear()).collect();
    assert_eq!(heard.len(), 6, "{heard:?}");
    let answers: Vec<_> = heard.iter().filter(|line| *line != "PUSH ann note").collect();
    let cut_off = "ERR the stream ended after 15 bytes of a line without a line end";
    assert_eq!(answers, ["OK hello ann", "OK", "PONG", cut_off, "BYE end of input"]);
    gateway.end();
}

/// Closing a socket with unread input sends RST, and the peer loses what it has not read.
#[test]
fn a_client_that_keeps_sending_after_quit_loses_no_reply() {
    let gateway = InProcess::start(|_| {});
    let mut client = Client::connect(gateway.address);
    let mut speaker = client.stream().try_clone().unwrap();
    let talk = "HELP\n".repeat(300) + "QUIT\n" + &"PING\n".repeat(40_000);
    let talking = thread::spawn(move || {
        speaker.write_all(talk.as_bytes()).unwrap();
        speaker.shutdown(Shutdown::Write).unwrap();
    });
    let heard: Vec<String> = std::iter::from_fn(|| client.hear()).collect();
    assert_eq!(heard.iter().filter(|line| *line == "OK").count(), 300);
    assert_eq!(heard.last().map(String::as_str), Some("BYE goodbye"));
    talking.join().unwrap();
    gateway.end();
}

#[test]
fn clients_are_limited() {
    let gateway = InProcess::start(|config| config.clients = 2);
    let mut first = gateway.client("ann");
    let _second = gateway.client("bob");
    let mut third = Client::connect_silently(gateway.address);
    third.expect("ERR the limit of 2 clients is reached; try again later");
    third.expect_end();
    first.ask("QUIT", "BYE goodbye");
    first.expect_end();
    gateway.client("eve").ask("PING", "PONG");
    gateway.end();
}
