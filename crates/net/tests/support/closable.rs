//! A descriptor that is closed behind the driver's back, as faulty code elsewhere in a process does it.

use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use rustix::io::fcntl_dupfd_cloexec;

/// The first number to use. Tests of the same process that open thousands of descriptors stay below it.
const FIRST: RawFd = 12_000;

/// Shows a descriptor that anybody may close. Its clones show the same.
#[derive(Clone)]
pub(crate) struct Closable(Arc<Inner>);

struct Inner {
    fd: BorrowedFd<'static>,
    closed: AtomicBool,
}

impl Closable {
    /// Shows a duplicate of this one, under a number that is never used again.
    #[allow(unsafe_code, reason = "safe code cannot close what somebody else uses")]
    pub(crate) fn new(of: impl AsFd) -> Self {
        static NEXT: AtomicI32 = AtomicI32::new(FIRST);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let fd = fcntl_dupfd_cloexec(of, number).unwrap().into_raw_fd();
        assert_eq!(fd, number, "nobody else uses it");
        // SAFETY: it is open, and not -1. It will be shown when it is closed as well, which is what
        // this is for; its number is nobody else's, so that nothing can be touched by mistake.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        Self(Arc::new(Inner { fd, closed: AtomicBool::new(false) }))
    }

    /// Closes it, whoever uses it.
    pub(crate) fn close(&self) {
        self.0.close();
    }
}

impl Inner {
    #[allow(unsafe_code, reason = "safe code cannot close what somebody else uses")]
    fn close(&self) {
        use std::os::fd::AsRawFd;
        if !self.closed.swap(true, Ordering::Relaxed) {
            // SAFETY: it was given up by its owner in `new`, and is closed once.
            unsafe { rustix::io::close(self.fd.as_raw_fd()) };
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

impl AsFd for Closable {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd
    }
}
