//! Long or endless rounds of events: tasks, timers and a shutdown are not starved (L03, L05), and a watchdog
//! names the round (O02).

use std::collections::VecDeque;
use std::io::Result;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use waterwheel_channel::driver::{
    Driver, Interest, Io, IoEvent, OpenDriver, Readiness, WaitSummary,
};
use waterwheel_channel::{EventLoopGroup, Foreign, Token, on_ready};
use waterwheel_executor::{Nanos, SlowWork, UserCode};
use waterwheel_testkit::driver_wrapper::{DriverWrapper, WrappingFactory};
use waterwheel_testkit::manual::Manual;

use crate::slow_reports::SlowReports;

const PATIENCE: Duration = Duration::from_secs(20);

/// More than a loop dispatches in one turn.
const EVENTS: usize = 5000;

/// Emits events for its first registration: a number of them in one round, or without end.
struct FloodingDriver {
    inner: Box<dyn Driver>,
    script: Arc<Mutex<FloodScript>>,
    token: Option<Token>,
}

#[derive(Default)]
struct FloodScript {
    left: usize,
    is_endless: bool,
    /// Closures to call, one before each of the next events.
    first: VecDeque<Box<dyn FnOnce() + Send>>,
}

impl DriverWrapper for FloodingDriver {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Driver {
        &mut *self.inner
    }

    fn register_foreign(&mut self, token: Token, io: Io, interest: Interest) -> Result<()> {
        self.inner.register_foreign(token, io, interest)?;
        self.token = Some(token);
        Ok(())
    }

    fn detach(&mut self, token: Token) -> waterwheel_channel::driver::Detach {
        self.token = None;
        self.inner.detach(token)
    }

    fn wait(&mut self, until: Option<Nanos>) -> Result<WaitSummary> {
        let script = self.script.lock().unwrap();
        let more = self.token.is_some() && (script.is_endless || script.left > 0);
        drop(script);
        let waited = self.inner.wait(if more { Some(Nanos(0)) } else { until })?;
        Ok(WaitSummary { ready: waited.ready + usize::from(more), ..waited })
    }

    fn next_event(&mut self) -> Option<IoEvent> {
        let Some(token) = self.token else { return self.inner.next_event() };
        let mut script = self.script.lock().unwrap();
        if let Some(first) = script.first.pop_front() {
            drop(script);
            first();
            script = self.script.lock().unwrap();
        }
        if script.is_endless {
            return Some(IoEvent::Foreign(token, Readiness::READABLE));
        }
        if script.left == 0 {
            drop(script);
            return self.inner.next_event();
        }
        script.left -= 1;
        Some(IoEvent::Foreign(token, Readiness::READABLE))
    }
}

fn flooding_driver(manual: &Manual) -> (impl OpenDriver + use<>, Arc<Mutex<FloodScript>>) {
    let script = Arc::<Mutex<FloodScript>>::default();
    let shared = script.clone();
    let decorate = move |inner| FloodingDriver { inner, script: shared.clone(), token: None };
    (WrappingFactory::new(manual.clone(), decorate), script)
}

#[test]
fn l05_an_endless_round_of_events_does_not_starve_tasks_timers_and_shutdown() {
    let manual = Manual::readiness();
    let (driver, script) = flooding_driver(&manual);
    let group = EventLoopGroup::builder(driver).threads(1).build().unwrap();
    let (end, _source) = manual.foreign_source();
    let ready = on_ready(|(): &(), _, _| Ok(()));
    let foreign = Foreign::new(Arc::new(()), end);
    group.next().register_foreign(foreign, Interest::READABLE, ready).join().unwrap();
    script.lock().unwrap().is_endless = true;
    group.submit(|| ()).unwrap().wait_timeout(PATIENCE).expect("a task has its turn");
    let timer = group.next().schedule(Duration::ZERO, || ()).unwrap();
    timer.wait_timeout(PATIENCE).expect("a timer has its turn");
    let ended = group.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap();
    ended.wait_timeout(PATIENCE).expect("the group shuts down");
}

#[test]
fn l05_a_long_round_continues_in_the_next_turn_and_loses_no_event() {
    let manual = Manual::readiness();
    let (driver, script) = flooding_driver(&manual);
    let group = EventLoopGroup::builder(driver).threads(1).build().unwrap();
    let (end, _source) = manual.foreign_source();
    let (seen, when) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (tell, reports) = mpsc::channel();
    let (event_loop, at_task) = (group.next(), when.clone());
    let ready = on_ready(move |(): &(), _, _| {
        let count = seen.fetch_add(1, Ordering::Relaxed) + 1;
        if count == 1 {
            let (seen, at_task) = (seen.clone(), at_task.clone());
            let task = move || at_task.store(seen.load(Ordering::Relaxed), Ordering::Relaxed);
            event_loop.execute(task).map_err(waterwheel_executor::Error::new)?;
        }
        if count == EVENTS {
            let _ = tell.send(());
        }
        Ok(())
    });
    let foreign = Foreign::new(Arc::new(()), end);
    group.next().register_foreign(foreign, Interest::READABLE, ready).join().unwrap();
    script.lock().unwrap().left = EVENTS;
    group.submit(|| ()).unwrap().wait_timeout(PATIENCE).expect("the loop is awake");
    reports.recv_timeout(PATIENCE).expect("all events arrive");
    let when = when.load(Ordering::Relaxed);
    assert!(when > 0 && when < EVENTS, "the task ran after {when} of {EVENTS} events");
    let ended = group.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap();
    ended.wait_timeout(PATIENCE).expect("the group shuts down");
}

#[test]
fn o02_an_endless_round_is_named_although_none_of_its_events_is_slow() {
    let (watchdog, reports) = SlowReports::watchdog();
    let manual = Manual::readiness();
    let (driver, script) = flooding_driver(&manual);
    let group = EventLoopGroup::builder(driver).threads(1).watchdog(&watchdog).build().unwrap();
    let (end, _source) = manual.foreign_source();
    let ready = on_ready(|(): &(), _, _| Ok(()));
    let foreign = Foreign::new(Arc::new(()), end);
    group.next().register_foreign(foreign, Interest::READABLE, ready).join().unwrap();
    let (tell, slow) = mpsc::channel();
    let is_round = |work: &SlowWork| work.activity.what == UserCode::Round && !work.is_over;
    let inside = reports.clone();
    let hold = move || tell.send(inside.next(is_round)).unwrap();
    script.lock().unwrap().first.push_back(Box::new(hold));
    // A task may run in the current turn and the loop sleep after it: tasks are submitted until a round
    // begins.
    let glance = Duration::from_millis(10);
    let slow = (0..PATIENCE.as_millis() / glance.as_millis()).find_map(|_| {
        drop(group.submit(|| ()));
        slow.recv_timeout(glance).ok()
    });
    let slow = slow.expect("a round that is told to be slow");
    let text = "the round of events from the driver has held the loop for ";
    assert!(slow.to_string().starts_with(text), "{slow}");
    let over = reports.next(|work| work.activity.what == UserCode::Round && work.is_over);
    assert!(over.held_for >= slow.held_for);
}
