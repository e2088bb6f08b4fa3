//! A temporary file with known contents.

use std::fs::{self, File, OpenOptions};
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use waterwheel_channel::FileRegion;

/// A temporary file with known contents, for tests that send files. Dropping it removes the file.
///
/// ```
/// use waterwheel_testkit::temp_file::TempFile;
///
/// let file = TempFile::new(1000);
/// assert_eq!(file.region(10..30).read(100).unwrap(), &file.contents()[10..30]);
/// ```
#[derive(Debug)]
pub struct TempFile {
    path: PathBuf,
    text: Vec<u8>,
}

impl TempFile {
    /// Creates a file of `len` bytes whose contents repeat only every 251 bytes, so that blocks of a power of two
    /// differ.
    ///
    /// # Panics
    /// If the file cannot be written.
    #[must_use]
    pub fn new(len: usize) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("waterwheel-temp-file-{}-{number}", std::process::id());
        // 251 is a prime, so that no two chunks of a power of two look alike.
        let text = (0..len).map(|i| (i % 251) as u8).collect();
        let file = Self { path: std::env::temp_dir().join(name), text };
        fs::write(&file.path, &file.text).expect("the temporary file can be written");
        file
    }

    /// Returns the initial contents of the file.
    #[must_use]
    pub fn contents(&self) -> &[u8] {
        &self.text
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file and returns a region of it.
    ///
    /// # Panics
    /// If the file is shorter than the range.
    pub fn region(&self, range: impl RangeBounds<u64>) -> FileRegion {
        let file = File::open(&self.path).expect("the temporary file exists");
        FileRegion::new(file, range).expect("the range lies within the file")
    }

    /// Truncates the file to `len` bytes, or extends it with zeros.
    ///
    /// # Panics
    /// If the length cannot be set.
    pub fn set_len(&self, len: u64) {
        let file = OpenOptions::new().write(true).open(&self.path);
        file.and_then(|file| file.set_len(len)).expect("the length can be set");
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path); // The test may have removed the file.
    }
}
