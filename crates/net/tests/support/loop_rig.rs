//! An event loop on a thread of its own over each driver, and its events as text.
#![allow(dead_code, reason = "every test binary uses a part of it")]

pub(crate) mod closable;

use std::os::fd::AsFd;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rustix::io::Errno;
use waterwheel_channel::driver::{Interest, Io, IoEvent, OpenDriver, ReadPlan, Readiness, Role};
use waterwheel_channel::{
    EventLoop, EventLoopGroup, EventLoopGroupBuilder, ForeignContext, ForeignHandle,
    ForeignHandler, LocalLoop, Registrant, Token,
};
use waterwheel_executor::{Clock, Error, PromiseFuture, Report, Reporter};
use waterwheel_net::{CoarseEpoll, Epoll, ForeignSource, Poll, foreign};
use waterwheel_testkit::faulty::{Faults, Faulty};

/// Longer than any step takes, even on a busy machine; a test that waits this long fails.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The time for which a loop is observed for spinning, and the number of turns that counts as spinning (L17).
pub(crate) const WATCH_TIME: Duration = Duration::from_millis(200);
pub(crate) const SPIN_TURNS: u64 = 5;

/// Runs a test on a loop over every driver, and over epoll with millisecond waits (without `epoll_pwait2`).
pub(crate) fn on_every_loop(test: impl Fn(&LoopRig)) {
    on_every_loop_with(|builder| builder, test);
}

/// Runs a test over drivers whose calls are counted.
pub(crate) fn on_counting_drivers(test: impl Fn(&LoopRig, &Faults)) {
    let run = |builder: EventLoopGroupBuilder, faults: Faults| {
        let rig = LoopRig::new(builder);
        test(&rig, &faults);
        rig.end();
    };
    let epoll = Faulty::new(Epoll);
    let faults = epoll.faults();
    run(EventLoopGroup::builder(epoll), faults);
    let poll = Faulty::new(Poll);
    let faults = poll.faults();
    run(EventLoopGroup::builder(poll), faults);
}

/// Runs a test on a loop over every driver, built with these settings.
pub(crate) fn on_every_loop_with(
    how: impl Fn(EventLoopGroupBuilder) -> EventLoopGroupBuilder,
    test: impl Fn(&LoopRig),
) {
    on_epoll_with(&how, &test);
    on_loop("poll", Poll, &how, &test);
}

/// Runs a test on loops over epoll only.
pub(crate) fn on_epoll_with(
    how: impl Fn(EventLoopGroupBuilder) -> EventLoopGroupBuilder,
    test: impl Fn(&LoopRig),
) {
    on_loop("epoll", Epoll, &how, &test);
    on_loop("epoll in milliseconds", CoarseEpoll, &how, &test);
}

/// Runs a test on one loop, and prints the name of the driver if the test fails. A reported panic that the test
/// has not consumed also fails the test.
pub(crate) fn on_loop(
    name: &'static str,
    driver: impl OpenDriver + 'static,
    how: impl Fn(EventLoopGroupBuilder) -> EventLoopGroupBuilder,
    test: impl Fn(&LoopRig),
) {
    struct NameOnPanic(&'static str);
    impl Drop for NameOnPanic {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("on a loop over {}", self.0);
            }
        }
    }
    let _name = NameOnPanic(name);
    let rig = LoopRig::new(how(EventLoopGroup::builder(driver)));
    test(&rig);
    rig.end();
    let panics: Vec<_> = rig.reports().into_iter().filter(|r| r.contains("panicked")).collect();
    assert!(panics.is_empty(), "{panics:?}");
}

/// A group with one loop.
pub(crate) struct LoopRig {
    pub(crate) event_loop: EventLoop,
    reports: Receiver<String>,
}

impl LoopRig {
    pub(crate) fn new(builder: EventLoopGroupBuilder) -> Self {
        let (sender, reports) = channel();
        let builder =
            builder.threads(1).reporter(std::sync::Arc::new(LogSender(Mutex::new(sender))));
        let event_loop = builder.build().expect("a loop").next();
        Self { event_loop, reports }
    }

    pub(crate) fn is_epoll(&self) -> bool {
        self.event_loop.driver_name() == "epoll"
    }

    /// Runs `f` on the loop.
    #[track_caller]
    pub(crate) fn run_on_loop<R: Send + 'static>(
        &self,
        f: impl FnOnce(&LocalLoop) -> R + Send + 'static,
    ) -> R {
        let f = || f(&LocalLoop::current().expect("on a loop"));
        get(self.event_loop.submit(f).unwrap())
    }

    /// Returns how many turns the loop makes in this time, by its own clock.
    #[track_caller]
    pub(crate) fn turns_in(&self, time: Duration) -> u64 {
        let (sender, log) = channel();
        self.run_on_loop(move |here| {
            let event_loop = here.handle();
            let before = event_loop.metrics().turns;
            let count = move || sender.send(event_loop.metrics().turns - before);
            drop(here.handle().schedule(time, count).unwrap());
        });
        log.recv_timeout(TIME_LIMIT).expect("the timer comes")
    }

    /// Fails if the loop spins (L17). A loop with work left, because the kernel reports late, becomes idle
    /// afterwards; a loop that spins never does.
    #[track_caller]
    pub(crate) fn assert_not_spinning(&self) {
        let turns: Vec<u64> =
            (0..5).map(|_| self.turns_in(WATCH_TIME)).take_while(|n| *n >= SPIN_TURNS).collect();
        assert!(turns.len() < 5, "{turns:?} turns, each in {WATCH_TIME:?}");
    }

    /// Waits until the loop has run everything submitted to it and sleeps.
    #[track_caller]
    pub(crate) fn wait_until_asleep(&self) {
        let awake = self.run_on_loop(|here| here.handle().stats());
        let clock = Clock::Monotonic;
        let limit = clock.now().plus(TIME_LIMIT);
        while self.event_loop.stats().sleeps == awake.sleeps {
            assert!(clock.now() < limit, "the loop does not sleep");
            std::thread::yield_now();
        }
    }

    /// Waits for the first report that contains these words.
    #[track_caller]
    pub(crate) fn wait_for_report(&self, words: &str) -> String {
        loop {
            let report = self.reports.recv_timeout(TIME_LIMIT).expect(words);
            if report.contains(words) {
                return report;
            }
        }
    }

    /// Returns the reports that were not consumed yet.
    pub(crate) fn reports(&self) -> Vec<String> {
        self.reports.try_iter().collect()
    }

    /// Attaches a socket whose events are logged.
    #[track_caller]
    pub(crate) fn attach(&self, io: impl Into<Io>, role: Role) -> (Token, EventLog) {
        let (sender, log) = EventLog::new();
        let io = io.into();
        let attached = self.run_on_loop(move |here| here.attach(io, role, LogSender(sender)));
        (attached.expect("a socket can be attached"), log)
    }

    #[track_caller]
    pub(crate) fn set_read(&self, token: Token, plan: Option<ReadPlan>) {
        self.run_on_loop(move |here| here.set_read(token, plan));
    }

    /// Registers a foreign descriptor whose events are logged; calls `act` when it is ready.
    #[track_caller]
    pub(crate) fn watch<T: ForeignSource>(
        &self,
        source: T,
        interest: Interest,
        act: impl FnMut(&T, &ForeignContext) -> Result<(), Error> + Send + 'static,
    ) -> (ForeignHandle, EventLog) {
        let (sender, log) = EventLog::new();
        let watcher = Watcher { sender, act };
        let registered = self.event_loop.register_foreign(foreign(source), interest, watcher);
        (get(registered), log)
    }

    /// Shuts the loop down and waits for its end.
    #[track_caller]
    pub(crate) fn end(&self) {
        let ended = self.event_loop.shutdown_gracefully(Duration::ZERO, TIME_LIMIT).unwrap();
        ended.wait_timeout(TIME_LIMIT).expect("the loop terminates");
        // The thread drops the last clone of the waker after that: a test that counts descriptors must not see it.
        self.event_loop.join().expect("another thread");
    }
}

/// Returns the value of a future that must succeed within the time limit.
#[track_caller]
pub(crate) fn get<T: Send + 'static>(future: PromiseFuture<T>) -> T {
    future.wait_timeout(TIME_LIMIT).expect("done in time");
    future.join().expect("success")
}

/// The events of a registration as text.
pub(crate) struct EventLog(Receiver<String>);

impl EventLog {
    fn new() -> (Sender<String>, Self) {
        let (sender, log) = channel();
        (sender, Self(log))
    }

    /// Waits for the next event.
    #[track_caller]
    pub(crate) fn next(&self) -> String {
        self.0.recv_timeout(TIME_LIMIT).expect("an event in time")
    }

    /// Waits for the next `n` events.
    #[track_caller]
    pub(crate) fn take(&self, n: usize) -> Vec<String> {
        (0..n).map(|_| self.next()).collect()
    }

    /// Waits for an event that contains these words; returns all events up to it.
    #[track_caller]
    pub(crate) fn until(&self, words: &str) -> Vec<String> {
        let mut log = vec![self.next()];
        while !log.last().is_some_and(|last| last.contains(words)) {
            log.push(self.next());
        }
        log
    }

    /// Returns the events that have already arrived.
    pub(crate) fn rest(&self) -> Vec<String> {
        self.0.try_iter().collect()
    }
}

/// Sends a line of text for each call: as a `Registrant` for events, as a `Reporter` for reports.
pub(crate) struct LogSender<S>(pub(crate) S);

impl Registrant for LogSender<Sender<String>> {
    fn on_event(&mut self, _: &LocalLoop, event: IoEvent) -> Result<(), Error> {
        let _ = self.0.send(describe(&event));
        Ok(())
    }

    fn on_detached(&mut self, _: &LocalLoop, cause: Option<Error>) {
        let _ = self.0.send(describe_end(cause));
    }
}

impl Reporter for LogSender<Mutex<Sender<String>>> {
    fn report(&self, report: &Report<'_>) {
        let _ = self.0.lock().unwrap().send(report.fault.to_string());
    }
}

/// Logs its calls, and calls `act` when the descriptor is ready.
struct Watcher<F> {
    sender: Sender<String>,
    act: F,
}

impl<T: 'static, F> ForeignHandler<T> for Watcher<F>
where
    F: FnMut(&T, &ForeignContext) -> Result<(), Error> + 'static,
{
    fn on_ready(
        &mut self,
        source: &T,
        ready: Readiness,
        context: &ForeignContext,
    ) -> Result<(), Error> {
        let _ = self.sender.send(format!("{ready:?}"));
        (self.act)(source, context)
    }

    fn on_unregistered(&mut self, _: &T, cause: Option<Error>) {
        let _ = self.sender.send(describe_end(cause));
    }
}

/// Returns the end of a registration as text.
pub(crate) fn describe_end(cause: Option<Error>) -> String {
    cause.map_or("unregistered: on request".into(), |cause| format!("unregistered: {cause}"))
}

/// Returns an event as text.
pub(crate) fn describe(event: &IoEvent) -> String {
    match event {
        IoEvent::Connected(_) => "connected".into(),
        IoEvent::Wrote(_, n) => format!("wrote {n}"),
        IoEvent::Accepted(..) => "accepted".into(),
        IoEvent::Read(_, bytes) => format!("read {}", String::from_utf8_lossy(bytes)),
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
    }
}

/// Reads all available bytes; returns them, and true if the end was reached.
pub(crate) fn read_available(fd: impl AsFd) -> (Vec<u8>, bool) {
    let mut all = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match rustix::io::read(&fd, &mut piece) {
            Ok(0) => return (all, true),
            Ok(n) => all.extend_from_slice(&piece[..n]),
            Err(Errno::AGAIN) => return (all, false),
            Err(Errno::INTR) => {}
            Err(error) => panic!("{error}"),
        }
    }
}
