//! Bytes of a peer, read as messages.

use bytes::{Buf, Bytes};

use super::close::{CloseCode, CloseReason};
use super::error::ProtocolError;
use super::frame_head::{FrameHead, MAX_CONTROL, MAX_HEAD, Opcode, WebSocketRole};
use super::limits::WebSocketLimits;
use super::mask::{advance_mask, apply_mask};
use super::message::{ShortMessage, WebSocketMessage};
use super::message_buffer::{MessageBuffer, MessageKind};
use super::short_frame::{ShortFrame, ShortMemory};
use crate::deflate::inflater::{CorruptData, Inflater};
use crate::deflate::parameters::DeflateParameters;

/// Reads the messages of a peer from bytes in any pieces.
///
/// 1. *A piece of a frame is read as it comes*, unmasked, inflated and checked: a text fails at its first wrong byte, and no
///    byte is held but those of the message and of a head or control frame that is not complete.
/// 2. *A message is returned when it is complete*, or as it comes in parts. Control frames inside of a message are
///    returned between its frames.
/// 3. *A Close* is the last message: what follows is dropped.
/// 4. *An error is final*: what follows is dropped. The caller tells the peer its [`close_code`](ProtocolError::close_code).
///
/// ```
/// use bytes::Bytes;
/// use waterwheel_websocket::{MessageDecoder, WebSocketLimits, WebSocketMessage, WebSocketRole};
///
/// let mut decoder = MessageDecoder::new(WebSocketRole::Server, WebSocketLimits::default());
/// let mut bytes = Bytes::from_static(b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58");
/// assert_eq!(decoder.decode(&mut bytes)?, Some(WebSocketMessage::text("Hello")));
/// assert_eq!(decoder.decode(&mut bytes)?, None);
/// # Ok::<(), waterwheel_websocket::ProtocolError>(())
/// ```
#[derive(Debug)]
pub struct MessageDecoder {
    role: WebSocketRole,
    limits: WebSocketLimits,
    /// The most bytes of a message that is read at once, if it is complete in one frame.
    max_short: usize,
    /// True while such a message may begin: between two messages, unless they are returned in parts.
    takes_short: bool,
    /// True if messages are returned in parts.
    gives_parts: bool,
    is_over: bool,
    /// The bytes of a head that is not complete.
    head: PartialHead,
    /// The frame that is being read, with the number of bytes that are missing.
    frame: Option<FrameHead>,
    /// The message that is being read.
    message: Option<OpenMessage>,
    /// The control frame that is being read.
    control: Vec<u8>,
    inflater: Option<Inflater>,
}

#[derive(Debug, Default)]
struct PartialHead {
    bytes: [u8; MAX_HEAD],
    len: u8,
}

/// A message whose end has not come.
#[derive(Debug)]
struct OpenMessage {
    is_compressed: bool,
    /// The bytes received, after decompression.
    received: u64,
    buffer: MessageBuffer,
}

/// A frame up to this size is read without the state of a message: it is copied out of the block that was read.
const MAX_SHORT: u64 = 1024;

/// The bytes that are unmasked at once: they stay in the first level of the cache until they are read again.
const SCRATCH: usize = 4096;

impl MessageDecoder {
    /// Returns a decoder for the peer of an endpoint with this role.
    #[must_use]
    pub fn new(role: WebSocketRole, limits: WebSocketLimits) -> Self {
        let max_short = limits.max_message.min(limits.max_frame).min(MAX_SHORT) as usize;
        Self {
            role,
            limits,
            max_short,
            takes_short: true,
            gives_parts: false,
            is_over: false,
            head: PartialHead::default(),
            frame: None,
            message: None,
            control: Vec::new(),
            inflater: None,
        }
    }

    /// Returns messages in parts, as they come.
    #[must_use]
    pub fn parts(mut self) -> Self {
        self.gives_parts = true;
        self.takes_short = false;
        self
    }

    /// Accepts compressed messages, by the parameters that were negotiated.
    #[must_use]
    pub fn deflate(mut self, parameters: &DeflateParameters) -> Self {
        let no_context_takeover = match self.role {
            WebSocketRole::Server => parameters.client_no_context_takeover(),
            WebSocketRole::Client => parameters.server_no_context_takeover(),
        };
        self.inflater = Some(Inflater::new(no_context_takeover));
        self
    }

    /// True between two messages.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.message.is_none() && self.frame.is_none() && self.head.len == 0
    }

    /// Reads the next message from the front of `input`. `None` if it is not complete: all of `input` was consumed then.
    ///
    /// # Errors
    /// The peer has violated the protocol or a limit.
    #[inline]
    pub fn decode(&mut self, input: &mut Bytes) -> Result<Option<WebSocketMessage>, ProtocolError> {
        if input.is_empty() {
            return Ok(None);
        }
        if self.takes_short
            && let Some(frame) = ShortFrame::find(input, self.role, self.max_short)
        {
            let (kind, payload, len) = (frame.kind, frame.to_vec(), frame.len);
            input.advance(len);
            return match kind {
                MessageKind::Binary => Ok(Some(WebSocketMessage::Binary(Bytes::from(payload)))),
                MessageKind::Text => match String::from_utf8(payload) {
                    Ok(text) => Ok(Some(WebSocketMessage::Text(text.into()))),
                    Err(_) => {
                        self.end(input);
                        Err(ProtocolError::InvalidUtf8)
                    }
                },
            };
        }
        let message = self.decode_pieces(input);
        self.takes_short = self.is_idle() && !self.is_over && !self.gives_parts;
        message
    }

    /// Reads a short message that is complete in one frame, the usual case, into `memory`. `None`, with nothing consumed,
    /// if the next message is another one or has an error: [`decode`](Self::decode) reads it.
    #[inline(always)]
    pub(crate) fn decode_short<'a>(
        &self,
        input: &mut Bytes,
        memory: &'a mut ShortMemory,
    ) -> Option<ShortMessage<'a>> {
        if !self.takes_short {
            return None;
        }
        let frame = ShortFrame::find(input, self.role, self.max_short)?;
        let (kind, len) = (frame.kind, frame.len);
        let payload = frame.unmask_in(memory)?;
        let message = match kind {
            MessageKind::Binary => ShortMessage::Binary(payload),
            MessageKind::Text => ShortMessage::Text(str::from_utf8(payload).ok()?),
        };
        input.advance(len);
        Some(message)
    }

    fn decode_pieces(
        &mut self,
        input: &mut Bytes,
    ) -> Result<Option<WebSocketMessage>, ProtocolError> {
        while !self.is_over {
            let read = match self.frame {
                None => self.read_head(input),
                Some(frame) if frame.len > 0 && input.is_empty() => return Ok(None),
                Some(frame) if frame.opcode.is_control() => self.read_control(frame, input),
                Some(frame) => self.read_data(frame, input),
            };
            match read {
                Ok(ReadStep::Message(message)) => return Ok(Some(message)),
                Ok(ReadStep::Continue) => {}
                Ok(ReadStep::NeedsMore) => return Ok(None),
                Err(error) => {
                    self.end(input);
                    return Err(error);
                }
            }
        }
        input.clear();
        Ok(None)
    }

    /// Reads a head, or as much of it as there is.
    fn read_head(&mut self, input: &mut Bytes) -> Result<ReadStep, ProtocolError> {
        let PartialHead { bytes, len } = &mut self.head;
        loop {
            let held = usize::from(*len);
            let wanted = if held < 2 { 2 } else { FrameHead::len_of(bytes[1]) };
            let missing = (wanted - held).min(input.len());
            bytes[held..held + missing].copy_from_slice(&input[..missing]);
            input.advance(missing);
            *len += missing as u8;
            if held + missing < wanted {
                return Ok(ReadStep::NeedsMore);
            }
            if wanted == FrameHead::len_of(bytes[1]) {
                break;
            }
        }
        let complete = usize::from(std::mem::take(len));
        let may_be_compressed = self.inflater.is_some();
        let head = FrameHead::parse(&bytes[..complete], self.role, may_be_compressed)?;
        self.begin_frame(head)?;
        Ok(ReadStep::Continue)
    }

    /// Checks a frame against those before it and the limits.
    fn begin_frame(&mut self, head: FrameHead) -> Result<(), ProtocolError> {
        let kind = match head.opcode {
            Opcode::Close | Opcode::Ping | Opcode::Pong => None,
            Opcode::Continuation if self.message.is_none() => {
                return Err(ProtocolError::UnexpectedContinuation);
            }
            Opcode::Continuation => None,
            _ if self.message.is_some() => return Err(ProtocolError::UnfinishedMessage),
            Opcode::Text => Some(MessageKind::Text),
            Opcode::Binary => Some(MessageKind::Binary),
        };
        if let Some(kind) = kind {
            self.message = Some(OpenMessage {
                is_compressed: head.is_compressed,
                received: 0,
                buffer: MessageBuffer::new(kind),
            });
        }
        if !head.opcode.is_control() {
            self.check_length(head.len)?;
        }
        self.frame = Some(head);
        Ok(())
    }

    /// Checks the length of a frame of data.
    #[inline]
    fn check_length(&self, len: u64) -> Result<(), ProtocolError> {
        let WebSocketLimits { max_frame, max_message } = self.limits;
        if len > max_frame {
            return Err(ProtocolError::FrameTooBig { len, limit: max_frame });
        }
        let received = match &self.message {
            // Checked as it is inflated.
            Some(message) if message.is_compressed => return Ok(()),
            Some(message) => message.received,
            None => 0,
        };
        if len > max_message - received {
            return Err(ProtocolError::MessageTooBig { limit: max_message });
        }
        Ok(())
    }

    fn read_control(
        &mut self,
        mut frame: FrameHead,
        input: &mut Bytes,
    ) -> Result<ReadStep, ProtocolError> {
        debug_assert!(frame.len <= MAX_CONTROL as u64);
        let len = input.len().min(frame.len as usize);
        let held = self.control.len();
        self.control.extend_from_slice(&input[..len]);
        input.advance(len);
        apply_mask(&mut self.control[held..], frame.mask);
        frame.mask = advance_mask(frame.mask, len);
        frame.len -= len as u64;
        if frame.len > 0 {
            self.frame = Some(frame);
            return Ok(ReadStep::NeedsMore);
        }
        self.frame = None;
        let payload = Bytes::from(std::mem::take(&mut self.control));
        Ok(ReadStep::Message(match frame.opcode {
            Opcode::Ping => WebSocketMessage::Ping(payload),
            Opcode::Pong => WebSocketMessage::Pong(payload),
            _ => {
                self.is_over = true;
                WebSocketMessage::Close(parse_close(&payload)?)
            }
        }))
    }

    /// Reads data of a message: the rest of a frame, or as much of it as there is.
    fn read_data(
        &mut self,
        mut frame: FrameHead,
        input: &mut Bytes,
    ) -> Result<ReadStep, ProtocolError> {
        let max_message = self.limits.max_message;
        let is_masked = self.role == WebSocketRole::Server;
        let Some(message) = &mut self.message else {
            return Err(ProtocolError::UnexpectedContinuation);
        };
        while frame.len > 0 && !input.is_empty() {
            let mut len = usize::try_from(frame.len).unwrap_or(usize::MAX).min(input.len());
            match self.gives_parts {
                true => message.buffer.reserve(len, len as u64, false),
                false => message.buffer.reserve(len, frame.len, frame.is_final),
            }
            match (&mut message.buffer, &mut self.inflater) {
                (MessageBuffer::Binary(bytes), _) if !message.is_compressed => {
                    let held = bytes.len();
                    bytes.extend_from_slice(&input[..len]);
                    if is_masked {
                        apply_mask(&mut bytes[held..], frame.mask);
                    }
                    message.received += len as u64;
                }
                (buffer, inflater) => {
                    len = len.min(SCRATCH);
                    let mut scratch = [0; SCRATCH];
                    let data = &mut scratch[..len];
                    data.copy_from_slice(&input[..len]);
                    apply_mask(data, frame.mask);
                    let received = &mut message.received;
                    let append = |data: &[u8]| append(buffer, data, received, max_message);
                    match inflater {
                        Some(inflater) if message.is_compressed => {
                            inflater.inflate(data, append)?
                        }
                        _ => buffer.append(data).map(|()| *received += len as u64)?,
                    }
                }
            }
            input.advance(len);
            frame.mask = advance_mask(frame.mask, len);
            frame.len -= len as u64;
            if self.gives_parts && message.is_compressed {
                break; // A few bytes may have become a large part.
            }
        }
        if frame.len > 0 {
            self.frame = Some(frame);
            return match self.gives_parts && message.buffer.len() > 0 {
                true => Ok(ReadStep::Message(message.buffer.take_part(false)?)),
                false => Ok(ReadStep::Continue),
            };
        }
        self.frame = None;
        self.end_frame(frame.is_final)
    }

    /// Ends a frame of data, and the message if that was its last one.
    fn end_frame(&mut self, is_final: bool) -> Result<ReadStep, ProtocolError> {
        let max_message = self.limits.max_message;
        if let (true, Some(message), Some(inflater)) =
            (is_final, &mut self.message, &mut self.inflater)
            && message.is_compressed
        {
            let OpenMessage { buffer, received, .. } = message;
            inflater.end_message(|data| append(buffer, data, received, max_message))?;
        }
        match (self.gives_parts, is_final) {
            (false, false) => Ok(ReadStep::Continue),
            (true, false) => match &mut self.message {
                Some(message) if message.buffer.len() > 0 => {
                    Ok(ReadStep::Message(message.buffer.take_part(false)?))
                }
                _ => Ok(ReadStep::Continue),
            },
            (gives_parts, true) => {
                let Some(mut message) = self.message.take() else {
                    return Err(ProtocolError::UnexpectedContinuation);
                };
                Ok(ReadStep::Message(match gives_parts {
                    true => message.buffer.take_part(true)?,
                    false => message.buffer.into_message()?,
                }))
            }
        }
    }

    /// Ends the decoder after an error.
    #[cold]
    fn end(&mut self, input: &mut Bytes) {
        self.is_over = true;
        self.takes_short = false;
        self.message = None;
        self.frame = None;
        input.clear();
    }
}

enum ReadStep {
    Message(WebSocketMessage),
    Continue,
    /// All of the input was consumed.
    NeedsMore,
}

/// Appends inflated data to a message.
fn append(
    buffer: &mut MessageBuffer,
    data: &[u8],
    received: &mut u64,
    limit: u64,
) -> Result<(), ProtocolError> {
    *received += data.len() as u64;
    if *received > limit {
        return Err(ProtocolError::MessageTooBig { limit });
    }
    buffer.append(data)
}

impl From<CorruptData> for ProtocolError {
    fn from(_: CorruptData) -> Self {
        Self::CorruptDeflate
    }
}

/// Parses the payload of a Close frame.
fn parse_close(payload: &[u8]) -> Result<Option<CloseReason>, ProtocolError> {
    match payload {
        [] => Ok(None),
        [_] => Err(ProtocolError::CloseTooShort),
        [high, low, text @ ..] => {
            let code = u16::from_be_bytes([*high, *low]);
            let code = CloseCode::new(code).ok_or(ProtocolError::InvalidCloseCode { code })?;
            let text = str::from_utf8(text).map_err(|_| ProtocolError::InvalidCloseText)?;
            Ok(Some(CloseReason::new(code, text)))
        }
    }
}
