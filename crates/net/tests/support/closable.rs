//! A descriptor that is closed behind the driver's back, as faulty code elsewhere in a process might do.

use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use rustix::io::fcntl_dupfd_cloexec;

/// The first number to use. Tests of the same process that open thousands of descriptors stay below it.
const FIRST: RawFd = 12_000;

/// A source whose descriptor can be closed while it is registered. Clones share the descriptor.
#[derive(Clone)]
pub(crate) struct Closable(Arc<Inner>);

struct Inner {
    fd: BorrowedFd<'static>,
    closed: AtomicBool,
}

impl Closable {
    /// Duplicates a descriptor under a number that is never reused.
    #[allow(unsafe_code, reason = "safe code cannot close a descriptor that another owner uses")]
    pub(crate) fn new(of: impl AsFd) -> Self {
        static NEXT: AtomicI32 = AtomicI32::new(FIRST);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let fd = fcntl_dupfd_cloexec(of, number).unwrap().into_raw_fd();
        assert_eq!(fd, number, "the number is free");
        // SAFETY: the descriptor is open and not -1. The borrow is used after the close as well, which is the purpose
        // of this type; the number is never reused, so no other file can be touched by mistake.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        Self(Arc::new(Inner { fd, closed: AtomicBool::new(false) }))
    }

    /// Closes the descriptor, even while it is registered.
    pub(crate) fn close(&self) {
        self.0.close();
    }
}

impl Inner {
    #[allow(unsafe_code, reason = "safe code cannot close a descriptor that another owner uses")]
    fn close(&self) {
        use std::os::fd::AsRawFd;
        if !self.closed.swap(true, Ordering::Relaxed) {
            // SAFETY: `new` has taken the descriptor from its owner, and it is closed once.
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
