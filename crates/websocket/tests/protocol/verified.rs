//! The decoder in pipelines of the testkit's verifier, which cuts its input in every way (K05).

use bytes::Bytes;
use waterwheel_channel::Decoder;
use waterwheel_executor::Error;
use waterwheel_testkit::decoder_verifier::DecoderVerifier;
use waterwheel_websocket::{MessageDecoder, ProtocolError, WebSocketMessage};

use super::deflate::{agreed, pair};
use super::support::*;

struct Verified(MessageDecoder);

impl Decoder for Verified {
    type Out = WebSocketMessage;

    fn decode(&mut self, buf: &mut Bytes) -> Result<Option<WebSocketMessage>, Error> {
        self.0.decode(buf).map_err(Error::new)
    }
}

#[test]
fn k05_the_decoder_verifier_accepts_the_decoder() {
    for role in ROLES {
        let long = "漢字".repeat(400);
        DecoderVerifier::new(move || Verified(decoder(role)))
            .gives(frame(role, FINAL | TEXT, b"Hello"), [text("Hello")])
            .gives(frame(role, FINAL | BINARY, &[7; 300]), [binary(&[7; 300])])
            .gives(frame(role, TEXT, &long.as_bytes()[..1000]), [])
            .gives(frame(role, FINAL | PING, b"?"), [ping(b"?")])
            .gives(frame(role, FINAL | CONTINUATION, &long.as_bytes()[1000..]), [text(&long)])
            .fails(frame(role, FINAL | TEXT, b"\xff"), ProtocolError::InvalidUtf8)
            .verify();
        let mut compressed = Vec::new();
        let (mut encoder, _) = pair(peer_of(role), true);
        for _ in 0..3 {
            compressed.push(encode(&mut encoder, text("a message that is compressed")));
        }
        let mut verifier =
            DecoderVerifier::new(move || Verified(decoder(role).deflate(&agreed(true))));
        for frame in compressed {
            verifier = verifier.gives(frame, [text("a message that is compressed")]);
        }
        verifier.verify();
    }
}
