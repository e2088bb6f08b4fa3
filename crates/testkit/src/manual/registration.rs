//! The state of one registration of a manual driver, and its events in a round.
//!
//! In a round a registration passes its stages once, from left to right. The stages give the order of its events
//! and make the round finite.
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

use super::CompletionMode;
use super::datagram_network::DatagramEnd;
use super::foreign::ForeignEnd;
use super::listener::ListenerEnd;
use super::stream::StreamEnd;

pub(super) struct ManualRegistration {
    pub(super) source: RegistrationSource,
    token: Token,
    mode: CompletionMode,
    stage: ManualRound,
    /// The read plan while reading or accepting is on.
    pub(super) reads: Option<ReadPlan>,
    connecting: bool,
    writing: Option<PendingWrite>,
    /// True if a round of reads reached the end of file. Reads may have been turned off before `Eof` was delivered.
    end_found: bool,
    /// True once `Eof` has been delivered.
    ended: bool,
    /// True once `PeerFinished` has been delivered, or is not needed.
    pub(super) finish_reported: bool,
    /// The error of a `Failed` or `AcceptFailed` event, to be delivered last in the round.
    failure: Option<io::Error>,
    /// True if the stream has failed: no event follows.
    broken: bool,
    /// True if `Detached` is the only event that may still be delivered.
    pub(super) detaching: bool,
}

pub(super) enum RegistrationSource {
    Stream(StreamEnd),
    Listener(ListenerEnd),
    Datagrams(DatagramEnd),
    Foreign(ForeignEnd, Interest),
}

/// A pending write.
enum PendingWrite {
    /// The write waits for room; then the caller repeats the write.
    Room,
    /// The write is in flight with these chunks.
    Chunks(Vec<Bytes>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ManualRound {
    Idle,
    Connect,
    Write,
    Read { left: u32 },
    Complete,
    End,
    Fail,
}

impl ManualRegistration {
    pub(super) fn new(
        token: Token,
        source: RegistrationSource,
        mode: CompletionMode,
        connecting: bool,
    ) -> Self {
        Self {
            source,
            token,
            mode,
            stage: ManualRound::Idle,
            reads: None,
            connecting,
            writing: None,
            end_found: false,
            ended: false,
            finish_reported: false,
            failure: None,
            broken: false,
            detaching: false,
        }
    }

    /// True if a pending write can complete now.
    fn can_finish_write(&self, stream: &StreamEnd) -> bool {
        match self.writing {
            None => false,
            Some(PendingWrite::Room) => stream.is_writable(),
            Some(PendingWrite::Chunks(_)) => true,
        }
    }

    /// True if a new round would have an event.
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
                self.can_finish_write(stream)
                    || self.is_readable()
                    || stream.is_reset()
                    || self.must_report_finish()
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

    /// True if this round has an event left.
    pub(super) fn has_more(&self) -> bool {
        match self.stage {
            ManualRound::Idle => false,
            _ if self.detaching => true,
            _ if self.broken => false,
            ManualRound::Connect | ManualRound::Write => self.is_ready(),
            ManualRound::Read { .. } | ManualRound::Complete => true,
            ManualRound::End => self.is_at_end() || self.must_report_finish() || self.has_failed(),
            ManualRound::Fail => self.has_failed(),
        }
    }

    pub(super) fn is_in_round(&self) -> bool {
        self.stage != ManualRound::Idle
    }

    pub(super) fn begin_round(&mut self) {
        self.stage = ManualRound::Connect;
    }

    pub(super) fn end_round(&mut self) {
        self.stage = ManualRound::Idle;
    }

    /// Stops all events; the next round delivers `Detached`.
    pub(super) fn begin_detach(&mut self) {
        self.stage = ManualRound::Idle;
        self.detaching = true;
    }

    /// Returns the next event of this round. The driver delivers `Detached` itself, after it has dropped the
    /// registration.
    pub(super) fn next_event(&mut self) -> Option<IoEvent> {
        loop {
            let (next, event) = match self.stage {
                ManualRound::Idle => return None,
                _ if self.broken => (ManualRound::Idle, None),
                ManualRound::Connect => self.connect_event(),
                ManualRound::Write => (self.after_write(), self.write_event()),
                ManualRound::Read { left } => self.read_event(left),
                ManualRound::Complete => {
                    (ManualRound::End, Some(IoEvent::ReadComplete(self.token)))
                }
                ManualRound::End => (ManualRound::Fail, self.end_event()),
                ManualRound::Fail => (ManualRound::Idle, self.failure_event()),
            };
            self.stage = next;
            if event.is_some() {
                return event;
            }
        }
    }

    fn connect_event(&mut self) -> (ManualRound, Option<IoEvent>) {
        let RegistrationSource::Stream(stream) = &self.source else {
            return (ManualRound::Write, None);
        };
        if !self.connecting {
            return (ManualRound::Write, None);
        }
        match stream.finish_connect() {
            None => (ManualRound::Idle, None),
            Some(Ok(())) => {
                self.connecting = false;
                (ManualRound::Write, Some(IoEvent::Connected(self.token)))
            }
            Some(Err(refused)) => {
                self.failure = Some(refused);
                (ManualRound::Fail, None)
            }
        }
    }

    fn after_write(&self) -> ManualRound {
        match self.reads {
            Some(_) if self.end_found => ManualRound::End,
            Some(plan) if self.is_readable() => ManualRound::Read { left: plan.max_reads },
            None if self.must_report_finish() => ManualRound::End,
            _ => ManualRound::Fail,
        }
    }

    fn write_event(&mut self) -> Option<IoEvent> {
        if let RegistrationSource::Datagrams(end) = &self.source {
            let room = self.writing.take_if(|_| end.may_send());
            return room.map(|_| IoEvent::Wrote(self.token, 0));
        }
        let RegistrationSource::Stream(stream) = &self.source else { return None };
        if !self.can_finish_write(stream) || stream.is_reset() {
            return None;
        }
        let sent = match self.writing.take()? {
            // Sends nothing, but fails here if the repeated write would fail.
            PendingWrite::Room => stream.send(std::iter::empty()),
            PendingWrite::Chunks(chunks) => stream.send(chunks.iter()),
        };
        sent.map_err(|error| self.failure = Some(error)).ok().map(|n| IoEvent::Wrote(self.token, n))
    }

    fn read_event(&mut self, left: u32) -> (ManualRound, Option<IoEvent>) {
        let Some(plan) = self.reads.filter(|_| left > 0) else {
            return (ManualRound::Complete, None);
        };
        let event = match &self.source {
            RegistrationSource::Stream(stream) => match stream.read(plan.size) {
                Some(bytes) if self.is_last_read(stream, left) => {
                    return (ManualRound::Idle, Some(IoEvent::LastRead(self.token, bytes)));
                }
                read => read.map(|bytes| IoEvent::Read(self.token, bytes)),
            },
            RegistrationSource::Listener(listener) => match listener.accept() {
                Some(Ok((end, address))) => {
                    Some(IoEvent::Accepted(self.token, Io::new(end), address.into()))
                }
                // The peer aborted before the accept (ECONNABORTED): the next accept is tried.
                Some(Err(gone)) if gone.kind() == io::ErrorKind::ConnectionAborted => {
                    return (ManualRound::Read { left: left - 1 }, None);
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
            Some(event) => (ManualRound::Read { left: left - 1 }, Some(event)),
            None => {
                self.end_found = self.is_at_end();
                (ManualRound::Complete, None)
            }
        }
    }

    /// True if a readiness driver knows after this read that the round has no further event.
    fn is_last_read(&self, stream: &StreamEnd, left: u32) -> bool {
        let is_over = left == 1 || !stream.has_input();
        let has_more_events = self.is_at_end() || stream.is_reset() || self.failure.is_some();
        self.mode == CompletionMode::Readiness && is_over && !has_more_events
    }

    fn end_event(&mut self) -> Option<IoEvent> {
        if self.must_report_finish() {
            self.finish_reported = true;
            return Some(IoEvent::PeerFinished(self.token));
        }
        if !self.is_at_end() {
            return None;
        }
        self.ended = true;
        Some(IoEvent::Eof(self.token))
    }

    fn failure_event(&mut self) -> Option<IoEvent> {
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
                RegistrationSource::Listener(listener) => listener.has_backlog(),
                RegistrationSource::Datagrams(end) => end.has_input(),
                RegistrationSource::Foreign(..) => false,
            }
    }

    /// True if `Eof` has to be delivered.
    fn is_at_end(&self) -> bool {
        match &self.source {
            RegistrationSource::Stream(stream) => {
                self.reads.is_some() && !self.ended && !self.broken && stream.is_at_end()
            }
            _ => false,
        }
    }

    /// True if the peer has finished and `PeerFinished` has to be delivered, because reads are off.
    fn must_report_finish(&self) -> bool {
        match &self.source {
            RegistrationSource::Stream(stream) => {
                let is_not_reading = self.reads.is_none() && !self.connecting && !self.broken;
                is_not_reading && !self.ended && !self.finish_reported && stream.has_peer_finished()
            }
            _ => false,
        }
    }

    fn has_failed(&self) -> bool {
        let of_source = match &self.source {
            RegistrationSource::Stream(stream) => stream.is_reset(),
            RegistrationSource::Listener(_) => false,
            // The error waits until reads are on.
            RegistrationSource::Datagrams(end) => self.reads.is_some() && end.has_error(),
            RegistrationSource::Foreign(foreign, interest) => {
                foreign.is_failed() || !foreign.ready(*interest).is_empty()
            }
        };
        self.failure.is_some() || of_source && !self.broken
    }

    /// Starts a write.
    pub(super) fn write(&mut self, queue: &OutQueue) -> io::Result<Submit> {
        if self.writing.is_some() {
            return Err(super::driver::invalid_input(
                "a write is pending; its Wrote event must come first",
            ));
        }
        let stream = self.connected_stream()?;
        if queue.is_empty() {
            return Err(super::driver::invalid_input(
                "the queue is empty: there is nothing to write",
            ));
        }
        if self.mode == CompletionMode::Completion && stream.is_writable() {
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

    /// Sends datagrams of the batch, in order, as long as there is room.
    pub(super) fn send_datagrams(
        &mut self,
        batch: &mut dyn Iterator<Item = &Datagram>,
    ) -> io::Result<Submit> {
        if self.writing.is_some() {
            return Err(super::driver::invalid_input(
                "a write is pending; its Wrote event must come first",
            ));
        }
        let RegistrationSource::Datagrams(end) = &self.source else {
            return Err(super::driver::invalid_input("the registration is not a datagram socket"));
        };
        let mut sent = 0;
        for datagram in batch {
            match end.send(datagram) {
                Ok(true) => sent += 1,
                Err(error) if sent == 0 => return Err(error),
                Ok(false) | Err(_) => break, // The caller sends the rest in the next batch.
            }
        }
        if sent == 0 {
            self.writing = Some(PendingWrite::Room);
            return Ok(Submit::Full);
        }
        Ok(Submit::Done(sent))
    }

    /// Checks that the socket can be released: no operation is in flight but reads, which end at once.
    pub(super) fn check_may_release(&self) -> io::Result<()> {
        match &self.source {
            RegistrationSource::Foreign(..) => {
                Err(super::driver::invalid_input("a foreign source cannot be released"))
            }
            _ if self.connecting => Err(super::driver::invalid_input("a connect is in flight")),
            _ => match self.writing {
                Some(PendingWrite::Chunks(_)) => {
                    Err(super::driver::invalid_input("a write is in flight"))
                }
                Some(PendingWrite::Room) | None => Ok(()),
            },
        }
    }

    /// Returns the stream if it can be written to or shut down.
    pub(super) fn connected_stream(&self) -> io::Result<&StreamEnd> {
        match &self.source {
            RegistrationSource::Stream(_) if self.connecting || self.broken => {
                Err(io::ErrorKind::NotConnected.into())
            }
            RegistrationSource::Stream(stream) => Ok(stream),
            _ => Err(super::driver::invalid_input("the registration is not a stream")),
        }
    }

    /// True if a completion driver has an operation of this registration in flight.
    pub(super) fn is_in_flight(&self) -> bool {
        let reading = self.reads.is_some() && !self.ended;
        let foreign = matches!(self.source, RegistrationSource::Foreign(..));
        let pending = reading || self.connecting || self.writing.is_some() || foreign;
        self.mode == CompletionMode::Completion && pending && !self.broken
    }
}
