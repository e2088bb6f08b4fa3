//! The example by the bytes: invalid input, order, the end of a connection.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use waterwheel::codec::RespCommand;

use crate::program::Program;

#[test]
fn k03_invalid_resp_is_answered_with_an_error_and_a_close() {
    let redis = Program::start("redis", &[&0]);
    for (sent, answer) in [
        ("*1\r\n+PING\r\n", "an argument of a command begins with '+' instead of '$'"),
        (
            "PING\r\n*1000000\r\n",
            "a message has at least 1000000 values; at most 131072 are allowed",
        ),
        ("*1\r\n$9000000\r\n", "a bulk string is longer than 8388608 bytes"),
    ] {
        let mut client = redis.connect();
        client.write_all(sent.as_bytes()).unwrap();
        let mut received = String::new();
        client.read_to_string(&mut received).unwrap();
        let received = received.strip_prefix("+PONG\r\n").unwrap_or(&received);
        assert_eq!(received, format!("-ERR Protocol error: RESP: {answer}\r\n"));
    }
}

#[test]
fn k03_a_thousand_pipelined_commands_are_answered_in_order() {
    let redis = Program::start("redis", &[&0]);
    let mut client = redis.connect();
    let mut sent = Vec::new();
    let mut expected = String::new();
    for number in 0..1000 {
        sent.extend_from_slice(RespCommand::new(&["ECHO", &number.to_string()]).wire());
        let length = number.to_string().len();
        expected += &format!("${length}\r\n{number}\r\n");
    }
    client.write_all(&sent).unwrap();
    let mut answers = vec![0; expected.len()];
    client.read_exact(&mut answers).unwrap();
    assert_eq!(String::from_utf8(answers).unwrap(), expected);
}

fn read_all(mut client: TcpStream) -> Vec<u8> {
    let mut received = Vec::new();
    client.read_to_end(&mut received).unwrap();
    received
}

/// Replies of other loops and long replies that the socket cannot take at once are sent before the close.
#[test]
fn k03_a_client_that_ends_gets_all_replies_first() {
    let redis = Program::start("redis", &[&"--threads", &2, &0]);
    let long = "x".repeat(4 << 20);
    let mut sent = RespCommand::new(&["SET", "long", &long]).wire().to_vec();
    let mut expected = String::from("+OK\r\n");
    for number in 0..100 {
        let key = format!("key{number}");
        sent.extend_from_slice(RespCommand::new(&["SET", &key, "1"]).wire());
        sent.extend_from_slice(RespCommand::new(&["INCR", &key]).wire());
        expected += "+OK\r\n:2\r\n";
    }
    for _ in 0..3 {
        sent.extend_from_slice(RespCommand::new(&["GET", "long"]).wire());
        expected += &format!("${}\r\n{long}\r\n", long.len());
    }
    // By the end of its data.
    let mut client = redis.connect();
    client.write_all(&sent).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert!(read_all(client) == expected.as_bytes(), "replies are missing after a half-close");
    // By QUIT; commands after it are ignored.
    let mut client = redis.connect();
    client.write_all(&sent).unwrap();
    client.write_all(b"QUIT\r\nPING\r\n").unwrap();
    assert!(read_all(client) == format!("{expected}+OK\r\n").as_bytes(), "after QUIT");
    // By a protocol error.
    let mut client = redis.connect();
    client.write_all(&sent).unwrap();
    client.write_all(b"*1\r\n+PING\r\n").unwrap();
    let received = read_all(client);
    let error: &[u8] =
        b"-ERR Protocol error: RESP: an argument of a command begins with '+' instead of '$'\r\n";
    assert!(received.strip_suffix(error) == Some(expected.as_bytes()), "after a protocol error");
}

/// A client that sends commands for both loops and reads nothing makes the server hold a bounded number of replies.
#[test]
fn k03_a_client_that_does_not_read_is_not_read_from() {
    let redis = Program::start("redis", &[&"--threads", &2, &0]);
    let mut client = redis.connect();
    client.set_nonblocking(true).unwrap();
    let before = redis.memory();
    let commands: Vec<u8> =
        (0..1000).flat_map(|n| format!("ECHO {n:0>500}\r\nGET key{n}\r\n").into_bytes()).collect();
    let (mut sent, mut refused) = (0u64, 0);
    // Done when the kernel's buffers are full and stay full while another client is served.
    let mut other = redis.connect();
    while refused < 100 {
        match client.write(&commands[(sent % commands.len() as u64) as usize..]) {
            Ok(written) => (sent, refused) = (sent + written as u64, 0),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                refused += 1;
                other.write_all(b"PING\r\n").unwrap();
                other.read_exact(&mut [0; 7]).unwrap();
            }
            Err(error) => panic!("{error}"),
        }
        assert!(sent < 1 << 30, "the server reads on and on");
    }
    let grown = redis.peak_memory().saturating_sub(before) / 1024;
    assert!(grown < 64, "{grown} MiB held for a client that does not read");
}

/// Far more commands than may be pending at once: reads pause and go on, and the order is kept.
#[test]
fn k03_tens_of_thousands_of_commands_for_two_loops_are_answered_in_order() {
    let redis = Program::start("redis", &[&"--threads", &2, &0]);
    let mut client = redis.connect();
    let mut sender = client.try_clone().unwrap();
    let count = 50_000;
    let sending = std::thread::spawn(move || {
        let commands: Vec<u8> =
            (0..count).flat_map(|n| format!("APPEND key{} x\r\n", n % 1000).into_bytes()).collect();
        sender.write_all(&commands).unwrap();
    });
    let expected: String = (0..count).map(|n| format!(":{}\r\n", n / 1000 + 1)).collect();
    let mut answers = vec![0; expected.len()];
    client.read_exact(&mut answers).unwrap();
    assert!(answers == expected.as_bytes());
    sending.join().unwrap();
}
