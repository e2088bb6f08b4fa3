//! Random messages and random bytes through the encoders and decoders: what is encoded decodes to itself, and nothing
//! depends on how the bytes are cut.

mod decoded;
mod sent;

use bytes::BytesMut;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use waterwheel_http::{Malformation, MessageLimits};

use decoded::{Seen, assert_same, decode_requests, decode_responses};
use sent::{cuts, limits, requests, responses, rubble};

fn pieces<'a>(bytes: &'a [u8], cuts: &[Index]) -> Vec<&'a [u8]> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    at.sort_unstable();
    let mut pieces = Vec::new();
    let mut start = 0;
    for end in at.into_iter().chain([bytes.len()]) {
        pieces.push(&bytes[start..end]);
        start = end;
    }
    pieces
}

#[test]
fn h02_empty_lines_before_a_request_count_for_no_limit() {
    let bytes = b"\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\nHost:\r\n\r\n";
    let limits = MessageLimits::default().max_head_bytes(bytes.len() - 8);
    for step in 1..=bytes.len() {
        let pieces: Vec<&[u8]> = bytes.chunks(step).collect();
        let events = decode_requests(limits, &pieces);
        assert!(matches!(events[..], [Seen::Head(_)]), "in steps of {step}: {events:?}");
    }
    let events = decode_requests(limits.max_head_bytes(0), &[b"\r", b"\n"]);
    assert!(events.is_empty(), "{events:?}");
}

proptest! {
    #[test]
    fn h03_requests_decode_to_what_was_encoded(sent in vec(requests(), 1..4), cuts in cuts()) {
        let mut bytes = BytesMut::new();
        let mut expected = Vec::new();
        for request in &sent {
            request.encode(&mut bytes);
            expected.extend(request.events());
        }
        let limits = MessageLimits::default();
        prop_assert_eq!(&decode_requests(limits, &[&bytes]), &expected);
        prop_assert_eq!(&decode_requests(limits, &pieces(&bytes, &cuts)), &expected);
        let bytewise: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(&decode_requests(limits, &bytewise), &expected);
    }

    #[test]
    fn h03_responses_decode_to_what_was_encoded(sent in vec(responses(), 1..4), cuts in cuts()) {
        let mut bytes = BytesMut::new();
        let mut expected = Vec::new();
        for response in &sent {
            response.encode(&mut bytes);
            expected.extend(response.events());
        }
        // The next response is still to come when the connection ends.
        expected.push(Seen::Failed(Malformation::Truncated.into()));
        let limits = MessageLimits::default();
        prop_assert_eq!(&decode_responses(limits, &[&bytes]), &expected);
        prop_assert_eq!(&decode_responses(limits, &pieces(&bytes, &cuts)), &expected);
        let bytewise: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(&decode_responses(limits, &bytewise), &expected);
    }

    #[test]
    fn h03_no_cut_changes_what_a_request_is(
        bytes in prop_oneof![rubble(), vec(any::<u8>(), 0..200)],
        limits in limits(),
        cuts in cuts(),
    ) {
        let whole = decode_requests(limits, &[&bytes]);
        assert_same(whole.clone(), decode_requests(limits, &pieces(&bytes, &cuts)));
        let bytewise: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_same(whole, decode_requests(limits, &bytewise));
    }

    #[test]
    fn h03_no_cut_changes_what_a_response_is(
        bytes in prop_oneof![rubble(), vec(any::<u8>(), 0..200)],
        limits in limits(),
        cuts in cuts(),
    ) {
        let whole = decode_responses(limits, &[&bytes]);
        assert_same(whole.clone(), decode_responses(limits, &pieces(&bytes, &cuts)));
        let bytewise: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_same(whole, decode_responses(limits, &bytewise));
    }

    #[test]
    fn h03_a_damaged_request_never_becomes_two(
        sent in requests(),
        at in any::<Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = BytesMut::new();
        sent.encode(&mut bytes);
        let mut damaged = bytes.to_vec();
        let at = at.index(damaged.len());
        damaged[at] = byte;
        let heads = |events: &[Seen]| {
            events.iter().filter(|event| matches!(event, Seen::Head(_))).count()
        };
        let events = decode_requests(MessageLimits::default(), &[&damaged]);
        // A damaged framing field may turn the body into a message of its own, but not into a valid one: it is random.
        prop_assert!(heads(&events) <= 1, "{events:?}");
    }
}
