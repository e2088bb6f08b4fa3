//! Opening below a folder by path, with a check of where the open file lies: for systems without openat2, and for absolute
//! links into the folder.
//!
//! The check is made after the file was opened, and by the kernel's own account of where the open file lies
//! (`/proc/self/fd`): whoever exchanges a folder for a link meanwhile gains nothing. Without `/proc`, the path is
//! resolved again and has to lead to the file that was opened: one that is replaced in this moment is not found then.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::io::Errno;

use crate::files::confined_open::{is_absence, open_flags};
use crate::files::root::{FoundEntry, found_entry};

/// The text that Linux adds to the path of an open file that was removed, or replaced by a newer one.
const DELETED: &[u8] = b" (deleted)";

/// A folder by its canonical path, and the rule for symbolic links below it.
#[derive(Clone, Copy, Debug)]
pub(super) struct CheckedFolder<'a> {
    pub(super) path: &'a Path,
    pub(super) follow_links: bool,
}

impl CheckedFolder<'_> {
    /// Finds and opens what a relative path names. Nothing but files and folders is opened, unless it takes the place of
    /// one in this moment.
    pub(super) fn find(self, relative: &Path) -> io::Result<FoundEntry> {
        let path = self.absolute(relative);
        let metadata =
            if self.follow_links { fs::metadata(&path) } else { fs::symlink_metadata(&path) };
        let Some(metadata) = present(metadata)? else { return Ok(FoundEntry::Absent) };
        if metadata.is_dir() {
            let real = present(fs::canonicalize(&path))?;
            let is_within = real.is_some_and(|real| self.may_serve(&path, &real));
            return Ok(if is_within { FoundEntry::Folder } else { FoundEntry::Absent });
        }
        if !metadata.is_file() {
            return Ok(FoundEntry::Absent);
        }
        let opened = rustix::fs::open(&path, open_flags(), Mode::empty());
        let Some(file) = present(opened.map(File::from).map_err(io::Error::from))? else {
            return Ok(FoundEntry::Absent);
        };
        match found_entry(file)? {
            FoundEntry::File(opened) if self.contains(&path, &opened.file, &opened.metadata)? => {
                Ok(FoundEntry::File(opened))
            }
            _ => Ok(FoundEntry::Absent),
        }
    }

    /// Returns the absolute path, without a slash at its end.
    fn absolute(self, relative: &Path) -> PathBuf {
        if relative.as_os_str().is_empty() {
            self.path.to_path_buf()
        } else {
            self.path.join(relative)
        }
    }

    /// True if a file that was opened by this path lies within the root.
    fn contains(self, path: &Path, file: &File, metadata: &Metadata) -> io::Result<bool> {
        match fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())) {
            Ok(real) => Ok(self.may_serve(path, &real)),
            Err(_) => self.contains_again(path, metadata),
        }
    }

    /// True if the path leads, resolved again, to the file with this metadata, within the root.
    fn contains_again(self, path: &Path, metadata: &Metadata) -> io::Result<bool> {
        let Some(real) = present(fs::canonicalize(path))? else { return Ok(false) };
        let Some(now) = present(fs::symlink_metadata(&real))? else { return Ok(false) };
        let is_same = (now.dev(), now.ino()) == (metadata.dev(), metadata.ino());
        Ok(is_same && self.may_serve(path, &real))
    }

    /// True if what was found by `path` may be served when it really lies at `real`.
    fn may_serve(self, path: &Path, real: &Path) -> bool {
        if self.follow_links {
            return real.starts_with(self.path);
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
        Err(error) if Errno::from_io_error(&error).is_some_and(is_absence) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::files::root::RootFolder;

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

        fn root(&self) -> PathBuf {
            self.0.join("root")
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    /// Both ways to check where an open file lies.
    fn both(root: CheckedFolder<'_>, path: &Path, file: &File) -> [bool; 2] {
        let metadata = file.metadata().unwrap();
        let again = root.contains_again(path, &metadata).unwrap();
        [root.contains(path, file, &metadata).unwrap(), again]
    }

    #[test]
    fn h08_a_folder_exchanged_for_a_link_after_the_check_of_its_kind_is_noticed() {
        let place = Place::new();
        let path = place.0.join("root/folder/inside");
        for follow_links in [false, true] {
            let root = place.root();
            let root = CheckedFolder { path: &root, follow_links };
            assert_eq!(both(root, &path, &File::open(&path).unwrap()), [true; 2]);
            fs::rename(place.0.join("root/folder"), place.0.join("root/away")).unwrap();
            symlink("../root-beside", place.0.join("root/folder")).unwrap();
            let outside = File::open(&path).unwrap();
            assert_eq!(both(root, &path, &outside), [false; 2], "while the link is there");
            fs::remove_file(place.0.join("root/folder")).unwrap();
            fs::rename(place.0.join("root/away"), place.0.join("root/folder")).unwrap();
            assert_eq!(both(root, &path, &outside), [false; 2], "when all looks right again");
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
            let root = place.root();
            let root = CheckedFolder { path: &root, follow_links };
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
            let root = place.root();
            let root = CheckedFolder { path: &root, follow_links };
            assert!(!root.may_serve(&path, &beside));
            assert!(matches!(root.find(Path::new("link")).unwrap(), FoundEntry::Absent));
        }
    }

    #[test]
    fn h08_without_openat2_the_same_files_are_found() {
        let place = Place::new();
        let root = place.root();
        fs::write(root.join("folder/other"), "other").unwrap();
        symlink("folder", root.join("link")).unwrap();
        symlink(root.join("folder/other"), root.join("absolute")).unwrap();
        symlink("../root-beside", root.join("out")).unwrap();
        symlink("circle", root.join("circle")).unwrap();
        for (path, strict, followed) in [
            ("", "folder", "folder"),
            ("folder", "folder", "folder"),
            ("folder/inside", "file", "file"),
            ("folder/missing", "", ""),
            ("folder/inside/x", "", ""),
            ("link", "", "folder"),
            ("link/inside", "", "file"),
            ("absolute", "", "file"),
            ("out", "", ""),
            ("out/inside", "", ""),
            ("circle", "", ""),
            ("circle/x", "", ""),
        ] {
            for (follow_links, expected) in [(false, strict), (true, followed)] {
                let checked = CheckedFolder { path: &root, follow_links }.find(Path::new(path));
                let confined = RootFolder::open(&root, follow_links).unwrap().find(Path::new(path));
                for found in [checked.unwrap(), confined.unwrap()] {
                    let kind = match found {
                        FoundEntry::File(_) => "file",
                        FoundEntry::Folder => "folder",
                        FoundEntry::Absent => "",
                    };
                    assert_eq!(kind, expected, "{path:?}, followed: {follow_links}");
                }
            }
        }
    }

    #[test]
    fn h08_errors_other_than_absence_are_told() {
        let of = |errno: Errno| present::<()>(Err(io::Error::from(errno)));
        for errno in [Errno::NOENT, Errno::NOTDIR, Errno::ACCESS, Errno::NAMETOOLONG, Errno::LOOP] {
            assert_eq!(of(errno).unwrap(), None);
        }
        for errno in [Errno::MFILE, Errno::IO, Errno::NOMEM] {
            assert_eq!(of(errno).unwrap_err().raw_os_error(), Some(errno.raw_os_error()));
        }
        let place = Place::new();
        let long = "n/".repeat(5000);
        let root = RootFolder::open(&place.root(), false).unwrap();
        assert!(matches!(root.find(Path::new(&long)).unwrap(), FoundEntry::Absent));
    }
}
