//! The decoder of event streams against the encoder, and against itself (H10).

use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use waterwheel_http::{EventDecoder, EventStreamError, ReceivedEvent, ServerEvent};

/// Decodes a stream in pieces whose lengths are `cuts`, repeated.
fn decode(
    decoder: &mut EventDecoder,
    wire: &[u8],
    cuts: &[usize],
) -> (Vec<ReceivedEvent>, Option<EventStreamError>) {
    let (mut rest, mut decoded) = (Bytes::copy_from_slice(wire), Vec::new());
    for cut in cuts.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let mut piece = rest.split_to(rest.len().min(*cut));
        loop {
            match decoder.decode(&mut piece) {
                Ok(Some(event)) => decoded.push(event),
                Ok(None) => break,
                Err(error) => return (decoded, Some(error)),
            }
        }
        assert!(piece.is_empty(), "everything is consumed before more is needed");
    }
    (decoded, None)
}

/// Bytes that are mostly parts of fields.
fn wild_stream() -> impl Strategy<Value = Vec<u8>> {
    let special: Vec<&'static [u8]> =
        vec![b"data", b"id", b"event", b"retry", b":", b" ", b"\n", b"\r", b"\r\n", b"\n\n", b"7"];
    let odd: Vec<&'static [u8]> = vec![b"\0", b"\xef\xbb\xbf", b"\xef", b"\xff", b"\xc3\xa9"];
    let part = prop_oneof![3 => prop::sample::select(special), 1 => prop::sample::select(odd)];
    prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

/// Parts of texts that are special to the format.
fn part() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["\n", "\r", "\r\n", ":", " ", "a", "data", "id: 1", "\u{feff}", "é"])
}

/// The fields of an event: data, name, id, comment, retry.
type Fields = (Option<String>, Option<String>, Option<String>, Option<String>, Option<u64>);

fn fields() -> impl Strategy<Value = Fields> {
    let text = || prop::collection::vec(part(), 0..8).prop_map(|parts| parts.concat());
    let line = || text().prop_map(|text| text.replace(['\r', '\n'], ""));
    use prop::option::of;
    (of(text()), of(line()), of(line()), of(text()), of(0u64..5000))
}

fn make_event((data, name, id, comment, retry): &Fields) -> ServerEvent {
    let mut event = data.as_ref().map_or_else(ServerEvent::without_data, ServerEvent::new);
    if let Some(name) = name {
        event = event.name(name).unwrap();
    }
    if let Some(id) = id {
        event = event.id(id).unwrap();
    }
    if let Some(comment) = comment {
        event = event.comment(comment);
    }
    match retry {
        Some(retry) => event.retry(Duration::from_millis(*retry)),
        None => event,
    }
}

proptest! {
    #[test]
    fn h10_encoded_events_decode_to_themselves_however_they_are_cut(
        events in prop::collection::vec(fields(), 1..6),
        cuts in prop::collection::vec(1usize..20, 1..8),
    ) {
        let (mut wire, mut expected) = (Vec::new(), Vec::new());
        let (mut id, mut retry) = (String::new(), None);
        for fields in events {
            wire.extend_from_slice(make_event(&fields).encode().bytes());
            // The id and the time stay until they are set again, with or without data.
            id = fields.2.unwrap_or(id);
            retry = fields.4.map(Duration::from_millis).or(retry);
            if let Some(data) = fields.0 {
                let name = fields.1.filter(|name| !name.is_empty());
                let name = name.unwrap_or_else(|| "message".into());
                let data = data.replace("\r\n", "\n").replace('\r', "\n");
                expected.push(ReceivedEvent { name, data, id: id.as_str().into() });
            }
        }
        let mut decoder = EventDecoder::new();
        prop_assert_eq!(decode(&mut decoder, &wire, &cuts), (expected, None));
        prop_assert_eq!(decoder.last_event_id(), id);
        prop_assert_eq!(decoder.retry(), retry);
    }

    #[test]
    fn h10_any_bytes_decode_the_same_however_they_are_cut(
        wire in wild_stream(),
        cuts in prop::collection::vec(1usize..20, 1..8),
        max_line in 0usize..40,
        max_event in 0usize..60,
    ) {
        let decoder = EventDecoder::new().max_line(max_line).max_event(max_event);
        let whole = decode(&mut decoder.clone(), &wire, &[usize::MAX]);
        prop_assert_eq!(&decode(&mut decoder.clone(), &wire, &cuts), &whole);
        prop_assert_eq!(&decode(&mut decoder.clone(), &wire, &[1]), &whole);
    }
}

#[test]
fn r04_events_share_their_id() {
    let mut decoder = EventDecoder::new();
    let mut bytes = Bytes::from(format!("id: {}\ndata\n\ndata\n\n", "i".repeat(60_000)));
    let first = decoder.decode(&mut bytes).unwrap().unwrap();
    let second = decoder.decode(&mut bytes).unwrap().unwrap();
    assert_eq!((first.id.len(), second.id.len()), (60_000, 60_000));
    assert_eq!(first.id.as_ptr(), second.id.as_ptr(), "six bytes cost a copy of 60,000");
}
