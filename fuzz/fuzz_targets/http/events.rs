//! Fuzzes the decoder of event streams: decoded events do not depend on cuts, and decode to themselves when they are
//! encoded again.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use waterwheel_fuzz::Input;
use waterwheel_http::{EventDecoder, EventStreamError, ReceivedEvent, ServerEvent};

type Decoded = (Vec<ReceivedEvent>, Option<EventStreamError>);

fn decode<'a>(mut decoder: EventDecoder, pieces: impl IntoIterator<Item = &'a [u8]>) -> Decoded {
    let mut events = Vec::new();
    for piece in pieces {
        let mut bytes = Bytes::copy_from_slice(piece);
        loop {
            match decoder.decode(&mut bytes) {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(error) => return (events, Some(error)),
            }
        }
        assert!(bytes.is_empty(), "the decoder wants more and has not consumed everything");
    }
    (events, None)
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let (line, event, step) = (input.below(64), input.below(128), 1 + input.below(64));
    let make = || EventDecoder::new().max_line(line).max_event(event);
    let stream = input.0;
    let whole = decode(make(), [stream]);
    assert_eq!(whole, decode(make(), stream.chunks(step)), "in pieces of {step}");
    assert_eq!(whole, decode(make(), stream.chunks(1)), "byte by byte");

    let mut wire = Vec::new();
    for event in &whole.0 {
        let again = ServerEvent::new(event.data.as_str());
        let again = again.name(event.name.as_str()).and_then(|again| again.id(&*event.id));
        wire.extend_from_slice(again.expect("a decoded event can be encoded").encode().bytes());
    }
    assert_eq!(decode(EventDecoder::new(), [&wire[..]]), (whole.0, None));
});
