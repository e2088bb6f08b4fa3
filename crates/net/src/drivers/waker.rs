//! The waker: an eventfd that interrupts a driver's wait from any thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use waterwheel_executor::Unpark;

use crate::error_context::context;

/// An eventfd that any thread may write to.
///
/// Producers write from any thread at any time, also after the driver was dropped: every holder has an `Arc`,
/// so the descriptor number cannot be reused while a producer may write to it. Only the driver's thread reads
/// the eventfd, and only if its selector is level-triggered. The kernel makes reads and writes of the counter
/// atomic.
#[derive(Debug)]
pub(crate) struct Waker {
    fd: OwnedFd,
}

impl Waker {
    /// Opens an eventfd with the counter zero.
    pub(crate) fn open() -> io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(io::Error::from)
            .map_err(context("cannot open an eventfd for the driver's waker"))?;
        Ok(Self { fd })
    }

    /// Resets the eventfd's counter, for a level-triggered selector. A later wake makes the eventfd readable again.
    pub(crate) fn drain(&self) {
        // The only possible error is EAGAIN: the counter is zero.
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
    }
}

impl Unpark for Waker {
    fn unpark(&self) {
        // The write fails only when the counter is full (2^64 - 2 wakes): the eventfd is readable then.
        let _ = rustix::io::retry_on_intr(|| rustix::io::write(&self.fd, &1u64.to_ne_bytes()));
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
