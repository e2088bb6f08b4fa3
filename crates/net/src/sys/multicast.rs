//! Joining and leaving multicast groups by interface index and by source: no crate offers that for IPv6.

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::net::SocketAddrAny;
use waterwheel_channel::driver::MulticastMembership;

/// The direction of a membership change.
#[derive(Clone, Copy)]
pub(crate) enum MembershipChange {
    Join,
    Leave,
}

/// Changes a membership at the interface with this index; zero lets the routing table choose the interface.
pub(crate) fn change(
    fd: BorrowedFd<'_>,
    change: MembershipChange,
    index: u32,
    member: MulticastMembership,
) -> io::Result<()> {
    let level = match member.group {
        IpAddr::V4(_) => libc::IPPROTO_IP,
        IpAddr::V6(_) => libc::IPPROTO_IPV6,
    };
    let group = storage(member.group);
    match member.source {
        None => {
            let name = match change {
                MembershipChange::Join => libc::MCAST_JOIN_GROUP,
                MembershipChange::Leave => libc::MCAST_LEAVE_GROUP,
            };
            set(fd, level, name, &libc::group_req { gr_interface: index, gr_group: group })
        }
        Some(source) => {
            let name = match change {
                MembershipChange::Join => libc::MCAST_JOIN_SOURCE_GROUP,
                MembershipChange::Leave => libc::MCAST_LEAVE_SOURCE_GROUP,
            };
            let gsr_source = storage(source);
            let request =
                libc::group_source_req { gsr_interface: index, gsr_group: group, gsr_source };
            set(fd, level, name, &request)
        }
    }
}

fn set<T>(fd: BorrowedFd<'_>, level: i32, name: i32, request: &T) -> io::Result<()> {
    let first: *const T = request;
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `first` points to `len` bytes that live until the end of this function, of the type that the option
    // takes.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, first.cast(), len) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn storage(address: IpAddr) -> libc::sockaddr_storage {
    let address = SocketAddrAny::from(SocketAddr::new(address, 0));
    let mut storage = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let (from, len) = (address.as_ptr().cast::<u8>(), address.addr_len() as usize);
    // SAFETY: an address is `addr_len` bytes long, at most the size of `sockaddr_storage`.
    unsafe { std::ptr::copy_nonoverlapping(from, storage.as_mut_ptr().cast::<u8>(), len) };
    // SAFETY: all fields are numbers; the memory was zeroed before the address was copied into it.
    unsafe { storage.assume_init() }
}
