//! File regions: parts of a file that the kernel sends without reading them into memory (C07).

use std::fmt;
use std::fs::{File, Metadata};
use std::io;
use std::ops::{Bound, RangeBounds};
// Positioned reads (pread): the only way to read a shared file without moving its cursor.
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

/// A part of a file that is written to a stream, in order with other writes, without being read into
/// memory: the driver lets the kernel send it (`sendfile`), or copies it piece by piece if that is not
/// possible.
///
/// - The file is shared and its cursor is not moved: one open file may serve many channels.
/// - Until its last byte is sent, a region counts as [`PENDING_BYTES`](Self::PENDING_BYTES) for the
///   water marks, however long it is. It takes no memory, but keeps a file open; the marks limit how
///   many regions wait.
/// - The bytes sent are those in the file at the time of sending. If the file has become shorter, the
///   write fails and the channel is closed with an error that says where the file ended, because the
///   peer expects the missing bytes.
/// - A file that is not in the page cache is read from disk on the loop's thread.
///
/// ```
/// use std::fs::File;
/// use waterwheel_channel::{Ctx, FileRegion, Handler, HandlerResult};
///
/// /// Sends the licence to every client.
/// struct Licence;
///
/// impl Handler for Licence {
///     fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
///         ctx.write_and_flush(FileRegion::whole(File::open("LICENSE-MIT")?)?);
///         Ok(())
///     }
/// }
/// ```
#[derive(Clone)]
pub struct FileRegion {
    file: Arc<File>,
    offset: u64,
    len: u64,
}

impl FileRegion {
    /// The pending bytes that a region counts for until it is sent, unless it is empty: 8 KiB. With the
    /// default water marks the ninth waiting region makes a channel unwritable.
    pub const PENDING_BYTES: usize = 8 * 1024;

    /// Returns a region of a file: of a `File` or an `Arc<File>`.
    ///
    /// ```
    /// use std::fs::File;
    /// use std::sync::Arc;
    /// use waterwheel_channel::FileRegion;
    ///
    /// let file = Arc::new(File::open("Cargo.toml")?);
    /// let head = FileRegion::new(file.clone(), ..10)?;
    /// let rest = FileRegion::new(file.clone(), 10..)?;
    /// assert_eq!((head.len(), rest.offset()), (10, 10));
    /// assert!(FileRegion::new(file, ..1_000_000_000).is_err(), "the file is not that long");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// The file is not a regular file, cannot be read, or is shorter than the range; or the range ends
    /// before it begins.
    pub fn new(file: impl Into<Arc<File>>, range: impl RangeBounds<u64>) -> io::Result<Self> {
        let file = file.into();
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(not_regular(&file));
        }
        file.read_at(&mut [], 0).map_err(|error| {
            io::Error::new(error.kind(), format!("{file:?} cannot be read: {error}"))
        })?;
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => metadata.len().max(start),
        };
        if end < start {
            return Err(invalid_input(format!(
                "the region ends at {end}, before its start at {start}"
            )));
        }
        if end > metadata.len() {
            let len = metadata.len();
            return Err(invalid_input(format!(
                "{file:?} has {len} bytes: a region cannot end at {end}"
            )));
        }
        Ok(Self { file, offset: start, len: end - start })
    }

    /// Returns a region of the whole file, with its present length.
    ///
    /// # Errors
    /// The file is not a regular file, or cannot be read.
    pub fn whole(file: impl Into<Arc<File>>) -> io::Result<Self> {
        Self::new(file, ..)
    }

    /// Returns a region of the whole file for callers that have just opened it for reading and read its metadata: without
    /// a system call.
    ///
    /// # Errors
    /// The metadata is not that of a regular file.
    pub fn with_metadata(file: impl Into<Arc<File>>, metadata: &Metadata) -> io::Result<Self> {
        let file = file.into();
        if !metadata.is_file() {
            return Err(not_regular(&file));
        }
        Ok(Self { file, offset: 0, len: metadata.len() })
    }

    /// Returns the file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the offset in the file of the next byte to send.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns how many bytes remain to be sent.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if no bytes remain to be sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Splits the region in two: returns its first `len` bytes, and keeps the rest. Both share the file.
    ///
    /// # Panics
    /// If the region is shorter than that.
    #[must_use = "the first part is removed from the region"]
    pub fn split_to(&mut self, len: u64) -> FileRegion {
        assert!(len <= self.len, "a region of {} bytes has no first {len} bytes", self.len);
        let first = FileRegion { len, ..self.clone() };
        self.offset += len;
        self.len -= len;
        first
    }

    /// Copies up to `max_len` bytes from the front of the region: at least one, unless the region is empty or
    /// `max_len` is zero.
    ///
    /// # Errors
    /// The file cannot be read, or has become too short: see [`truncated_error`](Self::truncated_error).
    pub fn read(&self, max_len: usize) -> io::Result<Bytes> {
        let len = usize::try_from(self.len).unwrap_or(usize::MAX).min(max_len);
        let mut bytes = BytesMut::zeroed(len);
        loop {
            match self.file.read_at(&mut bytes, self.offset) {
                Ok(0) if len > 0 => return Err(self.truncated_error()),
                Ok(n) => {
                    bytes.truncate(n);
                    return Ok(bytes.freeze());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the error for a file that has become shorter than the region.
    #[must_use]
    pub fn truncated_error(&self) -> io::Error {
        let Self { file, offset, len } = self;
        let what = format!(
            "{file:?} was truncated: it ends at or before {offset}, {len} bytes of the region are missing"
        );
        io::Error::new(io::ErrorKind::UnexpectedEof, what)
    }

    /// Removes `n` bytes that were sent from the front of the region.
    ///
    /// # Panics
    /// If the region is shorter than `n` bytes.
    pub fn advance(&mut self, n: usize) {
        let n = n as u64;
        assert!(
            n <= self.len,
            "the driver reported {n} bytes sent, but {} are left in the region",
            self.len
        );
        self.offset += n;
        self.len -= n;
    }
}

impl fmt::Debug for FileRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, offset, len } = self;
        write!(f, "FileRegion({len} bytes from {offset} of {file:?})")
    }
}

fn not_regular(file: &File) -> io::Error {
    invalid_input(format!("only regular files can be sent: {file:?} is not one"))
}

fn invalid_input(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::ErrorKind;

    use super::*;
    use crate::Message;

    fn manifest() -> Arc<File> {
        Arc::new(File::open("Cargo.toml").unwrap())
    }

    #[test]
    fn c07_a_region_is_within_its_file() {
        let len = manifest().metadata().unwrap().len();
        let whole = FileRegion::whole(manifest()).unwrap();
        assert_eq!((whole.offset(), whole.len(), whole.is_empty()), (0, len, false));
        let part = FileRegion::new(manifest(), 3..=7).unwrap();
        assert_eq!((part.offset(), part.len()), (3, 5));
        let nothing = FileRegion::new(manifest(), len..).unwrap();
        assert_eq!((nothing.is_empty(), nothing.size_hint()), (true, 0));
        assert_eq!((whole.size_hint(), part.size_hint()), (8192, 8192));
        for wrong in [0..len + 1, len + 1..len + 1, 0..u64::MAX] {
            let error = FileRegion::new(manifest(), wrong.clone()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            let said = format!("has {len} bytes: a region cannot end at {}", wrong.end);
            assert!(error.to_string().contains(&said), "{error}");
        }
        let backwards = (Bound::Included(5), Bound::Excluded(2));
        let error = FileRegion::new(manifest(), backwards).unwrap_err();
        assert_eq!(error.to_string(), "the region ends at 2, before its start at 5");
        assert!(FileRegion::new(manifest(), len + 1..).is_err());
    }

    #[test]
    fn c07_only_readable_regular_files_have_regions() {
        let error = FileRegion::whole(File::open("src").unwrap()).unwrap_err();
        assert!(error.to_string().starts_with("only regular files can be sent"), "{error}");
        let folder = File::open("src").unwrap();
        let metadata = folder.metadata().unwrap();
        let error = FileRegion::with_metadata(folder, &metadata).unwrap_err();
        assert!(error.to_string().starts_with("only regular files can be sent"), "{error}");
        let metadata = manifest().metadata().unwrap();
        let region = FileRegion::with_metadata(manifest(), &metadata).unwrap();
        assert_eq!((region.offset(), region.len()), (0, metadata.len()));
        let path = std::env::temp_dir().join(format!("waterwheel-region-{}", std::process::id()));
        let unreadable = OpenOptions::new().write(true).create(true).truncate(true).open(&path);
        let error = FileRegion::whole(unreadable.unwrap()).unwrap_err();
        std::fs::remove_file(path).unwrap();
        assert!(error.to_string().contains("cannot be read"), "{error}");
    }

    #[test]
    fn c07_read_copies_from_the_current_offset() {
        let all = Bytes::from(std::fs::read("Cargo.toml").unwrap());
        let mut region = FileRegion::new(manifest(), 2..20).unwrap();
        assert_eq!(region.read(5).unwrap(), all.slice(2..7));
        region.advance(5);
        assert_eq!(region.read(1000).unwrap(), all.slice(7..20));
        region.advance(13);
        assert_eq!((region.is_empty(), region.read(1000).unwrap().len()), (true, 0));
    }

    #[test]
    fn c07_a_region_is_split_without_gap_or_overlap() {
        let mut region = FileRegion::new(manifest(), 2..20).unwrap();
        let first = region.split_to(5);
        assert_eq!((first.offset(), first.len()), (2, 5));
        assert_eq!((region.offset(), region.len()), (7, 13));
        assert_eq!((region.split_to(13).len(), region.is_empty()), (13, true));
    }

    #[test]
    #[should_panic(expected = "reported 6 bytes sent, but 5 are left in the region")]
    fn advancing_beyond_the_end_panics() {
        FileRegion::new(manifest(), ..5).unwrap().advance(6);
    }
}
