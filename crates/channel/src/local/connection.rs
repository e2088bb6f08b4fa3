//! The transport of one end of a local connection.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem;
use std::net::Shutdown;
use std::sync::Arc;

use waterwheel_executor::engine::run_user_code;
use waterwheel_executor::{Error, Origin, UserCode};

use super::error::{LocalError, name_of};
use super::message_queue::{MessageQueue, QueueRoom, QueuedMessage};
use super::name_registry::LocalPort;
use super::read_rounds::ReadRounds;
use crate::address::{Address, ConnectTarget};
use crate::base::queue_capacity::shrink_if_empty;
use crate::channel::transport::{
    ConnectProgress, Outbound, Transport, TransportContext, TransportEvent, unsupported,
};
use crate::driver::{Detach, ReadPlan, Submit};
use crate::pipeline::Types;

/// One end of a connection within the process: a client to be connected, or either end of a connection.
/// Messages of any type are passed from one end to the other.
pub struct Connection {
    /// `None` until this end is connected.
    end: Option<ConnectionEnd>,
    rounds: ReadRounds,
}

struct ConnectionEnd {
    from_peer: Arc<MessageQueue>,
    to_peer: Arc<MessageQueue>,
    local: Option<Address>,
    peer: Option<Address>,
    /// True if a write found no room and waits to be resumed.
    is_blocked: bool,
    /// True if the end of the peer's stream was reported, or need not be reported.
    is_peer_end_reported: bool,
    is_closed: bool,
    /// Messages on their way from the channel to the queue. Empty except during a write, or if the peer was
    /// gone.
    staged: VecDeque<QueuedMessage>,
    /// Messages that were never read, kept until the transport is dropped: while the channel closes the transport,
    /// the transport is borrowed, and the destructor of a message may call the channel.
    unread: VecDeque<QueuedMessage>,
}

impl Connection {
    /// Creates a client to be connected, to the [`Address::local`] of a server.
    #[must_use]
    pub fn new() -> Self {
        Self { end: None, rounds: ReadRounds::default() }
    }

    /// Creates two ends that are connected with each other.
    #[must_use]
    pub fn pair() -> (Self, Self) {
        let (one, other) = ConnectionEnd::pair();
        (Self::connected(one), Self::connected(other))
    }

    fn connected(end: ConnectionEnd) -> Self {
        Self { end: Some(end), rounds: ReadRounds::default() }
    }

    /// Closes the connection without dropping unread messages.
    pub(super) fn close_end(&mut self) {
        if let Some(end) = &mut self.end {
            end.close_end();
        }
    }
}

impl Default for Connection {
    fn default() -> Self {
        Self::new()
    }
}

impl ConnectionEnd {
    fn pair() -> (Self, Self) {
        let (there, back) = (Arc::<MessageQueue>::default(), Arc::<MessageQueue>::default());
        let one = Self::new(back.clone(), there.clone());
        (one, Self::new(there, back))
    }

    fn new(from_peer: Arc<MessageQueue>, to_peer: Arc<MessageQueue>) -> Self {
        Self {
            from_peer,
            to_peer,
            local: None,
            peer: None,
            is_blocked: false,
            is_peer_end_reported: false,
            is_closed: false,
            staged: VecDeque::new(),
            unread: VecDeque::new(),
        }
    }

    fn attach(&self, context: &TransportContext) {
        self.from_peer.set_reader(context.waker());
        self.to_peer.set_writer(context.waker());
    }

    fn write(&mut self, outbound: &mut Outbound) -> io::Result<Submit> {
        let mut taken = 0;
        loop {
            let mut fill = match self.to_peer.room() {
                QueueRoom::Closed => return Err(LocalError::PeerClosed.into()),
                // The next call returns `Full` if there is still no room.
                QueueRoom::Full if taken > 0 => return Ok(Submit::Done(taken)),
                QueueRoom::Full => {
                    self.is_blocked = true;
                    return Ok(Submit::Full);
                }
                QueueRoom::Available(fill) => fill,
            };
            while !fill.is_full()
                && let Some((msg, size)) = outbound.take_with_size()
            {
                let queued = QueuedMessage::new(msg, size);
                fill.add(&queued);
                self.staged.push_back(queued);
                taken += 1;
            }
            if !self.to_peer.push(&mut self.staged) {
                return Err(LocalError::PeerClosed.into());
            }
            shrink_if_empty(&mut self.staged);
            if outbound.is_empty() {
                return Ok(Submit::Done(taken));
            }
        }
    }

    /// True if a blocked write can be resumed: there is room, or the peer is gone, and then the write fails. While
    /// reading is on, the messages of a peer that is gone are read first.
    fn can_resume_write(&mut self, reads: bool) -> bool {
        let can_resume_write = self.is_blocked
            && match self.to_peer.room_to_resume() {
                QueueRoom::Closed => !reads,
                QueueRoom::Full => false,
                QueueRoom::Available(_) => true,
            };
        self.is_blocked &= !can_resume_write;
        can_resume_write
    }

    /// True if the end of the peer's stream has to be reported, although reading is off.
    fn must_report_peer_end(&self) -> bool {
        !self.is_peer_end_reported && !self.is_closed && self.from_peer.is_finished()
    }

    /// Closes this end. Finishes the written direction first: a peer that finds this end's reader gone finds the end
    /// of the stream too.
    fn close_end(&mut self) {
        if !mem::replace(&mut self.is_closed, true) {
            self.to_peer.finish();
            self.unread = self.from_peer.stop_reading();
        }
    }
}

impl Drop for ConnectionEnd {
    fn drop(&mut self) {
        self.close_end();
        for queued in self.unread.drain(..).chain(self.staged.drain(..)) {
            // Messages are dropped one by one: a destructor that panics does not leak the others.
            let origin = Origin::labelled("message of a local connection");
            let _ = run_user_code(UserCode::Destructor, origin, || drop(queued));
        }
    }
}

impl Transport for Connection {
    fn name(&self) -> &'static str {
        "local"
    }

    fn reads(&self) -> Types {
        Types::Unknown
    }

    fn accepts(&self) -> Types {
        Types::Unknown
    }

    fn writes_stream(&self) -> bool {
        false
    }

    fn register(&mut self, context: &TransportContext) -> Result<bool, Error> {
        let Some(end) = &mut self.end else { return Ok(false) };
        end.is_peer_end_reported = false;
        end.attach(context);
        context.wake(); // Events may have occurred while the end was deregistered.
        Ok(true)
    }

    fn deregister(&mut self, _: &TransportContext) -> Result<(), Error> {
        self.rounds.abort_round();
        if let Some(end) = &self.end {
            end.from_peer.set_reader(None);
            end.to_peer.set_writer(None);
        }
        Ok(())
    }

    fn connect(
        &mut self,
        context: &TransportContext,
        to: &ConnectTarget,
    ) -> Result<ConnectProgress, Error> {
        if self.end.is_some() {
            return Err(unsupported(self.name(), "be connected twice"));
        }
        let from = to.local.clone().map(name_of).transpose()?.map(Address::Local);
        let name = name_of(to.remote.clone())?;
        let port = LocalPort::find(&name)?;
        let (mut client, mut server) = ConnectionEnd::pair();
        (server.local, server.peer) = (Some(Address::Local(name)), from);
        (client.local, client.peer) = (server.peer.clone(), server.local.clone());
        client.attach(context);
        port.enqueue(Connection::connected(server))?;
        self.end = Some(client);
        Ok(ConnectProgress::Done)
    }

    fn set_read(&mut self, context: &TransportContext, plan: Option<ReadPlan>) {
        self.rounds.set(context, plan);
        // While reading is off, no read finds the end of the peer's stream.
        if !self.rounds.is_on()
            && self.end.as_ref().is_some_and(|end| end.is_blocked || end.must_report_peer_end())
        {
            context.wake();
        }
    }

    fn write(&mut self, _: &TransportContext, outbound: &mut Outbound) -> io::Result<Submit> {
        match &mut self.end {
            Some(end) => end.write(outbound),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Shutting down the read direction does nothing: a queue that is not emptied blocks the peer, as a socket
    /// does.
    fn shutdown(&mut self, _: &TransportContext, how: Shutdown) -> Result<(), Error> {
        match &self.end {
            Some(end) if how != Shutdown::Read => end.to_peer.finish(),
            Some(_) => {}
            None => return Err(unsupported(self.name(), "be shut down before it is connected")),
        }
        Ok(())
    }

    fn next_event(&mut self, _: &TransportContext) -> Option<TransportEvent> {
        let end = self.end.as_mut().filter(|end| !end.is_closed)?;
        if end.can_resume_write(self.rounds.is_on()) {
            return Some(TransportEvent::Wrote(0));
        }
        let next = self.rounds.next(|| end.from_peer.take());
        match next {
            Some(TransportEvent::Eof) => end.is_peer_end_reported = true,
            None if !self.rounds.is_on() && end.must_report_peer_end() => {
                end.is_peer_end_reported = true;
                return Some(TransportEvent::PeerFinished);
            }
            _ => {}
        }
        next
    }

    fn has_more(&self) -> bool {
        self.rounds.is_on() && self.end.as_ref().is_some_and(|end| end.from_peer.has_messages())
    }

    fn close(&mut self, _: &TransportContext) -> Detach {
        self.close_end();
        Detach::Done
    }

    fn local_address(&self) -> Option<Address> {
        self.end.as_ref().and_then(|end| end.local.clone())
    }

    fn peer_address(&self) -> Option<Address> {
        self.end.as_ref().and_then(|end| end.peer.clone())
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.end {
            Some(end) => write!(f, "Connection({:?} to {:?})", end.local, end.peer),
            None => f.write_str("Connection(unconnected)"),
        }
    }
}
