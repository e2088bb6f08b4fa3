//! Foreign registrations: their readiness and interest (L08).

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use waterwheel_channel::driver::{Interest, Readiness};
use waterwheel_channel::{ForeignContext, LocalLoop, on_ready};
use waterwheel_executor::Error;

use super::probe::{ProbeLog, ReadinessProbe, bench, foreign, nothing, register, source};
use crate::driver_suite::Fixture;

/// Checks that readiness is reported in every turn until it is consumed.
pub fn l08_readiness_is_reported_in_every_turn_until_it_is_consumed(fixture: &dyn Fixture) {
    let (mut bench, log) = (bench(fixture), ProbeLog::default());
    let (_handle, source) = register(&mut bench, fixture, &log, nothing);
    bench.turns(3);
    assert_eq!(log.len(), 0, "it is not ready");
    for _ in 0..2 {
        source.borrow_mut().make_readable();
        for _ in 0..3 {
            bench.turn();
            assert_eq!(log.taken(), ["ready"]);
        }
        source.borrow_mut().drain();
        bench.turns(3);
        assert_eq!(log.len(), 0);
    }
}

/// Checks that a handler that consumes the readiness is called once.
pub fn l08_a_handler_that_consumes_readiness_is_called_once(fixture: &dyn Fixture) {
    let (mut bench, log) = (bench(fixture), ProbeLog::default());
    let (foreign, manual) = source(fixture);
    let drains = manual.clone();
    let probe = ReadinessProbe::new(&log, move |ready: Readiness, _: &ForeignContext| {
        assert!(ready.is_readable());
        drains.borrow_mut().drain();
        Ok(())
    });
    bench.here(|here| here.register_foreign(foreign, Interest::READABLE, probe)).unwrap();
    for _ in 0..3 {
        manual.borrow_mut().make_readable();
        bench.turns(3);
        assert_eq!(log.taken(), ["ready"]);
    }
}

/// Checks that a source that becomes ready ends the wait of an idle loop.
pub fn l08_a_source_ends_a_wait(fixture: &dyn Fixture) {
    let (mut bench, log) = (bench(fixture), ProbeLog::default());
    let (_handle, source) = register(&mut bench, fixture, &log, nothing);
    source.borrow_mut().make_readable();
    let before = bench.now();
    bench.manual.turn(Some(super::super::bench::TIMEOUT));
    assert_eq!(log.taken(), ["ready"]);
    assert!(bench.now().since(before) < super::super::bench::TIMEOUT);
    assert_eq!((bench.metrics().wake_ups_by_io, bench.metrics().ready_events), (1, 1));
}

/// Checks that the callback can change the interest.
pub fn l08_the_interest_is_changed_by_the_callback(fixture: &dyn Fixture) {
    let (mut bench, log) = (bench(fixture), ProbeLog::default());
    let seen: Rc<RefCell<Vec<Readiness>>> = Rc::default();
    let sees = seen.clone();
    let (_handle, source) = register(&mut bench, fixture, &log, move |ready, context| {
        sees.borrow_mut().push(ready);
        context.set_interest(Interest::WRITABLE).map_err(Error::new)?;
        assert!(context.set_interest(Interest::NONE).is_err(), "an interest in nothing");
        Ok(())
    });
    source.borrow_mut().make_readable();
    bench.turns(2);
    assert_eq!(*seen.borrow(), [Readiness::READABLE, Readiness::WRITABLE]);
}

/// Checks that the handle can change the interest, in order with other commands.
pub fn l08_the_interest_is_changed_by_the_handle(fixture: &dyn Fixture) {
    let (mut bench, log) = (bench(fixture), ProbeLog::default());
    let (handle, source) = register(&mut bench, fixture, &log, nothing);
    source.borrow_mut().make_readable();
    let changed = handle.set_interest(Interest::WRITABLE);
    bench.turn();
    assert!(changed.join().is_ok());
    log.taken();
    source.borrow_mut().drain();
    bench.turn();
    assert_eq!(log.taken(), ["ready"], "there is room");
    let refused = handle.set_interest(Interest::NONE);
    let back = handle.set_interest(Interest::READABLE);
    bench.turn();
    assert!(refused.join().is_err() && back.join().is_ok());
    log.taken();
    bench.turns(3);
    assert_eq!(log.len(), 0, "it is not readable");
}

/// Checks that a hang-up is reported for every interest.
pub fn l08_a_hang_up_reaches_the_handler(fixture: &dyn Fixture) {
    let (mut bench, log) = (bench(fixture), ProbeLog::default());
    let seen: Rc<RefCell<Option<Readiness>>> = Rc::default();
    let sees = seen.clone();
    let (_handle, source) = register(&mut bench, fixture, &log, move |ready, context| {
        *sees.borrow_mut() = Some(ready);
        context.unregister();
        Ok(())
    });
    source.borrow_mut().hang_up();
    let hangs = seen.clone();
    bench.until("hang-up", || hangs.borrow().is_some());
    assert!(seen.borrow().unwrap().contains(Readiness::HANG_UP), "{seen:?}");
}

/// Checks that an empty interest is refused, and that no registration is left.
pub fn l08_an_empty_interest_is_refused(fixture: &dyn Fixture) {
    let (mut bench, log) = (bench(fixture), ProbeLog::default());
    let (refused, manual) = source(fixture);
    let probe = ReadinessProbe::new(&log, nothing);
    let error = bench.here(|here| here.register_foreign(refused, Interest::NONE, probe));
    assert!(error.is_err());
    manual.borrow_mut().make_readable();
    let from_elsewhere = bench.event_loop().register_foreign(
        foreign(fixture.foreign().0),
        Interest::NONE,
        on_ready(|(): &(), _, _| Ok(())),
    );
    bench.turns(3);
    assert!(from_elsewhere.join().is_err());
    assert_eq!(log.len(), 0, "never registered, so never unregistered");
    assert_eq!(bench.metrics().registrations, 0);
    assert!(bench.reports.take().is_empty());
}

/// Checks that a source can be registered from another thread, whose future returns the handle.
pub fn l08_a_source_is_registered_from_another_thread(fixture: &dyn Fixture) {
    let mut bench = bench(fixture);
    let (event_loop, told) = (bench.event_loop(), Arc::new(AtomicUsize::new(0)));
    let (io, mut source) = fixture.foreign();
    let counts = told.clone();
    let handler = on_ready(move |(): &(), _, context: &ForeignContext| {
        assert_eq!(context.event_loop().handle(), LocalLoop::current().unwrap().handle());
        counts.fetch_add(1, Ordering::SeqCst);
        Ok(())
    });
    let register = move || event_loop.register_foreign(foreign(io), Interest::READABLE, handler);
    let registered = std::thread::spawn(register).join().unwrap();
    bench.until("registration", || registered.is_done());
    let handle = registered.join().unwrap();
    assert_eq!(bench.metrics().registrations, 1);
    source.make_readable();
    let counted = told.clone();
    bench.until("readiness", || counted.load(Ordering::SeqCst) > 0);
    let gone = handle.unregister();
    bench.until("end", || gone.is_done());
    assert!(gone.join().unwrap());
}

/// Checks that dropping the handle keeps the registration, and that the callback can get a handle.
pub fn l08_dropping_the_handle_changes_nothing(fixture: &dyn Fixture) {
    let (mut bench, log) = (bench(fixture), ProbeLog::default());
    let inside = Rc::new(RefCell::new(None));
    let keeps = inside.clone();
    let (handle, source) = register(&mut bench, fixture, &log, move |_, context| {
        *keeps.borrow_mut() = Some(context.handle());
        Ok(())
    });
    drop(handle);
    bench.turns(2);
    source.borrow_mut().make_readable();
    bench.turns(2);
    assert_eq!(log.taken(), ["ready", "ready"]);
    let handle = inside.borrow_mut().take().expect("it was called");
    let gone = handle.unregister();
    let noted = log.clone();
    bench.until("end", || noted.count("unregistered: asked for") == 1);
    assert!(gone.join().unwrap());
}

/// Checks that a callback can register another source.
pub fn l08_a_callback_registers_another_source(fixture: &dyn Fixture) {
    let (mut bench, log, inner) = (bench(fixture), ProbeLog::default(), ProbeLog::default());
    let (second, second_hand) = source(fixture);
    second_hand.borrow_mut().make_readable();
    let (mut second, of_second) = (Some(second), inner.clone());
    let (_handle, first) = register(&mut bench, fixture, &log, move |_, context| {
        if let Some(second) = second.take() {
            let probe = ReadinessProbe::new(&of_second, nothing);
            let registered =
                context.event_loop().register_foreign(second, Interest::READABLE, probe);
            registered.map_err(Error::new)?;
        }
        Ok(())
    });
    first.borrow_mut().make_readable();
    bench.turns(2);
    assert_eq!(bench.metrics().registrations, 2);
    assert!(log.count("ready") >= 1 && inner.count("ready") >= 1);
    assert_eq!(bench.metrics().timers, 0);
    bench.manual.turn(Some(Duration::ZERO));
}
