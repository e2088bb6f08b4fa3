//! The head of a frame: two bytes, up to eight more of its length, and four of its mask.

use bytes::{BufMut, BytesMut};

use super::error::ProtocolError;

/// The side of a connection: a client masks its frames, a server does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebSocketRole {
    /// The side that has sent the request.
    Client,
    /// The side that has answered it.
    Server,
}

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opcode {
    Continuation = 0,
    Text = 1,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

impl Opcode {
    #[inline]
    fn of(nibble: u8) -> Result<Self, ProtocolError> {
        Ok(match nibble {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            opcode => return Err(ProtocolError::ReservedOpcode { opcode }),
        })
    }

    #[inline]
    pub(super) fn is_control(self) -> bool {
        self as u8 >= 8
    }
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHead {
    pub(super) opcode: Opcode,
    pub(super) is_final: bool,
    /// RSV1: the first frame of a compressed message has it.
    pub(super) is_compressed: bool,
    pub(super) len: u64,
    /// The mask; four zeros in a frame without one.
    pub(super) mask: [u8; 4],
}

/// The most bytes of a head.
pub(super) const MAX_HEAD: usize = 14;

/// The bytes of the shortest head: without a mask, with the length in one byte.
pub(crate) const SHORT_HEAD: usize = 2;

/// The most bytes of the payload of a control frame.
pub(crate) const MAX_CONTROL: usize = 125;

const FINAL: u8 = 0x80;
const RESERVED: u8 = 0x70;
const RSV1: u8 = 0x40;
const MASKED: u8 = 0x80;

impl FrameHead {
    /// Returns the number of bytes of the head that begins with these two.
    #[inline]
    pub(super) fn len_of(second: u8) -> usize {
        let extended = match second & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        2 + extended + if second & MASKED == 0 { 0 } else { 4 }
    }

    /// Parses a complete head from the peer of an endpoint with this role. What depends on the frames before is checked
    /// by the decoder.
    #[inline]
    pub(super) fn parse(
        bytes: &[u8],
        role: WebSocketRole,
        may_be_compressed: bool,
    ) -> Result<Self, ProtocolError> {
        let (first, second) = (bytes[0], bytes[1]);
        let opcode = Opcode::of(first & 0x0f)?;
        let is_final = first & FINAL != 0;
        let reserved = first & RESERVED;
        if reserved != 0 {
            let starts = matches!(opcode, Opcode::Text | Opcode::Binary);
            if reserved != RSV1 || !may_be_compressed || !starts {
                return Err(ProtocolError::ReservedBits { bits: reserved >> 4 });
            }
        }
        match (second & MASKED != 0, role) {
            (false, WebSocketRole::Server) => return Err(ProtocolError::UnmaskedFrame),
            (true, WebSocketRole::Client) => return Err(ProtocolError::MaskedFrame),
            _ => {}
        }
        if opcode.is_control() {
            if !is_final {
                return Err(ProtocolError::FragmentedControl);
            }
            if second & 0x7f > MAX_CONTROL as u8 {
                return Err(ProtocolError::ControlTooLong);
            }
        }
        let (len, rest) = parse_len(second & 0x7f, &bytes[2..])?;
        let mask = match rest {
            [a, b, c, d, ..] if second & MASKED != 0 => [*a, *b, *c, *d],
            _ => [0; 4],
        };
        Ok(Self { opcode, is_final, is_compressed: reserved != 0, len, mask })
    }

    /// Returns the head of a final frame without a mask, with at most 125 bytes of payload.
    #[inline]
    pub(super) fn short(opcode: Opcode, len: u8) -> [u8; SHORT_HEAD] {
        [FINAL | opcode as u8, len]
    }

    /// Appends the head, with the mask if there is one.
    #[inline]
    pub(super) fn put(&self, is_masked: bool, dst: &mut BytesMut) {
        let first = self.opcode as u8
            | if self.is_final { FINAL } else { 0 }
            | if self.is_compressed { RSV1 } else { 0 };
        let masked = if is_masked { MASKED } else { 0 };
        match self.len {
            len @ 0..=125 => dst.put_slice(&[first, masked | len as u8]),
            len @ 126..=0xffff => {
                let [high, low] = (len as u16).to_be_bytes();
                dst.put_slice(&[first, masked | 126, high, low]);
            }
            len => {
                dst.put_slice(&[first, masked | 127]);
                dst.put_u64(len);
            }
        }
        if is_masked {
            dst.put_slice(&self.mask);
        }
    }
}

#[inline]
fn parse_len(short: u8, rest: &[u8]) -> Result<(u64, &[u8]), ProtocolError> {
    match (short, rest) {
        (126, [high, low, rest @ ..]) => match u64::from(u16::from_be_bytes([*high, *low])) {
            len @ 0..=125 => Err(ProtocolError::LongLength { len }),
            len => Ok((len, rest)),
        },
        (127, [a, b, c, d, e, f, g, h, rest @ ..]) => {
            match u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]) {
                len @ 0..=0xffff => Err(ProtocolError::LongLength { len }),
                len if len >> 63 != 0 => Err(ProtocolError::LengthOverflow),
                len => Ok((len, rest)),
            }
        }
        (len, rest) => Ok((u64::from(len), rest)),
    }
}
