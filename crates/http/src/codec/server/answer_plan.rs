//! How an answer is framed, by its request and its head.

use http::{Method, StatusCode, Version, header};

use crate::protocol::encoder::ConnectionField;
use crate::protocol::error::MessageError;
use crate::protocol::fields::has_element;
use crate::protocol::framing::{BodyFraming, may_have_body};
use crate::protocol::request_head::RequestHead;
use crate::protocol::response_decoder::ResponseHead;

/// A request in flight: what its answer depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct AskedRequest {
    /// The number of the request on its connection.
    pub(super) number: u64,
    pub(super) is_head: bool,
    pub(super) is_connect: bool,
    pub(super) is_http10: bool,
    /// True if nothing follows the answer on this connection.
    pub(super) closes: bool,
    /// True until the client is told to go on, or sends its body by itself.
    pub(super) awaits_continue: bool,
    /// True if a handler wants the client to be told to go on.
    pub(super) may_continue: bool,
    /// Why the request is refused: then the codec answers it.
    pub(super) refused: Option<MessageError>,
}

impl AskedRequest {
    pub(super) fn of(head: &RequestHead, number: u64) -> Self {
        Self {
            number,
            is_head: *head.method() == Method::HEAD,
            is_connect: *head.method() == Method::CONNECT,
            is_http10: head.version() == Version::HTTP_10,
            closes: !head.keeps_alive(),
            awaits_continue: head.expects_continue(),
            may_continue: false,
            refused: None,
        }
    }

    /// Returns the facts of a request that was refused before its head was complete.
    pub(super) fn of_refused(number: u64, is_head: bool, error: MessageError) -> Self {
        Self {
            number,
            is_head,
            is_connect: false,
            is_http10: false,
            closes: true,
            awaits_continue: false,
            may_continue: false,
            refused: Some(error),
        }
    }
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlannedAnswer {
    pub(super) framing: BodyFraming,
    pub(super) connection: ConnectionField,
    pub(super) sends_body: bool,
    /// True if HTTP ends on this connection with the answer: another protocol follows.
    pub(super) is_upgrade: bool,
    /// True if the connection ends with the answer.
    pub(super) closes: bool,
}

impl PlannedAnswer {
    /// Decides how an answer is framed; `must_close` is true if the state of the connection has it end.
    pub(super) fn of(head: &ResponseHead, facts: &AskedRequest, must_close: bool) -> Self {
        let status = head.status;
        if status == StatusCode::SWITCHING_PROTOCOLS || (facts.is_connect && status.is_success()) {
            let connection = match status {
                StatusCode::SWITCHING_PROTOCOLS => ConnectionField::Upgrade,
                _ => ConnectionField::Absent,
            };
            let framing = BodyFraming::None;
            return Self {
                framing,
                connection,
                sends_body: false,
                is_upgrade: true,
                closes: false,
            };
        }
        let framing = match head.framing {
            _ if !may_have_body(status) => BodyFraming::None,
            BodyFraming::Length(0) | BodyFraming::None if has_own_length(head, facts) => {
                BodyFraming::None
            }
            BodyFraming::None => BodyFraming::Length(0),
            BodyFraming::Length(length) => BodyFraming::Length(length),
            BodyFraming::Chunked | BodyFraming::UntilClose if facts.is_head => BodyFraming::None,
            BodyFraming::Chunked | BodyFraming::UntilClose if facts.is_http10 => {
                BodyFraming::UntilClose
            }
            BodyFraming::Chunked | BodyFraming::UntilClose => BodyFraming::Chunked,
        };
        let closes = must_close
            || facts.closes
            || !head.keeps_alive
            // The client may have begun to speak another protocol already.
            || facts.is_connect
            || framing == BodyFraming::UntilClose
            || has_element(&head.headers, &header::CONNECTION, "close");
        let connection = ConnectionField::of_response(closes, facts.is_http10, &head.headers);
        let sends_body = !facts.is_head && may_have_body(status);
        Self { framing, connection, sends_body, is_upgrade: false, closes }
    }
}

/// True if the fields say how long the body would be that a HEAD request does not get.
fn has_own_length(head: &ResponseHead, facts: &AskedRequest) -> bool {
    facts.is_head && head.headers.contains_key(header::CONTENT_LENGTH)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn facts(method: Method, version: Version) -> AskedRequest {
        let request = http::Request::builder().method(method).version(version).body(()).unwrap();
        let head = RequestHead::from_parts(request.into_parts().0, BodyFraming::None);
        AskedRequest::of(&head, 0)
    }

    fn plan(status: u16, framing: BodyFraming, facts: &AskedRequest) -> PlannedAnswer {
        let head = ResponseHead::new(StatusCode::from_u16(status).unwrap(), framing);
        PlannedAnswer::of(&head, facts, false)
    }

    #[test]
    fn h04_the_framing_of_an_answer_by_request_and_status() {
        use BodyFraming::{Chunked, Length, None, UntilClose};
        let get = facts(Method::GET, Version::HTTP_11);
        let head = facts(Method::HEAD, Version::HTTP_11);
        let old = facts(Method::GET, Version::HTTP_10);
        let cases = [
            (200, Length(5), &get, Length(5), true, false),
            (200, None, &get, Length(0), true, false),
            (200, Chunked, &get, Chunked, true, false),
            (200, UntilClose, &get, Chunked, true, false),
            (204, Length(5), &get, None, false, false),
            (304, Chunked, &get, None, false, false),
            (200, Length(5), &head, Length(5), false, false),
            (200, Chunked, &head, None, false, false),
            (200, Length(5), &old, Length(5), true, true),
            (200, Chunked, &old, UntilClose, true, true),
        ];
        for (status, framing, facts, planned, sends_body, closes) in cases {
            let plan = plan(status, framing, facts);
            let found = (plan.framing, plan.sends_body, plan.closes, plan.is_upgrade);
            assert_eq!(found, (planned, sends_body, closes, false), "{status} {framing:?}");
        }
    }

    #[test]
    fn h04_upgrades_and_connects_end_http() {
        let get = facts(Method::GET, Version::HTTP_11);
        let connect = facts(Method::CONNECT, Version::HTTP_11);
        assert!(plan(101, BodyFraming::None, &get).is_upgrade);
        assert!(plan(200, BodyFraming::Length(3), &connect).is_upgrade);
        let refused = plan(403, BodyFraming::Length(3), &connect);
        assert!(!refused.is_upgrade && refused.closes);
    }

    #[test]
    fn h04_the_length_of_a_body_that_head_does_not_get_may_stand_in_the_fields() {
        let mut head = ResponseHead::new(StatusCode::OK, BodyFraming::Length(0));
        head.headers.insert("content-length", HeaderValue::from_static("7"));
        let planned = |facts| PlannedAnswer::of(&head, &facts, false).framing;
        assert_eq!(planned(facts(Method::HEAD, Version::HTTP_11)), BodyFraming::None);
        assert_eq!(planned(facts(Method::GET, Version::HTTP_11)), BodyFraming::Length(0));
    }
}
