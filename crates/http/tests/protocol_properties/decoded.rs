//! Events of the decoders, in a form that can be compared.

use bytes::Bytes;
use http::{HeaderMap, Method};
use waterwheel_http::{
    BodyFraming, MessageError, MessageLimits, RequestDecoder, RequestEvent, ResponseDecoder,
    ResponseEvent,
};

/// An event of a decoder, in a form that can be compared. Data that came in several pieces is one event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Seen {
    Head(SeenHead),
    Data(Vec<u8>),
    End(HeaderMap),
    Failed(MessageError),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SeenHead {
    pub(crate) start: String,
    pub(crate) headers: HeaderMap,
    pub(crate) framing: BodyFraming,
    pub(crate) keeps_alive: bool,
}

pub(crate) fn push_data(events: &mut Vec<Seen>, data: &[u8]) {
    match events.last_mut() {
        Some(Seen::Data(before)) => before.extend_from_slice(data),
        _ if data.is_empty() => {}
        _ => events.push(Seen::Data(data.to_vec())),
    }
}

pub(crate) fn has_body(framing: BodyFraming) -> bool {
    !matches!(framing, BodyFraming::None | BodyFraming::Length(0))
}

/// Decodes pieces; `decode` takes the next event off the front of the buffer and appends it, and returns false if it
/// needs more bytes.
pub(crate) fn decode_pieces(
    pieces: &[&[u8]],
    mut decode: impl FnMut(&mut Bytes, &mut Vec<Seen>) -> Result<bool, MessageError>,
) -> Vec<Seen> {
    let (mut events, mut kept) = (Vec::new(), Vec::new());
    for piece in pieces {
        kept.extend_from_slice(piece);
        let mut buf = Bytes::from(std::mem::take(&mut kept));
        loop {
            match decode(&mut buf, &mut events) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    events.push(Seen::Failed(error));
                    return events;
                }
            }
        }
        kept = buf.to_vec();
    }
    events
}

pub(crate) fn decode_requests(limits: MessageLimits, pieces: &[&[u8]]) -> Vec<Seen> {
    let mut decoder = RequestDecoder::new(limits);
    decode_pieces(pieces, |buf, events| {
        match decoder.decode(buf)? {
            None => return Ok(false),
            Some(RequestEvent::Head(head)) => events.push(Seen::Head(SeenHead {
                start: format!("{} {} {:?}", head.method(), head.uri(), head.version()),
                headers: head.headers().clone(),
                framing: head.framing(),
                keeps_alive: head.keeps_alive(),
            })),
            Some(RequestEvent::Data(data)) => push_data(events, &data),
            Some(RequestEvent::End(trailers)) => {
                events.push(Seen::End(trailers.map_or_else(HeaderMap::new, |fields| *fields)));
            }
        }
        Ok(true)
    })
}

/// Decodes as many answers to GET as come, and the end of the connection.
pub(crate) fn decode_responses(limits: MessageLimits, pieces: &[&[u8]]) -> Vec<Seen> {
    let mut decoder = ResponseDecoder::new(limits);
    decoder.expect(Method::GET);
    let mut last_start = 0;
    let mut events = decode_pieces(pieces, |buf, events| {
        let head = match decoder.decode(buf)? {
            None => return Ok(false),
            Some(ResponseEvent::Interim(head)) => head,
            Some(ResponseEvent::Head(head)) => {
                if !has_body(head.framing) {
                    decoder.expect(Method::GET);
                }
                head
            }
            Some(ResponseEvent::Data(data)) => {
                push_data(events, &data);
                return Ok(true);
            }
            Some(ResponseEvent::End(trailers)) => {
                events.push(Seen::End(trailers.map_or_else(HeaderMap::new, |fields| *fields)));
                decoder.expect(Method::GET);
                return Ok(true);
            }
        };
        last_start = events.len();
        events.push(Seen::Head(SeenHead {
            start: format!("{:?} {}", head.version, head.status.as_str()),
            headers: head.headers,
            framing: head.framing,
            keeps_alive: head.keeps_alive,
        }));
        Ok(true)
    });
    let ends_with_connection = events.get(last_start).is_some_and(
        |event| matches!(event, Seen::Head(head) if head.framing == BodyFraming::UntilClose),
    );
    let has_failed = matches!(events.last(), Some(Seen::Failed(_)));
    match decoder.finish() {
        Ok(Some(ResponseEvent::End(None))) => {
            assert!(ends_with_connection, "{events:?}");
            events.push(Seen::End(HeaderMap::new()));
        }
        Ok(other) => panic!("a response was expected, and {other:?} ended"),
        Err(_) if has_failed => {}
        Err(error) => events.push(Seen::Failed(error)),
    }
    events
}

/// Removes data before a failure, of which more may be seen the finer the bytes are cut.
pub(crate) fn without_partial_data(mut events: Vec<Seen>) -> Vec<Seen> {
    if let [.., Seen::Data(_), Seen::Failed(_)] = events[..] {
        events.remove(events.len() - 2);
    }
    events
}

/// True for the errors of limits.
pub(crate) fn is_limit(error: &MessageError) -> bool {
    !matches!(
        error,
        MessageError::Malformed(_)
            | MessageError::UnsupportedVersion
            | MessageError::UnsupportedCoding
    )
}

/// Compares the events of two ways to cut the same bytes. A message with several faults is refused for the one that is
/// found first, with the status of that; but a malformed message is never accepted, nor answered as an unsupported one.
pub(crate) fn assert_same(first: Vec<Seen>, second: Vec<Seen>) {
    let (mut first, mut second) = (without_partial_data(first), without_partial_data(second));
    if let (Some(Seen::Failed(one)), Some(Seen::Failed(other))) = (first.last(), second.last()) {
        assert!(is_limit(one) || is_limit(other) || one.status() == other.status());
        first.pop();
        second.pop();
    }
    assert_eq!(first, second);
}
