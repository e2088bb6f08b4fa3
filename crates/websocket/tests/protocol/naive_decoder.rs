//! A slow reader of frames that is plainly right: it looks at all bytes of a connection at once, one after the other.
//! The decoder has to return the same for each beginning of a connection.

use waterwheel_websocket::{
    CloseCode, CloseReason, ProtocolError, WebSocketMessage, WebSocketRole,
};

use super::naive_inflate::{NaiveInflated, inflate_naively};

/// The messages of a connection, and its violation if there is one.
pub(crate) type Decoded = (Vec<WebSocketMessage>, Option<ProtocolError>);

/// Reads all messages of the peer of an endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NaiveDecoder {
    pub(crate) role: WebSocketRole,
    pub(crate) max_frame: u64,
    pub(crate) max_message: u64,
    /// The agreed compression; `None`: compressed messages are refused.
    pub(crate) deflate: Option<NaiveDeflate>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NaiveDeflate {
    ContextTakeover,
    NoContextTakeover,
}

/// The message whose end has not come.
struct OpenMessage {
    is_text: bool,
    is_compressed: bool,
    data: Vec<u8>,
}

#[derive(Default)]
struct NaiveState {
    messages: Vec<WebSocketMessage>,
    open: Option<OpenMessage>,
    /// All compressed data of which the context is taken over, and the length of what it was inflated to.
    compressed: Vec<u8>,
    inflated: usize,
}

impl NaiveDecoder {
    pub(crate) fn decode(self, mut bytes: &[u8]) -> Decoded {
        let mut state = NaiveState::default();
        loop {
            match self.read_frame(&mut state, bytes) {
                Ok(Some(rest)) => bytes = rest,
                Ok(None) => return (state.messages, None),
                Err(error) => return (state.messages, Some(error)),
            }
        }
    }

    /// Reads the frame at the front; `None` if it is not complete, or nothing follows it.
    fn read_frame<'a>(
        self,
        state: &mut NaiveState,
        bytes: &'a [u8],
    ) -> Result<Option<&'a [u8]>, ProtocolError> {
        if matches!(state.messages.last(), Some(WebSocketMessage::Close(_))) {
            return Ok(None);
        }
        let [first, second, ..] = *bytes else { return Ok(None) };
        let (is_final, bits, opcode) = (first & 0x80 != 0, first >> 4 & 7, first & 15);
        let (is_masked, short) = (second & 0x80 != 0, second & 0x7f);
        let extended = [2, 8].get(usize::from(short).wrapping_sub(126)).copied().unwrap_or(0);
        let head_len = 2 + extended + if is_masked { 4 } else { 0 };
        if bytes.len() < head_len {
            return Ok(None);
        }
        self.check_first(opcode, bits)?;
        match self.role {
            WebSocketRole::Server if !is_masked => return Err(ProtocolError::UnmaskedFrame),
            WebSocketRole::Client if is_masked => return Err(ProtocolError::MaskedFrame),
            _ => {}
        }
        if opcode >= 8 && !is_final {
            return Err(ProtocolError::FragmentedControl);
        }
        if opcode >= 8 && short > 125 {
            return Err(ProtocolError::ControlTooLong);
        }
        let mut len = 0;
        for byte in &bytes[2..2 + extended] {
            len = len << 8 | u64::from(*byte);
        }
        match extended {
            0 => len = u64::from(short),
            2 if len < 126 => return Err(ProtocolError::LongLength { len }),
            8 if len < 65536 => return Err(ProtocolError::LongLength { len }),
            8 if len >= 1 << 63 => return Err(ProtocolError::LengthOverflow),
            _ => {}
        }
        let mask = if is_masked { &bytes[head_len - 4..head_len] } else { &[0; 4] };
        let come = bytes[head_len..].iter().take(usize::try_from(len).unwrap());
        let payload: Vec<u8> = come.enumerate().map(|(at, byte)| byte ^ mask[at % 4]).collect();
        let is_complete = payload.len() as u64 == len;
        if opcode >= 8 {
            if is_complete {
                state.messages.push(control(opcode, &payload)?);
            }
        } else {
            self.begin_data(state, opcode, bits != 0, len)?;
            self.read_data(state, &payload, is_complete && is_final)?;
        }
        Ok(is_complete.then(|| &bytes[head_len + payload.len()..]))
    }

    fn check_first(self, opcode: u8, bits: u8) -> Result<(), ProtocolError> {
        if matches!(opcode, 3..=7 | 11..) {
            return Err(ProtocolError::ReservedOpcode { opcode });
        }
        let may_be_compressed = self.deflate.is_some() && matches!(opcode, 1 | 2);
        if bits != 0 && !(bits == 4 && may_be_compressed) {
            return Err(ProtocolError::ReservedBits { bits });
        }
        Ok(())
    }

    fn begin_data(
        self,
        state: &mut NaiveState,
        opcode: u8,
        is_compressed: bool,
        len: u64,
    ) -> Result<(), ProtocolError> {
        match (opcode, &state.open) {
            (0, None) => return Err(ProtocolError::UnexpectedContinuation),
            (0, Some(_)) => {}
            (_, Some(_)) => return Err(ProtocolError::UnfinishedMessage),
            (_, None) => {
                let is_text = opcode == 1;
                state.open = Some(OpenMessage { is_text, is_compressed, data: Vec::new() });
            }
        }
        if len > self.max_frame {
            return Err(ProtocolError::FrameTooBig { len, limit: self.max_frame });
        }
        let open = state.open.as_ref().unwrap();
        if !open.is_compressed && open.data.len() as u64 + len > self.max_message {
            return Err(ProtocolError::MessageTooBig { limit: self.max_message });
        }
        Ok(())
    }

    fn read_data(
        self,
        state: &mut NaiveState,
        payload: &[u8],
        is_last: bool,
    ) -> Result<(), ProtocolError> {
        let NaiveState { messages, open: place, compressed, inflated } = state;
        let open = place.as_mut().unwrap();
        if open.is_compressed {
            compressed.extend_from_slice(payload);
            if is_last {
                compressed.extend_from_slice(&[0, 0, 0xff, 0xff]);
            }
            let NaiveInflated { data, is_corrupt, .. } = inflate_naively(compressed);
            open.data.extend_from_slice(&data[*inflated..]);
            *inflated = data.len();
            if open.data.len() as u64 > self.max_message {
                return Err(ProtocolError::MessageTooBig { limit: self.max_message });
            }
            if is_corrupt {
                return Err(ProtocolError::CorruptDeflate);
            }
        } else {
            open.data.extend_from_slice(payload);
        }
        if open.is_text
            && let Err(error) = str::from_utf8(&open.data)
            && (is_last || error.error_len().is_some())
        {
            return Err(ProtocolError::InvalidUtf8);
        }
        if is_last {
            let open = place.take().unwrap();
            messages.push(match open.is_text {
                true => WebSocketMessage::text(String::from_utf8(open.data).unwrap()),
                false => WebSocketMessage::binary(open.data),
            });
            if open.is_compressed && self.deflate == Some(NaiveDeflate::NoContextTakeover) {
                compressed.clear();
                *inflated = 0;
            }
        }
        Ok(())
    }
}

fn control(opcode: u8, payload: &[u8]) -> Result<WebSocketMessage, ProtocolError> {
    match (opcode, payload) {
        (9, _) => Ok(WebSocketMessage::Ping(payload.to_vec().into())),
        (10, _) => Ok(WebSocketMessage::Pong(payload.to_vec().into())),
        (_, []) => Ok(WebSocketMessage::Close(None)),
        (_, [_]) => Err(ProtocolError::CloseTooShort),
        (_, [high, low, text @ ..]) => {
            let code = u16::from(*high) << 8 | u16::from(*low);
            let may_be_sent = match code {
                0..=999 | 1004..=1006 | 1015..=2999 | 5000.. => false,
                1000..=1003 | 1007..=1014 | 3000..=4999 => true,
            };
            if !may_be_sent {
                return Err(ProtocolError::InvalidCloseCode { code });
            }
            let text = str::from_utf8(text).map_err(|_| ProtocolError::InvalidCloseText)?;
            let reason = CloseReason::new(CloseCode::new(code).unwrap(), text);
            Ok(WebSocketMessage::Close(Some(reason)))
        }
    }
}
