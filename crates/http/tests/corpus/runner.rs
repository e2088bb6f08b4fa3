//! Plays cases against a server and says what was wrong with its answers.

use super::answers::{Answer, quote, read_answers};
use super::case::{AnswerRule, Case, Ending, Expectation, FieldRule, Interim};

/// Longest case that is played byte by byte.
const BYTEWISE_LIMIT: usize = 32 * 1024;

/// Size of the pieces of longer cases: a prime, so that cuts fall everywhere.
const ODD_PIECE: usize = 1021;

/// Runs a server for one connection. Each call is a new connection.
pub(crate) trait Player {
    /// Sends the pieces in order, each after the server did all it does for those before, and returns what it sent
    /// by the time it is at rest. Pieces that remain when the server has ended the connection are dropped. The client
    /// does not end its own direction.
    fn play(&self, pieces: &[&[u8]]) -> Played;
}

/// Record of what a server did on one connection.
#[derive(Debug)]
pub(crate) struct Played {
    /// Everything the server sent.
    pub(crate) bytes: Vec<u8>,
    /// True if the server ended the connection, or its own direction of it.
    pub(crate) is_ended: bool,
}

/// Ways to cut a case's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cutting {
    AsWritten,
    InOnePiece,
    ByteByByte,
}

/// Plays every case in every cutting; panics with all failures if there are any.
pub(crate) fn assert_conformance(player: &impl Player, cases: &[Case]) {
    let failures: Vec<String> = cases.iter().flat_map(|case| failures_of(player, case)).collect();
    assert!(
        failures.is_empty(),
        "{} failures in {} cases:\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n")
    );
}

/// Plays one case in every cutting and describes each failure in a line.
pub(crate) fn failures_of(player: &impl Player, case: &Case) -> Vec<String> {
    let mut failures = Vec::new();
    let mut first_summary = None;
    for cutting in [Cutting::AsWritten, Cutting::InOnePiece, Cutting::ByteByByte] {
        let problem = match play_once(player, case, cutting) {
            Err(problem) => problem,
            Ok(summary) => match first_summary.get_or_insert_with(|| summary.clone()) {
                first if *first == summary => continue,
                first => format!("answers {summary:?} instead of {first:?} as written"),
            },
        };
        failures.push(format!("{} ({}), {cutting:?}: {problem}", case.name, case.rfc));
    }
    failures
}

/// Plays a case in one cutting, and returns the final answers' codes and bodies if they are right.
fn play_once(
    player: &impl Player,
    case: &Case,
    cutting: Cutting,
) -> Result<Vec<(u16, usize)>, String> {
    let whole = case.pieces.concat();
    let pieces: Vec<&[u8]> = match cutting {
        Cutting::AsWritten => case.pieces.iter().map(Vec::as_slice).collect(),
        Cutting::InOnePiece => vec![&whole],
        Cutting::ByteByByte if whole.len() > BYTEWISE_LIMIT => whole.chunks(ODD_PIECE).collect(),
        Cutting::ByteByByte => whole.chunks(1).collect(),
    };
    let played = player.play(&pieces);
    let mut problems = Vec::new();
    for expectation in &case.allowed {
        match check(expectation, &played, cutting) {
            Ok(summary) => return Ok(summary),
            Err(problem) => problems.push(problem),
        }
    }
    Err(format!("{}; sent {}", problems.join("; or: "), quote(&played.bytes)))
}

/// Compares what a server did with one expectation.
fn check(
    expectation: &Expectation,
    played: &Played,
    cutting: Cutting,
) -> Result<Vec<(u16, usize)>, String> {
    let to_head: Vec<bool> = expectation.answers.iter().map(|rule| rule.to_head).collect();
    let answers = read_answers(&played.bytes, &to_head).map_err(|error| error.to_string())?;
    let (finals, interims) = split_interims(answers)?;
    let codes: Vec<u16> = finals.iter().map(|answer| answer.status).collect();
    if codes.len() != expectation.answers.len() {
        return Err(format!(
            "{} answers {codes:?}, not {}",
            codes.len(),
            expectation.answers.len()
        ));
    }
    for (index, (answer, rule)) in finals.iter().zip(&expectation.answers).enumerate() {
        check_interims(interims[index], rule.interim, cutting)
            .and_then(|()| check_answer(answer, rule))
            .map_err(|problem| format!("answer {index} ({}): {problem}", answer.status))?;
    }
    check_ending(expectation.ending, played.is_ended, &finals)?;
    Ok(finals.iter().map(|answer| (answer.status, answer.body.len())).collect())
}

/// Final answers, and the number of `100 Continue` before each.
fn split_interims(answers: Vec<Answer>) -> Result<(Vec<Answer>, Vec<usize>), String> {
    let mut finals = Vec::new();
    let mut counts = Vec::new();
    let mut waiting = 0;
    for answer in answers {
        if answer.status == 100 {
            waiting += 1;
        } else if answer.is_interim() {
            return Err(format!("interim answer {} was not asked for", answer.status));
        } else {
            finals.push(answer);
            counts.push(std::mem::take(&mut waiting));
        }
    }
    match waiting {
        0 => Ok((finals, counts)),
        _ => Err("100 Continue without a final answer".to_owned()),
    }
}

fn check_interims(count: usize, rule: Interim, cutting: Cutting) -> Result<(), String> {
    let is_right = match rule {
        Interim::Never => count == 0,
        Interim::Required if cutting != Cutting::InOnePiece => count == 1,
        Interim::Optional | Interim::Required => count <= 1,
    };
    if is_right { Ok(()) } else { Err(format!("{count} × 100 Continue, rule {rule:?}")) }
}

fn check_answer(answer: &Answer, rule: &AnswerRule) -> Result<(), String> {
    if !rule.statuses.contains(&answer.status) {
        return Err(format!("status is not in {:?}", rule.statuses));
    }
    if rule.body.as_ref().is_some_and(|body| *body != answer.body) {
        return Err(format!("body is {}", quote(&answer.body)));
    }
    check_date(answer)?;
    for field in &rule.fields {
        check_field(answer, field)?;
    }
    Ok(())
}

/// Every final answer has one `Date` in the preferred format (RFC 9110, 6.6.1 and 5.6.7).
fn check_date(answer: &Answer) -> Result<(), String> {
    let dates: Vec<&[u8]> = answer.values("date").collect();
    let [date] = dates[..] else { return Err(format!("{} Date lines", dates.len())) };
    let text = String::from_utf8_lossy(date);
    match httpdate::parse_http_date(&text) {
        Ok(time) if httpdate::fmt_http_date(time) == text => Ok(()),
        _ => Err(format!("invalid Date: {text}")),
    }
}

fn check_field(answer: &Answer, rule: &FieldRule) -> Result<(), String> {
    let (name, is_right) = match rule {
        FieldRule::Equals(name, value) => {
            let values: Vec<&[u8]> = answer.values(name).collect();
            (name, values == [value.as_bytes()])
        }
        FieldRule::HasToken(name, token) => (name, answer.has_token(name, token)),
        FieldRule::Absent(name) => (name, answer.values(name).next().is_none()),
    };
    if is_right {
        return Ok(());
    }
    let values: Vec<String> = answer.values(name).map(quote).collect();
    Err(match rule {
        FieldRule::Equals(_, value) => format!("{name} is {values:?}, not {value:?}"),
        FieldRule::HasToken(_, token) => format!("{name} is {values:?}, without {token:?}"),
        FieldRule::Absent(_) => format!("{name} is {values:?}, where none is allowed"),
    })
}

/// Compares the end of the connection with the rule and with what the answers announced.
fn check_ending(ending: Ending, is_ended: bool, finals: &[Answer]) -> Result<(), String> {
    let announcing = |answer: &Answer| answer.has_token("connection", "close");
    let (last, before) = match finals.split_last() {
        Some((last, before)) => (announcing(last), before.iter().any(announcing)),
        None => (false, false),
    };
    let is_right = match ending {
        Ending::Open => !is_ended && !last,
        Ending::Announced => is_ended && last,
        Ending::Closed => is_ended,
        Ending::Any => is_ended == last,
    };
    if is_right && !before {
        return Ok(());
    }
    Err(format!(
        "connection ended: {is_ended}, announced by the last answer: {last}, by an earlier one: {before}; rule {ending:?}"
    ))
}
