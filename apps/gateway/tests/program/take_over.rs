//! The take-over restart under load: no connection is refused, and nothing that was acknowledged is lost.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use rustix::process::Signal;

use super::support::LIMIT;
use super::support::events::EventReader;
use super::support::http;
use super::support::lines::LineClient;
use super::support::process::{Process, Successor, wait_for_end};

const TAKE_OVERS: usize = 20;
const CONNECTORS: usize = 2;
const PUBLISHERS: usize = 2;
const SUBSCRIBERS: usize = 2;

/// Publications of each publisher between two take-overs.
const PUBLICATIONS: usize = 20;

/// The state that all threads of the load share.
struct Load {
    address: SocketAddr,
    /// True once the publishers are to end.
    has_ended: AtomicBool,
    connections: AtomicUsize,
    /// Connections that were closed before their request had come.
    closed: AtomicUsize,
    acknowledged: [AtomicUsize; PUBLISHERS],
}

#[test]
fn g07_twenty_take_overs_under_load_refuse_no_connection_and_lose_no_acknowledged_publication() {
    let mut gateway = Process::start(&[
        "--detection-silence",
        "off",
        "--history-publications",
        "100000",
        "--slow-clients-messages",
        "1000000",
        "--slow-clients-bytes",
        "1GiB",
        "--clients-publish-rate",
        "1000000",
        "--clients-publish-burst",
        "1000000",
    ]);
    let load = Arc::new(Load {
        address: gateway.address,
        has_ended: AtomicBool::new(false),
        connections: AtomicUsize::new(0),
        closed: AtomicUsize::new(0),
        acknowledged: Default::default(),
    });
    let subscribers: Vec<_> = (0..SUBSCRIBERS).map(|_| start(&load, subscribe)).collect();
    subscribers.iter().for_each(|(_, begun)| begun.recv_timeout(LIMIT).unwrap());
    let connectors: Vec<_> = (0..CONNECTORS).map(|_| start(&load, connect)).collect();
    let publishers: Vec<_> =
        (0..PUBLISHERS).map(|n| start(&load, move |load, _| publish(load, n))).collect();
    let mut current = gateway.id();
    let mut successors: Vec<Successor> = Vec::new();
    for round in 0..TAKE_OVERS {
        wait_for_publications(&load, (round + 1) * PUBLICATIONS);
        match successors.last() {
            Some(successor) => successor.signal(Signal::USR2),
            None => gateway.signal(Signal::USR2),
        }
        let line = gateway.line_with("has taken over");
        successors.push(Successor::of_line(&line));
        wait_for_end(current);
        current = successors[round].0;
    }
    wait_for_publications(&load, (TAKE_OVERS + 1) * PUBLICATIONS);
    load.has_ended.store(true, Ordering::Relaxed);
    let acknowledged: Vec<_> = publishers.into_iter().map(|(it, _)| it.join().unwrap()).collect();
    connectors.into_iter().for_each(|(connector, _)| connector.join().unwrap());
    // What was published is delivered before the end.
    successors.last().unwrap().signal(Signal::TERM);
    let received: Vec<_> = subscribers.into_iter().map(|(it, _)| it.join().unwrap()).collect();
    wait_for_end(current);
    for received in &received {
        for (n, acknowledged) in acknowledged.iter().enumerate() {
            let received = received.get(&n).map_or(&[][..], |numbers| numbers);
            let lost: Vec<_> =
                acknowledged.iter().filter(|number| !received.contains(number)).collect();
            assert!(lost.is_empty(), "publisher {n}: lost {lost:?}");
            assert!(received.is_sorted_by(|a, b| a < b), "in order, and once: {received:?}");
        }
    }
    let connections = load.connections.load(Ordering::Relaxed);
    let published: usize = acknowledged.iter().map(Vec::len).sum();
    let closed = load.closed.load(Ordering::Relaxed);
    println!(
        "{TAKE_OVERS} take-overs, {connections} connections, {closed} closed, {published} publications"
    );
    assert!(closed <= TAKE_OVERS, "{closed} of {connections} connections were closed");
    assert!(connections > TAKE_OVERS, "there was load: {connections} connections");
}

/// Starts a thread of the load. It may say when it has begun.
fn start<T: Send + 'static>(
    load: &Arc<Load>,
    run: impl FnOnce(&Load, &mpsc::Sender<()>) -> T + Send + 'static,
) -> (JoinHandle<T>, mpsc::Receiver<()>) {
    let load = load.clone();
    let (begin, begun) = mpsc::channel();
    (thread::spawn(move || run(&load, &begin)), begun)
}

fn wait_for_publications(load: &Load, count: usize) {
    let begun = waterwheel::executor::Clock::Monotonic.now();
    let is_behind = |of: &AtomicUsize| of.load(Ordering::Relaxed) < count;
    while load.acknowledged.iter().any(is_behind) {
        let waited = waterwheel::executor::Clock::Monotonic.now().since(begun);
        assert!(waited < LIMIT, "{:?}: nobody publishes", load.acknowledged);
        thread::yield_now();
    }
}

/// Connects anew for each request. None is refused. One whose request is not sent for half a second, on a busy machine, may be
/// closed by a process that drains.
fn connect(load: &Load, _: &mpsc::Sender<()>) {
    while !load.has_ended.load(Ordering::Relaxed) {
        match http::try_get(load.address, "/healthz") {
            Ok(answer) => assert_eq!(answer.status, 200),
            Err(error) if is_closed(&error) => _ = load.closed.fetch_add(1, Ordering::Relaxed),
            Err(error) => panic!("refused: {error}"),
        }
        load.connections.fetch_add(1, Ordering::Relaxed);
    }
}

fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// Publishes numbers, each until it is acknowledged. Returns those that were. A number whose answer did not come is not published
/// again: it may have been accepted.
fn publish(load: &Load, publisher: usize) -> Vec<usize> {
    let (mut acknowledged, mut number) = (Vec::new(), 0);
    while !load.has_ended.load(Ordering::Relaxed) {
        let mut client = LineClient::connect_silently(load.address);
        while !load.has_ended.load(Ordering::Relaxed) {
            number += 1;
            if client.try_send(format!("PUB news {publisher} {number}\n")).is_err() {
                break;
            }
            match read_answer(&mut client) {
                Ok(Some(answer)) if answer.starts_with("OK ") => acknowledged.push(number),
                Ok(Some(answer)) if answer.starts_with("ERR closing ") => {}
                Ok(Some(answer)) => panic!("unexpected: {answer}"),
                Ok(None) | Err(_) => break,
            }
            load.acknowledged[publisher].store(acknowledged.len(), Ordering::Relaxed);
        }
    }
    acknowledged
}

/// Reads the answer to a line; `None` at the end of the connection.
fn read_answer(client: &mut LineClient) -> io::Result<Option<String>> {
    loop {
        match client.try_hear()? {
            Some(line) if line.starts_with("HELLO ") => {}
            Some(line) if line.starts_with("BYE ") => return Ok(None),
            other => return Ok(other),
        }
    }
}

/// Reads the topic, and resumes at each new process, until nobody listens any more. Returns the numbers of each publisher.
fn subscribe(load: &Load, begun: &mpsc::Sender<()>) -> HashMap<usize, Vec<usize>> {
    let (mut received, mut last) = (HashMap::<usize, Vec<usize>>::new(), None::<String>);
    loop {
        let mut events = match EventReader::open(load.address, "news", last.as_deref()) {
            Ok(events) => events,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return received,
            Err(_) => continue, // The process closes.
        };
        while let Ok(Some(event)) = events.next() {
            if event.name == "open" {
                let _ = begun.send(());
                let data: serde_json::Value = serde_json::from_str(&event.data).unwrap();
                last.get_or_insert_with(|| data["position"].as_str().unwrap().to_owned());
            }
            assert_ne!(event.name, "missed");
            if event.name != "message" {
                continue;
            }
            let data: serde_json::Value = serde_json::from_str(&event.data).unwrap();
            let (publisher, number) = data["text"].as_str().unwrap().split_once(' ').unwrap();
            let number = number.parse().unwrap();
            received.entry(publisher.parse().unwrap()).or_default().push(number);
            last = event.id;
        }
    }
}
