//! The corpus of conformance cases, held against the example `json_api` over sockets.
//!
//! The cases are those of the tests of `waterwheel-http`, where they are played in several cuttings over an embedded
//! channel. Here each is sent in one piece, as a client does that does not wait. A case that leaves the connection open
//! is known by the answers to all of its requests, and its client finishes sending; in a case that ends the connection,
//! the client waits for the server to do it.
//!
//! Left out are requests to `/echo` that end or are refused in the middle of their bodies: the example sends bodies back
//! as they come, so the answer has begun, and is cut off.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::corpus::case::{AnswerRule, Case, Ending, Expectation, FieldRule, Interim};
use crate::corpus::messages::{POST, PROBE};
use crate::corpus::runner::{Played, Player, failures_of};
use crate::corpus::{self, http_server_suite};
use crate::program::{Program, connect};

/// The connections at the same time.
const PLAYERS: usize = 4;

/// Plays a case over a connection.
struct SocketPlayer {
    server: SocketAddr,
    /// True if the client ends its own direction, as the server does not.
    is_finished_by_client: bool,
}

impl Player for SocketPlayer {
    fn play(&self, pieces: &[&[u8]]) -> Played {
        let stream = connect(self.server);
        let (mut bytes, whole) = (Vec::new(), pieces.concat());
        // Fails if the server has ended the connection meanwhile: its answer says whether it should have.
        let send = || {
            let _ = (&stream).write_all(&whole);
            if self.is_finished_by_client {
                let _ = stream.shutdown(Shutdown::Write);
            }
        };
        thread::scope(|scope| {
            if whole.len() < 16 * 1024 {
                send();
            } else {
                scope.spawn(send);
            }
            if let Err(error) = (&stream).read_to_end(&mut bytes) {
                // No answer begins like this: the case fails, and shows it.
                bytes.extend_from_slice(format!("read failed: {error}").as_bytes());
            }
        });
        let close = b"\r\nconnection: close\r\n";
        let is_ended = bytes.windows(close.len()).any(|part| part == close);
        Played { bytes, is_ended }
    }
}

fn all_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    macro_rules! collect {
        ($module:ident; $($name:ident)*) => {
            $(cases.extend(corpus::$name());)*
        };
    }
    http_server_suite!(over_sockets, collect);
    cases
}

/// The bytes that the server reads at once, at the beginning of a connection. The example knows no more of a body when it
/// begins to send it back.
const FIRST_READ: usize = 2048;

/// True if the example has begun to answer when it finds that the request cannot be answered.
fn is_cut_off(case: &Case) -> bool {
    let whole = case.pieces.concat();
    let is_echo = whole.windows(POST.len()).any(|part| part == POST);
    let is_refused = case.allowed.iter().any(|expectation| expectation.ending == Ending::Announced);
    is_echo && (has_rest(case) || (is_refused && whole.len() > FIRST_READ))
}

/// True if the case may end with a request that is not complete.
fn has_rest(case: &Case) -> bool {
    let is_probed = case.pieces.last().is_some_and(|piece| piece.ends_with(PROBE));
    !is_probed && case.allowed.iter().any(|expectation| expectation.ending == Ending::Open)
}

/// Fits a case to a client that sends everything at once.
fn fit(case: Case) -> (bool, Case) {
    let ends = |expectation: &Expectation| {
        matches!(expectation.ending, Ending::Announced | Ending::Closed)
    };
    let is_finished_by_client = !case.allowed.iter().all(ends);
    let has_rest = has_rest(&case);
    let has_options = case.pieces.concat().starts_with(b"OPTIONS ");
    let mut allowed = Vec::new();
    for Expectation { answers, ending } in case.allowed {
        let answers: Vec<_> = answers.into_iter().map(|rule| fit_rule(rule, has_options)).collect();
        if has_rest && ending == Ending::Open {
            // A message that had not ended has been cut off by the end of the client's data.
            let cut_off = [&answers[..], &[AnswerRule::status(400)]].concat();
            allowed.push(Expectation::new(cut_off, Ending::Announced));
        }
        // The end itself is seen by reading up to it.
        let ending = if ending == Ending::Closed { Ending::Any } else { ending };
        allowed.push(Expectation::new(answers, ending));
    }
    (is_finished_by_client, Case { pieces: vec![case.pieces.concat()], allowed, ..case })
}

fn fit_rule(mut rule: AnswerRule, has_options: bool) -> AnswerRule {
    if has_options && rule.statuses == [405] {
        rule.statuses = vec![204]; // A router answers by itself, with the same methods in `Allow`.
    }
    if rule.interim == Interim::Required {
        rule.interim = Interim::Optional; // The body may be there already.
    }
    if rule.body.is_some() {
        // The length of a body in chunks is not known when it is sent back.
        rule.fields.retain(|field| !matches!(field, FieldRule::Equals("content-length", _)));
    }
    rule
}

#[test]
fn h15_the_example_passes_the_corpus_over_sockets() {
    let program = Program::start("json_api", &[&0]);
    let (cut_off, cases): (Vec<_>, Vec<_>) = all_cases().into_iter().partition(is_cut_off);
    assert!(cases.len() > 20 * cut_off.len(), "{} of {}", cut_off.len(), cases.len());
    let cases: Vec<_> = cases.into_iter().map(fit).collect();
    let next = AtomicUsize::new(0);
    let play_some = || {
        let mut failures = Vec::new();
        while let Some((is_finished_by_client, case)) =
            cases.get(next.fetch_add(1, Ordering::Relaxed))
        {
            let is_finished_by_client = *is_finished_by_client;
            let player = SocketPlayer { server: program.address(), is_finished_by_client };
            failures.extend(failures_of(&player, case));
        }
        failures
    };
    let failures: Vec<_> = thread::scope(|scope| {
        let players = [(); PLAYERS].map(|()| scope.spawn(play_some));
        players.into_iter().flat_map(|player| player.join().unwrap()).collect()
    });
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}
