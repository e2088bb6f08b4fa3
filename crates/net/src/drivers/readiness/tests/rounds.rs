//! Rounds end, whatever the kernel says and whatever is done meanwhile (L05, L17).

use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;

use super::*;
use crate::DatagramSocket;

/// Few reads, so that a round that goes on is seen soon.
const PLAN: ReadPlan = ReadPlan { max_reads: 2, size: 16 };

/// One each: `Connected`, `Wrote`, `ReadComplete`, `Eof`, `Failed`.
const BESIDES: usize = 5;

/// So many times a driver is told the same, and so many rounds later nothing may be left of it.
const TOLD: usize = 3;
const SETTLING: usize = 4;

/// What a loop may do in the middle of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Habit {
    Quiet,
    /// Turns reads off and on with every event.
    Restless,
    /// Sends with every event.
    Talkative,
}

/// What is attached under the token zero, together with what it needs to live.
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
    habit: Habit,
) {
    match habit {
        Habit::Quiet => {}
        Habit::Restless => {
            driver.set_read(token, None);
            driver.set_read(token, Some(PLAN));
        }
        Habit::Talkative => {
            let mut queue = OutQueue::new();
            queue.push("x".into());
            let _ = driver.write(token, &queue).or_else(|_| send(driver, token));
        }
    }
}

/// Tells a driver with one registration of this kind the same three times, and has it react to every event.
fn tell<const EDGES: bool>(kind: &str, habit: Habit, ready: ReadyFlags, reading: bool) {
    let (mut driver, selector) = scripted::<EDGES>();
    let _kept = attached(&mut driver, kind);
    let token = Token::from_bits(0);
    driver.set_read(token, reading.then_some(PLAN));
    let what = format!("of a {kind}, {habit:?}: {ready:?}, reading: {reading}, edges: {EDGES}");
    for round in 0..TOLD + SETTLING {
        if round < TOLD {
            selector.will_find(&[SelectorEvent::Ready(token, ready)]);
        }
        let waited = poll(&mut driver);
        let is_calm = waited.ready == 0 || habit != Habit::Quiet;
        assert!(is_calm || round + 1 < TOLD + SETTLING, "no end {what}");
        let mut count = 0;
        while let Some(event) = driver.next_event() {
            count += 1;
            assert!(count <= PLAN.max_reads as usize + BESIDES, "{event:?} {what}");
            react(&mut driver, token, habit);
        }
    }
}

#[test]
fn l05_no_flags_of_the_kernel_and_no_reaction_to_them_make_a_round_endless() {
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
    for (kind, habit) in kinds.iter().flat_map(|kind| {
        [Habit::Quiet, Habit::Restless, Habit::Talkative].map(|habit| (*kind, habit))
    }) {
        for (told, reading) in (1..1 << flags.len()).flat_map(|told| [(told, false), (told, true)])
        {
            let ready = (0..flags.len()).filter(|bit| told & (1 << bit) != 0);
            let ready = ready.fold(ReadyFlags::NONE, |all, bit| all | flags[bit]);
            tell::<false>(kind, habit, ready, reading);
            tell::<true>(kind, habit, ready, reading);
        }
    }
}

#[test]
fn l05_those_who_make_each_other_ready_take_turns_with_everybody_else() {
    let (mut driver, selector) = driver();
    let tokens = [0, 1].map(Token::from_bits);
    for token in tokens {
        let (ours, theirs) = (udp(), udp());
        ours.connect(theirs.local_addr().unwrap()).unwrap();
        driver.attach(token, DatagramSocket::new(ours).unwrap().into(), Role::Datagram).unwrap();
        driver.set_read(token, Some(PLAN));
    }
    // Their peers are gone: a send takes the error of the one before, and may have it to tell.
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
fn l17_notes_in_the_error_queue_do_not_hold_up_a_write_while_the_peer_floods() {
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
    // As the kernel says as long as the notes are there.
    selector.will_find(&[SelectorEvent::Ready(
        token,
        ReadyFlags::READ | ReadyFlags::WRITE | ReadyFlags::ERROR,
    )]);
    poll(&mut driver);
    assert!(!events(&mut driver).iter().any(|event| event.starts_with("Wrote")));
    let socket = driver.registrations.get(token).unwrap().io.socket().unwrap();
    let left = rustix::net::recv(socket, &mut [0u8; 1], rustix::net::RecvFlags::ERRQUEUE);
    assert_eq!(left.unwrap_err(), Errno::AGAIN, "the next wait says nothing of errors");
}

#[test]
fn l17_a_note_in_the_error_queue_does_not_end_a_connect() {
    let (mut driver, selector) = driver();
    // Nobody answers: what is sent there gets lost.
    let address = "192.0.2.1:9".parse::<std::net::SocketAddr>().unwrap();
    let io = Socket::unconnected(address).unwrap().into();
    let token = Token::from_bits(0);
    if driver.attach(token, io, Role::Connecting(address.into())).is_err() {
        return; // There is no network at all.
    }
    selector.will_find(&[SelectorEvent::Ready(token, ReadyFlags::ERROR)]);
    poll(&mut driver);
    assert_eq!(events(&mut driver), [""; 0], "it goes on");
}
