//! A case: the bytes a client sends, and the answers they have to cause.

/// One conversation: pieces of bytes, and the outcomes that are right.
pub(crate) struct Case {
    /// The group's name and the case's own, unique in the corpus.
    pub(crate) name: String,
    /// The document and section that decide the outcome, such as `9112 6.1`.
    pub(crate) rfc: &'static str,
    /// Bytes in the order in which they are sent. The server can react between two pieces.
    pub(crate) pieces: Vec<Vec<u8>>,
    /// Outcomes of which one has to come about; more than one only where there is a choice.
    pub(crate) allowed: Vec<Expectation>,
}

/// The final answers in order, and what becomes of the connection.
#[derive(Clone)]
pub(crate) struct Expectation {
    pub(crate) answers: Vec<AnswerRule>,
    pub(crate) ending: Ending,
}

impl Expectation {
    pub(crate) fn new(answers: impl Into<Vec<AnswerRule>>, ending: Ending) -> Self {
        Self { answers: answers.into(), ending }
    }
}

/// State of the connection after the last answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Open, and no answer said `Connection: close`.
    Open,
    /// Ended by the server, and the last answer said `Connection: close`.
    Announced,
    /// Ended by the server, whether or not the last answer said so.
    Closed,
    /// Open or ended; if ended, the last answer said `Connection: close`.
    Any,
}

/// Interim answers `100 Continue` before a final answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interim {
    /// No interim answer.
    Never,
    /// At most one, for a client that asked and whose body may have been there already.
    Optional,
    /// Exactly one, unless the case is played in one piece: the body is there then.
    Required,
}

/// Conditions on one final answer.
#[derive(Clone)]
pub(crate) struct AnswerRule {
    pub(crate) statuses: Vec<u16>,
    /// Answers a HEAD request: no body, whatever `Content-Length` says.
    pub(crate) to_head: bool,
    pub(crate) interim: Interim,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) fields: Vec<FieldRule>,
}

/// Condition on the fields of an answer. Names are in lower case.
#[derive(Clone)]
pub(crate) enum FieldRule {
    /// Exactly one line of this name, with this value.
    Equals(&'static str, String),
    /// A comma-separated list that holds this token, in any case of letters.
    HasToken(&'static str, &'static str),
    /// No line of this name.
    Absent(&'static str),
}

impl AnswerRule {
    /// A rule that asks for one of these status codes and nothing else.
    pub(crate) fn any_of(statuses: &[u16]) -> Self {
        Self {
            statuses: statuses.to_vec(),
            to_head: false,
            interim: Interim::Never,
            body: None,
            fields: Vec::new(),
        }
    }

    pub(crate) fn status(status: u16) -> Self {
        Self::any_of(&[status])
    }

    /// The answer to `GET /plaintext`.
    pub(crate) fn hello() -> Self {
        Self::with_body("Hello, World!")
    }

    /// The answer to `HEAD /plaintext`: the fields of the answer to GET, and no body.
    pub(crate) fn hello_to_head() -> Self {
        Self::status(200).for_head().equals("content-length", "13")
    }

    /// 200 with this body, its length told by `Content-Length`.
    pub(crate) fn with_body(body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let rule = Self::status(200).equals("content-length", &body.len().to_string());
        Self { body: Some(body.to_vec()), ..rule }
    }

    /// 405 whose `Allow` names the method that the path has.
    pub(crate) fn not_allowed(method: &'static str) -> Self {
        Self::status(405).has_token("allow", method)
    }

    /// Makes this the answer to a HEAD request, which has no body.
    pub(crate) fn for_head(self) -> Self {
        Self { to_head: true, body: Some(Vec::new()), ..self }
    }

    pub(crate) fn interim(self, interim: Interim) -> Self {
        Self { interim, ..self }
    }

    pub(crate) fn equals(mut self, name: &'static str, value: &str) -> Self {
        self.fields.push(FieldRule::Equals(name, value.to_owned()));
        self
    }

    pub(crate) fn has_token(mut self, name: &'static str, token: &'static str) -> Self {
        self.fields.push(FieldRule::HasToken(name, token));
        self
    }

    pub(crate) fn absent(mut self, name: &'static str) -> Self {
        self.fields.push(FieldRule::Absent(name));
        self
    }
}
