//! The folder that files come from: finds what a path names, opens it, and checks that it lies within.
//!
//! A path is checked after the file was opened, and by the kernel's own account of where the open file lies
//! (`/proc/self/fd`): whoever exchanges a folder for a link meanwhile gains nothing. Without `/proc`, the path is
//! resolved again and has to lead to the file that was opened: one that is replaced in this moment is not found then.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The text that Linux adds to the path of an open file that was removed, or replaced by a newer one.
const DELETED: &[u8] = b" (deleted)";

/// A regular file within the root, open for reading.
#[derive(Debug)]
pub(crate) struct OpenedFile {
    pub(crate) file: Arc<File>,
    /// Read after the file was opened.
    pub(crate) metadata: Metadata,
}

/// The kind of what a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File,
    Folder,
    /// Nothing, or something that is neither a regular file nor a folder within the root.
    Absent,
}

/// A folder by its canonical path, and the rule for symbolic links below it.
#[derive(Clone, Debug)]
pub(crate) struct RootFolder {
    pub(crate) path: PathBuf,
    /// False if a path that contains a link names nothing. Links that lead out of the folder never do.
    pub(crate) follow_links: bool,
}

impl RootFolder {
    /// Returns the kind of what a relative path names. Nothing is opened: opening a FIFO or a device can block, or do
    /// something.
    pub(crate) fn kind_of(&self, relative: &Path) -> io::Result<EntryKind> {
        let path = self.absolute(relative);
        let metadata =
            if self.follow_links { fs::metadata(&path) } else { fs::symlink_metadata(&path) };
        let Some(metadata) = present(metadata)? else { return Ok(EntryKind::Absent) };
        if metadata.is_file() {
            return Ok(EntryKind::File); // `open` checks where it lies.
        }
        let is_within = |real: PathBuf| self.may_serve(&path, &real);
        if metadata.is_dir() && present(fs::canonicalize(&path))?.is_some_and(is_within) {
            return Ok(EntryKind::Folder);
        }
        Ok(EntryKind::Absent)
    }

    /// Opens a regular file; `None` if there is none within the root that may be read.
    ///
    /// A FIFO that takes the place of the file just before it is opened would block until somebody writes to it. That
    /// takes the right to write to the folder.
    pub(crate) fn open(&self, relative: &Path) -> io::Result<Option<OpenedFile>> {
        if self.kind_of(relative)? != EntryKind::File {
            return Ok(None);
        }
        let path = self.absolute(relative);
        let Some(file) = present(File::open(&path))? else { return Ok(None) };
        let metadata = file.metadata()?;
        if !metadata.is_file() || !self.contains(&path, &file, &metadata)? {
            return Ok(None);
        }
        Ok(Some(OpenedFile { file: Arc::new(file), metadata }))
    }

    /// Returns the absolute path, without a slash at its end.
    fn absolute(&self, relative: &Path) -> PathBuf {
        if relative.as_os_str().is_empty() { self.path.clone() } else { self.path.join(relative) }
    }

    /// True if a file that was opened by this path lies within the root.
    fn contains(&self, path: &Path, file: &File, metadata: &Metadata) -> io::Result<bool> {
        match fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())) {
            Ok(real) => Ok(self.may_serve(path, &real)),
            Err(_) => self.contains_again(path, metadata),
        }
    }

    /// True if the path leads, resolved again, to the file with this metadata, within the root.
    fn contains_again(&self, path: &Path, metadata: &Metadata) -> io::Result<bool> {
        let Some(real) = present(fs::canonicalize(path))? else { return Ok(false) };
        let Some(now) = present(fs::symlink_metadata(&real))? else { return Ok(false) };
        let is_same = (now.dev(), now.ino()) == (metadata.dev(), metadata.ino());
        Ok(is_same && self.may_serve(path, &real))
    }

    /// True if what was found by `path` may be served when it really lies at `real`.
    fn may_serve(&self, path: &Path, real: &Path) -> bool {
        if self.follow_links {
            return real.starts_with(&self.path);
        }
        // A file that is replaced while it is opened is served as it was. Its new path has the same folder, also if
        // that text is part of its name.
        let undeleted = real.as_os_str().as_bytes().strip_suffix(DELETED);
        real == path || undeleted.is_some_and(|real| Path::new(OsStr::from_bytes(real)) == path)
    }
}

/// Turns the errors of a path that names nothing, or nothing that may be read, into `None`.
fn present<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) => match error.kind() {
            ErrorKind::NotFound
            | ErrorKind::NotADirectory
            | ErrorKind::PermissionDenied
            | ErrorKind::InvalidFilename => Ok(None),
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A folder with a root and something beside it, removed at the end.
    struct Place(PathBuf);

    impl Place {
        fn new() -> Self {
            static COUNT: AtomicUsize = AtomicUsize::new(0);
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("waterwheel-root-{}-{number}", std::process::id());
            let place = std::env::temp_dir().canonicalize().unwrap().join(name);
            fs::create_dir_all(place.join("root/folder")).unwrap();
            fs::create_dir(place.join("root-beside")).unwrap();
            fs::write(place.join("root/folder/inside"), "inside").unwrap();
            fs::write(place.join("root-beside/inside"), "outside").unwrap();
            Self(place)
        }

        fn root(&self, follow_links: bool) -> RootFolder {
            RootFolder { path: self.0.join("root"), follow_links }
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    /// Both ways to check where an open file lies.
    fn both(root: &RootFolder, path: &Path, file: &File) -> [bool; 2] {
        let metadata = file.metadata().unwrap();
        let again = root.contains_again(path, &metadata).unwrap();
        [root.contains(path, file, &metadata).unwrap(), again]
    }

    #[test]
    fn h08_a_folder_exchanged_for_a_link_after_the_check_of_its_kind_is_noticed() {
        let place = Place::new();
        let path = place.0.join("root/folder/inside");
        for follow_links in [false, true] {
            let root = place.root(follow_links);
            assert_eq!(both(&root, &path, &File::open(&path).unwrap()), [true; 2]);
            fs::rename(place.0.join("root/folder"), place.0.join("root/away")).unwrap();
            symlink("../root-beside", place.0.join("root/folder")).unwrap();
            let outside = File::open(&path).unwrap();
            assert_eq!(both(&root, &path, &outside), [false; 2], "while the link is there");
            fs::remove_file(place.0.join("root/folder")).unwrap();
            fs::rename(place.0.join("root/away"), place.0.join("root/folder")).unwrap();
            assert_eq!(both(&root, &path, &outside), [false; 2], "when all looks right again");
        }
    }

    #[test]
    fn h08_a_file_replaced_while_it_is_opened_is_served_as_it_was() {
        let place = Place::new();
        let path = place.0.join("root/folder/inside");
        let file = File::open(&path).unwrap();
        fs::write(place.0.join("root/new"), "new").unwrap();
        fs::rename(place.0.join("root/new"), &path).unwrap();
        for follow_links in [false, true] {
            let root = place.root(follow_links);
            assert!(root.contains(&path, &file, &file.metadata().unwrap()).unwrap());
        }
    }

    #[test]
    fn h08_a_folder_that_begins_with_the_name_of_the_root_is_not_in_it() {
        let place = Place::new();
        let beside = place.0.join("root-beside/inside");
        symlink("../root-beside/inside", place.0.join("root/link")).unwrap();
        let path = place.0.join("root/link");
        for follow_links in [false, true] {
            let root = place.root(follow_links);
            assert!(!root.may_serve(&path, &beside));
            assert!(root.open(Path::new("link")).unwrap().is_none());
        }
    }

    #[test]
    fn h08_errors_other_than_absence_are_told() {
        let error = |kind: ErrorKind| present::<()>(Err(io::Error::from(kind)));
        for kind in [
            ErrorKind::NotFound,
            ErrorKind::NotADirectory,
            ErrorKind::PermissionDenied,
            ErrorKind::InvalidFilename,
        ] {
            assert_eq!(error(kind).unwrap(), None);
        }
        assert_eq!(error(ErrorKind::Other).unwrap_err().kind(), ErrorKind::Other);
        let long = "n/".repeat(5000);
        let place = Place::new();
        assert_eq!(place.root(false).kind_of(Path::new(&long)).unwrap(), EntryKind::Absent);
    }
}
