//! How long-lived connections are spread over the workers (E18, C12).

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
use waterwheel_testkit::loop_suite::blow;

use crate::loop_rig::{TIME_LIMIT, get};
use crate::probe::{ip, wait_until};

const LOOPS: usize = 3;

/// A command that was taken a moment ago may still count as one that waits.
const NEARLY_TEN: RangeInclusive<usize> = 9..=11;

/// Shows its channel.
struct Shown(Sender<Channel>);

impl Handler for Shown {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let _ = self.0.send(ctx.channel());
        Ok(())
    }
}

/// A server with workers of its own: the server's channel is no load of theirs.
struct ProbedServer {
    workers: EventLoopGroup,
    boss: EventLoopGroup,
    address: SocketAddr,
    shown: Receiver<Channel>,
}

impl ProbedServer {
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
                edit.add_last("shown", Shown(show.clone()))?;
                Ok(())
            });
        let address = ip(get(how(server).bind("127.0.0.1:0")).local_address());
        Self { workers, boss, address, shown }
    }

    /// A connection, and its end over there.
    fn connect(&self) -> (Channel, TcpStream) {
        let peer = TcpStream::connect(self.address).unwrap();
        (self.shown.recv_timeout(TIME_LIMIT).expect("it is accepted"), peer)
    }

    /// How many channels each worker has.
    fn spread(&self) -> Vec<usize> {
        self.workers.children().map(|worker| worker.metrics().channels).collect()
    }

    fn number_of(&self, channel: &Channel) -> usize {
        let home = channel.event_loop();
        self.workers.children().position(|worker| worker == home).expect("a worker")
    }

    fn end(self) {
        for group in [self.boss, self.workers] {
            let ended = group.shutdown_gracefully(Duration::ZERO, TIME_LIMIT).unwrap();
            ended.wait_timeout(TIME_LIMIT).unwrap();
        }
    }
}

/// Fills the workers, lets all clients of the first two go, and fills up again.
fn after_uneven_closes(house: &ProbedServer) -> Vec<usize> {
    let mut open: Vec<_> = (0..30).map(|_| house.connect()).collect();
    let spread = house.spread();
    assert!(spread.iter().all(|n| NEARLY_TEN.contains(n)), "even at first: {spread:?}");
    open.retain(|(channel, _)| house.number_of(channel) == 2);
    wait_until("they are gone", || house.spread()[..2] == [0, 0]);
    open.extend((open.len()..30).map(|_| house.connect()));
    house.spread()
}

#[test]
fn e18_round_robin_leaves_long_lived_connections_uneven() {
    let house = ProbedServer::open(RoundRobin::default(), |server| server);
    let spread = after_uneven_closes(&house);
    assert!(spread[2] >= 16 && spread[0] <= 7 && spread[1] <= 7, "{spread:?}");
    house.end();
}

#[test]
fn e18_by_load_long_lived_connections_even_out() {
    let house = ProbedServer::open(LeastLoaded::default(), |server| server);
    let spread = after_uneven_closes(&house);
    assert!(spread.iter().all(|n| NEARLY_TEN.contains(n)), "{spread:?}");
    house.end();
}

#[test]
fn e18_by_load_a_burst_is_spread_before_its_connections_are_registered() {
    let house = ProbedServer::open(LeastLoaded::default(), |server| server);
    let peers: Vec<_> = (0..90).map(|_| TcpStream::connect(house.address).unwrap()).collect();
    let open: Vec<_> =
        peers.iter().map(|_| house.shown.recv_timeout(TIME_LIMIT).unwrap()).collect();
    let spread = house.spread();
    assert_eq!(spread.iter().sum::<usize>(), open.len());
    assert!(spread.iter().all(|n| (27..=33).contains(n)), "{spread:?}");
    house.end();
}

/// Takes the first worker always, and notes how loaded it was.
struct NotesLoad(Sender<usize>);

impl Chooser for NotesLoad {
    fn choose(&self, choice: &Choice<'_>) -> usize {
        let _ = self.0.send(choice.load(0));
        0
    }
}

#[test]
fn e18_a_connection_counts_once_while_it_is_being_registered() {
    const BURST: usize = 20;
    let (note, loads) = channel();
    let house = ProbedServer::open(NotesLoad(note), |server| {
        server.child_initialiser(|_| {
            // On the worker, in the middle of the pass that registers them all: asks the chooser once more.
            let _ =
                EventLoop::current().and_then(|worker| worker.parent()).expect("a worker").next();
            Ok(())
        })
    });
    let first = house.workers.children().next().unwrap();
    let (release, held) = channel::<()>();
    first
        .execute(move || {
            let _ = held.recv();
        })
        .unwrap();
    let peers: Vec<_> = (0..BURST).map(|_| TcpStream::connect(house.address).unwrap()).collect();
    let next_load = || loads.recv_timeout(TIME_LIMIT).unwrap();
    let placing: Vec<_> = peers.iter().map(|_| next_load()).collect();
    drop(release);
    let registering: Vec<_> = peers.iter().map(|_| next_load()).collect();
    // The task that held the worker counts until its admission is returned.
    assert!(placing.iter().enumerate().all(|(n, load)| (n..=n + 1).contains(load)), "{placing:?}");
    let expected = BURST - 1..=BURST;
    assert!(registering.iter().all(|load| expected.contains(load)), "{registering:?}");
    house.end();
}

/// A client from one of many addresses.
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
    let house = ProbedServer::open(ByKey::default(), |server| server.child_key(peer_ip));
    let mut homes = HashMap::new();
    let mut kept = Vec::new();
    for round in 0..3 {
        for client in 1..=12 {
            let from = Ipv4Addr::new(127, 0, 0, client);
            let peer = connect_from(from, house.address);
            let channel = house.shown.recv_timeout(TIME_LIMIT).unwrap();
            let home = house.number_of(&channel);
            assert_eq!(*homes.entry(from).or_insert(home), home, "{from} in round {round}");
            if client % 2 == 0 {
                kept.push(peer);
            }
        }
    }
    let used: std::collections::HashSet<_> = homes.values().collect();
    assert!(used.len() > 1, "not all on one: {homes:?}");
    house.end();
}

static ROOM: AttrKey<u32> = AttrKey::new("room");

/// Gives those it lets in a room, in turn.
struct Porter(u32);

impl InboundHandler for Porter {
    type In = NewChannel;

    fn on_read(&mut self, ctx: &Ctx<'_>, accepted: NewChannel) -> HandlerResult {
        self.0 += 1;
        ctx.fire_read(accepted.attribute(&ROOM, self.0 % 5));
        Ok(())
    }
}

#[test]
fn e18_by_key_can_use_an_attribute_set_by_a_server_handler() {
    static HOUSE: AttrKey<&str> = AttrKey::new("house");
    let house = ProbedServer::open(ByKey::default(), |server| {
        server
            .initialiser(|edit| {
                edit.add_last("porter", In(Porter(0)))?;
                Ok(())
            })
            .child_attribute(&HOUSE, "ours")
            .child_attribute(&ROOM, 99)
            .child_key(|accepted| accepted.get_attribute(&ROOM))
    });
    let mut homes = HashMap::new();
    let mut open = Vec::new();
    for _ in 0..20 {
        let (channel, peer) = house.connect();
        let room = *channel.attribute(&ROOM).expect("it has one, and keeps it");
        assert!(room < 5 && *channel.attribute(&HOUSE).unwrap() == "ours");
        let home = house.number_of(&channel);
        assert_eq!(*homes.entry(room).or_insert(home), home, "room {room}");
        open.push(peer);
    }
    assert_eq!(homes.len(), 5);
    house.end();
}

#[test]
fn e18_a_panicking_key_function_loses_no_connection() {
    let house = ProbedServer::open(ByKey::default(), |server| {
        server.child_key(|accepted| match peer_ip(accepted) {
            Some(ip) if ip == Ipv4Addr::new(127, 0, 0, 2) => blow("not this one"),
            other => other,
        })
    });
    let _odd = connect_from(Ipv4Addr::new(127, 0, 0, 2), house.address);
    assert!(house.shown.recv_timeout(TIME_LIMIT).unwrap().is_active());
    let (channel, _peer) = house.connect();
    assert!(channel.is_active());
    house.end();
}
