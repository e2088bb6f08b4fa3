//! Where TLS records end in a stream of bytes that comes in any pieces.

/// The length of a record's header: its type, its version, and the length of the rest.
const HEADER: usize = 5;

/// Follows the records of a stream. rustls buffers whatever it is given, so it is given one record at a time: bytes
/// behind the last one belong to the protocol that follows TLS.
#[derive(Debug, Default)]
pub(crate) struct RecordBoundary {
    /// The last two bytes of the header, which are the length.
    length: [u8; 2],
    /// The bytes of the present record that have passed; zero between records.
    passed: usize,
}

impl RecordBoundary {
    /// Returns how many of the next bytes belong to the present record, and counts them as passed.
    pub(crate) fn pass(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while self.passed < HEADER {
            let Some(&byte) = bytes.get(at) else { return at };
            if let Some(place) = self.passed.checked_sub(HEADER - 2) {
                self.length[place] = byte;
            }
            self.passed += 1;
            at += 1;
        }
        let end = HEADER + usize::from(u16::from_be_bytes(self.length));
        let body = (end - self.passed).min(bytes.len() - at);
        self.passed += body;
        if self.passed == end {
            self.passed = 0;
        }
        at + body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDS: &[u8] = b"\x17\x03\x03\x00\x03abc\x15\x03\x03\x00\x00\x16\x03\x03\x00\x01xrest!";

    #[test]
    fn t06_a_boundary_is_found_after_every_record() {
        let mut boundary = RecordBoundary::default();
        let mut at = 0;
        for end in [8, 13, 19] {
            at += boundary.pass(&RECORDS[at..]);
            assert_eq!((at, boundary.passed > 0), (end, false));
        }
    }

    #[test]
    fn t06_any_cut_gives_the_same_boundaries() {
        for piece in 1..RECORDS.len() {
            let (mut boundary, mut at, mut ends) = (RecordBoundary::default(), 0, Vec::new());
            while at < 19 {
                at += boundary.pass(&RECORDS[at..RECORDS.len().min(at + piece)]);
                if boundary.passed == 0 {
                    ends.push(at);
                }
            }
            assert_eq!(ends, [8, 13, 19], "in pieces of {piece}");
        }
    }
}
