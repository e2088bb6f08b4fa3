//! Several requests on one connection: answers in order, and none behind a close (RFC 9112, 9.3.2).

use super::super::case::{AnswerRule, Case, Ending, Expectation};
use super::super::group::CaseGroup;
use super::super::messages::{
    PROBE, chunk, concat, get, pattern, post, post_chunked, post_sized, with_line,
};

pub(crate) fn h04_pipelining() -> Vec<Case> {
    let mut group = CaseGroup::new("h04_pipelining");
    add_sequences(&mut group);
    add_mixtures(&mut group);
    add_cuts(&mut group);
    add_closes(&mut group);
    add_refusals(&mut group);
    group.finish()
}

/// Requests in one piece, each answered by its rule, and the connection stays.
fn add_open(group: &mut CaseGroup, name: impl AsRef<str>, requests: &[(Vec<u8>, AnswerRule)]) {
    let bytes: Vec<u8> = requests.iter().flat_map(|request| request.0.clone()).collect();
    let rules: Vec<AnswerRule> = requests.iter().map(|request| request.1.clone()).collect();
    group.custom("9112 9.3.2", name, vec![bytes], [Expectation::new(rules, Ending::Open)]);
}

fn hello() -> (Vec<u8>, AnswerRule) {
    (get(""), AnswerRule::hello())
}

fn sized(body: impl AsRef<[u8]>) -> (Vec<u8>, AnswerRule) {
    (post_sized(&body), AnswerRule::with_body(body))
}

fn chunked(body: impl AsRef<[u8]>) -> (Vec<u8>, AnswerRule) {
    let bytes = post_chunked(concat(&[&chunk(&body), b"0\r\n\r\n"]));
    (bytes, AnswerRule::with_body(body))
}

fn head() -> (Vec<u8>, AnswerRule) {
    (with_line("HEAD /plaintext HTTP/1.1"), AnswerRule::hello_to_head())
}

fn missing() -> (Vec<u8>, AnswerRule) {
    (with_line("GET /nothing HTTP/1.1"), AnswerRule::status(404))
}

fn wrong_method() -> (Vec<u8>, AnswerRule) {
    (with_line("DELETE /plaintext HTTP/1.1"), AnswerRule::not_allowed("GET"))
}

fn add_sequences(group: &mut CaseGroup) {
    for count in [1, 2, 3, 10, 16, 17, 32, 100, 500] {
        add_open(group, format!("{count}_gets"), &vec![hello(); count]);
        let bodies: Vec<_> = (0..count).map(|index| sized(format!("body {index}"))).collect();
        add_open(group, format!("{count}_different_sized_bodies"), &bodies);
        let bodies: Vec<_> = (0..count).map(|index| chunked(format!("body {index}"))).collect();
        add_open(group, format!("{count}_different_chunked_bodies"), &bodies);
        add_open(group, format!("{count}_heads"), &vec![head(); count]);
        add_open(group, format!("{count}_unknown_paths"), &vec![missing(); count]);
    }
    let growing: Vec<_> = (0..20).map(|index| sized(pattern(index * 1000))).collect();
    add_open(group, "bodies_that_grow", &growing);
    let shrinking: Vec<_> = (0..20).rev().map(|index| chunked(pattern(index * 1000 + 1))).collect();
    add_open(group, "bodies_that_shrink", &shrinking);
}

fn add_mixtures(group: &mut CaseGroup) {
    let kinds = [
        ("get", hello()),
        ("head", head()),
        ("sized", sized("one")),
        ("chunked", chunked("two")),
        ("missing", missing()),
        ("wrong_method", wrong_method()),
        ("empty_post", (post("", ""), AnswerRule::with_body(""))),
        ("unread_body", (concat(&[&get("Content-Length: 3\r\n"), b"abc"]), AnswerRule::hello())),
    ];
    for (first_name, first) in &kinds {
        for (second_name, second) in &kinds {
            let requests = [first.clone(), second.clone(), first.clone(), hello()];
            add_open(group, format!("{first_name} and {second_name}"), &requests);
        }
    }
    let empty_lines = (concat(&[b"\r\n\r\n", &get("")]), AnswerRule::hello());
    add_open(
        group,
        "empty_lines_between",
        &[hello(), empty_lines.clone(), sized("a"), empty_lines],
    );
    let behind_body = (concat(&[b"\r\n", &get("")]), AnswerRule::hello());
    add_open(group, "an_empty_line_behind_a_body", &[sized("a"), behind_body.clone()]);
    add_open(group, "an_empty_line_behind_chunks", &[chunked("a"), behind_body]);
}

/// One request in two pieces at every place, with another before it and another behind.
fn add_cuts(group: &mut CaseGroup) {
    let (bytes, rule) = chunked("hello");
    let rules = [AnswerRule::hello(), rule, AnswerRule::hello()];
    for cut in 0..=bytes.len() {
        let first = concat(&[&get(""), &bytes[..cut]]);
        let second = concat(&[&bytes[cut..], PROBE]);
        let expectation = Expectation::new(rules.clone(), Ending::Open);
        group.custom("9112 9.3.2", format!("cut at {cut}"), vec![first, second], [expectation]);
    }
    let part = concat(&[&get(""), b"GET /plaintext HTTP/1.1\r\nHo"]);
    let expectation = Expectation::new([AnswerRule::hello()], Ending::Open);
    group.custom("9112 9.3.2", "first answered while the second comes", vec![part], [expectation]);
}

fn add_closes(group: &mut CaseGroup) {
    let closing = |body| (get("Connection: close\r\n"), body);
    for (name, before) in [
        ("no_request", vec![]),
        ("a_get", vec![hello()]),
        ("three_gets", vec![hello(), hello(), hello()]),
        ("a_body", vec![sized("a")]),
        ("a_head", vec![head()]),
        ("an_unknown_path", vec![missing()]),
    ] {
        let requests = [before, vec![closing(AnswerRule::hello())]].concat();
        let bytes: Vec<u8> = requests.iter().flat_map(|request| request.0.clone()).collect();
        let rules: Vec<AnswerRule> = requests.into_iter().map(|request| request.1).collect();
        let expectation = Expectation::new(rules, Ending::Announced);
        for (what, behind) in [
            ("a_get", PROBE.to_vec()),
            ("ten_gets", PROBE.repeat(10)),
            ("garbage", vec![0; 100]),
            ("a_large_body", post_sized(pattern(100_000))),
        ] {
            let name = format!("close behind {name} and before {what}");
            let pieces = vec![concat(&[&bytes, &behind])];
            group.custom("9112 9.6", name, pieces, [expectation.clone()]);
        }
    }
}

/// A message that is refused behind good ones: their answers come first, nothing is answered behind it.
fn add_refusals(group: &mut CaseGroup) {
    for (name, bytes, status) in [
        ("no_host", "GET /plaintext HTTP/1.1\r\n\r\n", 400),
        ("bare_lf", "GET /plaintext HTTP/1.1\nHost: a\r\n\r\n", 400),
        ("garbage", "\0\0\0\0\r\n\r\n", 400),
        ("folded", "GET /plaintext HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", 400),
        ("version", "GET /plaintext HTTP/3.0\r\nHost: a\r\n\r\n", 505),
        (
            "coding",
            "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            501,
        ),
        ("length", "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", 400),
        ("large", "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 8388609\r\n\r\n", 413),
        ("chunk", "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", 400),
    ] {
        for (place, before) in [
            ("a_get", vec![hello()]),
            ("five_gets", vec![hello(); 5]),
            ("a_body", vec![sized("a")]),
            ("a_chunked_body", vec![chunked("a")]),
            ("a_head", vec![head()]),
        ] {
            let mut pieces: Vec<u8> = before.iter().flat_map(|request| request.0.clone()).collect();
            pieces.extend_from_slice(bytes.as_bytes());
            pieces.extend_from_slice(PROBE);
            let mut rules: Vec<AnswerRule> = before.into_iter().map(|request| request.1).collect();
            rules.push(AnswerRule::status(status));
            let expectation = Expectation::new(rules, Ending::Announced);
            let name = format!("refused behind {place}: {name}");
            group.custom("9112 9.3.2", name, vec![pieces], [expectation]);
        }
    }
}
