//! What a manual driver knows of one registration, and what it has to say in a round.
//!
//! In a round a registration goes through its stages once, from left to right: that is the order of
//! its events, and why a round is finite.
//!
//! ```text
//!   Idle ─begin─► Connect ──► Write ──► Read{left} ──► Complete ──► End ──► Fail ──► Idle
//!                 Connected   Wrote     Read,          Read-        Eof     Failed, AcceptFailed,
//!                                       Accepted       Complete     Peer-   Foreign
//!                                                                   Finished
//!                               └──── nothing to read ───────────────────────►
//! ```

use std::io;

use bytes::Bytes;
use waterwheel_channel::driver::{Interest, Io, IoEvent, OutQueue, ReadPlan, Submit};
use waterwheel_channel::{Datagram, Token};

use super::Mode;
use super::datagram_network::DatagramEnd;
use super::foreign::ForeignEnd;
use super::listener::ListenerEnd;
use super::stream::StreamEnd;

pub(super) struct Registration {
    pub(super) source: RegistrationSource,
    token: Token,
    mode: Mode,
    stage: RoundStage,
    /// Reading, or accepting, is on.
    pub(super) reads: Option<ReadPlan>,
    connecting: bool,
    writing: Option<PendingWrite>,
    /// A round of reads came to the end. Reads may have gone off before that could be told.
    end_found: bool,
    /// `Eof` has been given out.
    ended: bool,
    /// `PeerFinished` has been given out, or need not be.
    pub(super) finish_told: bool,
    /// `Failed` is still to be given out, last in the round.
    failure: Option<io::Error>,
    /// Nothing more is to be said.
    broken: bool,
    /// `Detached` is to be said, and nothing else.
    pub(super) detaching: bool,
}

pub(super) enum RegistrationSource {
    Stream(StreamEnd),
    Listener(ListenerEnd),
    Datagrams(DatagramEnd),
    Foreign(ForeignEnd, Interest),
}

/// A write that is pending.
enum PendingWrite {
    /// Until there is room; then it is repeated.
    Room,
    /// Under way with these chunks.
    Chunks(Vec<Bytes>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RoundStage {
    Idle,
    Connect,
    Write,
    Read { left: u32 },
    Complete,
    End,
    Fail,
}

impl Registration {
    pub(super) fn new(
        token: Token,
        source: RegistrationSource,
        mode: Mode,
        connecting: bool,
    ) -> Self {
        Self {
            source,
            token,
            mode,
            stage: RoundStage::Idle,
            reads: None,
            connecting,
            writing: None,
            end_found: false,
            ended: false,
            finish_told: false,
            failure: None,
            broken: false,
            detaching: false,
        }
    }

    /// Whether there is room, or the write under way ends without.
    fn write_may_end(&self, stream: &StreamEnd) -> bool {
        match self.writing {
            None => false,
            Some(PendingWrite::Room) => stream.is_writable(),
            Some(PendingWrite::Chunks(_)) => true,
        }
    }

    /// Whether a new round would have something to say.
    pub(super) fn is_ready(&self) -> bool {
        if self.detaching {
            return true;
        }
        if self.broken {
            return false;
        }
        match &self.source {
            RegistrationSource::Stream(stream) if self.connecting => stream.is_answered(),
            RegistrationSource::Stream(stream) => {
                self.write_may_end(stream)
                    || self.is_readable()
                    || stream.is_reset()
                    || self.has_finish_to_tell()
            }
            RegistrationSource::Listener(_) => self.is_readable(),
            RegistrationSource::Datagrams(end) => {
                self.writing.is_some() && end.may_send() || self.is_readable() || self.has_failed()
            }
            RegistrationSource::Foreign(foreign, interest) => {
                foreign.is_failed() || !foreign.ready(*interest).is_empty()
            }
        }
    }

    /// Whether this round has something left to say.
    pub(super) fn has_more(&self) -> bool {
        match self.stage {
            RoundStage::Idle => false,
            _ if self.detaching => true,
            _ if self.broken => false,
            RoundStage::Connect | RoundStage::Write => self.is_ready(),
            RoundStage::Read { .. } | RoundStage::Complete => true,
            RoundStage::End => self.is_at_end() || self.has_finish_to_tell() || self.has_failed(),
            RoundStage::Fail => self.has_failed(),
        }
    }

    pub(super) fn is_in_round(&self) -> bool {
        self.stage != RoundStage::Idle
    }

    pub(super) fn begin_round(&mut self) {
        self.stage = RoundStage::Connect;
    }

    pub(super) fn end_round(&mut self) {
        self.stage = RoundStage::Idle;
    }

    /// From now on it says nothing, and in the next round that it is gone.
    pub(super) fn begin_detach(&mut self) {
        self.stage = RoundStage::Idle;
        self.detaching = true;
    }

    /// The next thing it says in this round. That it is detached says the driver, who drops it first.
    pub(super) fn next_event(&mut self) -> Option<IoEvent> {
        loop {
            let (next, event) = match self.stage {
                RoundStage::Idle => return None,
                _ if self.broken => (RoundStage::Idle, None),
                RoundStage::Connect => self.connect(),
                RoundStage::Write => (self.after_write(), self.finish_write()),
                RoundStage::Read { left } => self.read(left),
                RoundStage::Complete => (RoundStage::End, Some(IoEvent::ReadComplete(self.token))),
                RoundStage::End => (RoundStage::Fail, self.end()),
                RoundStage::Fail => (RoundStage::Idle, self.fail()),
            };
            self.stage = next;
            if event.is_some() {
                return event;
            }
        }
    }

    fn connect(&mut self) -> (RoundStage, Option<IoEvent>) {
        let RegistrationSource::Stream(stream) = &self.source else {
            return (RoundStage::Write, None);
        };
        if !self.connecting {
            return (RoundStage::Write, None);
        }
        match stream.finish_connect() {
            None => (RoundStage::Idle, None),
            Some(Ok(())) => {
                self.connecting = false;
                (RoundStage::Write, Some(IoEvent::Connected(self.token)))
            }
            Some(Err(refused)) => {
                self.failure = Some(refused);
                (RoundStage::Fail, None)
            }
        }
    }

    fn after_write(&self) -> RoundStage {
        match self.reads {
            Some(_) if self.end_found => RoundStage::End,
            Some(plan) if self.is_readable() => RoundStage::Read { left: plan.max_reads },
            None if self.has_finish_to_tell() => RoundStage::End,
            _ => RoundStage::Fail,
        }
    }

    fn finish_write(&mut self) -> Option<IoEvent> {
        if let RegistrationSource::Datagrams(end) = &self.source {
            let room = self.writing.take_if(|_| end.may_send());
            return room.map(|_| IoEvent::Wrote(self.token, 0));
        }
        let RegistrationSource::Stream(stream) = &self.source else { return None };
        if !self.write_may_end(stream) || stream.is_reset() {
            return None;
        }
        let sent = match self.writing.take()? {
            // Nothing is sent: it fails here if it would fail when it is repeated.
            PendingWrite::Room => stream.send(std::iter::empty()),
            PendingWrite::Chunks(chunks) => stream.send(chunks.iter()),
        };
        sent.map_err(|error| self.failure = Some(error)).ok().map(|n| IoEvent::Wrote(self.token, n))
    }

    fn read(&mut self, left: u32) -> (RoundStage, Option<IoEvent>) {
        let Some(plan) = self.reads.filter(|_| left > 0) else {
            return (RoundStage::Complete, None);
        };
        let event = match &self.source {
            RegistrationSource::Stream(stream) => match stream.read(plan.size) {
                Some(bytes) if self.is_last_read(stream, left) => {
                    return (RoundStage::Idle, Some(IoEvent::LastRead(self.token, bytes)));
                }
                read => read.map(|bytes| IoEvent::Read(self.token, bytes)),
            },
            RegistrationSource::Listener(listener) => match listener.accept() {
                Some(Ok((end, address))) => {
                    Some(IoEvent::Accepted(self.token, Io::new(end), address.into()))
                }
                // It was gone before it was accepted: the next one is tried.
                Some(Err(gone)) if gone.kind() == io::ErrorKind::ConnectionAborted => {
                    return (RoundStage::Read { left: left - 1 }, None);
                }
                Some(Err(error)) => {
                    self.failure = Some(error);
                    None
                }
                None => None,
            },
            RegistrationSource::Datagrams(end) => {
                let received = end.receive(plan.size);
                received.map(|datagram| IoEvent::Datagram(self.token, Box::new(datagram)))
            }
            RegistrationSource::Foreign(..) => None,
        };
        match event {
            Some(event) => (RoundStage::Read { left: left - 1 }, Some(event)),
            None => {
                self.end_found = self.is_at_end();
                (RoundStage::Complete, None)
            }
        }
    }

    /// True if a readiness driver knows by this read that its round is over, and has nothing else to say in it.
    fn is_last_read(&self, stream: &StreamEnd, left: u32) -> bool {
        let is_over = left == 1 || !stream.has_input();
        let says_more = self.is_at_end() || stream.is_reset() || self.failure.is_some();
        self.mode == Mode::Readiness && is_over && !says_more
    }

    fn end(&mut self) -> Option<IoEvent> {
        if self.has_finish_to_tell() {
            self.finish_told = true;
            return Some(IoEvent::PeerFinished(self.token));
        }
        if !self.is_at_end() {
            return None;
        }
        self.ended = true;
        Some(IoEvent::Eof(self.token))
    }

    fn fail(&mut self) -> Option<IoEvent> {
        let error = match &self.source {
            RegistrationSource::Listener(_) => self.failure.take()?,
            RegistrationSource::Datagrams(end) => {
                let error = self.reads.and_then(|_| end.take_error())?;
                return Some(IoEvent::ReceiveFailed(self.token, error));
            }
            RegistrationSource::Stream(stream) => {
                self.failure.take().or_else(|| stream.take_error())?
            }
            RegistrationSource::Foreign(foreign, interest) => match foreign.take_failure() {
                Some(error) => error,
                None => {
                    let ready = foreign.ready(*interest);
                    return (!ready.is_empty()).then_some(IoEvent::Foreign(self.token, ready));
                }
            },
        };
        if let RegistrationSource::Listener(_) = self.source {
            return Some(IoEvent::AcceptFailed(self.token, error));
        }
        self.broken = true;
        Some(IoEvent::Failed(self.token, error))
    }

    fn is_readable(&self) -> bool {
        self.reads.is_some()
            && match &self.source {
                RegistrationSource::Stream(stream) => stream.has_input() || self.is_at_end(),
                RegistrationSource::Listener(listener) => listener.has_arrivals(),
                RegistrationSource::Datagrams(end) => end.has_input(),
                RegistrationSource::Foreign(..) => false,
            }
    }

    /// Whether the end is to be told.
    fn is_at_end(&self) -> bool {
        match &self.source {
            RegistrationSource::Stream(stream) => {
                self.reads.is_some() && !self.ended && !self.broken && stream.is_at_end()
            }
            _ => false,
        }
    }

    /// Whether the peer has finished, and that is to be told to one who does not read.
    fn has_finish_to_tell(&self) -> bool {
        match &self.source {
            RegistrationSource::Stream(stream) => {
                let is_silent = self.reads.is_none() && !self.connecting && !self.broken;
                is_silent && !self.ended && !self.finish_told && stream.has_finished()
            }
            _ => false,
        }
    }

    fn has_failed(&self) -> bool {
        let of_source = match &self.source {
            RegistrationSource::Stream(stream) => stream.is_reset(),
            RegistrationSource::Listener(_) => false,
            // It waits for the next read.
            RegistrationSource::Datagrams(end) => self.reads.is_some() && end.has_error(),
            RegistrationSource::Foreign(foreign, interest) => {
                foreign.is_failed() || !foreign.ready(*interest).is_empty()
            }
        };
        self.failure.is_some() || of_source && !self.broken
    }

    /// Begins a write.
    pub(super) fn write(&mut self, queue: &OutQueue) -> io::Result<Submit> {
        if self.writing.is_some() {
            return Err(super::driver::invalid("a write is pending, its end must come first"));
        }
        let stream = self.connected_stream()?;
        if queue.is_empty() {
            return Err(super::driver::invalid("there is nothing to write"));
        }
        if self.mode == Mode::Completion && stream.is_writable() {
            self.writing = Some(PendingWrite::Chunks(queue.chunks().cloned().collect()));
            return Ok(Submit::Pending);
        }
        let sent = stream.send(queue.chunks()).inspect_err(|_| self.broken = true)?;
        if sent == 0 {
            self.writing = Some(PendingWrite::Room);
            return Ok(Submit::Full);
        }
        Ok(Submit::Done(sent))
    }

    /// Sends the first of these, as many as there is room for.
    pub(super) fn send_datagrams(
        &mut self,
        batch: &mut dyn Iterator<Item = &Datagram>,
    ) -> io::Result<Submit> {
        if self.writing.is_some() {
            return Err(super::driver::invalid("a write is pending, its end must come first"));
        }
        let RegistrationSource::Datagrams(end) = &self.source else {
            return Err(super::driver::invalid("it is no socket for datagrams"));
        };
        let mut sent = 0;
        for datagram in batch {
            match end.send(datagram) {
                Ok(true) => sent += 1,
                Err(error) if sent == 0 => return Err(error),
                Ok(false) | Err(_) => break, // The first of the next batch.
            }
        }
        if sent == 0 {
            self.writing = Some(PendingWrite::Room);
            return Ok(Submit::Full);
        }
        Ok(Submit::Done(sent))
    }

    /// Whether it can be given back: nothing of it is with the kernel but its reads, which end at once.
    pub(super) fn may_be_released(&self) -> io::Result<()> {
        match &self.source {
            RegistrationSource::Foreign(..) => Err(super::driver::invalid("it is no socket")),
            _ if self.connecting => Err(super::driver::invalid("it is being connected")),
            _ => match self.writing {
                Some(PendingWrite::Chunks(_)) => {
                    Err(super::driver::invalid("a write is under way"))
                }
                Some(PendingWrite::Room) | None => Ok(()),
            },
        }
    }

    /// The stream, if it is one and can be written to or shut down.
    pub(super) fn connected_stream(&self) -> io::Result<&StreamEnd> {
        match &self.source {
            RegistrationSource::Stream(_) if self.connecting || self.broken => {
                Err(io::ErrorKind::NotConnected.into())
            }
            RegistrationSource::Stream(stream) => Ok(stream),
            _ => Err(super::driver::invalid("it is no stream")),
        }
    }

    /// Whether a completion driver has given something of it to its kernel.
    pub(super) fn is_in_flight(&self) -> bool {
        let reading = self.reads.is_some() && !self.ended;
        let foreign = matches!(self.source, RegistrationSource::Foreign(..));
        let pending = reading || self.connecting || self.writing.is_some() || foreign;
        self.mode == Mode::Completion && pending && !self.broken
    }
}
