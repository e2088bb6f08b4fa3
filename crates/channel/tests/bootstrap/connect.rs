//! Connecting to one address after the other, each with its share of the timeout; cancelling (C12).

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use waterwheel_channel::driver::{Io, SocketOption};
use waterwheel_channel::transport::{SocketFactory, SocketKind};
use waterwheel_channel::{
    Address, Channel, ChannelError, ChannelFuture, ConnectTarget, Ctx, EventLoop, Events, Handler,
    HandlerResult, NewChannel, Pipeline, Resolver, Stream,
};
use waterwheel_executor::{Error, Promise, PromiseFuture};
use waterwheel_testkit::loop_suite::panic_quietly;
use waterwheel_testkit::manual::{ClockMode, Manual, ManualSockets, Peer, PendingConnect};

use crate::support::{
    BootstrapFixture, ManualResolver, PATIENCE, addresses, failure, options, over_both_drivers,
    secs,
};

/// Starts a connect to a name that resolves to `address_count` addresses.
fn connect(
    fixture: &BootstrapFixture,
    address_count: u8,
    timeout: Option<Duration>,
) -> PromiseFuture<Channel> {
    let resolver = Arc::new(ManualResolver::default());
    let client = fixture.client().options(options(timeout)).resolver(resolver.clone());
    let connected = client.connect("many:80");
    assert_eq!(resolver.answer(Ok(addresses(address_count))), "many:80");
    fixture.run_until_idle();
    connected
}

#[track_caller]
fn dialled(fixture: &BootstrapFixture, last: u8) -> PendingConnect {
    let dial = fixture.sockets.next_connect().expect("the address is dialled");
    assert_eq!(dial.target().unwrap().to_string(), format!("192.0.2.{last}:80"));
    assert!(fixture.sockets.next_connect().is_none(), "one after the other");
    dial
}

#[test]
fn c12_all_addresses_are_tried_in_order_and_the_error_lists_each_failure() {
    over_both_drivers(|fixture| {
        let connected = connect(&fixture, 3, Some(secs(30)));
        let first = dialled(&fixture, 1);
        first.refuse(ErrorKind::ConnectionRefused);
        fixture.run_until_idle();
        dialled(&fixture, 2).refuse(ErrorKind::HostUnreachable);
        fixture.run_until_idle();
        assert!(!connected.is_done());
        dialled(&fixture, 3).refuse(ErrorKind::ConnectionReset);
        fixture.run_until_idle();
        let message = failure(connected);
        let positions: Vec<_> = (1..=3).map(|n| message.find(&format!("192.0.2.{n}:80"))).collect();
        assert!(positions.iter().all(Option::is_some) && positions.is_sorted(), "{message}");
        for kind in [ErrorKind::ConnectionRefused, ErrorKind::HostUnreachable] {
            assert!(message.contains(&std::io::Error::from(kind).to_string()), "{message}");
        }
    });
}

#[test]
fn c12_the_address_that_answers_is_the_peer_and_the_timer_is_gone() {
    over_both_drivers(|fixture| {
        let connected = connect(&fixture, 3, Some(secs(30)));
        dialled(&fixture, 1).refuse(ErrorKind::ConnectionRefused);
        fixture.run_until_idle();
        let peer = dialled(&fixture, 2).accept();
        let channel = connected.join().unwrap();
        assert_eq!(channel.peer_address().unwrap().to_string(), "192.0.2.2:80");
        fixture.manual.advance(secs(100));
        fixture.run_until_idle();
        assert!(channel.is_active() && !peer.is_closed());
        assert_eq!(fixture.first().stats().timers, 0);
    });
}

/// Accepts the next attempt on the loop as soon as that attempt has begun.
fn accept_at_once(event_loop: EventLoop, sockets: ManualSockets, accepted: Sender<Peer>) {
    if let Some(dial) = sockets.next_connect() {
        return accepted.send(dial.accept()).unwrap();
    }
    let again = event_loop.clone();
    event_loop.execute(move || accept_at_once(again, sockets, accepted)).unwrap();
}

#[test]
fn c12_the_end_of_an_abandoned_attempt_does_not_close_a_later_connection() {
    over_both_drivers(|fixture| {
        let connected = connect(&fixture, 2, Some(secs(30)));
        let first = dialled(&fixture, 1);
        let (event_loop, sockets) = (fixture.first(), fixture.sockets.clone());
        let (accepted, peers) = channel();
        // With a driver that detaches later, the end of the first attempt arrives together with the
        // connection.
        let manual = fixture.manual.clone();
        let begin = move || {
            manual.advance(secs(15));
            accept_at_once(event_loop, sockets, accepted);
        };
        fixture.first().execute(begin).unwrap();
        let peer = peers.recv_timeout(PATIENCE).unwrap();
        let channel = connected.join().unwrap();
        fixture.run_until_idle();
        assert!(first.is_closed());
        assert!(channel.is_active() && !peer.is_closed());
        assert_eq!(channel.peer_address().unwrap().to_string(), "192.0.2.2:80");
    });
}

#[test]
fn c12_the_time_left_is_shared_among_the_addresses_left() {
    over_both_drivers(|fixture| {
        let connected = connect(&fixture, 3, Some(secs(30)));
        let first = dialled(&fixture, 1);
        fixture.manual.advance(secs(10) - Duration::from_nanos(1));
        fixture.run_until_idle();
        assert!(!first.is_closed());
        fixture.manual.advance(Duration::from_nanos(1));
        fixture.run_until_idle();
        assert!(first.is_closed(), "a third of thirty seconds");
        // The second attempt fails early: the remaining addresses share its time.
        dialled(&fixture, 2).refuse(ErrorKind::ConnectionRefused);
        fixture.run_until_idle();
        let third = dialled(&fixture, 3);
        fixture.manual.advance(secs(20) - Duration::from_nanos(1));
        fixture.run_until_idle();
        assert!(!third.is_closed() && !connected.is_done());
        fixture.manual.advance(Duration::from_nanos(1));
        fixture.run_until_idle();
        assert!(third.is_closed());
        let message = failure(connected);
        assert!(message.contains("connect to 192.0.2.1:80 timed out after 10s"), "{message}");
        assert!(message.contains("connect to 192.0.2.3:80 timed out after 20s"), "{message}");
    });
}

#[test]
fn c12_each_address_has_at_least_two_seconds_and_none_is_tried_without_time_left() {
    over_both_drivers(|fixture| {
        let connected = connect(&fixture, 10, Some(secs(5)));
        for (last, share) in [(1, 2), (2, 2), (3, 1)] {
            let dial = dialled(&fixture, last);
            fixture.manual.advance(secs(share) - Duration::from_nanos(1));
            fixture.run_until_idle();
            assert!(!dial.is_closed(), "{last}");
            fixture.manual.advance(Duration::from_nanos(1));
            fixture.run_until_idle();
            assert!(dial.is_closed(), "{last}");
        }
        assert!(fixture.sockets.next_connect().is_none(), "there is no time for a fourth");
        let message = failure(connected);
        assert!(
            message.contains("192.0.2.3:80 timed out after 1s") && !message.contains("after 0"),
            "{message}"
        );
    });
}

#[test]
fn c12_without_a_timeout_a_connect_waits_for_ever() {
    over_both_drivers(|fixture| {
        let connected = connect(&fixture, 2, None);
        let dial = dialled(&fixture, 1);
        fixture.manual.advance(secs(1_000_000));
        fixture.run_until_idle();
        assert!(!connected.is_done() && !dial.is_closed());
        let _peer = dial.accept();
        connected.join().unwrap();
    });
}

#[test]
fn c12_the_default_timeout_is_thirty_seconds() {
    over_both_drivers(|fixture| {
        let connected = fixture.client().connect("192.0.2.1:80");
        fixture.run_until_idle();
        let _dial = dialled(&fixture, 1);
        fixture.manual.advance(secs(30));
        fixture.run_until_idle();
        assert_eq!(failure(connected), "connect to 192.0.2.1:80 timed out after 30s");
    });
}

#[test]
fn c12_a_late_timeout_does_not_end_the_next_attempt() {
    let fixture = BootstrapFixture::new(Manual::readiness());
    let connected = connect(&fixture, 2, Some(secs(30)));
    let first = dialled(&fixture, 1);
    // The timer is due and queued behind tasks that take several turns; one of them fails the attempt, so that
    // the next attempt has begun when the timer runs.
    let event_loop = fixture.first();
    let (manual, dial) = (fixture.manual.clone(), std::sync::Mutex::new(Some(first)));
    let here = event_loop.clone();
    let start = move || {
        manual.advance(secs(15));
        let mut refuse = Some(move || {
            let dial: Option<PendingConnect> = dial.lock().unwrap().take();
            dial.unwrap().refuse(ErrorKind::ConnectionRefused);
        });
        for n in 0..300 {
            let refuse = if n == 100 { refuse.take() } else { None };
            let task = move || {
                if let Some(refuse) = refuse {
                    refuse();
                }
            };
            here.execute(task).map_err(|_| "refused").unwrap();
        }
    };
    event_loop.execute(start).map_err(|_| "refused").unwrap();
    fixture.run_until_idle();
    let second = dialled(&fixture, 2);
    assert!(!second.is_closed() && !connected.is_done(), "the second attempt has its own timeout");
    let _peer = second.accept();
    connected.join().unwrap();
}

#[test]
fn c12_a_connect_can_be_cancelled_at_every_stage() {
    over_both_drivers(|fixture| {
        // A cancel during the name lookup.
        let resolver = Arc::new(ManualResolver::default());
        let connected = fixture.client().resolver(resolver.clone()).connect("name:80");
        assert!(connected.cancel());
        resolver.answer(Ok(addresses(1)));
        fixture.run_until_idle();
        assert!(fixture.sockets.next_connect().is_none());

        // A cancel during the connect.
        let connected = connect(&fixture, 2, Some(secs(30)));
        let dial = dialled(&fixture, 1);
        assert!(connected.cancel());
        fixture.run_until_idle();
        assert!(dial.is_closed() && fixture.sockets.next_connect().is_none());

        // A cancel after the connect has no effect.
        let connected = connect(&fixture, 1, Some(secs(30)));
        let peer = dialled(&fixture, 1).accept();
        fixture.run_until_idle();
        assert!(!connected.cancel());
        fixture.run_until_idle();
        let channel = connected.join().unwrap();
        assert!(channel.is_active() && !peer.is_closed());
        drop(channel.close());
        fixture.run_until_idle();

        let left = fixture.first().registered_channels().join().unwrap();
        assert_eq!(left, []);
        assert_eq!(fixture.first().stats().timers, 0);
    });
}

#[test]
fn c12_cancelling_the_connect_of_a_channel_closes_it() {
    over_both_drivers(|fixture| {
        let new = NewChannel::new(Stream::new(fixture.sockets.clone()));
        let channel = fixture.group.register(new).join().unwrap();
        let connected = channel.connect(ConnectTarget::from(addresses(1).remove(0)));
        fixture.run_until_idle();
        let dial = dialled(&fixture, 1);
        assert!(connected.cancel());
        fixture.run_until_idle();
        assert!(dial.is_closed() && channel.closed().is_done());

        // A cancel in the task that requests the connect.
        let new = NewChannel::new(Stream::new(fixture.sockets.clone()));
        let channel = fixture.group.register(new).join().unwrap();
        let (far, connected) = (channel.clone(), Arc::new(std::sync::Mutex::new(None)));
        let future = connected.clone();
        fixture
            .first()
            .submit(move || {
                let connected = far.connect(ConnectTarget::from(addresses(1).remove(0)));
                assert!(connected.cancel());
                *future.lock().unwrap() = Some(connected);
            })
            .unwrap()
            .join()
            .unwrap();
        fixture.run_until_idle();
        assert!(channel.closed().is_done());
        assert!(connected.lock().unwrap().take().unwrap().is_cancelled());
        assert!(fixture.sockets.next_connect().is_none_or(|dial| dial.is_closed()));
    });
}

/// Sockets that refuse local addresses, as operating system sockets do.
struct SocketsWithoutLocal(ManualSockets);

impl SocketFactory for SocketsWithoutLocal {
    fn kind(&self) -> &'static SocketKind {
        self.0.kind()
    }

    fn listen(&self, at: &Address, options: &[SocketOption]) -> std::io::Result<(Io, Address)> {
        self.0.listen(at, options)
    }

    fn dial(&self, target: &ConnectTarget, options: &[SocketOption]) -> std::io::Result<Io> {
        match target.remote {
            Address::Local(_) => Err(ErrorKind::Unsupported.into()),
            _ => self.0.dial(target, options),
        }
    }
}

#[test]
fn c12_a_late_cancel_does_not_end_the_next_connect() {
    over_both_drivers(|fixture| {
        let new = NewChannel::new(Stream::new(SocketsWithoutLocal(fixture.sockets.clone())));
        let channel = fixture.group.register(new).join().unwrap();
        let far = channel.clone();
        let next = channel.with_pipeline(move |_| {
            let refused = far.connect(Address::local("no address of sockets"));
            assert!(refused.cancel(), "it has failed, and is not told yet");
            far.connect(ConnectTarget::from(addresses(1).remove(0)))
        });
        fixture.run_until_idle();
        let next = next.join().unwrap();
        let _peer = dialled(&fixture, 1).accept();
        fixture.run_until_idle();
        next.join().unwrap();
        assert!(channel.is_active());
    });
}

/// Cancels the connect of another channel when its own channel becomes active.
struct CancelsAnother(Option<ChannelFuture>);

impl Handler for CancelsAnother {
    fn on_active(&mut self, _: &Ctx<'_>) -> HandlerResult {
        assert!(
            self.0.take().is_some_and(|other| other.cancel()),
            "the other connect has not completed"
        );
        Ok(())
    }
}

#[test]
fn c12_a_connect_that_is_cancelled_while_the_connection_arrives_closes_the_channel() {
    over_both_drivers(|fixture| {
        let fresh = || NewChannel::new(Stream::new(fixture.sockets.clone()));
        let first = fixture.group.register(fresh()).join().unwrap();
        let second = fixture.group.register(fresh()).join().unwrap();
        let mut many = addresses(2);
        drop(first.connect(ConnectTarget::from(many.remove(0))));
        fixture.run_until_idle();
        let other = second.connect(ConnectTarget::from(many.remove(0)));
        fixture.run_until_idle();
        let cancels = move |pipeline: Pipeline<'_>| {
            pipeline.edit(|edit| edit.add_last("cancels", CancelsAnother(Some(other))).map(drop))
        };
        first.with_pipeline(cancels).join().unwrap().unwrap();
        // Both connects are accepted in one task, so that the second is connected before the loop runs its commands.
        let dials =
            [fixture.sockets.next_connect().unwrap(), fixture.sockets.next_connect().unwrap()];
        let accepted = fixture.first().submit(move || dials.map(PendingConnect::accept));
        let [one, two] = accepted.unwrap().join().unwrap();
        fixture.run_until_idle();
        assert!(first.is_active() && !one.is_closed(), "the first connect was not cancelled");
        assert!(two.is_closed() && second.closed().is_done());
    });
}

#[test]
fn c12_a_name_lookup_without_an_answer_times_out() {
    over_both_drivers(|fixture| {
        let resolver = Arc::new(ManualResolver::default());
        let client = fixture.client().options(options(Some(secs(5)))).resolver(resolver.clone());
        let connected = client.connect("silent:80");
        fixture.run_until_idle();
        fixture.manual.advance(secs(4));
        fixture.run_until_idle();
        assert!(!connected.is_done());
        fixture.manual.advance(secs(1));
        fixture.run_until_idle();
        assert_eq!(failure(connected), "resolving \"silent:80\" timed out after 5s");
        resolver.answer(Ok(addresses(1)));
        fixture.run_until_idle();
        assert!(fixture.sockets.next_connect().is_none(), "too late");
        assert_eq!(fixture.first().stats().timers, 0);
    });
}

#[test]
fn c12_a_name_that_cannot_be_resolved_fails_with_the_reason() {
    over_both_drivers(|fixture| {
        let resolver = Arc::new(ManualResolver::default());
        let client = fixture.client().resolver(resolver.clone());
        let (unknown, empty, dropped) =
            (client.connect("unknown:80"), client.connect("empty:80"), client.connect("lost:80"));
        resolver.answer(Err(Error::new("no such name")));
        resolver.answer(Ok(Vec::new()));
        drop(resolver);
        drop(client);
        fixture.run_until_idle();
        assert_eq!(failure(unknown), "no such name");
        assert_eq!(failure(empty), "\"empty:80\" has no address");
        assert!(dropped.wait_timeout(PATIENCE).is_ok() && dropped.join().is_err());
        let nobody = fixture.client().connect("name:80");
        assert!(failure(nobody).contains("\"name:80\" is not an address"));
    });
}

#[test]
fn c12_a_channel_that_every_address_refuses_fails_with_all_causes_and_is_closed() {
    over_both_drivers(|fixture| {
        let new = NewChannel::new(Stream::new(fixture.sockets.clone()));
        let channel = fixture.group.register(new).join().unwrap();
        let many = addresses(2);
        let connected = channel.connect(ConnectTarget::from(many[0].clone()).or(many[1].clone()));
        let again = channel.connect(ConnectTarget::from(many[0].clone()));
        fixture.run_until_idle();
        assert_eq!(failure(again), "the channel is connecting already");
        dialled(&fixture, 1).refuse(ErrorKind::ConnectionRefused);
        fixture.run_until_idle();
        dialled(&fixture, 2).refuse(ErrorKind::HostUnreachable);
        fixture.run_until_idle();
        let error = connected.join().unwrap_err();
        let kind = error.find::<ChannelError>();
        assert!(matches!(kind, Some(ChannelError::ConnectAll { failures }) if failures.len() == 2));
        assert!(channel.closed().is_done());
    });
}

/// Closes its channel in `on_registered`.
struct ClosesWhenRegistered;

impl Handler for ClosesWhenRegistered {
    fn interest(&self) -> Events {
        Events::REGISTERED
    }

    fn on_registered(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.close();
        Ok(())
    }
}

#[test]
fn c12_a_handler_that_closes_the_channel_before_it_is_connected_fails_the_connect() {
    over_both_drivers(|fixture| {
        let client = fixture.client().initialiser(|edit| {
            edit.add_last("closes", ClosesWhenRegistered)?;
            Ok(())
        });
        let connected = client.connect("192.0.2.1:80");
        fixture.run_until_idle();
        assert_eq!(failure(connected), "the channel is closed");
        assert!(fixture.sockets.next_connect().is_none_or(|dial| dial.is_closed()));
    });
}

#[test]
fn c12_a_shutdown_fails_a_connect_under_way() {
    over_both_drivers(|fixture| {
        let connected = connect(&fixture, 2, Some(secs(30)));
        let dial = dialled(&fixture, 1);
        // The shutdown is requested before the clock is released: a clock that jumps would time the attempt out
        // first.
        let ended = fixture.group.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap();
        fixture.manual.set_clock_mode(ClockMode::AutoAdvance);
        ended.wait_timeout(PATIENCE).expect("the group terminates");
        assert!(connected.wait_timeout(PATIENCE).is_ok() && connected.join().is_err());
        assert!(dial.is_closed() && fixture.sockets.next_connect().is_none());
        let late = fixture.client().connect("192.0.2.1:80");
        assert!(late.wait_timeout(PATIENCE).is_ok() && late.join().is_err());
    });
}

/// A resolver that panics, before or after it has moved its promise elsewhere.
struct PanickingResolver(bool);

impl Resolver for PanickingResolver {
    fn resolve(&self, _: &str, found: Promise<Vec<Address>>) {
        if self.0 {
            found.set_success(addresses(1));
        }
        panic_quietly("resolver panics");
    }
}

#[test]
fn c12_a_panicking_resolver_fails_the_future() {
    over_both_drivers(|fixture| {
        for has_answered in [false, true] {
            let client = fixture.client().resolver(Arc::new(PanickingResolver(has_answered)));
            let server = fixture.server().resolver(Arc::new(PanickingResolver(has_answered)));
            for future in
                [client.connect("name:80"), client.bind("name:80"), server.bind("name:80")]
            {
                fixture.run_until_idle();
                let error = failure(future);
                assert!(error.contains("resolver panics"), "{error}");
            }
        }
        assert!(fixture.sockets.next_connect().is_none(), "no socket is opened");
    });
}
