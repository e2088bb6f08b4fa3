//! Bodies of answers that serve files.

use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};

use bytes::Bytes;
use waterwheel_channel::FileRegion;

use crate::files::byte_range::ByteRange;

/// The body of an answer of [`Files`](crate::Files). Its [length](Self::len) is known.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FileBody {
    /// No body: of an answer to HEAD, of 304, and of an empty file.
    Empty,
    /// A short text: of a redirect or an error.
    Text(Bytes),
    /// A file, or a part of one.
    Region(FileRegion),
    /// Parts of a file, with a head before each: `multipart/byteranges`.
    Parts(Vec<FilePart>),
}

/// A piece of a [`FileBody`].
#[derive(Clone, Debug)]
pub enum FilePart {
    /// The head of a part, or the line after the last one.
    Bytes(Bytes),
    /// A part of a file.
    Region(FileRegion),
}

impl FileBody {
    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Text(bytes) => bytes.len() as u64,
            Self::Region(region) => region.len(),
            Self::Parts(parts) => parts.iter().map(FilePart::len).sum(),
        }
    }

    /// True if there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl FilePart {
    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Region(region) => region.len(),
        }
    }

    /// True if there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Returns one part of a file. The range lies within it.
pub(crate) fn cut(whole: &FileRegion, range: ByteRange) -> FileRegion {
    let mut rest = whole.clone();
    drop(rest.split_to(range.first));
    rest.split_to(range.len())
}

/// Returns a body with several parts of a file (RFC 9110 section 14.6), and the boundary between them.
pub(crate) fn multipart(
    whole: &FileRegion,
    ranges: &[ByteRange],
    media_type: &str,
) -> (FileBody, String) {
    let boundary = random_boundary();
    let mut parts = Vec::with_capacity(2 * ranges.len() + 1);
    let mut line_end = "";
    for range in ranges {
        let content_range = range.content_range(whole.len());
        let head = format!(
            "{line_end}--{boundary}\r\nContent-Type: {media_type}\r\n\
             Content-Range: {content_range}\r\n\r\n"
        );
        parts.push(FilePart::Bytes(Bytes::from(head)));
        parts.push(FilePart::Region(cut(whole, *range)));
        line_end = "\r\n";
    }
    parts.push(FilePart::Bytes(Bytes::from(format!("{line_end}--{boundary}--\r\n"))));
    (FileBody::Parts(parts), boundary)
}

/// Returns a text that is in no file: 128 bits that the authors of files cannot foresee, from the random keys that the
/// hash maps of the standard library get.
fn random_boundary() -> String {
    let mut boundary = String::with_capacity(32);
    for _ in 0..2 {
        let bits = RandomState::new().hash_one(boundary.as_bytes());
        // Writing to a string cannot fail.
        let _ = write!(boundary, "{bits:016x}");
    }
    boundary
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn content(body: &FileBody) -> Vec<u8> {
        let FileBody::Parts(parts) = body else { panic!("{body:?}") };
        let bytes = parts.iter().map(|part| match part {
            FilePart::Bytes(bytes) => bytes.clone(),
            FilePart::Region(region) => region.read(usize::MAX).unwrap(),
        });
        bytes.flatten().collect()
    }

    #[test]
    fn h08_several_parts_are_divided_by_a_boundary() {
        let all = std::fs::read_to_string("Cargo.toml").unwrap();
        let whole = FileRegion::whole(File::open("Cargo.toml").unwrap()).unwrap();
        let ranges = [ByteRange { first: 3, last: 5 }, ByteRange { first: 0, last: 0 }];
        let (body, boundary) = multipart(&whole, &ranges, "text/x-toml");
        let (one, two, len) = (&all[3..=5], &all[..=0], all.len());
        let expected = format!(
            "--{boundary}\r\nContent-Type: text/x-toml\r\nContent-Range: bytes 3-5/{len}\r\n\r\n{one}\r\n\
             --{boundary}\r\nContent-Type: text/x-toml\r\nContent-Range: bytes 0-0/{len}\r\n\r\n{two}\r\n\
             --{boundary}--\r\n"
        );
        assert_eq!(String::from_utf8(content(&body)).unwrap(), expected);
        assert_eq!((body.len(), body.is_empty()), (expected.len() as u64, false));
    }

    #[test]
    fn h08_boundaries_differ() {
        let (one, other) = (random_boundary(), random_boundary());
        assert_eq!((one.len(), other.len()), (32, 32));
        assert!(one.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_ne!(one, other);
        assert_ne!(one[..16], one[16..]);
    }
}
