//! Accept guards (K10): connections that are refused before anything is built for them.

use std::time::Duration;

use waterwheel_channel::driver::TaskOnly;
use waterwheel_channel::{
    AcceptPermit, AcceptVerdict, AcceptedConnection, Address, Bootstrap, ConnectionLimit, Ctx,
    EventLoopGroup, GuardChain, Handler, HandlerResult, In, InboundHandler, NewChannel, Refusals,
    ServerBootstrap, local,
};
use waterwheel_testkit::loop_suite::panic_quietly;
use waterwheel_testkit::manual::{ListenerControl, Manual, Peer};
use waterwheel_testkit::recorder::Log;

use crate::support::{BootstrapFixture, PATIENCE, over_both_drivers};

/// Creates a guard that writes to the log and returns this verdict.
fn guard(
    log: &Log,
    name: &'static str,
    verdict: impl Fn() -> AcceptVerdict + Send + Sync + 'static,
) -> impl Fn(&AcceptedConnection) -> AcceptVerdict + Send + Sync + 'static {
    let log = log.clone();
    move |_| {
        log.push(format!("guard {name}"));
        verdict()
    }
}

fn admit() -> AcceptVerdict {
    AcceptVerdict::Admit
}

/// Writes to the log when it is dropped.
struct LoggedDrop(Log, &'static str);

impl Drop for LoggedDrop {
    fn drop(&mut self) {
        self.0.push(format!("{} dropped", self.1));
    }
}

fn with_permit(log: &Log, name: &'static str) -> impl Fn() -> AcceptVerdict + use<> {
    let log = log.clone();
    move || AcceptVerdict::AdmitWith(AcceptPermit::new(LoggedDrop(log.clone(), name)))
}

/// Writes to the log when it is asked for a connection.
struct AcceptRecorder(Log);

impl InboundHandler for AcceptRecorder {
    type In = NewChannel;

    fn on_read(&mut self, ctx: &Ctx<'_>, new: NewChannel) -> HandlerResult {
        self.0.push("server handler");
        ctx.fire_read(new);
        Ok(())
    }
}

/// Writes to the log when it is added and removed.
struct LifeRecorder(Log);

impl Handler for LifeRecorder {
    fn on_added(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.0.push("child handler added");
        Ok(())
    }

    fn on_removed(&mut self, _: &Ctx<'_>) {
        self.0.push("child handler removed");
    }
}

fn server(fixture: &BootstrapFixture, log: &Log, guards: &GuardChain) -> ServerBootstrap {
    let (own, child, key) = (log.clone(), log.clone(), log.clone());
    fixture
        .server()
        .accept_guards(guards)
        .initialiser(move |edit| {
            edit.add_last("accepts", In(AcceptRecorder(own.clone())))?;
            Ok(())
        })
        .child_key(move |_| key.push("loop chosen"))
        .child_initialiser(move |edit| {
            edit.add_last("life", LifeRecorder(child.clone()))?;
            Ok(())
        })
}

fn connect(fixture: &BootstrapFixture, port: &ListenerControl) -> Peer {
    let peer = port.connect().unwrap();
    fixture.run_until_idle();
    peer
}

#[test]
fn k10_guards_are_asked_in_order_before_a_loop_is_chosen_and_a_pipeline_is_built() {
    for manual in [Manual::readiness(), Manual::completion()] {
        let fixture = BootstrapFixture::with_loops(manual, 2);
        let log = Log::new();
        let guards = GuardChain::new()
            .add("first", guard(&log, "first", admit))
            .add("second", guard(&log, "second", admit));
        let (_server, port) = fixture.bind(&server(&fixture, &log, &guards));
        let peer = connect(&fixture, &port);
        assert_eq!(
            log.take(),
            ["server handler", "guard first", "guard second", "loop chosen", "child handler added"]
        );
        assert!(!peer.is_closed());
        assert_eq!((guards.refused(), guards.refusals()), (0, vec![]));
    }
}

#[test]
fn k10_the_first_refusal_closes_the_connection_and_nothing_is_built_for_it() {
    over_both_drivers(|fixture| {
        let (log, limit) = (Log::new(), ConnectionLimit::new(1));
        let guards = GuardChain::new()
            .add("holds", guard(&log, "holds", with_permit(&log, "permit")))
            .add("refuses", guard(&log, "refuses", || AcceptVerdict::Refuse("not today")))
            .add("last", guard(&log, "last", admit));
        let server = server(&fixture, &log, &guards).connection_limit(&limit);
        let (server, port) = fixture.bind(&server);
        for count in 1..=3 {
            let peer = connect(&fixture, &port);
            assert_eq!(
                log.take(),
                ["server handler", "guard holds", "guard refuses", "permit dropped"]
            );
            assert!(peer.is_closed());
            let refused = Refusals { guard: "refuses", reason: "not today", count };
            assert_eq!((guards.refused(), guards.refusals()), (count, vec![refused]));
            assert_eq!(fixture.first().metrics().refused_connections, count);
        }
        assert_eq!((limit.open(), limit.turned_away()), (0, 0), "no permit was taken");
        assert!(server.is_open() && server.is_active());
    });
}

#[test]
fn k10_refusals_are_counted_by_guard_and_reason_and_reported_when_their_count_has_doubled() {
    over_both_drivers(|fixture| {
        let by_port = |connection: &AcceptedConnection| match connection
            .peer_address()
            .and_then(Address::port)
            .unwrap()
        {
            1..=4 => AcceptVerdict::Refuse("low port"),
            5..=6 => AcceptVerdict::Refuse("middle port"),
            _ => AcceptVerdict::Admit,
        };
        let others = |_: &AcceptedConnection| AcceptVerdict::Refuse("any port");
        let guards = GuardChain::new().add("ports", by_port).add("others", others);
        let (_server, port) = fixture.bind(&fixture.server().accept_guards(&guards));
        let peers: Vec<_> = (0..8).map(|_| connect(&fixture, &port)).collect();
        assert!(peers.iter().all(Peer::is_closed));
        assert_eq!(
            guards.clone().refusals(),
            [
                Refusals { guard: "ports", reason: "low port", count: 4 },
                Refusals { guard: "ports", reason: "middle port", count: 2 },
                Refusals { guard: "others", reason: "any port", count: 2 },
            ]
        );
        let report = |guard: &str, peer: u16, reason: &str, count: u32| {
            format!(
                "the accept guard {guard:?} refused a connection from 127.0.0.1:{peer}, which was closed: {reason}; \
                 {count} so far"
            )
        };
        assert_eq!(
            fixture.reports.take(),
            [
                report("ports", 1, "low port", 1),
                report("ports", 2, "low port", 2),
                report("ports", 4, "low port", 4),
                report("others", 7, "any port", 1),
                report("others", 8, "any port", 2),
            ]
        );
    });
}

#[test]
fn k10_a_guard_that_panics_refuses_the_connection_and_the_server_goes_on() {
    over_both_drivers(|fixture| {
        let guards = GuardChain::new().add("faulty", |connection: &AcceptedConnection| {
            match connection.peer_address().and_then(Address::port) {
                Some(1) => panic_quietly("a mistake"),
                _ => AcceptVerdict::Admit,
            }
        });
        let (server, port) = fixture.bind(&fixture.server().accept_guards(&guards));
        let (refused, served) = (connect(&fixture, &port), connect(&fixture, &port));
        assert!(refused.is_closed() && !served.is_closed() && server.is_open());
        let panicked = Refusals { guard: "faulty", reason: GuardChain::PANICKED, count: 1 };
        assert_eq!(guards.refusals(), [panicked]);
        let reports = fixture.reports.take();
        assert!(reports[0].contains("faulty") && reports[0].contains("a mistake"), "{reports:?}");
        assert!(reports[1].contains("the guard panicked"), "{reports:?}");
        assert_eq!(reports.len(), 2);
    });
}

#[test]
fn k10_a_permit_is_dropped_when_the_channel_is_closed_and_its_handlers_are_removed() {
    over_both_drivers(|fixture| {
        let log = Log::new();
        let guards = GuardChain::new()
            .add("one", guard(&log, "one", with_permit(&log, "first permit")))
            .add("two", guard(&log, "two", with_permit(&log, "second permit")));
        let (_server, port) = fixture.bind(&server(&fixture, &log, &guards));
        let peer = connect(&fixture, &port);
        assert!(log.take().iter().all(|line| !line.contains("dropped")));
        let channels = fixture.first().registered_channels().join().unwrap();
        assert_eq!(channels.len(), 2, "the server and the connection, whose handles are kept");
        peer.finish();
        fixture.run_until_idle();
        assert_eq!(
            log.take(),
            ["child handler removed", "first permit dropped", "second permit dropped"]
        );
        drop(channels);
    });
}

#[test]
fn k10_a_permit_is_dropped_when_its_connection_never_becomes_a_channel() {
    over_both_drivers(|fixture| {
        let (log, limit) = (Log::new(), ConnectionLimit::new(0));
        let guards = GuardChain::new().add("g", guard(&log, "g", with_permit(&log, "permit")));
        let failing = fixture.server().accept_guards(&guards);
        let failing = failing.child_initialiser(|_| Err(waterwheel_executor::Error::new("no")));
        let (failing, port) = fixture.bind(&failing);
        assert!(connect(&fixture, &port).is_closed());
        assert_eq!(log.take(), ["guard g", "permit dropped"], "the initialiser failed");
        failing.close().join().unwrap();

        let waiting = fixture.server().accept_guards(&guards).connection_limit(&limit);
        let (waiting, port) = fixture.bind(&waiting);
        let peer = connect(&fixture, &port);
        assert_eq!(log.take(), ["guard g"], "admitted by the guard, waits for the limit");
        assert!(!peer.is_closed());
        waiting.close().join().unwrap();
        fixture.run_until_idle();
        assert_eq!(log.take(), ["permit dropped"], "the server has ended");
        assert!(peer.is_closed());
    });
}

/// Panics when it is dropped.
struct PanickingPermit;

impl Drop for PanickingPermit {
    fn drop(&mut self) {
        panic_quietly("a bad permit");
    }
}

#[test]
fn k10_a_permit_whose_destructor_panics_affects_no_other() {
    over_both_drivers(|fixture| {
        let log = Log::new();
        let panics = || AcceptVerdict::AdmitWith(AcceptPermit::new(PanickingPermit));
        let guards = GuardChain::new()
            .add("bad", guard(&log, "bad", panics))
            .add("worse", guard(&log, "worse", panics))
            .add("good", guard(&log, "good", with_permit(&log, "good permit")))
            .add("ports", |connection: &AcceptedConnection| {
                match connection.peer_address().and_then(Address::port) {
                    Some(2) => AcceptVerdict::Refuse("port 2"),
                    _ => AcceptVerdict::Admit,
                }
            });
        let (server, port) = fixture.bind(&fixture.server().accept_guards(&guards));
        let closed = connect(&fixture, &port);
        closed.finish();
        fixture.run_until_idle();
        assert_eq!(log.take(), ["guard bad", "guard worse", "guard good", "good permit dropped"]);
        let refused = connect(&fixture, &port);
        assert_eq!(log.take(), ["guard bad", "guard worse", "guard good", "good permit dropped"]);
        assert!(closed.is_closed() && refused.is_closed());
        let open = connect(&fixture, &port);
        assert!(!open.is_closed() && server.is_open());
        let reports = fixture.reports.take();
        assert_eq!(reports.iter().filter(|report| report.contains("a bad permit")).count(), 4);
    });
}

#[test]
fn k10_refused_peers_do_not_keep_others_from_the_last_place_of_a_connection_limit() {
    over_both_drivers(|fixture| {
        let limit = ConnectionLimit::new(1);
        let guards = GuardChain::new().add("ports", |connection: &AcceptedConnection| {
            match connection.peer_address().and_then(Address::port) {
                Some(1..=50) => AcceptVerdict::Refuse("flood"),
                _ => AcceptVerdict::Admit,
            }
        });
        let server = fixture.server().accept_guards(&guards).connection_limit(&limit);
        let (_server, port) = fixture.bind(&server);
        let flood: Vec<_> = (0..50).map(|_| port.connect().unwrap()).collect();
        let good = connect(&fixture, &port);
        assert!(flood.iter().all(Peer::is_closed) && !good.is_closed());
        assert_eq!((limit.open(), guards.refused(), port.backlog()), (1, 50, 0));
    });
}

#[test]
fn k10_guards_see_addresses_as_the_transport_knows_them_and_the_time_of_the_loop() {
    let fixture = BootstrapFixture::new(Manual::readiness());
    let log = Log::new();
    let shown = log.clone();
    let show = move |connection: &AcceptedConnection| {
        let show = |address: Option<&Address>| address.map(ToString::to_string);
        let (peer, local) = (connection.peer_address(), connection.local_address());
        shown.push(format!("{:?} {:?} {:?}", show(peer), show(local), connection.peer_ip()));
        shown.push(format!("{:?}", connection.now()));
        AcceptVerdict::Admit
    };
    let guards = GuardChain::new().add("show", show);
    let (_server, port) = fixture.bind(&fixture.server().accept_guards(&guards));
    fixture.manual.advance(Duration::from_secs(7));
    let _peer = connect(&fixture, &port);
    let now = format!("{:?}", fixture.manual.clock().now());
    let expected = r#"Some("127.0.0.1:1") Some("192.0.2.9:80") Some(127.0.0.1)"#;
    assert_eq!(log.take(), [expected, &now]);
}

#[test]
fn k10_a_guard_of_a_local_server_sees_a_peer_without_an_address() {
    let (tell, told) = std::sync::mpsc::channel();
    let guards = GuardChain::new().add("tells", move |connection: &AcceptedConnection| {
        tell.send(connection.clone()).unwrap();
        AcceptVerdict::Refuse("seen")
    });
    let group = EventLoopGroup::builder(TaskOnly).threads(1).build().unwrap();
    let server = ServerBootstrap::new(&group, local::Local).accept_guards(&guards);
    let _server = server.bind(Address::local("guarded")).join().unwrap();
    let client = Bootstrap::new(&group, local::Local).connect(Address::local("guarded"));
    client.join().unwrap().closed().wait_timeout(PATIENCE).unwrap();
    let connection = told.recv_timeout(PATIENCE).unwrap();
    assert_eq!((connection.peer_address(), connection.peer_ip()), (None, None));
    assert_eq!(connection.local_address(), Some(&Address::local("guarded")));
}

#[test]
fn k10_an_ipv4_mapped_peer_is_seen_as_ipv4() {
    let mapped = std::net::SocketAddr::new("::ffff:192.0.2.1".parse().unwrap(), 80);
    let now = waterwheel_executor::Nanos(1);
    let connection = AcceptedConnection::new(Some(mapped.into()), None, now);
    assert_eq!(connection.peer_ip(), Some("192.0.2.1".parse().unwrap()));
    assert_eq!(connection.peer_address(), Some(&mapped.into()), "as it came");
    assert_eq!(connection.now(), now);
}
