//! What a driver does over a selector that says once what is ready.

use waterwheel_channel::driver::Role;

use super::*;

const ON: Option<ReadPlan> = Some(ReadPlan { max_reads: 2, size: 2 });

fn driver() -> (ReadinessDriver<Scripted<true>>, Scripted<true>) {
    scripted()
}

#[test]
fn l17_reads_that_go_off_and_on_are_nothing_to_the_kernel() {
    let (mut driver, selector) = driver();
    let (token, _peer) = stream(&mut driver);
    driver.set_read(token, ON);
    poll(&mut driver);
    assert_eq!(selector.asked(), ["add Interest(readable | priority), edges", "wait"]);
    for reads in [None, ON, None] {
        driver.set_read(token, reads);
        poll(&mut driver);
        assert_eq!(selector.asked(), ["wait"]);
    }
}

#[test]
fn l17_an_edge_that_nobody_waits_for_is_kept_and_not_asked_for_any_longer() {
    let (mut driver, selector) = driver();
    let (token, mut peer) = stream(&mut driver);
    driver.set_read(token, ON);
    poll(&mut driver);
    driver.set_read(token, None);
    peer.write_all(b"x").unwrap();
    selector.asked();
    selector.will_find(&[SelectorEvent::Ready(token, ReadyFlags::READ)]);
    selector.will_find(&[SelectorEvent::Woken]);
    let waited = driver.wait(None).unwrap();
    assert_eq!(waited, WaitSummary { ready: 0, woken: true }, "the edge ended no wait");
    assert_eq!(selector.asked(), ["wait", "modify Interest() and the end, edges", "wait"]);
    driver.set_read(token, ON);
    assert_eq!(
        driver.wait(None).unwrap().ready,
        1,
        "without blocking, and without a word of the kernel"
    );
    assert_eq!(selector.script().timeouts.last(), Some(&Some(Duration::ZERO)));
    assert_eq!(selector.asked(), ["modify Interest(readable | priority), edges", "wait"]);
    assert_eq!(events(&mut driver), ["LastRead(Token(0.0), b\"x\")"]);
    selector.will_find(&[SelectorEvent::Woken]);
    assert_eq!(driver.wait(None).unwrap().ready, 0, "a short read was the last");
}

#[test]
fn l05_what_a_full_round_leaves_comes_behind_what_the_kernel_names() {
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
    assert_eq!(
        order,
        [first, second, third, first, second, third],
        "the kernel is asked each time"
    );
    assert_eq!(selector.asked().iter().filter(|asked| *asked == "wait").count(), 3);
    selector.will_find(&[SelectorEvent::Woken]);
    assert_eq!(driver.wait(None).unwrap().ready, 0, "and nothing is left");
}

#[test]
fn l05_a_write_that_finds_no_room_is_asked_for_once() {
    let (mut driver, selector) = driver();
    let (token, _peer) = stream(&mut driver);
    driver.set_read(token, ON);
    poll(&mut driver);
    selector.asked();
    let mut queue = OutQueue::new();
    queue.push(vec![7; 64 * 1024].into());
    for asked in [Some("modify Interest(readable | writable | priority), edges"), None, None] {
        while let Submit::Done(_) = driver.write(token, &queue).unwrap() {}
        poll(&mut driver);
        assert_eq!(selector.asked(), asked.into_iter().chain(["wait"]).collect::<Vec<_>>());
        selector.will_find(&[SelectorEvent::Ready(token, ReadyFlags::WRITE)]);
        poll(&mut driver);
        assert_eq!(events(&mut driver), ["Wrote(Token(0.0), 0)"]);
        selector.asked();
    }
    // Nobody waits for room any more: at most one such edge is reported.
    selector.will_find(&[SelectorEvent::Ready(token, ReadyFlags::WRITE)]);
    assert_eq!(poll(&mut driver).ready, 0);
    poll(&mut driver);
    let asked = selector.asked();
    assert!(asked.contains(&"modify Interest(readable | priority), edges".into()), "{asked:?}");
}

#[test]
fn l17_room_that_comes_with_a_note_in_the_error_queue_is_told() {
    let (mut driver, selector) = driver();
    let (token, _peer) = stream(&mut driver);
    let mut queue = OutQueue::new();
    queue.push(vec![7; 64 * 1024].into());
    while let Submit::Done(_) = driver.write(token, &queue).unwrap() {}
    selector.will_find(&[SelectorEvent::Ready(token, ReadyFlags::WRITE | ReadyFlags::ERROR)]);
    poll(&mut driver);
    assert_eq!(events(&mut driver), [""; 0], "an error would answer it");
    assert_eq!(driver.wait(None).unwrap().ready, 1, "without another word of the kernel");
    assert_eq!(events(&mut driver), ["Wrote(Token(0.0), 0)"]);
}

#[test]
fn l05_an_error_behind_more_than_a_round_reads_is_found() {
    let (mut driver, selector) = driver();
    let (token, mut peer) = stream(&mut driver);
    driver.set_read(token, ON);
    peer.write_all(b"01234").unwrap();
    selector.will_find(&[SelectorEvent::Ready(token, ReadyFlags::READ | ReadyFlags::ERROR)]);
    poll(&mut driver);
    assert_eq!(events(&mut driver).len(), 3, "two reads and their end");
    // Now there is one, and the kernel has said so.
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
fn l16_a_listener_that_could_not_accept_tries_again_though_nobody_else_connects() {
    let (mut driver, selector) = driver();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let token = Token::from_bits(0);
    driver.attach(token, Socket::new(listener).unwrap().into(), Role::Listener).unwrap();
    driver.set_read(token, ON);
    let _peers = [(); 3].map(|()| TcpStream::connect(address).unwrap());
    selector.will_find(&[SelectorEvent::Ready(token, ReadyFlags::READ)]);
    poll(&mut driver);
    // As after EMFILE: one was accepted, the round broken off, and accepting is off for a while.
    assert!(matches!(driver.next_event(), Some(IoEvent::Accepted(..))));
    driver.set_read(token, None);
    assert_eq!(events(&mut driver), ["ReadComplete(Token(0.0))"]);
    assert_eq!(poll(&mut driver).ready, 0, "nobody waits for it");
    driver.set_read(token, ON);
    assert_eq!(driver.wait(None).unwrap().ready, 1);
    assert_eq!(events(&mut driver).len(), 3);
}

#[test]
fn l05_a_socket_that_connects_is_asked_for_once() {
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
    let asked = selector.asked();
    assert_eq!(asked, ["add Interest(readable | writable | priority), edges", "wait", "wait"]);
}

#[test]
fn l08_a_descriptor_that_is_no_socket_and_a_local_stream_are_level_triggered() {
    let (mut driver, selector) = driver();
    foreign(&mut driver);
    let (ours, _peer) = UnixStream::pair().unwrap();
    let token = Token::from_bits(1);
    driver.attach(token, Socket::new(ours).unwrap().into(), Role::Stream).unwrap();
    driver.set_read(token, ON);
    poll(&mut driver);
    assert_eq!(selector.asked(), ["add Interest(readable)", "add Interest(readable)", "wait"]);
}
