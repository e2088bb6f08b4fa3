//! Accepts that fail: accepting pauses and the loop does not spin (L16). Listeners that are deregistered or
//! closed.

use std::io::ErrorKind;
use std::time::Duration;

use waterwheel_channel::driver::{Io, SocketOption};
use waterwheel_channel::transport::{SocketFactory, SocketKind};
use waterwheel_channel::{
    Address, Channel, ChannelOptions, ConnectTarget, ConnectionLimit, Ctx, EventLoopGroup, Handler,
    HandlerResult, In, InboundHandler, Listener, NewChannel, ServerBootstrap,
};
use waterwheel_executor::Error;
use waterwheel_testkit::faulty::{DriverCall, FailTimes, Faulty};
use waterwheel_testkit::manual::{ClockMode, ListenerControl, Manual, ManualSockets};
use waterwheel_testkit::recorder::Log;

use crate::support::{BootstrapFixture, over_both_drivers, secs};

/// Records events and passes them on.
struct RecordingHandler(Log);

impl Handler for RecordingHandler {
    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.0.push("complete");
        ctx.fire_read_complete();
        Ok(())
    }

    fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
        self.0.push(format!("error {error}"));
        ctx.fire_error(error);
        Ok(())
    }

    fn on_unregistered(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.0.push("unregistered");
        ctx.fire_unregistered();
        Ok(())
    }
}

/// Records accepted channels before the acceptor receives them.
struct AcceptRecorder(Log);

impl InboundHandler for AcceptRecorder {
    type In = NewChannel;

    fn on_read(&mut self, ctx: &Ctx<'_>, new: NewChannel) -> HandlerResult {
        self.0.push("accepted");
        ctx.fire_read(new);
        Ok(())
    }
}

fn recording_server(fixture: &BootstrapFixture, log: &Log) -> ServerBootstrap {
    let log = log.clone();
    fixture.server().initialiser(move |edit| {
        edit.add_last("notes", RecordingHandler(log.clone()))?;
        edit.add_last("counts", In(AcceptRecorder(log.clone())))?;
        Ok(())
    })
}

fn server(fixture: &BootstrapFixture) -> (Channel, ListenerControl, Log) {
    let log = Log::new();
    let (server, port) = fixture.bind(&recording_server(fixture, &log));
    (server, port, log)
}

/// Makes an accept fail for lack of memory (ENOMEM) while a connection waits in the backlog.
fn fail_accept_behind_backlog(
    fixture: &BootstrapFixture,
    port: &ListenerControl,
) -> waterwheel_testkit::manual::Peer {
    port.fail_accept(ErrorKind::OutOfMemory).unwrap();
    let peer = port.connect().unwrap();
    fixture.run_until_idle();
    peer
}

fn accept_error() -> String {
    format!("error {}", std::io::Error::from(ErrorKind::OutOfMemory))
}

#[test]
fn l16_a_failed_accept_pauses_for_a_second_and_is_fired_and_reported() {
    over_both_drivers(|fixture| {
        let (server, port, log) = server(&fixture);
        let turns = fixture.first().metrics().turns;
        let peer = fail_accept_behind_backlog(&fixture, &port);
        assert_eq!(log.take(), ["complete".to_owned(), accept_error()]);
        let reports = fixture.reports.take();
        assert_eq!(reports.len(), 1);
        assert!(reports[0].contains("out of memory"), "{reports:?}");
        fixture.manual.advance(secs(1) - Duration::from_nanos(1));
        fixture.run_until_idle();
        assert!(fixture.first().metrics().turns - turns < 5, "the loop does not spin");
        assert_eq!((log.take(), port.backlog()), (vec![], 1));
        fixture.manual.advance(Duration::from_nanos(1));
        fixture.run_until_idle();
        assert_eq!((log.take(), port.backlog()), (vec!["accepted".into(), "complete".into()], 0));
        assert!(server.is_active() && !peer.is_closed());
        assert_eq!(fixture.first().stats().timers, 0);
    });
}

#[test]
fn l16_an_accept_error_that_persists_is_fired_once_a_second() {
    over_both_drivers(|fixture| {
        let (_server, port, log) = server(&fixture);
        for _ in 0..3 {
            port.fail_accept(ErrorKind::OutOfMemory).unwrap();
        }
        fixture.run_until_idle();
        for left in [2, 1, 0] {
            assert_eq!(
                (log.take(), port.backlog()),
                (vec!["complete".into(), accept_error()], left)
            );
            fixture.manual.advance(secs(1));
            fixture.run_until_idle();
        }
        let _peer = port.connect().unwrap();
        fixture.run_until_idle();
        assert_eq!(log.take(), ["accepted", "complete"]);
    });
}

#[test]
fn l16_every_pause_is_reported_however_many_there_were_but_at_most_one_a_second() {
    over_both_drivers(|fixture| {
        let (_server, port, _log) = server(&fixture);
        let first = port.connect().unwrap();
        fixture.run_until_idle();
        for _ in 0..7 {
            port.fail_accept(ErrorKind::OutOfMemory).unwrap();
        }
        fixture.run_until_idle();
        for pause in 1..=6 {
            assert_eq!(fixture.reports.take().len(), 1, "pause {pause}");
            fixture.manual.advance(secs(1));
            fixture.run_until_idle();
        }
        assert_eq!(fixture.reports.take().len(), 1);
        // Closing a connection ends the pause: the next pause begins within the same second.
        port.fail_accept(ErrorKind::OutOfMemory).unwrap();
        port.fail_accept(ErrorKind::OutOfMemory).unwrap();
        first.finish();
        fixture.run_until_idle();
        assert_eq!(fixture.reports.take().len(), 1, "the eighth: their number has doubled");
        fixture.manual.advance(Duration::from_millis(999));
        fixture.run_until_idle();
        assert_eq!(fixture.reports.take(), [""; 0]);
    });
}

#[test]
fn l16_a_connection_that_closes_ends_the_pause() {
    over_both_drivers(|fixture| {
        let (_server, port, log) = server(&fixture);
        let first = port.connect().unwrap();
        fixture.run_until_idle();
        let _waiting = fail_accept_behind_backlog(&fixture, &port);
        drop(log.take());
        first.finish();
        fixture.run_until_idle();
        assert_eq!((log.take(), port.backlog()), (vec!["accepted".into(), "complete".into()], 0));
        fixture.manual.advance(secs(1));
        fixture.run_until_idle();
        let _next = port.connect().unwrap();
        fixture.run_until_idle();
        assert_eq!(log.take(), ["accepted", "complete"]);
    });
}

#[test]
fn l16_the_pause_and_the_connection_limit_do_not_end_each_other() {
    over_both_drivers(|fixture| {
        let (log, limit) = (Log::new(), ConnectionLimit::new(1));
        let (_server, port) =
            fixture.bind(&recording_server(&fixture, &log).connection_limit(&limit));
        let first = fail_accept_behind_backlog(&fixture, &port);
        let _second = port.connect().unwrap();
        // A connection slot is free, but the pause is not over.
        limit.set_max(2);
        limit.set_max(1);
        fixture.run_until_idle();
        assert_eq!((log.take(), port.backlog()), (vec!["complete".to_owned(), accept_error()], 2));
        // The pause is over and one connection slot is free.
        fixture.manual.advance(secs(1));
        fixture.run_until_idle();
        assert_eq!((log.take(), port.backlog()), (vec!["accepted".into(), "complete".into()], 1));
        fixture.manual.advance(secs(10));
        fixture.run_until_idle();
        assert_eq!((log.take(), port.backlog()), (vec![], 1));
        first.finish();
        fixture.run_until_idle();
        assert_eq!((log.take(), port.backlog()), (vec!["accepted".into(), "complete".into()], 0));
        assert_eq!(limit.open(), 1);
    });
}

#[test]
fn l16_a_pause_that_ended_early_does_not_shorten_the_next() {
    over_both_drivers(|fixture| {
        let (_server, port, log) = server(&fixture);
        let first = port.connect().unwrap();
        fixture.run_until_idle();
        let _second = fail_accept_behind_backlog(&fixture, &port);
        let _third = fail_accept_behind_backlog(&fixture, &port);
        drop(log.take());
        fixture.manual.advance(Duration::from_millis(600));
        first.finish();
        fixture.run_until_idle();
        assert_eq!(log.take(), ["accepted".into(), "complete".into(), accept_error()]);
        fixture.manual.advance(Duration::from_millis(900));
        fixture.run_until_idle();
        assert_eq!(
            log.take(),
            [""; 0],
            "the second of the first pause is over, that of this one is not"
        );
        fixture.manual.advance(Duration::from_millis(100));
        fixture.run_until_idle();
        assert_eq!(log.take(), ["accepted", "complete"]);
    });
}

#[test]
fn l16_an_aborted_connection_does_not_pause_the_accepts() {
    over_both_drivers(|fixture| {
        let (_server, port, log) = server(&fixture);
        port.fail_accept(ErrorKind::ConnectionAborted).unwrap();
        let _peer = port.connect().unwrap();
        fixture.run_until_idle();
        let log = log.take();
        assert!(
            log.contains(&"accepted".into()) && !log.iter().any(|it| it.contains("error")),
            "{log:?}"
        );
    });
}

#[test]
fn l16_switching_auto_read_off_and_on_does_not_shorten_the_pause() {
    over_both_drivers(|fixture| {
        let (server, port, log) = server(&fixture);
        let _peer = fail_accept_behind_backlog(&fixture, &port);
        drop(log.take());
        server.set_auto_read(false);
        server.set_auto_read(true);
        server.read();
        fixture.run_until_idle();
        assert_eq!((log.take(), port.backlog()), (vec![], 1));
        fixture.manual.advance(secs(1));
        fixture.run_until_idle();
        assert_eq!(log.take(), ["accepted", "complete"]);
    });
}

#[test]
fn l16_auto_read_switched_off_in_the_pause_stays_off() {
    over_both_drivers(|fixture| {
        let (server, port, log) = server(&fixture);
        let _peer = fail_accept_behind_backlog(&fixture, &port);
        drop(log.take());
        server.set_auto_read(false);
        fixture.manual.advance(secs(5));
        fixture.run_until_idle();
        assert_eq!((log.take(), port.backlog()), (vec![], 1));
        server.read();
        fixture.run_until_idle();
        assert_eq!((log.take(), port.backlog()), (vec!["accepted".into(), "complete".into()], 0));
    });
}

#[test]
fn l16_without_auto_read_a_read_in_the_pause_is_made_after_it() {
    over_both_drivers(|fixture| {
        let log = Log::new();
        let manual_read = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
        let (server, port) = fixture.bind(&recording_server(&fixture, &log).options(manual_read));
        server.read();
        let _peer = fail_accept_behind_backlog(&fixture, &port);
        assert_eq!(log.take(), ["complete".to_owned(), accept_error()]);
        server.read();
        fixture.run_until_idle();
        assert_eq!(port.backlog(), 1);
        fixture.manual.advance(secs(1));
        fixture.run_until_idle();
        assert_eq!(log.take(), ["accepted", "complete"]);
        let _later = port.connect().unwrap();
        fixture.run_until_idle();
        assert_eq!(port.backlog(), 1, "one round was requested");
    });
}

#[test]
fn l16_a_close_in_the_pause_ends_the_listener() {
    over_both_drivers(|fixture| {
        let (server, port, _log) = server(&fixture);
        let peer = fail_accept_behind_backlog(&fixture, &port);
        server.close().join().unwrap();
        fixture.run_until_idle();
        assert!(port.is_closed() && peer.is_closed());
        fixture.manual.advance(secs(2));
        fixture.run_until_idle();
    });
}

#[test]
fn c04_connections_wait_in_the_backlog_of_a_deregistered_listener() {
    over_both_drivers(|fixture| {
        let (server, port, log) = server(&fixture);
        server.deregister().join().unwrap();
        fixture.run_until_idle();
        assert_eq!(log.take(), ["unregistered"]);
        let peers: Vec<_> = (0..3).map(|_| port.connect().unwrap()).collect();
        fixture.run_until_idle();
        assert_eq!((log.take(), port.backlog()), (vec![], 3));
        server.register().join().unwrap();
        fixture.run_until_idle();
        assert_eq!(log.take(), ["accepted", "accepted", "accepted", "complete"]);
        assert!(peers.iter().all(|peer| !peer.is_closed()));
    });
}

#[test]
fn l16_a_pause_continues_while_the_listener_is_deregistered() {
    over_both_drivers(|fixture| {
        let (server, port, log) = server(&fixture);
        let _peer = fail_accept_behind_backlog(&fixture, &port);
        drop(log.take());
        server.deregister().join().unwrap();
        server.register().join().unwrap();
        fixture.run_until_idle();
        assert_eq!((log.take(), port.backlog()), (vec!["unregistered".into()], 1));
        fixture.manual.advance(secs(1));
        fixture.run_until_idle();
        assert_eq!((log.take(), port.backlog()), (vec!["accepted".into(), "complete".into()], 0));
    });
}

/// Wraps other sockets and records the options of each listen.
struct RecordingSockets(ManualSockets, Log);

impl SocketFactory for RecordingSockets {
    fn kind(&self) -> &'static SocketKind {
        self.0.kind()
    }

    fn listen(&self, at: &Address, options: &[SocketOption]) -> std::io::Result<(Io, Address)> {
        self.1.push(format!("{options:?}"));
        self.0.listen(at, options)
    }

    fn dial(&self, target: &ConnectTarget, options: &[SocketOption]) -> std::io::Result<Io> {
        self.0.dial(target, options)
    }
}

#[test]
fn c11_a_bind_that_the_driver_refuses_can_be_tried_again_with_the_same_options() {
    let (manual, log) = (Manual::readiness(), Log::new());
    let driver = Faulty::new(manual.clone());
    let faults = driver.faults();
    let group = EventLoopGroup::builder(driver).threads(1).build().unwrap();
    let listener = Listener::new(RecordingSockets(manual.sockets(), log.clone()));
    let server = group.register(NewChannel::new(listener)).join().unwrap();
    server.set_option(SocketOption::Backlog(7)).join().unwrap();
    let here: std::net::SocketAddr = "192.0.2.9:80".parse().unwrap();
    faults.fail(DriverCall::Attach, FailTimes::Next(1), ErrorKind::OutOfMemory);
    server.bind(here).join().unwrap_err();
    assert_eq!(server.local_address(), None);
    server.bind(here).join().unwrap();
    assert_eq!(log.take(), ["[Backlog(7)]"; 2]);
    manual.set_clock_mode(ClockMode::AutoAdvance);
    group.shutdown_gracefully(Duration::ZERO, secs(5)).unwrap().join().unwrap();
}
