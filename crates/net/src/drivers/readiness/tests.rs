//! Rare kernel behaviour that a test cannot provoke, simulated by a scripted selector.

mod edges;
mod error_queues;
mod rounds;

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;

use waterwheel_channel::driver::OpenDriver;

use super::*;
use crate::drivers::selector::{ReadyFlags, SelectorEvent, WatchedEvents};
use crate::foreign::foreign_io;
use crate::sockets::socket::Socket;

/// The calls made to the selector, and the results of the next calls.
#[derive(Default)]
struct Script {
    calls: Vec<String>,
    waits: VecDeque<io::Result<Vec<SelectorEvent>>>,
    /// The events of the last wait.
    found: Vec<SelectorEvent>,
    /// The call to refuse.
    refuse: Option<&'static str>,
    /// The token for which `add` panics.
    panics: Option<Token>,
    /// The errno of a refusal.
    errno: Option<Errno>,
    timeouts: Vec<Option<Duration>>,
}

/// A selector that follows a script: level-triggered, or edge-triggered with `EDGES`.
#[derive(Clone, Default)]
struct Scripted<const EDGES: bool = false>(Arc<Mutex<Script>>);

impl<const EDGES: bool> Scripted<EDGES> {
    fn script(&self) -> std::sync::MutexGuard<'_, Script> {
        self.0.lock().unwrap()
    }

    /// Makes the next wait return these events.
    fn will_find(&self, signals: &[SelectorEvent]) {
        self.script().waits.push_back(Ok(signals.to_vec()));
    }

    fn will_fail(&self, kind: ErrorKind) {
        self.script().waits.push_back(Err(kind.into()));
    }

    /// Returns the selector calls since the last call of this function.
    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.script().calls)
    }

    fn record(&self, what: &'static str, watch: Option<WatchedEvents>) -> io::Result<()> {
        let mut script = self.script();
        script.calls.push(watch.map_or(what.into(), |watch| format!("{what} {watch:?}")));
        match script.refuse {
            Some(refused) if refused == what => Err(match script.errno {
                Some(errno) => context(format!("no {what}"))(errno.into()),
                None => io::Error::other(format!("no {what}")),
            }),
            _ => Ok(()),
        }
    }
}

impl<const EDGES: bool> Selector for Scripted<EDGES> {
    const FORGETS_CLOSED: bool = true;
    const SUPPORTS_EDGES: bool = EDGES;

    fn reopen(&self, _waker: &Arc<Waker>) -> io::Result<Self> {
        self.record("reopen", None)?;
        Ok(self.clone())
    }

    fn add(&mut self, _: BorrowedFd<'_>, token: Token, watch: WatchedEvents) -> io::Result<()> {
        if self.script().panics.take_if(|at| *at == token).is_some() {
            std::panic::resume_unwind(Box::new("a fault"));
        }
        self.record("add", Some(watch))
    }

    fn modify(&mut self, _: BorrowedFd<'_>, _: Token, watch: WatchedEvents) -> io::Result<()> {
        self.record("modify", Some(watch))
    }

    fn remove(&mut self, _: BorrowedFd<'_>, _: Token) {
        let _ = self.record("remove", None);
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        self.record("wait", None)?;
        let mut script = self.script();
        script.timeouts.push(timeout);
        script.found = script.waits.pop_front().unwrap_or(Ok(Vec::new()))?;
        Ok(script.found.len())
    }

    fn event_at(&self, at: usize) -> SelectorEvent {
        self.script().found[at]
    }

    fn events(&self, n: usize) -> impl Iterator<Item = SelectorEvent> {
        let found: Vec<SelectorEvent> = self.script().found[..n].to_vec(); // The lock is released here.
        found.into_iter()
    }
}

fn driver() -> (ReadinessDriver<Scripted>, Scripted) {
    scripted()
}

fn scripted<const EDGES: bool>() -> (ReadinessDriver<Scripted<EDGES>>, Scripted<EDGES>) {
    let selector = Scripted::default();
    let waker = Arc::new(Waker::open().unwrap());
    (ReadinessDriver::new("scripted", selector.clone(), waker), selector)
}

/// Attaches a stream; returns its token and its peer.
fn stream<const EDGES: bool>(driver: &mut ReadinessDriver<Scripted<EDGES>>) -> (Token, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (ours, _) = listener.accept().unwrap();
    let token = Token::from_bits(driver.registrations.len() as u64);
    driver.attach(token, Socket::new(ours).unwrap().into(), Role::Stream).unwrap();
    (token, peer)
}

fn foreign<const EDGES: bool>(driver: &mut ReadinessDriver<Scripted<EDGES>>) -> Token {
    let token = Token::from_bits(driver.registrations.len() as u64);
    let io = foreign_io(Arc::new(Waker::open().unwrap()));
    driver.register_foreign(token, io, Interest::READABLE).unwrap();
    token
}

fn events<const EDGES: bool>(driver: &mut ReadinessDriver<Scripted<EDGES>>) -> Vec<String> {
    std::iter::from_fn(|| driver.next_event()).map(|event| format!("{event:?}")).collect()
}

fn poll<const EDGES: bool>(driver: &mut ReadinessDriver<Scripted<EDGES>>) -> WaitSummary {
    driver.wait(Some(Nanos(0))).unwrap()
}

#[test]
fn an_idle_wait_without_deadline_makes_one_system_call() {
    let (mut driver, selector) = driver();
    selector.will_find(&[SelectorEvent::Woken]);
    assert_eq!(driver.wait(None).unwrap(), WaitSummary { ready: 0, woken: true });
    assert_eq!(selector.calls(), ["wait"]);
    assert_eq!(selector.script().timeouts, [None]);
}

#[test]
fn changes_are_applied_at_the_wait_and_only_if_there_are_any() {
    let (mut driver, selector) = driver();
    let (token, _peer) = stream(&mut driver);
    driver.set_read(token, Some(ReadPlan::default()));
    assert_eq!(selector.calls(), [""; 0], "nothing before the wait");
    poll(&mut driver);
    assert_eq!(
        selector.calls(),
        ["add Interest(readable)", "wait"],
        "attach and set_read in one call"
    );
    driver.set_read(token, None);
    driver.set_read(token, Some(ReadPlan { max_reads: 1, size: 9 }));
    poll(&mut driver);
    assert_eq!(selector.calls(), ["wait"], "unchanged after off and on");
    driver.set_read(token, None);
    poll(&mut driver);
    assert_eq!(selector.calls(), ["modify Interest() | read end", "wait"]);
    driver.set_read(token, Some(ReadPlan::default()));
    assert_eq!(driver.detach(token), Detach::Done);
    assert_eq!(selector.calls(), ["remove"]);
    poll(&mut driver);
    assert_eq!(selector.calls(), ["wait"], "the change was dropped with the registration");
}

#[test]
fn l17_write_interest_is_removed_before_the_next_wait() {
    let (mut driver, selector) = driver();
    let (token, _peer) = stream(&mut driver);
    let mut queue = OutQueue::new();
    queue.push(vec![7; 64 * 1024].into());
    while let Submit::Done(_) = driver.write(token, &queue).unwrap() {}
    poll(&mut driver);
    assert_eq!(selector.calls(), ["add Interest(writable) | read end", "wait"]);
    selector.will_find(&[SelectorEvent::Ready(token, ReadyFlags::WRITE)]);
    poll(&mut driver);
    assert_eq!(events(&mut driver), ["Wrote(Token(0.0), 0)"]);
    selector.calls();
    poll(&mut driver);
    assert_eq!(selector.calls(), ["modify Interest() | read end", "wait"]);
}

#[test]
fn l06_a_wait_after_eintr_continues_with_the_remaining_time() {
    let (mut driver, selector) = driver();
    selector.will_fail(ErrorKind::Interrupted);
    selector.will_fail(ErrorKind::Interrupted);
    selector.will_find(&[SelectorEvent::Woken]);
    let limit = Duration::from_secs(60);
    let until = driver.clock().now().plus(limit);
    assert!(driver.wait(Some(until)).unwrap().woken);
    let timeouts: Vec<_> = selector.script().timeouts.iter().map(|time| time.unwrap()).collect();
    assert_eq!(timeouts.len(), 3);
    assert!(timeouts.is_sorted_by(|earlier, later| earlier > later), "{timeouts:?}");
    assert!(timeouts[0] <= limit);
}

#[test]
fn l06_a_failed_wait_returns_the_error_and_loses_no_event() {
    let (mut driver, selector) = driver();
    let (token, mut peer) = stream(&mut driver);
    driver.set_read(token, Some(ReadPlan::default()));
    selector.will_fail(ErrorKind::Other);
    assert_eq!(driver.wait(None).unwrap_err().kind(), ErrorKind::Other);
    peer.write_all(b"x").unwrap();
    selector.will_find(&[SelectorEvent::Ready(token, ReadyFlags::READ)]);
    assert_eq!(driver.wait(None).unwrap().ready, 1);
    assert_eq!(events(&mut driver).len(), 1, "read and ReadComplete in one event");
}

#[test]
fn l06_a_rebuild_fails_refused_registrations_and_keeps_the_old_set_if_no_new_one_opens() {
    let (mut driver, selector) = driver();
    let (token, _peer) = stream(&mut driver);
    let other = foreign(&mut driver);
    poll(&mut driver);
    selector.script().refuse = Some("reopen");
    assert_eq!(driver.rebuild().unwrap_err().to_string(), "no reopen");
    assert_eq!(events(&mut driver), [""; 0]);
    selector.script().refuse = Some("add");
    assert_eq!(driver.rebuild().unwrap(), 0);
    assert_eq!(driver.wait(None).unwrap().ready, 2, "without blocking");
    let failed = events(&mut driver);
    assert!(failed[0].contains(&format!("Failed({token:?}")), "{failed:?}");
    assert!(failed[1].contains(&format!("Failed({other:?}")), "{failed:?}");
    assert!(failed.iter().all(|event| event.contains("no add")));
    selector.script().refuse = None;
    selector.calls();
    poll(&mut driver);
    assert_eq!(driver.rebuild().unwrap(), 2);
    assert_eq!(selector.calls(), ["wait", "reopen"], "no broken registration is added");
}

#[test]
fn l17_a_socket_that_the_kernel_refuses_to_watch_fails_at_the_next_wait() {
    let (mut driver, selector) = driver();
    selector.script().refuse = Some("add");
    let (token, _peer) = stream(&mut driver);
    assert_eq!(driver.wait(None).unwrap().ready, 1);
    assert_eq!(selector.script().timeouts, [Some(Duration::ZERO)], "without blocking");
    let failed = events(&mut driver);
    assert!(failed[0].starts_with(&format!("Failed({token:?}")), "{failed:?}");
    assert_eq!(failed.len(), 1);
}

#[test]
fn l08_a_refused_change_keeps_the_previous_interest() {
    let (mut driver, selector) = driver();
    let token = foreign(&mut driver);
    selector.script().refuse = Some("modify");
    assert!(driver.set_interest(token, Interest::WRITABLE).is_err());
    selector.will_find(&[SelectorEvent::Ready(token, ReadyFlags::READ | ReadyFlags::WRITE)]);
    poll(&mut driver);
    assert_eq!(events(&mut driver), ["Foreign(Token(0.0), Readiness(readable))"]);
}

#[test]
fn l08_a_descriptor_that_left_the_kernels_set_fails_and_is_not_touched_again() {
    for errno in [Errno::BADF, Errno::NOENT] {
        let (mut driver, selector) = driver();
        let token = foreign(&mut driver);
        selector.script().refuse = Some("modify");
        selector.script().errno = Some(errno);
        let error = driver.set_interest(token, Interest::WRITABLE).unwrap_err();
        assert!(error.to_string().contains("no modify"), "{error}");
        assert_eq!(driver.wait(None).unwrap().ready, 1, "without blocking");
        let failed = events(&mut driver);
        assert!(failed[0].starts_with(&format!("Failed({token:?}")), "{failed:?}");
        assert!(failed[0].contains(&format!("code: {}", errno.raw_os_error())), "{failed:?}");
        assert_eq!(failed.len(), 1, "{failed:?}");
        selector.calls();
        poll(&mut driver);
        assert_eq!(driver.detach(token), Detach::Done);
        assert_eq!(selector.calls(), ["wait"], "the descriptor number may be reused");
    }
}

#[test]
fn l08_a_closed_descriptor_fails_and_is_no_longer_watched() {
    let (mut driver, selector) = driver();
    let token = foreign(&mut driver);
    let (socket, _peer) = stream(&mut driver);
    poll(&mut driver);
    selector
        .will_find(&[token, socket].map(|token| SelectorEvent::Ready(token, ReadyFlags::INVALID)));
    assert_eq!(poll(&mut driver).ready, 2);
    let failed = events(&mut driver);
    assert!(failed.iter().all(|event| event.contains("Failed") && event.contains("code: 9")));
    assert_eq!(failed.len(), 2, "{failed:?}");
    selector.calls();
    poll(&mut driver);
    assert_eq!(selector.calls(), ["remove", "remove", "wait"]);
}

#[test]
fn l17_an_error_flag_without_a_pending_error_is_harmless() {
    let (mut driver, selector) = driver();
    let (token, mut peer) = stream(&mut driver);
    driver.set_read(token, Some(ReadPlan::default()));
    peer.write_all(b"x").unwrap();
    selector.will_find(&[SelectorEvent::Ready(token, ReadyFlags::READ | ReadyFlags::ERROR)]);
    poll(&mut driver);
    let round = ["Read(Token(0.0), b\"x\")", "ReadComplete(Token(0.0))"];
    assert_eq!(events(&mut driver), round);
    driver.set_read(token, None);
    selector.will_find(&[SelectorEvent::Ready(token, ReadyFlags::ERROR)]);
    poll(&mut driver);
    assert_eq!(events(&mut driver), [""; 0]);
}

#[test]
fn l17_a_connect_that_was_aborted_through_a_duplicate_fails() {
    let (mut driver, selector) = driver();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let socket = Socket::unconnected(address).unwrap();
    let duplicate = rustix::io::dup(&socket).unwrap();
    let token = Token::from_bits(0);
    driver.attach(token, socket.into(), Role::Connecting(address.into())).unwrap();
    rustix::net::connect_unspec(&duplicate).unwrap();
    rustix::net::sockopt::socket_error(&duplicate).unwrap().unwrap_err();
    selector.will_find(&[SelectorEvent::Ready(token, ReadyFlags::WRITE | ReadyFlags::HANG_UP)]);
    poll(&mut driver);
    let failed = events(&mut driver);
    assert!(failed[0].contains("NotConnected"), "{failed:?}");
    assert_eq!(failed.len(), 1);
}

#[test]
fn l07_an_event_of_a_detached_token_is_not_counted() {
    let (mut driver, selector) = driver();
    let token = foreign(&mut driver);
    assert_eq!(driver.detach(token), Detach::Done);
    selector.will_find(&[SelectorEvent::Ready(token, ReadyFlags::READ)]);
    let until = driver.clock().now().plus(Duration::from_secs(60));
    assert_eq!(
        driver.wait(Some(until)).unwrap(),
        WaitSummary::default(),
        "returns at once with nothing ready"
    );
    assert_eq!(events(&mut driver), [""; 0]);
}

#[test]
fn l17_an_unread_error_queue_does_not_make_the_driver_spin() {
    for factory in [&crate::Epoll as &dyn OpenDriver, &crate::Poll] {
        for reading in [false, true] {
            let mut driver = factory.open().unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let _peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (ours, _) = listener.accept().unwrap();
            crate::sys::enable_tx_timestamps(ours.as_fd());
            let token = Token::from_bits(0);
            driver.attach(token, Socket::new(ours).unwrap().into(), Role::Stream).unwrap();
            driver.set_read(token, reading.then(ReadPlan::default));
            let mut queue = OutQueue::new();
            queue.push("x".into());
            assert_eq!(driver.write(token, &queue).unwrap(), Submit::Done(1));

            let until = driver.clock().now().plus(Duration::from_millis(200));
            let mut turns = 0;
            while driver.clock().now() < until {
                turns += driver.wait(Some(until)).unwrap().ready;
                while let Some(event) = driver.next_event() {
                    assert!(matches!(event, IoEvent::ReadComplete(_)), "{event:?}");
                }
            }
            assert!((1..5).contains(&turns), "{turns} turns, reading: {reading}");
        }
    }
}

#[test]
fn c13_a_descriptor_that_the_kernel_refuses_to_pass_leaves_the_stream_usable() {
    let Some(ring) = crate::sys::open_io_uring() else { return }; // The kernel refuses no other descriptor this way.
    let (mut driver, _) = driver();
    let (ours, _peer) = UnixStream::pair().unwrap();
    let token = Token::from_bits(0);
    driver.attach(token, Socket::new(ours).unwrap().into(), Role::Stream).unwrap();
    let message = AncillaryMessage::new("x", vec![crate::wrap_descriptor(ring)]);
    let refused = driver.send_ancillary(token, &message).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput, "like a value that is not a descriptor");
    let mut queue = OutQueue::new();
    queue.push("x".into());
    assert_eq!(driver.write(token, &queue).unwrap(), Submit::Done(1));
}

#[test]
fn r05_a_panic_over_one_registration_keeps_the_changes_of_the_others() {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    for rebuilt in [false, true] {
        let (mut driver, selector) = driver();
        let plan = Some(ReadPlan { size: 100, max_reads: 1 });
        let streams = [(); 3].map(|()| stream(&mut driver));
        streams.iter().for_each(|(token, _)| driver.set_read(*token, plan));
        let doomed = streams[1].0;
        if rebuilt {
            poll(&mut driver);
        }
        selector.calls();
        selector.script().panics = Some(doomed);
        let act = AssertUnwindSafe(|| match rebuilt {
            true => _ = driver.rebuild(),
            false => _ = poll(&mut driver),
        });
        catch_unwind(act).unwrap_err();
        assert_eq!(driver.working_on(), Some(doomed));
        assert_eq!(driver.detach(doomed), Detach::Done);
        assert_eq!(driver.working_on(), None);
        if rebuilt {
            assert_eq!(driver.rebuild().unwrap(), 2);
        }
        poll(&mut driver);
        let added = selector.calls().into_iter().filter(|asked| asked.starts_with("add")).count();
        assert_eq!(
            added,
            if rebuilt { 3 } else { 2 },
            "after a rebuild the first one is added again, to the newer set"
        );
    }
}

#[test]
fn r05_working_on_is_the_token_whose_event_is_next() {
    let (mut driver, selector) = driver();
    let plan = Some(ReadPlan { size: 100, max_reads: 1 });
    let mut streams = [(); 2].map(|()| stream(&mut driver));
    streams.iter().for_each(|(token, _)| driver.set_read(*token, plan));
    streams.iter_mut().for_each(|(_, peer)| peer.write_all(b"x").unwrap());
    selector.will_find(
        &streams.each_ref().map(|(token, _)| SelectorEvent::Ready(*token, ReadyFlags::READ)),
    );
    poll(&mut driver);
    assert_eq!(driver.working_on(), Some(streams[0].0));
    assert_eq!(driver.detach(streams[0].0), Detach::Done);
    assert_eq!(driver.next_event().map(|event| event.token()), Some(streams[1].0));
    while driver.next_event().is_some() {}
    assert_eq!(driver.working_on(), None);
}
