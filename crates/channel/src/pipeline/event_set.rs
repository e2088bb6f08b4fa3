//! Sets of events, as bits: the interest of a handler.

use std::fmt;
use std::ops::BitOr;

/// A set of events. A handler is called for the events in its [interest](super::Handler::interest);
/// all others skip it at no cost.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Events(u32);

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident = $bit:literal;)*) => {
        impl Events {
            $($(#[$doc])* pub const $name: Events = Events(1 << $bit);)*

            pub(super) const NAMES: &[(Events, &str)] = &[$((Events::$name, stringify!($name))),*];
        }
    };
}

events! {
    /// The channel was registered with its loop.
    REGISTERED = 0;
    /// The channel was deregistered from its loop, or was closed while it was registered.
    UNREGISTERED = 1;
    /// The channel is connected, or bound.
    ACTIVE = 2;
    /// The channel is no longer active.
    INACTIVE = 3;
    /// A message was read.
    READ = 4;
    /// A round of reads ended.
    READ_COMPLETE = 5;
    /// A user event was fired.
    USER_EVENT = 6;
    /// The channel became writable or stopped being writable, or was unwritable for a moment.
    WRITABILITY_CHANGED = 7;
    /// An error was fired.
    ERROR = 8;
    /// Request to bind to an address.
    BIND = 16;
    /// Request to connect.
    CONNECT = 17;
    /// Request to disconnect, which closes the channel.
    DISCONNECT = 18;
    /// Request to close.
    CLOSE = 19;
    /// Request to deregister from the loop.
    DEREGISTER = 20;
    /// Request to read more.
    BEGIN_READ = 21;
    /// Request to write a message.
    WRITE = 22;
    /// Request to flush all written messages.
    FLUSH = 23;
    /// Request to shut down the output.
    SHUTDOWN_OUTPUT = 24;
}

impl Events {
    /// The empty set.
    pub const NONE: Events = Events(0);
    /// All inbound events, which come from the transport: from `REGISTERED` to `ERROR`.
    pub const INBOUND: Events = Events(0x01ff);
    /// All outbound events, which go to the transport: from `BIND` to `SHUTDOWN_OUTPUT`.
    pub const OUTBOUND: Events = Events(0x01ff_0000);
    /// All events.
    pub const ALL: Events = Events(Self::INBOUND.0 | Self::OUTBOUND.0);

    /// True if this set contains every event of `others`.
    #[must_use]
    pub const fn contains(self, others: Events) -> bool {
        self.0 & others.0 == others.0
    }

    /// Returns this set without the events of `others`.
    #[must_use]
    pub const fn without(self, others: Events) -> Events {
        Events(self.0 & !others.0)
    }
}

impl BitOr for Events {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = Self::NAMES.iter().filter(|(bit, _)| self.contains(*bit)).map(|(_, name)| *name);
        write!(f, "Events({})", set.collect::<Vec<_>>().join(" | "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c04_every_event_belongs_to_one_direction() {
        let (mut inbound, mut outbound) = (0, 0);
        for (bit, name) in Events::NAMES {
            let (is_in, is_out) = (Events::INBOUND.contains(*bit), Events::OUTBOUND.contains(*bit));
            assert!(is_in != is_out, "{name}");
            inbound += usize::from(is_in);
            outbound += usize::from(is_out);
        }
        assert_eq!((inbound, outbound), (9, 9), "as many as docs/PIPELINE.md lists");
        assert_eq!(Events::ALL.0.count_ones(), 18);
    }
}
