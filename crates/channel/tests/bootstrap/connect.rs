//! One address after the other, each with its share of the time; and giving up (C12).

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
use waterwheel_testkit::loop_suite::blow;
use waterwheel_testkit::manual::{ClockMode, Manual, ManualSockets, Peer, PendingConnect};

use crate::support::{Book, House, LONG, addresses, both, failure, options, secs};

/// A connect to a name with so many addresses, resolved.
fn connect(
    house: &House,
    addresses_of_it: u8,
    timeout: Option<Duration>,
) -> PromiseFuture<Channel> {
    let book = Arc::new(Book::default());
    let client = house.client().options(options(timeout)).resolver(book.clone());
    let connected = client.connect("many:80");
    assert_eq!(book.answer(Ok(addresses(addresses_of_it))), "many:80");
    house.settle();
    connected
}

#[track_caller]
fn dialled(house: &House, last: u8) -> PendingConnect {
    let dial = house.sockets.next_connect().expect("it is tried");
    assert_eq!(dial.target().unwrap().to_string(), format!("192.0.2.{last}:80"));
    assert!(house.sockets.next_connect().is_none(), "one after the other");
    dial
}

#[test]
fn c12_all_addresses_are_tried_in_order_and_the_error_lists_each_failure() {
    both(|house| {
        let connected = connect(&house, 3, Some(secs(30)));
        let first = dialled(&house, 1);
        first.refuse(ErrorKind::ConnectionRefused);
        house.settle();
        dialled(&house, 2).refuse(ErrorKind::HostUnreachable);
        house.settle();
        assert!(!connected.is_done());
        dialled(&house, 3).refuse(ErrorKind::ConnectionReset);
        house.settle();
        let words = failure(connected);
        let places: Vec<_> = (1..=3).map(|n| words.find(&format!("192.0.2.{n}:80"))).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{words}");
        for kind in [ErrorKind::ConnectionRefused, ErrorKind::HostUnreachable] {
            assert!(words.contains(&std::io::Error::from(kind).to_string()), "{words}");
        }
    });
}

#[test]
fn c12_the_address_that_answers_is_the_peer_and_the_timer_is_gone() {
    both(|house| {
        let connected = connect(&house, 3, Some(secs(30)));
        dialled(&house, 1).refuse(ErrorKind::ConnectionRefused);
        house.settle();
        let peer = dialled(&house, 2).accept();
        let channel = connected.join().unwrap();
        assert_eq!(channel.peer_address().unwrap().to_string(), "192.0.2.2:80");
        house.manual.advance(secs(100));
        house.settle();
        assert!(channel.is_active() && !peer.is_closed());
        assert_eq!(house.first().stats().timers, 0);
    });
}

/// Accepts the next attempt as soon as there is one, in the turn of the loop that has begun it.
fn accept_at_once(event_loop: EventLoop, sockets: ManualSockets, accepted: Sender<Peer>) {
    if let Some(dial) = sockets.next_connect() {
        return accepted.send(dial.accept()).unwrap();
    }
    let again = event_loop.clone();
    event_loop.execute(move || accept_at_once(again, sockets, accepted)).unwrap();
}

#[test]
fn c12_the_end_of_an_abandoned_attempt_does_not_close_a_later_connection() {
    both(|house| {
        let connected = connect(&house, 2, Some(secs(30)));
        let first = dialled(&house, 1);
        let (event_loop, sockets) = (house.first(), house.sockets.clone());
        let (accepted, peers) = channel();
        // With a driver that lets go later, the end of the first attempt comes together with the connection.
        let manual = house.manual.clone();
        let begin = move || {
            manual.advance(secs(15));
            accept_at_once(event_loop, sockets, accepted);
        };
        house.first().execute(begin).unwrap();
        let peer = peers.recv_timeout(LONG).unwrap();
        let channel = connected.join().unwrap();
        house.settle();
        assert!(first.is_closed());
        assert!(channel.is_active() && !peer.is_closed());
        assert_eq!(channel.peer_address().unwrap().to_string(), "192.0.2.2:80");
    });
}

#[test]
fn c12_the_time_left_is_shared_among_the_addresses_left() {
    both(|house| {
        let connected = connect(&house, 3, Some(secs(30)));
        let first = dialled(&house, 1);
        house.manual.advance(secs(10) - Duration::from_nanos(1));
        house.settle();
        assert!(!first.is_closed());
        house.manual.advance(Duration::from_nanos(1));
        house.settle();
        assert!(first.is_closed(), "a third of thirty seconds");
        // It fails early: the others have more.
        dialled(&house, 2).refuse(ErrorKind::ConnectionRefused);
        house.settle();
        let third = dialled(&house, 3);
        house.manual.advance(secs(20) - Duration::from_nanos(1));
        house.settle();
        assert!(!third.is_closed() && !connected.is_done());
        house.manual.advance(Duration::from_nanos(1));
        house.settle();
        assert!(third.is_closed());
        let words = failure(connected);
        assert!(words.contains("no connection to 192.0.2.1:80 after 10s"), "{words}");
        assert!(words.contains("no connection to 192.0.2.3:80 after 20s"), "{words}");
    });
}

#[test]
fn c12_each_address_has_at_least_two_seconds_and_none_is_tried_without_time_left() {
    both(|house| {
        let connected = connect(&house, 10, Some(secs(5)));
        for (last, share) in [(1, 2), (2, 2), (3, 1)] {
            let dial = dialled(&house, last);
            house.manual.advance(secs(share) - Duration::from_nanos(1));
            house.settle();
            assert!(!dial.is_closed(), "{last}");
            house.manual.advance(Duration::from_nanos(1));
            house.settle();
            assert!(dial.is_closed(), "{last}");
        }
        assert!(house.sockets.next_connect().is_none(), "there is no time for a fourth");
        let words = failure(connected);
        assert!(words.contains("192.0.2.3:80 after 1s") && !words.contains("after 0"), "{words}");
    });
}

#[test]
fn c12_without_a_timeout_a_connect_waits_for_ever() {
    both(|house| {
        let connected = connect(&house, 2, None);
        let dial = dialled(&house, 1);
        house.manual.advance(secs(1_000_000));
        house.settle();
        assert!(!connected.is_done() && !dial.is_closed());
        let _peer = dial.accept();
        connected.join().unwrap();
    });
}

#[test]
fn c12_the_default_timeout_is_thirty_seconds() {
    both(|house| {
        let connected = house.client().connect("192.0.2.1:80");
        house.settle();
        let _dial = dialled(&house, 1);
        house.manual.advance(secs(30));
        house.settle();
        assert_eq!(failure(connected), "no connection to 192.0.2.1:80 after 30s");
    });
}

#[test]
fn c12_a_late_timeout_does_not_end_the_next_attempt() {
    let house = House::new(Manual::readiness());
    let connected = connect(&house, 2, Some(secs(30)));
    let first = dialled(&house, 1);
    // The timer is due, and queued behind tasks that take several turns; one of them lets the attempt
    // fail, so that the next has begun when the timer has its turn.
    let event_loop = house.first();
    let (manual, dial) = (house.manual.clone(), std::sync::Mutex::new(Some(first)));
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
    house.settle();
    let second = dialled(&house, 2);
    assert!(!second.is_closed() && !connected.is_done(), "its time has just begun");
    let _peer = second.accept();
    connected.join().unwrap();
}

#[test]
fn c12_a_connect_can_be_cancelled_at_every_stage() {
    both(|house| {
        // While the name is looked up.
        let book = Arc::new(Book::default());
        let connected = house.client().resolver(book.clone()).connect("name:80");
        assert!(connected.cancel());
        book.answer(Ok(addresses(1)));
        house.settle();
        assert!(house.sockets.next_connect().is_none());

        // While it is connected.
        let connected = connect(&house, 2, Some(secs(30)));
        let dial = dialled(&house, 1);
        assert!(connected.cancel());
        house.settle();
        assert!(dial.is_closed() && house.sockets.next_connect().is_none());

        // When it is connected it is too late.
        let connected = connect(&house, 1, Some(secs(30)));
        let peer = dialled(&house, 1).accept();
        house.settle();
        assert!(!connected.cancel());
        house.settle();
        let channel = connected.join().unwrap();
        assert!(channel.is_active() && !peer.is_closed());
        drop(channel.close());
        house.settle();

        let left = house.first().registered_channels().join().unwrap();
        assert_eq!(left, []);
        assert_eq!(house.first().stats().timers, 0);
    });
}

#[test]
fn c12_cancelling_the_connect_of_a_channel_closes_it() {
    both(|house| {
        let new = NewChannel::new(Stream::new(house.sockets.clone()));
        let channel = house.group.register(new).join().unwrap();
        let connected = channel.connect(ConnectTarget::from(addresses(1).remove(0)));
        house.settle();
        let dial = dialled(&house, 1);
        assert!(connected.cancel());
        house.settle();
        assert!(dial.is_closed() && channel.closed().is_done());

        // Before it has come to the loop.
        let new = NewChannel::new(Stream::new(house.sockets.clone()));
        let channel = house.group.register(new).join().unwrap();
        let (far, connected) = (channel.clone(), Arc::new(std::sync::Mutex::new(None)));
        let future = connected.clone();
        house
            .first()
            .submit(move || {
                let connected = far.connect(ConnectTarget::from(addresses(1).remove(0)));
                assert!(connected.cancel());
                *future.lock().unwrap() = Some(connected);
            })
            .unwrap()
            .join()
            .unwrap();
        house.settle();
        assert!(channel.closed().is_done());
        assert!(connected.lock().unwrap().take().unwrap().is_cancelled());
        assert!(house.sockets.next_connect().is_none_or(|dial| dial.is_closed()));
    });
}

/// Sockets that refuse addresses within the process, as those of a system do.
struct Choosy(ManualSockets);

impl SocketFactory for Choosy {
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
    both(|house| {
        let new = NewChannel::new(Stream::new(Choosy(house.sockets.clone())));
        let channel = house.group.register(new).join().unwrap();
        let far = channel.clone();
        let next = channel.with_pipeline(move |_| {
            let refused = far.connect(Address::local("no address of sockets"));
            assert!(refused.cancel(), "it has failed, and is not told yet");
            far.connect(ConnectTarget::from(addresses(1).remove(0)))
        });
        house.settle();
        let next = next.join().unwrap();
        let _peer = dialled(&house, 1).accept();
        house.settle();
        next.join().unwrap();
        assert!(channel.is_active());
    });
}

/// Cancels the connect of another channel when its own is connected.
struct CancelsAnother(Option<ChannelFuture>);

impl Handler for CancelsAnother {
    fn on_active(&mut self, _: &Ctx<'_>) -> HandlerResult {
        assert!(self.0.take().is_some_and(|other| other.cancel()), "the other has not been told");
        Ok(())
    }
}

#[test]
fn c12_a_connect_that_is_cancelled_while_the_connection_arrives_closes_the_channel() {
    both(|house| {
        let fresh = || NewChannel::new(Stream::new(house.sockets.clone()));
        let first = house.group.register(fresh()).join().unwrap();
        let second = house.group.register(fresh()).join().unwrap();
        let mut many = addresses(2);
        drop(first.connect(ConnectTarget::from(many.remove(0))));
        house.settle();
        let other = second.connect(ConnectTarget::from(many.remove(0)));
        house.settle();
        let cancels = move |pipeline: Pipeline<'_>| {
            pipeline.edit(|edit| edit.add_last("cancels", CancelsAnother(Some(other))).map(drop))
        };
        first.with_pipeline(cancels).join().unwrap().unwrap();
        // Both at once, so that the second is connected before the loop looks at its commands.
        let dials = [house.sockets.next_connect().unwrap(), house.sockets.next_connect().unwrap()];
        let accepted = house.first().submit(move || dials.map(PendingConnect::accept));
        let [one, two] = accepted.unwrap().join().unwrap();
        house.settle();
        assert!(first.is_active() && !one.is_closed(), "this one is wanted");
        assert!(two.is_closed() && second.closed().is_done());
    });
}

#[test]
fn c12_a_name_lookup_without_an_answer_times_out() {
    both(|house| {
        let book = Arc::new(Book::default());
        let client = house.client().options(options(Some(secs(5)))).resolver(book.clone());
        let connected = client.connect("silent:80");
        house.settle();
        house.manual.advance(secs(4));
        house.settle();
        assert!(!connected.is_done());
        house.manual.advance(secs(1));
        house.settle();
        assert_eq!(failure(connected), "\"silent:80\" was not resolved after 5s");
        book.answer(Ok(addresses(1)));
        house.settle();
        assert!(house.sockets.next_connect().is_none(), "too late");
        assert_eq!(house.first().stats().timers, 0);
    });
}

#[test]
fn c12_a_name_that_cannot_be_resolved_fails_with_the_reason() {
    both(|house| {
        let book = Arc::new(Book::default());
        let client = house.client().resolver(book.clone());
        let (unknown, empty, dropped) =
            (client.connect("unknown:80"), client.connect("empty:80"), client.connect("lost:80"));
        book.answer(Err(Error::new("no such name")));
        book.answer(Ok(Vec::new()));
        drop(book);
        drop(client);
        house.settle();
        assert_eq!(failure(unknown), "no such name");
        assert_eq!(failure(empty), "\"empty:80\" has no address");
        assert!(dropped.wait_timeout(LONG).is_ok() && dropped.join().is_err());
        let nobody = house.client().connect("name:80");
        assert!(failure(nobody).contains("\"name:80\" is no address"));
    });
}

#[test]
fn c12_a_channel_that_every_address_refuses_fails_with_all_causes_and_is_closed() {
    both(|house| {
        let new = NewChannel::new(Stream::new(house.sockets.clone()));
        let channel = house.group.register(new).join().unwrap();
        let many = addresses(2);
        let connected = channel.connect(ConnectTarget::from(many[0].clone()).or(many[1].clone()));
        let again = channel.connect(ConnectTarget::from(many[0].clone()));
        house.settle();
        assert_eq!(failure(again), "the channel is connecting already");
        dialled(&house, 1).refuse(ErrorKind::ConnectionRefused);
        house.settle();
        dialled(&house, 2).refuse(ErrorKind::HostUnreachable);
        house.settle();
        let error = connected.join().unwrap_err();
        let kind = error.find::<ChannelError>();
        assert!(matches!(kind, Some(ChannelError::ConnectAll { failures }) if failures.len() == 2));
        assert!(channel.closed().is_done());
    });
}

/// Closes its channel as soon as it is registered.
struct ClosesAtOnce;

impl Handler for ClosesAtOnce {
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
    both(|house| {
        let client = house.client().initialiser(|edit| {
            edit.add_last("closes", ClosesAtOnce)?;
            Ok(())
        });
        let connected = client.connect("192.0.2.1:80");
        house.settle();
        assert_eq!(failure(connected), "the channel is closed");
        assert!(house.sockets.next_connect().is_none_or(|dial| dial.is_closed()));
    });
}

#[test]
fn c12_a_shutdown_fails_a_connect_under_way() {
    both(|house| {
        let connected = connect(&house, 2, Some(secs(30)));
        let dial = dialled(&house, 1);
        // In this order: a clock that jumps would end the attempt first.
        let ended = house.group.shutdown_gracefully(Duration::ZERO, LONG).unwrap();
        house.manual.set_clock_mode(ClockMode::AutoAdvance);
        ended.wait_timeout(LONG).expect("it terminates");
        assert!(connected.wait_timeout(LONG).is_ok() && connected.join().is_err());
        assert!(dial.is_closed() && house.sockets.next_connect().is_none());
        let late = house.client().connect("192.0.2.1:80");
        assert!(late.wait_timeout(LONG).is_ok() && late.join().is_err());
    });
}

/// A resolver that panics, before or after it has given its promise away.
struct Explodes(bool);

impl Resolver for Explodes {
    fn resolve(&self, _: &str, found: Promise<Vec<Address>>) {
        if self.0 {
            found.set_success(addresses(1));
        }
        blow("no such book");
    }
}

#[test]
fn c12_a_panicking_resolver_fails_the_future() {
    both(|house| {
        for has_answered in [false, true] {
            let client = house.client().resolver(Arc::new(Explodes(has_answered)));
            let server = house.server().resolver(Arc::new(Explodes(has_answered)));
            for future in
                [client.connect("name:80"), client.bind("name:80"), server.bind("name:80")]
            {
                house.settle();
                let error = failure(future);
                assert!(error.contains("no such book"), "{error}");
            }
        }
        assert!(house.sockets.next_connect().is_none(), "nothing is opened for it");
    });
}
