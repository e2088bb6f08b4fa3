//! The driver with injected faults.
//!
//! A registration that a rebuild loses is detached from the inner driver and kept here as *lost*: its owner gets
//! `Failed`, may still make calls, and finally detaches it like any other.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::Shutdown;

use waterwheel_channel::driver::{
    Detach, Driver, Interest, Io, IoEvent, OutQueue, Role, Submit, WaitSummary,
};
use waterwheel_channel::{AncillaryMessage, Datagram, FileRegion, Token};
use waterwheel_executor::Nanos;

use super::Faults;
use super::plan::DriverCall;
use crate::driver_wrapper::DriverWrapper;

/// A driver with injected faults, opened by [`Faulty`](super::Faulty).
pub struct FaultyDriver {
    inner: Box<dyn Driver>,
    faults: Faults,
    /// Attached tokens, oldest first.
    attached: Vec<Token>,
    lost: BTreeMap<Token, LostState>,
    /// Tokens that still have to get `Failed`.
    failed_events: VecDeque<Token>,
}

/// The state of a lost registration in the inner driver.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LostState {
    Gone,
    /// The inner driver will report `Detached`; the owner has not detached yet.
    Detaching,
}

impl FaultyDriver {
    pub(super) fn new(inner: Box<dyn Driver>, faults: Faults) -> Self {
        Self {
            inner,
            faults,
            attached: Vec::new(),
            lost: BTreeMap::new(),
            failed_events: VecDeque::new(),
        }
    }

    fn lose(&mut self, token: Token) {
        let state = match self.inner.detach(token) {
            Detach::Done => LostState::Gone,
            Detach::Pending => LostState::Detaching,
        };
        self.lost.insert(token, state);
        self.failed_events.push_back(token);
    }
}

impl DriverWrapper for FaultyDriver {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Driver {
        &mut *self.inner
    }
    fn attach(&mut self, token: Token, io: Io, role: Role) -> io::Result<()> {
        self.faults.lock().call(DriverCall::Attach)?;
        self.inner.attach(token, io, role)?;
        self.attached.push(token);
        Ok(())
    }

    fn detach(&mut self, token: Token) -> Detach {
        self.attached.retain(|other| *other != token);
        self.failed_events.retain(|other| *other != token);
        match self.lost.remove(&token) {
            Some(LostState::Gone) => Detach::Done,
            Some(LostState::Detaching) => Detach::Pending,
            None => self.inner.detach(token),
        }
    }

    fn release(&mut self, token: Token) -> io::Result<Io> {
        if self.lost.contains_key(&token) {
            return Err(io::Error::other(format!(
                "{token:?} was lost in a rebuild by an injected fault"
            )));
        }
        let io = self.inner.release(token)?;
        self.attached.retain(|other| *other != token);
        Ok(io)
    }

    fn write(&mut self, token: Token, queue: &OutQueue) -> io::Result<Submit> {
        self.faults.lock().call(DriverCall::Write)?;
        self.inner.write(token, queue)
    }

    fn send_file(&mut self, token: Token, file: &FileRegion) -> io::Result<Submit> {
        self.faults.lock().call(DriverCall::Write)?;
        self.inner.send_file(token, file)
    }

    fn send_datagrams(
        &mut self,
        token: Token,
        batch: &mut dyn Iterator<Item = &Datagram>,
    ) -> io::Result<Submit> {
        self.faults.lock().call(DriverCall::Write)?;
        self.inner.send_datagrams(token, batch)
    }

    fn send_ancillary(&mut self, token: Token, ancillary: &AncillaryMessage) -> io::Result<Submit> {
        self.faults.lock().call(DriverCall::Write)?;
        self.inner.send_ancillary(token, ancillary)
    }

    fn shutdown(&mut self, token: Token, how: Shutdown) -> io::Result<()> {
        self.faults.lock().call(DriverCall::Shutdown)?;
        self.inner.shutdown(token, how)
    }

    fn register_foreign(&mut self, token: Token, io: Io, interest: Interest) -> io::Result<()> {
        self.faults.lock().call(DriverCall::RegisterForeign)?;
        self.inner.register_foreign(token, io, interest)?;
        self.attached.push(token);
        Ok(())
    }

    fn set_interest(&mut self, token: Token, interest: Interest) -> io::Result<()> {
        self.faults.lock().call(DriverCall::SetInterest)?;
        self.inner.set_interest(token, interest)
    }

    fn rebuild(&mut self) -> io::Result<usize> {
        self.faults.lock().call(DriverCall::Rebuild)?;
        let moved = self.inner.rebuild()?;
        let mut plan = self.faults.lock();
        plan.rebuilt();
        let lost = plan.lost.take();
        drop(plan);
        let here = self.attached.iter().filter(|token| !self.lost.contains_key(token));
        let lost = lost.map_or_else(Vec::new, |lost| lost.pick(here.copied().collect()));
        lost.iter().for_each(|token| self.lose(*token));
        Ok(moved.saturating_sub(lost.len()))
    }

    fn wait(&mut self, until: Option<Nanos>) -> io::Result<WaitSummary> {
        let mut plan = self.faults.lock();
        plan.call(DriverCall::Wait)?;
        let at_once = plan.take_early_return() || !self.failed_events.is_empty();
        drop(plan);
        let waited = self.inner.wait(if at_once { Some(Nanos(0)) } else { until })?;
        Ok(WaitSummary { ready: waited.ready + self.failed_events.len(), ..waited })
    }

    fn next_event(&mut self) -> Option<IoEvent> {
        if let Some(token) = self.failed_events.pop_front() {
            let lost =
                io::Error::other(format!("{token:?} was lost in a rebuild by an injected fault"));
            return Some(IoEvent::Failed(token, lost));
        }
        loop {
            let event = self.inner.next_event()?;
            match self.lost.get_mut(&event.token()) {
                None => return Some(event),
                // The owner has not detached yet, and gets `Done` when it does.
                Some(state) if matches!(event, IoEvent::Detached(_)) => *state = LostState::Gone,
                Some(_) => {}
            }
        }
    }
}
