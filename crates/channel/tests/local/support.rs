//! Shared by the tests of local channels: manually driven loops and recording handlers.
#![allow(dead_code, reason = "no file of tests needs all of it")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use waterwheel_channel::driver::{OpenDriver, TaskOnly};
use waterwheel_channel::{
    Channel, Ctx, EventLoop, EventLoopGroup, HalfClosed, Handler, HandlerResult, LocalLoop, Msg,
    NewChannel,
};
use waterwheel_executor::{Error, PromiseFuture};
use waterwheel_testkit::loop_suite::Bench;
use waterwheel_testkit::manual::Manual;

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// One or two event loops driven by the test.
pub(crate) struct LocalFixture {
    benches: Vec<Bench>,
}

impl LocalFixture {
    /// Runs a test on one loop and on two, over each driver.
    pub(crate) fn on_one_and_two_loops(test: impl Fn(&mut LocalFixture)) {
        let drivers: [&dyn OpenDriver; 2] = [&TaskOnly, &Manual::readiness()];
        for driver in drivers {
            for loops in 1..=2 {
                test(&mut LocalFixture {
                    benches: (0..loops).map(|_| Bench::new(driver)).collect(),
                });
            }
        }
    }

    pub(crate) fn bench(&mut self, at: usize) -> &mut Bench {
        let loops = self.benches.len();
        &mut self.benches[at % loops]
    }

    pub(crate) fn event_loop(&mut self, at: usize) -> EventLoop {
        self.bench(at).event_loop()
    }

    pub(crate) fn has_two_loops(&self) -> bool {
        self.benches.len() > 1
    }

    /// Calls `f` on a loop, then runs all loops.
    pub(crate) fn on<R>(&mut self, at: usize, f: impl FnOnce(&LocalLoop) -> R) -> R {
        let result = self.bench(at).here(f);
        self.run();
        result
    }

    /// Turns every loop once.
    pub(crate) fn turn(&mut self) {
        for bench in self.benches.iter_mut().filter(|bench| !bench.manual.is_terminated()) {
            bench.turn();
        }
    }

    /// Runs all loops until they are idle.
    pub(crate) fn run(&mut self) {
        for _ in 0..1_000_000 {
            self.turn();
            if self.benches.iter().all(|bench| bench.manual.is_idle()) {
                return;
            }
        }
        panic!("the loops never become idle");
    }

    /// Registers a channel with a recording handler.
    pub(crate) fn register(
        &mut self,
        at: usize,
        new: NewChannel,
        handler: RecordingHandler,
    ) -> Channel {
        let registered = self.on(at, |here| {
            here.register_with(new, |edit| {
                edit.add_last("record", handler)?;
                Ok(())
            })
        });
        registered.expect("the channel can be registered")
    }

    /// Registers the two ends of a connection, on the first and on the last loop.
    pub(crate) fn pair(
        &mut self,
        one: RecordingHandler,
        other: RecordingHandler,
    ) -> (Channel, Channel) {
        let (a, b) = waterwheel_channel::local::pair();
        (self.register(0, a, one), self.register(1, b, other))
    }

    /// Runs all loops and takes the outcome of a future.
    #[track_caller]
    pub(crate) fn outcome<T: Send + 'static>(
        &mut self,
        mut future: PromiseFuture<T>,
    ) -> Result<T, Error> {
        self.run();
        future.try_take().expect("the future has completed")
    }

    #[track_caller]
    pub(crate) fn reports(&mut self) -> Vec<String> {
        self.benches.iter().flat_map(|bench| bench.reports.take_texts()).collect()
    }
}

/// Returns a name that no other test uses.
pub(crate) fn fresh_name(what: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{what}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Log lines in the order of the events.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn add(&self, entry: impl Into<String>) {
        self.0.lock().unwrap().push(entry.into());
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// Returns the lines of one handler, without its name.
    pub(crate) fn of(&self, who: &str) -> Vec<String> {
        let prefix = format!("{who}: ");
        let log = self.0.lock().unwrap();
        log.iter().filter_map(|entry| entry.strip_prefix(&prefix)).map(str::to_owned).collect()
    }

    pub(crate) fn count(&self, entry: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|found| *found == entry).count()
    }

    /// Logs the outcome of a future.
    pub(crate) fn note<T: Send + 'static>(&self, what: &str, future: PromiseFuture<T>) {
        let (log, what) = (self.clone(), what.to_owned());
        future.on_complete(move |result| match result {
            Ok(_) => log.add(what),
            Err(error) => log.add(format!("{what} failed: {error}")),
        });
    }
}

type OnRead = Box<dyn FnMut(&Ctx<'_>, Msg) -> HandlerResult>;

/// The last handler of a pipeline: logs every event.
pub(crate) struct RecordingHandler {
    who: &'static str,
    log: Log,
    on_read: Option<OnRead>,
}

impl RecordingHandler {
    pub(crate) fn new(who: &'static str, log: &Log) -> Self {
        Self { who, log: log.clone(), on_read: None }
    }

    /// Sets the closure that receives each message read.
    pub(crate) fn on_read(
        mut self,
        on_read: impl FnMut(&Ctx<'_>, Msg) -> HandlerResult + 'static,
    ) -> Self {
        self.on_read = Some(Box::new(on_read));
        self
    }

    fn note(&self, what: &str) {
        self.log.add(format!("{}: {what}", self.who));
    }
}

/// Returns an `on_read` that registers accepted channels with a loop and a handler made by `made`.
pub(crate) fn accept_with(
    made: impl Fn() -> RecordingHandler + Send + Clone + 'static,
    on: Option<EventLoop>,
) -> impl FnMut(&Ctx<'_>, Msg) -> HandlerResult {
    move |ctx, msg| {
        let accepted = msg.take::<NewChannel>().expect("a server reads channels");
        let made = made.clone();
        let accepted = accepted.initialiser(move |edit| {
            edit.add_last("record", made())?;
            Ok(())
        });
        let event_loop = on.clone().unwrap_or_else(|| ctx.event_loop().handle());
        drop(event_loop.register(accepted));
        Ok(())
    }
}

impl Handler for RecordingHandler {
    fn on_added(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.note("added");
        Ok(())
    }

    fn on_removed(&mut self, _: &Ctx<'_>) {
        self.note("removed");
    }

    fn on_registered(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.note("registered");
        Ok(())
    }

    fn on_unregistered(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.note("unregistered");
        Ok(())
    }

    fn on_active(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.note("active");
        Ok(())
    }

    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.note("inactive");
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let text = msg.get::<String>().map_or(msg.type_name(), |text| &**text);
        self.note(&format!("read {text}"));
        match &mut self.on_read {
            Some(on_read) => on_read(ctx, msg),
            None => Ok(()),
        }
    }

    fn on_read_complete(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.note("read complete");
        Ok(())
    }

    fn on_user_event(&mut self, _: &Ctx<'_>, event: Msg) -> HandlerResult {
        if let Some(half) = event.get::<HalfClosed>() {
            self.note(&format!("event {half:?}"));
        }
        Ok(())
    }

    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.note(if ctx.is_writable() { "writable" } else { "unwritable" });
        Ok(())
    }

    fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
        self.note(&format!("error: {error}"));
        Ok(())
    }
}

/// Returns a group of `n` loops on their own threads.
pub(crate) fn threaded_group(n: usize) -> EventLoopGroup {
    EventLoopGroup::builder(TaskOnly).threads(n).build().expect("the group can be built")
}

/// Shuts a group down and waits for its termination.
#[track_caller]
pub(crate) fn shut_down(group: &EventLoopGroup) {
    let ended = group.shutdown_gracefully(Duration::ZERO, PATIENCE).expect("valid shutdown times");
    ended.wait_timeout(PATIENCE).expect("the group terminates");
}
