//! How registrations end: asked for, by an error, by a panic, by the loop's end (L08, L10, E12).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use waterwheel_channel::driver::{Interest, Readiness};
use waterwheel_channel::{ForeignContext, ForeignHandle, ForeignHandler, LocalLoop, on_ready};
use waterwheel_executor::{Error, UserCode};

use super::super::bench::{PATIENCE, blow};
use super::probe::{Log, Probe, bench, foreign, nothing, register, source};
use crate::driver_suite::Fixture;

const SHUT_DOWN: &str = "unregistered: the event loop is shutting down";

/// A callback that cancels its own registration: no cause, once, and not inside of the callback.
pub fn l08_a_callback_unregisters_itself(fixture: &dyn Fixture) {
    let (mut bench, log) = (bench(fixture), Log::default());
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

/// An error is the cause.
pub fn l08_an_error_of_the_callback_is_the_cause(fixture: &dyn Fixture) {
    let (mut bench, log) = (bench(fixture), Log::default());
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

/// A cancel that came before the error wins: the first cause is told.
pub fn l08_the_first_cause_is_told(fixture: &dyn Fixture) {
    let (mut bench, log) = (bench(fixture), Log::default());
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

/// A panic is the cause, and reported; the loop lives on.
pub fn e12_a_panic_of_the_callback_is_the_cause_and_reported(fixture: &dyn Fixture) {
    let (mut bench, log, other) = (bench(fixture), Log::default(), Log::default());
    let (_handle, source) = register(&mut bench, fixture, &log, |_, _| blow("callback on fire"));
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

/// `on_unregistered` that panics is reported; the others are told.
pub fn e12_a_panic_while_told_of_the_end_is_reported(fixture: &dyn Fixture) {
    struct Bomb;
    impl ForeignHandler<()> for Bomb {
        fn on_ready(&mut self, (): &(), _: Readiness, _: &ForeignContext) -> Result<(), Error> {
            Ok(())
        }

        fn on_unregistered(&mut self, (): &(), _: Option<Error>) {
            blow("the end on fire");
        }
    }
    let (mut bench, log) = (bench(fixture), Log::default());
    let (foreign, _hand) = source(fixture);
    let bomb = bench.here(|here| here.register_foreign(foreign, Interest::READABLE, Bomb));
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

/// Unregistered twice, it is told once, and the second caller that it was gone.
pub fn l08_two_who_unregister_it_are_told_apart(fixture: &dyn Fixture) {
    let (mut bench, log) = (bench(fixture), Log::default());
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

/// A callback may unregister another registration, with its handle.
pub fn l08_a_callback_unregisters_another_registration(fixture: &dyn Fixture) {
    let (mut bench, log, victim) = (bench(fixture), Log::default(), Log::default());
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

/// Whoever is told of the end may register anew.
pub fn l08_a_source_is_registered_again_at_its_end(fixture: &dyn Fixture) {
    struct Again(Option<(Log, waterwheel_channel::Foreign<()>)>);
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
            let probe = Probe::new(&log, nothing);
            here.register_foreign(next, Interest::READABLE, probe).expect("it may");
        }
    }
    let (mut bench, log) = (bench(fixture), Log::default());
    let ((first, first_hand), (next, next_hand)) = (source(fixture), source(fixture));
    first_hand.borrow_mut().make_readable();
    next_hand.borrow_mut().make_readable();
    let again = Again(Some((log.clone(), next)));
    bench.here(|here| here.register_foreign(first, Interest::READABLE, again)).unwrap();
    let noted = log.clone();
    bench.until("the successor's events", || noted.count("ready") >= 2);
    assert_eq!(bench.metrics().registrations, 1);
}

/// At the start of a shutdown everybody is told, with the cause, long before the quiet period is over.
pub fn l10_a_shutdown_tells_registrations_at_its_start(fixture: &dyn Fixture) {
    let (mut bench, log) = (bench(fixture), Log::default());
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
    assert!(log.count(SHUT_DOWN) == 1 && !bench.hand.is_terminated());
    log.taken();
    bench.turns(3);
    assert_eq!(log.len(), 0, "once, and nothing after it");
    let late = handle.unregister();
    bench.turn();
    assert!(!late.join().unwrap());
}

/// Nothing is registered any more once a shutdown has begun, neither from inside nor from outside.
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

/// A loop that is over refuses: the future fails, and so do the handles of old.
pub fn l08_a_loop_that_is_over_refuses_everything(fixture: &dyn Fixture) {
    let (mut bench, log) = (bench(fixture), Log::default());
    let (handle, _source) = register(&mut bench, fixture, &log, nothing);
    let event_loop = bench.event_loop();
    let _ended = event_loop.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap();
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

/// A loop that is dropped tells everybody, on the loop.
pub fn e16_a_dropped_loop_tells_its_registrations(fixture: &dyn Fixture) {
    let (mut bench, log) = (bench(fixture), Log::default());
    let (_handle, _source) = register(&mut bench, fixture, &log, nothing);
    let dropped = Rc::new(Cell::new(0));
    let at_drop = Rc::new(RefCell::new(Vec::new()));
    struct Notes(Log, Rc<RefCell<Vec<usize>>>, Rc<Cell<u32>>);
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
