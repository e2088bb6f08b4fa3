//! Bodies with several parts of a file: `multipart/byteranges`.

use std::collections::VecDeque;
use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::task::{Context, Poll};

use bytes::Bytes;
use waterwheel_channel::FileRegion;
use waterwheel_executor::Error;

use crate::body::source::{BodyChunk, BodySource};
use crate::files::byte_range::ByteRange;

/// Parts of a file, with a head before each. The kernel sends the parts where the pipeline allows it.
pub(crate) struct MultipartFile {
    chunks: VecDeque<BodyChunk>,
}

impl BodySource for MultipartFile {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<BodyChunk, Error>>> {
        Poll::Ready(self.chunks.pop_front().map(Ok))
    }

    fn exact_len(&self) -> Option<u64> {
        Some(self.chunks.iter().map(BodyChunk::len).sum())
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
) -> (MultipartFile, String) {
    let boundary = random_boundary();
    let mut chunks = VecDeque::with_capacity(2 * ranges.len() + 1);
    let mut line_end = "";
    for range in ranges {
        let content_range = range.content_range(whole.len());
        let head = format!(
            "{line_end}--{boundary}\r\nContent-Type: {media_type}\r\n\
             Content-Range: {content_range}\r\n\r\n"
        );
        chunks.push_back(BodyChunk::Bytes(Bytes::from(head)));
        chunks.push_back(BodyChunk::File(cut(whole, *range)));
        line_end = "\r\n";
    }
    chunks.push_back(BodyChunk::Bytes(Bytes::from(format!("{line_end}--{boundary}--\r\n"))));
    (MultipartFile { chunks }, boundary)
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
    use std::task::Waker;

    use super::*;

    fn content(mut body: MultipartFile) -> Vec<u8> {
        let mut content = Vec::new();
        let cx = &mut Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(chunk)) = body.poll_chunk(cx) {
            match chunk.unwrap() {
                BodyChunk::Bytes(bytes) => content.extend_from_slice(&bytes),
                BodyChunk::File(region) => {
                    content.extend_from_slice(&region.read(usize::MAX).unwrap());
                }
            }
        }
        content
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
        assert_eq!(body.exact_len(), Some(expected.len() as u64));
        assert_eq!(String::from_utf8(content(body)).unwrap(), expected);
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
