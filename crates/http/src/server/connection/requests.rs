//! How a connection reads requests and gives them to the service.

use std::future::Future;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::StatusCode;
use waterwheel_executor::Error;

use crate::body::error::BodyError;
use crate::body::incoming::Incoming;
use crate::body::outgoing::Body;
use crate::body::pipe::BodyPipe;
use crate::outbound::output::Output;
use crate::protocol::error::MessageError;
use crate::protocol::framing::BodyFraming;
use crate::protocol::request_decoder::RequestEvent;
use crate::protocol::request_head::RequestHead;
use crate::server::connection_state::{ConnectionPhase, ConnectionState};
use crate::server::exchange::{ExchangeStep, RequestFacts, ServerExchange};
use crate::server::options::MAX_SKIPPED;
use crate::service::into_response::IntoResponse;
use crate::service::request::Request;
use crate::service::service::{Response, Service};

use super::ServedConnection;

impl<S, M, F> ServedConnection<S, M, F>
where
    S: Service,
    M: Fn(Rc<S>, Request) -> F,
    F: Future<Output = Response> + 'static,
{
    /// Decodes what has been read, and begins requests.
    pub(super) fn advance(
        &self,
        state: &mut ConnectionState<F>,
        buf: &mut Bytes,
        out: &mut Output<'_>,
    ) {
        state.is_held_back = false;
        while state.phase == ConnectionPhase::Open {
            // The end of a body may need no further bytes; a request does.
            if !state.decoder.is_in_body() {
                if buf.is_empty() {
                    break;
                }
                if !self.may_begin(state, out.ctx()) {
                    state.is_held_back = true;
                    break;
                }
            }
            match state.decoder.decode(buf) {
                Ok(Some(RequestEvent::Head(head))) => self.on_head(state, head, out),
                Ok(Some(RequestEvent::Data(bytes))) => self.on_body(state, bytes, out),
                Ok(Some(RequestEvent::End(trailers))) => {
                    if let Some(pipe) = state.receiving.take() {
                        pipe.finish(trailers);
                    }
                    self.start_read(state, out);
                }
                Ok(None) => break,
                Err(error) => {
                    self.shared().counters.count_refusal();
                    self.refuse(state, refusal(error), BodyError::Refused(error), out);
                    break;
                }
            }
        }
        // The rest of a body may be in the next read of the round, and may be malformed.
        if !out.ctx().is_in_read_round() {
            self.start_read(state, out);
        }
    }

    #[inline]
    pub(super) fn on_head(
        &self,
        state: &mut ConnectionState<F>,
        head: RequestHead,
        out: &mut Output<'_>,
    ) {
        self.shared().counters.count_request();
        state.deadlines.clear_wait();
        let length = match head.framing() {
            BodyFraming::Length(length) => Some(length),
            _ => None,
        };
        let has_body = state.decoder.is_in_body();
        let pipe = has_body.then(|| Rc::new(BodyPipe::new(length, head.expects_continue())));
        let now = out.ctx().now();
        let facts = RequestFacts::of(&head, pipe.clone(), now, self.is_logged());
        state.is_last = facts.closes;
        // What follows may be another protocol.
        state.awaits_upgrade = head.wants_upgrade() || facts.is_connect;
        let incoming = Incoming::new(pipe.clone(), state.channel.clone());
        let request = Request::of(head, incoming);
        if has_body {
            state.receiving = pipe;
            let step = ExchangeStep::Read(Box::new(request));
            state.exchanges.push_back(ServerExchange { facts, step });
        } else {
            self.start(state, facts, request, out);
        }
    }

    pub(super) fn on_body(
        &self,
        state: &mut ConnectionState<F>,
        bytes: Bytes,
        out: &mut Output<'_>,
    ) {
        let len = bytes.len() as u64;
        state.deadlines.count_body(len);
        let Some(pipe) = state.receiving.clone() else { return };
        if pipe.push(out.ctx(), bytes) {
            return;
        }
        if pipe.dropped() > MAX_SKIPPED && !state.is_in_flight(&pipe) {
            self.begin_close(state, out);
        }
    }

    /// Gives the last request to the service, if it has not been given: its whole body has come, or nothing more of it
    /// is at hand.
    #[inline]
    pub(super) fn start_read(&self, state: &mut ConnectionState<F>, out: &mut Output<'_>) {
        let is_read =
            |exchange: &mut ServerExchange<F>| matches!(exchange.step, ExchangeStep::Read(_));
        if let Some(ServerExchange { facts, step }) = state.exchanges.pop_back_if(is_read)
            && let ExchangeStep::Read(request) = step
        {
            self.start(state, facts, *request, out);
            self.answer_front(state, out);
        }
    }

    /// Calls the service, and answers at once if it is ready.
    pub(super) fn start(
        &self,
        state: &mut ConnectionState<F>,
        mut facts: RequestFacts,
        request: Request,
        out: &mut Output<'_>,
    ) {
        let mut call = self.calls.take(self.shared().origin);
        if let (Some(pipe), Some(driver)) = (&facts.pipe, &state.driver) {
            pipe.set_connection(driver);
        }
        call.put((self.make_call)(self.server.service.clone(), request));
        match call.poll_first(&mut Context::from_waker(state.waker())) {
            Poll::Pending => {
                state
                    .exchanges
                    .push_back(ServerExchange { facts, step: ExchangeStep::Called(call) });
            }
            Poll::Ready(outcome) => {
                self.calls.keep(call);
                let response = self.response_of(outcome, &mut facts);
                if state.exchanges.is_empty() {
                    self.answer(state, facts, response, out);
                    if !state.exchanges.is_empty() {
                        self.answer_front(state, out);
                    }
                } else {
                    let step = ExchangeStep::Answered(Box::new(response));
                    state.exchanges.push_back(ServerExchange { facts, step });
                }
            }
        }
    }

    pub(super) fn response_of(
        &self,
        outcome: Result<Response, Error>,
        facts: &mut RequestFacts,
    ) -> Response {
        match outcome {
            Ok(response) => response,
            // Already reported, with the name of the service.
            Err(_panicked) => {
                self.shared().counters.count_panic();
                facts.closes = true;
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}

/// Returns the answer to a message that is refused: its status, and a line that says why.
pub(super) fn refusal(error: MessageError) -> Response {
    (error.status(), Body::from(format!("{error}\n"))).into_response()
}
