//! Multicast groups and interfaces, as socket options (C13).
//!
//! By default Linux delivers to a socket every datagram to its port and to any group that *any* socket of the
//! machine has joined. [`join`] turns that off (IP_MULTICAST_ALL, IPV6_MULTICAST_ALL): the socket receives only
//! the groups that it has joined itself. For IPv6, Linux compares the group alone: a datagram that arrives at
//! another interface, where another socket has joined the group, is received too.

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
        // Kernels before 4.20 do not have IPV6_MULTICAST_ALL.
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

/// Leaves a group. The membership must equal the one that the group was joined with.
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

/// Sets the interface by which multicast datagrams leave the machine.
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

/// Sets the hop limit of multicast datagrams.
pub(crate) fn set_time_to_live(fd: BorrowedFd<'_>, hops: u32) -> io::Result<()> {
    let socket = SockRef::from(&fd);
    set_on_each_family(
        fd,
        || socket.set_multicast_ttl_v4(hops),
        || socket.set_multicast_hops_v6(hops),
    )
}

/// Sets whether members on this machine receive the multicast datagrams of this socket.
pub(crate) fn set_loop(fd: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    let socket = SockRef::from(&fd);
    set_on_each_family(fd, || socket.set_multicast_loop_v4(on), || socket.set_multicast_loop_v6(on))
}

/// Sets an option that both IP families have under different names. An IPv6 socket may also send to IPv4
/// addresses; the error of an IPv6-only socket for the IPv4 option is ignored.
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
        _ => Err(io::Error::new(ErrorKind::Unsupported, "only IP sockets have this option")),
    }
}

/// Returns the index of an interface; an error if the interface is named by an IPv4 address.
fn interface_index(interface: NetworkInterface) -> io::Result<u32> {
    match interface {
        NetworkInterface::Any => Ok(0),
        NetworkInterface::Index(index) => Ok(index),
        _ => {
            let what = "IPv6 needs the index of an interface, not one of its IPv4 addresses";
            Err(io::Error::new(ErrorKind::InvalidInput, what))
        }
    }
}
