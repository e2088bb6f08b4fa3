//! Socket options are set in the kernel (C11): on servers, clients and accepted connections, before and at run
//! time. The tests inspect the sockets of their own process through duplicates.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::net::sockopt;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use socket2::SockRef;
use waterwheel_channel::driver::SocketOption;
use waterwheel_channel::{Address, Bootstrap, Channel, EventLoopGroup, ServerBootstrap};
use waterwheel_net::Tcp;

use crate::loop_rig::{LoopRig, TIME_LIMIT, get, on_every_loop};

fn group(rig: &LoopRig) -> EventLoopGroup {
    rig.event_loop.parent().unwrap()
}

fn ip(address: Option<Address>) -> SocketAddr {
    match address {
        Some(Address::Ip(address)) => address,
        other => panic!("{other:?}"),
    }
}

/// Duplicates the descriptor of the socket that a channel owns.
fn socket_of(channel: &Channel) -> OwnedFd {
    let (local, peer) = (ip(channel.local_address()), channel.peer_address());
    let any = SocketAddr::from(([0, 0, 0, 0], 0));
    let inode = inode_of(local, peer.map_or(any, |peer| ip(Some(peer))));
    let wanted = format!("socket:[{inode}]");
    let me = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    for entry in fs::read_dir("/proc/self/fd").unwrap() {
        let path = entry.unwrap().path();
        if fs::read_link(&path).is_ok_and(|link| link.to_str() == Some(&wanted)) {
            let number = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
            return pidfd_getfd(&me, number, PidfdGetfdFlags::empty()).unwrap();
        }
    }
    panic!("{channel:?} has no socket {inode}");
}

/// Returns the inode of the connection between these addresses, from /proc/net/tcp.
fn inode_of(local: SocketAddr, peer: SocketAddr) -> String {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let (local, peer) = (in_table(local), in_table(peer));
    let row = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut rows = row.filter(|row| row.len() > 9 && (row[1], row[2]) == (&*local, &*peer));
    rows.next().expect("the connection is in the table")[9].to_owned()
}

fn in_table(address: SocketAddr) -> String {
    let SocketAddr::V4(address) = address else { panic!("{address}") };
    format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port())
}

/// Checks the option in the kernel.
type IsSet = fn(&OwnedFd) -> bool;

/// Options that every TCP socket has, each with a check in the kernel.
fn all() -> Vec<(SocketOption, IsSet)> {
    fn at(fd: &OwnedFd) -> SockRef<'_> {
        SockRef::from(fd)
    }
    vec![
        (SocketOption::ReuseAddress(true), |fd| at(fd).reuse_address().unwrap()),
        (SocketOption::NoDelay(false), |fd| !at(fd).tcp_nodelay().unwrap()),
        (SocketOption::KeepAlive(true), |fd| at(fd).keepalive().unwrap()),
        (SocketOption::KeepAliveIdle(Duration::from_millis(41_500)), |fd| {
            sockopt::tcp_keepidle(fd).unwrap() == Duration::from_secs(42)
        }),
        (SocketOption::KeepAliveInterval(Duration::from_secs(7)), |fd| {
            sockopt::tcp_keepintvl(fd).unwrap() == Duration::from_secs(7)
        }),
        (SocketOption::KeepAliveCount(5), |fd| sockopt::tcp_keepcnt(fd).unwrap() == 5),
        (SocketOption::Linger(Some(Duration::from_millis(2500))), |fd| {
            at(fd).linger().unwrap() == Some(Duration::from_secs(3))
        }),
        (SocketOption::SendBuffer(40_000), |fd| at(fd).send_buffer_size().unwrap() == 80_000),
        (SocketOption::ReceiveBuffer(50_000), |fd| at(fd).recv_buffer_size().unwrap() == 100_000),
        (SocketOption::UserTimeout(Duration::from_millis(1234)), |fd| {
            sockopt::tcp_user_timeout(fd).unwrap() == 1234
        }),
        (SocketOption::BusyPoll(Duration::from_micros(30)), |fd| {
            at(fd).busy_poll().is_ok_and(|micros| micros == 30)
        }),
        (SocketOption::NotSentLowWater(4321), |fd| at(fd).tcp_notsent_lowat().unwrap() == 4321),
        (SocketOption::TypeOfService(0x10), |fd| at(fd).tos_v4().unwrap() == 0x10),
    ]
}

#[track_caller]
fn assert_all(whose: &str, fd: &OwnedFd) {
    for (option, is_set) in all() {
        assert!(is_set(fd), "{whose} has no {option}");
    }
}

fn server(rig: &LoopRig) -> ServerBootstrap {
    ServerBootstrap::new(&group(rig), Tcp)
}

fn client(rig: &LoopRig) -> Bootstrap {
    Bootstrap::new(&group(rig), Tcp)
}

/// Returns the channel that the server has created for a client.
fn accepted(rig: &LoopRig, peer: SocketAddr) -> Channel {
    let clock = waterwheel_executor::Clock::Monotonic;
    let limit = clock.now().plus(TIME_LIMIT);
    loop {
        let channels = get(rig.event_loop.registered_channels());
        let is_it = |it: &Channel| {
            it.peer_address() == Some(peer.into()) && it.parent().is_some() && it.is_active()
        };
        if let Some(found) = channels.into_iter().find(is_it) {
            return found;
        }
        assert!(clock.now() < limit, "no connection from {peer}");
    }
}

#[test]
fn c11_bootstrap_options_are_set_on_the_socket_and_on_accepted_ones() {
    on_every_loop(|rig| {
        let (mut boss, mut ours) = (server(rig), client(rig));
        for (option, _) in all() {
            boss = boss.child_socket_option(option);
            ours = ours.socket_option(option);
        }
        let listener = get(boss.bind("127.0.0.1:0"));
        let channel = get(ours.connect(ip(listener.local_address())));
        let child = accepted(rig, ip(channel.local_address()));
        assert_all("the listener", &socket_of(&listener));
        assert_all("the client", &socket_of(&channel));
        assert_all("the child", &socket_of(&child));
    });
}

#[test]
fn c11_options_can_be_set_at_run_time() {
    on_every_loop(|rig| {
        let listener = get(server(rig).bind("127.0.0.1:0"));
        let channel = get(client(rig).connect(ip(listener.local_address())));
        for (option, _) in all() {
            get(channel.set_option(option));
            get(listener.set_option(option));
        }
        assert_all("the client", &socket_of(&channel));
        assert_all("the listener", &socket_of(&listener));
        let later = TcpStream::connect(ip(listener.local_address())).unwrap();
        let child = accepted(rig, later.local_addr().unwrap());
        assert_all("a child that came later", &socket_of(&child));
    });
}

#[test]
fn c11_options_set_while_deregistered_are_applied_on_registration() {
    on_every_loop(|rig| {
        let listener = get(server(rig).bind("127.0.0.1:0"));
        let channel = get(client(rig).connect(ip(listener.local_address())));
        for away in [&listener, &channel] {
            get(away.deregister());
            for (option, _) in all() {
                get(away.set_option(option));
            }
            get(away.register());
            assert_all("it", &socket_of(away));
        }
    });
}

#[test]
fn c11_an_option_refused_on_registration_closes_the_channel() {
    on_every_loop(|rig| {
        let listener = get(server(rig).bind("127.0.0.1:0"));
        let channel = get(client(rig).connect(ip(listener.local_address())));
        for away in [&listener, &channel] {
            get(away.deregister());
            get(away.set_option(SocketOption::OnlyV6(true)));
            let error = away.register().join().unwrap_err().to_string();
            assert!(error.contains("only_v6"), "{error}");
            away.closed().wait_timeout(TIME_LIMIT).expect("the channel is closed");
        }
    });
}

#[test]
fn c11_tcp_nodelay_and_so_reuseaddr_are_set_by_default() {
    on_every_loop(|rig| {
        let listener = get(server(rig).bind("127.0.0.1:0"));
        let channel = get(client(rig).connect(ip(listener.local_address())));
        let child = accepted(rig, ip(channel.local_address()));
        let look = |channel: &Channel| socket_of(channel);
        assert!(SockRef::from(&look(&listener)).reuse_address().unwrap());
        assert!(!SockRef::from(&look(&listener)).reuse_port().unwrap());
        assert!(!SockRef::from(&look(&channel)).reuse_address().unwrap());
        for channel in [&channel, &child] {
            let fd = look(channel);
            assert!(SockRef::from(&fd).tcp_nodelay().unwrap());
            assert!(!SockRef::from(&fd).keepalive().unwrap());
            assert_eq!(SockRef::from(&fd).linger().unwrap(), None);
        }
    });
}

#[test]
fn c11_of_two_equal_options_the_last_wins() {
    on_every_loop(|rig| {
        let listener = get(server(rig)
            .socket_option(SocketOption::KeepAliveCount(3))
            .child_socket_option(SocketOption::KeepAliveCount(4))
            .socket_option(SocketOption::ReuseAddress(true))
            .socket_option(SocketOption::ReuseAddress(false))
            .bind("127.0.0.1:0"));
        let fd = socket_of(&listener);
        assert!(!SockRef::from(&fd).reuse_address().unwrap());
        assert_eq!(sockopt::tcp_keepcnt(&fd).unwrap(), 4, "child options are set last");
        drop(fd);
        let channel = get(client(rig)
            .socket_option(SocketOption::NoDelay(false))
            .socket_option(SocketOption::NoDelay(true))
            .connect(ip(listener.local_address())));
        assert!(SockRef::from(&socket_of(&channel)).tcp_nodelay().unwrap());
    });
}

#[test]
fn c11_listeners_share_a_port_if_both_set_so_reuseport() {
    on_every_loop(|rig| {
        let sharing = server(rig).socket_option(SocketOption::ReusePort(true));
        let first = get(sharing.bind("127.0.0.1:0"));
        let second = get(sharing.bind(ip(first.local_address())));
        assert_eq!(first.local_address(), second.local_address());
        let error = server(rig).bind(ip(first.local_address())).join().unwrap_err().to_string();
        assert!(error.contains("in use"), "{error}");
    });
}

#[test]
fn c11_the_options_of_listeners_are_set() {
    on_every_loop(|rig| {
        let listener = get(server(rig)
            .socket_option(SocketOption::FastOpen(17))
            .socket_option(SocketOption::DeferAccept(Duration::from_secs(1)))
            .socket_option(SocketOption::Backlog(3))
            .socket_option(SocketOption::Backlog(5))
            .bind("127.0.0.1:0"));
        // TCP_DEFER_ACCEPT: a connection is accepted after its first bytes.
        let quiet = TcpStream::connect(ip(listener.local_address())).unwrap();
        rig.assert_not_spinning();
        assert_eq!(rig.event_loop.metrics().channels, 1);
        std::io::Write::write_all(&mut &quiet, b"x").unwrap();
        accepted(rig, quiet.local_addr().unwrap());
        let six = get(server(rig).socket_option(SocketOption::OnlyV6(true)).bind("[::1]:0"));
        assert!(ip(six.local_address()).is_ipv6());
        get(server(rig).socket_option(SocketOption::TypeOfService(8)).bind("[::1]:0"));
    });
}

#[test]
fn c11_a_backlog_limits_how_many_connections_wait() {
    on_every_loop(|rig| {
        let quiet = waterwheel_channel::ChannelOptions { auto_read: false, ..Default::default() };
        let waiting = |backlog: u32| {
            let listener = get(server(rig)
                .options(quiet)
                .socket_option(SocketOption::Backlog(100))
                .socket_option(SocketOption::Backlog(backlog))
                .bind("127.0.0.1:0"));
            let address = ip(listener.local_address());
            let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(100)).ok();
            let peers: Vec<_> = (0..20).map_while(|_| connect()).collect();
            peers.len()
        };
        assert_eq!(waiting(2), 3, "the kernel takes one more than the backlog");
        assert_eq!(waiting(100), 20);
    });
}

#[test]
fn c11_an_option_that_cannot_be_set_is_named_in_the_error() {
    on_every_loop(|rig| {
        let listener = get(server(rig).bind("127.0.0.1:0"));
        let address = ip(listener.local_address());
        let refused = |option| {
            let words = [
                client(rig).socket_option(option).connect(address).join().unwrap_err().to_string(),
                server(rig)
                    .child_socket_option(option)
                    .bind("127.0.0.1:0")
                    .join()
                    .unwrap_err()
                    .to_string(),
                listener.set_option(option).join().unwrap_err().to_string(),
            ];
            for error in words {
                assert!(error.contains(option.name()), "{error}");
            }
        };
        refused(SocketOption::Backlog(5));
        refused(SocketOption::OnlyV6(true));
        refused(SocketOption::KeepAliveCount(100_000));
        refused(SocketOption::KeepAliveIdle(Duration::from_secs(100_000)));
        let error = server(rig)
            .socket_option(SocketOption::KeepAliveCount(0))
            .bind("127.0.0.1:0")
            .join()
            .unwrap_err();
        assert!(error.to_string().contains("keep_alive_count"), "{error}");
        let channel = get(client(rig).connect(address));
        let error = channel.set_option(SocketOption::Backlog(5)).join().unwrap_err().to_string();
        assert!(error.contains("backlog"), "{error}");
        assert!(channel.is_active() && listener.is_active(), "the channels stay open");
        get(channel.close());
        let error = channel.set_option(SocketOption::NoDelay(true)).join().unwrap_err().to_string();
        assert_eq!(error, "the channel is closed");
    });
}

#[test]
fn c11_an_option_set_during_the_connect_is_kept() {
    on_every_loop(|rig| {
        let listener = get(server(rig).bind("127.0.0.1:0"));
        let address = ip(listener.local_address());
        let new = waterwheel_channel::NewChannel::new(waterwheel_channel::Stream::new(Tcp));
        let channel = get(group(rig).register(new));
        // Both calls run in one task on the loop: the connect cannot finish before the task returns.
        let here = channel.clone();
        let (connected, set) = rig.run_on_loop(move |_| {
            let connected = here.connect(address);
            (connected, here.set_option(SocketOption::KeepAliveCount(6)))
        });
        get(connected);
        get(set);
        assert_eq!(sockopt::tcp_keepcnt(socket_of(&channel).as_fd()).unwrap(), 6);
    });
}
