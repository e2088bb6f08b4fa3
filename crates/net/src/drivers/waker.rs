//! The waker: an eventfd that ends a driver's wait from any thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use waterwheel_executor::Unpark;

use crate::error_context::context;

/// An eventfd that any thread may write to.
///
/// Producers write from any thread, at any time, also after the driver has gone: everybody holds it
/// by `Arc`, so that its number cannot have become somebody else's descriptor. The driver's thread
/// alone reads it, if its selector needs that at all. The kernel makes both atomic.
#[derive(Debug)]
pub(crate) struct Waker {
    fd: OwnedFd,
}

impl Waker {
    /// Opens one that has not been used.
    pub(crate) fn open() -> io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(io::Error::from)
            .map_err(context("cannot open an eventfd, the driver's waker"))?;
        Ok(Self { fd })
    }

    /// Takes all wakes that have come back out, for a level-triggered selector. One that comes
    /// later makes it readable again.
    pub(crate) fn drain(&self) {
        // The one error there can be says that there was nothing to take.
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
    }
}

impl Unpark for Waker {
    fn unpark(&self) {
        // It fails only when the counter is full (2^64 - 2 wakes): then it is readable as it is.
        let _ = rustix::io::retry_on_intr(|| rustix::io::write(&self.fd, &1u64.to_ne_bytes()));
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
