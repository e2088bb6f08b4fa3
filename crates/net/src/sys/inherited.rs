//! Descriptors that the process was started with, which nothing in it owns yet.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The right to own them. A process has one, whatever becomes of it: nothing is owned twice.
pub(crate) struct InheritanceClaim(());

/// Why a descriptor is not one that the process was started with.
pub(crate) enum UnclaimableDescriptor {
    /// Nothing is open under its number.
    Closed(io::Error),
    /// FD_CLOEXEC is set. It was not when the process was started, or the descriptor would not be here: somebody
    /// in this process has opened it, or has taken it.
    Opened,
}

impl InheritanceClaim {
    /// Returns the claim; `None` if it was made before, by whichever thread.
    pub(crate) fn make() -> Option<Self> {
        static MADE: AtomicBool = AtomicBool::new(false);
        (!MADE.swap(true, Ordering::Relaxed)).then_some(Self(()))
    }

    /// Takes these descriptors if `check` accepts each of them, with what it says of it: all or none. Those that
    /// are not taken stay as they are; those that are will be closed on exec.
    pub(crate) fn take<T, E>(
        self,
        descriptors: Range<RawFd>,
        mut check: impl FnMut(RawFd, Result<BorrowedFd<'_>, UnclaimableDescriptor>) -> Result<T, E>,
    ) -> Result<Vec<(T, OwnedFd)>, E> {
        let checked = descriptors.map(|fd| Ok((check(fd, look(fd))?, fd)));
        let checked: Vec<_> = checked.collect::<Result<_, E>>()?;
        Ok(checked.into_iter().map(|(said, fd)| (said, own(fd))).collect())
    }
}

/// Borrows a descriptor that came through exec.
fn look<'a>(fd: RawFd) -> Result<BorrowedFd<'a>, UnclaimableDescriptor> {
    // SAFETY: whatever the number is, this looks at it and touches nothing.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
    match flags {
        ..0 => Err(UnclaimableDescriptor::Closed(io::Error::last_os_error())),
        flags if flags & libc::FD_CLOEXEC != 0 => Err(UnclaimableDescriptor::Opened),
        // SAFETY: it is open. Whoever closes it meanwhile makes the kernel answer for a number that is
        // nobody's, or somebody else's: it is asked what it is, and nothing is done to it.
        _ => Ok(unsafe { BorrowedFd::borrow_raw(fd) }),
    }
}

fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: it is open and came through exec, which was looked at. The environment says that it was opened for
    // this process and is owned by nobody in it; and there is one claim in the life of a process.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: the descriptor is open and ours, and setting this flag is all that is done.
    let _ = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
    fd
}
