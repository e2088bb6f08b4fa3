//! The parts of a turn: waiting, dispatching events, polling futures, and ending registrations.

use std::any::Any;
use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use waterwheel_executor::engine::{report, run_user_code};
use waterwheel_executor::{Fault, Nanos, UserCode};

use super::LocalLoop;
use super::driver_calls::driver_panicked;
use crate::base::token::Token;
use crate::driver::{Detach, IoEvent, WaitSummary};
use crate::event_loop::channel_layer::HostedChannels;

/// The maximum number of events dispatched in one turn, so that tasks, timers and a shutdown get their share: some
/// milliseconds, at a few microseconds each. The rest of the round is dispatched in the next turn, before the driver
/// asks the kernel for more.
const MAX_EVENTS: u64 = 1024;

/// The payload of a panic.
pub(crate) type PanicPayload = Box<dyn Any + Send>;

impl LocalLoop {
    pub(crate) fn request_rebuild(&self) {
        self.parts.rebuild_requested.set(true);
    }

    /// True if there is work that is not in the executor's queue.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        let parts = &self.parts;
        // Usually there is no work: one branch covers all lists.
        let waiting = parts.futures.ready_count()
            | parts.tail_tasks.len()
            | parts.registrations.ended_count();
        waiting
            | self.hosted_channels().pending_count()
            | usize::from(parts.rebuild_requested.get())
            != 0
    }

    /// Runs deferred channel work that did not run at the end of the call that deferred it.
    pub(crate) fn run_deferred_channel_work(&self) {
        self.hosted_channels().run_deferred();
    }

    /// Waits in the driver.
    #[inline]
    pub(crate) fn wait(&self, until: Option<Nanos>) -> io::Result<WaitSummary> {
        self.parts.is_waiting.set(true);
        let waited = self.with_driver(|driver| driver.wait(until));
        self.parts.is_waiting.set(false);
        waited
    }

    /// Begins a turn, whose wait has ended at this time.
    #[inline]
    pub(crate) fn begin_turn(&self, waited: Nanos) {
        self.parts.turn_start.set(waited);
    }

    /// Recovers from a panic in a turn. If the driver panicked in its wait, while working on a known registration,
    /// that registration is detached and the loop continues.
    ///
    /// # Errors
    /// Returns every other panic.
    pub(crate) fn recover_from_panic(&self, payload: PanicPayload) -> Result<(), PanicPayload> {
        match self.parts.is_waiting.take() {
            true => self.detach_panicked_registration(payload),
            false => Err(payload),
        }
    }

    /// Detaches the registration that the driver was working on when it panicked outside of a call for one token.
    ///
    /// # Errors
    /// Returns the panic if that registration is unknown or already detaching: the driver's state cannot be trusted
    /// then.
    #[cold]
    fn detach_panicked_registration(&self, payload: PanicPayload) -> Result<(), PanicPayload> {
        let worked_on = self.call_driver(|driver| Ok(driver.working_on()));
        let worked_on = worked_on.ok().and_then(Result::ok).flatten();
        match worked_on.filter(|token| self.parts.registrations.is_live(*token)) {
            Some(token) => {
                self.detach_after_panic(token, &driver_panicked(payload));
                Ok(())
            }
            None => Err(payload),
        }
    }

    /// Dispatches the events of this round, at most [`MAX_EVENTS`]; returns their number.
    #[inline]
    pub(crate) fn dispatch_events(&self) -> u64 {
        let (count, last) = (Cell::new(0), Cell::new(None));
        let _round = self.parts.sender.begin_round();
        // One panic guard for all events. After a panic its receiver is detached, and the loop continues under a
        // new guard.
        while let Err(payload) = catch_unwind(AssertUnwindSafe(|| self.dispatch(&count, &last))) {
            self.on_dispatch_panic(last.take(), payload);
        }
        count.get()
    }

    /// Dispatches events until there are no more, or [`MAX_EVENTS`]. `last` is the token whose receiver is running.
    #[inline]
    fn dispatch(&self, count: &Cell<u64>, last: &Cell<Option<Token>>) {
        while count.get() < MAX_EVENTS {
            let Some(event) = self.next_event() else { return };
            let token = event.token();
            count.set(count.get() + 1);
            if let IoEvent::Detached(_) = event {
                self.parts.registrations.on_driver_detached(token, Detach::Done);
                continue;
            }
            let Some((origin, receiver)) = self.parts.registrations.live_receiver(token) else {
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
    fn on_dispatch_panic(&self, token: Option<Token>, payload: PanicPayload) {
        let found = token.and_then(|token| Some((token, self.parts.registrations.origin(token)?)));
        let Some((token, origin)) = found else {
            // No receiver was running: the driver itself panicked.
            return self
                .detach_panicked_registration(payload)
                .unwrap_or_else(|payload| resume_unwind(payload));
        };
        let caught = run_user_code(UserCode::Callback, origin, || resume_unwind(payload));
        self.detach_with(token, caught.err());
    }

    #[inline]
    fn next_event(&self) -> Option<IoEvent> {
        self.parts.driver.borrow_mut().as_mut()?.next_event()
    }

    /// Polls the futures that are ready now; returns their number.
    pub(crate) fn poll_futures(&self) -> u64 {
        if self.parts.futures.ready_count() == 0 {
            return 0;
        }
        let polled = self.parts.futures.poll_ready(&self.parts.sender);
        self.parts.counters.add_polled(polled);
        polled
    }

    pub(crate) fn run_tail_tasks(&self) {
        self.parts.tail_tasks.run(&self.parts.sender);
    }

    /// Calls `on_detached` for the registrations that have ended.
    #[inline]
    pub(crate) fn notify_ended_registrations(&self) {
        if self.parts.registrations.ended_count() > 0 {
            self.notify_ended_slow();
        }
    }

    fn notify_ended_slow(&self) {
        self.parts.registrations.notify_ended(self);
        self.release_lease_if_unused();
        self.parts.counters.set_registrations(self.registration_count());
    }

    pub(crate) fn take_rebuild_request(&self) -> bool {
        self.parts.rebuild_requested.take()
    }

    /// Replaces the driver's selector, and reports the result with the reason.
    pub(crate) fn rebuild(&self, reason: &str) {
        let rebuild = AssertUnwindSafe(|| self.with_driver(|driver| driver.rebuild()));
        let rebuilt = catch_unwind(rebuild).unwrap_or_else(|payload| {
            let survived = self.detach_panicked_registration(payload);
            survived.unwrap_or_else(|payload| resume_unwind(payload));
            Err(io::Error::other("the driver panicked"))
        });
        match rebuilt {
            Ok(moved) => {
                self.parts.counters.add_rebuild();
                let message = format!("{reason}: selector rebuilt, {moved} registrations moved");
                report(Fault::Driver(message));
            }
            Err(error) => {
                let message =
                    format!("{reason}: rebuild failed, the old selector stays in use: {error}");
                report(Fault::Driver(message));
            }
        }
    }
}
