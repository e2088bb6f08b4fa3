//! The builder of a group's cases, one method per kind of outcome.

use super::case::{AnswerRule, Case, Ending, Expectation};
use super::messages::PROBE;

/// Cases under construction whose names begin with the group's.
pub(crate) struct CaseGroup {
    name: &'static str,
    cases: Vec<Case>,
}

impl CaseGroup {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, cases: Vec::new() }
    }

    pub(crate) fn finish(self) -> Vec<Case> {
        self.cases
    }

    /// Adds a message that is answered with 400, after which the connection is closed.
    pub(crate) fn malformed(
        &mut self,
        rfc: &'static str,
        name: impl AsRef<str>,
        bytes: impl Into<Vec<u8>>,
    ) {
        self.refuse(rfc, name, &[400], bytes);
    }

    /// Adds a message that is answered with one of these codes, after which the connection is closed.
    pub(crate) fn refuse(
        &mut self,
        rfc: &'static str,
        name: impl AsRef<str>,
        statuses: &[u16],
        bytes: impl Into<Vec<u8>>,
    ) {
        self.last(rfc, name, bytes, AnswerRule::any_of(statuses));
    }

    /// Adds a request for the greeting, which is answered; the connection stays.
    pub(crate) fn accept(
        &mut self,
        rfc: &'static str,
        name: impl AsRef<str>,
        bytes: impl Into<Vec<u8>>,
    ) {
        self.answer(rfc, name, bytes, AnswerRule::hello());
    }

    /// Adds a request to `/echo` that is answered with this body; the connection stays.
    pub(crate) fn echo(
        &mut self,
        rfc: &'static str,
        name: impl AsRef<str>,
        bytes: impl Into<Vec<u8>>,
        body: impl AsRef<[u8]>,
    ) {
        self.answer(rfc, name, bytes, AnswerRule::with_body(body));
    }

    /// Adds a request that is answered by this rule; the connection stays.
    pub(crate) fn answer(
        &mut self,
        rfc: &'static str,
        name: impl AsRef<str>,
        bytes: impl Into<Vec<u8>>,
        rule: AnswerRule,
    ) {
        let expectation = Expectation::new([rule, AnswerRule::hello()], Ending::Open);
        self.custom(rfc, name, vec![bytes.into(), PROBE.to_vec()], [expectation]);
    }

    /// Adds a request that is answered by this rule, in an answer that says `Connection: close`, and then closed.
    pub(crate) fn last(
        &mut self,
        rfc: &'static str,
        name: impl AsRef<str>,
        bytes: impl Into<Vec<u8>>,
        rule: AnswerRule,
    ) {
        let expectation = Expectation::new([rule], Ending::Announced);
        self.custom(rfc, name, vec![bytes.into(), PROBE.to_vec()], [expectation]);
    }

    /// Adds bytes that are the beginning of a message, and not answered yet.
    pub(crate) fn wait(
        &mut self,
        rfc: &'static str,
        name: impl AsRef<str>,
        bytes: impl Into<Vec<u8>>,
    ) {
        let expectation = Expectation::new([], Ending::Open);
        self.custom(rfc, name, vec![bytes.into()], [expectation]);
    }

    /// Adds a case of any shape.
    pub(crate) fn custom(
        &mut self,
        rfc: &'static str,
        name: impl AsRef<str>,
        pieces: Vec<Vec<u8>>,
        allowed: impl Into<Vec<Expectation>>,
    ) {
        let name = format!("{}: {}", self.name, name.as_ref());
        self.cases.push(Case { name, rfc, pieces, allowed: allowed.into() });
    }
}
