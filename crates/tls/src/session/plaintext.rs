//! The plaintext of the records that were decrypted together.

use bytes::Bytes;

/// The overhead of a record, at most.
const OVERHEAD: usize = 64;

/// Collects the plaintext of records. One record is the usual case, and costs one allocation of its size.
#[derive(Debug, Default)]
pub(crate) struct Plaintext {
    first: Bytes,
    /// All records, if there are several.
    joined: Vec<u8>,
    /// The length of the ciphertext, more than all records need.
    capacity: usize,
}

impl Plaintext {
    /// Returns an empty collection for records of so much ciphertext.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { capacity, ..Self::default() }
    }

    pub(crate) fn push(&mut self, record: &[u8]) {
        let is_alone = self.capacity <= record.len() + OVERHEAD;
        if !self.joined.is_empty() {
            self.joined.extend_from_slice(record);
        } else if self.first.is_empty() && is_alone {
            self.first = Bytes::copy_from_slice(record);
        } else if !record.is_empty() {
            self.joined.reserve(self.capacity.max(self.first.len() + record.len()));
            self.joined.extend_from_slice(&self.first);
            self.joined.extend_from_slice(record);
        }
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        if self.joined.is_empty() { self.first } else { self.joined.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t05_records_are_joined_in_order() {
        let mut plaintext = Plaintext::with_capacity(4);
        for record in [&b""[..], b"one", b"", b"two", b"", b"three"] {
            plaintext.push(record);
        }
        assert_eq!(plaintext.into_bytes(), "onetwothree");
        assert_eq!(Plaintext::default().into_bytes(), "");
    }
}
