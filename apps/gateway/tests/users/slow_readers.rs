//! Sockets that are not read, at the running program.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use crate::gateway::Gateway;
use crate::tools::LIMIT;

const SLOW: usize = 40;
const PUBLICATIONS: usize = 2_000;
/// Of the text of a publication.
const BYTES: usize = 7_000;
/// The queue of a client.
const QUEUE: usize = 256 * 1024;

/// A client of lines that has subscribed.
fn subscribe(gateway: &Gateway) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(gateway.address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream.write_all(b"SUB flood\n").unwrap();
    let mut reader = BufReader::new(stream);
    assert!(line(&mut reader).starts_with("HELLO "));
    assert!(line(&mut reader).starts_with("OK "));
    reader
}

fn line(reader: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    assert!(reader.read_line(&mut line).unwrap() > 0, "the gateway has closed the connection");
    line.pop();
    line
}

/// Publishes numbered texts over one connection, each when a client that reads has got the one before.
fn publish(gateway: &Gateway, fast: &mut BufReader<TcpStream>) {
    let mut stream = BufReader::new(TcpStream::connect(gateway.address).unwrap());
    let filler = "x".repeat(BYTES);
    for number in 0..PUBLICATIONS {
        stream.get_mut().write_all(format!("PUB flood {number} {filler}\n").as_bytes()).unwrap();
        if number == 0 {
            line(&mut stream);
        }
        assert!(line(&mut stream).starts_with("OK "));
        let text = line(fast);
        assert!(text.starts_with(&format!("MSG flood - {number} ")), "{}", &text[..40]);
    }
}

fn resident_bytes(gateway: &Gateway) -> f64 {
    let metrics = gateway.curl_text("/metrics", &[]);
    let line = metrics.lines().find_map(|line| line.strip_prefix("process_resident_memory_bytes "));
    line.unwrap().parse().unwrap()
}

#[test]
fn r04_sockets_that_are_not_read_cost_their_queue_are_told_what_they_missed_and_hold_up_nobody() {
    let queue = QUEUE.to_string();
    let gateway = Gateway::start(&[
        "--slow-clients-bytes",
        &queue,
        "--clients-publish-rate",
        "1000000",
        "--clients-publish-burst",
        "1000000",
        "--history-publications",
        "100000",
        "--history-bytes",
        "64MiB",
        "--history-total-bytes",
        "64MiB",
        "--answers-recovered-bytes",
        "64MiB",
    ]);
    let mut slow: Vec<_> = (0..SLOW).map(|_| subscribe(&gateway)).collect();
    let mut fast = subscribe(&gateway);
    let before = resident_bytes(&gateway);
    publish(&gateway, &mut fast);
    // The history, once, and the queues: the payload of all of them together is forty times as much.
    let history = (PUBLICATIONS * BYTES) as f64;
    let used = resident_bytes(&gateway) - before;
    assert!(used < 2.0 * history + 2.0 * (SLOW * QUEUE) as f64, "{used} bytes");
    assert!(history > 10e6 && used < SLOW as f64 * history / 8.0);
    // One of them reads at last: it is told how many it has missed, and where to resume.
    let mut late = slow.pop().unwrap();
    let (first_missed, position) = read_to_the_end(&mut late);
    late.get_mut().write_all(format!("UNSUB flood\nSUB flood {position}\n").as_bytes()).unwrap();
    assert_eq!(line(&mut late), "OK");
    let recovered = PUBLICATIONS - first_missed;
    assert!(line(&mut late).ends_with(&format!(" {recovered}")), "nothing is lost, and no gap");
    for number in first_missed..PUBLICATIONS {
        assert!(line(&mut late).starts_with(&format!("MSG flood - {number} ")));
    }
    // The others end without having read.
    drop(slow);
    late.get_mut().write_all(b"QUIT\n").unwrap();
    let mut rest = String::new();
    late.read_to_string(&mut rest).unwrap();
    assert!(rest.starts_with("BYE "), "{rest}");
}

/// Reads until each publication has been seen, or counted as missed. Returns the number of the first one that was missed, and
/// the position before it. As the kernel takes more at times, there may be several gaps.
fn read_to_the_end(reader: &mut BufReader<TcpStream>) -> (usize, String) {
    let (mut next, mut first) = (0, None);
    while next < PUBLICATIONS {
        let text = line(reader);
        if let Some((count, position)) =
            text.strip_prefix("MISSED ").and_then(|rest| rest.split_once(' '))
        {
            first.get_or_insert((next, position.to_owned()));
            next += count.parse::<usize>().unwrap();
        } else {
            assert!(text.starts_with(&format!("MSG flood - {next} ")), "{}", &text[..40]);
            next += 1;
        }
    }
    assert_eq!(next, PUBLICATIONS);
    first.expect("some were missed")
}
