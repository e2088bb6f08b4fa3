//! Short messages that are complete in one frame: the usual case, read without the state of a message.

use super::frame_head::WebSocketRole;
use super::mask::copy_masked;
use super::message_buffer::MessageKind;

/// The most bytes of a message that is read by reference.
const MAX_BY_REFERENCE: usize = 128;

/// Memory for a message that is read by reference.
pub(crate) struct ShortMemory([u8; MAX_BY_REFERENCE]);

impl ShortMemory {
    #[inline]
    pub(crate) fn new() -> Self {
        Self([0; MAX_BY_REFERENCE])
    }
}

/// The frame of a short text or binary message, all of which has come.
#[derive(Clone, Copy)]
pub(super) struct ShortFrame<'a> {
    pub(super) kind: MessageKind,
    mask: [u8; 4],
    /// The payload, as it was sent.
    payload: &'a [u8],
    /// The number of bytes of the head and the payload.
    pub(super) len: usize,
}

impl<'a> ShortFrame<'a> {
    /// Finds a frame with at most `max` bytes of payload at the front of `input`, from the peer of an endpoint with this
    /// role. `None` for anything else, and for a frame with an error.
    #[inline(always)]
    pub(super) fn find(input: &'a [u8], role: WebSocketRole, max: usize) -> Option<Self> {
        let (kind, rest) = match input {
            [0x81, rest @ ..] => (MessageKind::Text, rest),
            [0x82, rest @ ..] => (MessageKind::Binary, rest),
            _ => return None,
        };
        let (is_masked, mask_bit) = match role {
            WebSocketRole::Server => (true, 0x80),
            WebSocketRole::Client => (false, 0),
        };
        let (&second, rest) = rest.split_first()?;
        let (len, rest) = match second ^ mask_bit {
            len @ 0..=125 => (usize::from(len), rest),
            126 => {
                let (len, rest) = rest.split_first_chunk()?;
                match u16::from_be_bytes(*len) {
                    0..=125 => return None,
                    len => (usize::from(len), rest),
                }
            }
            _ => return None,
        };
        if len > max {
            return None;
        }
        let (mask, rest) = if is_masked { rest.split_first_chunk()? } else { (&[0; 4], rest) };
        let payload = rest.get(..len)?;
        Some(Self { kind, mask: *mask, payload, len: input.len() - rest.len() + len })
    }

    /// Returns the payload without its mask, in memory of its own.
    #[inline]
    pub(super) fn to_vec(self) -> Vec<u8> {
        let mut payload = vec![0; self.payload.len()];
        copy_masked(self.payload, &mut payload, self.mask);
        payload
    }

    /// Returns the payload without its mask, in `memory` if it fits.
    #[inline(always)]
    pub(super) fn unmask_in(self, memory: &mut ShortMemory) -> Option<&[u8]> {
        let payload = memory.0.get_mut(..self.payload.len())?;
        copy_masked(self.payload, payload, self.mask);
        Some(payload)
    }
}
