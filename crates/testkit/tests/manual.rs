//! The manual driver beyond the driver contract: clock modes, held completions, counts, blocking helpers.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::Token;
use waterwheel_channel::driver::{
    Detach, Driver, Interest, IoEvent, OpenDriver, OutQueue, ReadPlan, Readiness, Role, Submit,
    WaitSummary,
};
use waterwheel_executor::{Nanos, VirtualClock};
use waterwheel_testkit::manual::{ClockMode, Manual};

const TOKEN: u64 = 5;
const NOTHING: WaitSummary = WaitSummary { ready: 0, woken: false };

fn token() -> Token {
    Token::from_bits(TOKEN)
}

fn queue(bytes: &'static str) -> OutQueue {
    let mut queue = OutQueue::new();
    queue.push(bytes.into());
    queue
}

fn events(driver: &mut dyn Driver) -> Vec<String> {
    std::iter::from_fn(|| driver.next_event()).map(|event| format!("{event:?}")).collect()
}

#[test]
fn l02_an_auto_advancing_clock_ends_a_wait_at_its_deadline() {
    let clock = VirtualClock::new();
    let manual =
        Manual::readiness().with_clock_mode(ClockMode::AutoAdvance).with_clock(clock.clone());
    let mut driver = manual.open().unwrap();
    assert_eq!(driver.wait(Some(Nanos(7_000_000_000))).unwrap(), NOTHING);
    assert_eq!(clock.now(), Nanos(7_000_000_000));
    assert_eq!(driver.clock().now(), clock.now());
    assert_eq!(driver.wait(Some(Nanos(1))).unwrap(), NOTHING, "its time has come");
    assert_eq!(clock.now(), Nanos(7_000_000_000), "time does not go back");
    assert_eq!((manual.counts().waits, manual.counts().sleeps), (2, 1));
}

#[test]
fn l02_a_manual_clock_waits_for_the_test() {
    let manual = Manual::readiness();
    let mut driver = manual.open().unwrap();
    let until = manual.clock().now().plus(Duration::from_secs(10));
    let sleeper = thread::spawn(move || driver.wait(Some(until)).unwrap());
    manual.wait_idle();
    manual.advance(Duration::from_secs(9));
    manual.wait_idle();
    assert!(!sleeper.is_finished(), "a second is left");
    manual.advance(Duration::from_secs(1));
    assert_eq!(sleeper.join().unwrap(), NOTHING);
}

#[test]
fn l02_switching_to_auto_advance_ends_a_blocked_wait() {
    let manual = Manual::readiness();
    let mut driver = manual.open().unwrap();
    let sleeper = thread::spawn(move || driver.wait(Some(Nanos(99))).unwrap());
    manual.wait_idle();
    manual.set_clock_mode(ClockMode::AutoAdvance);
    assert_eq!(sleeper.join().unwrap(), NOTHING);
    assert_eq!(manual.clock().now(), Nanos(99));
}

#[test]
fn l02_a_peer_on_another_thread_ends_a_wait() {
    for manual in [Manual::readiness(), Manual::completion()] {
        let mut driver = manual.open().unwrap();
        let (io, peer) = manual.pair();
        driver.attach(token(), io, Role::Stream).unwrap();
        driver.set_read(token(), Some(ReadPlan::default()));
        let waiting = thread::spawn(move || (driver.wait(None).unwrap(), driver));
        manual.wait_idle();
        peer.send("x");
        let (waited, mut driver) = waiting.join().unwrap();
        assert_eq!(waited, WaitSummary { ready: 1, woken: false });
        assert!(!events(&mut *driver).is_empty());
    }
}

#[test]
fn l02_a_completion_driver_writes_later_and_keeps_the_chunks() {
    let manual = Manual::completion();
    let mut driver = manual.open().unwrap();
    let (io, peer) = manual.pair();
    driver.attach(token(), io, Role::Stream).unwrap();
    peer.set_limit(3);
    let chunk = Bytes::from(b"hello".to_vec());
    let mut queue = OutQueue::new();
    queue.push(chunk.clone());
    assert_eq!(driver.write(token(), &queue).unwrap(), Submit::Pending);
    drop(queue);
    assert!(!chunk.is_unique(), "the driver keeps a clone");
    assert_eq!(peer.take_received(), "", "nothing was written yet");
    assert_eq!(driver.wait(None).unwrap().ready, 1);
    assert_eq!(events(&mut *driver), [format!("Wrote({:?}, 3)", token())]);
    assert!(chunk.is_unique(), "and lets it go afterwards");
    assert_eq!(peer.take_received(), "hel");
}

#[test]
fn l02_held_operations_complete_when_released() {
    let manual = Manual::completion().with_clock_mode(ClockMode::AutoAdvance);
    let mut driver = manual.open().unwrap();
    let (io, peer) = manual.pair();
    driver.attach(token(), io, Role::Stream).unwrap();
    manual.hold_completions();
    assert_eq!(driver.write(token(), &queue("hello")).unwrap(), Submit::Pending);
    assert_eq!(driver.wait(Some(Nanos(10))).unwrap(), NOTHING);
    assert_eq!(driver.detach(token()), Detach::Pending, "a write is in flight");
    assert_eq!(driver.wait(Some(Nanos(20))).unwrap(), NOTHING);
    assert!(!peer.is_closed(), "what is in flight keeps it open");
    manual.release();
    assert_eq!(driver.wait(None).unwrap().ready, 1);
    assert_eq!(events(&mut *driver), [format!("Detached({:?})", token())]);
    assert!(peer.is_closed());
    assert_eq!(peer.take_received(), "", "the write was cancelled");
}

#[test]
fn l02_a_registration_without_operations_in_flight_is_detached_at_once() {
    let manual = Manual::completion();
    let mut driver = manual.open().unwrap();
    let (io, peer) = manual.pair();
    driver.attach(token(), io, Role::Stream).unwrap();
    assert_eq!(driver.detach(token()), Detach::Done);
    assert!(peer.is_closed());

    let (io, source) = manual.foreign_source();
    driver.register_foreign(token(), io, Interest::READABLE).unwrap();
    assert_eq!(driver.detach(token()), Detach::Pending, "its poll is in flight");
    driver.wait(None).unwrap();
    assert_eq!(events(&mut *driver), [format!("Detached({:?})", token())]);
    assert!(source.is_closed());
}

#[test]
fn l05_an_accept_can_be_made_to_fail() {
    let manual = Manual::readiness();
    let mut driver = manual.open().unwrap();
    let (io, port) = manual.listener();
    driver.attach(token(), io, Role::Listener).unwrap();
    driver.set_read(token(), Some(ReadPlan::default()));
    let _first = port.connect().unwrap();
    port.fail_accept(ErrorKind::OutOfMemory).unwrap();
    let _second = port.connect().unwrap();
    driver.wait(None).unwrap();
    let round: Vec<IoEvent> = std::iter::from_fn(|| driver.next_event()).collect();
    assert!(
        matches!(&round[..], [
            IoEvent::Accepted(..), IoEvent::ReadComplete(_), IoEvent::AcceptFailed(_, error)
        ] if error.kind() == ErrorKind::OutOfMemory),
        "{round:?}"
    );
    driver.wait(None).unwrap();
    assert!(matches!(driver.next_event(), Some(IoEvent::Accepted(..))), "it still listens");
    assert_eq!(driver.detach(token()), Detach::Done);
    assert_eq!(port.connect().unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn l08_a_failed_foreign_source_gets_failed_once() {
    let manual = Manual::readiness().with_clock_mode(ClockMode::AutoAdvance);
    let mut driver = manual.open().unwrap();
    let (io, source) = manual.foreign_source();
    driver.register_foreign(token(), io, Interest::READABLE).unwrap();
    source.set_ready(Readiness::READABLE);
    source.fail(ErrorKind::PermissionDenied);
    driver.wait(None).unwrap();
    let told = driver.next_event();
    assert!(matches!(told, Some(IoEvent::Failed(_, e)) if e.kind() == ErrorKind::PermissionDenied));
    assert_eq!(driver.wait(Some(Nanos(10))).unwrap(), NOTHING, "it is watched no longer");
}

#[test]
fn a_connect_stays_pending_until_the_test_answers() {
    let manual = Manual::readiness().with_clock_mode(ClockMode::AutoAdvance);
    let mut driver = manual.open().unwrap();
    let (io, dial) = manual.connecting();
    let target: SocketAddr = "10.0.0.1:80".parse().unwrap();
    driver.attach(token(), io, Role::Connecting(target.into())).unwrap();
    assert_eq!(dial.wait_dialled(), target);
    assert_eq!(driver.wait(Some(Nanos(10))).unwrap(), NOTHING, "nobody has answered");
    assert_eq!(driver.write(token(), &queue("x")).unwrap_err().kind(), ErrorKind::NotConnected);
    let peer = dial.accept();
    driver.wait(None).unwrap();
    assert_eq!(events(&mut *driver), [format!("Connected({:?})", token())]);
    assert_eq!(driver.write(token(), &queue("hello")).unwrap(), Submit::Done(5));
    assert_eq!(peer.take_received(), "hello");
}

#[test]
fn a_peer_blocks_until_bytes_or_the_end_arrive() {
    let manual = Manual::readiness();
    let mut driver = manual.open().unwrap();
    let (io, peer) = manual.pair();
    driver.attach(token(), io, Role::Stream).unwrap();
    let (go, may_go) = mpsc::channel();
    let writer = thread::spawn(move || {
        may_go.recv().unwrap();
        assert_eq!(driver.write(token(), &queue("hel")).unwrap(), Submit::Done(3));
        assert_eq!(driver.write(token(), &queue("lo!")).unwrap(), Submit::Done(3));
        assert_eq!(driver.detach(token()), Detach::Done);
    });
    go.send(()).unwrap();
    assert_eq!(peer.receive(5), "hello");
    peer.wait_closed();
    peer.wait_ended();
    assert_eq!(peer.take_received(), "!");
    writer.join().unwrap();
}

#[test]
fn a_dropped_peer_ends_both_directions_of_the_stream() {
    let manual = Manual::readiness();
    let mut driver = manual.open().unwrap();
    let (io, peer) = manual.pair();
    driver.attach(token(), io, Role::Stream).unwrap();
    driver.set_read(token(), Some(ReadPlan::default()));
    drop(peer);
    driver.wait(None).unwrap();
    assert_eq!(
        events(&mut *driver),
        [format!("ReadComplete({:?})", token()), format!("Eof({:?})", token())]
    );
    assert_eq!(driver.write(token(), &queue("x")).unwrap_err().kind(), ErrorKind::BrokenPipe);
}

#[test]
fn two_drivers_of_one_manual_share_a_clock() {
    let manual = Manual::readiness();
    let sleepers = [100, 200].map(|until| {
        let mut driver = manual.open().unwrap();
        thread::spawn(move || driver.wait(Some(Nanos(until))).unwrap())
    });
    manual.wait_idle();
    manual.advance_to(Nanos(200));
    for sleeper in sleepers {
        assert_eq!(sleeper.join().unwrap(), NOTHING);
    }
    assert_eq!(manual.counts().opens, 2);
}

#[test]
fn calls_are_counted() {
    let manual = Manual::readiness();
    let mut driver = manual.open().unwrap();
    let (io, peer) = manual.pair();
    driver.attach(token(), io, Role::Stream).unwrap();
    driver.set_read(token(), Some(ReadPlan::default()));
    peer.send("x");
    driver.waker().unpark();
    assert_eq!(driver.wait(None).unwrap(), WaitSummary { ready: 1, woken: true });
    events(&mut *driver);
    assert_eq!(driver.write(token(), &queue("x")).unwrap(), Submit::Done(1));
    driver.rebuild().unwrap();
    assert_eq!(driver.detach(token()), Detach::Done);
    assert_eq!(driver.detach(token()), Detach::Done);
    let counts = manual.counts();
    assert_eq!((counts.attaches, counts.detaches, counts.events), (1, 1, 1));
    assert_eq!((counts.waits, counts.sleeps, counts.wakes), (1, 0, 1));
    assert_eq!((counts.writes, counts.rebuilds), (1, 1));
}

#[test]
fn l02_no_time_is_lost_when_several_threads_advance_a_manual_driver() {
    const EACH: u64 = 20_000;
    let (manual, start) = (Manual::readiness(), Arc::new(Barrier::new(4)));
    let movers: Vec<_> = (0..4)
        .map(|_| {
            let (manual, start) = (manual.clone(), start.clone());
            thread::spawn(move || {
                start.wait();
                (0..EACH).for_each(|_| manual.advance(Duration::from_nanos(1)));
            })
        })
        .collect();
    movers.into_iter().for_each(|mover| mover.join().unwrap());
    assert_eq!(manual.clock().now(), Nanos(4 * EACH));
}
