//! Channels over sockets that exist already (C12).

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::net::sockopt;
use waterwheel_channel::driver::SocketOption;
use waterwheel_channel::{Address, Bootstrap, ConnectionLimit, Listener, ServerBootstrap, Stream};
use waterwheel_executor::Error;
use waterwheel_net::{Tcp, existing_listener, existing_stream};

use crate::loop_rig::{LoopRig, TIME_LIMIT, get, on_every_loop};
use crate::probe::{Echo, Probe, group, ip, wait_until};

fn echo(rig: &LoopRig) -> ServerBootstrap {
    ServerBootstrap::new(&group(rig), Tcp).child_initialiser(|edit| {
        edit.add_last("echo", Echo)?;
        Ok(())
    })
}

fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Returns both ends of a connection.
fn pair() -> (TcpStream, TcpStream) {
    let (listener, address) = listen();
    let ours = TcpStream::connect(address).unwrap();
    (ours, listener.accept().unwrap().0)
}

#[track_caller]
fn assert_echoes(peer: &mut (impl Read + Write)) {
    peer.write_all(b"ping").unwrap();
    let mut back = [0; 4];
    peer.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"ping");
}

#[test]
fn c12_an_existing_listener_is_served_with_its_waiting_connections() {
    on_every_loop(|rig| {
        let (listener, address) = listen();
        let mut early = TcpStream::connect(address).unwrap();
        let server = get(echo(rig).listen_on(existing_listener(listener).unwrap()));
        assert!(server.is_active() && server.is_server());
        assert_eq!(ip(server.local_address()), address);
        assert_echoes(&mut early);
        assert_echoes(&mut TcpStream::connect(address).unwrap());
        get(server.close());
        assert!(TcpStream::connect(address).is_err());
        TcpListener::bind(address).expect("the address is free");
    });
}

#[test]
fn c12_an_existing_connection_becomes_a_channel() {
    on_every_loop(|rig| {
        let (ours, mut theirs) = pair();
        let (here, there) = (ours.local_addr().unwrap(), ours.peer_addr().unwrap());
        let (sender, events) = std::sync::mpsc::channel();
        let clients = Bootstrap::new(&group(rig), Tcp).initialiser(move |edit| {
            let (probe, log) = Probe::new();
            let _ = sender.send(log);
            edit.add_last("probe", probe)?;
            Ok(())
        });
        theirs.write_all(b"early").unwrap();
        let channel = get(clients.adopt(existing_stream(ours).unwrap()));
        assert!(channel.is_active());
        let addresses = (ip(channel.local_address()), ip(channel.peer_address()));
        assert_eq!(addresses, (here, there));
        let log = events.recv_timeout(TIME_LIMIT).unwrap();
        assert_eq!(log.take(3), ["registered", "active", "read early"]);
        get(channel.write_and_flush(bytes::Bytes::from_static(b"answer")));
        let mut answer = [0; 6];
        theirs.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"answer");
        theirs.shutdown(Shutdown::Both).unwrap();
        channel.closed().wait_timeout(TIME_LIMIT).unwrap();
    });
}

#[test]
fn c12_options_are_set_on_existing_sockets_and_unset_ones_stay_unchanged() {
    on_every_loop(|rig| {
        let (listener, address) = listen();
        let seen = listener.try_clone().unwrap();
        let server = echo(rig)
            .socket_option(SocketOption::KeepAlive(true))
            .child_socket_option(SocketOption::NoDelay(true));
        let limit = ConnectionLimit::new(1);
        get(server.connection_limit(&limit).listen_on(existing_listener(listener).unwrap()));
        assert!(sockopt::socket_keepalive(&seen).unwrap() && sockopt::tcp_nodelay(&seen).unwrap());
        let mut peer = TcpStream::connect(address).unwrap();
        assert_echoes(&mut peer);
        assert_eq!(limit.open(), 1);

        let (ours, _theirs) = pair();
        let seen = ours.try_clone().unwrap();
        assert!(!sockopt::tcp_nodelay(&seen).unwrap());
        let clients = Bootstrap::new(&group(rig), Tcp);
        let keepalive = clients.clone().socket_option(SocketOption::KeepAlive(true));
        get(keepalive.adopt(existing_stream(ours).unwrap()));
        assert!(sockopt::socket_keepalive(&seen).unwrap());
        assert!(!sockopt::tcp_nodelay(&seen).unwrap(), "an option that was not given");
        let error = echo(rig).socket_option(SocketOption::Backlog(1));
        let error = error.listen_on(existing_listener(listen().0).unwrap()).join().unwrap_err();
        assert!(error.to_string().contains("backlog"), "{error}");
    });
}

#[test]
fn c12_existing_sockets_become_close_on_exec() {
    let (listener, _) = listen();
    let seen = listener.as_fd().try_clone_to_owned().unwrap();
    fcntl_setfd(&listener, FdFlags::empty()).unwrap();
    let number = listener.as_fd();
    assert!(!fcntl_getfd(number).unwrap().contains(FdFlags::CLOEXEC));
    let raw = std::os::fd::AsRawFd::as_raw_fd(&listener);
    let _listener = existing_listener(listener).unwrap();
    let flags = std::fs::read_to_string(format!("/proc/self/fdinfo/{raw}")).unwrap();
    let flags = flags.lines().find_map(|line| line.strip_prefix("flags:")).unwrap().trim();
    let flags = u32::from_str_radix(flags, 8).unwrap();
    assert_ne!(flags & rustix::fs::OFlags::CLOEXEC.bits(), 0, "{flags:o}");
    assert!(socket2::SockRef::from(&seen).nonblocking().unwrap());
}

#[test]
fn c12_a_descriptor_that_is_not_such_a_socket_is_refused_with_the_reason() {
    on_every_loop(|rig| {
        let file: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
        let (ours, theirs) = pair();
        let unconnected = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let refused = [
            (existing_listener(file).map(drop), "is not a socket"),
            (existing_listener(ours).map(drop), "does not listen"),
            (existing_listener(udp).map(drop), "is not a stream socket"),
            (existing_stream(listen().0).map(drop), "is not connected"),
            (existing_stream(unconnected.unwrap()).map(drop), "is not connected"),
        ];
        for (refused, words) in refused {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains(words), "{error}: {words}");
        }
        let stream = existing_stream(theirs).unwrap();
        let error = echo(rig).listen_on(stream).join().unwrap_err().to_string();
        assert!(error.contains("`tcp` cannot accept connections"), "{error}");
        let clients = Bootstrap::new(&group(rig), Tcp);
        let listener = existing_listener(listen().0).unwrap();
        let error = clients.adopt(listener).join().unwrap_err().to_string();
        assert!(error.contains("`tcp` cannot be a connection"), "{error}");
        for unfit in
            [echo(rig).listen_on(Listener::new(Tcp)).join(), clients.adopt(Stream::new(Tcp)).join()]
        {
            let error = unfit.unwrap_err().to_string();
            assert!(error.contains("not connected"), "{error}");
        }
        wait_until("no channel is left", || rig.event_loop.metrics().channels == 0);
    });
}

#[test]
fn c12_a_failing_initialiser_or_a_cancel_closes_an_existing_socket() {
    on_every_loop(|rig| {
        let bad = Bootstrap::new(&group(rig), Tcp).initialiser(|_| Err(Error::new("not today")));
        let (ours, mut theirs) = pair();
        theirs.set_read_timeout(Some(TIME_LIMIT)).unwrap();
        let error = bad.adopt(existing_stream(ours).unwrap()).join().unwrap_err().to_string();
        assert!(error.contains("not today"), "{error}");
        assert_eq!(theirs.read(&mut [0; 1]).unwrap(), 0);

        let (listener, address) = listen();
        let (hold, held) = std::sync::mpsc::channel::<()>();
        rig.event_loop.execute(move || assert!(held.recv().is_err())).unwrap();
        let served = echo(rig).listen_on(existing_listener(listener).unwrap());
        assert!(served.cancel());
        drop(hold);
        wait_until("the address is free", || TcpListener::bind(address).is_ok());
    });
}

#[test]
fn c12_existing_unix_listeners_are_served_too() {
    on_every_loop(|rig| {
        let name = format!("waterwheel-existing-{}-{}", std::process::id(), rig.is_epoll());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let server = get(echo(rig).listen_on(existing_listener(listener).unwrap()));
        assert!(matches!(server.local_address(), Some(Address::Unix(_))));
        let mut peer = UnixStream::connect(&path).unwrap();
        peer.set_read_timeout(Some(TIME_LIMIT)).unwrap();
        assert_echoes(&mut peer);
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let clients = Bootstrap::new(&group(rig), Tcp).initialiser(|edit| {
            edit.add_last("echo", Echo)?;
            Ok(())
        });
        get(clients.adopt(existing_stream(ours).unwrap()));
        assert_echoes(&mut theirs);
        std::fs::remove_file(&path).unwrap();
    });
}
