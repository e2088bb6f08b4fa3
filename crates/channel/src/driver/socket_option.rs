//! What can be set about a socket (C11).

use std::fmt;
use std::time::Duration;

use super::multicast::{MulticastMembership, NetworkInterface};

/// An option of a socket. Which of them there are is up to the transport; one that it does not have is
/// refused, with its name.
///
/// Connections that a server accepts have what its listening socket has, without a system call each: that
/// is where the options of children are set.
///
/// ```
/// use waterwheel_channel::driver::SocketOption;
///
/// assert_eq!(SocketOption::NoDelay(true).name(), "no_delay");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SocketOption {
    /// So many connections may wait to be accepted.
    Backlog(u32),
    /// An address may be bound while connections of its last owner linger. TCP listeners have it set by
    /// default.
    ReuseAddress(bool),
    /// Several sockets may be bound to the same address, and share what comes.
    ReusePort(bool),
    /// An IPv6 listener takes IPv4 connections too, or not.
    OnlyV6(bool),
    /// Small writes are sent at once instead of being collected. TCP has it set by default.
    NoDelay(bool),
    /// The kernel looks from time to time whether a silent peer is still there.
    KeepAlive(bool),
    /// After so long without a sign from the peer it begins to.
    KeepAliveIdle(Duration),
    /// It tries again after so long.
    KeepAliveInterval(Duration),
    /// After so many tries without an answer the connection is broken.
    KeepAliveCount(u32),
    /// What a close does with bytes that the peer has not acknowledged. `None`: they are sent in the
    /// background. Zero: they are thrown away and the peer sees a reset. Longer, in whole seconds: a close
    /// elsewhere would wait for so long, one of a channel does not; they are sent in the background too.
    Linger(Option<Duration>),
    /// The size of the kernel's buffer for what is sent.
    SendBuffer(usize),
    /// The size of the kernel's buffer for what is received.
    ReceiveBuffer(usize),
    /// A connection is broken if what was sent is not acknowledged for so long.
    UserTimeout(Duration),
    /// A listener takes data together with the request to connect; so many such requests may wait.
    FastOpen(u32),
    /// A client sends its first data together with the request to connect.
    FastOpenConnect(bool),
    /// A connection is given to the listener only when it has sent something, or after so long.
    DeferAccept(Duration),
    /// A read spins in the network device for so long before it sleeps.
    BusyPoll(Duration),
    /// The kernel says that there is room only when fewer bytes than this are unsent.
    NotSentLowWater(u32),
    /// What routers are told about the importance of packets.
    TypeOfService(u32),
    /// So many routers may pass a packet on. Of IPv6 it is called the hop limit.
    TimeToLive(u32),
    /// Datagrams may be sent to all machines of a network.
    Broadcast(bool),
    /// What is sent to this group is received; a socket that joins groups hears those and no others. It
    /// may be given more than once.
    JoinGroup(MulticastMembership),
    /// What is sent to this group is no longer received. It is called what it was when it was joined.
    LeaveGroup(MulticastMembership),
    /// What is sent to groups leaves by this interface.
    MulticastInterface(NetworkInterface),
    /// So many routers may pass on what is sent to groups; one if nothing is said: the own network.
    MulticastTimeToLive(u32),
    /// Members of a group on this machine hear what is sent to it here. On if nothing is said.
    MulticastLoop(bool),
    /// What a peer passes is taken: a read with something in it is a [`AncillaryMessage`](crate::AncillaryMessage). Otherwise it
    /// is dropped on its way. Unix sockets have it.
    ReceivePassed(bool),
    /// Every read says who has sent it, and is a [`AncillaryMessage`](crate::AncillaryMessage). Unix sockets have it.
    ReceiveCredentials(bool),
}

impl SocketOption {
    /// Its name, for errors.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SocketOption::Backlog(_) => "backlog",
            SocketOption::ReuseAddress(_) => "reuse_address",
            SocketOption::ReusePort(_) => "reuse_port",
            SocketOption::OnlyV6(_) => "only_v6",
            SocketOption::NoDelay(_) => "no_delay",
            SocketOption::KeepAlive(_) => "keep_alive",
            SocketOption::KeepAliveIdle(_) => "keep_alive_idle",
            SocketOption::KeepAliveInterval(_) => "keep_alive_interval",
            SocketOption::KeepAliveCount(_) => "keep_alive_count",
            SocketOption::Linger(_) => "linger",
            SocketOption::SendBuffer(_) => "send_buffer",
            SocketOption::ReceiveBuffer(_) => "receive_buffer",
            SocketOption::UserTimeout(_) => "user_timeout",
            SocketOption::FastOpen(_) => "fast_open",
            SocketOption::FastOpenConnect(_) => "fast_open_connect",
            SocketOption::DeferAccept(_) => "defer_accept",
            SocketOption::BusyPoll(_) => "busy_poll",
            SocketOption::NotSentLowWater(_) => "not_sent_low_water",
            SocketOption::TypeOfService(_) => "type_of_service",
            SocketOption::TimeToLive(_) => "time_to_live",
            SocketOption::Broadcast(_) => "broadcast",
            SocketOption::JoinGroup(_) => "join_group",
            SocketOption::LeaveGroup(_) => "leave_group",
            SocketOption::MulticastInterface(_) => "multicast_interface",
            SocketOption::MulticastTimeToLive(_) => "multicast_time_to_live",
            SocketOption::MulticastLoop(_) => "multicast_loop",
            SocketOption::ReceivePassed(_) => "receive_passed",
            SocketOption::ReceiveCredentials(_) => "receive_credentials",
        }
    }
}

impl fmt::Display for SocketOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
