//! The test bench of the suite: a driver, and the calls that a loop would make.

use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::Token;
use waterwheel_channel::driver::{
    Detach, Driver, Interest, Io, IoEvent, OutQueue, ReadPlan, Role, Submit, WaitSummary,
};
use waterwheel_executor::Nanos;

use super::event_checker::{EventChecker, RegistrationKind};
use super::{Fixture, RemoteStream};

/// How long the suite waits for something that must happen.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

/// How long and how often the suite waits for something that must not happen.
pub(super) const SHORT_WAIT: Duration = Duration::from_millis(10);
pub(super) const SHORT_WAITS: usize = 4;

/// How long and how many turns a driver may take until it stops reporting unwanted readiness (L17).
const SETTLE_TIME: Duration = Duration::from_millis(200);
const MAX_SETTLE_TURNS: usize = 4;

/// More events than any round of this suite has: the largest has a few per registration.
const MAX_ROUND_EVENTS: usize = 100_000;

/// A driver under test.
pub(super) struct DriverBench<'f> {
    pub(super) fixture: &'f dyn Fixture,
    pub(super) driver: Box<dyn Driver>,
    pub(super) checker: EventChecker,
    /// The second half of a split `LastRead`: the `ReadComplete` that the next call returns after the `Read`.
    complete: Option<IoEvent>,
}

impl<'f> DriverBench<'f> {
    pub(super) fn open(fixture: &'f dyn Fixture) -> Self {
        Self { fixture, driver: fixture.open(), checker: EventChecker::default(), complete: None }
    }

    pub(super) fn now(&self) -> Nanos {
        self.driver.clock().now()
    }

    pub(super) fn attach(&mut self, io: Io, role: Role) -> Token {
        let token = self.checker.add(match role {
            Role::Listener => RegistrationKind::Listener,
            Role::Connecting(_) => RegistrationKind::Connecting,
            Role::Datagram => RegistrationKind::Datagram,
            _ => RegistrationKind::Stream,
        });
        self.driver.attach(token, io, role).unwrap_or_else(|error| panic!("attach: {error}"));
        token
    }

    /// Attaches a stream with reads off.
    pub(super) fn stream(&mut self) -> (Token, Box<dyn RemoteStream>) {
        let (io, remote) = self.fixture.pair();
        (self.attach(io, Role::Stream), remote)
    }

    /// Attaches a stream with reads on.
    pub(super) fn reading_stream(&mut self) -> (Token, Box<dyn RemoteStream>) {
        let (token, remote) = self.stream();
        self.set_read(token, Some(ReadPlan::default()));
        (token, remote)
    }

    pub(super) fn register(&mut self, io: Io, interest: Interest) -> Token {
        let token = self.checker.add(RegistrationKind::Foreign(interest));
        let registered = self.driver.register_foreign(token, io, interest);
        registered.unwrap_or_else(|error| panic!("register_foreign: {error}"));
        token
    }

    pub(super) fn set_read(&mut self, token: Token, plan: Option<ReadPlan>) {
        self.checker.entry(token).reads = plan;
        self.driver.set_read(token, plan);
    }

    /// Detaches without waiting for `Detached`.
    pub(super) fn begin_detach(&mut self, token: Token) -> Detach {
        self.checker.entry(token).detaching = true;
        let detach = self.driver.detach(token);
        if detach == Detach::Done {
            self.checker.remove(token);
        }
        detach
    }

    /// Detaches and waits for `Detached` if it is pending. Events of other tokens meanwhile are dropped.
    pub(super) fn detach(&mut self, token: Token) {
        if self.begin_detach(token) == Detach::Pending {
            self.until("Detached", |seen| seen.iter().any(|event| is_detached(event, token)));
        }
    }

    /// Waits at most `limit`. A wait without an event or a wake must not end early.
    pub(super) fn wait(&mut self, limit: Duration) -> WaitSummary {
        let deadline = self.now().plus(limit);
        self.wait_until(deadline)
    }

    pub(super) fn wait_until(&mut self, deadline: Nanos) -> WaitSummary {
        self.checker.begin_round();
        let waited = self.driver.wait(Some(deadline)).expect("wait");
        let early = waited == WaitSummary::default() && self.now() < deadline;
        assert!(
            !early,
            "a wait ended {:?} early, without an event or a wake",
            deadline.since(self.now())
        );
        waited
    }

    pub(super) fn next(&mut self) -> Option<IoEvent> {
        let complete = self.complete.take().filter(|event| self.checker.is_live(event.token()));
        let event = complete.or_else(|| self.driver.next_event()).map(|event| {
            let (event, complete) = event.split();
            self.complete = complete;
            event
        });
        match &event {
            Some(event) => self.checker.check(event),
            None => self.checker.end_round(),
        }
        event
    }

    /// Takes the remaining events of this round.
    pub(super) fn round(&mut self) -> Vec<IoEvent> {
        let mut events = Vec::new();
        while let Some(event) = self.next() {
            events.push(event);
            assert!(events.len() < MAX_ROUND_EVENTS, "the round does not end");
        }
        events
    }

    /// Waits at most `limit`, and takes the whole round.
    pub(super) fn turn(&mut self, limit: Duration) -> Vec<IoEvent> {
        let waited = self.wait(limit);
        let events = self.round();
        let silent = waited.ready > 0 || events.is_empty();
        assert!(silent, "the wait reported no readiness, but there were events: {events:?}");
        events
    }

    /// Turns until `enough` accepts the events so far, and returns them.
    pub(super) fn until(
        &mut self,
        what: &str,
        enough: impl Fn(&[IoEvent]) -> bool,
    ) -> Vec<IoEvent> {
        let deadline = self.now().plus(TIMEOUT);
        let mut seen = Vec::new();
        while !enough(&seen) {
            assert!(self.now() < deadline, "no {what} in {TIMEOUT:?}, only {seen:?}");
            self.wait_until(deadline);
            seen.extend(self.round());
        }
        seen
    }

    /// Turns until this token has read `len` bytes, and returns them.
    pub(super) fn read(&mut self, token: Token, len: usize) -> Vec<u8> {
        let seen = self.until("bytes", |seen| bytes_of(seen, token).len() >= len);
        bytes_of(&seen, token)
    }

    /// Asserts that a few short waits time out without events.
    pub(super) fn assert_quiet(&mut self) {
        for _ in 0..SHORT_WAITS {
            let waited = self.wait(SHORT_WAIT);
            assert_eq!(waited, WaitSummary::default(), "unexpected readiness: {:?}", self.round());
            let events = self.round();
            assert!(events.is_empty(), "unexpected events: {events:?}");
        }
    }

    /// Asserts that there are no events, and that the driver stops spinning within a few turns if the kernel reports an
    /// unwanted hang-up.
    pub(super) fn assert_settles(&mut self) {
        self.assert_settles_but_for(|_| false);
    }

    /// Like [`assert_settles`](Self::assert_settles), but accepts `allowed` events, such as an empty round of reads,
    /// by which a driver learns that the previous round has read everything.
    pub(super) fn assert_settles_but_for(&mut self, allowed: impl Fn(&IoEvent) -> bool) {
        let end = self.now().plus(SETTLE_TIME);
        let mut turns = 0;
        while self.now() < end {
            self.wait_until(end);
            let mut events = self.round();
            events.retain(|event| !allowed(event));
            assert!(events.is_empty(), "unexpected events: {events:?}");
            turns += 1;
            assert!(
                turns <= MAX_SETTLE_TURNS,
                "the driver spins: {turns} turns, {:?} left",
                end.since(self.now())
            );
        }
    }

    /// Starts a write of the whole queue; bytes written at once leave the queue.
    pub(super) fn begin_write(&mut self, token: Token, queue: &mut OutQueue) -> Submit {
        let submit = self.driver.write(token, queue).unwrap_or_else(|e| panic!("write: {e}"));
        match submit {
            Submit::Done(n) => queue.advance(n),
            Submit::Full | Submit::Pending => {
                self.checker.entry(token).writing = Some(queue.len());
            }
        }
        submit
    }

    /// Writes all bytes, as a loop would.
    pub(super) fn write(&mut self, token: Token, bytes: &[u8]) {
        let mut queue = OutQueue::new();
        queue.push(Bytes::copy_from_slice(bytes));
        self.write_queue(token, &mut queue);
    }

    pub(super) fn write_queue(&mut self, token: Token, queue: &mut OutQueue) {
        while !queue.is_empty() {
            match self.begin_write(token, queue) {
                Submit::Done(n) => assert!(n > 0, "a write that wrote nothing is Full"),
                Submit::Full | Submit::Pending => {
                    let seen = self.until("Wrote", |seen| wrote(seen, token).is_some());
                    queue.advance(wrote(&seen, token).unwrap_or(0));
                }
            }
        }
    }

    /// Writes until there is no room. Returns how many bytes were written; a write of `queue` is then pending.
    pub(super) fn write_until_full(&mut self, token: Token, queue: &mut OutQueue) -> usize {
        const LARGEST: usize = 64 << 20;
        let chunk = Bytes::from(vec![b'x'; 64 * 1024]);
        let mut written = 0;
        while written <= LARGEST {
            if queue.is_empty() {
                queue.push(chunk.clone());
            }
            match self.begin_write(token, queue) {
                Submit::Done(n) => written += n,
                Submit::Full | Submit::Pending => match wrote(&self.turn(SHORT_WAIT), token) {
                    Some(n) => {
                        queue.advance(n);
                        written += n;
                    }
                    None => return written,
                },
            }
        }
        panic!("{written} bytes were written that nobody reads");
    }
}

/// Returns the bytes that a token has read.
pub(super) fn bytes_of(events: &[IoEvent], of: Token) -> Vec<u8> {
    let reads = events.iter().filter_map(|event| match event {
        IoEvent::Read(token, bytes) if *token == of => Some(bytes.as_ref()),
        _ => None,
    });
    reads.collect::<Vec<_>>().concat()
}

/// Returns the count of the first `Wrote` of a token.
pub(super) fn wrote(events: &[IoEvent], of: Token) -> Option<usize> {
    events.iter().find_map(|event| match event {
        IoEvent::Wrote(token, n) if *token == of => Some(*n),
        _ => None,
    })
}

pub(super) fn is_detached(event: &IoEvent, of: Token) -> bool {
    matches!(event, IoEvent::Detached(token) if *token == of)
}

pub(super) fn is_eof(event: &IoEvent, of: Token) -> bool {
    matches!(event, IoEvent::Eof(token) if *token == of)
}

pub(super) fn is_finished(event: &IoEvent, of: Token) -> bool {
    matches!(event, IoEvent::PeerFinished(token) if *token == of)
}

pub(super) fn is_failed(event: &IoEvent, of: Token) -> bool {
    matches!(event, IoEvent::Failed(token, _) if *token == of)
}
