//! A driver under test, the tokens of its registrations, and its events as text.
#![allow(dead_code, reason = "every test binary uses a part of it")]

use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockRef;
use waterwheel_channel::driver::{
    Detach, Driver, Interest, Io, IoEvent, OpenDriver, OutQueue, ReadPlan, Role, Submit,
    WaitSummary,
};
use waterwheel_channel::{Slab, Token};
use waterwheel_executor::Nanos;
use waterwheel_net::{CoarseEpoll, Epoll, ForeignSource, Poll, Socket, foreign_io};

/// Longer than any step takes; a test that waits this long fails.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The time for which a driver is observed for spinning, and the number of wait returns that counts as spinning (L17).
pub(crate) const WATCH_TIME: Duration = Duration::from_millis(200);
pub(crate) const SPIN_TURNS: usize = 5;

/// Runs a test over every driver, and over epoll with millisecond waits (without `epoll_pwait2`).
pub(crate) fn on_every_driver(test: impl Fn(&mut DriverRig)) {
    on("epoll", &Epoll, &test);
    on("epoll in milliseconds", &CoarseEpoll, &test);
    on("poll", &Poll, &test);
}

/// Runs a test over one driver, and prints the name of the driver if the test fails.
pub(crate) fn on(name: &'static str, factory: &dyn OpenDriver, test: impl Fn(&mut DriverRig)) {
    struct NameOnPanic(&'static str);
    impl Drop for NameOnPanic {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("with the driver {}", self.0);
            }
        }
    }
    let _name = NameOnPanic(name);
    test(&mut DriverRig::new(factory.open().unwrap()));
}

/// A driver with its tokens.
pub(crate) struct DriverRig {
    pub(crate) driver: Box<dyn Driver>,
    pub(crate) tokens: Slab<()>,
    /// Accepted connections.
    pub(crate) accepted: Vec<Io>,
    /// The `ReadComplete` of a `LastRead` whose `Read` was handed out.
    complete: Option<IoEvent>,
}

impl DriverRig {
    pub(crate) fn new(driver: Box<dyn Driver>) -> Self {
        Self { driver, tokens: Slab::new(), accepted: Vec::new(), complete: None }
    }

    pub(crate) fn token(&mut self) -> Token {
        self.tokens.insert(())
    }

    pub(crate) fn attach(&mut self, socket: impl Into<Io>, role: Role) -> Token {
        let token = self.token();
        self.driver.attach(token, socket.into(), role).unwrap();
        token
    }

    /// Attaches a connected stream with reads off; returns its token and its peer.
    pub(crate) fn stream(&mut self) -> (Token, TcpStream) {
        let (ours, peer) = pair();
        (self.attach(Socket::new(ours).unwrap(), Role::Stream), peer)
    }

    pub(crate) fn foreign(&mut self, source: Arc<dyn ForeignSource>, interest: Interest) -> Token {
        let token = self.token();
        self.driver.register_foreign(token, foreign_io(source), interest).unwrap();
        token
    }

    pub(crate) fn detach(&mut self, token: Token) {
        assert_eq!(self.driver.detach(token), Detach::Done);
        self.tokens.remove(token);
        self.complete.take_if(|complete| complete.token() == token);
    }

    pub(crate) fn read_on(&mut self, token: Token) {
        self.driver.set_read(token, Some(ReadPlan::default()));
    }

    pub(crate) fn read_off(&mut self, token: Token) {
        self.driver.set_read(token, None);
    }

    pub(crate) fn write(&mut self, token: Token, bytes: &'static [u8]) -> std::io::Result<Submit> {
        self.driver.write(token, &queue_of(bytes))
    }

    /// Writes until there is no room; returns the number of bytes.
    pub(crate) fn fill(&mut self, token: Token) -> usize {
        let mut written = 0;
        let queue = queue_of(&[7; 64 * 1024]);
        while let Submit::Done(n) = self.driver.write(token, &queue).unwrap() {
            written += n;
        }
        written
    }

    pub(crate) fn after(&self, duration: Duration) -> Nanos {
        self.driver.clock().now().plus(duration)
    }

    /// Waits once without blocking.
    pub(crate) fn poll(&mut self) -> WaitSummary {
        self.driver.wait(Some(Nanos(0))).unwrap()
    }

    /// Returns all remaining events of this round as text.
    pub(crate) fn drain(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.next_event().map(|(_, words)| words)).collect()
    }

    /// Returns the next event of this round as text. A `LastRead` is split into its two events.
    fn next_event(&mut self) -> Option<(Token, String)> {
        let event = self.complete.take().or_else(|| self.driver.next_event())?;
        let (event, complete) = event.split();
        self.complete = complete;
        Some(describe(event, &mut self.accepted))
    }

    /// Waits for the next event.
    pub(crate) fn event(&mut self) -> (Token, String) {
        let deadline = self.after(TIME_LIMIT);
        loop {
            if let Some(event) = self.next_event() {
                return event;
            }
            assert!(self.driver.clock().now() < deadline, "no event came");
            self.driver.wait(Some(deadline)).unwrap();
        }
    }

    /// Waits for a round with events; returns them as text.
    pub(crate) fn round(&mut self) -> Vec<String> {
        let (_, first) = self.event();
        let mut round = vec![first];
        round.extend(self.drain());
        round
    }

    /// Runs rounds until this event occurs; returns all events up to the end of that round.
    pub(crate) fn rounds_until(&mut self, last: &str) -> Vec<String> {
        let mut seen = Vec::new();
        while !seen.iter().any(|event: &String| event == last) {
            seen.extend(self.round());
        }
        seen
    }

    /// Fails if an event arrives, or if waits keep returning without an event.
    pub(crate) fn assert_quiet(&mut self) {
        let deadline = self.after(WATCH_TIME);
        let mut turns = 0;
        while self.driver.clock().now() < deadline {
            self.driver.wait(Some(deadline)).unwrap();
            assert_eq!(self.drain(), [""; 0]);
            turns += 1;
        }
        assert!(turns < SPIN_TURNS, "{turns} returns of a wait with nothing to do");
    }
}

pub(crate) fn queue_of(bytes: &'static [u8]) -> OutQueue {
    let mut queue = OutQueue::new();
    queue.push(Bytes::from_static(bytes));
    queue
}

/// Returns both ends of a TCP connection.
pub(crate) fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (peer, _) = listener.accept().unwrap();
    // TCP_NODELAY: tests check single segments.
    ours.set_nodelay(true).unwrap();
    peer.set_nodelay(true).unwrap();
    (ours, peer)
}

/// Closes a connection with a reset.
pub(crate) fn reset(peer: TcpStream) {
    SockRef::from(&peer).set_linger(Some(Duration::ZERO)).unwrap();
}

/// Duplicates a descriptor.
pub(crate) fn dup(fd: impl AsFd) -> OwnedFd {
    fd.as_fd().try_clone_to_owned().unwrap()
}

/// Waits with poll(2), without the driver, until the kernel reports these flags.
pub(crate) fn until(fd: impl AsFd, flags: PollFlags) {
    let limit = Timespec::try_from(TIME_LIMIT).unwrap();
    let mut set = [PollFd::from_borrowed_fd(fd.as_fd(), flags)];
    assert_eq!(poll(&mut set, Some(&limit)).unwrap(), 1, "{flags:?} did not come");
    assert!(set[0].revents().contains(flags), "{:?} instead of {flags:?}", set[0].revents());
}

/// Returns an event as text; an accepted connection is moved to `accepted`.
fn describe(event: IoEvent, accepted: &mut Vec<Io>) -> (Token, String) {
    let token = event.token();
    let words = match event {
        IoEvent::Connected(_) => "connected".into(),
        IoEvent::Wrote(_, n) => format!("wrote {n}"),
        IoEvent::Accepted(_, io, _) => {
            accepted.push(io);
            "accepted".into()
        }
        IoEvent::Read(_, bytes) => {
            assert!(!bytes.is_empty(), "a read is never empty");
            match std::str::from_utf8(&bytes) {
                Ok(text) if text.len() < 80 => format!("read {text}"),
                _ => format!("read {} bytes", bytes.len()),
            }
        }
        IoEvent::Datagram(_, datagram) => format!("{datagram:?}"),
        IoEvent::AncillaryMessage(_, message) => format!("{message:?}"),
        IoEvent::ReadComplete(_) | IoEvent::LastRead(..) => "complete".into(),
        IoEvent::Eof(_) => "eof".into(),
        IoEvent::PeerFinished(_) => "peer finished".into(),
        IoEvent::AcceptFailed(_, error) => format!("accept failed {:?}", error.kind()),
        IoEvent::ReceiveFailed(_, error) => format!("receive failed {:?}", error.kind()),
        IoEvent::Failed(_, error) => format!("failed {:?}", error.kind()),
        IoEvent::Detached(_) => "detached".into(),
        IoEvent::Foreign(_, readiness) => format!("{readiness:?}"),
    };
    (token, words)
}
