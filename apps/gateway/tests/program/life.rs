//! The life of the gateway: readiness, drain, signals.

use std::io::{ErrorKind, Read, Write};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use waterwheel::executor::{Clock, DEFAULT_QUIET_PERIOD};

use super::support::events::EventReader;
use super::support::http::{self, HttpClient};
use super::support::lines::{LineClient, connect};
use super::support::process::Process;

const STOPS: &str = "delivering what was published; a second signal ends the gateway at once";

#[test]
fn l11_sigterm_and_sigint_end_the_gateway_with_status_0_and_tell_the_clients() {
    for (signal, name) in [(Signal::TERM, "SIGTERM"), (Signal::INT, "SIGINT")] {
        let mut gateway = Process::start(&[]);
        let mut lines = LineClient::named(gateway.address, "ann");
        lines.ask("SUB news", "OK ");
        let mut events = EventReader::open(gateway.address, "news", None).unwrap();
        assert_eq!(events.next().unwrap().unwrap().name, "open");
        let mut idle = HttpClient::connect(gateway.address);
        assert_eq!(idle.get("/readyz").status, 200);
        lines.ask("PUB news last words", "");
        gateway.signal(signal);
        assert_eq!(events.next().unwrap().unwrap().name, "message");
        assert_eq!(events.next().unwrap().unwrap().name, "closing");
        assert_eq!(events.next().unwrap(), None);
        let mut heard = String::new();
        while let Some(line) = lines.hear() {
            heard = line;
        }
        assert!(heard.starts_with("BYE this gateway is shutting down"), "{heard}");
        drop(lines);
        assert_eq!(gateway.line_with("delivering"), format!("{name}: {STOPS}"));
        assert_eq!(gateway.line(), "1 publications, 2 deliveries, 0 missed");
        assert_eq!(gateway.wait().0.code(), Some(0));
    }
}

/// Pages are told nothing: their stream ends, and they ask again.
#[test]
fn l11_a_page_that_looks_at_the_loops_does_not_hold_up_the_end() {
    let gateway = Process::start(&["--drain", "1h"]);
    let mut page = EventReader::open_path(gateway.address, "/api/live", None).unwrap();
    let snapshot = page.next().unwrap().unwrap();
    assert_eq!(snapshot.name, "snapshot");
    assert!(snapshot.data.contains("\"loops\":["), "{}", snapshot.data);
    gateway.signal(Signal::TERM);
    while page.next().unwrap().is_some() {}
    drop(page);
    assert_eq!(gateway.wait().0.code(), Some(0));
}

#[test]
fn l11_a_client_of_websocket_is_told_and_closed() {
    let gateway = Process::start(&["--drain", "1h"]);
    let mut client = connect(gateway.address);
    let handshake = "GET /ws HTTP/1.1\r\nHost: gateway\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                     Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    client.write_all(handshake.as_bytes()).unwrap();
    let mut heard = Vec::new();
    read_until(&mut client, &mut heard, b"\r\n\r\n");
    assert!(heard.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&heard));
    gateway.signal(Signal::TERM);
    read_until(&mut client, &mut heard, b"{\"push\":\"closing\"");
    // The header of the Close, which a client answers with one of its own.
    read_until(&mut client, &mut heard, b"}\x88");
    client.write_all(b"\x88\x80\0\0\0\0").unwrap();
    client.read_to_end(&mut heard).unwrap();
    assert_eq!(gateway.wait().0.code(), Some(0));
}

/// Reads until these bytes have come.
fn read_until(from: &mut impl Read, heard: &mut Vec<u8>, bytes: &[u8]) {
    while !heard.windows(bytes.len()).any(|window| window == bytes) {
        let mut more = [0; 1024];
        let count = from.read(&mut more).unwrap();
        assert!(count > 0, "the end, after {}", String::from_utf8_lossy(heard));
        heard.extend_from_slice(&more[..count]);
    }
}

/// The gateway waits for neither a quiet period nor idle clients.
#[test]
fn l11_an_idle_gateway_ends_at_once() {
    let end = |clients: u32| {
        let gateway = Process::start(&[]);
        let idle = |n| LineClient::named(gateway.address, &format!("client{n}"));
        let _idle: Vec<_> = (0..clients).map(idle).collect();
        let signalled = Clock::Monotonic.now();
        gateway.signal(Signal::TERM);
        assert_eq!(gateway.wait().0.code(), Some(0));
        Clock::Monotonic.now().since(signalled)
    };
    for clients in [0, 3] {
        // A busy machine may delay some of them, a quiet period would delay all.
        assert!((0..5).any(|_| end(clients) < DEFAULT_QUIET_PERIOD), "with {clients} clients");
    }
}

#[test]
fn g05_readyz_is_false_from_the_notice_of_a_drain_on_while_everything_else_goes_on() {
    let mut gateway = Process::start(&["--drain-notice", "1h"]);
    assert_eq!(http::get(gateway.address, "/readyz").body, "ok\n");
    let mut client = LineClient::named(gateway.address, "ann");
    gateway.signal(Signal::TERM);
    gateway.line_with("delivering");
    let begun = Clock::Monotonic.now();
    loop {
        let answer = http::get(gateway.address, "/readyz");
        if (answer.status, answer.body.as_str()) == (503, "draining\n") {
            break;
        }
        assert!(Clock::Monotonic.now().since(begun) < super::support::LIMIT, "{answer:?}");
    }
    assert_eq!(http::get(gateway.address, "/healthz").status, 200);
    assert!(http::get(gateway.address, "/metrics").body.contains("waterwheel_draining 0"));
    client.ask("SUB news", "OK ");
    LineClient::named(gateway.address, "bob").ask("PUB news still here", "OK ");
    client.expect("MSG news bob still here");
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait().0.code(), Some(143), "a second signal ends it at once");
}

#[test]
fn l11_a_second_signal_ends_the_gateway_at_once() {
    let mut gateway = Process::start(&["--drain", "1h", "--slow-clients-bytes", "1MiB"]);
    let mut slow = LineClient::named(gateway.address, "slow");
    slow.ask("SUB news", "OK ");
    let mut speaker = LineClient::named(gateway.address, "speaker");
    // Fills the kernel's socket buffers, so that the drain cannot complete.
    let line = format!("PUB news {}", "x".repeat(8000));
    for _ in 0..1000 {
        speaker.say(&line);
        let heard = speaker.hear().unwrap();
        assert!(heard.starts_with("OK "), "{heard}");
    }
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.line_with("delivering"), format!("SIGTERM: {STOPS}"));
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait().0.code(), Some(143));
    drop(slow);
}

#[test]
fn l11_a_gateway_that_drains_refuses_new_connections() {
    let gateway = Process::start(&[]);
    let address = gateway.address;
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait().0.code(), Some(0));
    let refused = http::try_get(address, "/").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn g05_the_page_its_scripts_and_the_metrics_are_served() {
    let gateway = Process::start(&["--loops", "2"]);
    let mut client = HttpClient::connect(gateway.address);
    let page = client.get("/");
    assert!(page.status == 200 && page.body.contains("</html>"), "{page:?}");
    assert_eq!(client.get("/waterwheel.js").status, 200);
    assert_eq!(client.get("/page/page.js").status, 200);
    assert_eq!(client.get("/nowhere").status, 404);
    let metrics = client.get("/metrics");
    assert_eq!(metrics.status, 200);
    for sample in
        ["waterwheel_loop_turns_total{loop=\"loop-1\"}", "waterwheel_http_requests_total 5"]
    {
        assert!(metrics.body.contains(sample), "{sample} in {}", metrics.body);
    }
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("promtool: {error}; scripts/test installs it"));
    promtool.stdin.take().unwrap().write_all(metrics.body.as_bytes()).unwrap();
    assert!(promtool.wait().unwrap().success());
}
