//! Folders for the files of a test.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the folder of a test, which is empty.
pub(crate) fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gateway-program").join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}
