//! The reader of answers: splits the bytes a server sent, and takes nothing that is not well formed.
//!
//! Beyond the grammar of RFC 9112 the reader asks for an explicit end of every body, by `Content-Length` or chunks, so
//! that an answer that was cut short is never taken for a whole one.

use thiserror::Error;

/// Longest line that is quoted in an error.
const QUOTED: usize = 60;

/// One answer, interim or final.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lower case, values without the white space around them.
    pub(crate) fields: Vec<(String, Vec<u8>)>,
    /// The body, without its chunks if it came in chunks.
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn is_interim(&self) -> bool {
        (100..200).contains(&self.status)
    }

    /// Values of every line of this name, which is in lower case.
    pub(crate) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.fields.iter().filter(move |field| field.0 == name).map(|field| &*field.1)
    }

    /// True if a comma-separated field holds this token, in any case of letters.
    pub(crate) fn has_token(&self, name: &str, token: &str) -> bool {
        let mut members = self.values(name).flat_map(|value| value.split(|byte| *byte == b','));
        members.any(|member| member.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
    }
}

/// Why a server's bytes are no sequence of well-formed answers.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum AnswerError {
    #[error("answer {answer} ends within its {part}")]
    Incomplete { answer: usize, part: &'static str },
    #[error(
        "answer {answer} has a line that is not ended by CRLF, or a control byte in it: {line}"
    )]
    Line { answer: usize, line: String },
    #[error("answer {answer} has no valid status line: {line}")]
    StatusLine { answer: usize, line: String },
    #[error("answer {answer} has no valid field line: {line}")]
    FieldLine { answer: usize, line: String },
    #[error("answer {answer} has no valid framing: {problem}")]
    Framing { answer: usize, problem: &'static str },
    #[error("answer {answer} has no valid chunk: {line}")]
    Chunk { answer: usize, line: String },
}

/// Splits `bytes` into answers. `to_head` says for each final answer whether its request was HEAD; final answers
/// beyond its end are taken for answers to other methods.
pub(crate) fn read_answers(bytes: &[u8], to_head: &[bool]) -> Result<Vec<Answer>, AnswerError> {
    let mut reader = AnswerReader { rest: bytes, answer: 0 };
    let mut answers = Vec::new();
    let mut finals = 0;
    while !reader.rest.is_empty() {
        let answer = reader.read_answer(to_head.get(finals).copied().unwrap_or(false))?;
        finals += usize::from(!answer.is_interim());
        answers.push(answer);
        reader.answer += 1;
    }
    Ok(answers)
}

/// Bytes that were not read yet, and the index of the answer they belong to.
struct AnswerReader<'a> {
    rest: &'a [u8],
    answer: usize,
}

impl<'a> AnswerReader<'a> {
    fn read_answer(&mut self, to_head: bool) -> Result<Answer, AnswerError> {
        let status = self.read_status_line()?;
        let fields = self.read_fields("head")?;
        let mut answer = Answer { status, fields, body: Vec::new() };
        let length = self.content_length(&answer)?;
        let is_chunked = self.is_chunked(&answer)?;
        let has_no_body = answer.is_interim() || status == 204;
        if has_no_body && (length.is_some() || is_chunked) {
            return Err(self.framing("a length or coding where no body is allowed"));
        }
        answer.body = match length {
            _ if has_no_body || to_head || status == 304 => Vec::new(),
            Some(_) if is_chunked => {
                return Err(self.framing("both Content-Length and Transfer-Encoding"));
            }
            Some(length) => self.take(length, "body")?.to_vec(),
            None if is_chunked => self.read_chunks()?,
            None => return Err(self.framing("neither Content-Length nor chunks")),
        };
        Ok(answer)
    }

    /// `HTTP/1.1 SP 3DIGIT SP [reason]`. A server answers with its own version, also to HTTP/1.0 (RFC 9110, 6.2).
    fn read_status_line(&mut self) -> Result<u16, AnswerError> {
        let line = self.read_line("status line")?;
        let status = match line.strip_prefix(b"HTTP/1.1 ") {
            Some([digits @ .., b' ']) if digits.len() == 3 => digits,
            Some(rest) if rest.len() > 3 && rest[3] == b' ' => &rest[..3],
            _ => b"",
        };
        let number = status.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit & 0x0f));
        if status.iter().all(u8::is_ascii_digit) && (100..600).contains(&number) {
            return Ok(number);
        }
        Err(AnswerError::StatusLine { answer: self.answer, line: quote(line) })
    }

    fn read_fields(&mut self, part: &'static str) -> Result<Vec<(String, Vec<u8>)>, AnswerError> {
        let mut fields = Vec::new();
        loop {
            let line = self.read_line(part)?;
            if line.is_empty() {
                return Ok(fields);
            }
            let invalid = || AnswerError::FieldLine { answer: self.answer, line: quote(line) };
            let colon = line.iter().position(|byte| *byte == b':').ok_or_else(invalid)?;
            let name = &line[..colon];
            if name.is_empty() || !name.iter().all(|byte| super::messages::is_token_byte(*byte)) {
                return Err(invalid());
            }
            let name = String::from_utf8_lossy(name).to_ascii_lowercase();
            fields.push((name, line[colon + 1..].trim_ascii().to_vec()));
        }
    }

    /// The one valid value of `Content-Length`, if there is a line of that name.
    fn content_length(&self, answer: &Answer) -> Result<Option<usize>, AnswerError> {
        let mut values = answer.values("content-length");
        let Some(value) = values.next() else { return Ok(None) };
        let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        if values.next().is_some() || !is_number {
            return Err(self.framing("Content-Length is repeated or no number"));
        }
        let number = String::from_utf8_lossy(value).parse();
        number.map(Some).map_err(|_| self.framing("Content-Length is too large"))
    }

    fn is_chunked(&self, answer: &Answer) -> Result<bool, AnswerError> {
        let mut codings = answer.values("transfer-encoding");
        match (codings.next(), codings.next()) {
            (None, _) => Ok(false),
            (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") => Ok(true),
            _ => Err(self.framing("a transfer coding that is not chunked alone")),
        }
    }

    fn read_chunks(&mut self) -> Result<Vec<u8>, AnswerError> {
        let mut body = Vec::new();
        loop {
            let line = self.read_line("chunk size")?;
            let invalid = || AnswerError::Chunk { answer: self.answer, line: quote(line) };
            let digits = String::from_utf8_lossy(line);
            if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(invalid());
            }
            match usize::from_str_radix(&digits, 16).map_err(|_| invalid())? {
                0 => break,
                size => body.extend_from_slice(self.take(size, "chunk")?),
            }
            match self.take(2, "chunk")? {
                b"\r\n" => {}
                other => {
                    return Err(AnswerError::Chunk { answer: self.answer, line: quote(other) });
                }
            }
        }
        self.read_fields("trailers")?;
        Ok(body)
    }

    /// Reads to the next CRLF. A line holds visible characters, space, HTAB and obs-text only.
    fn read_line(&mut self, part: &'static str) -> Result<&'a [u8], AnswerError> {
        let end =
            self.rest.iter().position(|byte| (*byte < b' ' && *byte != b'\t') || *byte == 0x7f);
        let end = end.ok_or(AnswerError::Incomplete { answer: self.answer, part })?;
        let line = &self.rest[..end];
        match &self.rest[end..] {
            [b'\r', b'\n', rest @ ..] => self.rest = rest,
            [b'\r'] => return Err(AnswerError::Incomplete { answer: self.answer, part }),
            _ => return Err(AnswerError::Line { answer: self.answer, line: quote(self.rest) }),
        }
        Ok(line)
    }

    fn take(&mut self, length: usize, part: &'static str) -> Result<&'a [u8], AnswerError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(AnswerError::Incomplete { answer: self.answer, part })?;
        self.rest = rest;
        Ok(taken)
    }

    fn framing(&self, problem: &'static str) -> AnswerError {
        AnswerError::Framing { answer: self.answer, problem }
    }
}

/// The beginning of some bytes, with escapes, for messages.
pub(crate) fn quote(bytes: &[u8]) -> String {
    let more = if bytes.len() > QUOTED { "…" } else { "" };
    format!("\"{}{more}\" ({} bytes)", bytes[..bytes.len().min(QUOTED)].escape_ascii(), bytes.len())
}
