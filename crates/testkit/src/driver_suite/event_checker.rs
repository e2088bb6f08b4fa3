//! What may be said of whom: every event of the suite passes through here.
//!
//! Of each token the checker knows what the suite has asked for; of each round it knows how far each
//! token has come. An event that does not fit is a breach of the contract, and panics with its name.

use waterwheel_channel::driver::{Interest, IoEvent, ReadPlan, Readiness};
use waterwheel_channel::{Slab, Token};

/// All tokens of a bench.
#[derive(Default)]
pub(super) struct EventChecker {
    entries: Slab<RegistrationRecord>,
}

/// What is known of one registration.
pub(super) struct RegistrationRecord {
    kind: RegistrationKind,
    pub(super) reads: Option<ReadPlan>,
    /// A write of so many bytes is pending.
    pub(super) writing: Option<usize>,
    pub(super) detaching: bool,
    ended: bool,
    finished: bool,
    failed: bool,
    /// How far it has come in this round.
    place: RoundStage,
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

/// The places of a round, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RoundStage {
    Before,
    Connected,
    Wrote,
    Reading,
    ReadComplete,
    Eof,
    Failed,
}

impl EventChecker {
    /// A new registration.
    pub(super) fn enter(&mut self, kind: RegistrationKind) -> Token {
        self.entries.insert(RegistrationRecord {
            kind,
            reads: None,
            writing: None,
            detaching: false,
            ended: false,
            finished: false,
            failed: false,
            place: RoundStage::Before,
            reads_in_round: 0,
        })
    }

    pub(super) fn entry(&mut self, token: Token) -> &mut RegistrationRecord {
        self.entries.get_mut(token).expect("the suite asks for what it has attached")
    }

    pub(super) fn change_interest(&mut self, token: Token, interest: Interest) {
        self.entry(token).kind = RegistrationKind::Foreign(interest);
    }

    /// Whether events may come of this token.
    pub(super) fn is_live(&self, token: Token) -> bool {
        self.entries.get(token).is_some_and(|entry| !entry.detaching)
    }

    /// A registration has gone: its index may be used again.
    pub(super) fn leave(&mut self, token: Token) {
        self.entries.remove(token);
    }

    pub(super) fn begin_round(&mut self) {
        for token in self.entries.tokens().collect::<Vec<_>>() {
            let entry = self.entry(token);
            entry.place = RoundStage::Before;
            entry.reads_in_round = 0;
        }
    }

    /// Nothing more is said in this round: whoever read must have completed.
    pub(super) fn end_round(&mut self) {
        for token in self.entries.tokens().collect::<Vec<_>>() {
            let entry = self.entry(token);
            let open = entry.place == RoundStage::Reading && !entry.detaching;
            assert!(!open, "a round of reads of {token:?} ended without ReadComplete");
        }
    }

    /// Takes note of an event, or refuses it.
    pub(super) fn note(&mut self, event: &IoEvent) {
        let token = event.token();
        let Some(entry) = self.entries.get_mut(token) else {
            panic!("{event:?} concerns a registration that is gone");
        };
        if let Err(breach) = entry.note(event) {
            panic!("{event:?}: {breach}");
        }
        if matches!(event, IoEvent::Detached(_)) {
            self.leave(token);
        }
    }
}

impl RegistrationRecord {
    fn note(&mut self, event: &IoEvent) -> Result<(), &'static str> {
        if let IoEvent::Detached(_) = event {
            return ensure(self.detaching, "nobody has detached it");
        }
        ensure(!self.detaching, "it was detached before")?;
        ensure(!self.failed, "it had failed, nothing may follow")?;
        self.note_place(event)?;
        match event {
            IoEvent::Connected(_) => {
                ensure(self.kind == RegistrationKind::Connecting, "it was not connecting")?;
                self.kind = RegistrationKind::Stream;
            }
            IoEvent::Wrote(_, n) => {
                let pending = self.writing.take().ok_or("no write was pending")?;
                ensure(*n <= pending, "more than there was to write")?;
            }
            IoEvent::Read(_, bytes) => {
                ensure(self.kind == RegistrationKind::Stream, "it is no connected stream")?;
                ensure(!bytes.is_empty(), "an empty read")?;
                ensure(!self.ended, "it had ended")?;
                let plan = self.note_read()?;
                ensure(bytes.len() <= plan.size, "a longer read than planned")?;
            }
            IoEvent::Accepted(..) => {
                ensure(self.kind == RegistrationKind::Listener, "it is no listener")?;
                self.note_read()?;
            }
            IoEvent::AncillaryMessage(_, ancillary) => {
                let plan = self.note_read()?;
                ensure(ancillary.bytes.len() <= plan.size, "a longer read than planned")?;
            }
            IoEvent::Datagram(_, datagram) => {
                ensure(self.kind == RegistrationKind::Datagram, "it is no socket for datagrams")?;
                let plan = self.note_read()?;
                ensure(datagram.bytes().len() <= plan.size, "a longer read than planned")?;
            }
            IoEvent::ReceiveFailed(..) => {
                ensure(self.kind == RegistrationKind::Datagram, "it is no socket for datagrams")?;
            }
            IoEvent::ReadComplete(_) => {}
            IoEvent::LastRead(..) => unreachable!("split before it is noted"),
            IoEvent::Eof(_) => {
                ensure(self.reads.is_some(), "reads are off")?;
                ensure(!self.ended, "it had ended already")?;
                self.ended = true;
            }
            IoEvent::PeerFinished(_) => {
                ensure(self.kind == RegistrationKind::Stream, "it is no connected stream")?;
                ensure(self.reads.is_none(), "reads are on")?;
                ensure(!self.ended, "it had ended already")?;
                ensure(!self.finished, "that was told before")?;
                self.finished = true;
            }
            IoEvent::AcceptFailed(..) => {
                ensure(self.kind == RegistrationKind::Listener, "it is no listener")?;
            }
            IoEvent::Failed(..) => self.failed = true,
            IoEvent::Foreign(_, ready) => {
                let RegistrationKind::Foreign(interest) = self.kind else {
                    return Err("it is not foreign");
                };
                ensure(!ready.is_empty(), "ready for nothing")?;
                ensure(is_asked_for(*ready, interest), "nobody is interested in that")?;
            }
            IoEvent::Detached(_) => unreachable!("noted above"),
        }
        Ok(())
    }

    fn note_place(&mut self, event: &IoEvent) -> Result<(), &'static str> {
        let place = match event {
            IoEvent::Connected(_) => RoundStage::Connected,
            IoEvent::Wrote(..) => RoundStage::Wrote,
            IoEvent::Read(..)
            | IoEvent::Datagram(..)
            | IoEvent::AncillaryMessage(..)
            | IoEvent::Accepted(..) => RoundStage::Reading,
            IoEvent::ReadComplete(_) | IoEvent::LastRead(..) => RoundStage::ReadComplete,
            IoEvent::Eof(_) | IoEvent::PeerFinished(_) => RoundStage::Eof,
            IoEvent::AcceptFailed(..)
            | IoEvent::ReceiveFailed(..)
            | IoEvent::Failed(..)
            | IoEvent::Foreign(..)
            | IoEvent::Detached(_) => RoundStage::Failed,
        };
        let again = place == RoundStage::Reading && self.place == RoundStage::Reading;
        ensure(place > self.place || again, "out of order, or twice in one round")?;
        self.place = place;
        Ok(())
    }

    fn note_read(&mut self) -> Result<ReadPlan, &'static str> {
        let plan = self.reads.ok_or("reads are off")?;
        self.reads_in_round += 1;
        ensure(self.reads_in_round <= plan.max_reads, "more reads than planned")?;
        Ok(plan)
    }
}

fn is_asked_for(ready: Readiness, interest: Interest) -> bool {
    let bits = [
        (Readiness::READABLE, Interest::READABLE),
        (Readiness::WRITABLE, Interest::WRITABLE),
        (Readiness::PRIORITY, Interest::PRIORITY),
    ];
    bits.iter().all(|(bit, wanted)| !ready.contains(*bit) || interest.contains(*wanted))
}

fn ensure(holds: bool, breach: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(breach) }
}
