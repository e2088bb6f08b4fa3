//! The text of one event of a channel.

use std::fmt;

use bytes::{Bytes, BytesMut};
use waterwheel_channel::{
    Address, AncillaryMessage, ConnectTarget, Datagram, FileRegion, HalfClosed, Msg, PeerFinished,
};
use waterwheel_executor::Error;

use super::escaped::{EscapedText, QuotedBytes};
use super::hex_dump::HexDump;
use crate::idle::IdleEvent;

/// Returns the message as a value that has `Debug`; `None` if it is of another type than the function's.
pub(super) type DebugOf = fn(&Msg) -> Option<&dyn fmt::Debug>;

/// How the data of events are shown.
#[derive(Clone, Copy)]
pub(super) struct DataFormat<'a> {
    pub(super) is_hex_dump: bool,
    /// Maximum number of bytes, or characters of a text.
    pub(super) max_bytes: usize,
    pub(super) shown: &'a [DebugOf],
}

/// Characters of an address or an error that are shown at least, however few bytes of messages are.
pub(super) const MIN_TEXT: usize = 256;

/// An event as text: its name, and its data.
pub(super) struct EventLine<'a> {
    pub(super) name: &'static str,
    pub(super) data: EventData<'a>,
    pub(super) format: DataFormat<'a>,
}

/// The data of an event.
#[derive(Clone, Copy)]
pub(super) enum EventData<'a> {
    None,
    /// A message that was read.
    Inbound(&'a Msg),
    /// A message to write.
    Outbound(&'a Msg),
    UserEvent(&'a Msg),
    Error(&'a Error),
    Address(&'a Address),
    Target(&'a ConnectTarget),
    /// The channel is writable, or not.
    Writability(bool),
}

impl fmt::Display for EventLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, data, format } = self;
        f.write_str(name)?;
        match data {
            EventData::None => Ok(()),
            EventData::Inbound(msg) => format.message(f, msg, "from"),
            EventData::Outbound(msg) => format.message(f, msg, "to"),
            EventData::UserEvent(event) => format.user_event(f, event),
            EventData::Error(error) => format.text(f, error),
            EventData::Address(address) => format.text(f, address),
            EventData::Target(target) => format.target(f, target),
            EventData::Writability(true) => f.write_str(" writable"),
            EventData::Writability(false) => f.write_str(" unwritable"),
        }
    }
}

impl DataFormat<'_> {
    /// Writes a message. `direction` stands before the address of a datagram.
    fn message(&self, f: &mut fmt::Formatter<'_>, msg: &Msg, direction: &str) -> fmt::Result {
        if let Some(bytes) = plain_bytes(msg) {
            return self.bytes(f, bytes, bytes.len());
        }
        if let Some(datagram) = msg.get::<Datagram>() {
            self.peer(f, "datagram", direction, datagram.peer())?;
            return self.bytes(f, datagram.bytes(), datagram.whole_len());
        }
        if let Some(message) = msg.get::<AncillaryMessage>() {
            let AncillaryMessage { bytes, passed, peer, .. } = message;
            self.peer(f, "ancillary message", direction, peer.as_ref())?;
            write!(f, " with {} descriptors,", passed.len())?;
            return self.bytes(f, bytes, bytes.len());
        }
        if let Some(region) = msg.get::<FileRegion>() {
            return write!(f, " {} bytes of a file from offset {}", region.len(), region.offset());
        }
        self.other(f, msg)
    }

    fn user_event(&self, f: &mut fmt::Formatter<'_>, event: &Msg) -> fmt::Result {
        if let Some(half) = event.get::<HalfClosed>() {
            return write!(f, " HalfClosed::{half:?}");
        }
        if event.is::<PeerFinished>() {
            return f.write_str(" PeerFinished");
        }
        if let Some(IdleEvent { kind, first }) = event.get() {
            return write!(f, " idle: {kind}{}", if *first { ", first" } else { "" });
        }
        match plain_bytes(event) {
            Some(bytes) => self.bytes(f, bytes, bytes.len()),
            None => self.other(f, event),
        }
    }

    /// Writes a message by its `Debug`, if its type was registered, or by the name of its type.
    fn other(&self, f: &mut fmt::Formatter<'_>, msg: &Msg) -> fmt::Result {
        match self.shown.iter().find_map(|debug_of| debug_of(msg)) {
            Some(value) => {
                let text = format_args!("{value:?}");
                write!(f, " {}", EscapedText { text, max: self.max_bytes })
            }
            None => write!(f, " {}", msg.type_name()),
        }
    }

    fn peer(
        &self,
        f: &mut fmt::Formatter<'_>,
        kind: &str,
        direction: &str,
        peer: Option<&Address>,
    ) -> fmt::Result {
        write!(f, " {kind}")?;
        match peer {
            Some(peer) => {
                write!(f, " {direction}")?;
                self.text(f, peer)
            }
            None => Ok(()),
        }
    }

    fn target(&self, f: &mut fmt::Formatter<'_>, target: &ConnectTarget) -> fmt::Result {
        self.text(f, &target.remote)?;
        for other in &target.others {
            f.write_str(" or")?;
            self.text(f, other)?;
        }
        match &target.local {
            Some(local) => {
                f.write_str(" from")?;
                self.text(f, local)
            }
            None => Ok(()),
        }
    }

    /// Writes an address or the text of an error.
    fn text(&self, f: &mut fmt::Formatter<'_>, text: impl fmt::Display) -> fmt::Result {
        write!(f, " {}", EscapedText { text, max: self.max_bytes.max(MIN_TEXT) })
    }

    /// Writes bytes, of which there were `whole` before a datagram was truncated.
    fn bytes(&self, f: &mut fmt::Formatter<'_>, bytes: &[u8], whole: usize) -> fmt::Result {
        match whole {
            _ if whole > bytes.len() => write!(f, " {} of {whole} bytes", bytes.len())?,
            1 => f.write_str(" 1 byte")?,
            _ => write!(f, " {whole} bytes")?,
        }
        if self.is_hex_dump {
            write!(f, "{}", HexDump { bytes, max: self.max_bytes })
        } else {
            write!(f, "{}", QuotedBytes { bytes, max: self.max_bytes })
        }
    }
}

/// Returns the content of a message that is nothing but bytes or text.
fn plain_bytes(msg: &Msg) -> Option<&[u8]> {
    let bytes = msg.get::<Bytes>().map(|bytes| &bytes[..]);
    bytes
        .or_else(|| msg.get::<BytesMut>().map(|bytes| &bytes[..]))
        .or_else(|| msg.get::<Vec<u8>>().map(|bytes| &bytes[..]))
        .or_else(|| msg.get::<String>().map(String::as_bytes))
        .or_else(|| msg.get::<&'static str>().map(|text| text.as_bytes()))
}
