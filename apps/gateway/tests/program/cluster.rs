//! The script that runs several gateways behind HAProxy: `scripts/cluster`.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::{fs, thread};

use rustix::process::{Pid, Signal, kill_process};
use waterwheel::executor::Clock;

use super::support::LIMIT;
use super::support::events::EventReader;
use super::support::http::HttpClient;
use super::support::lines::LineClient;
use super::support::process::wait_for_end;
use super::support::temp;

const SUBSCRIBERS: usize = 3;

/// Returns a command that runs the script.
fn script() -> Command {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/cluster"))
}

/// A process that the script has started.
#[derive(Clone, Debug)]
struct Member {
    name: String,
    address: SocketAddr,
    process: u32,
}

/// A running script. Dropping it ends what it has started.
struct Cluster {
    child: Child,
    stdout: BufReader<ChildStdout>,
    /// The folder for its temporary files.
    folder: PathBuf,
    /// The engine, three gateways and HAProxy, in this order.
    members: Vec<Member>,
}

impl Cluster {
    /// Starts the engine, three gateways and HAProxy; `None` if one is not installed.
    fn start(test: &str, engine: &str, options: &[&str]) -> Option<Self> {
        let folder = temp::folder(test);
        let mut command = script();
        command.args([engine, "--haproxy", "--port", "0", "--program"]);
        command.arg(env!("CARGO_BIN_EXE_gateway")).args(options).args([
            "--",
            "--log-level",
            "error",
        ]);
        command.env("TMPDIR", &folder).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut cluster = Self { child, stdout, folder, members: Vec::new() };
        loop {
            match cluster.line() {
                Some(line) if line.starts_with("ready") => break,
                Some(line) => cluster.members.push(Member::of_line(&line)),
                None => {
                    assert_eq!(cluster.child.wait().unwrap().code(), Some(2), "a tool is missing");
                    println!("not tested: a tool is missing");
                    return None;
                }
            }
        }
        assert_eq!(cluster.members.len(), 5, "{:?}", cluster.members);
        Some(cluster)
    }

    fn gateway(&self, number: usize) -> &Member {
        &self.members[number]
    }

    fn front(&self) -> SocketAddr {
        self.members[4].address
    }

    /// Reads the next line that the script prints.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.stdout.read_line(&mut line).unwrap();
        (read > 0).then(|| line.trim_end().to_owned())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end of the script, and asserts its status and that it has left nothing behind.
    fn expect_end(mut self, status: i32) {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        let ended = self.child.wait().unwrap();
        assert_eq!(ended.code(), Some(status), "{rest}");
        for member in &self.members {
            wait_for_end(member.process);
        }
        assert_eq!(fs::read_dir(&self.folder).unwrap().count(), 0, "temporary files are removed");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Fails if the script has ended.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

impl Member {
    /// Reads `gateway 1 at http://127.0.0.1:7001/, process 20`.
    fn of_line(line: &str) -> Self {
        let parsed = || {
            let (name, rest) = line.split_once(" at ")?;
            let (url, process) = rest.split_once(", process ")?;
            let address = url.split_once("://")?.1.trim_end_matches('/').parse().ok()?;
            Some(Self { name: name.to_owned(), address, process: process.parse().ok()? })
        };
        parsed().unwrap_or_else(|| panic!("no address and process in {line:?}"))
    }
}

fn signal_process(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(process.try_into().unwrap()).unwrap(), signal).unwrap();
}

/// A client of the topic `news` that connects again, through HAProxy, and resumes.
struct Subscriber {
    front: SocketAddr,
    events: EventReader,
    last: Option<String>,
    reconnects: usize,
}

impl Subscriber {
    fn connect(front: SocketAddr) -> Self {
        let events = EventReader::open(front, "news", None).unwrap();
        let mut subscriber = Self { front, events, last: None, reconnects: 0 };
        let open = subscriber.events.next().unwrap().unwrap();
        assert_eq!(open.name, "open");
        subscriber.last = open.id;
        subscriber
    }

    /// Connects again, as soon as a gateway is found.
    fn reconnect(&mut self) {
        let begun = Clock::Monotonic.now();
        self.reconnects += 1;
        self.events = loop {
            match EventReader::open(self.front, "news", self.last.as_deref()) {
                Ok(events) => break events,
                Err(error) => {
                    let waited = Clock::Monotonic.now().since(begun);
                    assert!(waited < LIMIT, "no gateway behind HAProxy: {error}");
                    thread::yield_now();
                }
            }
        };
    }

    /// Reads the next publication, at this gateway or the next one, which has to be this text.
    fn expect_text(&mut self, text: &str) {
        loop {
            match self.events.next() {
                Ok(Some(event)) if event.name == "message" => {
                    let expected = format!("\"text\":\"{text}\"");
                    assert!(event.data.contains(&expected), "{event:?}, not {text}");
                    self.last = event.id;
                    return;
                }
                Ok(Some(event)) if event.name == "open" => {
                    assert!(event.data.contains("\"gap\":false"), "{event:?}");
                }
                // The end of the answer follows; HAProxy keeps the connection.
                Ok(Some(event)) => {
                    assert_eq!(event.name, "closing", "{event:?}");
                    self.reconnect();
                }
                Ok(None) | Err(_) => self.reconnect(),
            }
        }
    }
}

/// Publishes at a gateway; every subscriber receives it. Returns how many of them have connected again.
fn publish(gateway: &Member, subscribers: &mut [Subscriber], text: &str) -> usize {
    let before: usize = subscribers.iter().map(|subscriber| subscriber.reconnects).sum();
    let mut publisher = LineClient::connect(gateway.address);
    publisher.ask(&format!("PUB news {text}"), "OK");
    for subscriber in &mut *subscribers {
        subscriber.expect_text(text);
    }
    subscribers.iter().map(|subscriber| subscriber.reconnects).sum::<usize>() - before
}

/// A request and a WebSocket pass through HAProxy.
fn check_protocols(front: SocketAddr) {
    let mut client = HttpClient::connect(front);
    assert_eq!(client.get("/readyz").status, 200);
    client.send(
        b"POST /topics/other HTTP/1.1\r\nHost: gateway\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello",
    );
    let answer = client.read_answer().unwrap();
    assert!(answer.status == 200 && answer.body.contains("position"), "{answer:?}");
    let mut client = HttpClient::connect(front);
    client.send(
        b"GET /ws HTTP/1.1\r\nHost: gateway\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
          Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    assert_eq!(client.read_answer().unwrap().status, 101);
    // A masked text, whose mask changes nothing, and its answer, which is not masked.
    let command = br#"{"id":1,"ping":{}}"#;
    let head = [0x81, 0x80 | u8::try_from(command.len()).unwrap(), 0, 0, 0, 0];
    client.send(&[&head[..], command].concat());
    let expected = br#"{"id":1,"ok":{}}"#;
    let mut frame = vec![0; 2 + expected.len()];
    client.read_exact(&mut frame).unwrap();
    assert_eq!(frame[..2], [0x81, u8::try_from(expected.len()).unwrap()]);
    assert_eq!(&frame[2..], expected);
}

/// One gateway is replaced, another one is killed; clients that connect again through HAProxy miss nothing.
fn check_cluster(engine: &str) {
    let test = format!("cluster-{engine}");
    let Some(mut cluster) = Cluster::start(&test, engine, &["--survive"]) else { return };
    check_protocols(cluster.front());
    let front = cluster.front();
    let mut subscribers: Vec<_> = (0..SUBSCRIBERS).map(|_| Subscriber::connect(front)).collect();
    for number in 1..=3 {
        let reconnects = publish(cluster.gateway(number), &mut subscribers, "before");
        assert_eq!(reconnects, 0, "nobody is disconnected");
    }

    let replaced = cluster.gateway(1).process;
    signal_process(replaced, Signal::USR2);
    let line = cluster.line().unwrap();
    let successor = line
        .strip_prefix("gateway 1: process ")
        .and_then(|rest| rest.strip_suffix(" has taken over")?.parse().ok());
    cluster.members[1].process = successor.unwrap_or_else(|| panic!("no take-over: {line:?}"));
    wait_for_end(replaced);
    let moved = publish(cluster.gateway(1), &mut subscribers, "replaced");
    assert!(moved > 0, "clients of the gateway that was replaced connect again");

    let killed = cluster.gateway(2).process;
    signal_process(killed, Signal::KILL);
    assert_eq!(cluster.line().unwrap(), format!("gateway 2: process {killed} has ended"));
    let moved = publish(cluster.gateway(3), &mut subscribers, "killed");
    assert!(moved > 0, "clients of the gateway that was killed connect again");
    publish(cluster.gateway(1), &mut subscribers, "after");

    cluster.signal(Signal::TERM);
    drop(subscribers);
    cluster.expect_end(0);
}

#[test]
fn g08_three_gateways_on_redis_behind_haproxy_survive_a_take_over_and_a_kill() {
    check_cluster("redis");
}

#[test]
fn g08_three_gateways_on_nats_behind_haproxy_survive_a_take_over_and_a_kill() {
    check_cluster("nats");
}

#[test]
fn g08_clients_of_a_killed_gateway_resume_at_those_that_stand_by() {
    let options = ["--survive", "--standby"];
    let Some(cluster) = Cluster::start("cluster-standby", "redis", &options) else { return };
    let front = cluster.front();
    let mut subscribers: Vec<_> = (0..SUBSCRIBERS).map(|_| Subscriber::connect(front)).collect();
    assert_eq!(publish(cluster.gateway(3), &mut subscribers, "before"), 0);
    signal_process(cluster.gateway(1).process, Signal::KILL);
    let moved = publish(cluster.gateway(2), &mut subscribers, "killed");
    assert_eq!(moved, SUBSCRIBERS, "all clients were at the first gateway");
    cluster.signal(Signal::INT);
    cluster.expect_end(0);
}

#[test]
fn g08_a_cluster_ends_when_one_of_its_processes_is_killed() {
    for member in ["redis-server", "gateway 3", "haproxy"] {
        let Some(cluster) = Cluster::start("cluster-end", "redis", &[]) else { return };
        let killed = cluster.members.iter().find(|it| it.name == member).unwrap();
        signal_process(killed.process, Signal::KILL);
        cluster.expect_end(1);
    }
}

fn run(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn g08_the_cluster_script_tells_wrong_arguments_and_missing_tools() {
    let (status, help, _) = run(script().arg("--help"));
    assert!(status == Some(0) && help.starts_with("usage: scripts/cluster [redis|nats]"), "{help}");
    for wrong in [&["mysql"][..], &["--port"], &["--port", "70000"], &["--gateways", "0"]] {
        let (status, stdout, stderr) = run(script().args(wrong));
        assert!(status == Some(2) && stdout.is_empty(), "{wrong:?}: {stdout}");
        assert!(stderr.contains(wrong[0]), "{wrong:?}: {stderr}");
    }
    // A PATH with nothing but what the script needs first.
    let tools = temp::folder("cluster-tools");
    for tool in ["bash", "dirname"] {
        symlink(Path::new("/usr/bin").join(tool), tools.join(tool)).unwrap();
    }
    let (status, _, stderr) = run(script().env("PATH", &tools).args(["redis", "--haproxy"]));
    assert_eq!(status, Some(2));
    assert!(
        stderr.contains("redis-server is missing; scripts/test --provide redis-server"),
        "{stderr}"
    );
}

#[test]
fn g08_the_guide_shows_the_configuration_of_haproxy_that_the_script_uses() {
    let (status, configuration, _) = run(script().arg("--print-haproxy"));
    assert_eq!(status, Some(0));
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/GATEWAY.md");
    let guide = fs::read_to_string(guide).unwrap();
    assert!(guide.contains(&format!("\n{configuration}```\n")), "{configuration}");
}
