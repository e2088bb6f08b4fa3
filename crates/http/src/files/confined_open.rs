//! Opening below a folder without a way out of it, by the kernel: openat2 with RESOLVE_BENEATH.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

/// How often an open is tried again that a signal, or a rename of a folder meanwhile, has interrupted (EINTR, EAGAIN).
/// Each try meets another one only by chance; after all of them the path is checked in the other way.
#[cfg(target_os = "linux")]
const MAX_TRIES: u32 = 16;

/// A folder that is open to find files in.
#[derive(Debug)]
pub(super) struct ConfinedFolder {
    folder: File,
}

/// The outcome of an attempt to open something below a folder.
#[derive(Debug)]
pub(super) enum ConfinedOpen {
    /// A file, a folder, or something else that can be opened.
    Opened(File),
    /// A folder that may be entered and not listed.
    UnreadableFolder,
    /// Nothing that may be served.
    Absent,
    /// The kernel cannot tell.
    Unavailable,
}

/// Flags of an open that neither waits for the writer of a FIFO, nor makes a terminal the process's own.
pub(super) fn open_flags() -> OFlags {
    OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC
}

/// True for the errors of a path that names nothing, or nothing that may be served: links that lead nowhere, in a circle
/// or out of the folder (ELOOP, EXDEV), a socket (ENXIO), a device without a driver (ENODEV).
pub(super) fn is_absence(error: Errno) -> bool {
    let absent = [Errno::NOENT, Errno::NOTDIR, Errno::NAMETOOLONG, Errno::LOOP, Errno::XDEV];
    let refused = [Errno::ACCESS, Errno::PERM, Errno::NXIO, Errno::NODEV];
    absent.contains(&error) || refused.contains(&error)
}

impl ConfinedFolder {
    /// Opens the folder. The right to list it is not needed.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        let access = OFlags::PATH;
        #[cfg(not(target_os = "linux"))]
        let access = OFlags::RDONLY;
        let flags = access | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { folder: File::from(open(path, flags, Mode::empty())?) })
    }

    /// Opens what a relative path names; the empty path names the folder itself.
    #[cfg(target_os = "linux")]
    pub(super) fn open_below(
        &self,
        relative: &Path,
        follow_links: bool,
    ) -> io::Result<ConfinedOpen> {
        let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
        let resolve = resolve_flags(follow_links);
        for _ in 0..MAX_TRIES {
            let opened = self.openat2(relative, open_flags(), resolve);
            return match opened {
                Ok(file) => Ok(ConfinedOpen::Opened(file)),
                Err(Errno::INTR | Errno::AGAIN) => continue,
                // Not in this kernel, or forbidden to the process by a seccomp filter.
                Err(Errno::NOSYS | Errno::PERM) => Ok(ConfinedOpen::Unavailable),
                // Also of absolute links, which may lead back into the folder.
                Err(Errno::XDEV) if follow_links => Ok(ConfinedOpen::Unavailable),
                Err(Errno::ACCESS) => {
                    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                    let is_folder = self.openat2(relative, flags, resolve).is_ok();
                    Ok(if is_folder {
                        ConfinedOpen::UnreadableFolder
                    } else {
                        ConfinedOpen::Absent
                    })
                }
                Err(error) if is_absence(error) => Ok(ConfinedOpen::Absent),
                Err(error) => Err(error.into()),
            };
        }
        Ok(ConfinedOpen::Unavailable)
    }

    #[cfg(target_os = "linux")]
    fn openat2(
        &self,
        relative: &Path,
        flags: OFlags,
        resolve: rustix::fs::ResolveFlags,
    ) -> Result<File, Errno> {
        rustix::fs::openat2(&self.folder, relative, flags, Mode::empty(), resolve).map(File::from)
    }

    /// Other systems have no such call.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn open_below(&self, _: &Path, _: bool) -> io::Result<ConfinedOpen> {
        Ok(ConfinedOpen::Unavailable)
    }
}

#[cfg(target_os = "linux")]
fn resolve_flags(follow_links: bool) -> rustix::fs::ResolveFlags {
    use rustix::fs::ResolveFlags;

    let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if follow_links { within } else { within | ResolveFlags::NO_SYMLINKS }
}
