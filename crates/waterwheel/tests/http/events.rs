//! The example `sse_clock` with clients of server-sent events.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::peer_program::run;
use crate::program::Program;
use crate::raw_client::RawClient;

/// Receives two ticks from a connection, and returns their ids.
fn ids_of_two_ticks(program: &Program, last_event_id: &str) -> [u64; 2] {
    let mut client = RawClient::new(program.address());
    client.send(format!("GET /events HTTP/1.1\r\nHost: a\r\n{last_event_id}\r\n"));
    let head = client.read_until("\r\n\r\n");
    assert!(head.contains("\r\ncontent-type: text/event-stream\r\n"), "{head}");
    assert!(head.contains("\r\ncache-control: no-store\r\n"), "{head}");
    client.read_until("retry: 2000\n\n");
    [(); 2].map(|()| {
        client.read_until("event: tick\nid: ");
        let id = client.read_until("\n").trim_end().parse().unwrap();
        client.read_until("data: ");
        assert_eq!(client.read_until("\n\n").len(), "12:34:56\n\n".len());
        id
    })
}

#[test]
fn h10_a_client_that_comes_back_gets_the_ticks_that_it_has_missed() {
    let program = Program::start("sse_clock", &[&0]);
    let [first, second] = ids_of_two_ticks(&program, "");
    assert_eq!(second, first + 1);
    let missed = format!("Last-Event-ID: {}\r\n", first - 10);
    assert_eq!(ids_of_two_ticks(&program, &missed), [first - 9, first - 8]);
    for unusable in ["Last-Event-ID: yesterday\r\n", "Last-Event-ID: 99999999999\r\n"] {
        let [next, _] = ids_of_two_ticks(&program, unusable);
        assert!(next > first, "{unusable}");
    }
    let [oldest, _] = ids_of_two_ticks(&program, "Last-Event-ID: 1\r\n");
    assert!(oldest >= first - 60, "a minute at most: {oldest}, {first}");
}

#[test]
fn h10_curl_prints_each_tick_when_it_comes() {
    let mut program = Program::start("sse_clock", &[&0]);
    let url = format!("http://{}/events", program.address());
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--no-buffer", "--noproxy", "*", "--max-time", "60", &url]);
    let mut curl = match curl.stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => return println!("not tested: curl: {error}"),
    };
    let mut lines = BufReader::new(curl.stdout.take().unwrap()).lines().map(Result::unwrap);
    for _ in 0..3 {
        assert!(lines.any(|line| line.starts_with("data: ")));
    }
    // A stream has no end, and yet the program ends.
    kill_process(Pid::from_child(&program.child), Signal::TERM).unwrap();
    assert!(program.child.wait().unwrap().success());
    assert!(!curl.wait().unwrap().success(), "the stream was cut off");
}

#[test]
fn h10_a_page_has_the_script_that_shows_the_ticks() {
    let program = Program::start("sse_clock", &[&0]);
    let mut client = RawClient::new(program.address());
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let page = client.read_to_end();
    assert!(page.contains("\r\ncontent-type: text/html; charset=utf-8\r\n"), "{page}");
    assert!(page.contains("new EventSource(\"/events\")"), "{page}");
}

/// Connects, takes two ticks, cuts the connection by aborting, and goes on with `Last-Event-ID`, by what fetch gives.
const NODE: &str = r#"
const url = process.argv[1];
async function ids(count, last) {
  const abort = new AbortController();
  const headers = last === undefined ? {} : { "Last-Event-ID": last };
  const response = await fetch(url, { headers, signal: abort.signal });
  const found = [];
  let text = "";
  for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
    text += part;
    const matches = [...text.matchAll(/^event: tick\nid: (\d+)\ndata: .*\n\n/gm)];
    if (matches.length >= count) {
      abort.abort();
      return matches.slice(0, count).map(match => Number(match[1]));
    }
  }
}
const first = await ids(2);
const rest = await ids(2, String(first[0]));
console.log(first[1] - first[0], rest[0] - first[0], rest[1] - first[0]);
"#;

#[test]
fn h10_node_reads_the_stream_and_resumes_it() {
    let program = Program::start("sse_clock", &[&0]);
    let url = format!("http://{}/events", program.address());
    let Some(ended) = run("node", &["--input-type=module", "--eval", NODE, &url]) else { return };
    assert_eq!(ended.expect_success(), "1 1 2\n");
}
