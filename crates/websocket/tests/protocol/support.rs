//! Frames by hand, and a decoder that is fed in pieces.

use bytes::{Bytes, BytesMut};
use waterwheel_websocket::{
    MessageDecoder, MessageEncoder, MessagePart, PartData, WebSocketLimits, WebSocketMessage,
    WebSocketRole,
};

use super::naive_decoder::{Decoded, NaiveDecoder};

pub(crate) const ROLES: [WebSocketRole; 2] = [WebSocketRole::Server, WebSocketRole::Client];

pub(crate) const FINAL: u8 = 0x80;
pub(crate) const RSV1: u8 = 0x40;
pub(crate) const CONTINUATION: u8 = 0;
pub(crate) const TEXT: u8 = 1;
pub(crate) const BINARY: u8 = 2;
pub(crate) const CLOSE: u8 = 8;
pub(crate) const PING: u8 = 9;
pub(crate) const PONG: u8 = 10;

const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// Returns the head of a frame for an endpoint with this role, with a length field of the caller's choice.
pub(crate) fn head(to: WebSocketRole, first: u8, short_len: u8, extended: &[u8]) -> Vec<u8> {
    let is_masked = to == WebSocketRole::Server;
    let mut bytes = vec![first, short_len | if is_masked { 0x80 } else { 0 }];
    bytes.extend_from_slice(extended);
    if is_masked {
        bytes.extend_from_slice(&MASK);
    }
    bytes
}

/// Returns the head of a frame of this length.
pub(crate) fn head_of(to: WebSocketRole, first: u8, len: u64) -> Vec<u8> {
    match len {
        0..=125 => head(to, first, len as u8, &[]),
        126..=0xffff => head(to, first, 126, &(len as u16).to_be_bytes()),
        _ => head(to, first, 127, &len.to_be_bytes()),
    }
}

/// Returns the payload of a frame as it is sent to an endpoint with this role.
pub(crate) fn masked(to: WebSocketRole, payload: &[u8]) -> Vec<u8> {
    match to {
        WebSocketRole::Client => payload.to_vec(),
        WebSocketRole::Server => {
            payload.iter().enumerate().map(|(at, byte)| byte ^ MASK[at % 4]).collect()
        }
    }
}

/// Returns a frame for an endpoint with this role.
pub(crate) fn frame(to: WebSocketRole, first: u8, payload: &[u8]) -> Vec<u8> {
    [head_of(to, first, payload.len() as u64), masked(to, payload)].concat()
}

/// Returns several frames for an endpoint with this role.
pub(crate) fn frames(to: WebSocketRole, frames: &[(u8, &[u8])]) -> Vec<u8> {
    frames.iter().flat_map(|(first, payload)| frame(to, *first, payload)).collect()
}

pub(crate) fn text(text: &str) -> WebSocketMessage {
    WebSocketMessage::text(text)
}

pub(crate) fn binary(bytes: &[u8]) -> WebSocketMessage {
    WebSocketMessage::binary(bytes.to_vec())
}

pub(crate) fn ping(bytes: &'static [u8]) -> WebSocketMessage {
    WebSocketMessage::Ping(Bytes::from_static(bytes))
}

pub(crate) fn part(data: impl Into<PartDataOf>, is_last: bool) -> WebSocketMessage {
    WebSocketMessage::Part(MessagePart { data: data.into().0, is_last })
}

/// The data of a part, made of a text or of bytes.
pub(crate) struct PartDataOf(PartData);

impl From<&str> for PartDataOf {
    fn from(text: &str) -> Self {
        Self(PartData::Text(text.into()))
    }
}

impl From<&[u8]> for PartDataOf {
    fn from(bytes: &[u8]) -> Self {
        Self(PartData::Binary(bytes.to_vec().into()))
    }
}

/// Returns a decoder with the default limits.
pub(crate) fn decoder(role: WebSocketRole) -> MessageDecoder {
    MessageDecoder::new(role, WebSocketLimits::default())
}

/// Returns the slow decoder with the default limits.
pub(crate) fn naive(role: WebSocketRole) -> NaiveDecoder {
    NaiveDecoder { role, max_frame: u64::MAX, max_message: 1 << 20, deflate: None }
}

/// Reads all messages of one piece; checks that the decoder takes all of it, and nothing behind a Close or an error.
pub(crate) fn decode_piece(decoder: &mut MessageDecoder, piece: &[u8], decoded: &mut Decoded) {
    let mut input = Bytes::copy_from_slice(piece);
    loop {
        let left = input.len();
        match decoder.decode(&mut input) {
            Ok(Some(message)) => {
                assert_eq!(decoded.1, None, "{message:?} came after an error");
                decoded.0.push(message);
            }
            Ok(None) => {
                assert!(input.is_empty(), "{} of {left} bytes were left", input.len());
                return;
            }
            Err(error) => {
                assert_eq!(decoded.1.replace(error), None, "a second error");
                assert!(input.is_empty(), "what follows an error is dropped");
            }
        }
    }
}

/// Reads all messages of the pieces.
pub(crate) fn decode<'a>(
    mut decoder: MessageDecoder,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Decoded {
    let mut decoded = Decoded::default();
    for piece in pieces {
        decode_piece(&mut decoder, piece, &mut decoded);
    }
    decoded
}

/// Reads the bytes in one piece, in two with every cut, and byte by byte: the outcome has to be the same; then compares it
/// with that of the slow decoder, and that with it for each beginning of the bytes.
#[track_caller]
pub(crate) fn decode_every_way(
    make: impl Fn() -> MessageDecoder,
    naive: NaiveDecoder,
    bytes: &[u8],
) -> Decoded {
    let whole = decode(make(), [bytes]);
    for cut in 0..=bytes.len() {
        let (first, second) = bytes.split_at(cut);
        assert_eq!(decode(make(), [first, second]), whole, "cut at {cut} of {}", bytes.len());
    }
    let (mut by_bytes, mut decoder) = (Decoded::default(), make());
    for (at, byte) in bytes.iter().enumerate() {
        decode_piece(&mut decoder, &[*byte], &mut by_bytes);
        assert_eq!(by_bytes, naive.decode(&bytes[..=at]), "after byte {at} of {}", bytes.len());
    }
    assert_eq!(by_bytes, whole, "byte by byte");
    whole
}

/// Joins the parts of messages; those of a message without end are left out.
pub(crate) fn join_parts(messages: Vec<WebSocketMessage>) -> Vec<WebSocketMessage> {
    let (mut joined, mut open) = (Vec::new(), None);
    for message in messages {
        let WebSocketMessage::Part(part) = message else {
            assert!(!matches!(message, WebSocketMessage::Text(_) | WebSocketMessage::Binary(_)));
            joined.push(message);
            continue;
        };
        assert!(part.is_last || !part.data.is_empty(), "an empty part that is not the last");
        let (is_text, data) = match &part.data {
            PartData::Text(text) => (true, text.as_bytes().as_ref()),
            PartData::Binary(bytes) => (false, &bytes[..]),
        };
        let (kind, before): &mut (bool, Vec<u8>) = open.get_or_insert((is_text, Vec::new()));
        assert_eq!(*kind, is_text, "the parts of a message are of one kind");
        before.extend_from_slice(data);
        if part.is_last {
            let (_, data) = open.take().unwrap();
            joined.push(match is_text {
                true => WebSocketMessage::text(String::from_utf8(data).unwrap()),
                false => WebSocketMessage::binary(data),
            });
        }
    }
    joined
}

/// Returns the other side.
pub(crate) fn peer_of(role: WebSocketRole) -> WebSocketRole {
    match role {
        WebSocketRole::Server => WebSocketRole::Client,
        WebSocketRole::Client => WebSocketRole::Server,
    }
}

/// Encodes a message that may be sent, as a whole.
#[track_caller]
pub(crate) fn encode(encoder: &mut MessageEncoder, message: WebSocketMessage) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    let payload = encoder.encode(message, &mut bytes).unwrap();
    bytes.extend_from_slice(&payload.unwrap_or_default());
    bytes.to_vec()
}
