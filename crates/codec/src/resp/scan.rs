//! Finds the end of a RESP message without making anything of it.
//!
//! A message may come in thousands of pieces. Values that were made of the first ones would each keep the block alive
//! that they were read into; so nothing is made until the whole message is in one buffer. The scan goes on where
//! it stopped.

use super::error::RespError;
use super::limits::RespLimits;
use super::token::{AggregateKind, RespToken, token};

#[derive(Clone, Debug, Default)]
pub(super) struct Scan {
    /// Up to here everything was looked at.
    at: usize,
    /// Up to here a line end was looked for.
    searched: usize,
    /// How many values there were.
    elements: usize,
    /// The values that are not complete, outermost first.
    open: Vec<NestingLevel>,
    /// Attributes came last: a value has to follow.
    attributed: bool,
}

#[derive(Clone, Copy, Debug)]
enum NestingLevel {
    /// Values still to come.
    Counted(AggregateKind, usize),
    /// Values that have come; an end marker is to come.
    Streamed(AggregateKind, usize),
    Chunks,
}

/// A message that is there as a whole.
pub(super) enum ScannedValue {
    /// A single value.
    Single(RespToken),
    /// A value with others in it.
    Nested,
}

impl Scan {
    /// Looks for the end of the message at the front of `buf`. Returns what it is, and its length.
    pub(super) fn run(
        &mut self,
        buf: &[u8],
        limits: &RespLimits,
    ) -> Result<Option<(ScannedValue, usize)>, RespError> {
        // What is beyond the limit is not looked at: what is found does not depend on how the bytes were cut.
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

    /// Begins with the next message.
    pub(super) fn reset(&mut self) {
        (self.at, self.searched, self.elements, self.attributed) = (0, 0, 0, false);
        self.open.clear();
    }

    /// Takes a token into account. Returns whether the message is complete with it.
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

    /// A value is complete, and perhaps those around it. Returns whether the message is.
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
