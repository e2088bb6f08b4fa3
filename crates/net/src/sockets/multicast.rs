//! Groups and interfaces, given to the kernel (C13).
//!
//! By default Linux gives a socket whatever comes to its port for any group that *anybody* on the machine
//! has joined. One that joins groups here hears those, and no others. (Of IPv6, Linux looks at the group
//! alone: what came by another interface, where somebody else has joined it, is heard too.)

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::BorrowedFd;

use rustix::net::sockopt;
use socket2::{Domain, SockRef};
use waterwheel_channel::driver::{MulticastMembership, NetworkInterface};

use crate::sys::multicast::{self, MembershipChange};

/// Joins a group.
pub(crate) fn join(fd: BorrowedFd<'_>, member: MulticastMembership) -> io::Result<()> {
    let socket = SockRef::from(&fd);
    match member.group {
        IpAddr::V4(_) => socket.set_multicast_all_v4(false)?,
        // Kernels before 4.20 do not know it.
        IpAddr::V6(_) => _ = socket.set_multicast_all_v6(false),
    }
    match (member.interface, member.group, member.source) {
        (NetworkInterface::Address(at), IpAddr::V4(group), None) => {
            socket.join_multicast_v4(&group, &at)
        }
        (NetworkInterface::Address(at), IpAddr::V4(group), Some(IpAddr::V4(source))) => {
            socket.join_ssm_v4(&source, &group, &at)
        }
        (interface, ..) => {
            multicast::change(fd, MembershipChange::Join, interface_index(interface)?, member)
        }
    }
}

/// Leaves a group. It is to be called what it was called when it was joined.
pub(crate) fn leave(fd: BorrowedFd<'_>, member: MulticastMembership) -> io::Result<()> {
    let socket = SockRef::from(&fd);
    match (member.interface, member.group, member.source) {
        (NetworkInterface::Address(at), IpAddr::V4(group), None) => {
            socket.leave_multicast_v4(&group, &at)
        }
        (NetworkInterface::Address(at), IpAddr::V4(group), Some(IpAddr::V4(source))) => {
            socket.leave_ssm_v4(&source, &group, &at)
        }
        (interface, ..) => {
            multicast::change(fd, MembershipChange::Leave, interface_index(interface)?, member)
        }
    }
}

/// Where datagrams to groups leave the machine.
pub(crate) fn set_interface(fd: BorrowedFd<'_>, interface: NetworkInterface) -> io::Result<()> {
    let any = Ipv4Addr::UNSPECIFIED;
    let v4 = || match interface {
        NetworkInterface::Index(index) => {
            sockopt::set_ip_multicast_if_with_ifindex(fd, &any, &any, index)
        }
        NetworkInterface::Address(at) => sockopt::set_ip_multicast_if(fd, &at),
        _ => sockopt::set_ip_multicast_if(fd, &any),
    };
    set_on_each_family(
        fd,
        || Ok(v4()?),
        || SockRef::from(&fd).set_multicast_if_v6(interface_index(interface)?),
    )
}

/// How far datagrams to groups go.
pub(crate) fn set_time_to_live(fd: BorrowedFd<'_>, hops: u32) -> io::Result<()> {
    let socket = SockRef::from(&fd);
    set_on_each_family(
        fd,
        || socket.set_multicast_ttl_v4(hops),
        || socket.set_multicast_hops_v6(hops),
    )
}

/// Whether members on this machine hear what this socket sends.
pub(crate) fn set_loop(fd: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    let socket = SockRef::from(&fd);
    set_on_each_family(fd, || socket.set_multicast_loop_v4(on), || socket.set_multicast_loop_v6(on))
}

/// Sets what both families have, each by another name. A socket of IPv6 may speak to IPv4 as well; where it
/// may not, that it has no such option is no matter.
pub(crate) fn set_on_each_family(
    fd: BorrowedFd<'_>,
    v4: impl FnOnce() -> io::Result<()>,
    v6: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    match SockRef::from(&fd).domain()? {
        Domain::IPV4 => v4(),
        Domain::IPV6 => {
            let _ = v4();
            v6()
        }
        _ => Err(io::Error::new(ErrorKind::Unsupported, "only sockets of IP have it")),
    }
}

/// The number of an interface, as far as that is how it was named.
fn interface_index(interface: NetworkInterface) -> io::Result<u32> {
    match interface {
        NetworkInterface::Any => Ok(0),
        NetworkInterface::Index(index) => Ok(index),
        _ => {
            let what = "IPv6 knows interfaces by their numbers, not by addresses of IPv4";
            Err(io::Error::new(ErrorKind::InvalidInput, what))
        }
    }
}
