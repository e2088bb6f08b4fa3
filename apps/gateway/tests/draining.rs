//! SIGTERM in the middle of traffic: no line that was accepted is lost, and it ends.
//!
//! `GATEWAY_DRAIN_ROUNDS` says how often; 10 times unless it does.

mod support;

use std::collections::HashMap;
use std::sync::mpsc;
use std::thread;

use rustix::process::Signal;
use support::{Client, LIMIT, Process};

const SPEAKERS: usize = 3;
const LISTENERS: usize = 3;
/// So many lines of a speaker are on their way unanswered.
const WINDOW: usize = 16;
/// Enough for the signal to come in the middle, few enough for a slow machine to deliver.
const LINES: usize = 20_000;

/// What a listener has heard: of each speaker, the numbers of its lines.
type Heard = HashMap<String, Vec<usize>>;

#[test]
fn l11_no_accepted_line_is_lost_when_sigterm_comes_under_load() {
    let rounds = std::env::var("GATEWAY_DRAIN_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    for round in 0..rounds.unwrap_or(10) {
        // Another moment each time.
        one_round(round, 1 + round * 37 % 500);
    }
}

fn one_round(round: usize, signal_after: usize) {
    let gateway = Process::start(&["--threads", "3", "--queue", "1000000"]);
    let address = gateway.address;
    let (under_way, begun) = mpsc::channel();
    let listeners: Vec<_> = (0..LISTENERS)
        .map(|n| {
            let mut client = Client::named(address, &format!("listener{n}"));
            client.ask("SUB news", "OK");
            let under_way = under_way.clone();
            thread::spawn(move || listen(client, || under_way.send(()), signal_after))
        })
        .collect();
    let speakers: Vec<_> =
        (0..SPEAKERS).map(|n| Client::named(address, &format!("speaker{n}"))).collect();
    let speakers: Vec<_> =
        speakers.into_iter().map(|client| thread::spawn(move || speak(client))).collect();
    begun.recv_timeout(LIMIT).expect("there is traffic");
    gateway.signal(Signal::TERM);
    let accepted: Vec<_> = speakers.into_iter().map(|speaker| speaker.join().unwrap()).collect();
    let heard: Vec<_> = listeners.into_iter().map(|listener| listener.join().unwrap()).collect();
    let (status, printed) = gateway.wait();
    assert_eq!(status.code(), Some(0), "round {round}: {printed}");
    assert!(printed.contains(", 0 missed\n"), "round {round}: {printed}");
    let all: usize = accepted.iter().map(Vec::len).sum();
    assert!(all >= signal_after / LISTENERS, "round {round}: there was traffic, {all} lines");
    for (n, accepted) in accepted.iter().enumerate() {
        for (at, heard) in heard.iter().enumerate() {
            let heard = heard.get(&format!("speaker{n}")).map_or(&[][..], |lines| lines);
            assert!(heard.is_sorted(), "round {round}: in order: {heard:?}");
            // Published lines are for everybody, pushed ones for one.
            let expected = accepted.iter().filter(|line| is_for(**line, at));
            let lost: Vec<_> = expected.filter(|line| heard.binary_search(line).is_err()).collect();
            assert!(lost.is_empty(), "round {round}: listener {at} lost {lost:?} of speaker {n}");
        }
    }
}

/// Every fourth line is pushed, to one listener after the other.
fn is_for(line: usize, listener: usize) -> bool {
    !line.is_multiple_of(4) || line / 4 % LISTENERS == listener
}

/// Says numbered lines until there is an end, and gives the numbers of those that were accepted.
fn speak(mut client: Client) -> Vec<usize> {
    let mut accepted = Vec::new();
    let (mut said, mut answered) = (0, 0);
    loop {
        // One that has been told to go may find the connection closed.
        while said < (answered + WINDOW).min(LINES) {
            let line = match said % 4 {
                0 => format!("PUSH listener{} {said}\n", said / 4 % LISTENERS),
                _ => format!("PUB news {said}\n"),
            };
            if client.try_send(line).is_err() {
                break;
            }
            said += 1;
        }
        match client.try_hear() {
            Ok(Some(answer)) if answer.starts_with("OK") => accepted.push(answered),
            Ok(Some(answer)) if answer.starts_with("ERR the gateway is closing") => {}
            Ok(Some(answer)) if answer.starts_with("ERR nobody here") => {}
            Ok(Some(answer)) if answer.starts_with("BYE") => return accepted,
            Ok(Some(answer)) => panic!("unexpected: {answer}"),
            Ok(None) | Err(_) => return accepted,
        }
        answered += 1;
    }
}

/// Hears lines until the end; says when it has heard so many.
fn listen<R>(mut client: Client, tell: impl FnOnce() -> R, after: usize) -> Heard {
    let (mut heard, mut tell) = (Heard::new(), Some(tell));
    let mut lines = 0;
    while let Some(line) = client.hear() {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["MSG", "news", from, n] | ["PUSH", from, n] => {
                heard.entry(from.to_owned()).or_default().push(n.parse().unwrap());
            }
            ["BYE", ..] => {}
            _ => panic!("unexpected: {line}"),
        }
        lines += 1;
        if lines >= after
            && let Some(tell) = tell.take()
        {
            tell();
        }
    }
    heard
}
