//! Range requests (RFC 9110 section 14): which bytes of a file of known length a `Range` header selects.

use std::fmt;

use memchr::memchr;

/// A part of a file that is not empty: its first and its last byte, counted from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteRange {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl ByteRange {
    /// Returns the number of bytes.
    pub(crate) fn len(self) -> u64 {
        // The last byte is below the length of a file, so that adding one cannot overflow.
        self.last - self.first + 1
    }

    /// Returns the value of `Content-Range` for a file of `complete` bytes.
    pub(crate) fn content_range(self, complete: u64) -> impl fmt::Display {
        fmt::from_fn(move |f| write!(f, "bytes {}-{}/{complete}", self.first, self.last))
    }
}

/// The part of a file to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RangeSelection {
    /// The whole file: the header is to be ignored.
    Whole,
    /// One or more parts, in the order of the request, which do not overlap.
    Parts(Vec<ByteRange>),
    /// Nothing: every range begins behind the end of the file.
    Unsatisfiable,
}

/// Selects the bytes that a `Range` header asks for in a file of `len` bytes.
///
/// A header is ignored, as the RFC permits, if its syntax or its unit is unknown, if it has more than `max_ranges`
/// ranges, and if ranges overlap. Ranges behind the end are left out as long as there are others.
pub(crate) fn select_ranges(header: &[u8], len: u64, max_ranges: usize) -> RangeSelection {
    match parse_set(header, len, max_ranges) {
        None => RangeSelection::Whole,
        Some(Found { ranges, .. }) if has_overlap(&ranges) => RangeSelection::Whole,
        Some(Found { ranges, .. }) if !ranges.is_empty() => RangeSelection::Parts(ranges),
        // `bytes=-5` of an empty file is satisfiable by all of its bytes, for which there is no `Content-Range`.
        Some(Found { any_suffix: true, .. }) => RangeSelection::Whole,
        Some(Found { any_suffix: false, .. }) => RangeSelection::Unsatisfiable,
    }
}

/// The satisfiable ranges of a header.
struct Found {
    ranges: Vec<ByteRange>,
    /// True if one of them was the end of the file, of any length but zero.
    any_suffix: bool,
}

/// Returns `None` if the header is to be ignored.
fn parse_set(header: &[u8], len: u64, max_ranges: usize) -> Option<Found> {
    let (unit, set) = header.split_at(memchr(b'=', header)?);
    if !unit.eq_ignore_ascii_case(b"bytes") {
        return None;
    }
    let mut found = Found { ranges: Vec::new(), any_suffix: false };
    let mut count = 0;
    for spec in set[1..].split(|byte| *byte == b',').map(trim_white_space) {
        if spec.is_empty() {
            continue; // Recipients of a list take empty elements.
        }
        count += 1;
        if count > max_ranges {
            return None;
        }
        let (first, last) = spec.split_at(memchr(b'-', spec)?);
        let last = &last[1..];
        if first.is_empty() {
            let suffix = parse_number(last)?;
            found.any_suffix |= suffix > 0;
            if suffix > 0 && len > 0 {
                found.ranges.push(ByteRange { first: len.saturating_sub(suffix), last: len - 1 });
            }
            continue;
        }
        let first = parse_number(first)?;
        let last = if last.is_empty() { u64::MAX } else { parse_number(last)? };
        if last < first {
            return None;
        }
        if first < len {
            found.ranges.push(ByteRange { first, last: last.min(len - 1) });
        }
    }
    (count > 0).then_some(found)
}

/// Parses digits. A number above `u64::MAX` becomes `u64::MAX`, which is behind the end of every file as well.
fn parse_number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        Some(number.saturating_mul(10).saturating_add(digit))
    })
}

fn trim_white_space(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

fn has_overlap(ranges: &[ByteRange]) -> bool {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable_by_key(|range| range.first);
    sorted.windows(2).any(|pair| pair[1].first <= pair[0].last)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// The outcome in short: "whole", "none", or the ranges.
    fn selected(header: &str, len: u64) -> String {
        match select_ranges(header.as_bytes(), len, 3) {
            RangeSelection::Whole => String::from("whole"),
            RangeSelection::Unsatisfiable => String::from("none"),
            RangeSelection::Parts(ranges) => {
                let ranges = ranges.iter().map(|range| format!("{}-{}", range.first, range.last));
                ranges.collect::<Vec<_>>().join(" ")
            }
        }
    }

    #[test]
    fn h08_ranges_select_bytes() {
        let rows = [
            ("bytes=0-0", "0-0"),
            ("bytes=0-9", "0-9"),
            ("bytes=2-5", "2-5"),
            ("bytes=2-", "2-9"),
            ("bytes=9-", "9-9"),
            ("bytes=-1", "9-9"),
            ("bytes=-10", "0-9"),
            ("bytes=-11", "0-9"),
            ("bytes=5-100", "5-9"),
            ("bytes=0-99999999999999999999999", "0-9"),
            ("bytes=-99999999999999999999999", "0-9"),
            ("BYTES=1-2", "1-2"),
            ("bytes=001-002", "1-2"),
            ("bytes=0-1,4-5,9-", "0-1 4-5 9-9"),
            ("bytes=0-1,2-3", "0-1 2-3"),
            ("bytes=8-9,0-1", "8-9 0-1"),
            ("bytes= 0-1 ,\t4-5", "0-1 4-5"),
            ("bytes=,0-1,,", "0-1"),
            ("bytes=0-1,20-30", "0-1"),
        ];
        for (header, expected) in rows {
            assert_eq!(selected(header, 10), expected, "{header}");
        }
    }

    #[test]
    fn h08_ranges_behind_the_end_are_unsatisfiable() {
        for header in
            ["bytes=10-", "bytes=10-20", "bytes=-0", "bytes=10-,-0", "bytes=99999999999999999999-"]
        {
            assert_eq!(selected(header, 10), "none", "{header}");
        }
        assert_eq!(selected("bytes=0-", 0), "none");
        assert_eq!(selected("bytes=-0", 0), "none");
        assert_eq!(selected("bytes=-1", 0), "whole", "no range can be named in an empty file");
    }

    #[test]
    fn h08_malformed_ranges_are_ignored() {
        let rows = [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=a-b",
            "bytes=1",
            "bytes=2-1",
            "bytes=+1-2",
            "bytes=1-2-3",
            "bytes=--1",
            "bytes=1 -2",
            "bytes =1-2",
            "bytes=0x1-2",
            "bytes=1-2;3-4",
            "lines=1-2",
            "bytes=1-2,x",
            "bytes=\u{661}-",
        ];
        for header in rows {
            assert_eq!(selected(header, 10), "whole", "{header}");
        }
    }

    #[test]
    fn h08_too_many_or_overlapping_ranges_are_ignored() {
        for header in [
            "bytes=0-0,2-2,4-4,6-6",
            "bytes=0-0,20-,30-,40-",
            "bytes=0-4,4-5",
            "bytes=0-,0-",
            "bytes=5-6,-9",
            "bytes=0-9,2-3",
        ] {
            assert_eq!(selected(header, 10), "whole", "{header}");
        }
        assert_eq!(select_ranges(b"bytes=0-", 10, 0), RangeSelection::Whole);
    }

    /// Models a selection: for each range the set of its bytes, tried one by one.
    fn model(specs: &[(Option<u64>, Option<u64>)], len: u64, max: usize) -> RangeSelection {
        let mut sets: Vec<Vec<u64>> = Vec::new();
        let mut suffix = false;
        for &(first, last) in specs {
            sets.push(match (first, last) {
                (None, None) => return RangeSelection::Whole,
                (Some(first), Some(last)) if last < first => return RangeSelection::Whole,
                (Some(first), Some(last)) => {
                    (0..len).filter(|at| (first..=last).contains(at)).collect()
                }
                (Some(first), None) => (0..len).filter(|at| *at >= first).collect(),
                (None, Some(count)) => {
                    suffix |= count > 0;
                    (0..len).filter(|at| len - at <= count).collect()
                }
            });
        }
        sets.retain(|set| !set.is_empty());
        let total: usize = sets.iter().map(Vec::len).sum();
        let mut all: Vec<u64> = sets.concat();
        all.sort_unstable();
        all.dedup();
        if specs.len() > max || all.len() < total || (sets.is_empty() && suffix) {
            return RangeSelection::Whole;
        }
        if sets.is_empty() {
            return RangeSelection::Unsatisfiable;
        }
        let range = |set: &Vec<u64>| ByteRange { first: set[0], last: set[set.len() - 1] };
        RangeSelection::Parts(sets.iter().map(range).collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2048, ..ProptestConfig::default() })]

        #[test]
        fn h08_range_arithmetic_equals_a_naive_model(
            len in 0..30_u64,
            specs in vec((proptest::option::of(0..40_u64), proptest::option::of(0..40_u64)), 1..6),
        ) {
            let number = |number: Option<u64>| number.map_or(String::new(), |n| n.to_string());
            let text = |(first, last): &(Option<u64>, Option<u64>)| {
                format!("{}-{}", number(*first), number(*last))
            };
            let header = format!("bytes={}", specs.iter().map(text).collect::<Vec<_>>().join(","));
            let selection = select_ranges(header.as_bytes(), len, 4);
            prop_assert_eq!(&selection, &model(&specs, len, 4), "{} of {}", header, len);
            if let RangeSelection::Parts(ranges) = selection {
                prop_assert!(ranges.iter().map(|range| range.len()).sum::<u64>() <= len);
            }
        }

        #[test]
        fn h08_any_range_header_selects_bytes_of_the_file(header in any::<Vec<u8>>(), len: u64) {
            if let RangeSelection::Parts(ranges) = select_ranges(&header, len, 8) {
                prop_assert!(ranges.iter().all(|range| range.first <= range.last && range.last < len));
            }
        }
    }
}
