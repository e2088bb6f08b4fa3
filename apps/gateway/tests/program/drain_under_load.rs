//! SIGTERM under load: no accepted line is lost, and the gateway ends.
//!
//! `GATEWAY_DRAIN_ROUNDS` is the number of rounds, 10 by default.

use std::collections::HashMap;
use std::sync::mpsc;
use std::thread;

use rustix::process::Signal;

use super::support::LIMIT;
use super::support::lines::LineClient;
use super::support::process::Process;
use super::support::tls::TlsIdentity;

const SPEAKERS: usize = 3;
const LISTENERS: usize = 3;
/// Maximum number of unanswered lines per speaker.
const WINDOW: usize = 16;
/// Enough that the signal arrives in the middle, few enough for a slow machine to deliver.
const LINES: usize = 20_000;

/// The line numbers that a listener received from each speaker.
type ReceivedLines = HashMap<String, Vec<usize>>;

#[test]
fn l11_no_accepted_line_is_lost_when_sigterm_comes_under_load() {
    let rounds = std::env::var("GATEWAY_DRAIN_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    for round in 0..rounds.unwrap_or(10) {
        // The signal arrives at a different moment in each round.
        one_round(round, 1 + round * 37 % 500, None);
    }
}

#[test]
fn l11_no_accepted_line_is_lost_when_sigterm_comes_under_load_with_tls() {
    let server = TlsIdentity::new("draining", "server");
    for round in 0..3 {
        one_round(round, 1 + round * 230, Some(&server));
    }
}

fn one_round(round: usize, signal_after: usize, server: Option<&TlsIdentity>) {
    let mut args = vec![
        "--loops",
        "3",
        "--slow-clients-messages",
        "1000000",
        "--slow-clients-bytes",
        "1GiB",
        "--clients-publish-rate",
        "1000000",
        "--clients-publish-burst",
        "1000000",
    ];
    args.extend(server.into_iter().flat_map(TlsIdentity::arguments));
    let gateway = Process::start(&args);
    let connect = |name: String| LineClient::named_by(gateway.address, server, &name);
    let (under_way, begun) = mpsc::channel();
    let listeners: Vec<_> = (0..LISTENERS)
        .map(|n| {
            let mut client = connect(format!("listener{n}"));
            client.ask("SUB news", "OK ");
            let under_way = under_way.clone();
            thread::spawn(move || listen(client, || under_way.send(()), signal_after))
        })
        .collect();
    let speakers: Vec<_> = (0..SPEAKERS).map(|n| connect(format!("speaker{n}"))).collect();
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
            // Published lines go to every listener, pushed ones to one.
            let expected = accepted.iter().filter(|line| is_for(**line, at));
            let lost: Vec<_> = expected.filter(|line| heard.binary_search(line).is_err()).collect();
            assert!(lost.is_empty(), "round {round}: listener {at} lost {lost:?} of speaker {n}");
        }
    }
}

/// True if the line is sent to this listener: every fourth line is pushed to the listeners in turn, the others are
/// published.
fn is_for(line: usize, listener: usize) -> bool {
    !line.is_multiple_of(4) || line / 4 % LISTENERS == listener
}

/// Sends numbered lines until the connection ends; returns the numbers of the accepted ones.
fn speak(mut client: LineClient) -> Vec<usize> {
    let mut accepted = Vec::new();
    let (mut said, mut answered) = (0, 0);
    loop {
        // A client that was sent BYE may find the connection closed.
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
            Ok(Some(answer)) if answer.starts_with("ERR closing ") => {}
            Ok(Some(answer)) if answer.starts_with("ERR no_such_user ") => {}
            Ok(Some(answer)) if answer.starts_with("BYE") => return accepted,
            Ok(Some(answer)) => panic!("unexpected: {answer}"),
            Ok(None) | Err(_) => return accepted,
        }
        answered += 1;
    }
}

/// Receives lines until EOF; calls `tell` after `after` lines.
fn listen<R>(mut client: LineClient, tell: impl FnOnce() -> R, after: usize) -> ReceivedLines {
    let (mut heard, mut tell) = (ReceivedLines::new(), Some(tell));
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
