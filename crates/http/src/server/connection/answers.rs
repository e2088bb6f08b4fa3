//! How a connection writes the answers whose turn it is.

use std::future::Future;
use std::rc::Rc;
use std::task::Context;

use waterwheel_executor::Nanos;

use crate::body::outgoing::UpgradeInitialiser;
use crate::body::pipe::BodyPipe;
use crate::outbound::output::Output;
use crate::protocol::encoder::put_continue;
use crate::server::answer::{AnswerRest, write_answer};
use crate::server::body_writer::WriteOutcome;
use crate::server::connection_state::{ConnectionPhase, ConnectionState};
use crate::server::exchange::{ExchangeStep, RequestFacts, ServerExchange};
use crate::server::options::MAX_SKIPPED;
use crate::service::request::Request;
use crate::service::service::{Response, Service};

use super::ServedConnection;

/// The small parts that are collected before they are passed on to the channel.
const MAX_COLLECTED: usize = 16 * 1024;

impl<S, M, F> ServedConnection<S, M, F>
where
    S: Service,
    M: Fn(Rc<S>, Request) -> F,
    F: Future<Output = Response> + 'static,
{
    /// Writes the answers that no earlier one precedes, as far as the channel has room.
    pub(super) fn answer_front(&self, state: &mut ConnectionState<F>, out: &mut Output<'_>) {
        while state.phase == ConnectionPhase::Open {
            let Some(mut exchange) = state.exchanges.pop_front() else { break };
            match exchange.step {
                ExchangeStep::Answered(response) => {
                    self.answer(state, exchange.facts, *response, out);
                }
                ExchangeStep::Streaming(ref mut body) => {
                    let mut cx = Context::from_waker(state.waker());
                    let outcome = body.write(&mut cx, self.shared().origin, out);
                    exchange.facts.body_bytes = body.written();
                    match outcome {
                        WriteOutcome::Done => self.end_exchange(state, exchange.facts, out),
                        WriteOutcome::Failed(error) => {
                            // Counted with those behind it.
                            state.exchanges.push_front(exchange);
                            self.give_up(state, error, out);
                            break;
                        }
                        WriteOutcome::Waits | WriteOutcome::Yields => {
                            if matches!(outcome, WriteOutcome::Yields) {
                                state.waker().wake_by_ref();
                            }
                            state.exchanges.push_front(exchange);
                            break;
                        }
                    }
                }
                ExchangeStep::Read(_) | ExchangeStep::Called(_) => {
                    let pipe = exchange.facts.pipe.as_ref();
                    if pipe.is_some_and(|pipe| pipe.take_continue()) {
                        put_continue(out.small_parts());
                    }
                    state.exchanges.push_front(exchange);
                    break;
                }
            }
        }
    }

    /// Writes an answer whose turn it is. A body that is streamed becomes the first of the requests in flight.
    pub(super) fn answer(
        &self,
        state: &mut ConnectionState<F>,
        mut facts: RequestFacts,
        response: Response,
        out: &mut Output<'_>,
    ) {
        facts.closes |= state.is_draining && state.exchanges.is_empty();
        // The client may have begun to speak another protocol already.
        facts.closes |= facts.is_connect;
        if let Some(pipe) = &facts.pipe {
            // The body of the answer, or a task, still reads: it would wait for ever, because this is the last moment.
            if pipe.take_late_continue() {
                put_continue(out.small_parts());
            }
            facts.closes |= must_close_after(pipe);
        }
        match write_answer(self.shared(), &mut facts, response, out) {
            AnswerRest::Nothing => self.end_exchange(state, facts, out),
            AnswerRest::Body(body) => {
                let step = ExchangeStep::Streaming(body);
                state.exchanges.push_front(ServerExchange { facts, step });
            }
            AnswerRest::Upgrade(initialiser) => self.upgrade(state, facts, initialiser, out),
        }
    }

    /// Notes that an answer is complete.
    #[inline]
    pub(super) fn end_exchange(
        &self,
        state: &mut ConnectionState<F>,
        facts: RequestFacts,
        out: &mut Output<'_>,
    ) {
        self.count_answer(state, &facts, out.ctx().now());
        // Nothing follows a request that may change the protocol, so this was not it if others are in flight.
        state.awaits_upgrade &= !state.exchanges.is_empty();
        // An answer may have begun before the drain.
        if facts.closes || (state.is_draining && state.exchanges.is_empty()) {
            self.begin_close(state, out);
        } else if out.small_parts().len() > MAX_COLLECTED {
            out.pass_on();
        }
    }

    #[inline]
    pub(super) fn count_answer(
        &self,
        state: &ConnectionState<F>,
        facts: &RequestFacts,
        now: Nanos,
    ) {
        let nanos = now.0.saturating_sub(facts.began.0);
        self.shared().counters.count_answer(facts.status, nanos);
        facts.log(state.channel.as_deref(), nanos);
    }

    /// Hands the connection over to the handlers of another protocol.
    pub(super) fn upgrade(
        &self,
        state: &mut ConnectionState<F>,
        facts: RequestFacts,
        initialiser: UpgradeInitialiser,
        out: &mut Output<'_>,
    ) {
        let ctx = out.ctx();
        self.count_answer(state, &facts, ctx.now());
        out.pass_on();
        ctx.flush();
        state.phase = ConnectionPhase::Upgraded;
        state.release();
        if let Err(error) = state.handover.hand_over(ctx, initialiser)
            && !state.handover.refuse(ctx, error)
        {
            self.begin_closing(state, ctx);
        }
    }
}

/// True if the rest of a request's body is not worth reading, or may never come, so that the connection cannot be used
/// for another request.
fn must_close_after(pipe: &BodyPipe) -> bool {
    pipe.awaits_continue() || (pipe.is_abandoned() && pipe.dropped() + pipe.missing() > MAX_SKIPPED)
}
