//! A foreign handler that logs its calls.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use waterwheel_channel::driver::{Interest, Io, Readiness};
use waterwheel_channel::{Foreign, ForeignContext, ForeignHandle, ForeignHandler, LocalLoop};
use waterwheel_executor::Error;

use super::super::bench::Bench;
use crate::driver_suite::{Fixture, ForeignTrigger};

/// The calls of a registration, in order.
#[derive(Clone, Default)]
pub(super) struct ProbeLog(Rc<RefCell<Vec<String>>>);

impl ProbeLog {
    pub(super) fn add(&self, entry: impl Into<String>) {
        self.0.borrow_mut().push(entry.into());
    }

    pub(super) fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.0.borrow_mut())
    }

    pub(super) fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// True if an entry contains `words`.
    pub(super) fn has(&self, words: &str) -> bool {
        self.0.borrow().iter().any(|noted| noted.contains(words))
    }

    /// Returns how often this entry occurs.
    pub(super) fn count(&self, entry: &str) -> usize {
        self.0.borrow().iter().filter(|noted| *noted == entry).count()
    }
}

/// A handler that logs `ready` and `unregistered: cause`, and calls a closure when it is ready.
pub(super) struct ReadinessProbe<F> {
    log: ProbeLog,
    on_ready: F,
}

impl<F> ReadinessProbe<F>
where
    F: FnMut(Readiness, &ForeignContext) -> Result<(), Error> + 'static,
{
    pub(super) fn new(log: &ProbeLog, on_ready: F) -> Self {
        Self { log: log.clone(), on_ready }
    }
}

impl<F> ForeignHandler<()> for ReadinessProbe<F>
where
    F: FnMut(Readiness, &ForeignContext) -> Result<(), Error> + 'static,
{
    fn on_ready(
        &mut self,
        (): &(),
        ready: Readiness,
        context: &ForeignContext,
    ) -> Result<(), Error> {
        self.log.add("ready");
        (self.on_ready)(ready, context)
    }

    fn on_unregistered(&mut self, (): &(), cause: Option<Error>) {
        assert!(LocalLoop::current().is_some(), "told on the loop");
        let cause = cause.map_or_else(|| "asked for".to_owned(), |cause| cause.to_string());
        self.log.add(format!("unregistered: {cause}"));
    }
}

/// The trigger that makes a source ready, shared with handlers.
pub(super) type SharedTrigger = Rc<RefCell<Box<dyn ForeignTrigger>>>;

/// Creates a loop over the fixture's driver.
pub(super) fn bench(fixture: &dyn Fixture) -> Bench {
    Bench::over(fixture.open(), |builder| builder)
}

/// Creates a source, and the trigger that makes it ready.
pub(super) fn source(fixture: &dyn Fixture) -> (Foreign<()>, SharedTrigger) {
    let (io, source) = fixture.foreign();
    (foreign(io), Rc::new(RefCell::new(source)))
}

pub(super) fn foreign(io: Io) -> Foreign<()> {
    Foreign::new(Arc::new(()), io)
}

/// Registers a source for reading, with a probe.
pub(super) fn register<F>(
    bench: &mut Bench,
    fixture: &dyn Fixture,
    log: &ProbeLog,
    on_ready: F,
) -> (ForeignHandle, SharedTrigger)
where
    F: FnMut(Readiness, &ForeignContext) -> Result<(), Error> + 'static,
{
    let (foreign, trigger) = source(fixture);
    let probe = ReadinessProbe::new(log, on_ready);
    let handle = bench.here(|here| here.register_foreign(foreign, Interest::READABLE, probe));
    (handle.expect("a source can be watched"), trigger)
}

/// A callback that does nothing, so that the source stays ready.
pub(super) fn nothing(_: Readiness, _: &ForeignContext) -> Result<(), Error> {
    Ok(())
}
