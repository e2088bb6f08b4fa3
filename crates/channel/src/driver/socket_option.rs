//! Socket options (C11).

use std::fmt;
use std::time::Duration;

use super::multicast::{MulticastMembership, NetworkInterface};

/// A socket option. Which options exist depends on the transport: an unsupported option fails with an error that
/// names it.
///
/// Accepted connections inherit the options of their listening socket, without a system call each: therefore child
/// options are set on the listening socket.
///
/// ```
/// use waterwheel_channel::driver::SocketOption;
///
/// assert_eq!(SocketOption::NoDelay(true).name(), "no_delay");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SocketOption {
    /// The backlog of `listen`: the maximum number of connections that wait to be accepted.
    Backlog(u32),
    /// SO_REUSEADDR: an address may be bound while connections of its previous owner are in TIME_WAIT. On by
    /// default for TCP listeners.
    ReuseAddress(bool),
    /// SO_REUSEPORT: several sockets may be bound to the same address, and the kernel distributes connections among
    /// them.
    ReusePort(bool),
    /// IPV6_V6ONLY: if true, an IPv6 listener accepts no IPv4 connections.
    OnlyV6(bool),
    /// TCP_NODELAY: small writes are sent at once instead of being collected (Nagle's algorithm). On by default for
    /// TCP.
    NoDelay(bool),
    /// SO_KEEPALIVE: the kernel probes whether a silent peer is still there.
    KeepAlive(bool),
    /// TCP_KEEPIDLE: the time without data from the peer before the first probe.
    KeepAliveIdle(Duration),
    /// TCP_KEEPINTVL: the time between two probes.
    KeepAliveInterval(Duration),
    /// TCP_KEEPCNT: the number of unanswered probes after which the connection is broken.
    KeepAliveCount(u32),
    /// SO_LINGER: what a close does with bytes that the peer has not acknowledged. `None`: the kernel sends them in
    /// the background. Zero: they are discarded, and the peer sees a reset. Longer, in whole seconds: a plain
    /// `close` would wait for that time, but the close of a channel does not; the kernel sends them in the
    /// background too.
    Linger(Option<Duration>),
    /// SO_SNDBUF: the size of the kernel's send buffer.
    SendBuffer(usize),
    /// SO_RCVBUF: the size of the kernel's receive buffer.
    ReceiveBuffer(usize),
    /// TCP_USER_TIMEOUT: the time after which a connection with unacknowledged data is broken.
    UserTimeout(Duration),
    /// TCP_FASTOPEN: a listener accepts data in the SYN; the value limits the pending Fast Open requests.
    FastOpen(u32),
    /// TCP_FASTOPEN_CONNECT: a client sends its first data in the SYN.
    FastOpenConnect(bool),
    /// TCP_DEFER_ACCEPT: a connection reaches the listener only when it has sent data, or after this time.
    DeferAccept(Duration),
    /// SO_BUSY_POLL: how long a read polls the network device before it sleeps.
    BusyPoll(Duration),
    /// TCP_NOTSENT_LOWAT: the kernel reports the socket writable only when fewer than this many bytes are unsent.
    NotSentLowWater(u32),
    /// IP_TOS, IPV6_TCLASS: the type of service, which tells routers the priority of packets.
    TypeOfService(u32),
    /// IP_TTL, IPV6_UNICAST_HOPS: the number of routers that may forward a packet.
    TimeToLive(u32),
    /// SO_BROADCAST: datagrams may be sent to broadcast addresses.
    Broadcast(bool),
    /// IP_ADD_MEMBERSHIP and its variants: joins a multicast group. A socket receives datagrams only of the groups that
    /// it has joined. This option may be given more than once.
    JoinGroup(MulticastMembership),
    /// IP_DROP_MEMBERSHIP and its variants: leaves a multicast group. The value must equal the value of the join.
    LeaveGroup(MulticastMembership),
    /// IP_MULTICAST_IF, IPV6_MULTICAST_IF: the interface through which multicast datagrams are sent.
    MulticastInterface(NetworkInterface),
    /// IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS: the number of routers that may forward multicast datagrams. The
    /// default is one: the local network.
    MulticastTimeToLive(u32),
    /// IP_MULTICAST_LOOP, IPV6_MULTICAST_LOOP: group members on this machine receive the socket's datagrams to the
    /// group. On by default.
    MulticastLoop(bool),
    /// Accepts descriptors from the peer (SCM_RIGHTS): a read with descriptors is an
    /// [`AncillaryMessage`](crate::AncillaryMessage). If false, descriptors are dropped on arrival. Unix sockets only.
    ReceivePassed(bool),
    /// SO_PASSCRED: every read carries the sender's credentials, and is an
    /// [`AncillaryMessage`](crate::AncillaryMessage). Unix sockets only.
    ReceiveCredentials(bool),
}

impl SocketOption {
    /// Returns the name of the option, for error messages.
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
