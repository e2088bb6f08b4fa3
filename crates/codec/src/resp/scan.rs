//! Finds the end of a RESP message without building values.
//!
//! A message may arrive in thousands of pieces. Values built from the first pieces would each keep a read block alive, so
//! nothing is built until the whole message is in one buffer. The scan resumes where it stopped.

use super::error::RespError;
use super::limits::RespLimits;
use super::token::{AggregateKind, RespToken, token};

#[derive(Clone, Debug, Default)]
pub(super) struct Scan {
    /// The number of bytes scanned completely.
    at: usize,
    /// The number of bytes searched for a line end.
    searched: usize,
    /// The number of values so far.
    elements: usize,
    /// The incomplete aggregates, outermost first.
    open: Vec<NestingLevel>,
    /// True after attributes, which a value must follow.
    attributed: bool,
}

#[derive(Clone, Copy, Debug)]
enum NestingLevel {
    /// The kind, and the number of elements left to scan.
    Counted(AggregateKind, usize),
    /// The kind, and the number of elements so far; an end marker ends the aggregate.
    Streamed(AggregateKind, usize),
    Chunks,
}

/// A complete message.
pub(super) enum ScannedValue {
    /// A single value.
    Single(RespToken),
    /// An aggregate.
    Nested,
}

impl Scan {
    /// Scans for the end of the message at the front of `buf`. Returns the message and its length.
    pub(super) fn run(
        &mut self,
        buf: &[u8],
        limits: &RespLimits,
    ) -> Result<Option<(ScannedValue, usize)>, RespError> {
        // Bytes beyond the limit are not scanned, so that the result does not depend on how the stream was split.
        let seen = &buf[..buf.len().min(limits.message)];
        loop {
            let found = token(seen, self.at, &mut self.searched, limits)?;
            let Some((token, end)) = found else {
                return if buf.len() > limits.message { Err(too_long(limits)) } else { Ok(None) };
            };
            let single = self.at == 0;
            self.at = end;
            if self.step(&token, limits)? {
                let nested = !single || matches!(token, RespToken::Open(..));
                let found = if nested { ScannedValue::Nested } else { ScannedValue::Single(token) };
                return Ok(Some((found, end)));
            }
        }
    }

    /// Resets the scan for the next message.
    pub(super) fn reset(&mut self) {
        (self.at, self.searched, self.elements, self.attributed) = (0, 0, 0, false);
        self.open.clear();
    }

    /// Processes a token. Returns true if it completes the message.
    fn step(&mut self, token: &RespToken, limits: &RespLimits) -> Result<bool, RespError> {
        if let Some(NestingLevel::Chunks) = self.open.last() {
            return match token {
                RespToken::Chunk(range) if range.is_empty() => {
                    self.open.pop();
                    Ok(self.complete())
                }
                RespToken::Chunk(_) => self.count(1, limits).map(|()| false),
                _ => Err(misplaced("a value among the chunks of a string")),
            };
        }
        match *token {
            RespToken::Chunk(_) => Err(misplaced("a chunk outside of a string in chunks")),
            RespToken::Close => self.close(),
            RespToken::OpenString => {
                self.count(1, limits)?;
                self.push(NestingLevel::Chunks, limits).map(|()| false)
            }
            RespToken::Open(kind, count) => self.begin(kind, count, limits),
            _ => {
                self.count(1, limits)?;
                Ok(self.complete())
            }
        }
    }

    fn begin(
        &mut self,
        kind: AggregateKind,
        count: Option<usize>,
        limits: &RespLimits,
    ) -> Result<bool, RespError> {
        self.count(1, limits)?;
        if kind == AggregateKind::Push && !self.open.is_empty() {
            return Err(misplaced("a push inside of another value"));
        }
        let Some(count) = count else {
            return self.push(NestingLevel::Streamed(kind, 0), limits).map(|()| false);
        };
        let pairs = matches!(kind, AggregateKind::Map | AggregateKind::Attribute);
        let count = if pairs { count.saturating_mul(2) } else { count };
        let total = self.elements.saturating_add(count);
        if total > limits.elements {
            return Err(RespError::TooMany { count: total, limit: limits.elements });
        }
        if count > 0 {
            return self.push(NestingLevel::Counted(kind, count), limits).map(|()| false);
        }
        self.attributed = kind == AggregateKind::Attribute;
        Ok(!self.attributed && self.complete())
    }

    fn close(&mut self) -> Result<bool, RespError> {
        if self.attributed {
            return Err(misplaced("attributes without a value behind them"));
        }
        match self.open.pop() {
            Some(NestingLevel::Streamed(AggregateKind::Map, count)) if count % 2 == 1 => {
                Err(misplaced("a key of a map without a value"))
            }
            Some(NestingLevel::Streamed(..)) => Ok(self.complete()),
            _ => Err(misplaced("an end outside of a value that needs one")),
        }
    }

    fn push(&mut self, level: NestingLevel, limits: &RespLimits) -> Result<(), RespError> {
        let limit = limits.depth.min(RespLimits::MAX_DEPTH);
        if self.open.len() >= limit {
            return Err(RespError::TooDeep { limit });
        }
        self.attributed = false;
        self.open.push(level);
        Ok(())
    }

    fn count(&mut self, more: usize, limits: &RespLimits) -> Result<(), RespError> {
        self.elements += more;
        if self.elements > limits.elements {
            return Err(RespError::TooMany { count: self.elements, limit: limits.elements });
        }
        Ok(())
    }

    /// Completes a value and the aggregates that end with it. Returns true if the message is complete.
    fn complete(&mut self) -> bool {
        self.attributed = false;
        while let Some(level) = self.open.last_mut() {
            match level {
                NestingLevel::Streamed(_, count) => {
                    *count += 1;
                    return false;
                }
                NestingLevel::Counted(_, left) if *left > 1 => {
                    *left -= 1;
                    return false;
                }
                NestingLevel::Counted(AggregateKind::Attribute, _) => {
                    self.open.pop();
                    self.attributed = true;
                    return false;
                }
                NestingLevel::Counted(..) | NestingLevel::Chunks => {
                    self.open.pop();
                }
            }
        }
        true
    }
}

pub(super) fn too_long(limits: &RespLimits) -> RespError {
    RespError::TooLong { what: "a message", limit: limits.message }
}

fn misplaced(what: &'static str) -> RespError {
    RespError::Misplaced { what }
}
