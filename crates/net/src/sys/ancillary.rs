//! Messages with descriptors and credentials (`recvmsg`), and the credentials of a peer (SO_PEERCRED).
//!
//! rustix is not used here: its credentials cannot represent a process outside of the PID namespace, whose pid
//! the kernel reports as zero.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use rustix::net::SocketAddrAny;
use waterwheel_channel::Credentials;

/// The maximum number of descriptors in one message: the kernel's SCM_MAX_FD.
pub(crate) const MAX_PASSED_FDS: usize = 253;

/// The length of the control buffer: the maximum number of descriptors, and one SCM_CREDENTIALS.
const CONTROL_LEN: usize = {
    let passed = (MAX_PASSED_FDS * size_of::<RawFd>()) as u32;
    let credentials = size_of::<libc::ucred>() as u32;
    space(passed) + space(credentials)
};

/// Returns the space that a control message with a payload of `len` bytes takes.
const fn space(len: u32) -> usize {
    // SAFETY: CMSG_SPACE is arithmetic and has no preconditions.
    (unsafe { libc::CMSG_SPACE(len) }) as usize
}

/// The control buffer of `recvmsg`, aligned for its headers.
#[repr(C)]
union ControlBuffer {
    _aligned: libc::cmsghdr,
    bytes: [MaybeUninit<u8>; CONTROL_LEN],
}

/// A received message.
pub(crate) struct ReceivedMessage {
    /// The length as sent: larger than the buffer if a datagram was truncated.
    pub(crate) whole: usize,
    pub(crate) from: Option<SocketAddrAny>,
    pub(crate) passed: Vec<OwnedFd>,
    pub(crate) credentials: Option<Credentials>,
    /// True after MSG_CTRUNC: descriptors were lost, for example because of EMFILE.
    pub(crate) is_truncated: bool,
}

/// Receives one message, or the next part of a stream, into `buffer`.
pub(crate) fn receive(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    is_datagram: bool,
) -> io::Result<ReceivedMessage> {
    let mut address = MaybeUninit::<libc::sockaddr_storage>::uninit();
    let mut control = ControlBuffer { bytes: [MaybeUninit::uninit(); CONTROL_LEN] };
    let mut iovec = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all fields are numbers and pointers, for which zero is valid.
    let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    header.msg_iov = &mut iovec;
    header.msg_iovlen = 1;
    header.msg_name = address.as_mut_ptr().cast();
    header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    header.msg_control = (&raw mut control).cast();
    header.msg_controllen = CONTROL_LEN;
    // With MSG_TRUNC the kernel returns the full length of a datagram, not the received part.
    let whole = if is_datagram { libc::MSG_TRUNC } else { 0 };
    let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT | whole;
    // SAFETY: the header points to `buffer`, `iovec`, `address` and `control`, which live until the end of this
    // function and are not accessed otherwise during the call; the lengths are theirs.
    let n = unsafe { libc::recvmsg(fd.as_raw_fd(), &mut header, flags) };
    let whole = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
    let (passed, credentials) = parse_control(&header);
    let named = header.msg_namelen as usize > size_of::<libc::sa_family_t>();
    // SAFETY: the kernel has written an address of `msg_namelen` bytes to `address`, which has the size of the
    // largest address type; `SocketAddrAny` has the same layout.
    let from =
        named.then(|| unsafe { SocketAddrAny::read(address.as_ptr().cast(), header.msg_namelen) });
    let is_truncated = header.msg_flags & libc::MSG_CTRUNC != 0;
    Ok(ReceivedMessage { whole, from, passed, credentials, is_truncated })
}

/// Takes descriptors and credentials out of a header that the kernel has filled in. Call once per header: this function
/// takes ownership of the descriptors.
fn parse_control(header: &libc::msghdr) -> (Vec<OwnedFd>, Option<Credentials>) {
    let (mut passed, mut credentials) = (Vec::new(), None);
    // SAFETY: the kernel has filled in the header and the control buffer that it points to.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(header) };
    // SAFETY: `next` is null or points to a control message that the kernel has written, with a correct length.
    while let Some(message) = unsafe { next.as_ref() } {
        // SAFETY: as above; the data follows the message's header and may be unaligned.
        let data = unsafe { libc::CMSG_DATA(next) };
        // SAFETY: CMSG_LEN is arithmetic and has no preconditions.
        let header_len = unsafe { libc::CMSG_LEN(0) };
        let len = message.cmsg_len.saturating_sub(header_len as usize);
        match (message.cmsg_level, message.cmsg_type) {
            (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
                for at in 0..len / size_of::<RawFd>() {
                    let number = data.cast::<RawFd>().wrapping_add(at);
                    // SAFETY: the data is `len` bytes of descriptor numbers, and `at` is within them.
                    let number = unsafe { number.read_unaligned() };
                    // SAFETY: the kernel has opened the descriptor for this message, and it has no other owner.
                    passed.push(unsafe { OwnedFd::from_raw_fd(number) });
                }
            }
            (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) if len >= size_of::<libc::ucred>() => {
                // SAFETY: the data is long enough for a `ucred`, for which all bit patterns are valid.
                credentials =
                    Some(credentials_from(unsafe { data.cast::<libc::ucred>().read_unaligned() }));
            }
            _ => {}
        }
        // SAFETY: as for CMSG_FIRSTHDR.
        next = unsafe { libc::CMSG_NXTHDR(header, message) };
    }
    (passed, credentials)
}

/// Returns the credentials that the peer of a Unix socket had when it connected.
pub(crate) fn peer_credentials(fd: BorrowedFd<'_>) -> io::Result<Credentials> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `peer` is exclusively borrowed and `len` bytes long.
    let result = unsafe {
        let (fd, into) = (fd.as_raw_fd(), ptr::from_mut(&mut peer).cast());
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, into, &mut len)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    if peer.uid == libc::uid_t::MAX {
        let what = "the kernel has no credentials of the peer (SO_PEERCRED)";
        return Err(io::Error::new(io::ErrorKind::Unsupported, what));
    }
    Ok(credentials_from(peer))
}

fn credentials_from(kernel: libc::ucred) -> Credentials {
    let process = u32::try_from(kernel.pid).ok().filter(|pid| *pid != 0);
    Credentials { process, user: kernel.uid, group: kernel.gid }
}
