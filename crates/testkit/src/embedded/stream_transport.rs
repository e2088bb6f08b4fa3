//! The transport of an embedded channel: its end of a wire.

use std::io;
use std::net::Shutdown;

use bytes::Bytes;
use waterwheel_channel::driver::{Detach, ReadPlan, Submit};
use waterwheel_channel::transport::{
    ConnectProgress, Outbound, STREAM_TYPES, Transport, TransportContext, TransportEvent,
};
use waterwheel_channel::{Address, ConnectTarget, Msg, Types};
use waterwheel_executor::Error;
use waterwheel_executor::engine::drop_in_turn;

use super::network::EmbeddedNetwork;
use super::wire::Wire;

/// The channel's end of a wire.
pub(super) struct WireTransport {
    wire: Wire,
    unconnected: bool,
    stream: bool,
    /// True if unhandled messages and errors are kept for the test.
    keeps_unhandled: bool,
    /// The wire of the other end; `None` if the other end is the test.
    other: Option<Wire>,
    /// The network in which `connect` finds its server; `None` if every connect succeeds.
    network: Option<EmbeddedNetwork>,
    local: Option<Address>,
    peer: Option<Address>,
}

impl WireTransport {
    /// Creates the transport of an [`Embedded`](super::Embedded) channel.
    pub(super) fn new(wire: Wire, unconnected: bool, stream: bool) -> Self {
        let mut end = Self::to_test(wire);
        (end.unconnected, end.stream, end.keeps_unhandled) = (unconnected, stream, true);
        end
    }

    /// Creates a stream whose other end is the test.
    pub(super) fn to_test(wire: Wire) -> Self {
        Self {
            wire,
            unconnected: false,
            stream: true,
            keeps_unhandled: false,
            other: None,
            network: None,
            local: None,
            peer: None,
        }
    }

    /// Creates a stream that is connected with the channel of another wire.
    pub(super) fn connected(wire: Wire, other: Wire) -> Self {
        let mut end = Self::to_test(wire);
        end.other = Some(other);
        end
    }

    /// Creates an unconnected stream that connects to a server of this network.
    pub(super) fn client(network: EmbeddedNetwork) -> Self {
        let mut end = Self::to_test(Wire::bounded());
        (end.unconnected, end.network) = (true, Some(network));
        end
    }

    /// Sets the addresses.
    pub(super) fn addresses(mut self, local: Address, peer: Option<Address>) -> Self {
        (self.local, self.peer) = (Some(local), peer);
        self
    }

    fn close_wire(&self) {
        if self.wire.close()
            && let Some(other) = &self.other
        {
            other.lose_peer();
        }
    }
}

impl Drop for WireTransport {
    fn drop(&mut self) {
        self.close_wire();
        if self.other.is_some() {
            // The other end also holds this wire and may keep it long after this drop.
            self.wire.take_unread().into_iter().for_each(drop_in_turn);
        }
    }
}

impl Transport for WireTransport {
    fn name(&self) -> &'static str {
        "embedded"
    }

    fn reads(&self) -> Types {
        if self.stream { Types::of::<Bytes>() } else { Types::Unknown }
    }

    fn accepts(&self) -> Types {
        if self.stream { STREAM_TYPES } else { Types::Unknown }
    }

    fn writes_stream(&self) -> bool {
        self.stream
    }

    fn register(&mut self, context: &TransportContext) -> Result<bool, Error> {
        self.wire.attach(context);
        Ok(!self.unconnected)
    }

    fn deregister(&mut self, _: &TransportContext) -> Result<(), Error> {
        self.wire.detach();
        Ok(())
    }

    fn bind(&mut self, _: &TransportContext, _: Address) -> Result<(), Error> {
        self.unconnected = false;
        Ok(())
    }

    fn connect(
        &mut self,
        _: &TransportContext,
        to: &ConnectTarget,
    ) -> Result<ConnectProgress, Error> {
        if let Some(network) = &self.network {
            let server = Wire::bounded();
            let (wire, other) = (server.clone(), self.wire.clone());
            if !network.connect(to, || WireTransport::connected(wire, other))? {
                return Ok(ConnectProgress::Later);
            }
            self.other = Some(server);
        }
        self.unconnected = false;
        (self.local, self.peer) = (to.local.clone(), Some(to.remote.clone()));
        Ok(ConnectProgress::Done)
    }

    fn shutdown(&mut self, _: &TransportContext, how: Shutdown) -> Result<(), Error> {
        if how != Shutdown::Read {
            self.wire.end();
            if let Some(other) = &self.other {
                other.finish();
                other.wake();
            }
        }
        Ok(())
    }

    fn set_read(&mut self, context: &TransportContext, plan: Option<ReadPlan>) {
        self.wire.set_read(context, plan);
    }

    fn write(&mut self, _: &TransportContext, outbound: &mut Outbound) -> io::Result<Submit> {
        let submitted = self.wire.write(outbound, self.stream);
        if let (Some(other), Ok(Submit::Done(_))) = (&self.other, &submitted) {
            self.wire.carry_to(other).into_iter().for_each(|msg| outbound.discard(msg));
        }
        submitted
    }

    fn next_event(&mut self, _: &TransportContext) -> Option<TransportEvent> {
        let event = self.wire.next_event();
        if let (Some(other), Some(TransportEvent::Read(msg))) = (&self.other, &event) {
            other.give_room(msg.get::<Bytes>().map_or(0, Bytes::len));
        }
        event
    }

    fn has_more(&self) -> bool {
        self.wire.has_more()
    }

    fn close(&mut self, _: &TransportContext) -> Detach {
        self.close_wire();
        Detach::Done
    }

    fn local_address(&self) -> Option<Address> {
        self.local.clone()
    }

    fn peer_address(&self) -> Option<Address> {
        self.peer.clone()
    }

    fn unhandled(&mut self, msg: Msg) -> Option<Msg> {
        if self.keeps_unhandled {
            self.wire.keep_unhandled(msg);
            return None;
        }
        Some(msg)
    }

    fn unhandled_error(&mut self, error: Error) -> Option<Error> {
        if self.keeps_unhandled {
            self.wire.keep_error(error);
            return None;
        }
        Some(error)
    }
}
