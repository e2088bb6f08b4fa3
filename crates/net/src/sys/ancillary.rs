//! Messages with descriptors and credentials in them: `recvmsg`, and who a peer is.
//!
//! Not rustix's: its credentials cannot have a process that is out of sight, which the kernel calls zero.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use rustix::net::SocketAddrAny;
use waterwheel_channel::Credentials;

/// At most so many descriptors are in one message: SCM_MAX_FD of the kernel.
pub(crate) const MAX_PASSED_FDS: usize = 253;

/// Room for the most that the kernel has to say: all those descriptors, and one sender.
const CONTROL_LEN: usize = {
    let passed = (MAX_PASSED_FDS * size_of::<RawFd>()) as u32;
    let credentials = size_of::<libc::ucred>() as u32;
    space(passed) + space(credentials)
};

/// How much room a part of so many bytes takes.
const fn space(len: u32) -> usize {
    // SAFETY: it is arithmetic; there is nothing to be wrong about.
    (unsafe { libc::CMSG_SPACE(len) }) as usize
}

/// Where the kernel writes it.
#[repr(C)]
union ControlBuffer {
    _aligned: libc::cmsghdr,
    bytes: [MaybeUninit<u8>; CONTROL_LEN],
}

/// What was received.
pub(crate) struct ReceivedMessage {
    /// How long it was when it was sent; longer than the buffer, if not all of it found one.
    pub(crate) whole: usize,
    pub(crate) from: Option<SocketAddrAny>,
    pub(crate) passed: Vec<OwnedFd>,
    pub(crate) credentials: Option<Credentials>,
    /// Not all descriptors could be had.
    pub(crate) is_truncated: bool,
}

/// Receives one message, or the next part of a stream, into `room`.
pub(crate) fn receive(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    datagram: bool,
) -> io::Result<ReceivedMessage> {
    let mut address = MaybeUninit::<libc::sockaddr_storage>::uninit();
    let mut control = ControlBuffer { bytes: [MaybeUninit::uninit(); CONTROL_LEN] };
    let mut iovec = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: numbers and pointers, all of which may be zero.
    let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    header.msg_iov = &mut iovec;
    header.msg_iovlen = 1;
    header.msg_name = address.as_mut_ptr().cast();
    header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    header.msg_control = (&raw mut control).cast();
    header.msg_controllen = CONTROL_LEN;
    // With the last the kernel says how long it was, not how much of it there was room for.
    let whole = if datagram { libc::MSG_TRUNC } else { 0 };
    let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT | whole;
    // SAFETY: the header points to `room`, `iovec`, `address` and `control`, which live until the end of this
    // function and are not touched otherwise before the call is over; the lengths are theirs.
    let n = unsafe { libc::recvmsg(fd.as_raw_fd(), &mut header, flags) };
    let whole = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
    let (passed, credentials) = parse_control(&header);
    let named = header.msg_namelen as usize > size_of::<libc::sa_family_t>();
    // SAFETY: the kernel has written an address of so many bytes to where `address` is, which has room for the
    // largest there is, and both are names for the same layout.
    let from =
        named.then(|| unsafe { SocketAddrAny::read(address.as_ptr().cast(), header.msg_namelen) });
    let is_truncated = header.msg_flags & libc::MSG_CTRUNC != 0;
    Ok(ReceivedMessage { whole, from, passed, credentials, is_truncated })
}

/// Takes everything out of a header that the kernel has filled in: to be called once for each.
fn parse_control(header: &libc::msghdr) -> (Vec<OwnedFd>, Option<Credentials>) {
    let (mut passed, mut credentials) = (Vec::new(), None);
    // SAFETY: the header is one that the kernel has filled in, and so is what it points to.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(header) };
    // SAFETY: `next` is null or points to a part that the kernel has written, which is as long as it says.
    while let Some(part) = unsafe { next.as_ref() } {
        // SAFETY: as above; the data follows the part's head, and is not aligned for anything.
        let data = unsafe { libc::CMSG_DATA(next) };
        // SAFETY: it is arithmetic.
        let head = unsafe { libc::CMSG_LEN(0) };
        let len = part.cmsg_len.saturating_sub(head as usize);
        match (part.cmsg_level, part.cmsg_type) {
            (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
                for at in 0..len / size_of::<RawFd>() {
                    let number = data.cast::<RawFd>().wrapping_add(at);
                    // SAFETY: the data is `len` bytes of numbers, and this one is among them.
                    let number = unsafe { number.read_unaligned() };
                    // SAFETY: it was opened for this message, and nobody else knows of it.
                    passed.push(unsafe { OwnedFd::from_raw_fd(number) });
                }
            }
            (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) if len >= size_of::<libc::ucred>() => {
                // SAFETY: the data is long enough for it, and any numbers are credentials.
                credentials =
                    Some(credentials_from(unsafe { data.cast::<libc::ucred>().read_unaligned() }));
            }
            _ => {}
        }
        // SAFETY: as for the first.
        next = unsafe { libc::CMSG_NXTHDR(header, part) };
    }
    (passed, credentials)
}

/// Who was at the other end when a Unix socket was connected.
pub(crate) fn peer_credentials(fd: BorrowedFd<'_>) -> io::Result<Credentials> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `peer` is ours alone and `len` bytes long.
    let asked = unsafe {
        let (fd, into) = (fd.as_raw_fd(), ptr::from_mut(&mut peer).cast());
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, into, &mut len)
    };
    if asked != 0 {
        return Err(io::Error::last_os_error());
    }
    if peer.uid == libc::uid_t::MAX {
        let what = "the kernel does not know who the peer is";
        return Err(io::Error::new(io::ErrorKind::Unsupported, what));
    }
    Ok(credentials_from(peer))
}

fn credentials_from(kernel: libc::ucred) -> Credentials {
    let process = u32::try_from(kernel.pid).ok().filter(|pid| *pid != 0);
    Credentials { process, user: kernel.uid, group: kernel.gid }
}
