//! Several gateways that share a Redis, as their clients see them.

use std::thread;

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use waterwheel::executor::Clock;

use super::redis_server::{Persistence, RedisServer, is_redis_installed};
use super::support::LIMIT;
use super::support::events::{EventReader, ReceivedEvent};
use super::support::http::HttpClient;
use super::support::lines::LineClient;
use super::support::process::Process;

/// Starts a gateway, and waits until its engine is connected.
fn start_gateway(redis: &RedisServer) -> Process {
    let url = format!("redis://{}", redis.host_and_port());
    let arguments = ["--engine-kind", "redis", "--engine-url", &url, "--engine-timeout", "2s"];
    let gateway = Process::start(&arguments);
    wait_for_readiness(&gateway, 200);
    gateway
}

/// Waits until a gateway says whether it is ready.
fn wait_for_readiness(gateway: &Process, status: u16) {
    let begun = Clock::Monotonic.now();
    let mut client = HttpClient::connect(gateway.address);
    while client.get("/readyz").status != status {
        assert!(Clock::Monotonic.now().since(begun) < LIMIT, "readyz never answers {status}");
        thread::yield_now();
    }
}

fn next(events: &mut EventReader) -> ReceivedEvent {
    events.next().unwrap().expect("the stream goes on")
}

/// Reads the next publication, which has to be this text.
fn expect_text(events: &mut EventReader, text: &str) -> ReceivedEvent {
    let event = next(events);
    assert_eq!(event.name, "message", "{event:?}");
    assert!(event.data.contains(&format!("\"text\":\"{text}\"")), "{event:?}, not {text}");
    event
}

#[test]
fn g08_a_client_of_a_gateway_that_was_killed_resumes_at_another_one() {
    if !is_redis_installed() {
        return;
    }
    let redis = RedisServer::start(Persistence::Nothing);
    let (one, two) = (start_gateway(&redis), start_gateway(&redis));
    let mut events = EventReader::open(one.address, "news", None).unwrap();
    assert_eq!(next(&mut events).name, "open");
    let mut publisher = LineClient::named(two.address, "ann");
    publisher.ask("PUB news first", "OK");
    let seen = expect_text(&mut events, "first");
    publisher.ask("SUB news", "OK ");
    one.signal(Signal::KILL);
    assert_eq!(events.next().ok().flatten(), None, "the stream ends");
    for text in ["second", "third"] {
        publisher.say(&format!("PUB news {text}"));
    }
    let mut events = EventReader::open(two.address, "news", seen.id.as_deref()).unwrap();
    let open = next(&mut events);
    assert!(open.name == "open" && open.data.contains("\"gap\":false"), "{open:?}");
    for text in ["second", "third"] {
        expect_text(&mut events, text);
    }
    publisher.say("PUB news fourth");
    expect_text(&mut events, "fourth");
}

#[test]
fn g08_a_restart_of_redis_loses_nothing_that_was_acknowledged_and_clients_stay() {
    if !is_redis_installed() {
        return;
    }
    let mut redis = RedisServer::start(Persistence::AppendOnlyFile);
    let (one, two) = (start_gateway(&redis), start_gateway(&redis));
    let mut events = EventReader::open(one.address, "news", None).unwrap();
    assert_eq!(next(&mut events).name, "open");
    let mut publisher = LineClient::named(two.address, "ann");
    let mut acknowledged = Vec::new();
    let mut number = 0;
    for _ in 0..3 {
        for _ in 0..20 {
            publisher.ask(&format!("PUB news {number}"), "OK");
            acknowledged.push(number);
            number += 1;
        }
        redis.kill();
        wait_for_readiness(&one, 503);
        wait_for_readiness(&two, 503);
        publisher.ask(&format!("PUB news {number}"), "ERR");
        number += 1;
        redis.restart();
        wait_for_readiness(&one, 200);
        wait_for_readiness(&two, 200);
    }
    publisher.ask("PUB news last", "OK");
    for number in acknowledged {
        expect_text(&mut events, &number.to_string());
    }
    expect_text(&mut events, "last");
}

/// Clients of a gateway that is killed reconnect to the other two, all at once.
#[test]
fn g08_two_thousand_clients_of_a_killed_gateway_miss_nothing_at_the_other_two() {
    if !is_redis_installed() {
        return;
    }
    const CLIENTS: usize = 2_000;
    const THREADS: usize = 8;
    const PUBLICATIONS: usize = 30;
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let redis = RedisServer::start(Persistence::Nothing);
    let [one, two, three] = [(); 3].map(|()| start_gateway(&redis));
    let clients: Vec<_> =
        (0..CLIENTS).map(|_| EventReader::open(one.address, "news", None).unwrap()).collect();
    let mut publisher = LineClient::named(two.address, "ann");
    for number in 0..PUBLICATIONS {
        if number == PUBLICATIONS / 2 {
            one.signal(Signal::KILL);
        }
        publisher.ask(&format!("PUB news {number}"), "OK");
    }
    let mut clients = clients.into_iter();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let own: Vec<_> = clients.by_ref().take(CLIENTS / THREADS).collect();
            let next_gateway = [two.address, three.address][thread % 2];
            scope.spawn(move || {
                for mut events in own {
                    let mut last = read_to_end(&mut events);
                    let id = last.id.take();
                    let mut resumed =
                        EventReader::open(next_gateway, "news", id.as_deref()).unwrap();
                    let open = next(&mut resumed);
                    assert!(open.data.contains("\"gap\":false"), "{open:?}");
                    for number in last.count..PUBLICATIONS {
                        expect_text(&mut resumed, &number.to_string());
                    }
                }
            });
        }
    });
}

/// The last publication that a client has got before its gateway was killed.
struct LastSeen {
    count: usize,
    id: Option<String>,
}

/// Reads the publications that have come before the end, which are numbered.
fn read_to_end(events: &mut EventReader) -> LastSeen {
    let mut seen = LastSeen { count: 0, id: None };
    while let Ok(Some(event)) = events.next() {
        if event.name == "message" {
            let text = format!("\"text\":\"{}\"", seen.count);
            assert!(event.data.contains(&text), "{event:?}");
            seen.count += 1;
        }
        seen.id = event.id.or(seen.id);
    }
    seen
}
