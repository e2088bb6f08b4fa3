//! The spread of connections over the workers (E18, C12).

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::ops::RangeInclusive;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use waterwheel_channel::{
    Address, AttrKey, Channel, Ctx, EventLoop, EventLoopGroup, Handler, HandlerResult, In,
    InboundHandler, NewChannel, ServerBootstrap,
};
use waterwheel_executor::{ByKey, Choice, Chooser, LeastLoaded, RoundRobin};
use waterwheel_net::{Epoll, Tcp};
use waterwheel_testkit::loop_suite::panic_quietly;

use crate::loop_rig::{TIME_LIMIT, get};
use crate::probe::{ip, wait_until};

const LOOPS: usize = 3;

/// About ten channels per worker: a command that was just taken may still count as queued.
const NEARLY_TEN: RangeInclusive<usize> = 9..=11;

/// Announces its channel when it becomes active.
struct AnnouncesChannel(Sender<Channel>);

impl Handler for AnnouncesChannel {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let _ = self.0.send(ctx.channel());
        Ok(())
    }
}

/// A server with an acceptor group of its own, so that the server's channel does not count as load of a worker.
struct WorkerServer {
    workers: EventLoopGroup,
    boss: EventLoopGroup,
    address: SocketAddr,
    shown: Receiver<Channel>,
}

impl WorkerServer {
    fn open(
        chooser: impl Chooser + 'static,
        how: impl FnOnce(ServerBootstrap) -> ServerBootstrap,
    ) -> Self {
        let loops = || EventLoopGroup::builder(Epoll);
        let workers = loops().threads(LOOPS).chooser(chooser).build().unwrap();
        let boss = loops().threads(1).build().unwrap();
        let (show, shown) = channel();
        let server =
            ServerBootstrap::new(&workers, Tcp).boss(&boss).child_initialiser(move |edit| {
                edit.add_last("announces", AnnouncesChannel(show.clone()))?;
                Ok(())
            });
        let address = ip(get(how(server).bind("127.0.0.1:0")).local_address());
        Self { workers, boss, address, shown }
    }

    /// Connects; returns the accepted channel and the peer.
    fn connect(&self) -> (Channel, TcpStream) {
        let peer = TcpStream::connect(self.address).unwrap();
        (self.shown.recv_timeout(TIME_LIMIT).expect("accepted in time"), peer)
    }

    /// Returns the number of channels of each worker.
    fn spread(&self) -> Vec<usize> {
        self.workers.children().map(|worker| worker.metrics().channels).collect()
    }

    fn number_of(&self, channel: &Channel) -> usize {
        let event_loop = channel.event_loop();
        self.workers.children().position(|worker| worker == event_loop).expect("a worker")
    }

    fn end(self) {
        for group in [self.boss, self.workers] {
            let ended = group.shutdown_gracefully(Duration::ZERO, TIME_LIMIT).unwrap();
            ended.wait_timeout(TIME_LIMIT).unwrap();
        }
    }
}

/// Fills the workers, closes all clients of the first two, and fills up again.
fn after_uneven_closes(server: &WorkerServer) -> Vec<usize> {
    let mut open: Vec<_> = (0..30).map(|_| server.connect()).collect();
    let spread = server.spread();
    assert!(spread.iter().all(|n| NEARLY_TEN.contains(n)), "even at first: {spread:?}");
    open.retain(|(channel, _)| server.number_of(channel) == 2);
    wait_until("their channels are closed", || server.spread()[..2] == [0, 0]);
    open.extend((open.len()..30).map(|_| server.connect()));
    server.spread()
}

#[test]
fn e18_round_robin_leaves_long_lived_connections_uneven() {
    let server = WorkerServer::open(RoundRobin::default(), |server| server);
    let spread = after_uneven_closes(&server);
    assert!(spread[2] >= 16 && spread[0] <= 7 && spread[1] <= 7, "{spread:?}");
    server.end();
}

#[test]
fn e18_by_load_long_lived_connections_even_out() {
    let server = WorkerServer::open(LeastLoaded::default(), |server| server);
    let spread = after_uneven_closes(&server);
    assert!(spread.iter().all(|n| NEARLY_TEN.contains(n)), "{spread:?}");
    server.end();
}

#[test]
fn e18_by_load_a_burst_is_spread_before_its_connections_are_registered() {
    let server = WorkerServer::open(LeastLoaded::default(), |server| server);
    let peers: Vec<_> = (0..90).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    let open: Vec<_> =
        peers.iter().map(|_| server.shown.recv_timeout(TIME_LIMIT).unwrap()).collect();
    let spread = server.spread();
    assert_eq!(spread.iter().sum::<usize>(), open.len());
    assert!(spread.iter().all(|n| (27..=33).contains(n)), "{spread:?}");
    server.end();
}

/// Always chooses the first worker, and reports its load.
struct ReportsLoad(Sender<usize>);

impl Chooser for ReportsLoad {
    fn choose(&self, choice: &Choice<'_>) -> usize {
        let _ = self.0.send(choice.load(0));
        0
    }
}

#[test]
fn e18_a_connection_counts_once_while_it_is_being_registered() {
    const BURST: usize = 20;
    let (note, loads) = channel();
    let server = WorkerServer::open(ReportsLoad(note), |server| {
        server.child_initialiser(|_| {
            // Runs on the worker for each registration: calls the chooser once more.
            let _ =
                EventLoop::current().and_then(|worker| worker.parent()).expect("a worker").next();
            Ok(())
        })
    });
    let first = server.workers.children().next().unwrap();
    let (release, held) = channel::<()>();
    first
        .execute(move || {
            let _ = held.recv();
        })
        .unwrap();
    let peers: Vec<_> = (0..BURST).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    let next_load = || loads.recv_timeout(TIME_LIMIT).unwrap();
    let placing: Vec<_> = peers.iter().map(|_| next_load()).collect();
    drop(release);
    let registering: Vec<_> = peers.iter().map(|_| next_load()).collect();
    // The task that held the worker may count as load a moment longer.
    assert!(placing.iter().enumerate().all(|(n, load)| (n..=n + 1).contains(load)), "{placing:?}");
    let expected = BURST - 1..=BURST;
    assert!(registering.iter().all(|load| expected.contains(load)), "{registering:?}");
    server.end();
}

/// Connects from this address.
fn connect_from(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.into()
}

fn peer_ip(accepted: &NewChannel) -> Option<IpAddr> {
    match accepted.peer_address() {
        Some(Address::Ip(peer)) => Some(peer.ip()),
        _ => None,
    }
}

#[test]
fn e18_by_key_all_connections_of_a_client_stay_on_one_loop() {
    let server = WorkerServer::open(ByKey::default(), |server| server.child_key(peer_ip));
    let mut homes = HashMap::new();
    let mut kept = Vec::new();
    for round in 0..3 {
        for client in 1..=12 {
            let from = Ipv4Addr::new(127, 0, 0, client);
            let peer = connect_from(from, server.address);
            let channel = server.shown.recv_timeout(TIME_LIMIT).unwrap();
            let worker = server.number_of(&channel);
            assert_eq!(*homes.entry(from).or_insert(worker), worker, "{from} in round {round}");
            if client % 2 == 0 {
                kept.push(peer);
            }
        }
    }
    let used: std::collections::HashSet<_> = homes.values().collect();
    assert!(used.len() > 1, "not all on one: {homes:?}");
    server.end();
}

static NUMBER: AttrKey<u32> = AttrKey::new("number");

/// Numbers accepted connections with an attribute, round robin.
struct NumbersConnections(u32);

impl InboundHandler for NumbersConnections {
    type In = NewChannel;

    fn on_read(&mut self, ctx: &Ctx<'_>, accepted: NewChannel) -> HandlerResult {
        self.0 += 1;
        ctx.fire_read(accepted.attribute(&NUMBER, self.0 % 5));
        Ok(())
    }
}

#[test]
fn e18_by_key_can_use_an_attribute_set_by_a_server_handler() {
    static OWNER: AttrKey<&str> = AttrKey::new("owner");
    let server = WorkerServer::open(ByKey::default(), |server| {
        server
            .initialiser(|edit| {
                edit.add_last("numbers", In(NumbersConnections(0)))?;
                Ok(())
            })
            .child_attribute(&OWNER, "ours")
            .child_attribute(&NUMBER, 99)
            .child_key(|accepted| accepted.get_attribute(&NUMBER))
    });
    let mut homes = HashMap::new();
    let mut open = Vec::new();
    for _ in 0..20 {
        let (channel, peer) = server.connect();
        let number = *channel.attribute(&NUMBER).expect("the attribute of the accepted connection");
        assert!(number < 5 && *channel.attribute(&OWNER).unwrap() == "ours");
        let worker = server.number_of(&channel);
        assert_eq!(*homes.entry(number).or_insert(worker), worker, "number {number}");
        open.push(peer);
    }
    assert_eq!(homes.len(), 5);
    server.end();
}

#[test]
fn e18_a_panicking_key_function_loses_no_connection() {
    let server = WorkerServer::open(ByKey::default(), |server| {
        server.child_key(|accepted| match peer_ip(accepted) {
            Some(ip) if ip == Ipv4Addr::new(127, 0, 0, 2) => panic_quietly("not this one"),
            other => other,
        })
    });
    let _odd = connect_from(Ipv4Addr::new(127, 0, 0, 2), server.address);
    assert!(server.shown.recv_timeout(TIME_LIMIT).unwrap().is_active());
    let (channel, _peer) = server.connect();
    assert!(channel.is_active());
    server.end();
}
