//! TCP servers and clients: names, addresses, time limits, initialisers, shutdown (C12, L10, E21).

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::driver::SocketOption;
use waterwheel_channel::{
    Address, Bootstrap, ChannelOptions, EventLoopGroup, Resolver, ServerBootstrap,
};
use waterwheel_executor::{Error, Promise};
use waterwheel_net::{Epoll, Tcp};

use crate::loop_rig::{LoopRig, TIME_LIMIT, get, on_every_loop};
use crate::probe::{Echo, Probe, ProbedServer, echo, group, ip, read_to_end, wait_until};

/// Resolves every name to the same addresses.
struct FixedResolver(Vec<SocketAddr>);

impl Resolver for FixedResolver {
    fn resolve(&self, _: &str, found: Promise<Vec<Address>>) {
        found.set_success(self.0.iter().map(|address| (*address).into()).collect());
    }
}

/// Returns an address without a listener.
fn unused_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn client(rig: &LoopRig) -> Bootstrap {
    Bootstrap::new(&group(rig), Tcp)
}

#[test]
fn c12_a_client_connects_to_localhost_by_its_name() {
    on_every_loop(|rig| {
        let (_server, address) = echo(rig);
        let channel = get(client(rig).connect(("localhost", address.port())));
        assert_eq!(ip(channel.peer_address()), address);
        assert!(ip(channel.local_address()).port() != 0);
        let named = get(client(rig).connect(format!("localhost:{}", address.port())));
        assert_eq!(ip(named.peer_address()), address);
    });
}

#[test]
fn c12_an_unknown_host_name_is_named_in_the_error() {
    on_every_loop(|rig| {
        let error = client(rig).connect("no.such.name.invalid:80").join().unwrap_err().to_string();
        assert!(error.contains("no.such.name.invalid:80"), "{error}");
        let error = client(rig).connect("without-a-port").join().unwrap_err().to_string();
        assert!(error.contains("without-a-port"), "{error}");
    });
}

#[test]
fn c12_the_addresses_of_a_name_are_tried_until_one_accepts() {
    on_every_loop(|rig| {
        let (_server, address) = echo(rig);
        let (first, second) = (unused_address(), unused_address());
        let some = Arc::new(FixedResolver(vec![first, second, address]));
        let channel = get(client(rig).resolver(some).connect("name:1"));
        assert_eq!(ip(channel.peer_address()), address);
        let none = Arc::new(FixedResolver(vec![first, second]));
        let error = client(rig).resolver(none).connect("name:1").join().unwrap_err().to_string();
        let at = |address: SocketAddr| error.find(&address.to_string());
        assert!(at(first).is_some() && at(first) < at(second), "{error}");
        rig.assert_not_spinning();
        wait_until("no timers", || rig.event_loop.metrics().timers == 0);
    });
}

#[test]
fn c12_a_client_connects_from_its_local_address() {
    on_every_loop(|rig| {
        let server = ProbedServer::open(rig, |server| server);
        let from: SocketAddr = "127.0.0.2:0".parse().unwrap();
        let channel = get(client(rig).local_address(from).connect(server.address));
        let local = ip(channel.local_address());
        assert_eq!(local.ip(), from.ip());
        let (accepted, _) = server.accepted();
        assert_eq!(ip(accepted.peer_address()), local);
        assert_eq!(ip(accepted.local_address()), server.address);

        let taken = ip(server.listener.local_address());
        let error = client(rig).local_address(taken).connect(server.address).join().unwrap_err();
        assert!(error.to_string().contains(&format!("cannot connect from {taken}")), "{error}");
    });
}

/// Returns the address of a listener that does not answer, because its backlog is full.
fn full_listener() -> (SocketAddr, Vec<TcpStream>, socket2::Socket) {
    let listener =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    listener.bind(&any.into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let mut waiting = Vec::new();
    while let Ok(peer) = TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
        waiting.push(peer);
    }
    (address, waiting, listener)
}

#[test]
fn c12_an_unanswered_connect_times_out_or_is_cancelled() {
    let (address, _waiting, _listener) = full_listener();
    on_every_loop(|rig| {
        let brief = ChannelOptions {
            connect_timeout: Some(Duration::from_millis(50)),
            ..Default::default()
        };
        let error = client(rig).options(brief).connect(address).join().unwrap_err().to_string();
        assert!(error.contains(&address.to_string()) && error.contains("after"), "{error}");
        let connected = client(rig).connect(address);
        rig.assert_not_spinning();
        assert_eq!(rig.event_loop.metrics().registrations, 1);
        assert!(connected.cancel());
        wait_until("the connect is given up", || {
            let metrics = rig.event_loop.metrics();
            (metrics.registrations, metrics.channels, metrics.timers) == (0, 0, 0)
        });
    });
}

#[test]
fn c12_a_port_in_use_is_named_in_the_error_and_free_again_after_a_close() {
    on_every_loop(|rig| {
        let (first, address) = echo(rig);
        let server = ServerBootstrap::new(&group(rig), Tcp);
        let error = server.bind(address).join().unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot listen at {address}: ")), "{error}");
        assert!(error.contains("in use"), "{error}");
        // The address of a connection that is still open.
        let mut peer = TcpStream::connect(address).unwrap();
        std::io::Write::write_all(&mut peer, b"x").unwrap();
        std::io::Read::read_exact(&mut peer, &mut [0]).unwrap();
        get(first.close());
        let again = get(server.bind(address));
        assert_eq!(ip(again.local_address()), address);
        get(again.close());
        wait_until("only the connection is registered", || {
            rig.event_loop.metrics().registrations == 1
        });
    });
}

#[test]
fn c12_a_failing_initialiser_of_a_child_closes_its_socket() {
    on_every_loop(|rig| {
        let made = AtomicUsize::new(0);
        let server =
            ServerBootstrap::new(&group(rig), Tcp).child_initialiser(move |edit| {
                match made.fetch_add(1, Ordering::Relaxed) {
                    0 => Err(Error::new("no key for you")),
                    _ => Ok(edit.add_last("echo", Echo).map(drop)?),
                }
            });
        let server = get(server.bind("127.0.0.1:0"));
        let address = ip(server.local_address());
        let mut first = TcpStream::connect(address).unwrap();
        assert_eq!(read_to_end(&mut first), b"");
        rig.wait_for_report("no key for you");
        let mut second = TcpStream::connect(address).unwrap();
        std::io::Write::write_all(&mut second, b"x").unwrap();
        std::io::Read::read_exact(&mut second, &mut [0]).unwrap();
        assert_eq!(rig.event_loop.metrics().channels, 2);
    });
}

#[test]
fn c12_connections_are_spread_over_the_workers() {
    let boss = EventLoopGroup::builder(Epoll).threads(1).build().unwrap();
    let workers = EventLoopGroup::builder(Epoll).threads(4).build().unwrap();
    let server = ServerBootstrap::new(&workers, Tcp).boss(&boss).child_initialiser(|edit| {
        edit.add_last("echo", Echo)?;
        Ok(())
    });
    let server = get(server.bind("127.0.0.1:0"));
    let address = ip(server.local_address());
    let peers: Vec<_> = (0..40).map(|_| TcpStream::connect(address).unwrap()).collect();
    wait_until("all connections are registered", || {
        workers.children().all(|it| it.metrics().channels == 10)
    });
    assert_eq!(boss.next().metrics().channels, 1);

    // The workers shut down: later connections are closed, and the server stays.
    workers
        .shutdown_gracefully(Duration::ZERO, TIME_LIMIT)
        .unwrap()
        .wait_timeout(TIME_LIMIT)
        .unwrap();
    for mut peer in peers {
        assert_eq!(read_to_end(&mut peer), b"");
    }
    for _ in 0..40 {
        assert_eq!(read_to_end(&mut TcpStream::connect(address).unwrap()), b"");
    }
    assert!(server.is_active());
    boss.shutdown_gracefully(Duration::ZERO, TIME_LIMIT).unwrap().wait_timeout(TIME_LIMIT).unwrap();
    assert!(TcpStream::connect(address).is_err(), "the listener is closed");
}

#[test]
fn c12_a_connection_with_tcp_fast_open_works_like_any_other() {
    on_every_loop(|rig| {
        let (_server, address) = echo(rig);
        let (probe, log) = Probe::new();
        let probe = std::sync::Mutex::new(Some(probe));
        let fast = client(rig).socket_option(SocketOption::FastOpenConnect(true)).initialiser(
            move |edit| {
                edit.add_last("probe", probe.lock().unwrap().take().expect("one connection"))?;
                Ok(())
            },
        );
        let channel = get(fast.connect(address));
        channel.send(Bytes::from("hello"));
        assert_eq!(log.take(3), ["registered", "active", "read hello"]);
        get(channel.close());
    });
}

#[test]
fn l10_a_shutdown_closes_servers_and_connections_with_writes_in_flight() {
    on_every_loop(|rig| {
        let server = ProbedServer::open(rig, |server| {
            server.child_socket_option(SocketOption::SendBuffer(8 * 1024))
        });
        let mut all: Vec<_> = (0..20).map(|_| server.connect()).collect();
        let unread = Bytes::from(vec![7; 4_000_000]);
        let writes: Vec<_> = all
            .iter()
            .enumerate()
            .map(|(n, (channel, _, _))| match n % 2 {
                0 => channel.write_and_flush(Bytes::from("last words")),
                _ => channel.write_and_flush(unread.clone()),
            })
            .collect();
        rig.end();
        for (n, ((channel, peer, log), written)) in all.iter_mut().zip(writes).enumerate() {
            assert!(channel.closed().is_done() && !channel.is_open());
            assert_eq!(written.join().is_ok(), n % 2 == 0);
            let got = read_to_end(peer);
            assert!(n % 2 == 1 || got == b"last words", "{n}: {} bytes", got.len());
            assert_eq!(log.until_removed(), ["inactive", "unregistered", "removed"]);
        }
        assert!(TcpStream::connect(server.address).is_err());
    });
}

fn loops(threads: usize) -> EventLoopGroup {
    EventLoopGroup::builder(Epoll).threads(threads).build().unwrap()
}

#[test]
fn e21_a_server_does_not_keep_its_own_loops_alive() {
    let group = loops(2);
    let ended = group.termination();
    let server = get(ServerBootstrap::new(&group, Tcp).bind("127.0.0.1:0"));
    let mut peer = TcpStream::connect(ip(server.local_address())).unwrap();
    drop(group);
    ended.wait_timeout(TIME_LIMIT).unwrap();
    assert!(!server.is_open());
    assert_eq!(read_to_end(&mut peer), b"");
}

#[test]
fn e21_a_server_keeps_the_loops_of_its_connections_alive_until_it_is_closed() {
    let (boss, workers) = (loops(1), loops(2));
    let ended = workers.termination();
    let server = ServerBootstrap::new(&workers, Tcp).boss(&boss).child_initialiser(|edit| {
        edit.add_last("echo", Echo)?;
        Ok(())
    });
    drop(workers);
    let bound = get(server.bind("127.0.0.1:0"));
    drop(server);
    let mut peer = TcpStream::connect(ip(bound.local_address())).unwrap();
    peer.write_all(b"there").unwrap();
    let mut back = [0; 5];
    peer.read_exact(&mut back).unwrap();
    assert!(!ended.is_done());
    drop(boss);
    ended.wait_timeout(TIME_LIMIT).unwrap();
    assert_eq!(read_to_end(&mut peer), b"");
}
