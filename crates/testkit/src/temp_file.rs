//! A file for a test.

use std::fs::{self, File, OpenOptions};
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use waterwheel_channel::FileRegion;

/// A file with something in it, to be sent. Its last handle takes it with it.
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
    /// One of so many bytes, no two stretches of which are alike at the same place.
    ///
    /// # Panics
    /// If there is no place for it.
    #[must_use]
    pub fn new(len: usize) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("waterwheel-temp-file-{}-{number}", std::process::id());
        // A prime, so that no chunk of a power of two looks like another.
        let text = (0..len).map(|i| (i % 251) as u8).collect();
        let file = Self { path: std::env::temp_dir().join(name), text };
        fs::write(&file.path, &file.text).expect("a file for the test");
        file
    }

    /// What was in it at first.
    #[must_use]
    pub fn contents(&self) -> &[u8] {
        &self.text
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A part of it, of a file that was opened for it.
    ///
    /// # Panics
    /// If it is not that long.
    pub fn region(&self, range: impl RangeBounds<u64>) -> FileRegion {
        let file = File::open(&self.path).expect("it is there");
        FileRegion::new(file, range).expect("a part of it")
    }

    /// Leaves so much of it; or makes it so long, with zeros at its end.
    ///
    /// # Panics
    /// If that cannot be done.
    pub fn set_len(&self, len: u64) {
        let file = OpenOptions::new().write(true).open(&self.path);
        file.and_then(|file| file.set_len(len)).expect("it can be written");
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path); // Somebody else may have done it.
    }
}
