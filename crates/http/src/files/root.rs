//! The folder that files come from: finds what a path names, opens it, and sees to it that it lies within.
//!
//! On Linux the kernel does all of this in one call (openat2, since 5.6). Where it cannot, the path is followed as usual
//! and checked after the file was opened: see [`path_check`](super::path_check).

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::files::confined_open::{ConfinedFolder, ConfinedOpen};
use crate::files::path_check::CheckedFolder;

/// A regular file within the root, open for reading.
#[derive(Debug)]
pub(crate) struct OpenedFile {
    pub(crate) file: Arc<File>,
    /// Read after the file was opened.
    pub(crate) metadata: Metadata,
}

/// The entry that a path names.
#[derive(Debug)]
pub(crate) enum FoundEntry {
    File(OpenedFile),
    Folder,
    /// Nothing, nothing that may be read, or something that is neither a regular file nor a folder within the root.
    Absent,
}

/// A folder, and the rule for symbolic links below it.
#[derive(Debug)]
pub(crate) struct RootFolder {
    /// The canonical path.
    pub(crate) path: PathBuf,
    confined: ConfinedFolder,
    /// False if a path that contains a link names nothing. Links that lead out of the folder never do.
    follow_links: bool,
}

impl RootFolder {
    /// Opens a folder.
    pub(crate) fn open(path: &Path, follow_links: bool) -> io::Result<Self> {
        let path = fs::canonicalize(path)?;
        let confined = ConfinedFolder::open(&path)?;
        Ok(Self { path, confined, follow_links })
    }

    /// Finds and opens what a relative path names. Three system calls for a file, with the one that closes it.
    ///
    /// A FIFO or a device is opened as well, without waiting, found to be no file, and closed.
    ///
    /// # Errors
    /// The system has failed: no descriptor is left (EMFILE), or the disk does not answer (EIO). That nothing is there,
    /// or nothing that may be served, is no error.
    pub(crate) fn find(&self, relative: &Path) -> io::Result<FoundEntry> {
        match self.confined.open_below(relative, self.follow_links)? {
            ConfinedOpen::Opened(file) => found_entry(file),
            ConfinedOpen::UnreadableFolder => Ok(FoundEntry::Folder),
            ConfinedOpen::Absent => Ok(FoundEntry::Absent),
            ConfinedOpen::Unavailable => {
                CheckedFolder { path: &self.path, follow_links: self.follow_links }.find(relative)
            }
        }
    }
}

/// Returns what was opened.
pub(super) fn found_entry(file: File) -> io::Result<FoundEntry> {
    let metadata = file.metadata()?;
    Ok(match metadata.file_type() {
        kind if kind.is_file() => FoundEntry::File(OpenedFile { file: Arc::new(file), metadata }),
        kind if kind.is_dir() => FoundEntry::Folder,
        _ => FoundEntry::Absent,
    })
}
