//! Servers and clients (C12), with a driver by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use waterwheel_channel::driver::SocketOption;
use waterwheel_channel::{
    Address, AttrKey, Bootstrap, Channel, ChannelOptions, Ctx, EventLoopGroup, Handler,
    HandlerResult, Msg, ServerBootstrap, local,
};
use waterwheel_executor::Error;
use waterwheel_testkit::loop_suite::blow;
use waterwheel_testkit::manual::{ClockMode, Manual};

use crate::support::{House, LONG, both, failure};

static ROOM: AttrKey<String> = AttrKey::new("room");

/// Tells the test of every connection, and echoes.
struct Tells(Sender<Channel>);

impl Handler for Tells {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let _ = self.0.send(ctx.channel());
        ctx.fire_active();
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.write_and_flush(msg);
        Ok(())
    }
}

fn telling(server: ServerBootstrap) -> (ServerBootstrap, Receiver<Channel>) {
    let (tell, told) = channel();
    let server = server.child_initialiser(move |edit| {
        edit.add_last("tells", Tells(tell.clone()))?;
        Ok(())
    });
    (server, told)
}

#[test]
fn c12_children_have_their_own_options_attributes_and_parent() {
    both(|house| {
        let quiet = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
        let (server, children) = telling(
            house
                .server()
                .attribute(&ROOM, "hall".to_owned())
                .child_attribute(&ROOM, "chamber".to_owned())
                .child_options(quiet),
        );
        let (server, port) = house.bind(&server);
        let peers = [port.connect().unwrap(), port.connect().unwrap()];
        house.settle();
        let (one, other) = (children.try_recv().unwrap(), children.try_recv().unwrap());
        assert_eq!(*server.attribute(&ROOM).unwrap(), "hall");
        assert_eq!(*one.attribute(&ROOM).unwrap(), "chamber");
        one.set_attribute(&ROOM, "cell".to_owned());
        assert_eq!(*other.attribute(&ROOM).unwrap(), "chamber", "values are shared, not the place");
        assert_eq!((one.parent(), other.parent()), (Some(&server), Some(&server)));
        assert!(server.is_auto_read() && !one.is_auto_read());
        assert_eq!(one.peer_address(), Some(peers[0].address().into()));
        peers[0].send("hello");
        house.settle();
        assert_eq!(peers[0].unread(), 5);
    });
}

#[test]
fn c12_one_bootstrap_makes_many_channels_that_do_not_share_their_attributes() {
    both(|house| {
        let client = house.client().attribute(&ROOM, "any".to_owned());
        let futures = [client.connect("192.0.2.1:80"), client.connect("192.0.2.2:80")];
        house.settle();
        let peers = [(); 2].map(|()| house.sockets.next_connect().unwrap().accept());
        let [one, other] = futures.map(|future| future.join().unwrap());
        one.set_attribute(&ROOM, "own".to_owned());
        assert_eq!(*other.attribute(&ROOM).unwrap(), "any");
        drop(client.clone().attribute(&ROOM, "changed".to_owned()));
        let third = client.connect("192.0.2.3:80");
        house.settle();
        let _peer = house.sockets.next_connect().unwrap().accept();
        assert_eq!(*third.join().unwrap().attribute(&ROOM).unwrap(), "any");
        drop(peers);
    });
}

#[test]
fn c12_children_are_spread_over_the_workers_and_the_server_stays_with_its_boss() {
    let manual = Manual::readiness();
    let boss = House::new(manual.clone());
    let workers = House::with_loops(manual, 3);
    let (server, children) = telling(workers.server().boss(&boss.group));
    let bound = server.bind("192.0.2.9:80").join().unwrap();
    workers.settle();
    assert_eq!(bound.event_loop().id(), boss.first().id(), "on the boss's loop");
    let port = workers.sockets.next_listener().unwrap();
    let peers: Vec<_> = (0..6).map(|_| port.connect().unwrap()).collect();
    workers.settle();
    let per_loop: Vec<usize> = workers.group.children().map(|it| it.metrics().channels).collect();
    assert_eq!(per_loop, [2, 2, 2]);
    assert_eq!(boss.first().metrics().channels, 1);
    assert_eq!(children.try_iter().count(), 6);
    for peer in &peers {
        peer.send("ping");
    }
    assert!(peers.iter().all(|peer| peer.receive(4) == "ping"));
}

#[test]
fn c12_a_failing_initialiser_fails_the_future_and_makes_no_socket() {
    both(|house| {
        let failing = |how: fn() -> Result<(), Error>| {
            let connected = house.client().initialiser(move |_| how()).connect("192.0.2.1:80");
            let bound = house.server().initialiser(move |_| how()).bind("192.0.2.9:80");
            house.settle();
            assert!(
                house.sockets.next_connect().is_none() && house.sockets.next_listener().is_none()
            );
            assert_eq!(house.first().metrics().channels, 0);
            [failure(connected), failure(bound)]
        };
        assert_eq!(failing(|| Err(Error::new("no key"))), ["no key", "no key"]);
        for words in failing(|| blow("no luck")) {
            assert!(words.contains("no luck"), "{words}");
        }
    });
}

#[test]
fn c12_a_failing_initialiser_of_a_child_closes_it_and_is_reported() {
    both(|house| {
        let made = Arc::new(AtomicUsize::new(0));
        let server =
            house.server().child_initialiser(move |_| match made.fetch_add(1, Ordering::Relaxed) {
                0 => Err(Error::new("no key")),
                1 => blow("no luck"),
                _ => Ok(()),
            });
        let (server, port) = house.bind(&server);
        let first = port.connect().unwrap();
        house.settle();
        assert!(first.is_closed());
        let reports = house.reports.take();
        assert_eq!(reports.len(), 1, "{reports:?}");
        assert!(reports[0].contains("no key"), "{reports:?}");
        let second = port.connect().unwrap();
        house.settle();
        assert!(second.is_closed());
        assert!(house.reports.take().iter().any(|report| report.contains("no luck")));
        let third = port.connect().unwrap();
        house.settle();
        assert!(!third.is_closed() && server.is_active());
        assert_eq!(house.first().metrics().channels, 2);
    });
}

#[test]
fn c12_connections_for_workers_that_have_shut_down_are_closed() {
    for manual in [Manual::readiness(), Manual::completion()] {
        let boss = House::new(manual.clone());
        let workers = EventLoopGroup::builder(Manual::readiness()).threads(1).build().unwrap();
        let server = ServerBootstrap::new(&workers, boss.sockets.clone()).boss(&boss.group);
        let (server, port) = boss.bind(&server);
        workers.shutdown_gracefully(Duration::ZERO, LONG).unwrap().wait_timeout(LONG).unwrap();
        let peers: Vec<_> = (0..20).map(|_| port.connect().unwrap()).collect();
        boss.settle();
        peers.iter().for_each(|peer| peer.wait_closed());
        assert!(server.is_active());
        assert_eq!((port.backlog(), boss.first().metrics().channels), (0, 1));
    }
}

#[test]
fn c12_closing_a_server_leaves_its_connections_open() {
    both(|house| {
        let (server, children) = telling(house.server());
        let (server, port) = house.bind(&server);
        let peer = port.connect().unwrap();
        house.settle();
        let child = children.try_recv().unwrap();
        server.close().join().unwrap();
        house.settle();
        assert!(port.is_closed() && port.connect().is_err());
        assert!(child.is_active());
        peer.send("still there");
        assert_eq!(peer.receive(11), "still there");
    });
}

/// Closes the server while it accepts.
struct ClosesAfter(usize);

impl Handler for ClosesAfter {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.0 -= 1;
        ctx.fire_read(msg);
        if self.0 == 0 {
            ctx.close();
        }
        Ok(())
    }
}

#[test]
fn c12_a_server_closed_while_it_accepts_closes_the_connections_it_has_not_accepted() {
    both(|house| {
        let (server, children) = telling(house.server().initialiser(|edit| {
            edit.add_last("closes", ClosesAfter(2))?;
            Ok(())
        }));
        let server = server.options(ChannelOptions { auto_read: false, ..Default::default() });
        let (server, port) = house.bind(&server);
        let peers: Vec<_> = (0..5).map(|_| port.connect().unwrap()).collect();
        server.read();
        house.settle();
        assert!(server.closed().is_done() && port.is_closed());
        assert_eq!(children.try_iter().count(), 2);
        let closed: Vec<bool> = peers.iter().map(|peer| peer.is_closed()).collect();
        assert_eq!(closed, [false, false, true, true, true]);
    });
}

#[test]
fn c12_an_unsupported_option_fails_with_an_error_that_names_it() {
    let group = EventLoopGroup::builder(Manual::readiness()).threads(1).build().unwrap();
    let option = SocketOption::NoDelay(true);
    let words = [
        failure(
            Bootstrap::new(&group, local::Local)
                .socket_option(option)
                .connect(Address::local("nobody")),
        ),
        failure(
            ServerBootstrap::new(&group, local::Local)
                .socket_option(option)
                .bind(Address::local("nobody")),
        ),
        failure(
            ServerBootstrap::new(&group, local::Local)
                .child_socket_option(option)
                .bind(Address::local("nobody")),
        ),
    ];
    for words in words {
        assert_eq!(words, "the transport `local` has no option no_delay");
    }
}

#[test]
fn l10_a_shutdown_closes_listeners_and_connections_at_its_start() {
    both(|house| {
        let (server, children) = telling(house.server());
        let (server, port) = house.bind(&server);
        let peers: Vec<_> = (0..10).map(|_| port.connect().unwrap()).collect();
        house.settle();
        let client = house.client().connect("192.0.2.1:80");
        house.settle();
        let far = house.sockets.next_connect().unwrap().accept();
        let client = client.join().unwrap();
        let written = client.write_and_flush(bytes::Bytes::from("last words"));
        // With a quiet period: the loop goes on, its channels do not.
        let ended = house.group.shutdown_gracefully(Duration::from_secs(1), LONG).unwrap();
        for channel in children.try_iter().chain([server, client]) {
            channel.closed().wait_timeout(LONG).unwrap();
        }
        assert!(!ended.is_done());
        assert!(port.is_closed() && peers.iter().all(|peer| peer.is_closed()));
        assert_eq!(far.received(), "last words");
        written.join().unwrap();
        house.manual.set_clock_mode(ClockMode::AutoAdvance);
        ended.wait_timeout(LONG).unwrap();
    });
}

#[test]
fn c12_a_bootstrap_on_one_loop_puts_everything_there() {
    let house = House::with_loops(Manual::readiness(), 3);
    let at = house.group.children().nth(1).unwrap();
    let server = ServerBootstrap::new(&at, house.sockets.clone());
    let (server, children) = telling(server);
    let (server, port) = house.bind(&server);
    let client = Bootstrap::new(&at, house.sockets.clone()).connect("192.0.2.1:80");
    house.settle();
    let _there = house.sockets.next_connect().unwrap().accept();
    let _peers = [port.connect().unwrap(), port.connect().unwrap()];
    house.settle();
    let (one, other) = (children.try_recv().unwrap(), children.try_recv().unwrap());
    for channel in [server, client.join().unwrap(), one, other] {
        assert_eq!(channel.event_loop(), at);
    }
    let each = ServerBootstrap::new(&at, house.sockets.clone()).boss(&house.group);
    let (elsewhere, _) = house.bind(&each);
    assert_ne!(elsewhere.event_loop(), at, "the boss accepts");
}

#[test]
fn c12_a_bootstrap_works_on_a_manually_driven_loop() {
    let mut by_hand =
        EventLoopGroup::builder(waterwheel_channel::driver::TaskOnly).build_manual().unwrap();
    let (server, children) = telling(ServerBootstrap::new(&by_hand, local::Local));
    let server = server.bind(Address::local("by hand"));
    let client = Bootstrap::new(&by_hand, local::Local).connect(Address::local("by hand"));
    assert!(!server.is_done() && !client.is_done(), "nothing happens by itself");
    while !by_hand.is_idle() {
        by_hand.turn(Some(Duration::ZERO));
    }
    let child = children.try_recv().expect("it was accepted");
    assert_eq!(child.parent(), Some(&server.join().unwrap()));
    assert!(client.join().unwrap().is_active());
}

#[test]
fn c11_setting_one_option_keeps_the_others() {
    both(|house| {
        let options = ChannelOptions { reads_per_round: 3, ..ChannelOptions::default() };
        let (server, children) =
            telling(house.server().child_options(options).child_auto_read(false));
        let (server, port) = house.bind(&server.auto_read(true));
        let _peer = port.connect().unwrap();
        house.settle();
        let child = children.try_recv().unwrap();
        assert!(server.is_auto_read() && !child.is_auto_read());
        let client = house.client().connect_timeout(LONG).auto_read(false);
        let connected = client.connect("192.0.2.1:80");
        house.settle();
        house.manual.advance(LONG);
        house.settle();
        assert!(failure(connected).contains("20s"), "the time was set");
    });
}

/// A place that cannot be told.
struct Nowhere;

impl From<Nowhere> for waterwheel_channel::AddressSpec {
    fn from(_: Nowhere) -> Self {
        blow("no such place");
    }
}

#[test]
fn c12_a_panic_while_the_address_is_converted_fails_the_future() {
    both(|house| {
        for future in [house.client().connect(Nowhere), house.server().bind(Nowhere)] {
            assert!(failure(future).contains("no such place"));
        }
        let each = house.server().bind_on_each_loop(Nowhere);
        assert!(failure(each).contains("no such place"));
    });
}
