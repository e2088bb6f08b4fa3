//! A part of a file, to be sent as it is (C07).

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::{Bound, RangeBounds};
// The one way to read a shared file without moving a cursor that others may use.
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

/// A part of a file, written to a stream like bytes and among them, but not read into memory: the
/// driver has the kernel send it, or copies it piece by piece if it cannot.
///
/// - The file is shared, and nobody's cursor in it is moved: one open file may serve many channels.
/// - It weighs [`PENDING_BYTES`](Self::PENDING_BYTES) for the water marks, however long it is, until its last byte is
///   sent. It holds no memory; but it holds a file open, and the marks bound how many wait.
/// - Its bytes are those of the file at the time they are sent. If there are fewer by then, the write fails
///   and the channel is closed with an error that says where the file ended: what was promised to the
///   peer cannot be kept.
/// - A file that is not in the kernel's cache is read from its disk on the loop's thread.
///
/// ```
/// use std::fs::File;
/// use waterwheel_channel::{Ctx, FileRegion, Handler, HandlerResult};
///
/// /// Sends the licence to whoever connects.
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
    /// What a region weighs while it waits, if it is not empty: 8 KiB. The ninth makes a channel
    /// unwritable at the default marks.
    pub const PENDING_BYTES: usize = 8 * 1024;

    /// These bytes of a file, a `File` or an `Arc<File>`.
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
    /// assert!(FileRegion::new(file, ..1_000_000_000).is_err(), "it is not that long");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// The file is not a regular one, cannot be read, or is shorter than that; the range ends before it
    /// begins.
    pub fn new(file: impl Into<Arc<File>>, range: impl RangeBounds<u64>) -> io::Result<Self> {
        let file = file.into();
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(invalid(format!("only regular files can be sent: {file:?} is none")));
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
            return Err(invalid(format!("a region cannot end at {end} and begin at {start}")));
        }
        if end > metadata.len() {
            let len = metadata.len();
            return Err(invalid(format!("{file:?} has {len} bytes: no region ends at {end}")));
        }
        Ok(Self { file, offset: start, len: end - start })
    }

    /// All that is in a file now.
    ///
    /// # Errors
    /// The file is not a regular one, or cannot be read.
    pub fn whole(file: impl Into<Arc<File>>) -> io::Result<Self> {
        Self::new(file, ..)
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where it begins, or goes on if a part of it was sent.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// How many bytes are to be sent.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies bytes from its front: one at least, if it is not empty, and at most so many.
    ///
    /// # Errors
    /// The file cannot be read, or has become too short: [`truncated_error`](Self::truncated_error).
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

    /// The error of one who finds that the file ends where there should be more.
    #[must_use]
    pub fn truncated_error(&self) -> io::Error {
        let Self { file, offset, len } = self;
        let what = format!("{file:?} was cut: it ends before {offset}, {len} bytes are missing");
        io::Error::new(io::ErrorKind::UnexpectedEof, what)
    }

    /// So many bytes were sent, from its front.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn advance(&mut self, n: usize) {
        let n = n as u64;
        assert!(n <= self.len, "{n} bytes sent of {}", self.len);
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

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::ErrorKind;

    use super::*;
    use crate::Message;

    fn this() -> Arc<File> {
        Arc::new(File::open("Cargo.toml").unwrap())
    }

    #[test]
    fn c07_a_region_is_within_its_file() {
        let len = this().metadata().unwrap().len();
        let whole = FileRegion::whole(this()).unwrap();
        assert_eq!((whole.offset(), whole.len(), whole.is_empty()), (0, len, false));
        let part = FileRegion::new(this(), 3..=7).unwrap();
        assert_eq!((part.offset(), part.len()), (3, 5));
        let nothing = FileRegion::new(this(), len..).unwrap();
        assert_eq!((nothing.is_empty(), nothing.size_hint()), (true, 0));
        assert_eq!((whole.size_hint(), part.size_hint()), (8192, 8192));
        for wrong in [0..len + 1, len + 1..len + 1, 0..u64::MAX] {
            let error = FileRegion::new(this(), wrong.clone()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            let said = format!("has {len} bytes: no region ends at {}", wrong.end);
            assert!(error.to_string().contains(&said), "{error}");
        }
        let backwards = (Bound::Included(5), Bound::Excluded(2));
        let error = FileRegion::new(this(), backwards).unwrap_err();
        assert_eq!(error.to_string(), "a region cannot end at 2 and begin at 5");
        assert!(FileRegion::new(this(), len + 1..).is_err());
    }

    #[test]
    fn c07_only_a_regular_file_that_can_be_read_has_regions() {
        let error = FileRegion::whole(File::open("src").unwrap()).unwrap_err();
        assert!(error.to_string().starts_with("only regular files can be sent"), "{error}");
        let path = std::env::temp_dir().join(format!("waterwheel-region-{}", std::process::id()));
        let unreadable = OpenOptions::new().write(true).create(true).truncate(true).open(&path);
        let error = FileRegion::whole(unreadable.unwrap()).unwrap_err();
        std::fs::remove_file(path).unwrap();
        assert!(error.to_string().contains("cannot be read"), "{error}");
    }

    #[test]
    fn c07_a_region_is_copied_from_where_it_has_come_to() {
        let all = Bytes::from(std::fs::read("Cargo.toml").unwrap());
        let mut region = FileRegion::new(this(), 2..20).unwrap();
        assert_eq!(region.read(5).unwrap(), all.slice(2..7));
        region.advance(5);
        assert_eq!(region.read(1000).unwrap(), all.slice(7..20));
        region.advance(13);
        assert_eq!((region.is_empty(), region.read(1000).unwrap().len()), (true, 0));
    }

    #[test]
    #[should_panic(expected = "6 bytes sent of 5")]
    fn more_than_there_is_cannot_have_been_sent() {
        FileRegion::new(this(), ..5).unwrap().advance(6);
    }
}
