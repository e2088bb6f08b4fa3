//! Servers and clients (C12), over a manually driven driver.

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
use waterwheel_testkit::loop_suite::panic_quietly;
use waterwheel_testkit::manual::{ClockMode, Manual};

use crate::support::{BootstrapFixture, PATIENCE, failure, over_both_drivers};

static LABEL: AttrKey<String> = AttrKey::new("room");

/// Sends every active channel to the test, and echoes.
struct ReportingEcho(Sender<Channel>);

impl Handler for ReportingEcho {
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

fn with_reporting_echo(server: ServerBootstrap) -> (ServerBootstrap, Receiver<Channel>) {
    let (tell, told) = channel();
    let server = server.child_initialiser(move |edit| {
        edit.add_last("tells", ReportingEcho(tell.clone()))?;
        Ok(())
    });
    (server, told)
}

#[test]
fn c12_children_have_their_own_options_attributes_and_parent() {
    over_both_drivers(|fixture| {
        let quiet = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
        let (server, children) = with_reporting_echo(
            fixture
                .server()
                .attribute(&LABEL, "hall".to_owned())
                .child_attribute(&LABEL, "chamber".to_owned())
                .child_options(quiet),
        );
        let (server, port) = fixture.bind(&server);
        let peers = [port.connect().unwrap(), port.connect().unwrap()];
        fixture.run_until_idle();
        let (one, other) = (children.try_recv().unwrap(), children.try_recv().unwrap());
        assert_eq!(*server.attribute(&LABEL).unwrap(), "hall");
        assert_eq!(*one.attribute(&LABEL).unwrap(), "chamber");
        one.set_attribute(&LABEL, "cell".to_owned());
        assert_eq!(
            *other.attribute(&LABEL).unwrap(),
            "chamber",
            "values are shared, not the place"
        );
        assert_eq!((one.parent(), other.parent()), (Some(&server), Some(&server)));
        assert!(server.is_auto_read() && !one.is_auto_read());
        assert_eq!(one.peer_address(), Some(peers[0].address().into()));
        peers[0].send("hello");
        fixture.run_until_idle();
        assert_eq!(peers[0].unread(), 5);
    });
}

#[test]
fn c12_one_bootstrap_makes_many_channels_that_do_not_share_their_attributes() {
    over_both_drivers(|fixture| {
        let client = fixture.client().attribute(&LABEL, "any".to_owned());
        let futures = [client.connect("192.0.2.1:80"), client.connect("192.0.2.2:80")];
        fixture.run_until_idle();
        let peers = [(); 2].map(|()| fixture.sockets.next_connect().unwrap().accept());
        let [one, other] = futures.map(|future| future.join().unwrap());
        one.set_attribute(&LABEL, "own".to_owned());
        assert_eq!(*other.attribute(&LABEL).unwrap(), "any");
        drop(client.clone().attribute(&LABEL, "changed".to_owned()));
        let third = client.connect("192.0.2.3:80");
        fixture.run_until_idle();
        let _peer = fixture.sockets.next_connect().unwrap().accept();
        assert_eq!(*third.join().unwrap().attribute(&LABEL).unwrap(), "any");
        drop(peers);
    });
}

#[test]
fn c12_children_are_spread_over_the_workers_and_the_server_stays_with_its_boss() {
    let manual = Manual::readiness();
    let boss = BootstrapFixture::new(manual.clone());
    let workers = BootstrapFixture::with_loops(manual, 3);
    let (server, children) = with_reporting_echo(workers.server().boss(&boss.group));
    let bound = server.bind("192.0.2.9:80").join().unwrap();
    workers.run_until_idle();
    assert_eq!(bound.event_loop().id(), boss.first().id(), "on the boss's loop");
    let port = workers.sockets.next_listener().unwrap();
    let peers: Vec<_> = (0..6).map(|_| port.connect().unwrap()).collect();
    workers.run_until_idle();
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
    over_both_drivers(|fixture| {
        let failing = |how: fn() -> Result<(), Error>| {
            let connected = fixture.client().initialiser(move |_| how()).connect("192.0.2.1:80");
            let bound = fixture.server().initialiser(move |_| how()).bind("192.0.2.9:80");
            fixture.run_until_idle();
            assert!(
                fixture.sockets.next_connect().is_none()
                    && fixture.sockets.next_listener().is_none()
            );
            assert_eq!(fixture.first().metrics().channels, 0);
            [failure(connected), failure(bound)]
        };
        assert_eq!(failing(|| Err(Error::new("no key"))), ["no key", "no key"]);
        for message in failing(|| panic_quietly("no luck")) {
            assert!(message.contains("no luck"), "{message}");
        }
    });
}

#[test]
fn c12_a_failing_initialiser_of_a_child_closes_it_and_is_reported() {
    over_both_drivers(|fixture| {
        let made = Arc::new(AtomicUsize::new(0));
        let server = fixture.server().child_initialiser(move |_| {
            match made.fetch_add(1, Ordering::Relaxed) {
                0 => Err(Error::new("no key")),
                1 => panic_quietly("no luck"),
                _ => Ok(()),
            }
        });
        let (server, port) = fixture.bind(&server);
        let first = port.connect().unwrap();
        fixture.run_until_idle();
        assert!(first.is_closed());
        let reports = fixture.reports.take();
        assert_eq!(reports.len(), 1, "{reports:?}");
        assert!(reports[0].contains("no key"), "{reports:?}");
        let second = port.connect().unwrap();
        fixture.run_until_idle();
        assert!(second.is_closed());
        assert!(fixture.reports.take().iter().any(|report| report.contains("no luck")));
        let third = port.connect().unwrap();
        fixture.run_until_idle();
        assert!(!third.is_closed() && server.is_active());
        assert_eq!(fixture.first().metrics().channels, 2);
    });
}

#[test]
fn c12_connections_for_workers_that_have_shut_down_are_closed() {
    for manual in [Manual::readiness(), Manual::completion()] {
        let boss = BootstrapFixture::new(manual.clone());
        let workers = EventLoopGroup::builder(Manual::readiness()).threads(1).build().unwrap();
        let server = ServerBootstrap::new(&workers, boss.sockets.clone()).boss(&boss.group);
        let (server, port) = boss.bind(&server);
        workers
            .shutdown_gracefully(Duration::ZERO, PATIENCE)
            .unwrap()
            .wait_timeout(PATIENCE)
            .unwrap();
        let peers: Vec<_> = (0..20).map(|_| port.connect().unwrap()).collect();
        boss.run_until_idle();
        peers.iter().for_each(|peer| peer.wait_closed());
        assert!(server.is_active());
        assert_eq!((port.backlog(), boss.first().metrics().channels), (0, 1));
    }
}

#[test]
fn c12_closing_a_server_leaves_its_connections_open() {
    over_both_drivers(|fixture| {
        let (server, children) = with_reporting_echo(fixture.server());
        let (server, port) = fixture.bind(&server);
        let peer = port.connect().unwrap();
        fixture.run_until_idle();
        let child = children.try_recv().unwrap();
        server.close().join().unwrap();
        fixture.run_until_idle();
        assert!(port.is_closed() && port.connect().is_err());
        assert!(child.is_active());
        peer.send("still there");
        assert_eq!(peer.receive(11), "still there");
    });
}

/// Closes its server after this many accepted connections.
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
    over_both_drivers(|fixture| {
        let (server, children) = with_reporting_echo(fixture.server().initialiser(|edit| {
            edit.add_last("closes", ClosesAfter(2))?;
            Ok(())
        }));
        let server = server.options(ChannelOptions { auto_read: false, ..Default::default() });
        let (server, port) = fixture.bind(&server);
        let peers: Vec<_> = (0..5).map(|_| port.connect().unwrap()).collect();
        server.read();
        fixture.run_until_idle();
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
    let message = [
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
    for message in message {
        assert_eq!(message, "the transport `local` does not support the option no_delay");
    }
}

#[test]
fn l10_a_shutdown_closes_listeners_and_connections_at_its_start() {
    over_both_drivers(|fixture| {
        let (server, children) = with_reporting_echo(fixture.server());
        let (server, port) = fixture.bind(&server);
        let peers: Vec<_> = (0..10).map(|_| port.connect().unwrap()).collect();
        fixture.run_until_idle();
        let client = fixture.client().connect("192.0.2.1:80");
        fixture.run_until_idle();
        let far = fixture.sockets.next_connect().unwrap().accept();
        let client = client.join().unwrap();
        let written = client.write_and_flush(bytes::Bytes::from("last words"));
        // With a quiet period, the loop continues after its channels are closed.
        let ended = fixture.group.shutdown_gracefully(Duration::from_secs(1), PATIENCE).unwrap();
        for channel in children.try_iter().chain([server, client]) {
            channel.closed().wait_timeout(PATIENCE).unwrap();
        }
        assert!(!ended.is_done());
        assert!(port.is_closed() && peers.iter().all(|peer| peer.is_closed()));
        assert_eq!(far.take_received(), "last words");
        written.join().unwrap();
        fixture.manual.set_clock_mode(ClockMode::AutoAdvance);
        ended.wait_timeout(PATIENCE).unwrap();
    });
}

#[test]
fn c12_a_bootstrap_on_one_loop_puts_everything_there() {
    let fixture = BootstrapFixture::with_loops(Manual::readiness(), 3);
    let at = fixture.group.children().nth(1).unwrap();
    let server = ServerBootstrap::new(&at, fixture.sockets.clone());
    let (server, children) = with_reporting_echo(server);
    let (server, port) = fixture.bind(&server);
    let client = Bootstrap::new(&at, fixture.sockets.clone()).connect("192.0.2.1:80");
    fixture.run_until_idle();
    let _there = fixture.sockets.next_connect().unwrap().accept();
    let _peers = [port.connect().unwrap(), port.connect().unwrap()];
    fixture.run_until_idle();
    let (one, other) = (children.try_recv().unwrap(), children.try_recv().unwrap());
    for channel in [server, client.join().unwrap(), one, other] {
        assert_eq!(channel.event_loop(), at);
    }
    let each = ServerBootstrap::new(&at, fixture.sockets.clone()).boss(&fixture.group);
    let (elsewhere, _) = fixture.bind(&each);
    assert_ne!(elsewhere.event_loop(), at, "the boss accepts");
}

#[test]
fn c12_a_bootstrap_works_on_a_manually_driven_loop() {
    let mut by_hand =
        EventLoopGroup::builder(waterwheel_channel::driver::TaskOnly).build_manual().unwrap();
    let (server, children) = with_reporting_echo(ServerBootstrap::new(&by_hand, local::Local));
    let server = server.bind(Address::local("by hand"));
    let client = Bootstrap::new(&by_hand, local::Local).connect(Address::local("by hand"));
    assert!(!server.is_done() && !client.is_done(), "the loop runs only when driven");
    while !by_hand.is_idle() {
        by_hand.turn(Some(Duration::ZERO));
    }
    let child = children.try_recv().expect("a channel was accepted");
    assert_eq!(child.parent(), Some(&server.join().unwrap()));
    assert!(client.join().unwrap().is_active());
}

#[test]
fn c11_setting_one_option_keeps_the_others() {
    over_both_drivers(|fixture| {
        let options = ChannelOptions { reads_per_round: 3, ..ChannelOptions::default() };
        let (server, children) =
            with_reporting_echo(fixture.server().child_options(options).child_auto_read(false));
        let (server, port) = fixture.bind(&server.auto_read(true));
        let _peer = port.connect().unwrap();
        fixture.run_until_idle();
        let child = children.try_recv().unwrap();
        assert!(server.is_auto_read() && !child.is_auto_read());
        let client = fixture.client().connect_timeout(PATIENCE).auto_read(false);
        let connected = client.connect("192.0.2.1:80");
        fixture.run_until_idle();
        fixture.manual.advance(PATIENCE);
        fixture.run_until_idle();
        assert!(failure(connected).contains("20s"), "the connect timeout was set");
    });
}

/// An address whose conversion panics.
struct PanickingAddress;

impl From<PanickingAddress> for waterwheel_channel::AddressSpec {
    fn from(_: PanickingAddress) -> Self {
        panic_quietly("address panics");
    }
}

#[test]
fn c12_a_panic_while_the_address_is_converted_fails_the_future() {
    over_both_drivers(|fixture| {
        for future in
            [fixture.client().connect(PanickingAddress), fixture.server().bind(PanickingAddress)]
        {
            assert!(failure(future).contains("address panics"));
        }
        let each = fixture.server().bind_on_each_loop(PanickingAddress);
        assert!(failure(each).contains("address panics"));
    });
}

#[test]
fn c12_a_clone_on_other_loops_keeps_all_other_settings() {
    let fixture = BootstrapFixture::with_loops(Manual::readiness(), 2);
    let clients = fixture.client().attribute(&LABEL, "kept".to_owned());
    for at in clients.loops().all() {
        let here = clients.clone().on_loops(&at);
        for _ in 0..2 {
            let connected = here.connect("192.0.2.1:80");
            fixture.run_until_idle();
            let _peer = fixture.sockets.next_connect().expect("a connect was begun").accept();
            let channel = connected.join().unwrap();
            assert_eq!(channel.event_loop(), at);
            assert_eq!(*channel.attribute(&LABEL).unwrap(), "kept");
        }
    }
    fixture.manual.set_clock_mode(ClockMode::AutoAdvance);
}
