//! The crate's one room for `unsafe`: system calls that no crate offers in the form needed.
#![allow(unsafe_code, reason = "the one room for it; every block says what it owes")]

pub(crate) mod address;
pub(crate) mod ancillary;
pub(crate) mod datagrams;
pub(crate) mod inherited;
pub(crate) mod multicast;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rustix::event::{Timespec, epoll};
use rustix::net::RecvFlags;

/// What `epoll_wait` and its kin write. Not rustix's own: a union with a pointer, it cannot go to
/// another thread, and the loop's thread is another than the one that opens its driver.
pub(crate) type EpollEvent = libc::epoll_event;

// The kernel writes both the same way.
const _: () = assert!(
    size_of::<epoll::Event>() == size_of::<EpollEvent>()
        && align_of::<epoll::Event>() == align_of::<EpollEvent>()
);

/// `epoll_pwait2` without a signal mask.
pub(crate) fn epoll_pwait2(
    set: BorrowedFd<'_>,
    events: &mut [EpollEvent],
    timeout: Option<&Timespec>,
) -> rustix::io::Result<usize> {
    let first = events.as_mut_ptr().cast::<epoll::Event>();
    // SAFETY: the same memory, borrowed for as long, under the other name of the same layout
    // (asserted above). Neither has invalid bits: flags, and data that is always read as a number.
    let events = unsafe { std::slice::from_raw_parts_mut(first, events.len()) };
    epoll::wait(set, events, timeout)
}

/// `epoll_pwait` without a signal mask, with a limit in milliseconds, none if negative. rustix compiles
/// in either this or `epoll_pwait2`, and we have asked for the latter. Not through libc's own function,
/// which makes a point of being one at which the thread can be cancelled.
pub(crate) fn epoll_wait(
    set: BorrowedFd<'_>,
    events: &mut [EpollEvent],
    millis: i32,
) -> io::Result<usize> {
    let room = i32::try_from(events.len()).unwrap_or(i32::MAX);
    // SAFETY: the pointer is to at least `room` events that are ours alone for the call, and any
    // bits the kernel writes are a valid event. There is no mask, so its size is not looked at.
    let n = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait,
            set.as_raw_fd(),
            events.as_mut_ptr(),
            room,
            millis,
            std::ptr::null::<libc::sigset_t>(),
            0usize,
        )
    };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// `ppoll` without a signal mask. rustix's takes borrowed descriptors, which a set that outlives the
/// call cannot hold.
pub(crate) fn poll(set: &mut [libc::pollfd], timeout: Option<Duration>) -> io::Result<usize> {
    let timeout = timeout.map(|timeout| libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let len = set.len() as libc::nfds_t;
    // SAFETY: `set` is ours alone for the call and `len` entries long; `timeout` is null or points to
    // a value that lives until the end of this function; there is no mask. A number in it that is no
    // open descriptor, or somebody else's, does no harm: it is looked at, not touched.
    let n = unsafe { libc::ppoll(set.as_mut_ptr(), len, timeout, std::ptr::null()) };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// Receives at most `size` bytes into the spare room of `block`, and cuts them off. Done with safe
/// code it would write every byte twice, with zeros first.
#[inline(always)]
pub(crate) fn recv(
    fd: BorrowedFd<'_>,
    block: &mut BytesMut,
    size: usize,
) -> rustix::io::Result<Bytes> {
    debug_assert!(block.is_empty() && block.capacity() >= size);
    let spare = &mut block.spare_capacity_mut()[..size];
    let ((received, _), _) = rustix::net::recv(fd, spare, RecvFlags::empty())?;
    let n = received.len();
    // SAFETY: the block is empty, `n <= size` bytes from its start on were initialised by the call
    // above, and they lie within its capacity.
    unsafe { block.set_len(n) };
    Ok(block.split().freeze())
}

/// The descriptor that a source has shown, for as long as the source is borrowed.
pub(crate) fn borrow_fd_of<S: ?Sized>(_source: &S, fd: RawFd) -> BorrowedFd<'_> {
    // SAFETY: the source owns the descriptor and is there for as long as the borrow. One that closes
    // it all the same makes the kernel answer for a number that is nobody's, or somebody else's: it is
    // watched, never read, written or closed through this borrow.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// Sets an option of TCP that neither rustix nor socket2 has.
pub(crate) fn set_tcp_option(fd: BorrowedFd<'_>, name: i32, value: u32) -> io::Result<()> {
    let value = i32::try_from(value).unwrap_or(i32::MAX);
    let first: *const libc::c_int = &value;
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `first` points to `len` bytes that live until the end of this function.
    let done =
        unsafe { libc::setsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, name, first.cast(), len) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the kernel put a note into a socket's error queue for everything that is sent.
#[cfg(test)]
pub(crate) fn enable_tx_timestamps(fd: BorrowedFd<'_>) {
    let flags = libc::SOF_TIMESTAMPING_TX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    let flag: *const libc::c_uint = &flags;
    let len = size_of::<libc::c_uint>() as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
    // SAFETY: `flag` points to `len` bytes that live until the end of this function.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, flag.cast(), len) };
    assert_eq!(done, 0, "{}", io::Error::last_os_error());
}

/// Makes the kernel keep errors of sent datagrams in a socket's error queue, besides the pending one (IP_RECVERR).
#[cfg(test)]
pub(crate) fn enable_ip_recverr(fd: BorrowedFd<'_>) {
    let on: *const libc::c_int = &1;
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `on` points to `len` bytes that live for ever.
    let done = unsafe {
        libc::setsockopt(fd.as_raw_fd(), libc::IPPROTO_IP, libc::IP_RECVERR, on.cast(), len)
    };
    assert_eq!(done, 0, "{}", io::Error::last_os_error());
}

/// A ring of the kernel's, which it lets nobody pass on; none, where there are no rings to be had.
#[cfg(test)]
pub(crate) fn open_io_uring() -> Option<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd;

    let mut parameters = [0_u64; 15]; // 120 bytes, as `io_uring_params` has.
    // SAFETY: the kernel reads and writes the parameters, which are as long as it expects and ours alone.
    let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) };
    let fd = RawFd::try_from(fd).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: it was opened just now, and nobody else knows of it.
    Some(unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) })
}
