//! The classic pcap format, with nanoseconds: a header of 24 bytes, then records of 16 bytes and a packet each.
//!
//! All numbers are little-endian. The packets begin with their IP header (LINKTYPE_RAW).

use std::time::Duration;

/// Marks a file with timestamps in nanoseconds.
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;

/// Packets that begin with an IPv4 or IPv6 header.
const LINKTYPE_RAW: u32 = 101;

/// The length of the header of a file.
pub(super) const FILE_HEADER: usize = 24;

/// The length of the header of a record.
pub(super) const RECORD_HEADER: usize = 16;

/// Returns the header of a file whose packets are cut off after `snap_len` bytes.
pub(super) fn file_header(snap_len: u32) -> [u8; FILE_HEADER] {
    let mut header = [0; FILE_HEADER];
    header[..4].copy_from_slice(&MAGIC_NANOSECONDS.to_le_bytes());
    header[4] = 2; // Version 2.4.
    header[6] = 4;
    header[16..20].copy_from_slice(&snap_len.to_le_bytes());
    header[20..].copy_from_slice(&LINKTYPE_RAW.to_le_bytes());
    header
}

/// Returns the header of a record: the time since 1970, the bytes in the file, the bytes that the packet had.
pub(super) fn record_header(at: Duration, captured: usize, whole: usize) -> [u8; RECORD_HEADER] {
    let fields = [at.as_secs() as u32, at.subsec_nanos(), captured as u32, whole as u32];
    let mut header = [0; RECORD_HEADER];
    for (target, field) in header.chunks_exact_mut(4).zip(fields) {
        target.copy_from_slice(&field.to_le_bytes());
    }
    header
}

/// Returns the length of the whole records among the first `len` bytes of `records`.
pub(super) fn whole_records_len(records: &[u8], len: usize) -> usize {
    let mut whole = 0;
    while let Some(captured) = records.get(whole + 8..whole + 12) {
        let captured = u32::from_le_bytes([captured[0], captured[1], captured[2], captured[3]]);
        let end = whole + RECORD_HEADER + captured as usize;
        if end > len {
            break;
        }
        whole = end;
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k06_headers_have_the_fields_of_the_format() {
        let expected = [
            0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 101, 0,
            0, 0,
        ];
        assert_eq!(file_header(65_535), expected);
        let record = record_header(Duration::new(1, 0x0203_0405), 6, 0x0708);
        assert_eq!(record, [1, 0, 0, 0, 5, 4, 3, 2, 6, 0, 0, 0, 8, 7, 0, 0]);
    }

    #[test]
    fn k06_a_torn_record_does_not_count_as_whole() {
        let mut records = Vec::new();
        for captured in [5, 0, 9] {
            records.extend(record_header(Duration::ZERO, captured, captured));
            records.resize(records.len() + captured, 0);
        }
        assert_eq!(records.len(), 62);
        for (len, whole) in [(0, 0), (20, 0), (21, 21), (36, 21), (37, 37), (61, 37), (62, 62)] {
            assert_eq!(whole_records_len(&records, len), whole);
        }
    }
}
