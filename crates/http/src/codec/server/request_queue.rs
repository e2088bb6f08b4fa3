//! The requests of a connection that have no complete answer, in order, and the body that is being received.

use std::collections::VecDeque;

use super::answer_plan::AskedRequest;
use crate::protocol::error::MessageError;
use crate::protocol::framing::BodyFraming;
use crate::protocol::request_head::RequestHead;
use crate::server::options::MAX_SKIPPED;

/// The requests in flight. A value: knows no channel.
#[derive(Debug, Default)]
pub(super) struct RequestQueue {
    unanswered: VecDeque<AskedRequest>,
    /// The number of the next request.
    next_number: u64,
    /// True if the request that began last is the last one of the connection.
    is_complete: bool,
    /// The request whose answer may change the protocol.
    upgrading: Option<u64>,
    /// The body that is being received. Its request may be answered already.
    body: Option<ReceivedBody>,
}

/// A body on its way in.
#[derive(Clone, Copy, Debug)]
struct ReceivedBody {
    /// The number of its request.
    number: u64,
    /// The bytes that are still to come, if the length is known.
    left: Option<u64>,
    /// The bytes that have come after the answer.
    skipped: u64,
}

impl RequestQueue {
    pub(super) fn len(&self) -> usize {
        self.unanswered.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unanswered.is_empty()
    }

    /// Returns the request whose turn it is.
    pub(super) fn front(&self) -> Option<AskedRequest> {
        self.unanswered.front().copied()
    }

    /// True if another request may follow those that have begun.
    pub(super) fn may_begin(&self) -> bool {
        // What follows an Upgrade may be another protocol.
        !self.is_complete && self.upgrading.is_none()
    }

    /// Appends a request; `may_continue` if its client is told to go on without being asked.
    pub(super) fn begin(&mut self, head: &RequestHead, has_body: bool, may_continue: bool) {
        let number = self.next_number;
        let asked = AskedRequest { may_continue, ..AskedRequest::of(head, number) };
        self.next_number += 1;
        self.is_complete = asked.closes;
        self.upgrading = (head.wants_upgrade() || asked.is_connect).then_some(number);
        let left = match head.framing() {
            BodyFraming::Length(length) => Some(length),
            _ => None,
        };
        self.body = has_body.then_some(ReceivedBody { number, left, skipped: 0 });
        self.unanswered.push_back(asked);
    }

    /// Notes bytes of the body. Returns false if its request is answered, and so much has come since that the rest is not
    /// worth reading.
    pub(super) fn receive(&mut self, len: u64) -> bool {
        let is_unanswered = match self.receiving() {
            Some(asked) => {
                asked.awaits_continue = false;
                true
            }
            None => false,
        };
        let Some(body) = &mut self.body else { return true };
        body.left = body.left.map(|left| left.saturating_sub(len));
        body.skipped += if is_unanswered { 0 } else { len };
        body.skipped <= MAX_SKIPPED
    }

    pub(super) fn end_body(&mut self) {
        self.body = None;
    }

    pub(super) fn has_body(&self) -> bool {
        self.body.is_some()
    }

    /// Returns the request whose body is being received, if it has no complete answer: then it is the last one.
    fn receiving(&mut self) -> Option<&mut AskedRequest> {
        let number = self.body.as_ref()?.number;
        self.unanswered.back_mut().filter(|asked| asked.number == number)
    }

    /// Notes that a handler wants the client to be told to go on with the body that it holds back.
    pub(super) fn want_body(&mut self) {
        if let Some(asked) = self.receiving() {
            asked.may_continue = true;
        }
    }

    /// Returns true, once, if `100 Continue` is to be written now: the client waits for it, and it is its turn.
    pub(super) fn take_go_on(&mut self) -> bool {
        let is_its_turn = self.unanswered.len() == 1;
        match self.receiving() {
            Some(asked) if is_its_turn && asked.may_continue => {
                std::mem::take(&mut asked.awaits_continue)
            }
            _ => false,
        }
    }

    /// True if the rest of this request's body may never come, or is not worth reading, so that nothing can follow it.
    pub(super) fn must_close_after(&self, asked: &AskedRequest) -> bool {
        let body = self.body.filter(|body| body.number == asked.number);
        body.is_some_and(|body| asked.awaits_continue || body.left > Some(MAX_SKIPPED))
    }

    /// True if the answer to this request may change the protocol: it asks for that, and it has come as a whole.
    pub(super) fn may_upgrade(&self, asked: &AskedRequest) -> bool {
        self.upgrading == Some(asked.number) && self.body.is_none()
    }

    /// Refuses the request that is being received: one whose body has begun, otherwise a new one. Returns false if it is
    /// answered already.
    pub(super) fn refuse(&mut self, error: MessageError, is_head: bool) -> bool {
        if !self.has_body() {
            let asked = AskedRequest::of_refused(self.next_number, is_head, error);
            self.unanswered.push_back(asked);
            return true;
        }
        let is_answerable = match self.receiving() {
            Some(asked) => {
                asked.refused = Some(error);
                true
            }
            None => false,
        };
        self.body = None;
        is_answerable
    }

    /// Removes the request whose turn it was; returns false if there is none.
    pub(super) fn end_answer(&mut self) -> bool {
        let Some(asked) = self.unanswered.pop_front() else { return false };
        if self.upgrading == Some(asked.number) {
            self.upgrading = None;
        }
        true
    }

    /// Removes all requests: none is answered any more.
    pub(super) fn clear(&mut self) {
        self.unanswered.clear();
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn head(fields: &[(&str, &str)], framing: BodyFraming) -> RequestHead {
        let mut request = http::Request::builder().method(Method::POST);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        RequestHead::from_parts(request.body(()).unwrap().into_parts().0, framing)
    }

    fn begin(queue: &mut RequestQueue, fields: &[(&str, &str)], framing: BodyFraming) {
        let has_body = !matches!(framing, BodyFraming::None | BodyFraming::Length(0));
        queue.begin(&head(fields, framing), has_body, true);
    }

    #[test]
    fn h04_a_body_after_its_answer_is_skipped_up_to_a_limit() {
        let mut queue = RequestQueue::default();
        begin(&mut queue, &[], BodyFraming::Chunked);
        assert!(queue.receive(10 * MAX_SKIPPED), "its request is not answered");
        assert!(!queue.must_close_after(&queue.front().unwrap()), "nobody knows what is left");
        assert!(queue.end_answer() && queue.is_empty() && queue.has_body());
        assert!(queue.receive(MAX_SKIPPED));
        assert!(!queue.receive(1));
    }

    #[test]
    fn h04_a_long_rest_of_a_body_ends_the_connection_with_the_answer() {
        let mut queue = RequestQueue::default();
        begin(&mut queue, &[], BodyFraming::Length(MAX_SKIPPED + 5));
        assert!(queue.receive(4) && queue.must_close_after(&queue.front().unwrap()));
        assert!(queue.receive(1) && !queue.must_close_after(&queue.front().unwrap()));
        queue.end_body();
        begin(&mut queue, &[], BodyFraming::Length(2 * MAX_SKIPPED));
        assert!(!queue.must_close_after(&queue.front().unwrap()), "the body of another request");
    }

    #[test]
    fn h04_a_client_is_told_to_go_on_once_in_its_turn() {
        let mut queue = RequestQueue::default();
        begin(&mut queue, &[], BodyFraming::None);
        begin(&mut queue, &[("expect", "100-continue")], BodyFraming::Length(5));
        assert!(!queue.take_go_on(), "the first request is not answered");
        queue.end_answer();
        assert!(queue.must_close_after(&queue.front().unwrap()));
        assert!(queue.take_go_on() && !queue.take_go_on());
        assert!(!queue.must_close_after(&queue.front().unwrap()));
    }

    #[test]
    fn h02_a_refusal_takes_its_turn_unless_its_request_is_answered() {
        let error = MessageError::UnsupportedVersion;
        let mut queue = RequestQueue::default();
        begin(&mut queue, &[], BodyFraming::None);
        assert!(queue.refuse(error, true) && queue.len() == 2);
        assert_eq!(queue.front().unwrap().refused, None);
        assert!(queue.end_answer());
        let refused = queue.front().unwrap();
        assert!(refused.refused == Some(error) && refused.is_head && refused.closes);

        let mut queue = RequestQueue::default();
        begin(&mut queue, &[], BodyFraming::Chunked);
        assert!(queue.refuse(error, false) && queue.len() == 1 && !queue.has_body());
        assert_eq!(queue.front().unwrap().refused, Some(error));

        let mut queue = RequestQueue::default();
        begin(&mut queue, &[], BodyFraming::Chunked);
        assert!(queue.end_answer() && !queue.end_answer());
        assert!(!queue.refuse(error, false) && queue.is_empty());
    }

    #[test]
    fn h04_nothing_begins_behind_the_last_request_or_an_upgrade() {
        let mut queue = RequestQueue::default();
        let upgrade = [("connection", "upgrade"), ("upgrade", "x")];
        begin(&mut queue, &upgrade, BodyFraming::Length(3));
        let asked = queue.front().unwrap();
        assert!(!queue.may_begin() && !queue.may_upgrade(&asked), "its body has not come");
        queue.end_body();
        assert!(queue.may_upgrade(&asked) && queue.end_answer() && queue.may_begin());
        begin(&mut queue, &[("connection", "close")], BodyFraming::None);
        assert!(!queue.may_begin() && !queue.may_upgrade(&queue.front().unwrap()));
        assert!(queue.end_answer() && !queue.may_begin());
    }
}
