//! Checks every event of the suite against the contract.
//!
//! The checker knows what the suite has requested for each token, and which stage of the round each token has reached.
//! An event that breaks the contract panics with the broken rule.

use waterwheel_channel::driver::{Interest, IoEvent, ReadPlan, Readiness};
use waterwheel_channel::{Slab, Token};

/// The registrations of a bench, and the state of the current round.
#[derive(Default)]
pub(super) struct EventChecker {
    entries: Slab<RegistrationRecord>,
}

/// The requested and observed state of one registration.
pub(super) struct RegistrationRecord {
    kind: RegistrationKind,
    pub(super) reads: Option<ReadPlan>,
    /// The length of the pending write.
    pub(super) writing: Option<usize>,
    pub(super) detaching: bool,
    ended: bool,
    finished: bool,
    failed: bool,
    /// The stage reached in this round.
    stage: CheckedRound,
    reads_in_round: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegistrationKind {
    Stream,
    Connecting,
    Listener,
    Datagram,
    Foreign(Interest),
}

/// The stages of a round, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CheckedRound {
    Before,
    Connected,
    Wrote,
    Reading,
    ReadComplete,
    Eof,
    Failed,
}

impl EventChecker {
    /// Adds a registration.
    pub(super) fn add(&mut self, kind: RegistrationKind) -> Token {
        self.entries.insert(RegistrationRecord {
            kind,
            reads: None,
            writing: None,
            detaching: false,
            ended: false,
            finished: false,
            failed: false,
            stage: CheckedRound::Before,
            reads_in_round: 0,
        })
    }

    pub(super) fn entry(&mut self, token: Token) -> &mut RegistrationRecord {
        self.entries.get_mut(token).expect("the suite uses attached tokens only")
    }

    pub(super) fn change_interest(&mut self, token: Token, interest: Interest) {
        self.entry(token).kind = RegistrationKind::Foreign(interest);
    }

    /// True if events of this token are allowed.
    pub(super) fn is_live(&self, token: Token) -> bool {
        self.entries.get(token).is_some_and(|entry| !entry.detaching)
    }

    /// Removes a registration: its index may be reused.
    pub(super) fn remove(&mut self, token: Token) {
        self.entries.remove(token);
    }

    pub(super) fn begin_round(&mut self) {
        for token in self.entries.tokens().collect::<Vec<_>>() {
            let entry = self.entry(token);
            entry.stage = CheckedRound::Before;
            entry.reads_in_round = 0;
        }
    }

    /// Ends the round: every token that has read must have completed.
    pub(super) fn end_round(&mut self) {
        for token in self.entries.tokens().collect::<Vec<_>>() {
            let entry = self.entry(token);
            let open = entry.stage == CheckedRound::Reading && !entry.detaching;
            assert!(!open, "a round of reads of {token:?} ended without ReadComplete");
        }
    }

    /// Records an event, or panics if the contract forbids it.
    pub(super) fn check(&mut self, event: &IoEvent) {
        let token = event.token();
        let Some(entry) = self.entries.get_mut(token) else {
            panic!("{event:?} is an event of a removed registration");
        };
        if let Err(broken_rule) = entry.check(event) {
            panic!("{event:?}: {broken_rule}");
        }
        if matches!(event, IoEvent::Detached(_)) {
            self.remove(token);
        }
    }
}

impl RegistrationRecord {
    fn check(&mut self, event: &IoEvent) -> Result<(), &'static str> {
        if let IoEvent::Detached(_) = event {
            return ensure(self.detaching, "the registration was not detached");
        }
        ensure(!self.detaching, "the registration was detached before")?;
        ensure(!self.failed, "no event may follow Failed")?;
        self.check_stage(event)?;
        match event {
            IoEvent::Connected(_) => {
                ensure(self.kind == RegistrationKind::Connecting, "the socket was not connecting")?;
                self.kind = RegistrationKind::Stream;
            }
            IoEvent::Wrote(_, n) => {
                let pending = self.writing.take().ok_or("no write was pending")?;
                ensure(*n <= pending, "more bytes than the pending write has")?;
            }
            IoEvent::Read(_, bytes) => {
                ensure(
                    self.kind == RegistrationKind::Stream,
                    "the socket is not a connected stream",
                )?;
                ensure(!bytes.is_empty(), "an empty read")?;
                ensure(!self.ended, "Eof was delivered before")?;
                let plan = self.check_read()?;
                ensure(bytes.len() <= plan.size, "a longer read than planned")?;
            }
            IoEvent::Accepted(..) => {
                ensure(self.kind == RegistrationKind::Listener, "the socket is not a listener")?;
                self.check_read()?;
            }
            IoEvent::AncillaryMessage(_, ancillary) => {
                let plan = self.check_read()?;
                ensure(ancillary.bytes.len() <= plan.size, "a longer read than planned")?;
            }
            IoEvent::Datagram(_, datagram) => {
                ensure(
                    self.kind == RegistrationKind::Datagram,
                    "the socket is not a datagram socket",
                )?;
                let plan = self.check_read()?;
                ensure(datagram.bytes().len() <= plan.size, "a longer read than planned")?;
            }
            IoEvent::ReceiveFailed(..) => {
                ensure(
                    self.kind == RegistrationKind::Datagram,
                    "the socket is not a datagram socket",
                )?;
            }
            IoEvent::ReadComplete(_) => {}
            IoEvent::LastRead(..) => unreachable!("split before it is checked"),
            IoEvent::Eof(_) => {
                ensure(self.reads.is_some(), "reads are off")?;
                ensure(!self.ended, "Eof was delivered before")?;
                self.ended = true;
            }
            IoEvent::PeerFinished(_) => {
                ensure(
                    self.kind == RegistrationKind::Stream,
                    "the socket is not a connected stream",
                )?;
                ensure(self.reads.is_none(), "reads are on")?;
                ensure(!self.ended, "Eof was delivered before")?;
                ensure(!self.finished, "PeerFinished was delivered before")?;
                self.finished = true;
            }
            IoEvent::AcceptFailed(..) => {
                ensure(self.kind == RegistrationKind::Listener, "the socket is not a listener")?;
            }
            IoEvent::Failed(..) => self.failed = true,
            IoEvent::Foreign(_, ready) => {
                let RegistrationKind::Foreign(interest) = self.kind else {
                    return Err("the registration is not foreign");
                };
                ensure(!ready.is_empty(), "the readiness is empty")?;
                ensure(is_in_interest(*ready, interest), "the readiness is not in the interest")?;
            }
            IoEvent::Detached(_) => unreachable!("checked above"),
        }
        Ok(())
    }

    fn check_stage(&mut self, event: &IoEvent) -> Result<(), &'static str> {
        let stage = match event {
            IoEvent::Connected(_) => CheckedRound::Connected,
            IoEvent::Wrote(..) => CheckedRound::Wrote,
            IoEvent::Read(..)
            | IoEvent::Datagram(..)
            | IoEvent::AncillaryMessage(..)
            | IoEvent::Accepted(..) => CheckedRound::Reading,
            IoEvent::ReadComplete(_) | IoEvent::LastRead(..) => CheckedRound::ReadComplete,
            IoEvent::Eof(_) | IoEvent::PeerFinished(_) => CheckedRound::Eof,
            IoEvent::AcceptFailed(..)
            | IoEvent::ReceiveFailed(..)
            | IoEvent::Failed(..)
            | IoEvent::Foreign(..)
            | IoEvent::Detached(_) => CheckedRound::Failed,
        };
        let again = stage == CheckedRound::Reading && self.stage == CheckedRound::Reading;
        ensure(stage > self.stage || again, "out of order, or twice in one round")?;
        self.stage = stage;
        Ok(())
    }

    fn check_read(&mut self) -> Result<ReadPlan, &'static str> {
        let plan = self.reads.ok_or("reads are off")?;
        self.reads_in_round += 1;
        ensure(self.reads_in_round <= plan.max_reads, "more reads than planned")?;
        Ok(plan)
    }
}

fn is_in_interest(ready: Readiness, interest: Interest) -> bool {
    let bits = [
        (Readiness::READABLE, Interest::READABLE),
        (Readiness::WRITABLE, Interest::WRITABLE),
        (Readiness::PRIORITY, Interest::PRIORITY),
    ];
    bits.iter().all(|(bit, wanted)| !ready.contains(*bit) || interest.contains(*wanted))
}

fn ensure(holds: bool, broken_rule: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(broken_rule) }
}
