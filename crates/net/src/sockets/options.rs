//! Options of sockets, given to the kernel (C11).

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::net::sockopt;
use socket2::SockRef;
use waterwheel_channel::driver::SocketOption;

use crate::error_context::context;
use crate::sockets::multicast;
use crate::sys;

/// Sets an option. The error names it.
pub(crate) fn set(fd: BorrowedFd<'_>, option: SocketOption) -> io::Result<()> {
    let what = match option {
        SocketOption::JoinGroup(member) | SocketOption::LeaveGroup(member) => {
            format!("the option {option} cannot be set for {member}")
        }
        _ => format!("the option {option} cannot be set"),
    };
    try_set(fd, option).map_err(context(what))
}

fn try_set(fd: BorrowedFd<'_>, option: SocketOption) -> io::Result<()> {
    let socket = SockRef::from(&fd);
    match option {
        SocketOption::ReuseAddress(on) => socket.set_reuse_address(on),
        SocketOption::ReusePort(on) => socket.set_reuse_port(on),
        SocketOption::OnlyV6(on) => socket.set_only_v6(on),
        SocketOption::NoDelay(on) => socket.set_tcp_nodelay(on),
        SocketOption::KeepAlive(on) => socket.set_keepalive(on),
        SocketOption::KeepAliveIdle(time) => {
            Ok(sockopt::set_tcp_keepidle(fd, at_least_a_second(time))?)
        }
        SocketOption::KeepAliveInterval(time) => {
            Ok(sockopt::set_tcp_keepintvl(fd, at_least_a_second(time))?)
        }
        SocketOption::KeepAliveCount(count) => Ok(sockopt::set_tcp_keepcnt(fd, count)?),
        // Rounded down, half a second would be none, and that is a reset.
        SocketOption::Linger(time) => {
            socket.set_linger(time.map(|time| Duration::from_secs(seconds_rounded_up(time).into())))
        }
        SocketOption::SendBuffer(size) => socket.set_send_buffer_size(clamp_size(size)),
        SocketOption::ReceiveBuffer(size) => socket.set_recv_buffer_size(clamp_size(size)),
        // The kernel counts in milliseconds, and takes none for no limit.
        SocketOption::UserTimeout(time) => {
            let at_least = if time.is_zero() { time } else { time.max(Duration::from_millis(1)) };
            socket.set_tcp_user_timeout(Some(at_least))
        }
        SocketOption::FastOpen(queue) => sys::set_tcp_option(fd, libc::TCP_FASTOPEN, queue),
        SocketOption::FastOpenConnect(on) => {
            sys::set_tcp_option(fd, libc::TCP_FASTOPEN_CONNECT, on.into())
        }
        SocketOption::DeferAccept(time) => {
            sys::set_tcp_option(fd, libc::TCP_DEFER_ACCEPT, seconds_rounded_up(time))
        }
        SocketOption::BusyPoll(time) => {
            let micros = u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
            socket.set_busy_poll(micros)
        }
        SocketOption::NotSentLowWater(bytes) => socket.set_tcp_notsent_lowat(bytes),
        SocketOption::TypeOfService(value) => match socket.domain()? {
            socket2::Domain::IPV6 => socket.set_tclass_v6(value),
            _ => socket.set_tos_v4(value),
        },
        SocketOption::TimeToLive(hops) => multicast::set_on_each_family(
            fd,
            || socket.set_ttl_v4(hops),
            || socket.set_unicast_hops_v6(hops),
        ),
        SocketOption::Broadcast(on) => socket.set_broadcast(on),
        SocketOption::JoinGroup(member) => multicast::join(fd, member),
        SocketOption::LeaveGroup(member) => multicast::leave(fd, member),
        SocketOption::MulticastInterface(interface) => multicast::set_interface(fd, interface),
        SocketOption::MulticastTimeToLive(hops) => multicast::set_time_to_live(fd, hops),
        SocketOption::MulticastLoop(on) => multicast::set_loop(fd, on),
        SocketOption::ReceivePassed(_) if socket.domain()? == socket2::Domain::UNIX => Ok(()),
        SocketOption::ReceiveCredentials(on) => socket.set_passcred(on),
        _ => Err(io::Error::new(io::ErrorKind::Unsupported, "a socket has no such option")),
    }
}

/// The kernel counts in whole seconds, and takes none of nothing.
fn at_least_a_second(time: Duration) -> Duration {
    Duration::from_secs(seconds_rounded_up(time).max(1).into())
}

/// The kernel's sizes are numbers of 32 bits; what is beyond them it would take for next to nothing.
fn clamp_size(size: usize) -> usize {
    size.min(i32::MAX as usize)
}

fn seconds_rounded_up(time: Duration) -> u32 {
    let up = u64::from(time.subsec_nanos() > 0);
    u32::try_from(time.as_secs().saturating_add(up)).unwrap_or(u32::MAX)
}
