//! Positions of publications.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The place of a publication among all those of an engine. Clients treat its text as opaque.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// The run of the engine: positions of different epochs cannot be compared.
    pub epoch: u32,
    /// Ascends with each publication.
    pub sequence: u64,
}

impl Position {
    /// True if this position is after `other`, and of the same epoch.
    #[must_use]
    pub fn is_after(self, other: Position) -> bool {
        self.epoch == other.epoch && self.sequence > other.sequence
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}-{}", self.epoch, self.sequence)
    }
}

/// The error of a text that is no position.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("a position is a text that the gateway has sent, such as 1f3c9a02-17")]
pub struct InvalidPosition;

impl FromStr for Position {
    type Err = InvalidPosition;

    fn from_str(text: &str) -> Result<Self, InvalidPosition> {
        let (epoch, sequence) = text.split_once('-').ok_or(InvalidPosition)?;
        let is_canonical = epoch.len() == 8
            && epoch.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
            && !sequence.is_empty()
            && sequence.bytes().all(|b| b.is_ascii_digit())
            && (sequence == "0" || !sequence.starts_with('0'));
        if !is_canonical {
            return Err(InvalidPosition);
        }
        let epoch = u32::from_str_radix(epoch, 16).map_err(|_| InvalidPosition)?;
        let sequence = sequence.parse().map_err(|_| InvalidPosition)?;
        Ok(Self { epoch, sequence })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g02_a_position_is_read_as_it_was_written_and_in_no_other_form() {
        for position in [
            Position { epoch: 0, sequence: 0 },
            Position { epoch: 0x1f3c_9a02, sequence: 17 },
            Position { epoch: u32::MAX, sequence: u64::MAX },
        ] {
            assert_eq!(position.to_string().parse(), Ok(position));
        }
        for text in [
            "",
            "-",
            "1-1",
            "0000000G-1",
            "0000000A-1",
            "00000001-",
            "00000001-01",
            "00000001-+1",
            "00000001--1",
            "00000001-18446744073709551616",
        ] {
            assert_eq!(text.parse::<Position>(), Err(InvalidPosition), "{text:?}");
        }
    }

    #[test]
    fn g02_positions_of_different_epochs_have_no_order() {
        let of = |epoch, sequence| Position { epoch, sequence };
        assert!(of(1, 2).is_after(of(1, 1)));
        assert!(!of(1, 1).is_after(of(1, 1)));
        assert!(!of(2, 2).is_after(of(1, 1)));
    }
}
