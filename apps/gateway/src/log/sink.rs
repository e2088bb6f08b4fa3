//! Where lines go: standard error, which may be closed, full or unread.

use std::fmt;
use std::io;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Takes lines. Called on any thread, loops among them: must not block.
pub trait LogSink: fmt::Debug + Send + Sync {
    /// Writes a line, which has its end. Returns false if the line was dropped.
    fn write(&self, line: &str) -> bool;
}

/// Standard error.
#[derive(Clone, Copy, Debug, Default)]
pub struct StandardError;

impl LogSink for StandardError {
    /// Writes a line if poll(2) says that there is room. One call carries the whole line. Does not take the lock of
    /// [`io::Stderr`], which another thread may hold while it waits for room.
    fn write(&self, line: &str) -> bool {
        let stderr = io::stderr();
        let mut ready = [PollFd::new(&stderr, PollFlags::OUT)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let is_polled = poll(&mut ready, Some(&at_once)).is_ok();
        let has_room = is_polled && ready[0].revents().contains(PollFlags::OUT);
        has_room && rustix::io::write(stderr.as_fd(), line.as_bytes()).is_ok()
    }
}
