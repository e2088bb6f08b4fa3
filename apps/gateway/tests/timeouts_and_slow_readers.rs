//! Timeouts and slow readers, tested with embedded channels and a virtual clock.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::Reports;
use support::tls::TlsIdentity;
use waterwheel::bytes::Bytes;
use waterwheel::channel::Draining;
use waterwheel::executor::{Clock, EventExecutorGroup, Reporter};
use waterwheel_gateway::drain_gate::DrainGate;
use waterwheel_gateway::gateway::{ClientPipeline, GatewayConfig, client_options};
use waterwheel_gateway::line_counters::LineCounters;
use waterwheel_gateway::line_session::GatewayState;
use waterwheel_gateway::outbox::OverflowPolicy;
use waterwheel_gateway::registry::Registry;
use waterwheel_gateway::tls::handshake_monitor::HandshakeCounts;
use waterwheel_gateway::tls::port::{TlsFiles, TlsPort};
use waterwheel_testkit::embedded::Embedded;

/// The parts of a gateway that its clients share.
struct TestGateway {
    state: Arc<GatewayState>,
    business: EventExecutorGroup,
    pipeline: ClientPipeline,
}

/// A client whose connection is an embedded channel.
struct TestClient {
    channel: Embedded,
    business: EventExecutorGroup,
    /// The start of a line whose end has not arrived.
    heard: Vec<u8>,
}

impl TestGateway {
    fn new(change: impl FnOnce(&mut GatewayConfig)) -> Self {
        let mut config = GatewayConfig::default();
        change(&mut config);
        let state = Arc::new(GatewayState {
            registry: Arc::new(Registry::new(config.clients)),
            gate: DrainGate::default(),
            traffic: Arc::new(LineCounters::default()),
        });
        let business = EventExecutorGroup::builder().threads(1).name("business").build().unwrap();
        let pipeline = ClientPipeline::new(&config, &business, &state).unwrap();
        Self { state, business, pipeline }
    }

    fn connect_silently(&self) -> TestClient {
        let options = client_options().unwrap();
        let channel =
            Embedded::builder().stream().options(options).build(|edit| self.pipeline.build(edit));
        let business = self.business.clone();
        TestClient { channel: channel.unwrap(), business, heard: Vec::new() }
    }

    fn connect(&self, name: &str) -> TestClient {
        let mut client = self.connect_silently();
        client.say(&format!("USER {name}"));
        assert_eq!(
            client.hear(),
            ["HELLO send USER name, or HELP".to_owned(), format!("OK hello {name}")]
        );
        client
    }
}

impl TestClient {
    fn say(&mut self, line: &str) {
        self.channel.write_inbound(Bytes::from(format!("{line}\n")));
        self.run_until_idle();
    }

    /// Runs the loop and the business thread until neither has work left for the other.
    fn run_until_idle(&mut self) {
        for _ in 0..8 {
            self.channel.run();
            self.business.submit(|| ()).unwrap().join().unwrap();
        }
        self.channel.run();
    }

    /// Returns the lines sent to the client since the last call.
    fn hear(&mut self) -> Vec<String> {
        self.run_until_idle();
        while let Some(bytes) = self.channel.read_outbound::<Bytes>() {
            self.heard.extend_from_slice(&bytes);
        }
        let text = String::from_utf8(std::mem::take(&mut self.heard)).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'), "whole lines: {text:?}");
        text.lines().map(str::to_owned).collect()
    }

    fn ask(&mut self, line: &str) -> String {
        self.say(line);
        let mut heard = self.hear();
        assert_eq!(heard.len(), 1, "one answer to {line:?}: {heard:?}");
        heard.remove(0)
    }

    fn advance(&mut self, seconds: u64) {
        self.channel.advance(Duration::from_secs(seconds));
        self.run_until_idle();
    }
}

#[test]
fn an_idle_client_is_sent_ping_and_then_disconnected() {
    let gateway = TestGateway::new(|config| config.idle = Some(Duration::from_secs(60)));
    let mut ann = gateway.connect("ann");
    ann.advance(29);
    assert_eq!(ann.hear(), Vec::<String>::new());
    ann.advance(1);
    assert_eq!(ann.hear(), ["PING"]);
    ann.advance(29);
    assert_eq!(ann.hear(), Vec::<String>::new());
    ann.advance(1);
    assert_eq!(ann.hear(), ["BYE idle for too long"]);
    assert_eq!(gateway.state.registry.client_counts().users, 0, "its name is free");
    ann.advance(1);
    assert!(!ann.channel.channel().is_open(), "it had one second to shut down its output");
}

#[test]
fn r04_a_client_that_dribbles_bytes_and_never_sends_a_line_is_disconnected() {
    let gateway = TestGateway::new(|config| config.idle = Some(Duration::from_secs(60)));
    let mut ann = gateway.connect("ann");
    let mut heard = Vec::new();
    for _ in 0..60 {
        ann.channel.write_inbound(Bytes::from_static(b"x"));
        ann.advance(1);
        heard.extend(ann.hear());
    }
    assert_eq!(heard, ["PING", "BYE idle for too long"]);
    ann.advance(1);
    assert!(!ann.channel.channel().is_open());
}

#[test]
fn a_disconnected_client_that_is_silent_is_closed_before_one_that_keeps_sending() {
    let gateway = TestGateway::new(|_| {});
    let (mut silent, mut talks) = (gateway.connect("silent"), gateway.connect("talks"));
    silent.say("QUIT");
    talks.say("QUIT");
    let step = Duration::from_millis(125);
    for step_number in 0..8 {
        assert!(talks.channel.channel().is_open(), "step {step_number}");
        assert_eq!(silent.channel.channel().is_open(), step_number < 2, "step {step_number}");
        talks.say("PING");
        silent.channel.advance(step);
        talks.channel.advance(step);
    }
    assert!(!talks.channel.channel().is_open(), "it is closed after one second");
}

#[test]
fn a_client_that_sends_any_line_stays_connected() {
    let gateway = TestGateway::new(|config| config.idle = Some(Duration::from_secs(60)));
    let mut ann = gateway.connect("ann");
    for _ in 0..5 {
        ann.advance(30);
        assert_eq!(ann.hear(), ["PING"]);
        ann.say("PONG");
        assert_eq!(ann.hear(), Vec::<String>::new());
    }
    assert!(ann.channel.channel().is_active());
}

#[test]
fn without_an_idle_limit_a_silent_client_stays_connected() {
    let gateway = TestGateway::new(|config| config.idle = None);
    let mut ann = gateway.connect("ann");
    ann.advance(1_000_000);
    assert_eq!(ann.hear(), Vec::<String>::new());
    assert!(ann.channel.channel().is_active());
}

#[test]
fn a_quitting_client_that_does_not_read_is_closed_after_ten_seconds() {
    let gateway = TestGateway::new(|_| {});
    let mut ann = gateway.connect("ann");
    ann.channel.set_room(0);
    ann.say("QUIT");
    ann.advance(9);
    assert!(ann.channel.channel().is_open());
    ann.advance(1);
    assert!(!ann.channel.channel().is_open());
}

/// Length of the pushed texts: a few dozen lines reach the high-water mark of the channel.
const LONG: usize = 1000;

/// Sends numbered lines from ann to bob, who reads nothing meanwhile. Returns ann's replies and the lines that bob
/// reads afterwards.
fn flood(
    overflow: OverflowPolicy,
    lines: usize,
) -> (Vec<String>, Vec<String>, TestGateway, TestClient) {
    let gateway = TestGateway::new(|config| (config.queue, config.overflow) = (4, overflow));
    let (mut ann, mut bob) = (gateway.connect("ann"), gateway.connect("bob"));
    bob.channel.set_room(0);
    let mut answers = Vec::new();
    for n in 0..lines {
        answers.push(ann.ask(&format!("PUSH bob {n:<LONG$}")));
        bob.run_until_idle();
    }
    assert!(bob.channel.channel().pending_bytes() < 70 * 1024, "bounded by the water mark");
    bob.channel.clear_faults();
    let heard = bob.hear().into_iter().map(|line| line.trim_end().to_owned()).collect();
    (answers, heard, gateway, bob)
}

fn pushed(n: usize) -> String {
    format!("PUSH ann {n}")
}

#[test]
fn drop_oldest_drops_the_oldest_lines_of_a_full_outbox() {
    let (answers, heard, gateway, _) = flood(OverflowPolicy::DropOldest, 100);
    assert!(answers.iter().all(|answer| answer == "OK"), "{answers:?}");
    // The lines that the channel had taken, a gap, the newest four.
    let gap = heard.iter().position(|line| line.starts_with("MISSED")).unwrap();
    let missed = 100 - gap - 4;
    assert_eq!(heard[gap], format!("MISSED {missed}"));
    assert!(gap > 50 && missed > 20, "{gap} and {missed}");
    assert_eq!(heard[..gap], (0..gap).map(pushed).collect::<Vec<_>>());
    assert_eq!(heard[gap + 1..], (96..100).map(pushed).collect::<Vec<_>>());
    assert_eq!(gateway.state.traffic.lines().missed, missed as u64);
}

#[test]
fn drop_newest_refuses_lines_for_a_full_outbox() {
    let (answers, heard, gateway, mut bob) = flood(OverflowPolicy::DropNewest, 100);
    let accepted = answers.iter().take_while(|answer| *answer == "OK").count();
    let refused = "ERR the outbox of bob is full; try again later";
    assert!(answers[accepted..].iter().all(|answer| answer == refused), "{answers:?}");
    assert!(accepted > 50 && accepted < 90, "{accepted}");
    let mut expected: Vec<_> = (0..accepted).map(pushed).collect();
    expected.push(format!("MISSED {}", 100 - accepted));
    assert_eq!(heard, expected);
    assert_eq!(gateway.state.traffic.lines().missed, 100 - accepted as u64);
    let mut eve = gateway.connect("eve");
    assert_eq!(eve.ask("PUSH bob again"), "OK", "there is room again");
    assert_eq!(bob.hear(), ["PUSH eve again"]);
}

#[test]
fn disconnect_closes_the_client_with_a_full_outbox() {
    let (answers, _, gateway, mut bob) = flood(OverflowPolicy::Disconnect, 100);
    let accepted = answers.iter().take_while(|answer| *answer == "OK").count();
    assert_eq!(answers[accepted], "ERR the outbox of bob is full; try again later");
    assert_eq!(answers[accepted + 1..], vec!["ERR no user is called bob"; 99 - accepted]);
    bob.run_until_idle();
    assert!(!bob.channel.channel().is_open());
    assert_eq!(gateway.state.registry.client_counts().users, 0, "ann has gone, and so has bob");
}

#[test]
fn reading_stops_while_a_client_does_not_read_its_replies() {
    let gateway = TestGateway::new(|_| {});
    let mut ann = gateway.connect("ann");
    ann.channel.set_room(0);
    let help = Bytes::from("HELP\n".repeat(100));
    for _ in 0..100 {
        ann.channel.write_inbound(help.clone());
        ann.run_until_idle();
    }
    assert!(ann.channel.unread() > 50, "its commands wait unread");
    let bound = 64 * 1024 + 4 * 100 * 8 * 80; // The high-water mark plus the replies to one read round.
    assert!(ann.channel.channel().pending_bytes() < bound);
    ann.channel.clear_faults();
    for _ in 0..200 {
        ann.run_until_idle();
    }
    let oks = ann.hear().iter().filter(|line| *line == "OK").count();
    assert_eq!(oks, 100 * 100, "every command is answered in the end");
}

/// A gateway with TLS, and a client that has begun no handshake.
struct HalfOpen {
    gateway: TestGateway,
    tls: Arc<TlsPort>,
    client: TestClient,
    reports: Reports,
}

impl HalfOpen {
    fn counts(&self) -> (usize, HandshakeCounts) {
        (self.gateway.state.registry.client_counts().clients, self.tls.handshakes())
    }
}

fn half_open(test: &str) -> HalfOpen {
    let identity = TlsIdentity::new(test, "server");
    let (certificate, key) = (identity.certificate, identity.key);
    let reports = Reports::default();
    let reporter: Arc<dyn Reporter> = Arc::new(reports.clone());
    let files = TlsFiles { certificate, key, client_ca: None };
    let tls = Arc::new(TlsPort::load(files, &reporter).unwrap());
    let TestGateway { state, business, pipeline } = TestGateway::new(|_| {});
    let pipeline = pipeline.with_tls(Some(tls.clone()));
    let gateway = TestGateway { state, business, pipeline };
    let mut client = gateway.connect_silently();
    client.run_until_idle();
    assert_eq!(client.hear(), Vec::<String>::new(), "nothing is sent in plain text");
    let half_open = HalfOpen { gateway, tls, client, reports };
    assert_eq!(half_open.counts(), (1, HandshakeCounts::default()));
    half_open
}

#[test]
fn t02_a_client_that_does_not_finish_its_handshake_is_closed_after_ten_seconds() {
    let mut ann = half_open("handshake_timeout");
    ann.client.advance(9);
    assert!(ann.client.channel.channel().is_open());
    ann.client.advance(1);
    assert!(!ann.client.channel.channel().is_open());
    assert_eq!(ann.counts(), (0, HandshakeCounts { done: 0, failed: 1 }));
    let reports = ann.reports.all();
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert!(reports[0].ends_with("the TLS handshake was not done within 10s"), "{reports:?}");
}

#[test]
fn l11_a_drain_does_not_wait_for_handshakes() {
    let mut ann = half_open("handshake_drain");
    let deadline = Clock::Monotonic.now();
    ann.client.channel.channel().fire_user_event(Draining { deadline });
    ann.client.run_until_idle();
    assert!(!ann.client.channel.channel().is_open());
    assert_eq!(ann.counts(), (0, HandshakeCounts::default()), "neither done nor failed");
    assert_eq!(ann.reports.all(), Vec::<String>::new());
}

#[test]
fn t08_a_client_that_leaves_in_its_handshake_is_counted_and_not_reported() {
    let mut ann = half_open("handshake_cut_off");
    ann.client.channel.finish_inbound();
    ann.client.run_until_idle();
    assert!(!ann.client.channel.channel().is_open());
    assert_eq!(ann.counts(), (0, HandshakeCounts { done: 0, failed: 1 }));
    assert_eq!(ann.reports.all(), Vec::<String>::new());
}

#[test]
fn commands_are_refused_once_the_gate_is_closed() {
    let gateway = TestGateway::new(|_| {});
    let mut ann = gateway.connect("ann");
    gateway.state.gate.close();
    assert!(gateway.state.gate.wait_until_idle(Duration::ZERO));
    assert_eq!(ann.ask("PUSH ann hello"), "ERR the gateway is shutting down; try again later");
}
