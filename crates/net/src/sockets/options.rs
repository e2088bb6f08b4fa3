//! Socket options, set with setsockopt(2) (C11).

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::net::sockopt;
use socket2::SockRef;
use waterwheel_channel::driver::SocketOption;

use crate::error_context::context;
use crate::sockets::multicast;
use crate::sys;

/// Sets an option. The error names the option.
pub(crate) fn set(fd: BorrowedFd<'_>, option: SocketOption) -> io::Result<()> {
    let what = match option {
        SocketOption::JoinGroup(member) | SocketOption::LeaveGroup(member) => {
            format!("cannot set the option {option} for {member}")
        }
        _ => format!("cannot set the option {option}"),
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
        // Rounded up: SO_LINGER counts in seconds, and zero seconds would reset the connection.
        SocketOption::Linger(time) => {
            socket.set_linger(time.map(|time| Duration::from_secs(seconds_rounded_up(time).into())))
        }
        SocketOption::SendBuffer(size) => socket.set_send_buffer_size(clamp_size(size)),
        SocketOption::ReceiveBuffer(size) => socket.set_recv_buffer_size(clamp_size(size)),
        // TCP_USER_TIMEOUT counts in milliseconds, and zero means no limit.
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
        _ => Err(io::Error::new(io::ErrorKind::Unsupported, "sockets do not support this option")),
    }
}

/// Rounds up to whole seconds, at least one: TCP_KEEPIDLE and TCP_KEEPINTVL refuse zero.
fn at_least_a_second(time: Duration) -> Duration {
    Duration::from_secs(seconds_rounded_up(time).max(1).into())
}

/// Limits a buffer size to i32::MAX: the kernel would read a larger number as negative, and set its
/// minimum.
fn clamp_size(size: usize) -> usize {
    size.min(i32::MAX as usize)
}

fn seconds_rounded_up(time: Duration) -> u32 {
    let up = u64::from(time.subsec_nanos() > 0);
    u32::try_from(time.as_secs().saturating_add(up)).unwrap_or(u32::MAX)
}
