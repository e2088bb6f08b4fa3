//! Inherited descriptors: open since the start of the process, without an owner in it yet.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The right to own the inherited descriptors. The claim is issued once per process, so that no descriptor gets two
/// owners.
pub(crate) struct InheritanceClaim(());

/// The reason why a descriptor was not inherited.
pub(crate) enum UnclaimableDescriptor {
    /// No file is open under the number.
    Closed(io::Error),
    /// FD_CLOEXEC is set. A descriptor with that flag would not have survived execve(2): this process has
    /// opened or taken it.
    Opened,
}

impl InheritanceClaim {
    /// Returns the claim; `None` after the first call in the process, from any thread.
    pub(crate) fn make() -> Option<Self> {
        static MADE: AtomicBool = AtomicBool::new(false);
        (!MADE.swap(true, Ordering::Relaxed)).then_some(Self(()))
    }

    /// Takes ownership of these descriptors if `check` accepts each of them: all or none. Returns each with the
    /// value that `check` returned for it. Descriptors that are not taken stay unchanged; those that are taken
    /// get FD_CLOEXEC.
    pub(crate) fn take<T, E>(
        self,
        descriptors: Range<RawFd>,
        mut check: impl FnMut(RawFd, Result<BorrowedFd<'_>, UnclaimableDescriptor>) -> Result<T, E>,
    ) -> Result<Vec<(T, OwnedFd)>, E> {
        let checked = descriptors.map(|fd| Ok((check(fd, borrow_inherited(fd))?, fd)));
        let checked: Vec<_> = checked.collect::<Result<_, E>>()?;
        Ok(checked.into_iter().map(|(checked, fd)| (checked, own(fd))).collect())
    }
}

/// Borrows a descriptor that has survived execve(2).
fn borrow_inherited<'a>(fd: RawFd) -> Result<BorrowedFd<'a>, UnclaimableDescriptor> {
    // SAFETY: F_GETFD reads the flags of any number, open or not, and changes nothing.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
    match flags {
        ..0 => Err(UnclaimableDescriptor::Closed(io::Error::last_os_error())),
        flags if flags & libc::FD_CLOEXEC != 0 => Err(UnclaimableDescriptor::Opened),
        // SAFETY: the descriptor is open. If another thread closes it meanwhile, the kernel answers for a closed or a
        // reused number: the borrow is used for queries only, which change nothing.
        _ => Ok(unsafe { BorrowedFd::borrow_raw(fd) }),
    }
}

fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: the descriptor is open and has survived execve(2), which was checked. By the environment it was opened
    // for this process and has no owner in it, and there is one claim in the life of a process.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: the descriptor is open and owned here, and the call only sets this flag.
    let _ = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
    fd
}
