//! Accept guards over real sockets (K10). Clients have different addresses of 127.0.0.0/8, all of which are this host.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, connect, socket, sockopt};
use waterwheel::bytes::Bytes;
use waterwheel::channel::{
    Address, Channel, Ctx, EventLoopGroup, GuardChain, HandlerResult, In, InboundHandler, Network,
    Refusals, ServerBootstrap, UnixAddress,
};
use waterwheel::codec::ProxyServer;
use waterwheel::handlers::{AcceptRate, AddressLimit, NetworkFilter, NetworkRules};
use waterwheel::net::{Blocking, Epoll, Poll, Tcp, Unix, existing_listener};

use crate::program::WAIT_LIMIT;

/// Echoes bytes, and panics if it reads "panic".
struct Echo;

impl InboundHandler for Echo {
    type In = Bytes;

    fn on_read(&mut self, ctx: &Ctx<'_>, bytes: Bytes) -> HandlerResult {
        if bytes == "panic" {
            std::panic::resume_unwind(Box::new("as asked"));
        }
        ctx.write_and_flush(bytes);
        Ok(())
    }
}

fn echo_server(group: &EventLoopGroup, guards: &GuardChain) -> ServerBootstrap {
    ServerBootstrap::new(group, Tcp).accept_guards(guards).child_initialiser(|edit| {
        edit.add_last("echo", In(Echo))?;
        Ok(())
    })
}

/// The servers of a test: one, or one on each loop.
enum Bound {
    One(Channel),
    EachLoop(waterwheel::channel::Servers),
}

impl Bound {
    fn address(&self) -> SocketAddr {
        let address = match self {
            Bound::One(server) => server.local_address(),
            Bound::EachLoop(servers) => servers.local_address(),
        };
        address.and_then(|address| address.socket_addr()).unwrap()
    }
}

/// Runs a test over each driver: with a server for all loops, with one on each loop, at an existing socket, and with a
/// loop for each channel.
fn over_servers(test: impl Fn(&EventLoopGroup, &dyn Fn(&GuardChain) -> Bound)) {
    let shared = [
        EventLoopGroup::builder(Epoll).threads(2).build().unwrap(),
        EventLoopGroup::builder(Poll).threads(2).build().unwrap(),
    ];
    for group in &shared {
        test(group, &|guards| {
            Bound::One(echo_server(group, guards).bind("127.0.0.1:0").join().unwrap())
        });
        test(group, &|guards| {
            let servers = echo_server(group, guards).bind_on_each_loop("127.0.0.1:0");
            Bound::EachLoop(servers.join().unwrap())
        });
    }
    test(&shared[0], &|guards| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let listener = existing_listener(listener).unwrap();
        Bound::One(echo_server(&shared[0], guards).listen_on(listener).join().unwrap())
    });
    let own_loops = EventLoopGroup::per_channel(Blocking).build().unwrap();
    test(&own_loops, &|guards| {
        Bound::One(echo_server(&own_loops, guards).bind("127.0.0.1:0").join().unwrap())
    });
}

/// Connects to a server from this address.
fn connect_from(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let stream = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&stream, &SocketAddr::from((from, 0))).unwrap();
    connect(&stream, &to).unwrap();
    let stream = TcpStream::from(stream);
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    stream.set_write_timeout(Some(WAIT_LIMIT)).unwrap();
    stream
}

fn assert_served(stream: &mut TcpStream) {
    let mut answer = [0; 4];
    stream.write_all(b"ping").unwrap();
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"ping");
}

/// Waits until the server has closed the connection: the peer sees its end or a reset.
fn assert_closed(mut stream: impl Read) {
    match stream.read(&mut [0; 16]) {
        Ok(0) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        other => panic!("the connection is not closed: {other:?}"),
    }
}

/// Returns the `n`th address of 127.1.0.0/16.
fn nth_source(n: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x7f01_0000 | u32::from(n))
}

fn network(text: &str) -> Network {
    text.parse().unwrap()
}

/// Waits until a condition holds, with a limit.
#[track_caller]
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..20_000_000 {
        if holds() {
            return;
        }
        std::thread::yield_now();
    }
    panic!("timed out waiting until {what}");
}

fn refused_by_loops(group: &EventLoopGroup) -> u64 {
    group.children().map(|each| each.metrics().refused_connections).sum()
}

#[test]
fn k10_a_denied_network_is_closed_at_once_and_others_are_served() {
    over_servers(|group, serve| {
        let rules = NetworkRules::allow_by_default()
            .deny(network("127.0.0.0/24"))
            .allow(network("127.0.0.1"));
        let filter = NetworkFilter::new(rules);
        let guards = GuardChain::new().add("networks", filter.clone());
        let before = refused_by_loops(group);
        let server = serve(&guards);
        let mut good = connect_from(Ipv4Addr::LOCALHOST, server.address());
        for n in 1..=20 {
            let mut refused = connect_from(Ipv4Addr::new(127, 0, 0, 2), server.address());
            if n % 2 == 0 {
                // Fails if the connection is closed by now. Unread bytes make the kernel send a reset.
                let _ = refused.write(b"let me in");
            }
            assert_closed(refused);
            assert_served(&mut good);
            let count = Refusals { guard: "networks", reason: NetworkFilter::DENIED, count: n };
            wait_until("the refusal is counted", || guards.refusals() == [count]);
        }
        assert_eq!(refused_by_loops(group), before + 20, "the loops count too");
        let mut other = connect_from(Ipv4Addr::new(127, 0, 1, 2), server.address());
        assert_served(&mut other);
        filter.deny(network("127.0.1.0/24"));
        assert_closed(connect_from(Ipv4Addr::new(127, 0, 1, 2), server.address()));
        assert_served(&mut other); // Open connections stay open.
    });
}

#[test]
fn k10_an_ipv4_client_of_a_server_for_both_versions_is_filtered_as_ipv4() {
    let group = EventLoopGroup::builder(Epoll).threads(1).build().unwrap();
    let rules = NetworkRules::allow_by_default().deny(network("127.0.0.2"));
    let guards = GuardChain::new().add("networks", NetworkFilter::new(rules));
    let server = echo_server(&group, &guards).bind("[::]:0").join().unwrap();
    let port = server.local_address().unwrap().port().unwrap();
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    assert_closed(connect_from(Ipv4Addr::new(127, 0, 0, 2), to));
    assert_served(&mut connect_from(Ipv4Addr::LOCALHOST, to));
    wait_until("the refusal is counted", || guards.refused() == 1);
}

#[test]
fn k10_connections_of_an_address_are_limited_until_one_is_closed_in_whatever_way() {
    over_servers(|_, serve| {
        let limit = AddressLimit::new(2);
        let guards = GuardChain::new().add("per address", limit.clone());
        let server = serve(&guards);
        let from = Ipv4Addr::new(127, 0, 0, 3);
        let open = || limit.open(from.into());
        let connect = || connect_from(from, server.address());
        let mut kept = connect();
        assert_served(&mut kept);
        let endings: [fn(TcpStream); 3] = [
            drop,
            |stream| {
                let linger = Some(Duration::ZERO); // The close sends a reset.
                sockopt::set_socket_linger(&stream, linger).unwrap();
            },
            |mut stream| {
                stream.write_all(b"panic").unwrap();
                assert_closed(stream);
            },
        ];
        for (refused, end) in endings.into_iter().enumerate() {
            let mut second = connect();
            assert_served(&mut second);
            assert_eq!(open(), 2);
            assert_closed(connect());
            wait_until("the refusal is counted", || guards.refused() == refused as u64 + 1);
            assert_served(&mut connect_from(Ipv4Addr::LOCALHOST, server.address()));
            end(second);
            wait_until("the place is free", || open() == 1);
        }
        assert_served(&mut kept);
        drop(kept);
        wait_until("nothing is left", || limit.addresses() == 0);
    });
}

#[test]
fn k10_permits_of_connections_that_come_and_go_on_many_threads_do_not_leak() {
    over_servers(|_, serve| {
        let limit = AddressLimit::new(3);
        let guards = GuardChain::new().add("per address", limit.clone());
        let server = serve(&guards);
        let address = server.address();
        std::thread::scope(|scope| {
            for thread in 0..4_u16 {
                let limit = &limit;
                scope.spawn(move || {
                    for round in 0..50 {
                        let from = nth_source((thread + round) % 2);
                        let mut stream = connect_from(from, address);
                        // Served or refused, as it happens; in the middle of either in each third round.
                        let _ = stream.write(b"ping");
                        if round % 3 != 0 {
                            let _ = stream.read(&mut [0; 4]);
                        }
                        assert!(limit.open(from.into()) <= 3);
                    }
                });
            }
        });
        wait_until("every permit is given back", || limit.addresses() == 0);
        assert_served(&mut connect_from(nth_source(0), address));
    });
}

#[test]
fn k10_a_flood_of_addresses_takes_bounded_memory_and_a_good_client_is_served_meanwhile() {
    const FLOOD: u16 = 3_000;
    const TRACKED: usize = 200;
    over_servers(|_, serve| {
        let hour = Duration::from_secs(3600); // No bucket fills during the test.
        let rate = AcceptRate::builder(1, hour).burst(5).max_addresses(TRACKED).build().unwrap();
        let flood = NetworkRules::allow_by_default().deny(network("127.1.0.0/16"));
        let guards =
            GuardChain::new().add("rate", rate.clone()).add("networks", NetworkFilter::new(flood));
        let server = serve(&guards);
        let address = server.address();
        let greedy = Ipv4Addr::new(127, 0, 0, 5);
        for _ in 0..5 {
            assert_served(&mut connect_from(greedy, address));
        }
        let is_over = AtomicBool::new(false);
        let served = std::thread::scope(|scope| {
            let good = scope.spawn(|| {
                let mut good = connect_from(Ipv4Addr::LOCALHOST, address);
                let mut served = 0;
                while !is_over.load(Ordering::Acquire) {
                    assert_served(&mut good);
                    served += 1;
                }
                served
            });
            for n in 0..FLOOD {
                assert_closed(connect_from(nth_source(n), address));
                assert!(rate.tracked_addresses() <= TRACKED);
            }
            is_over.store(true, Ordering::Release);
            good.join().unwrap()
        });
        assert!(served > 10, "{served} echoes during the flood");
        assert_closed(connect_from(greedy, address)); // Its bucket was not evicted.
        assert_served(&mut connect_from(Ipv4Addr::new(127, 0, 0, 6), address));
        let denied = NetworkFilter::DENIED;
        wait_until("all are counted", || {
            guards.refusals()
                == [
                    Refusals { guard: "rate", reason: AcceptRate::TOO_FAST, count: 1 },
                    Refusals { guard: "networks", reason: denied, count: FLOOD.into() },
                ]
        });
        assert_eq!(rate.tracked_addresses(), TRACKED);
    });
}

#[test]
fn k10_guards_by_address_admit_clients_of_unix_sockets_and_a_filter_gives_them_its_default() {
    let group = EventLoopGroup::builder(Epoll).threads(1).build().unwrap();
    let place = UnixAddress::abstract_name(format!("guards {}", std::process::id()));
    let rate = AcceptRate::builder(1, Duration::from_secs(3600)).build().unwrap();
    let filter = NetworkFilter::new(NetworkRules::allow_by_default().deny(network("0.0.0.0/0")));
    let guards = GuardChain::new()
        .add("rate", rate)
        .add("per address", AddressLimit::new(1))
        .add("networks", filter.clone());
    let server = ServerBootstrap::new(&group, Unix).accept_guards(&guards);
    let server = server.child_initialiser(|edit| {
        edit.add_last("echo", In(Echo))?;
        Ok(())
    });
    let _server = server.bind(Address::from(place.clone())).join().unwrap();
    let connect = || {
        use std::os::linux::net::SocketAddrExt;
        let UnixAddress::Abstract(name) = &place else { unreachable!("made above") };
        let place = std::os::unix::net::SocketAddr::from_abstract_name(&**name).unwrap();
        let stream = UnixStream::connect_addr(&place).unwrap();
        stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
        stream
    };
    let mut open = [connect(), connect(), connect()];
    for stream in &mut open {
        let mut answer = [0; 4];
        stream.write_all(b"ping").unwrap();
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"ping");
    }
    filter.set_rules(NetworkRules::deny_by_default().allow(network("0.0.0.0/0")));
    assert_closed(connect());
    wait_until("the refusal is counted", || guards.refused() == 1);
}

/// The guards see the proxy; the rules for its clients are asked after the PROXY header.
#[test]
fn k10_a_filter_decides_which_proxies_are_trusted() {
    let group = EventLoopGroup::builder(Epoll).threads(1).build().unwrap();
    let rules = NetworkRules::deny_by_default().allow(network("127.0.0.8/29"));
    let proxies = NetworkFilter::new(rules);
    let server = ServerBootstrap::new(&group, Tcp).child_initialiser(move |edit| {
        let proxies = proxies.clone();
        edit.add_last(
            "proxy",
            ProxyServer::new(move |peer: Option<&Address>| proxies.allows(peer)),
        )?;
        edit.add_last("echo", In(Echo))?;
        Ok(())
    });
    let server = server.bind("127.0.0.1:0").join().unwrap();
    let address = server.local_address().and_then(|address| address.socket_addr()).unwrap();
    let connect = |last: u8| {
        let mut stream = connect_from(Ipv4Addr::new(127, 0, 0, last), address);
        stream.write_all(b"PROXY TCP4 192.0.2.1 192.0.2.2 1000 80\r\n").unwrap();
        stream
    };
    assert_served(&mut connect(9));
    assert_closed(connect(7));
}
