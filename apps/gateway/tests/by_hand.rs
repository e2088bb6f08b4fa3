//! Clients without a network, on a clock that moves when told: what depends on time, and on clients that do
//! not read.

use std::sync::Arc;
use std::time::Duration;

use waterwheel::bytes::Bytes;
use waterwheel::executor::EventExecutorGroup;
use waterwheel_gateway::gate::Gate;
use waterwheel_gateway::gateway::{Config, Pipeline, client_options};
use waterwheel_gateway::outbox::Overflow;
use waterwheel_gateway::registry::Registry;
use waterwheel_gateway::session::Desk;
use waterwheel_gateway::traffic::Traffic;
use waterwheel_testkit::embedded::Embedded;

/// What the clients of a gateway share.
struct Hall {
    desk: Arc<Desk>,
    business: EventExecutorGroup,
    pipeline: Pipeline,
}

/// One client: the test is the other end of its connection.
struct Guest {
    channel: Embedded,
    business: EventExecutorGroup,
    /// The beginning of a line.
    heard: Vec<u8>,
}

impl Hall {
    fn new(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::default();
        change(&mut config);
        let desk = Arc::new(Desk {
            registry: Arc::new(Registry::new(config.clients)),
            gate: Gate::default(),
            traffic: Arc::new(Traffic::default()),
        });
        let business = EventExecutorGroup::builder().threads(1).name("business").build().unwrap();
        let pipeline = Pipeline::new(&config, &business, &desk).unwrap();
        Self { desk, business, pipeline }
    }

    fn guest(&self, name: &str) -> Guest {
        let options = client_options().unwrap();
        let channel =
            Embedded::builder().stream().options(options).build(|edit| self.pipeline.make(edit));
        let business = self.business.clone();
        let mut guest = Guest { channel: channel.unwrap(), business, heard: Vec::new() };
        guest.say(&format!("USER {name}"));
        assert_eq!(
            guest.hear(),
            ["HELLO say USER name, or HELP".to_owned(), format!("OK hello {name}")]
        );
        guest
    }
}

impl Guest {
    fn say(&mut self, line: &str) {
        self.channel.write_inbound(Bytes::from(format!("{line}\n")));
        self.settle();
    }

    /// Lets the loop and the business thread do what there is to do: each may have work for the other, and
    /// a task that was submitted last has run last.
    fn settle(&mut self) {
        for _ in 0..8 {
            self.channel.run();
            self.business.submit(|| ()).unwrap().join().unwrap();
        }
        self.channel.run();
    }

    /// The lines that went out.
    fn hear(&mut self) -> Vec<String> {
        self.settle();
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
        self.settle();
    }
}

#[test]
fn a_silent_client_is_asked_and_then_disconnected() {
    let hall = Hall::new(|config| config.idle = Some(Duration::from_secs(60)));
    let mut ann = hall.guest("ann");
    ann.advance(29);
    assert_eq!(ann.hear(), Vec::<String>::new());
    ann.advance(1);
    assert_eq!(ann.hear(), ["PING"]);
    ann.advance(29);
    assert_eq!(ann.hear(), Vec::<String>::new());
    ann.advance(1);
    assert_eq!(ann.hear(), ["BYE you have said nothing for too long"]);
    assert_eq!(hall.desk.registry.census().users, 0, "its name is free");
    ann.advance(1);
    assert!(!ann.channel.channel().is_open(), "it had its second to finish");
}

#[test]
fn r04_a_client_that_dribbles_bytes_and_never_sends_a_line_is_disconnected() {
    let hall = Hall::new(|config| config.idle = Some(Duration::from_secs(60)));
    let mut ann = hall.guest("ann");
    let mut heard = Vec::new();
    for _ in 0..60 {
        ann.channel.write_inbound(Bytes::from_static(b"x"));
        ann.advance(1);
        heard.extend(ann.hear());
    }
    assert_eq!(heard, ["PING", "BYE you have said nothing for too long"]);
    ann.advance(1);
    assert!(!ann.channel.channel().is_open());
}

#[test]
fn a_client_that_is_sent_everything_and_is_silent_is_closed_before_one_that_talks() {
    let hall = Hall::new(|_| {});
    let (mut silent, mut talks) = (hall.guest("silent"), hall.guest("talks"));
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
    assert!(!talks.channel.channel().is_open(), "a second is all it has");
}

#[test]
fn a_client_that_says_anything_stays() {
    let hall = Hall::new(|config| config.idle = Some(Duration::from_secs(60)));
    let mut ann = hall.guest("ann");
    for _ in 0..5 {
        ann.advance(30);
        assert_eq!(ann.hear(), ["PING"]);
        ann.say("PONG");
        assert_eq!(ann.hear(), Vec::<String>::new());
    }
    assert!(ann.channel.channel().is_active());
}

#[test]
fn without_an_idle_time_a_client_may_be_silent_for_ever() {
    let hall = Hall::new(|config| config.idle = None);
    let mut ann = hall.guest("ann");
    ann.advance(1_000_000);
    assert_eq!(ann.hear(), Vec::<String>::new());
    assert!(ann.channel.channel().is_active());
}

#[test]
fn a_client_that_leaves_and_does_not_read_has_ten_seconds() {
    let hall = Hall::new(|_| {});
    let mut ann = hall.guest("ann");
    ann.channel.set_room(0);
    ann.say("QUIT");
    ann.advance(9);
    assert!(ann.channel.channel().is_open());
    ann.advance(1);
    assert!(!ann.channel.channel().is_open());
}

/// Lines of this length, so that a few dozen fill what the channel takes.
const LONG: usize = 1000;

/// Bob reads nothing while ann sends so many numbered lines. What ann was answered, and what bob gets later.
fn flood(overflow: Overflow, lines: usize) -> (Vec<String>, Vec<String>, Hall, Guest) {
    let hall = Hall::new(|config| (config.queue, config.overflow) = (4, overflow));
    let (mut ann, mut bob) = (hall.guest("ann"), hall.guest("bob"));
    bob.channel.set_room(0);
    let mut answers = Vec::new();
    for n in 0..lines {
        answers.push(ann.ask(&format!("PUSH bob {n:<LONG$}")));
        bob.settle();
    }
    assert!(bob.channel.channel().pending_bytes() < 70 * 1024, "bounded by the water mark");
    bob.channel.clear_faults();
    let heard = bob.hear().into_iter().map(|line| line.trim_end().to_owned()).collect();
    (answers, heard, hall, bob)
}

fn pushed(n: usize) -> String {
    format!("PUSH ann {n}")
}

#[test]
fn when_a_queue_is_full_the_oldest_lines_make_room() {
    let (answers, heard, hall, _) = flood(Overflow::DropOldest, 100);
    assert!(answers.iter().all(|answer| answer == "OK"), "{answers:?}");
    // What the channel had taken, then a gap, then the newest four.
    let gap = heard.iter().position(|line| line.starts_with("MISSED")).unwrap();
    let missed = 100 - gap - 4;
    assert_eq!(heard[gap], format!("MISSED {missed}"));
    assert!(gap > 50 && missed > 20, "{gap} and {missed}");
    assert_eq!(heard[..gap], (0..gap).map(pushed).collect::<Vec<_>>());
    assert_eq!(heard[gap + 1..], (96..100).map(pushed).collect::<Vec<_>>());
    assert_eq!(hall.desk.traffic.lines().missed, missed as u64);
}

#[test]
fn when_a_queue_is_full_the_newest_lines_are_refused() {
    let (answers, heard, hall, mut bob) = flood(Overflow::DropNewest, 100);
    let accepted = answers.iter().take_while(|answer| *answer == "OK").count();
    let refused = "ERR the queue of bob is full; try again later";
    assert!(answers[accepted..].iter().all(|answer| answer == refused), "{answers:?}");
    assert!(accepted > 50 && accepted < 90, "{accepted}");
    let mut expected: Vec<_> = (0..accepted).map(pushed).collect();
    expected.push(format!("MISSED {}", 100 - accepted));
    assert_eq!(heard, expected);
    assert_eq!(hall.desk.traffic.lines().missed, 100 - accepted as u64);
    let mut eve = hall.guest("eve");
    assert_eq!(eve.ask("PUSH bob again"), "OK", "there is room again");
    assert_eq!(bob.hear(), ["PUSH eve again"]);
}

#[test]
fn when_a_queue_is_full_the_client_is_disconnected() {
    let (answers, _, hall, mut bob) = flood(Overflow::Disconnect, 100);
    let accepted = answers.iter().take_while(|answer| *answer == "OK").count();
    assert_eq!(answers[accepted], "ERR the queue of bob is full; try again later");
    assert_eq!(answers[accepted + 1..], vec!["ERR nobody here is called bob"; 99 - accepted]);
    bob.settle();
    assert!(!bob.channel.channel().is_open());
    assert_eq!(hall.desk.registry.census().users, 0, "ann has gone, and so has bob");
}

#[test]
fn who_does_not_read_the_answers_is_not_read_from() {
    let hall = Hall::new(|_| {});
    let mut ann = hall.guest("ann");
    ann.channel.set_room(0);
    let help = Bytes::from("HELP\n".repeat(100));
    for _ in 0..100 {
        ann.channel.write_inbound(help.clone());
        ann.settle();
    }
    assert!(ann.channel.unread() > 50, "what it says waits in the network");
    let bound = 64 * 1024 + 4 * 100 * 8 * 80; // The mark, and the answers to one round of reads.
    assert!(ann.channel.channel().pending_bytes() < bound);
    ann.channel.clear_faults();
    for _ in 0..200 {
        ann.settle();
    }
    let oks = ann.hear().iter().filter(|line| *line == "OK").count();
    assert_eq!(oks, 100 * 100, "all of it is answered in the end");
}

/// Everybody who is in the middle of something is waited for, and nobody begins.
#[test]
fn nothing_is_accepted_once_the_gate_is_closed() {
    let hall = Hall::new(|_| {});
    let mut ann = hall.guest("ann");
    hall.desk.gate.close();
    assert!(hall.desk.gate.wait_until_empty(Duration::ZERO));
    assert_eq!(ann.ask("PUSH ann hello"), "ERR the gateway is closing; come again later");
}
