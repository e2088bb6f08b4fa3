//! Rounds are finite, whatever the kernel reports and whatever the loop does meanwhile (L05, L17).

use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;

use super::*;
use crate::DatagramSocket;

/// Few reads, so that an endless round is noticed soon.
const PLAN: ReadPlan = ReadPlan { max_reads: 2, size: 16 };

/// The events besides reads, one each: `Connected`, `Wrote`, `ReadComplete`, `Eof`, `Failed`.
const OTHER_EVENTS: usize = 5;

/// The number of waits with the same report, then the number of waits until the driver must be quiet.
const REPORTS: usize = 3;
const QUIET_ROUNDS: usize = 4;

/// The reaction of a loop to every event, in the middle of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reaction {
    None,
    /// Turns reads off and on with every event.
    TogglesReads,
    /// Sends with every event.
    Sends,
}

/// Keeps the peer of the registration with token zero alive.
type Attached = Box<dyn std::any::Any>;

fn attached<const EDGES: bool>(
    driver: &mut ReadinessDriver<Scripted<EDGES>>,
    kind: &str,
) -> Attached {
    let token = Token::from_bits(0);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    match kind {
        "stream" => Box::new(stream(driver)),
        "full stream" => {
            let (token, peer) = stream(driver);
            let mut queue = OutQueue::new();
            queue.push(vec![7; 64 * 1024].into());
            while let Submit::Done(_) = driver.write(token, &queue).unwrap() {}
            Box::new(peer)
        }
        "listener" => {
            driver.attach(token, Socket::new(listener).unwrap().into(), Role::Listener).unwrap();
            Box::new(())
        }
        "connecting" => {
            let io = Socket::unconnected(address).unwrap().into();
            driver.attach(token, io, Role::Connecting(address.into())).unwrap();
            Box::new(listener)
        }
        "UDP" => {
            let (ours, theirs) = (udp(), udp());
            ours.connect(theirs.local_addr().unwrap()).unwrap();
            driver
                .attach(token, DatagramSocket::new(ours).unwrap().into(), Role::Datagram)
                .unwrap();
            Box::new(theirs)
        }
        "full Unix datagrams" => {
            let (ours, theirs) = UnixDatagram::pair().unwrap();
            driver
                .attach(token, DatagramSocket::new(ours).unwrap().into(), Role::Datagram)
                .unwrap();
            while let Ok(Submit::Done(_)) = send(driver, token) {}
            Box::new(theirs)
        }
        "foreign" => Box::new(foreign(driver)),
        other => panic!("{other}"),
    }
}

fn udp() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

fn send<const EDGES: bool>(
    driver: &mut ReadinessDriver<Scripted<EDGES>>,
    token: Token,
) -> Result<Submit> {
    let datagram = Datagram::new("x");
    driver.send_datagrams(token, &mut std::iter::once(&datagram))
}

fn react<const EDGES: bool>(
    driver: &mut ReadinessDriver<Scripted<EDGES>>,
    token: Token,
    reaction: Reaction,
) {
    match reaction {
        Reaction::None => {}
        Reaction::TogglesReads => {
            driver.set_read(token, None);
            driver.set_read(token, Some(PLAN));
        }
        Reaction::Sends => {
            let mut queue = OutQueue::new();
            queue.push("x".into());
            let _ = driver.write(token, &queue).or_else(|_| send(driver, token));
        }
    }
}

/// Reports the same readiness three times for one registration of this kind, and reacts to every event.
fn check_rounds<const EDGES: bool>(
    kind: &str,
    reaction: Reaction,
    ready: ReadyFlags,
    reading: bool,
) {
    let (mut driver, selector) = scripted::<EDGES>();
    let _kept = attached(&mut driver, kind);
    let token = Token::from_bits(0);
    driver.set_read(token, reading.then_some(PLAN));
    let what = format!("of a {kind}, {reaction:?}: {ready:?}, reading: {reading}, edges: {EDGES}");
    for round in 0..REPORTS + QUIET_ROUNDS {
        if round < REPORTS {
            selector.will_find(&[SelectorEvent::Ready(token, ready)]);
        }
        let waited = poll(&mut driver);
        let is_calm = waited.ready == 0 || reaction != Reaction::None;
        assert!(is_calm || round + 1 < REPORTS + QUIET_ROUNDS, "no end {what}");
        let mut count = 0;
        while let Some(event) = driver.next_event() {
            count += 1;
            assert!(count <= PLAN.max_reads as usize + OTHER_EVENTS, "{event:?} {what}");
            react(&mut driver, token, reaction);
        }
    }
}

#[test]
fn l05_no_readiness_flags_and_no_reaction_to_them_make_a_round_endless() {
    let kinds = [
        "stream",
        "full stream",
        "listener",
        "connecting",
        "UDP",
        "full Unix datagrams",
        "foreign",
    ];
    let flags = [0, 1, 2, 3, 4, 5, 13].map(|bit| ReadyFlags::from_epoll(1 << bit));
    for (kind, reaction) in kinds.iter().flat_map(|kind| {
        [Reaction::None, Reaction::TogglesReads, Reaction::Sends].map(|reaction| (*kind, reaction))
    }) {
        for (mask, reading) in (1..1 << flags.len()).flat_map(|mask| [(mask, false), (mask, true)])
        {
            let ready = (0..flags.len()).filter(|bit| mask & (1 << bit) != 0);
            let ready = ready.fold(ReadyFlags::NONE, |all, bit| all | flags[bit]);
            check_rounds::<false>(kind, reaction, ready, reading);
            check_rounds::<true>(kind, reaction, ready, reading);
        }
    }
}

#[test]
fn l05_sockets_that_make_each_other_ready_do_not_extend_a_round() {
    let (mut driver, selector) = driver();
    let tokens = [0, 1].map(Token::from_bits);
    for token in tokens {
        let (ours, theirs) = (udp(), udp());
        ours.connect(theirs.local_addr().unwrap()).unwrap();
        driver.attach(token, DatagramSocket::new(ours).unwrap().into(), Role::Datagram).unwrap();
        driver.set_read(token, Some(PLAN));
    }
    // The peers are gone: a send may return the error of the previous datagram, which is then owed as an event.
    tokens.iter().for_each(|token| drop(send(&mut driver, *token)));
    for _ in 0..3 {
        selector.will_find(&tokens.map(|token| SelectorEvent::Ready(token, ReadyFlags::ERROR)));
        assert_eq!(poll(&mut driver).ready, 2);
        let mut count = 0;
        while let Some(event) = driver.next_event() {
            count += 1;
            assert!(count <= 4, "{event:?}: each has a ReadComplete and a ReceiveFailed");
            let other = tokens[usize::from(event.token() == tokens[0])];
            let _ = send(&mut driver, other);
        }
    }
}

#[test]
fn l17_error_queue_entries_do_not_delay_a_pending_write_while_the_peer_floods() {
    let (mut driver, selector) = driver();
    let (token, mut peer) = stream(&mut driver);
    crate::sys::enable_tx_timestamps(
        driver.registrations.get(token).unwrap().io.socket().unwrap().as_fd(),
    );
    let mut queue = OutQueue::new();
    queue.push(vec![7; 64 * 1024].into());
    while let Submit::Done(_) = driver.write(token, &queue).unwrap() {}
    driver.set_read(token, Some(PLAN));
    peer.write_all(&[7; 16 * 1024]).unwrap();
    // The kernel reports this as long as the error queue has entries.
    selector.will_find(&[SelectorEvent::Ready(
        token,
        ReadyFlags::READ | ReadyFlags::WRITE | ReadyFlags::ERROR,
    )]);
    poll(&mut driver);
    assert!(!events(&mut driver).iter().any(|event| event.starts_with("Wrote")));
    let socket = driver.registrations.get(token).unwrap().io.socket().unwrap();
    let left = rustix::net::recv(socket, &mut [0u8; 1], rustix::net::RecvFlags::ERRQUEUE);
    assert_eq!(
        left.unwrap_err(),
        Errno::AGAIN,
        "the error queue is empty, so the next wait reports no error"
    );
}

#[test]
fn l17_an_error_queue_entry_does_not_end_a_connect() {
    let (mut driver, selector) = driver();
    // TEST-NET-1: packets to it are lost.
    let address = "192.0.2.1:9".parse::<std::net::SocketAddr>().unwrap();
    let io = Socket::unconnected(address).unwrap().into();
    let token = Token::from_bits(0);
    if driver.attach(token, io, Role::Connecting(address.into())).is_err() {
        return; // The machine has no route, not even a default one.
    }
    selector.will_find(&[SelectorEvent::Ready(token, ReadyFlags::ERROR)]);
    poll(&mut driver);
    assert_eq!(events(&mut driver), [""; 0], "the connect goes on");
}
