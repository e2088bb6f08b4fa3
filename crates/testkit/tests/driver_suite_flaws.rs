//! Drivers with one flaw each, and the tests of the driver suite that must detect it.

mod support;

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use waterwheel_channel::Token;
use waterwheel_channel::driver::{
    Detach, Driver, Interest, Io, IoEvent, OpenDriver, OutQueue, ReadPlan, Readiness, Role, Submit,
    WaitSummary,
};
use waterwheel_executor::{Nanos, Unpark};
use waterwheel_testkit::driver_suite::{
    Fixture, connections, foreign, no_spinning, reading, rebuilding, registrations, wait_calls,
    writing,
};
use waterwheel_testkit::driver_wrapper::{DriverWrapper, WrappedDriver};
use waterwheel_testkit::manual::Manual;

use crate::support::ManualFixture;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    WaitsTooShort,
    NeverWaits,
    DoesNotPoll,
    ForgetsTheWaker,
    WakesTwice,
    OmitsReadComplete,
    ReadsBeforeTurnedOn,
    ReadsAfterTurnedOff,
    IgnoresReadPlan,
    RepeatsEof,
    ReversesRound,
    UnderstatesWritten,
    OverstatesWritten,
    DeliversEventsAfterDetach,
    RepeatsDetached,
    OmitsDetached,
    KeepsRefusedSockets,
    AcceptsUnknownTokens,
    ReportsReadinessOnce,
    AcceptsEmptyInterest,
    KeepsTheOldInterest,
    HidesHangUps,
    LosesTheRoundInARebuild,
    LosesReadsInARebuild,
    MiscountsARebuild,
    RepeatsFailed,
    RepeatsWrote,
    RepeatsConnected,
}

type Test = fn(&dyn Fixture);

/// Every flaw with the tests that must detect it.
const DETECTING_TESTS: &[(Flaw, &[Test])] = &[
    (Flaw::WaitsTooShort, &[wait_calls::l02_a_wait_ends_at_its_deadline]),
    (Flaw::DoesNotPoll, &[wait_calls::l02_a_wait_with_a_past_deadline_does_not_block]),
    (Flaw::NeverWaits, &[no_spinning::l17_idle_registrations_do_not_spin]),
    (
        Flaw::ForgetsTheWaker,
        &[
            wait_calls::l02_an_unpark_ends_the_next_wait_and_no_other,
            wait_calls::l02_many_unparks_end_one_wait,
            wait_calls::l02_a_wake_and_an_event_are_both_reported,
            rebuilding::l06_the_waker_survives_a_rebuild,
        ],
    ),
    (
        Flaw::WakesTwice,
        &[
            wait_calls::l02_an_unpark_ends_the_next_wait_and_no_other,
            wait_calls::l02_many_unparks_end_one_wait,
        ],
    ),
    (
        Flaw::OmitsReadComplete,
        &[
            reading::l05_a_round_of_reads_ends_with_one_read_complete,
            wait_calls::l02_a_wait_does_not_block_while_events_are_left,
            connections::l05_a_listener_accepts_as_planned,
        ],
    ),
    (
        Flaw::ReadsBeforeTurnedOn,
        &[
            reading::l05_reads_are_off_at_first,
            no_spinning::l17_a_finished_peer_with_reads_off_does_not_spin,
        ],
    ),
    (
        Flaw::ReadsAfterTurnedOff,
        &[
            reading::l05_reads_that_are_turned_off_stop_in_the_middle_of_a_round,
            no_spinning::l17_reads_turned_off_again_do_not_spin,
            no_spinning::l17_a_full_backlog_with_accepts_off_does_not_spin,
        ],
    ),
    (
        Flaw::IgnoresReadPlan,
        &[
            reading::l05_a_plan_bounds_a_round,
            reading::l05_a_flooding_peer_cannot_prolong_a_round,
            connections::l05_a_listener_accepts_as_planned,
        ],
    ),
    (Flaw::RepeatsEof, &[reading::l05_eof_is_delivered_once_and_last]),
    (
        Flaw::ReversesRound,
        &[
            reading::l05_eof_is_delivered_once_and_last,
            connections::l05_connected_is_delivered_before_read,
            writing::l05_wrote_is_delivered_before_read,
        ],
    ),
    (Flaw::UnderstatesWritten, &[writing::l05_what_is_written_arrives_in_order]),
    (Flaw::OverstatesWritten, &[writing::l05_a_write_without_room_is_pending_until_there_is_room]),
    (
        Flaw::DeliversEventsAfterDetach,
        &[
            registrations::l07_streams_detached_at_the_first_event_have_no_events,
            registrations::l07_foreign_descriptors_detached_at_the_first_event_have_no_events,
            registrations::l07_a_registration_does_not_inherit_events_of_its_predecessor,
        ],
    ),
    (
        Flaw::RepeatsDetached,
        &[registrations::l07_a_detach_is_done_at_once_or_followed_by_one_detached],
    ),
    (
        Flaw::OmitsDetached,
        &[
            registrations::l07_a_detach_is_done_at_once_or_followed_by_one_detached,
            registrations::l07_a_detach_ends_a_pending_write,
            rebuilding::l06_a_rebuild_does_not_restore_detached_registrations,
        ],
    ),
    (
        Flaw::KeepsRefusedSockets,
        &[registrations::l07_a_failed_attach_returns_the_socket_and_leaves_the_token_free],
    ),
    (
        Flaw::AcceptsUnknownTokens,
        &[
            registrations::l07_a_call_with_an_unknown_token_does_nothing,
            foreign::l08_foreign_descriptors_and_streams_are_not_mixed_up,
        ],
    ),
    (
        Flaw::ReportsReadinessOnce,
        &[foreign::l08_readiness_is_reported_in_every_round_while_it_lasts],
    ),
    (Flaw::AcceptsEmptyInterest, &[foreign::l08_an_empty_interest_is_an_error]),
    (Flaw::KeepsTheOldInterest, &[foreign::l08_the_interest_can_be_changed]),
    (Flaw::HidesHangUps, &[foreign::l08_a_hang_up_is_reported_for_every_interest]),
    (Flaw::LosesTheRoundInARebuild, &[rebuilding::l06_a_rebuild_loses_no_event]),
    (
        Flaw::LosesReadsInARebuild,
        &[rebuilding::l06_a_rebuild_keeps_registrations_and_their_interest],
    ),
    (
        Flaw::MiscountsARebuild,
        &[
            rebuilding::l06_a_rebuild_keeps_a_pending_write,
            rebuilding::l06_a_rebuild_keeps_a_pending_connect,
        ],
    ),
    (
        Flaw::RepeatsWrote,
        &[
            no_spinning::l17_a_pending_write_gets_wrote_once,
            writing::l05_a_write_without_room_is_pending_until_there_is_room,
        ],
    ),
    (
        Flaw::RepeatsConnected,
        &[
            no_spinning::l17_a_connected_stream_does_not_spin,
            connections::l05_a_connect_is_connected_once,
        ],
    ),
    (
        Flaw::RepeatsFailed,
        &[
            no_spinning::l17_a_refused_connect_fails_once,
            no_spinning::l17_a_reset_with_reads_off_fails_once,
            reading::l05_a_reset_fails_a_stream_once,
        ],
    ),
];

#[test]
fn every_flaw_fails_its_tests() {
    for (flaw, tests) in DETECTING_TESTS {
        for (n, test) in tests.iter().enumerate() {
            // A late detach or an immediate write occurs in one of the two modes only.
            let noticed = [Manual::readiness(), Manual::completion()].map(|manual| {
                let fixture = ManualFixture::new(manual, |manual| Flawed { manual, flaw: *flaw });
                catch_unwind(AssertUnwindSafe(|| test(&fixture))).is_err()
            });
            assert!(noticed.contains(&true), "{flaw:?} passed test {n}");
        }
    }
}

#[test]
fn a_driver_without_a_flaw_passes() {
    for manual in [Manual::readiness(), Manual::completion()] {
        let fixture = ManualFixture::new(manual, |manual| Flawed { manual, flaw: Flaw::None });
        DETECTING_TESTS.iter().flat_map(|(_, tests)| *tests).for_each(|test| test(&fixture));
    }
}

struct Flawed {
    manual: Manual,
    flaw: Flaw,
}

impl OpenDriver for Flawed {
    fn open(&self) -> io::Result<Box<dyn Driver>> {
        Ok(Box::new(WrappedDriver(FlawedDriver {
            inner: self.manual.open()?,
            flaw: self.flaw,
            round: VecDeque::new(),
            woken_before: false,
            reported: Vec::new(),
            kept: Vec::new(),
        })))
    }
}

struct FlawedDriver {
    inner: Box<dyn Driver>,
    flaw: Flaw,
    /// Events taken from the inner driver ahead of `next_event`.
    round: VecDeque<IoEvent>,
    woken_before: bool,
    reported: Vec<Token>,
    kept: Vec<Arc<()>>,
}

impl FlawedDriver {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    /// True if the flaw takes the whole round from the inner driver at once.
    fn is_hasty(&self) -> bool {
        [Flaw::ReversesRound, Flaw::DeliversEventsAfterDetach, Flaw::LosesTheRoundInARebuild]
            .contains(&self.flaw)
    }

    fn distort(&mut self, event: IoEvent) -> Option<IoEvent> {
        match (self.flaw, event) {
            (Flaw::OmitsReadComplete, IoEvent::ReadComplete(_)) => None,
            (Flaw::RepeatsEof, IoEvent::Eof(token)) => {
                self.round.push_back(IoEvent::Eof(token));
                Some(IoEvent::Eof(token))
            }
            (Flaw::RepeatsDetached, IoEvent::Detached(token)) => {
                self.round.push_back(IoEvent::Detached(token));
                Some(IoEvent::Detached(token))
            }
            (Flaw::RepeatsFailed, IoEvent::Failed(token, error)) => {
                self.round.push_back(IoEvent::Failed(token, error.kind().into()));
                Some(IoEvent::Failed(token, error))
            }
            (Flaw::RepeatsWrote, IoEvent::Wrote(token, n)) => {
                self.round.push_back(IoEvent::Wrote(token, 0));
                Some(IoEvent::Wrote(token, n))
            }
            (Flaw::RepeatsConnected, IoEvent::Connected(token)) => {
                self.round.push_back(IoEvent::Connected(token));
                Some(IoEvent::Connected(token))
            }
            (Flaw::OmitsDetached, IoEvent::Detached(_)) => None,
            (Flaw::OverstatesWritten, IoEvent::Wrote(token, n)) if n > 0 => {
                Some(IoEvent::Wrote(token, n + 1))
            }
            (Flaw::UnderstatesWritten, IoEvent::Wrote(token, n)) if n > 1 => {
                Some(IoEvent::Wrote(token, n - 1))
            }
            (Flaw::ReportsReadinessOnce, IoEvent::Foreign(token, ready)) => {
                let again = self.reported.contains(&token);
                self.reported.push(token);
                (!again).then_some(IoEvent::Foreign(token, ready))
            }
            (Flaw::HidesHangUps, IoEvent::Foreign(token, ready)) => {
                let hidden = ready.contains(Readiness::HANG_UP);
                (!hidden).then_some(IoEvent::Foreign(token, ready))
            }
            (_, event) => Some(event),
        }
    }
}

impl DriverWrapper for FlawedDriver {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Driver {
        &mut *self.inner
    }
    fn waker(&self) -> Arc<dyn Unpark> {
        struct Nobody;
        impl Unpark for Nobody {
            fn unpark(&self) {}
        }
        if self.has(Flaw::ForgetsTheWaker) { Arc::new(Nobody) } else { self.inner.waker() }
    }

    fn attach(&mut self, token: Token, io: Io, role: Role) -> io::Result<()> {
        if self.has(Flaw::KeepsRefusedSockets) {
            match io.downcast::<Arc<()>>() {
                Ok(kept) => {
                    self.kept.push(kept);
                    return Err(io::ErrorKind::InvalidInput.into());
                }
                Err(io) => return self.inner.attach(token, io, role),
            }
        }
        self.inner.attach(token, io, role)?;
        if self.has(Flaw::ReadsBeforeTurnedOn) {
            self.inner.set_read(token, Some(ReadPlan::default()));
        }
        Ok(())
    }

    fn detach(&mut self, token: Token) -> Detach {
        if !self.has(Flaw::DeliversEventsAfterDetach) {
            self.round.retain(|event| event.token() != token);
        }
        self.inner.detach(token)
    }

    fn set_read(&mut self, token: Token, plan: Option<ReadPlan>) {
        match plan {
            None if self.has(Flaw::ReadsAfterTurnedOff) => {}
            Some(_) if self.has(Flaw::IgnoresReadPlan) => {
                let much = ReadPlan { max_reads: u32::MAX, size: 7 };
                self.inner.set_read(token, Some(much));
            }
            plan => self.inner.set_read(token, plan),
        }
    }

    fn write(&mut self, token: Token, queue: &OutQueue) -> io::Result<Submit> {
        if self.has(Flaw::AcceptsUnknownTokens) {
            return self.inner.write(token, queue).or(Ok(Submit::Done(queue.len())));
        }
        Ok(match self.inner.write(token, queue)? {
            Submit::Done(n) if n > 1 && self.has(Flaw::UnderstatesWritten) => Submit::Done(n - 1),
            submit => submit,
        })
    }

    fn set_interest(&mut self, token: Token, interest: Interest) -> io::Result<()> {
        match self.flaw {
            Flaw::KeepsTheOldInterest => Ok(()),
            Flaw::AcceptsEmptyInterest if interest.is_empty() => {
                self.inner.set_interest(token, Interest::READABLE)
            }
            _ => self.inner.set_interest(token, interest),
        }
    }

    fn rebuild(&mut self) -> io::Result<usize> {
        let moved = self.inner.rebuild()?;
        match self.flaw {
            Flaw::LosesTheRoundInARebuild => self.round.clear(),
            Flaw::LosesReadsInARebuild => {
                (0..100).for_each(|n| self.inner.set_read(Token::from_bits(n), None));
            }
            Flaw::MiscountsARebuild => return Ok(moved + 1),
            _ => {}
        }
        Ok(moved)
    }

    fn wait(&mut self, until: Option<Nanos>) -> io::Result<WaitSummary> {
        if self.has(Flaw::DoesNotPoll) && until == Some(Nanos(0)) {
            return Ok(WaitSummary::default());
        }
        let until = match self.flaw {
            _ if !self.round.is_empty() => Some(Nanos(0)),
            Flaw::WaitsTooShort => until.map(|until| Nanos(until.0 - until.0 / 1000)),
            Flaw::NeverWaits => Some(Nanos(0)),
            _ => until,
        };
        let mut waited = self.inner.wait(until)?;
        if self.has(Flaw::WakesTwice) {
            let woken = waited.woken;
            waited.woken |= std::mem::replace(&mut self.woken_before, woken);
        }
        if self.is_hasty() {
            self.round.extend(std::iter::from_fn(|| self.inner.next_event()));
            if self.has(Flaw::ReversesRound) {
                self.round.make_contiguous().reverse();
            }
        }
        waited.ready = waited.ready.max(self.round.len());
        Ok(waited)
    }

    fn next_event(&mut self) -> Option<IoEvent> {
        if let Some(event) = self.round.pop_front() {
            return Some(event);
        }
        loop {
            let event = self.inner.next_event()?;
            if let Some(event) = self.distort(event) {
                return Some(event);
            }
        }
    }
}
