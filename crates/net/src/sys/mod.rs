//! The only module of the crate with `unsafe` code: system calls that no crate offers in the form needed.
#![allow(unsafe_code, reason = "the only module with unsafe code; every block has a SAFETY note")]

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

/// The event that `epoll_wait` and its variants write. rustix's own type is a union with a pointer and thus not
/// `Send`; the event buffer moves from the thread that opens a driver to the thread of its loop.
pub(crate) type EpollEvent = libc::epoll_event;

// Both types have the layout of the kernel's `epoll_event`.
const _: () = assert!(
    size_of::<epoll::Event>() == size_of::<EpollEvent>()
        && align_of::<epoll::Event>() == align_of::<EpollEvent>()
);

/// Calls `epoll_pwait2` without a signal mask.
pub(crate) fn epoll_pwait2(
    set: BorrowedFd<'_>,
    events: &mut [EpollEvent],
    timeout: Option<&Timespec>,
) -> rustix::io::Result<usize> {
    let first = events.as_mut_ptr().cast::<epoll::Event>();
    // SAFETY: the slice covers the same memory for the same borrow, as a type of the same size and alignment (asserted
    // above). All bit patterns are valid for both: flags, and data that is always read as a number.
    let events = unsafe { std::slice::from_raw_parts_mut(first, events.len()) };
    epoll::wait(set, events, timeout)
}

/// Calls `epoll_pwait` without a signal mask and with a timeout in milliseconds; negative means no timeout.
/// rustix compiles either this call or `epoll_pwait2`, and the latter was selected. libc's own function is not
/// used, because it is a cancellation point.
pub(crate) fn epoll_wait(
    set: BorrowedFd<'_>,
    events: &mut [EpollEvent],
    millis: i32,
) -> io::Result<usize> {
    let capacity = i32::try_from(events.len()).unwrap_or(i32::MAX);
    // SAFETY: the pointer is to at least `capacity` events that are exclusively borrowed for the call, and any
    // bits the kernel writes are a valid event. The mask is null, so its size is ignored.
    let n = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait,
            set.as_raw_fd(),
            events.as_mut_ptr(),
            capacity,
            millis,
            std::ptr::null::<libc::sigset_t>(),
            0usize,
        )
    };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// Calls `ppoll` without a signal mask. rustix's version takes borrowed descriptors, which a set that outlives
/// the call cannot hold.
pub(crate) fn poll(set: &mut [libc::pollfd], timeout: Option<Duration>) -> io::Result<usize> {
    let timeout = timeout.map(|timeout| libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let len = set.len() as libc::nfds_t;
    // SAFETY: `set` is exclusively borrowed for the call and has `len` entries; `timeout` is null or points to a value
    // that lives until the end of this function; the mask is null. A number in the set that is closed or was reused
    // does no harm: the kernel reports on it and changes nothing.
    let n = unsafe { libc::ppoll(set.as_mut_ptr(), len, timeout, std::ptr::null()) };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// Receives at most `size` bytes into the spare capacity of `block`, and splits them off. Safe code would have
/// to fill the memory with zeros before the call.
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

/// Borrows the descriptor of a source for as long as the source is borrowed.
pub(crate) fn borrow_fd_of<S: ?Sized>(_source: &S, fd: RawFd) -> BorrowedFd<'_> {
    // SAFETY: the source owns the descriptor and outlives the borrow. If it closes the descriptor nevertheless, the
    // kernel answers for a closed or a reused number: this borrow serves to watch the descriptor, not to read, write or
    // close it.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// Sets a TCP option that neither rustix nor socket2 offers.
pub(crate) fn set_tcp_option(fd: BorrowedFd<'_>, name: i32, value: u32) -> io::Result<()> {
    let value = i32::try_from(value).unwrap_or(i32::MAX);
    let first: *const libc::c_int = &value;
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `first` points to `len` bytes that live until the end of this function.
    let done =
        unsafe { libc::setsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, name, first.cast(), len) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the kernel put an entry into the socket's error queue for every sent packet (SO_TIMESTAMPING).
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

/// Makes the kernel keep errors of sent datagrams in the socket's error queue, besides the pending error
/// (IP_RECVERR).
#[cfg(test)]
pub(crate) fn enable_ip_recverr(fd: BorrowedFd<'_>) {
    let on: *const libc::c_int = &1;
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `on` points to `len` bytes with a static lifetime.
    let done = unsafe {
        libc::setsockopt(fd.as_raw_fd(), libc::IPPROTO_IP, libc::IP_RECVERR, on.cast(), len)
    };
    assert_eq!(done, 0, "{}", io::Error::last_os_error());
}

/// Opens an io_uring, which the kernel refuses to pass to another process; `None` where io_uring is
/// unavailable.
#[cfg(test)]
pub(crate) fn open_io_uring() -> Option<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd;

    let mut parameters = [0_u64; 15]; // 120 bytes, as `io_uring_params` has.
    // SAFETY: the kernel reads and writes the parameters, which have the expected size and are exclusively borrowed.
    let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) };
    let fd = RawFd::try_from(fd).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: the descriptor was just opened and has no other owner.
    Some(unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) })
}
