//! Batches of datagrams in one system call: `recvmmsg` and `sendmmsg`.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use rustix::net::SocketAddrAny;
use waterwheel_channel::Datagram;
use waterwheel_channel::driver::MAX_DATAGRAM_BATCH;

use crate::address::to_kernel;

/// The maximum number of datagrams per call. Headers and addresses of a batch take 3.5 KiB of stack.
pub(crate) const BATCH: usize = MAX_DATAGRAM_BATCH;

/// Receives at most `max` datagrams into `buffer`, each truncated to `size` bytes. Calls `each` with the bytes
/// of a datagram, the length it was sent with and the address of its sender. Returns the number of datagrams; a
/// number below `max` means that the kernel has no more.
pub(crate) fn receive(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    size: usize,
    max: usize,
    mut each: impl FnMut(&[u8], usize, Option<SocketAddrAny>),
) -> io::Result<usize> {
    let max = max.min(BATCH).min(buffer.len() / size);
    let mut addresses = [const { MaybeUninit::<libc::sockaddr_storage>::uninit() }; BATCH];
    let mut iovecs = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; BATCH];
    let mut headers = [empty_header(); BATCH];
    let parts =
        buffer.chunks_exact_mut(size).zip(&mut addresses).zip(&mut iovecs).zip(&mut headers);
    for (((part, address), iovec), header) in parts.take(max) {
        *iovec = libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: size };
        header.msg_hdr.msg_iov = iovec;
        header.msg_hdr.msg_iovlen = 1;
        header.msg_hdr.msg_name = address.as_mut_ptr().cast();
        header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    }
    // With MSG_TRUNC the kernel returns the full length of each datagram, not the received part.
    let flags = libc::MSG_TRUNC | libc::MSG_DONTWAIT;
    // SAFETY: the first `max` headers are filled in above. They point into `buffer`, `addresses` and `iovecs`,
    // which live until the end of this function and are not accessed otherwise during the call; the
    // lengths match the memory pointed to. The timeout is null.
    let n = unsafe {
        let (first, max) = (headers.as_mut_ptr(), max as libc::c_uint);
        libc::recvmmsg(fd.as_raw_fd(), first, max, flags, ptr::null_mut())
    };
    let n = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
    for ((part, address), header) in buffer.chunks_exact(size).zip(&addresses).zip(&headers).take(n)
    {
        let (whole, len) = (header.msg_len as usize, header.msg_hdr.msg_namelen);
        // The address of an unbound sender is empty.
        let named = len as usize > size_of::<libc::sa_family_t>();
        // SAFETY: the kernel has written an address of `len` bytes to `address`, which has the size of the
        // largest address type; `SocketAddrAny` has the same layout.
        let from = named.then(|| unsafe { SocketAddrAny::read(address.as_ptr().cast(), len) });
        each(&part[..whole.min(size)], whole, from);
    }
    Ok(n)
}

/// The outcome of a `sendmmsg` call.
pub(crate) struct SendOutcome {
    /// The number of datagrams that were sent; an error concerns the first one.
    pub(crate) result: io::Result<usize>,
    /// The error of an earlier datagram, reported by this call.
    pub(crate) earlier_error: Option<io::Error>,
}

impl From<io::Result<usize>> for SendOutcome {
    fn from(result: io::Result<usize>) -> Self {
        Self { result, earlier_error: None }
    }
}

/// Sends the first datagrams of a batch.
pub(crate) fn send(fd: BorrowedFd<'_>, batch: &mut dyn Iterator<Item = &Datagram>) -> SendOutcome {
    let mut addresses: [Option<SocketAddrAny>; BATCH] = [const { None }; BATCH];
    let mut iovecs = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; BATCH];
    let mut headers = [empty_header(); BATCH];
    let mut filled = 0;
    for datagram in batch.take(BATCH) {
        let (address, iovec) = (&mut addresses[filled], &mut iovecs[filled]);
        *address = match datagram.peer().map(to_kernel).transpose() {
            Ok(address) => address,
            // The datagrams before this one are sent; this datagram is the first of the next batch.
            Err(_) if filled > 0 => break,
            Err(error) => return Err(error).into(),
        };
        let bytes = datagram.bytes();
        *iovec = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let header = &mut headers[filled].msg_hdr;
        header.msg_iov = iovec;
        header.msg_iovlen = 1;
        if let Some(address) = address {
            header.msg_name = address.as_ptr().cast_mut().cast();
            header.msg_namelen = address.addr_len();
        }
        filled += 1;
    }
    let mut send = || {
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        let (first, filled) = (headers.as_mut_ptr(), filled as libc::c_uint);
        // SAFETY: the first `filled` headers are filled in above. They point to `addresses`, `iovecs` and the
        // bytes of the batch, all of which live until the end of this function and are only read by the
        // call; the lengths match the memory pointed to.
        let n = unsafe { libc::sendmmsg(fd.as_raw_fd(), first, filled, flags) };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    };
    match send() {
        Err(first) if first.kind() != io::ErrorKind::WouldBlock => {
            // The kernel may have returned the error of an earlier datagram instead of sending this one. An error
            // of this datagram is returned again.
            let again = send();
            // A Unix socket is no longer connected once the kernel has reported that its peer is gone.
            if again.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotConnected) {
                return Err(first).into();
            }
            let same =
                again.as_ref().is_err_and(|error| error.raw_os_error() == first.raw_os_error());
            SendOutcome { result: again, earlier_error: (!same).then_some(first) }
        }
        sent => sent.into(),
    }
}

fn empty_header() -> libc::mmsghdr {
    // SAFETY: all fields are numbers and pointers, for which zero is valid. The struct may have private padding, so
    // it cannot be written as a literal.
    unsafe { MaybeUninit::zeroed().assume_init() }
}
