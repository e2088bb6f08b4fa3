//! The driver over an edge-triggered selector.

use waterwheel_channel::driver::Role;

use super::*;

const ON: Option<ReadPlan> = Some(ReadPlan { max_reads: 2, size: 2 });

fn driver() -> (ReadinessDriver<Scripted<true>>, Scripted<true>) {
    scripted()
}

#[test]
fn l17_turning_reads_off_and_on_makes_no_system_call() {
    let (mut driver, selector) = driver();
    let (token, _peer) = stream(&mut driver);
    driver.set_read(token, ON);
    poll(&mut driver);
    assert_eq!(selector.calls(), ["add Interest(readable | priority) | edge", "wait"]);
    for reads in [None, ON, None] {
        driver.set_read(token, reads);
        poll(&mut driver);
        assert_eq!(selector.calls(), ["wait"]);
    }
}

#[test]
fn l17_an_unwanted_edge_is_kept_and_no_longer_watched() {
    let (mut driver, selector) = driver();
    let (token, mut peer) = stream(&mut driver);
    driver.set_read(token, ON);
    poll(&mut driver);
    driver.set_read(token, None);
    peer.write_all(b"x").unwrap();
    selector.calls();
    selector.will_find(&[SelectorEvent::Ready(token, ReadyFlags::READ)]);
    selector.will_find(&[SelectorEvent::Woken]);
    let waited = driver.wait(None).unwrap();
    assert_eq!(waited, WaitSummary { ready: 0, woken: true }, "the edge did not end the wait");
    assert_eq!(selector.calls(), ["wait", "modify Interest() | read end | edge", "wait"]);
    driver.set_read(token, ON);
    assert_eq!(
        driver.wait(None).unwrap().ready,
        1,
        "without blocking, from the recorded readiness"
    );
    assert_eq!(selector.script().timeouts.last(), Some(&Some(Duration::ZERO)));
    assert_eq!(selector.calls(), ["modify Interest(readable | priority) | edge", "wait"]);
    assert_eq!(events(&mut driver), ["LastRead(Token(0.0), b\"x\")"]);
    selector.will_find(&[SelectorEvent::Woken]);
    assert_eq!(driver.wait(None).unwrap().ready, 0, "the short read has cleared the readiness");
}

#[test]
fn l05_data_left_by_a_full_round_comes_after_newly_reported_registrations() {
    let (mut driver, selector) = driver();
    let mut streams = [(); 3].map(|()| stream(&mut driver));
    for (token, peer) in &mut streams {
        driver.set_read(*token, ON);
        peer.write_all(b"01234").unwrap();
    }
    let [first, second, third] = streams.each_ref().map(|(token, _)| *token);
    selector.will_find(&[first, second].map(|token| SelectorEvent::Ready(token, ReadyFlags::READ)));
    selector.will_find(&[
        SelectorEvent::Ready(third, ReadyFlags::READ),
        SelectorEvent::Ready(second, ReadyFlags::READ),
    ]);
    let mut order = Vec::new();
    for ready in [2, 3, 1] {
        assert_eq!(driver.wait(None).unwrap().ready, ready);
        while let Some(event) = driver.next_event() {
            if let IoEvent::LastRead(token, _) | IoEvent::ReadComplete(token) = event {
                order.push(token);
            }
        }
    }
    assert_eq!(order, [first, second, third, first, second, third], "every round asks the kernel");
    assert_eq!(selector.calls().iter().filter(|asked| *asked == "wait").count(), 3);
    selector.will_find(&[SelectorEvent::Woken]);
    assert_eq!(driver.wait(None).unwrap().ready, 0, "no data is left");
}

#[test]
fn l05_write_interest_of_a_full_socket_is_registered_once() {
    let (mut driver, selector) = driver();
    let (token, _peer) = stream(&mut driver);
    driver.set_read(token, ON);
    poll(&mut driver);
    selector.calls();
    let mut queue = OutQueue::new();
    queue.push(vec![7; 64 * 1024].into());
    for change in [Some("modify Interest(readable | writable | priority) | edge"), None, None] {
        while let Submit::Done(_) = driver.write(token, &queue).unwrap() {}
        poll(&mut driver);
        assert_eq!(selector.calls(), change.into_iter().chain(["wait"]).collect::<Vec<_>>());
        selector.will_find(&[SelectorEvent::Ready(token, ReadyFlags::WRITE)]);
        poll(&mut driver);
        assert_eq!(events(&mut driver), ["Wrote(Token(0.0), 0)"]);
        selector.calls();
    }
    // No write is pending any more: at most one such edge is reported.
    selector.will_find(&[SelectorEvent::Ready(token, ReadyFlags::WRITE)]);
    assert_eq!(poll(&mut driver).ready, 0);
    poll(&mut driver);
    let asked = selector.calls();
    assert!(asked.contains(&"modify Interest(readable | priority) | edge".into()), "{asked:?}");
}

#[test]
fn l17_room_reported_together_with_an_error_queue_entry_answers_the_write() {
    let (mut driver, selector) = driver();
    let (token, _peer) = stream(&mut driver);
    let mut queue = OutQueue::new();
    queue.push(vec![7; 64 * 1024].into());
    while let Submit::Done(_) = driver.write(token, &queue).unwrap() {}
    selector.will_find(&[SelectorEvent::Ready(token, ReadyFlags::WRITE | ReadyFlags::ERROR)]);
    poll(&mut driver);
    assert_eq!(events(&mut driver), [""; 0], "a pending error would have answered the write");
    assert_eq!(driver.wait(None).unwrap().ready, 1, "without another report of the kernel");
    assert_eq!(events(&mut driver), ["Wrote(Token(0.0), 0)"]);
}

#[test]
fn l05_an_error_behind_more_data_than_one_round_reads_is_found() {
    let (mut driver, selector) = driver();
    let (token, mut peer) = stream(&mut driver);
    driver.set_read(token, ON);
    peer.write_all(b"01234").unwrap();
    selector.will_find(&[SelectorEvent::Ready(token, ReadyFlags::READ | ReadyFlags::ERROR)]);
    poll(&mut driver);
    assert_eq!(events(&mut driver).len(), 3, "two reads and ReadComplete");
    // Now there is an error, and the kernel has reported it.
    socket2::SockRef::from(&peer).set_linger(Some(Duration::ZERO)).unwrap();
    drop(peer);
    let mut seen = Vec::new();
    for _ in 0..3 {
        poll(&mut driver);
        seen.extend(events(&mut driver));
    }
    assert!(seen.iter().any(|event| event.starts_with("Failed")), "{seen:?}");
}

#[test]
fn l16_a_listener_whose_accept_failed_retries_without_a_new_connection() {
    let (mut driver, selector) = driver();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let token = Token::from_bits(0);
    driver.attach(token, Socket::new(listener).unwrap().into(), Role::Listener).unwrap();
    driver.set_read(token, ON);
    let _peers = [(); 3].map(|()| TcpStream::connect(address).unwrap());
    selector.will_find(&[SelectorEvent::Ready(token, ReadyFlags::READ)]);
    poll(&mut driver);
    // The state after EMFILE: one connection was accepted, the round was cut short, and accepts are off.
    assert!(matches!(driver.next_event(), Some(IoEvent::Accepted(..))));
    driver.set_read(token, None);
    assert_eq!(events(&mut driver), ["ReadComplete(Token(0.0))"]);
    assert_eq!(poll(&mut driver).ready, 0, "reads are off");
    driver.set_read(token, ON);
    assert_eq!(driver.wait(None).unwrap().ready, 1);
    assert_eq!(events(&mut driver).len(), 3);
}

#[test]
fn l05_a_connecting_socket_is_registered_once() {
    let (mut driver, selector) = driver();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let token = Token::from_bits(0);
    let io = Socket::unconnected(address).unwrap().into();
    driver.attach(token, io, Role::Connecting(address.into())).unwrap();
    selector.will_find(&[SelectorEvent::Ready(token, ReadyFlags::WRITE)]);
    poll(&mut driver);
    assert_eq!(events(&mut driver), ["Connected(Token(0.0))"]);
    driver.set_read(token, ON);
    poll(&mut driver);
    let asked = selector.calls();
    assert_eq!(asked, ["add Interest(readable | writable | priority) | edge", "wait", "wait"]);
}

#[test]
fn l08_foreign_descriptors_and_unix_streams_are_level_triggered() {
    let (mut driver, selector) = driver();
    foreign(&mut driver);
    let (ours, _peer) = UnixStream::pair().unwrap();
    let token = Token::from_bits(1);
    driver.attach(token, Socket::new(ours).unwrap().into(), Role::Stream).unwrap();
    driver.set_read(token, ON);
    poll(&mut driver);
    assert_eq!(selector.calls(), ["add Interest(readable)", "add Interest(readable)", "wait"]);
}
