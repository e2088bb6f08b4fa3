//! What the phases of a turn do to a loop: commands, events, futures, and what has ended.

use std::any::Any;
use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use waterwheel_executor::engine::{report, run_user_code};
use waterwheel_executor::{Fault, Nanos, UserCode};

use super::LocalLoop;
use super::driver_calls::driver_panicked;
use crate::driver::{Detach, IoEvent, WaitSummary};
use crate::event_loop::channel_layer::HostedChannels;
use crate::token::Token;

/// At most so many events are dispatched in one turn, so that tasks, timers and a shutdown have theirs: some
/// milliseconds, at a few microseconds each. What is left of the round is dispatched in the next turn, before
/// the driver asks for more.
const MAX_EVENTS: u64 = 1024;

/// The payload of a panic.
pub(crate) type Payload = Box<dyn Any + Send>;

impl LocalLoop {
    pub(crate) fn request_rebuild(&self) {
        self.parts.rebuild.set(true);
    }

    /// Whether there is something to do that is not in the executor's queue.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        let parts = &self.parts;
        // Mostly there is nothing anywhere: one branch for all of them.
        let waiting = parts.futures.ready() | parts.tail.len() | parts.registrations.ended();
        waiting | self.hosted_channels().left() | usize::from(parts.rebuild.get()) != 0
    }

    /// Does what calls into channels have left behind and was not done at their end.
    pub(crate) fn settle_channels(&self) {
        self.hosted_channels().settle();
    }

    /// Waits in the driver.
    #[inline]
    pub(crate) fn wait(&self, until: Option<Nanos>) -> io::Result<WaitSummary> {
        self.parts.waiting.set(true);
        let waited = self.with_driver(|driver| driver.wait(until));
        self.parts.waiting.set(false);
        waited
    }

    /// A turn has panicked. If it was the driver, in its wait and over one registration, that is let go, and the
    /// loop goes on.
    ///
    /// # Errors
    /// The panic, otherwise.
    pub(crate) fn survive(&self, payload: Payload) -> Result<(), Payload> {
        match self.parts.waiting.take() {
            true => self.lose_what_is_worked_on(payload),
            false => Err(payload),
        }
    }

    /// The driver panicked outside of a call for one token. What it was working on is let go.
    ///
    /// # Errors
    /// The panic, if that is not known, or is going already: nobody knows what the driver would do next.
    #[cold]
    fn lose_what_is_worked_on(&self, payload: Payload) -> Result<(), Payload> {
        let worked_on = self.call_driver(|driver| Ok(driver.working_on()));
        let worked_on = worked_on.ok().and_then(Result::ok).flatten();
        match worked_on.filter(|token| self.parts.registrations.is_live(*token)) {
            Some(token) => {
                self.lose(token, &driver_panicked(payload));
                Ok(())
            }
            None => Err(payload),
        }
    }

    /// Hands out the events of this round, or the first of them if there are very many; returns how many.
    #[inline]
    pub(crate) fn dispatch_events(&self) -> u64 {
        let (count, last) = (Cell::new(0), Cell::new(None));
        let _round = self.parts.sender.begin_round();
        // One guard for all of them, raised again after whoever panics: that is detached.
        while let Err(payload) = catch_unwind(AssertUnwindSafe(|| self.dispatch(&count, &last))) {
            self.panicked(last.take(), payload);
        }
        count.get()
    }

    /// Hands out events until there are none, or enough; `last` is whoever is called.
    #[inline]
    fn dispatch(&self, count: &Cell<u64>, last: &Cell<Option<Token>>) {
        while count.get() < MAX_EVENTS {
            let Some(event) = self.next_event() else { return };
            let token = event.token();
            count.set(count.get() + 1);
            if let IoEvent::Detached(_) = event {
                self.parts.registrations.detached(token, Detach::Done);
                continue;
            }
            let Some((origin, receiver)) = self.parts.registrations.receiver(token) else {
                continue;
            };
            last.set(Some(token));
            let begun = self.parts.sender.begin(UserCode::Callback, origin);
            let called = receiver.on_event(self, event);
            drop(begun);
            last.set(None);
            if let Err(error) = called {
                self.detach_with(token, Some(error));
            }
        }
    }

    #[cold]
    fn panicked(&self, token: Option<Token>, payload: Payload) {
        let found = token.and_then(|token| Some((token, self.parts.registrations.origin(token)?)));
        let Some((token, origin)) = found else {
            // No registrant was called: the panic is the driver's own.
            return self
                .lose_what_is_worked_on(payload)
                .unwrap_or_else(|payload| resume_unwind(payload));
        };
        let caught = run_user_code(UserCode::Callback, origin, || resume_unwind(payload));
        self.detach_with(token, caught.err());
    }

    #[inline]
    fn next_event(&self) -> Option<IoEvent> {
        self.parts.driver.borrow_mut().as_mut()?.next_event()
    }

    /// Polls the futures that are ready now; returns how many.
    pub(crate) fn poll_futures(&self) -> u64 {
        if self.parts.futures.ready() == 0 {
            return 0;
        }
        let polled = self.parts.futures.poll_ready(&self.parts.sender);
        self.parts.counters.polled(polled);
        polled
    }

    pub(crate) fn run_tail(&self) {
        self.parts.tail.run(&self.parts.sender);
    }

    /// Tells the registrations that have ended.
    #[inline]
    pub(crate) fn finish_ended(&self) {
        if self.parts.registrations.ended() > 0 {
            self.tell_ended();
        }
    }

    fn tell_ended(&self) {
        self.parts.registrations.finish_ended(self);
        self.vacate();
        self.parts.counters.registrations(self.registrations());
    }

    pub(crate) fn take_rebuild_request(&self) -> bool {
        self.parts.rebuild.take()
    }

    /// Replaces the driver's selector, and reports it with the reason.
    pub(crate) fn rebuild(&self, reason: &str) {
        let rebuild = AssertUnwindSafe(|| self.with_driver(|driver| driver.rebuild()));
        let rebuilt = catch_unwind(rebuild).unwrap_or_else(|payload| {
            let survived = self.lose_what_is_worked_on(payload);
            survived.unwrap_or_else(|payload| resume_unwind(payload));
            Err(io::Error::other("the driver panicked"))
        });
        match rebuilt {
            Ok(moved) => {
                self.parts.counters.rebuilt();
                let message = format!("{reason}: selector rebuilt, {moved} registrations moved");
                report(Fault::Driver(message));
            }
            Err(error) => {
                let message = format!("{reason}: no new selector, the old one stays: {error}");
                report(Fault::Driver(message));
            }
        }
    }
}
