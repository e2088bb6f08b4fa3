//! How registrations end: by a request, an error, a panic or the loop's end (L08, L10, E12).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use waterwheel_channel::driver::{Interest, Readiness};
use waterwheel_channel::{ForeignContext, ForeignHandle, ForeignHandler, LocalLoop, on_ready};
use waterwheel_executor::{Error, UserCode};

use super::super::bench::{TIMEOUT, panic_quietly};
use super::probe::{ProbeLog, ReadinessProbe, bench, foreign, nothing, register, source};
use crate::driver_suite::Fixture;

const SHUT_DOWN: &str = "unregistered: the event loop is shutting down";

/// Checks that a callback that unregisters itself gets `on_unregistered` once, without a cause and after the callback.
pub fn l08_a_callback_unregisters_itself(fixture: &dyn Fixture) {
    let (mut bench, log) = (bench(fixture), ProbeLog::default());
    let notes = log.clone();
    let (handle, source) = register(&mut bench, fixture, &log, move |_, context| {
        assert!(context.unregister());
        assert!(!context.unregister(), "it is going already");
        assert!(context.set_interest(Interest::WRITABLE).is_err());
        notes.add("callback over");
        Ok(())
    });
    source.borrow_mut().make_readable();
    let noted = log.clone();
    bench.until("end", || noted.len() == 3);
    bench.turns(3);
    assert_eq!(log.taken(), ["ready", "callback over", "unregistered: asked for"]);
    let again = handle.unregister();
    bench.turn();
    assert!(!again.join().unwrap(), "it is gone");
    assert_eq!(bench.metrics().registrations, 0);
}

/// Checks that an error of the callback is the cause that `on_unregistered` gets.
pub fn l08_an_error_of_the_callback_is_the_cause(fixture: &dyn Fixture) {
    let (mut bench, log) = (bench(fixture), ProbeLog::default());
    let (_handle, source) = register(&mut bench, fixture, &log, |_, _| {
        Err(Error::new(std::io::Error::other("source on fire")))
    });
    source.borrow_mut().make_readable();
    let noted = log.clone();
    bench.until("end", || noted.len() == 2);
    bench.turns(3);
    assert_eq!(log.taken(), ["ready", "unregistered: source on fire"]);
    assert!(bench.reports.take().is_empty(), "its handler was told");
}

/// Checks that an unregister before an error wins: the first cause counts.
pub fn l08_a_registration_gets_its_first_cause(fixture: &dyn Fixture) {
    let (mut bench, log) = (bench(fixture), ProbeLog::default());
    let (_handle, source) = register(&mut bench, fixture, &log, |_, context| {
        context.unregister();
        Err(Error::new(std::io::Error::other("too late")))
    });
    source.borrow_mut().make_readable();
    let noted = log.clone();
    bench.until("end", || noted.len() == 2);
    bench.turns(3);
    assert_eq!(log.taken(), ["ready", "unregistered: asked for"]);
}

/// Checks that a panic of the callback is the cause and is reported, and that the loop continues.
pub fn e12_a_panic_of_the_callback_is_the_cause_and_reported(fixture: &dyn Fixture) {
    let (mut bench, log, other) = (bench(fixture), ProbeLog::default(), ProbeLog::default());
    let (_handle, source) =
        register(&mut bench, fixture, &log, |_, _| panic_quietly("callback on fire"));
    let (_other, neighbour) = register(&mut bench, fixture, &other, nothing);
    source.borrow_mut().make_readable();
    neighbour.borrow_mut().make_readable();
    let noted = log.clone();
    bench.until("end", || noted.len() == 2);
    bench.turns(3);
    let told = log.taken();
    assert_eq!((told.len(), told[0].as_str()), (2, "ready"));
    assert!(told[1].contains("callback on fire"), "{told:?}");
    assert_eq!(bench.reports.take_panics(), [(UserCode::Callback, "callback on fire".to_owned())]);
    assert!(other.count("ready") >= 3, "its neighbour is served as before");
}

/// Checks that a panic in `on_unregistered` is reported, and that other registrations still end.
pub fn e12_a_panic_in_on_unregistered_is_reported(fixture: &dyn Fixture) {
    struct HandlerThatPanicsOnDrop;
    impl ForeignHandler<()> for HandlerThatPanicsOnDrop {
        fn on_ready(&mut self, (): &(), _: Readiness, _: &ForeignContext) -> Result<(), Error> {
            Ok(())
        }

        fn on_unregistered(&mut self, (): &(), _: Option<Error>) {
            panic_quietly("the end on fire");
        }
    }
    let (mut bench, log) = (bench(fixture), ProbeLog::default());
    let (foreign, _hand) = source(fixture);
    let bomb = bench
        .here(|here| here.register_foreign(foreign, Interest::READABLE, HandlerThatPanicsOnDrop));
    let (next, _source) = register(&mut bench, fixture, &log, nothing);
    let gone = [bomb.unwrap().unregister(), next.unregister()];
    let noted = log.clone();
    bench.until("end", || noted.len() == 1);
    bench.turns(3);
    assert!(gone.into_iter().all(|gone| gone.join().unwrap()));
    assert_eq!(bench.reports.take_panics(), [(UserCode::Callback, "the end on fire".to_owned())]);
    assert_eq!(log.taken(), ["unregistered: asked for"]);
    assert_eq!(bench.metrics().registrations, 0);
}

/// Checks that a second unregister returns false, and that `on_unregistered` is called once.
pub fn l08_a_second_unregister_returns_false(fixture: &dyn Fixture) {
    let (mut bench, log) = (bench(fixture), ProbeLog::default());
    let (handle, source) = register(&mut bench, fixture, &log, nothing);
    source.borrow_mut().make_readable();
    let (first, second) = (handle.unregister(), handle.clone().unregister());
    let noted = log.clone();
    bench.until("end", || noted.count("unregistered: asked for") == 1);
    bench.turns(3);
    assert!(first.join().unwrap());
    assert!(!second.join().unwrap());
    let told = log.taken();
    assert_eq!(told.last().map(String::as_str), Some("unregistered: asked for"), "and last");
    assert_eq!(told.iter().filter(|entry| entry.starts_with("unregistered")).count(), 1);
}

/// Checks that a callback can unregister another registration by its handle.
pub fn l08_a_callback_unregisters_another_registration(fixture: &dyn Fixture) {
    let (mut bench, log, victim) = (bench(fixture), ProbeLog::default(), ProbeLog::default());
    let target: Rc<RefCell<Option<ForeignHandle>>> = Rc::default();
    let aims = target.clone();
    let (_handle, source) = register(&mut bench, fixture, &log, move |_, _| {
        if let Some(handle) = aims.borrow_mut().take() {
            drop(handle.unregister());
        }
        Ok(())
    });
    let (handle, other) = register(&mut bench, fixture, &victim, nothing);
    *target.borrow_mut() = Some(handle);
    source.borrow_mut().make_readable();
    other.borrow_mut().make_readable();
    let noted = victim.clone();
    bench.until("end", || noted.count("unregistered: asked for") == 1);
    victim.taken();
    bench.turns(3);
    assert_eq!(victim.len(), 0, "the dead are not called");
    assert_eq!(bench.metrics().registrations, 1);
}

/// Checks that `on_unregistered` can register the source again.
pub fn l08_a_source_is_registered_again_at_its_end(fixture: &dyn Fixture) {
    struct Again(Option<(ProbeLog, waterwheel_channel::Foreign<()>)>);
    impl ForeignHandler<()> for Again {
        fn on_ready(
            &mut self,
            (): &(),
            _: Readiness,
            context: &ForeignContext,
        ) -> Result<(), Error> {
            context.unregister();
            Ok(())
        }

        fn on_unregistered(&mut self, (): &(), _: Option<Error>) {
            let here = LocalLoop::current().expect("told on the loop");
            let (log, next) = self.0.take().expect("told once");
            let probe = ReadinessProbe::new(&log, nothing);
            here.register_foreign(next, Interest::READABLE, probe).expect("it may");
        }
    }
    let (mut bench, log) = (bench(fixture), ProbeLog::default());
    let ((first, first_hand), (next, next_hand)) = (source(fixture), source(fixture));
    first_hand.borrow_mut().make_readable();
    next_hand.borrow_mut().make_readable();
    let again = Again(Some((log.clone(), next)));
    bench.here(|here| here.register_foreign(first, Interest::READABLE, again)).unwrap();
    let noted = log.clone();
    bench.until("the successor's events", || noted.count("ready") >= 2);
    assert_eq!(bench.metrics().registrations, 1);
}

/// Checks that a shutdown ends all registrations with its cause at once, long before the quiet period is over.
pub fn l10_a_shutdown_ends_registrations_at_its_start(fixture: &dyn Fixture) {
    let (mut bench, log) = (bench(fixture), ProbeLog::default());
    let (handle, source) = register(&mut bench, fixture, &log, nothing);
    let hour = Duration::from_secs(3600);
    let _ended = bench.event_loop().shutdown_gracefully(hour, 2 * hour).unwrap();
    source.borrow_mut().make_readable();
    bench.turn();
    for _ in 0..1000 {
        if log.count(SHUT_DOWN) == 0 {
            bench.turn();
        }
    }
    assert!(log.count(SHUT_DOWN) == 1 && !bench.manual.is_terminated());
    log.taken();
    bench.turns(3);
    assert_eq!(log.len(), 0, "once, and nothing after it");
    let late = handle.unregister();
    bench.turn();
    assert!(!late.join().unwrap());
}

/// Checks that a loop that shuts down refuses registrations, on the loop and off it.
pub fn l08_a_loop_that_shuts_down_registers_nothing(fixture: &dyn Fixture) {
    let mut bench = bench(fixture);
    let event_loop = bench.event_loop();
    let handler = on_ready(|(): &(), _, _| Ok(()));
    let from_hook: Arc<Mutex<Option<String>>> = Arc::default();
    let (tells, (io, _source)) = (from_hook.clone(), fixture.foreign());
    let hook = move || {
        let here = LocalLoop::current().expect("hooks run on the loop");
        let refused = here.register_foreign(foreign(io), Interest::READABLE, handler);
        *tells.lock().unwrap() = refused.err().map(|error| error.to_string());
    };
    drop(event_loop.add_shutdown_hook(hook));
    let hour = Duration::from_secs(3600);
    let _ended = event_loop.shutdown_gracefully(hour, 2 * hour).unwrap();
    bench.turns(3);
    let (io, _source) = fixture.foreign();
    let refused = event_loop.register_foreign(foreign(io), Interest::READABLE, handler);
    bench.turns(3);
    let refused = refused.join().unwrap_err().to_string();
    assert!(refused.contains("shutting down"), "{refused}");
    let from_hook = from_hook.lock().unwrap().take().expect("refused, in a hook too");
    assert!(from_hook.contains("shutting down"), "{from_hook}");
}

/// Checks that a terminated loop fails registrations and calls of old handles.
pub fn l08_a_terminated_loop_refuses_registrations(fixture: &dyn Fixture) {
    let (mut bench, log) = (bench(fixture), ProbeLog::default());
    let (handle, _source) = register(&mut bench, fixture, &log, nothing);
    let event_loop = bench.event_loop();
    let _ended = event_loop.shutdown_gracefully(Duration::ZERO, TIMEOUT).unwrap();
    bench.until_over();
    assert_eq!(log.taken(), [SHUT_DOWN]);
    let handler = on_ready(|(): &(), _, _| Ok(()));
    let (io, _source) = fixture.foreign();
    let refused = event_loop.register_foreign(foreign(io), Interest::READABLE, handler);
    refused.wait_timeout(Duration::ZERO).expect("at once");
    assert!(refused.join().is_err());
    assert!(handle.unregister().join().is_err());
    assert!(handle.set_interest(Interest::READABLE).join().is_err());
    assert!(event_loop.rebuild().is_err());
}

/// Checks that a dropped loop ends its registrations, on the loop.
pub fn e16_a_dropped_loop_ends_its_registrations(fixture: &dyn Fixture) {
    let (mut bench, log) = (bench(fixture), ProbeLog::default());
    let (_handle, _source) = register(&mut bench, fixture, &log, nothing);
    let dropped = Rc::new(Cell::new(0));
    let at_drop = Rc::new(RefCell::new(Vec::new()));
    struct Notes(ProbeLog, Rc<RefCell<Vec<usize>>>, Rc<Cell<u32>>);
    impl Drop for Notes {
        fn drop(&mut self) {
            self.1.borrow_mut().push(self.0.len());
            self.2.set(self.2.get() + 1);
        }
    }
    let notes = Notes(log.clone(), at_drop.clone(), dropped.clone());
    drop(bench.here(|here| {
        here.spawn_local(async move {
            let _notes = notes;
            std::future::pending::<()>().await;
        })
    }));
    bench.turn();
    drop(bench);
    assert_eq!(log.taken(), [SHUT_DOWN]);
    assert_eq!((dropped.get(), at_drop.borrow().as_slice()), (1, &[1][..]), "before the futures");
}
