//! slowhttptest: clients that send or read slowly are ended, and others do not notice.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::peer_program::{Ended, run};
use crate::raw_client::RawClient;
use crate::test_server::TestServer;

/// The time that a request of another client may take: that of a very busy machine.
const LONGEST_TIME: Duration = Duration::from_secs(5);

/// The time within which most requests are answered: a server that waits for slow clients needs one of its timeouts, a
/// second at least.
const NORMAL_TIME: Duration = Duration::from_millis(500);

/// The slow connections of a run.
const CONNECTIONS: &str = "50";

/// Runs slowhttptest until the server has ended all of its connections, or for this many seconds. Meanwhile, another
/// client sends requests. Returns `None` without the program.
fn attack(server: &TestServer, seconds: &str, options: &[&str], path: &str) -> Option<()> {
    let is_over = AtomicBool::new(false);
    let (ended, mut times) = thread::scope(|scope| {
        let other = scope.spawn(|| ask_until(server, &is_over));
        let url = server.url(path);
        let fixed = ["-c", CONNECTIONS, "-r", CONNECTIONS, "-l", seconds, "-p", "5", "-u", &url];
        let ended = run("slowhttptest", &[options, &fixed].concat());
        is_over.store(true, Ordering::Release);
        (ended, other.join().unwrap())
    });
    let Ended { stdout, .. } = ended?;
    assert!(stdout.contains("No open connections left"), "{stdout}");
    times.sort_unstable();
    let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
    assert!(median < NORMAL_TIME && slowest < LONGEST_TIME, "{median:?}, at most {slowest:?}");
    Some(())
}

/// Sends requests one after the other, one at least. Returns the time of each.
#[allow(clippy::disallowed_methods, reason = "the time that a client waits is what is tested")]
fn ask_until(server: &TestServer, is_over: &AtomicBool) -> Vec<Duration> {
    let mut times = Vec::new();
    while times.is_empty() || !is_over.load(Ordering::Acquire) {
        let begun = Instant::now();
        let mut client = RawClient::new(server.address());
        client.send("GET /plaintext HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert!(client.read_to_end().ends_with("Hello, World!"));
        times.push(begun.elapsed());
    }
    times
}

#[test]
fn h05_slow_heads_are_ended_by_the_head_timeout() {
    let server = TestServer::start();
    attack(&server, "20", &["-H", "-i", "1", "-t", "GET"], "/plaintext");
}

#[test]
fn h05_slow_bodies_are_ended_by_the_least_rate() {
    let server = TestServer::start();
    attack(&server, "30", &["-B", "-i", "1", "-s", "8192", "-x", "10"], "/count");
}

#[test]
fn h05_slow_readers_are_ended_by_the_stall_timeout() {
    let server = TestServer::start();
    // What has come to the client before its connection is ended can still be read: fast enough to find the end.
    attack(&server, "30", &["-X", "-w", "512", "-y", "1024", "-n", "1", "-z", "512"], "/large");
}
