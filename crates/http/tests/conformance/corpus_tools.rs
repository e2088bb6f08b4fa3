//! Tests of the corpus's own tools: the reader of answers, the runner, and the cases as data.

use std::collections::HashSet;

use crate::corpus::answers::{Answer, AnswerError, read_answers};
use crate::corpus::case::{AnswerRule, Case, Ending, Expectation, Interim};
use crate::corpus::group::CaseGroup;
use crate::corpus::http_server_suite;
use crate::corpus::messages::{get, post, post_sized};
use crate::corpus::runner::{Played, Player, assert_conformance, failures_of};

const DATE: &str = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";

fn read(bytes: &str) -> Result<Vec<Answer>, AnswerError> {
    read_answers(bytes.as_bytes(), &[])
}

fn statuses(answers: &[Answer]) -> Vec<u16> {
    answers.iter().map(|answer| answer.status).collect()
}

#[test]
fn h03_the_reader_splits_sized_and_chunked_answers() {
    let answers = read(concat!(
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 404 \r\ncontent-length:0\r\n\r\n",
        "HTTP/1.1 200 Fine by me\r\nTransfer-Encoding: Chunked\r\nX: \t y \r\n\r\n",
        "5\r\nhello\r\nA\r\n, 10 bytes\r\n0\r\nTrailer: x\r\n\r\n",
        "HTTP/1.1 500 E\r\nContent-Length: 2\r\n\r\n\r\n",
    ));
    let answers = answers.expect("every answer is well formed");
    assert_eq!(statuses(&answers), [200, 404, 200, 500]);
    let bodies: Vec<&[u8]> = answers.iter().map(|answer| &*answer.body).collect();
    assert_eq!(bodies, [&b"hello"[..], b"", b"hello, 10 bytes", b"\r\n"]);
    assert_eq!(answers[2].values("x").collect::<Vec<_>>(), [b"y"]);
}

#[test]
fn h04_the_reader_knows_answers_without_a_body() {
    let bytes = concat!(
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    );
    let to_head = [true, false, false, true, false];
    let answers = read_answers(bytes.as_bytes(), &to_head).expect("every answer is well formed");
    assert_eq!(statuses(&answers), [100, 200, 103, 204, 304, 200, 200]);
    assert_eq!(answers[6].body, b"hi");
}

#[test]
fn h04_the_reader_refuses_lengths_where_no_body_is_allowed() {
    for start in ["HTTP/1.1 204 No Content", "HTTP/1.1 100 Continue"] {
        for field in ["Content-Length: 0", "Transfer-Encoding: chunked"] {
            let error = read(&format!("{start}\r\n{field}\r\n\r\n")).unwrap_err();
            assert!(matches!(error, AnswerError::Framing { answer: 0, .. }), "{error}");
        }
    }
}

#[test]
fn h03_the_reader_refuses_malformed_status_lines() {
    for line in [
        "HTTP/1.0 200 OK",
        "HTTP/1.1 200",
        "HTTP/1.1 20 OK",
        "HTTP/1.1 2000 OK",
        "HTTP/1.1 099 OK",
        "HTTP/1.1 600 OK",
        "HTTP/1.1 2x0 OK",
        "HTTP/1.1  200 OK",
        "http/1.1 200 OK",
        " HTTP/1.1 200 OK",
        "HTTP/1.1",
        "HTTP/1.1 ",
        "",
    ] {
        let error = read(&format!("{line}\r\nContent-Length: 0\r\n\r\n")).unwrap_err();
        assert!(matches!(error, AnswerError::StatusLine { answer: 0, .. }), "{line}: {error}");
    }
}

#[test]
fn h03_the_reader_refuses_malformed_lines() {
    for (lines, is_line) in [
        ("X: a\nContent-Length: 0\r\n", true),
        ("X: a\rContent-Length: 0\r\n", true),
        ("X: a\0\r\nContent-Length: 0\r\n", true),
        ("X: a\r\r\nContent-Length: 0\r\n", true),
        ("X\r\nContent-Length: 0\r\n", false),
        (": a\r\nContent-Length: 0\r\n", false),
        ("X : a\r\nContent-Length: 0\r\n", false),
        (" X: a\r\nContent-Length: 0\r\n", false),
        ("X: a\r\n b\r\nContent-Length: 0\r\n", false),
    ] {
        let error = read(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n")).unwrap_err();
        let is_right = match error {
            AnswerError::Line { .. } => is_line,
            AnswerError::FieldLine { .. } => !is_line,
            _ => false,
        };
        assert!(is_right, "{lines:?}: {error}");
    }
}

#[test]
fn h03_the_reader_refuses_unclear_ends_of_bodies() {
    for fields in [
        "",
        "Content-Length: 0\r\nContent-Length: 0\r\n",
        "Content-Length: 0, 0\r\n",
        "Content-Length: +0\r\n",
        "Content-Length:\r\n",
        "Content-Length: 99999999999999999999999\r\n",
        "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    ] {
        let error = read(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n0\r\n\r\n")).unwrap_err();
        assert!(matches!(error, AnswerError::Framing { answer: 0, .. }), "{fields:?}: {error}");
    }
    for chunks in ["x\r\n", "\r\n\r\n", "+1\r\na\r\n", "1\r\nab\r\n", "1 \r\na\r\n", "1;a\r\na\r\n"]
    {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let error = read(&format!("{head}{chunks}0\r\n\r\n")).unwrap_err();
        assert!(matches!(error, AnswerError::Chunk { answer: 0, .. }), "{chunks:?}: {error}");
    }
}

#[test]
fn h03_the_reader_refuses_every_part_of_an_answer() {
    for whole in [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n",
    ] {
        assert!(read(whole).is_ok());
        for length in 1..whole.len() {
            let error = read(&whole[..length]).unwrap_err();
            assert!(
                matches!(error, AnswerError::Incomplete { answer: 0, .. }),
                "{length}: {error}"
            );
        }
    }
    let error = read("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nrest").unwrap_err();
    assert_eq!(error, AnswerError::Incomplete { answer: 1, part: "status line" });
}

/// A server that says the same to everyone once the request's bytes contain a given text.
struct Canned {
    after: &'static str,
    bytes: String,
    is_ended: bool,
}

impl Player for Canned {
    fn play(&self, pieces: &[&[u8]]) -> Played {
        let received = pieces.concat();
        match String::from_utf8_lossy(&received).contains(self.after) {
            true => Played { bytes: self.bytes.clone().into_bytes(), is_ended: self.is_ended },
            false => Played { bytes: Vec::new(), is_ended: false },
        }
    }
}

/// A server for requests that are well formed and have no chunks. Whatever it does not expect is 404.
struct NaiveServer;

impl Player for NaiveServer {
    fn play(&self, pieces: &[&[u8]]) -> Played {
        let mut played = Played { bytes: Vec::new(), is_ended: false };
        let received = String::from_utf8_lossy(&pieces.concat()).into_owned();
        let mut rest = received.as_str();
        while let Some((head, behind)) = rest.split_once("\r\n\r\n") {
            let length = head.split_once("Content-Length: ").map_or("0", |(_, rest)| rest);
            let length = length.lines().next().and_then(|digits| digits.parse().ok()).unwrap_or(0);
            let Some((body, behind)) = behind.split_at_checked(length) else { break };
            rest = behind;
            let (status, body) = match head.split(' ').next() {
                Some("GET") if head.starts_with("GET /plaintext ") => ("200 OK", "Hello, World!"),
                Some("POST") if head.starts_with("POST /echo ") => ("200 OK", body),
                _ => ("404 Not Found", ""),
            };
            let head = format!("HTTP/1.1 {status}\r\n{DATE}Content-Length: {}\r\n\r\n", body.len());
            played.bytes.extend_from_slice(head.as_bytes());
            played.bytes.extend_from_slice(body.as_bytes());
        }
        played
    }
}

#[test]
fn h03_the_runner_accepts_right_answers() {
    let mut group = CaseGroup::new("sound");
    group.accept("9112 3", "get", get(""));
    group.echo("9112 6.2", "sized", post_sized("hello"), "hello");
    group.answer("9110 15.5.5", "missing", "GET /x HTTP/1.1\r\n\r\n", AnswerRule::status(404));
    group.wait("9112 2.1", "unfinished", "GET /plaintext HTTP/1.1\r\n");
    assert_conformance(&NaiveServer, &group.finish());
}

#[test]
fn h03_the_runner_finds_wrong_answers() {
    let mut group = CaseGroup::new("wrong");
    group.malformed("9112 3.2", "status, count and ending", "GET /plaintext HTTP/1.1\r\n\r\n");
    group.echo("9112 6.2", "body", post_sized("hello"), "hellx");
    group.accept("9112 3", "status", "GET /x HTTP/1.1\r\n\r\n");
    group.wait("9112 2.1", "answered too early", get(""));
    group.last("9112 9.6", "not closed", get("Connection: close\r\n"), AnswerRule::hello());
    let rule = AnswerRule::not_allowed("GET");
    group.answer("9110 15.5.6", "no field", "PUT /plaintext HTTP/1.1\r\n\r\n", rule);
    let rule = AnswerRule::hello().absent("content-length");
    group.answer("9110 8.6", "field that must not be", get(""), rule);
    let head = post("Expect: 100-continue\r\nContent-Length: 5\r\n", "");
    let rules = [AnswerRule::with_body("hello").interim(Interim::Required)];
    let expectation = Expectation::new(rules, Ending::Open);
    group.custom("9110 10.1.1", "no 100", vec![head, b"hello".to_vec()], [expectation]);
    for case in group.finish() {
        let failures = failures_of(&NaiveServer, &case);
        // In one piece the interim answer may be missing.
        let least = if case.name.ends_with("no 100") { 2 } else { 3 };
        assert_eq!(failures.len(), least, "{failures:?}");
        assert!(failures.iter().all(|failure| failure.starts_with(&case.name)), "{failures:?}");
    }
}

#[test]
#[should_panic(expected = "6 failures in 2 cases")]
fn h03_the_runner_reports_all_failures_of_a_group() {
    let mut group = CaseGroup::new("wrong");
    group.malformed("9112 3.2", "one", "GET /plaintext HTTP/1.1\r\n\r\n");
    group.malformed("9112 3.2", "two", "GET /plaintext HTTP/1.1\r\nHost : a\r\n\r\n");
    assert_conformance(&NaiveServer, &group.finish());
}

/// A case that is answered once, by 200 and these field lines.
fn canned(fields: &str, is_ended: bool, ending: Ending) -> Vec<String> {
    let bytes = format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{fields}\r\n");
    let expectation = Expectation::new([AnswerRule::status(200)], ending);
    let mut group = CaseGroup::new("canned");
    group.custom("9112 9.6", "one", vec![b"x".to_vec()], [expectation]);
    let player = Canned { after: "x", bytes, is_ended };
    group.finish().iter().flat_map(|case| failures_of(&player, case)).collect()
}

#[test]
fn h04_the_runner_compares_the_ending_with_what_was_announced() {
    let close = format!("{DATE}Connection: Foo, Close\r\n");
    for (fields, is_ended, right) in [
        (DATE, false, &[Ending::Open, Ending::Any][..]),
        (&close, true, &[Ending::Announced, Ending::Closed, Ending::Any]),
        (DATE, true, &[Ending::Closed]),
        (&close, false, &[]),
    ] {
        for ending in [Ending::Open, Ending::Announced, Ending::Closed, Ending::Any] {
            let failures = canned(fields, is_ended, ending);
            let is_right = right.contains(&ending);
            assert_eq!(
                failures.is_empty(),
                is_right,
                "{fields} {is_ended} {ending:?}: {failures:?}"
            );
        }
    }
}

#[test]
fn h03_the_runner_asks_for_a_date_in_the_preferred_format() {
    assert_eq!(canned(DATE, false, Ending::Open), Vec::<String>::new());
    for fields in [
        "",
        "Date: Sunday, 06-Nov-94 08:49:37 GMT\r\n",
        "Date: Sun Nov  6 08:49:37 1994\r\n",
        "Date: now\r\n",
        &DATE.repeat(2),
    ] {
        assert_eq!(canned(fields, false, Ending::Open).len(), 3, "{fields}");
    }
}

#[test]
fn h03_the_runner_takes_any_of_several_expectations() {
    let ok = Expectation::new([AnswerRule::hello()], Ending::Open);
    let refused = Expectation::new([AnswerRule::status(400)], Ending::Announced);
    for (allowed, failures) in [
        (vec![refused.clone(), ok.clone()], 0),
        (vec![ok.clone(), refused.clone()], 0),
        (vec![refused.clone()], 3),
    ] {
        let mut group = CaseGroup::new("choice");
        group.custom("9112 3", "one", vec![get("")], allowed);
        let cases = group.finish();
        assert_eq!(failures_of(&NaiveServer, &cases[0]).len(), failures);
    }
}

/// A server whose answer depends on how the request was cut.
struct CutSensitive;

impl Player for CutSensitive {
    fn play(&self, pieces: &[&[u8]]) -> Played {
        let status = if pieces.len() > 2 { 501 } else { 400 };
        let fields = format!("{DATE}Connection: close\r\nContent-Length: 0\r\n");
        let bytes = format!("HTTP/1.1 {status} X\r\n{fields}\r\n").into_bytes();
        Played { bytes, is_ended: true }
    }
}

#[test]
fn h03_the_runner_finds_answers_that_depend_on_the_cuts() {
    let mut group = CaseGroup::new("cuts");
    group.refuse("9112 6.1", "either", &[400, 501], post("Transfer-Encoding: x\r\n", ""));
    let cases = group.finish();
    let failures = failures_of(&CutSensitive, &cases[0]);
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(failures[0].contains("ByteByByte"), "{failures:?}");
}

macro_rules! list_groups {
    ($module:ident; $($name:ident)*) => {
        [$((stringify!($name), crate::corpus::$name()),)*]
    };
}

#[test]
fn h03_every_case_has_a_unique_name_a_section_bytes_and_an_expectation() {
    let mut names = HashSet::new();
    let groups = http_server_suite!(all, list_groups);
    for (group, cases) in groups {
        assert!(cases.len() >= 20, "{group} has {} cases", cases.len());
        for case in cases {
            let Case { name, rfc, pieces, allowed } = case;
            assert!(name.starts_with(&format!("{group}: ")), "{name} is in {group}");
            assert!(rfc.split_once(' ').is_some(), "{name}: {rfc}");
            assert!(!allowed.is_empty() && pieces.iter().any(|piece| !piece.is_empty()), "{name}");
            assert!(names.insert(name.clone()), "{name} is there twice");
        }
    }
    assert!(names.len() > 400, "{} cases", names.len());
}
