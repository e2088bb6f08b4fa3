//! How a connection ends: refused messages, limits of time, the last answer.

use std::future::Future;
use std::mem;
use std::rc::Rc;
use std::time::Duration;

use http::StatusCode;
use waterwheel_channel::Ctx;
use waterwheel_executor::engine::drop_in_turn;
use waterwheel_executor::{Error, Nanos};

use crate::body::error::BodyError;
use crate::outbound::output::Output;
use crate::server::connection_state::{ConnectionPhase, ConnectionState};
use crate::server::deadlines::Wait;
use crate::server::exchange::{ExchangeStep, RequestFacts, ServerExchange};
use crate::service::into_response::IntoResponse;
use crate::service::request::Request;
use crate::service::service::{Response, Service};

use super::ServedConnection;

/// The interval at which the rate of a body is checked.
const RATE_INTERVAL: Duration = Duration::from_secs(5);

impl<S, M, F> ServedConnection<S, M, F>
where
    S: Service,
    M: Fn(Rc<S>, Request) -> F,
    F: Future<Output = Response> + 'static,
{
    /// Answers a message that cannot be served, after the answers before it; then the connection ends. If the head of its
    /// answer has been written, the connection is cut off instead.
    pub(super) fn refuse(
        &self,
        state: &mut ConnectionState<F>,
        response: Response,
        cause: BodyError,
        out: &mut Output<'_>,
    ) {
        state.is_last = true;
        let step = ExchangeStep::Answered(Box::new(response));
        let Some(pipe) = state.receiving.take() else {
            let mut facts = RequestFacts::of_refused(out.ctx().now(), self.is_logged());
            facts.is_head = state.decoder.is_head_method();
            self.shared().counters.count_request();
            state.exchanges.push_back(ServerExchange { facts, step });
            return self.answer_front(state, out);
        };
        pipe.fail(cause);
        match state.exchange_of(&pipe) {
            None => self.begin_close(state, out),
            Some(ServerExchange { step: ExchangeStep::Streaming(_), .. }) => {
                self.give_up(state, Error::new(cause), out);
            }
            Some(exchange) => {
                exchange.facts.closes = true;
                drop_in_turn(mem::replace(&mut exchange.step, step));
                self.answer_front(state, out);
            }
        }
    }

    /// Cuts the connection off in the middle of an answer: the client sees that it is not complete.
    pub(super) fn give_up(
        &self,
        state: &mut ConnectionState<F>,
        error: Error,
        out: &mut Output<'_>,
    ) {
        let ctx = out.ctx();
        out.pass_on();
        ctx.flush();
        self.drop_exchanges(state, ctx.now());
        self.begin_closing(state, ctx);
        ctx.close_because(error);
    }

    /// Closes the channel after what is written.
    pub(super) fn close(&self, state: &mut ConnectionState<F>, ctx: &Ctx<'_>) {
        if mem::take(&mut state.has_unflushed) {
            ctx.flush();
        }
        self.begin_closing(state, ctx);
        // A close would drop answers that the transport has no room for yet.
        let has_pending = state.channel.as_ref().is_some_and(|channel| channel.pending_bytes() > 0);
        match (has_pending, state.is_input_over) {
            (false, _) => ctx.close(),
            (true, false) => ctx.shutdown_output(),
            (true, true) => {
                let local = ctx.to_local();
                // A channel that is gone needs no close.
                ctx.shutdown_output_then(move |_| drop(local.run(|ctx| ctx.close())));
            }
        }
    }

    /// Reads and answers no more. The time for what is still to be sent is limited: a client may never read it.
    pub(super) fn begin_closing(&self, state: &mut ConnectionState<F>, ctx: &Ctx<'_>) {
        state.phase = ConnectionPhase::Closing;
        state.release();
        state.deadlines.set_wait(ctx, Wait::End, self.limit_of(Wait::End));
    }

    /// Ends the connection after the answers that are written: the output at once, the input when the client has
    /// finished or had its time.
    pub(super) fn begin_close(&self, state: &mut ConnectionState<F>, out: &mut Output<'_>) {
        let ctx = out.ctx();
        out.pass_on();
        ctx.flush();
        self.drop_exchanges(state, ctx.now());
        self.begin_closing(state, ctx);
        // At the end of a drain the channel is closed, which resets a connection with unread requests.
        state.set_hold(ctx, state.is_draining);
        ctx.shutdown_output();
    }

    /// True if the last answer is so fresh that the client may not have read it yet. A close while further requests wait in
    /// the socket would reset the connection, and take the answer away.
    pub(super) fn may_have_unread_answers(
        &self,
        state: &ConnectionState<F>,
        ctx: &Ctx<'_>,
    ) -> bool {
        let since = ctx.now().since(state.deadlines.since());
        state.written > 0 && !state.is_input_over && since < self.shared().options.linger
    }

    /// Drops all requests. An answer whose body is cut off is counted and logged, with the bytes that were sent of it.
    pub(super) fn drop_exchanges(&self, state: &mut ConnectionState<F>, now: Nanos) {
        let dropped = mem::take(&mut state.exchanges);
        let is_begun =
            |exchange: &&ServerExchange<F>| matches!(exchange.step, ExchangeStep::Streaming(_));
        for exchange in dropped.iter().filter(is_begun) {
            self.count_answer(state, &exchange.facts, now);
        }
        let unanswered = dropped.iter().filter(|exchange| !is_begun(exchange)).count();
        self.shared().counters.count_abandoned(unanswered as u64);
        // One by one: a second panic, while the first one unwinds, would abort the process.
        dropped.into_iter().for_each(drop_in_turn);
        if let Some(pipe) = state.receiving.take() {
            pipe.fail(BodyError::Aborted);
        }
    }

    pub(super) fn limit_of(&self, wait: Wait) -> Duration {
        let options = &self.shared().options;
        match wait {
            Wait::Nothing => Duration::MAX,
            Wait::Request => options.idle_timeout,
            Wait::Head => options.head_timeout,
            Wait::Body => RATE_INTERVAL,
            Wait::End => options.linger,
        }
    }

    pub(super) fn check_wait(
        &self,
        state: &mut ConnectionState<F>,
        out: &mut Output<'_>,
        pending: usize,
    ) {
        let (ctx, wait) = (out.ctx(), state.deadlines.wait());
        let limit = self.limit_of(wait);
        let waited = ctx.now().since(state.deadlines.since());
        if waited < limit {
            return state.deadlines.continue_wait(ctx, limit);
        }
        let options = &self.shared().options;
        match wait {
            Wait::Nothing => {}
            Wait::Request | Wait::End if pending > 0 => {
                state.deadlines.watch_output(ctx, options.stall_timeout / 2);
            }
            Wait::Request | Wait::End => {
                state.phase = ConnectionPhase::Closing;
                ctx.close();
            }
            Wait::Head => {
                let text = format!("the head took longer than {limit:?}\n");
                let response = (StatusCode::REQUEST_TIMEOUT, text).into_response();
                self.refuse(state, response, BodyError::Aborted, out);
            }
            Wait::Body => {
                let bytes = state.deadlines.take_body_bytes(ctx.now());
                let was_paused = state.receiving.as_ref().is_some_and(|pipe| pipe.take_paused());
                let rate = options.least_rate;
                if bytes < rate.saturating_mul(waited.as_secs()) && !was_paused {
                    let cause = BodyError::TooSlow { rate };
                    let response = cause.into_response();
                    self.refuse(state, response, cause, out);
                } else {
                    state.deadlines.continue_wait(ctx, limit);
                }
            }
        }
    }
}
