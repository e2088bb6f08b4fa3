//! One operation on a connection, and how it is decoded.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

impl Side {
    pub(super) const BOTH: [Self; 2] = [Self::Client, Self::Server];

    pub(super) fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// Damage to the bytes on the way to the receiver. `at` is a position among them, from the front.
#[derive(Clone, Copy, Debug)]
pub(super) enum Damage {
    FlipBit {
        at: usize,
        bit: u8,
    },
    Insert {
        at: usize,
        count: usize,
        byte: u8,
    },
    Drop {
        at: usize,
        count: usize,
    },
    /// Sends the first record twice.
    DuplicateRecord,
    /// Ends the stream behind what was delivered.
    EndStream,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    /// Delivers everything, in both directions, until both sides are silent.
    Exchange,
    /// Delivers the next bytes for this side in one piece.
    Deliver {
        count: usize,
    },
    /// Delivers the next record for this side.
    DeliverRecord,
    Write {
        size: usize,
        flushes: bool,
        has_future: bool,
    },
    Flush,
    /// Cancels the write with this number, modulo the number of writes.
    CancelWrite {
        number: usize,
    },
    /// The network takes so many bytes more.
    SetRoom {
        bytes: usize,
    },
    ClearRoom,
    ShutdownOutput,
    Close,
    Disconnect,
    StopTls,
    Abort,
    /// The network fails.
    Reset,
    /// Advances both clocks.
    Advance {
        by: Duration,
    },
    Damage(Damage),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) side: Side,
    pub(super) action: Action,
}

impl Operation {
    /// The bytes of one operation: every four bytes are one.
    pub(super) const SIZE: usize = 4;

    /// Decodes an operation. What keeps a connection alive is more frequent than what ends it.
    pub(super) fn decode([kind, flags, high, low]: [u8; Self::SIZE]) -> Self {
        let side = if flags & 1 == 0 { Side::Client } else { Side::Server };
        let number = usize::from(u16::from_be_bytes([high, low]));
        // A position and a small count.
        let (at, count) = (number % 1_000, 1 + usize::from(flags >> 3));
        let action = match kind {
            0..40 => Action::Exchange,
            40..70 => Action::Deliver { count: 1 + number % 2_000 },
            70..90 => Action::DeliverRecord,
            90..160 => Action::Write {
                size: if number < 0xC000 { number % 3_000 } else { (number - 0xC000) * 8 },
                flushes: flags & 2 != 0,
                has_future: flags & 4 != 0,
            },
            160..175 => Action::Flush,
            175..185 => Action::CancelWrite { number },
            185..200 => Action::SetRoom { bytes: if number < 0x4000 { 0 } else { number } },
            200..212 => Action::ClearRoom,
            212..219 => Action::ShutdownOutput,
            219..225 => Action::Close,
            225..228 => Action::Disconnect,
            228..237 => Action::StopTls,
            237..241 => Action::Advance { by: Duration::from_millis(number as u64 / 4) },
            241..243 if flags & 2 == 0 => Action::Abort,
            241..243 => Action::Reset,
            243..246 => Action::Damage(Damage::FlipBit { at, bit: flags >> 5 }),
            246..249 => Action::Damage(Damage::Insert { at, count, byte: low }),
            249..252 => Action::Damage(Damage::Drop { at, count }),
            252..254 => Action::Damage(Damage::DuplicateRecord),
            254..=255 => Action::Damage(Damage::EndStream),
        };
        Self { side, action }
    }

    /// True if the connection may fail by it, although both sides behave.
    pub(super) fn is_harmful(&self) -> bool {
        matches!(
            self.action,
            Action::Damage(_) | Action::Abort | Action::Reset | Action::Advance { .. }
        )
    }
}
