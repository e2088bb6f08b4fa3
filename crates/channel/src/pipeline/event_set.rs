//! Which events a handler wants to see.

use std::fmt;
use std::ops::BitOr;

/// A set of events. A handler is called for those in its [interest](super::Handler::interest) and
/// skipped for all others, which cost it nothing.
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
    /// The channel left its loop.
    UNREGISTERED = 1;
    /// The channel is connected, or bound.
    ACTIVE = 2;
    /// The channel is no longer active.
    INACTIVE = 3;
    /// A message came in.
    READ = 4;
    /// That was all for now.
    READ_COMPLETE = 5;
    /// Somebody fired an event of the user's own.
    USER_EVENT = 6;
    /// The channel became writable, or stopped being so.
    WRITABILITY_CHANGED = 7;
    /// An error came in.
    ERROR = 8;
    /// To be bound to an address.
    BIND = 16;
    /// To be connected.
    CONNECT = 17;
    /// To be disconnected.
    DISCONNECT = 18;
    /// To be closed.
    CLOSE = 19;
    /// To leave the loop.
    DEREGISTER = 20;
    /// More is to be read.
    BEGIN_READ = 21;
    /// A message is to go out.
    WRITE = 22;
    /// What was written is to be sent.
    FLUSH = 23;
    /// The output is to be shut down.
    SHUTDOWN_OUTPUT = 24;
}

impl Events {
    /// None.
    pub const NONE: Events = Events(0);
    /// Everything that comes from the transport: from `REGISTERED` to `ERROR`.
    pub const INBOUND: Events = Events(0x01ff);
    /// Everything that goes to the transport: from `BIND` to `SHUTDOWN_OUTPUT`.
    pub const OUTBOUND: Events = Events(0x01ff_0000);
    /// All of them.
    pub const ALL: Events = Events(Self::INBOUND.0 | Self::OUTBOUND.0);

    /// Whether all of these are among them.
    #[must_use]
    pub const fn contains(self, all: Events) -> bool {
        self.0 & all.0 == all.0
    }

    /// Without these.
    #[must_use]
    pub const fn without(self, these: Events) -> Events {
        Events(self.0 & !these.0)
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
        assert_eq!((inbound, outbound), (9, 9), "as many as the contract lists");
        assert_eq!(Events::ALL.0.count_ones(), 18);
    }
}
