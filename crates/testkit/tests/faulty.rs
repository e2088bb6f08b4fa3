//! A faulty driver fails exactly where a fault was injected.

use std::io::ErrorKind;

use waterwheel_channel::Token;
use waterwheel_channel::driver::{
    Detach, Driver, Interest, IoEvent, OpenDriver, OutQueue, ReadPlan, Readiness, Role, Submit,
    WaitSummary,
};
use waterwheel_executor::Nanos;
use waterwheel_testkit::faulty::{
    DriverCall, EarlyReturns, FailTimes, Faults, Faulty, LostRegistrations,
};
use waterwheel_testkit::manual::{ClockMode, Manual, Peer};

fn open(manual: &Manual) -> (Box<dyn Driver>, Faults) {
    let faulty = Faulty::new(manual.clone());
    (faulty.open().unwrap(), faulty.faults())
}

fn token(n: u64) -> Token {
    Token::from_bits(n)
}

fn attach(driver: &mut dyn Driver, manual: &Manual, n: u64) -> Peer {
    let (io, peer) = manual.pair();
    driver.attach(token(n), io, Role::Stream).unwrap();
    driver.set_read(token(n), Some(ReadPlan::default()));
    peer
}

fn events(driver: &mut dyn Driver) -> Vec<String> {
    let text = |event: IoEvent| match event {
        IoEvent::Failed(token, _) => format!("Failed({token:?})"),
        other => format!("{other:?}"),
    };
    let split = |event: IoEvent| {
        let (event, complete) = event.split();
        std::iter::once(event).chain(complete)
    };
    std::iter::from_fn(|| driver.next_event()).flat_map(split).map(text).collect()
}

#[test]
fn l06_injected_wait_failures_lose_no_event() {
    let manual = Manual::readiness();
    let (mut driver, faults) = open(&manual);
    let peer = attach(&mut *driver, &manual, 1);
    peer.send("x");
    faults.fail(DriverCall::Wait, FailTimes::Next(2), 9);
    for _ in 0..2 {
        assert_eq!(driver.wait(None).unwrap_err().raw_os_error(), Some(9));
    }
    assert_eq!(driver.wait(None).unwrap().ready, 1);
    assert_eq!(events(&mut *driver).len(), 2);
    assert_eq!((faults.calls(DriverCall::Wait), manual.counts().waits), (3, 1));
}

#[test]
fn l06_waits_return_early_until_a_rebuild() {
    let manual = Manual::readiness().with_clock_mode(ClockMode::AutoAdvance);
    let (mut driver, faults) = open(&manual);
    let peer = attach(&mut *driver, &manual, 1);
    faults.return_early(EarlyReturns::UntilRebuild);
    for _ in 0..600 {
        assert_eq!(driver.wait(Some(Nanos(50))).unwrap(), WaitSummary::default());
    }
    assert_eq!(manual.clock().now(), Nanos(0), "no time has passed");
    peer.send("x");
    assert_eq!(driver.wait(None).unwrap().ready, 1, "what is ready is told nevertheless");
    driver.waker().unpark();
    assert!(driver.wait(None).unwrap().woken, "and so is a wake");
    events(&mut *driver);

    faults.fail(DriverCall::Rebuild, FailTimes::Next(1), ErrorKind::OutOfMemory);
    assert_eq!(driver.rebuild().unwrap_err().kind(), ErrorKind::OutOfMemory);
    assert_eq!(driver.wait(Some(Nanos(50))).unwrap(), WaitSummary::default());
    assert_eq!(manual.clock().now(), Nanos(0), "a rebuild that fails cures nothing");
    assert_eq!(driver.rebuild().unwrap(), 1);
    driver.wait(Some(Nanos(50))).unwrap();
    assert_eq!(manual.clock().now(), Nanos(50));
    assert_eq!(faults.calls(DriverCall::Rebuild), 2);
}

#[test]
fn l06_a_rebuild_loses_the_chosen_registrations() {
    for manual in [Manual::readiness(), Manual::completion()] {
        let (mut driver, faults) = open(&manual);
        let peers: Vec<Peer> = (0..3).map(|n| attach(&mut *driver, &manual, n)).collect();
        peers.iter().for_each(|peer| peer.send("x"));
        faults.lose_at_rebuild(LostRegistrations::Tokens(vec![token(1), token(77)]));
        assert_eq!(driver.rebuild().unwrap(), 2);
        driver.wait(None).unwrap();
        let told = events(&mut *driver);
        let of_lost: Vec<&String> =
            told.iter().filter(|event| event.contains(&format!("{:?}", token(1)))).collect();
        assert_eq!(of_lost, [&format!("Failed({:?})", token(1))], "of {told:?}");
        assert_eq!(told.len(), 5, "the others are read: {told:?}");
        assert!(peers[1].is_closed());
        assert_eq!(driver.detach(token(1)), Detach::Done, "nobody saw it leave");
        assert_eq!(driver.rebuild().unwrap(), 2, "only the next rebuild loses");
    }
}

#[test]
fn l06_a_lost_registration_in_flight_gets_detached_once() {
    let manual = Manual::completion();
    let (mut driver, faults) = open(&manual);
    let peer = attach(&mut *driver, &manual, 1);
    faults.lose_at_rebuild(LostRegistrations::All);
    assert_eq!(driver.rebuild().unwrap(), 0);
    assert_eq!(driver.detach(token(1)), Detach::Pending);
    driver.wait(None).unwrap();
    assert_eq!(events(&mut *driver), [format!("Detached({:?})", token(1))], "and no Failed");
    assert!(peer.is_closed());
}

#[test]
fn every_call_can_be_made_to_fail_without_side_effects() {
    let manual = Manual::readiness();
    let (mut driver, faults) = open(&manual);
    for call in [
        DriverCall::Attach,
        DriverCall::RegisterForeign,
        DriverCall::SetInterest,
        DriverCall::Write,
        DriverCall::Shutdown,
    ] {
        faults.fail(call, FailTimes::Always, ErrorKind::OutOfMemory);
    }
    let failed = |result: std::io::Result<()>| {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::OutOfMemory);
    };
    let (io, peer) = manual.pair();
    failed(driver.attach(token(1), io, Role::Stream));
    assert!(peer.is_closed(), "it was dropped");
    let (io, source) = manual.foreign_source();
    failed(driver.register_foreign(token(2), io, Interest::READABLE));
    assert!(source.is_closed());

    faults.fail(DriverCall::Attach, FailTimes::Never, ErrorKind::Other);
    faults.fail(DriverCall::RegisterForeign, FailTimes::Never, ErrorKind::Other);
    let peer = attach(&mut *driver, &manual, 1);
    let (io, source) = manual.foreign_source();
    driver.register_foreign(token(2), io, Interest::READABLE).unwrap();
    failed(driver.set_interest(token(2), Interest::WRITABLE));
    let mut queue = OutQueue::new();
    queue.push("x".into());
    failed(driver.write(token(1), &queue).map(|_| ()));
    failed(driver.shutdown(token(1), std::net::Shutdown::Both));
    assert!(!peer.is_ended());

    faults.clear();
    assert_eq!(driver.write(token(1), &queue).unwrap(), Submit::Done(1));
    source.set_ready(Readiness::READABLE | Readiness::WRITABLE);
    driver.wait(None).unwrap();
    let told = driver.next_event();
    assert!(matches!(told, Some(IoEvent::Foreign(_, Readiness::READABLE))), "{told:?}");
}
