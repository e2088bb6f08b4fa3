//! One connection of a server: what its handler does with events.

use std::cell::Cell;
use std::future::Future;
use std::mem;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use waterwheel_channel::{Ctx, Msg};
use waterwheel_executor::Error;
use waterwheel_executor::engine::drop_in_turn;

use super::answer::{AnswerRest, write_answer};
use super::body_writer::WriteOutcome;
use super::connection_state::{ConnectionPhase, ConnectionState};
use super::deadlines::Wait;
use super::exchange::{Exchange, ExchangeStep, RequestFacts};
use super::loop_state::{LoopServer, LoopShared};
use super::output::Output;
use super::service_call::ServiceCall;
use crate::body::error::BodyError;
use crate::body::incoming::Incoming;
use crate::body::outgoing::{Body, UpgradeInitialiser};
use crate::body::pipe::BodyPipe;
use crate::protocol::encoder::put_continue;
use crate::protocol::error::{Malformation, MessageError};
use crate::protocol::framing::BodyFraming;
use crate::protocol::request_decoder::RequestEvent;
use crate::protocol::request_head::RequestHead;
use crate::service::into_response::IntoResponse;
use crate::service::request::Request;
use crate::service::service::{Response, Service};

/// A connection, without the type of its service's futures, which cannot be named.
///
/// The methods that return a boolean return true if a driver has to be spawned.
pub(super) trait HttpConnection {
    fn on_active(&self, ctx: &Ctx<'_>);
    #[must_use]
    fn on_read(&self, ctx: &Ctx<'_>, bytes: Bytes) -> bool;
    fn on_read_complete(&self, ctx: &Ctx<'_>);
    #[must_use]
    fn on_writability_changed(&self, ctx: &Ctx<'_>) -> bool;
    /// Begins no further requests; closes an idle connection.
    fn on_drain(&self, ctx: &Ctx<'_>);
    /// Notes that the client has finished sending.
    fn on_input_over(&self, ctx: &Ctx<'_>);
    /// Keeps a user event for the handlers of another protocol that may follow.
    fn pass_user_event(&self, ctx: &Ctx<'_>, event: Msg);
    fn on_timer(&self, ctx: &Ctx<'_>);
    /// Polls everything that is pending.
    fn run_woken(&self, ctx: &Ctx<'_>, driver: &Waker);
    /// Drops everything: the channel is closed, or the handler was removed.
    fn end(&self);
    fn is_over(&self) -> bool;
}

/// Returns the connection of a channel to a server.
pub(super) fn connection<S: Service>(server: Rc<LoopServer<S>>) -> Rc<dyn HttpConnection> {
    let make_call = |service: Rc<S>, request: Request| async move { service.call(request).await };
    let state = ConnectionState::new(server.shared.options.limits);
    server.shared.counters.count_connection();
    Rc::new(Connection { server, make_call, state: Cell::new(Some(Box::new(state))) })
}

struct Connection<S, M, F> {
    server: Rc<LoopServer<S>>,
    /// Makes the future of a call.
    make_call: M,
    /// Absent while it is used, and once the connection is over.
    state: Cell<Option<Box<ConnectionState<F>>>>,
}

/// The most bytes of a body that nobody reads which are skipped to keep the connection.
const MAX_SKIPPED: u64 = 64 * 1024;

/// The interval at which the rate of a body is checked.
const RATE_INTERVAL: Duration = Duration::from_secs(5);

/// The small parts that are collected before they are passed on to the channel.
const MAX_COLLECTED: usize = 16 * 1024;

/// The error of a channel whose peer does not read.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the client has read nothing of its answers for {0:?}")]
struct SlowClient(Duration);

impl<S, M, F> Connection<S, M, F>
where
    S: Service,
    M: Fn(Rc<S>, Request) -> F,
    F: Future<Output = Response> + 'static,
{
    /// Calls `f` with the state, taken out of its cell: nothing is borrowed meanwhile. Returns `None` once the connection
    /// is over.
    #[inline]
    fn with_state<R>(&self, f: impl FnOnce(&mut ConnectionState<F>) -> R) -> Option<R> {
        let mut taken = TakenState { cell: &self.state, state: self.state.take() };
        taken.state.as_deref_mut().map(f)
    }

    fn shared(&self) -> &LoopShared {
        &self.server.shared
    }

    /// True if answers have a line in the access log.
    #[inline]
    fn is_logged(&self) -> bool {
        self.shared().options.access_log
            && tracing::enabled!(target: "waterwheel::access", tracing::Level::INFO)
    }

    fn may_begin(&self, state: &ConnectionState<F>, ctx: &Ctx<'_>) -> bool {
        state.accepts_requests()
            && state.exchanges.len() < self.shared().options.max_pipelined
            && ctx.is_writable()
    }

    /// Decodes what has been read, and begins requests.
    fn advance(&self, state: &mut ConnectionState<F>, buf: &mut Bytes, out: &mut Output<'_>) {
        while state.phase == ConnectionPhase::Open {
            // The end of a body may need no further bytes; a request does.
            if !state.decoder.is_in_body() && (buf.is_empty() || !self.may_begin(state, out.ctx()))
            {
                break;
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
        self.start_read(state, out);
    }

    #[inline]
    fn on_head(&self, state: &mut ConnectionState<F>, head: RequestHead, out: &mut Output<'_>) {
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
            state.exchanges.push_back(Exchange { facts, step });
        } else {
            self.start(state, facts, request, out);
        }
    }

    fn on_body(&self, state: &mut ConnectionState<F>, bytes: Bytes, out: &mut Output<'_>) {
        let len = bytes.len() as u64;
        state.deadlines.count_body(len);
        let Some(pipe) = state.receiving.clone() else { return };
        if pipe.push(out.ctx(), bytes) {
            return;
        }
        if pipe.dropped() > MAX_SKIPPED && !state.is_in_the_air(&pipe) {
            self.begin_close(state, out);
        }
    }

    /// Gives the last request to the service, if it has not been given: its whole body has come, or nothing more of it
    /// is at hand.
    #[inline]
    fn start_read(&self, state: &mut ConnectionState<F>, out: &mut Output<'_>) {
        let is_read = |exchange: &mut Exchange<F>| matches!(exchange.step, ExchangeStep::Read(_));
        if let Some(Exchange { facts, step }) = state.exchanges.pop_back_if(is_read)
            && let ExchangeStep::Read(request) = step
        {
            self.start(state, facts, *request, out);
            self.answer_front(state, out);
        }
    }

    /// Calls the service, and answers at once if it is ready.
    fn start(
        &self,
        state: &mut ConnectionState<F>,
        mut facts: RequestFacts,
        request: Request,
        out: &mut Output<'_>,
    ) {
        let mut call = state.spare.take().unwrap_or_else(|| ServiceCall::new(self.shared().origin));
        if let (Some(pipe), Some(driver)) = (&facts.pipe, &state.driver) {
            pipe.set_connection(driver);
        }
        call.put((self.make_call)(self.server.service.clone(), request));
        match call.poll_first(&mut Context::from_waker(state.waker())) {
            Poll::Pending => {
                state.exchanges.push_back(Exchange { facts, step: ExchangeStep::Called(call) });
            }
            Poll::Ready(outcome) => {
                state.spare = Some(call);
                let response = self.response_of(outcome, &mut facts);
                if state.exchanges.is_empty() {
                    self.answer(state, facts, response, out);
                    if !state.exchanges.is_empty() {
                        self.answer_front(state, out);
                    }
                } else {
                    let step = ExchangeStep::Answered(Box::new(response));
                    state.exchanges.push_back(Exchange { facts, step });
                }
            }
        }
    }

    fn response_of(&self, outcome: Result<Response, Error>, facts: &mut RequestFacts) -> Response {
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

    /// Writes the answers that no earlier one precedes, as far as the channel has room.
    fn answer_front(&self, state: &mut ConnectionState<F>, out: &mut Output<'_>) {
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

    /// Writes an answer whose turn it is. A body that is streamed becomes the first of the requests in the air.
    fn answer(
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
                state.exchanges.push_front(Exchange { facts, step });
            }
            AnswerRest::Upgrade(initialiser) => self.upgrade(state, facts, initialiser, out),
        }
    }

    /// Notes that an answer is complete.
    #[inline]
    fn end_exchange(
        &self,
        state: &mut ConnectionState<F>,
        facts: RequestFacts,
        out: &mut Output<'_>,
    ) {
        self.count_answer(state, &facts, out.ctx());
        // Nothing follows a request that may change the protocol, so this was not it if others are in the air.
        state.awaits_upgrade &= !state.exchanges.is_empty();
        if facts.closes {
            self.begin_close(state, out);
        } else if out.small_parts().len() > MAX_COLLECTED {
            out.pass_on();
        }
    }

    #[inline]
    fn count_answer(&self, state: &ConnectionState<F>, facts: &RequestFacts, ctx: &Ctx<'_>) {
        let nanos = ctx.now().0.saturating_sub(facts.began.0);
        self.shared().counters.count_answer(facts.status, nanos);
        facts.log(state.channel.as_deref(), nanos);
    }

    /// Hands the connection over to the handlers of another protocol.
    fn upgrade(
        &self,
        state: &mut ConnectionState<F>,
        facts: RequestFacts,
        initialiser: UpgradeInitialiser,
        out: &mut Output<'_>,
    ) {
        let ctx = out.ctx();
        self.count_answer(state, &facts, ctx);
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

    /// Answers a message that cannot be served, after the answers before it; then the connection ends. If the head of its
    /// answer has been written, the connection is cut off instead.
    fn refuse(
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
            state.exchanges.push_back(Exchange { facts, step });
            return self.answer_front(state, out);
        };
        pipe.fail(cause);
        match state.exchange_of(&pipe) {
            None => self.begin_close(state, out),
            Some(Exchange { step: ExchangeStep::Streaming(_), .. }) => {
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
    fn give_up(&self, state: &mut ConnectionState<F>, error: Error, out: &mut Output<'_>) {
        let ctx = out.ctx();
        out.pass_on();
        ctx.flush();
        self.drop_exchanges(state);
        self.begin_closing(state, ctx);
        ctx.close_because(error);
    }

    /// Closes the channel after what is written.
    fn close(&self, state: &mut ConnectionState<F>, ctx: &Ctx<'_>) {
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
    fn begin_closing(&self, state: &mut ConnectionState<F>, ctx: &Ctx<'_>) {
        state.phase = ConnectionPhase::Closing;
        state.release();
        state.deadlines.set_wait(ctx, Wait::End, self.limit_of(Wait::End));
    }

    /// Ends the connection after the answers that are written: the output at once, the input when the client has
    /// finished or had its time.
    fn begin_close(&self, state: &mut ConnectionState<F>, out: &mut Output<'_>) {
        let ctx = out.ctx();
        out.pass_on();
        ctx.flush();
        self.drop_exchanges(state);
        self.begin_closing(state, ctx);
        ctx.shutdown_output();
    }

    fn drop_exchanges(&self, state: &mut ConnectionState<F>) {
        let dropped = mem::take(&mut state.exchanges);
        self.shared().counters.count_abandoned(dropped.len() as u64);
        // One by one: a second panic, while the first one unwinds, would abort the process.
        dropped.into_iter().for_each(drop_in_turn);
        if let Some(pipe) = state.receiving.take() {
            pipe.fail(BodyError::Aborted);
        }
    }

    fn limit_of(&self, wait: Wait) -> Duration {
        let options = &self.shared().options;
        match wait {
            Wait::Nothing => Duration::MAX,
            Wait::Request => options.idle_timeout,
            Wait::Head => options.head_timeout,
            Wait::Body => RATE_INTERVAL,
            Wait::End => options.linger,
        }
    }

    /// Begins the output of a call.
    fn begin_output<'a>(&self, ctx: &'a Ctx<'a>) -> Output<'a> {
        Output::new(ctx, self.shared().take_buffer())
    }

    /// Ends a call: passes its output on, flushes it unless the end of the round will, and adjusts pause, guard and
    /// timer. Returns true if a driver has to be spawned.
    #[inline]
    fn finish(&self, state: &mut ConnectionState<F>, out: Output<'_>, bytes_in: usize) -> bool {
        let ctx = out.ctx();
        let (buffer, written) = out.finish();
        self.shared().keep_buffer(buffer);
        self.shared().counters.count_bytes(bytes_in as u64, written);
        state.written += written;
        state.has_unflushed |= written > 0;
        if state.has_unflushed && (!ctx.is_in_read_round() || !ctx.is_writable()) {
            state.has_unflushed = false;
            ctx.flush();
        }
        if state.phase == ConnectionPhase::Upgraded {
            pass_rest_on(state, ctx);
            return false;
        }
        state.phase == ConnectionPhase::Open && self.settle(state, ctx)
    }

    /// Adjusts the pause of reads, the guard against drains and the timer of an open connection.
    #[inline]
    fn settle(&self, state: &mut ConnectionState<F>, ctx: &Ctx<'_>) -> bool {
        let is_idle = state.exchanges.is_empty();
        // While the channel has no room, requests that were read may not have been begun.
        if is_idle && (state.is_draining || (state.is_input_over && ctx.is_writable())) {
            self.close(state, ctx);
            return false;
        }
        state.set_hold(ctx, !is_idle);
        let pauses = !state.decoder.is_in_body() && !self.may_begin(state, ctx);
        state.set_pause(ctx, pauses);
        // Without room nothing is read: what the client sends meanwhile is not late.
        let has_room = ctx.is_writable();
        let wait = if has_room { state.present_wait() } else { Wait::Nothing };
        state.deadlines.set_wait(ctx, wait, self.limit_of(wait));
        if !has_room {
            state.deadlines.watch_output(ctx, self.shared().options.stall_timeout / 2);
        }
        !is_idle && !mem::replace(&mut state.has_driver, true)
    }

    /// Continues with what was read before, after room was made.
    fn resume(&self, state: &mut ConnectionState<F>, out: &mut Output<'_>) {
        self.answer_front(state, out);
        let mut buf = state.unread.take();
        self.advance(state, &mut buf, out);
        state.unread.keep(buf);
    }

    fn check_wait(&self, state: &mut ConnectionState<F>, out: &mut Output<'_>, pending: usize) {
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

impl<S, M, F> HttpConnection for Connection<S, M, F>
where
    S: Service,
    M: Fn(Rc<S>, Request) -> F,
    F: Future<Output = Response> + 'static,
{
    fn on_active(&self, ctx: &Ctx<'_>) {
        self.with_state(|state| {
            state.channel = Some(Rc::new(ctx.channel()));
            state.handover.on_active(ctx);
            state.deadlines.set_wait(ctx, Wait::Request, self.limit_of(Wait::Request));
        });
    }

    fn on_read(&self, ctx: &Ctx<'_>, bytes: Bytes) -> bool {
        let needs_driver = self.with_state(|state| {
            if state.phase != ConnectionPhase::Open {
                return false; // Nothing answers it any more.
            }
            let len = bytes.len();
            let mut out = self.begin_output(ctx);
            let mut buf = state.unread.append(bytes);
            self.advance(state, &mut buf, &mut out);
            state.unread.keep(buf);
            self.finish(state, out, len)
        });
        needs_driver.unwrap_or(false)
    }

    fn on_read_complete(&self, ctx: &Ctx<'_>) {
        self.with_state(|state| {
            if mem::take(&mut state.has_unflushed) {
                ctx.flush();
            }
        });
    }

    fn on_writability_changed(&self, ctx: &Ctx<'_>) -> bool {
        let needs_driver = self.with_state(|state| {
            if state.phase != ConnectionPhase::Open {
                return false;
            }
            let mut out = self.begin_output(ctx);
            self.resume(state, &mut out);
            self.finish(state, out, 0)
        });
        needs_driver.unwrap_or(false)
    }

    fn on_drain(&self, ctx: &Ctx<'_>) {
        self.with_state(|state| {
            state.is_draining = true;
            if state.phase == ConnectionPhase::Open {
                // What is in the air has its driver.
                let _ = self.settle(state, ctx);
            }
        });
    }

    fn on_input_over(&self, ctx: &Ctx<'_>) {
        self.with_state(|state| {
            state.is_input_over = true;
            match state.phase {
                ConnectionPhase::Open => {
                    let mut out = self.begin_output(ctx);
                    if !state.decoder.is_idle() {
                        self.shared().counters.count_refusal();
                        let error = MessageError::from(Malformation::Truncated);
                        self.refuse(state, refusal(error), BodyError::Aborted, &mut out);
                    }
                    let _ = self.finish(state, out, 0);
                }
                // The client has seen the end of the answers, or does not care.
                ConnectionPhase::Closing if state.deadlines.wait() == Wait::End => {
                    ctx.shutdown_output();
                }
                _ => {}
            }
        });
    }

    fn pass_user_event(&self, ctx: &Ctx<'_>, event: Msg) {
        let mut event = Some(event);
        self.with_state(|state| {
            if let Some(event) = event.take() {
                state.handover.on_user_event(ctx, event);
            }
        });
    }

    fn on_timer(&self, ctx: &Ctx<'_>) {
        self.with_state(|state| {
            state.deadlines.on_timer();
            let limit = self.shared().options.stall_timeout;
            let pending = state.channel.as_ref().map_or(0, |channel| channel.pending_bytes());
            if state.deadlines.is_stalled(ctx, state.written, pending, limit) {
                if let Some(channel) = &state.channel {
                    // The kernel would hold what it has taken, megabytes, for as long as the client reads a byte at times.
                    let resets =
                        waterwheel_channel::driver::SocketOption::Linger(Some(Duration::ZERO));
                    drop(channel.set_option(resets));
                }
                return ctx.abort(Error::new(SlowClient(limit)));
            }
            let mut out = self.begin_output(ctx);
            self.check_wait(state, &mut out, pending);
            let _ = self.finish(state, out, 0);
        });
    }

    fn run_woken(&self, ctx: &Ctx<'_>, driver: &Waker) {
        self.with_state(|state| {
            if state.driver.is_none() {
                state.driver = Some(driver.clone());
            }
            if state.phase != ConnectionPhase::Open {
                return;
            }
            for exchange in &mut state.exchanges {
                let ExchangeStep::Called(call) = &mut exchange.step else { continue };
                if let Some(pipe) = &exchange.facts.pipe {
                    pipe.set_connection(driver);
                }
                if let Poll::Ready(outcome) = call.poll_woken(&mut Context::from_waker(driver)) {
                    let response = self.response_of(outcome, &mut exchange.facts);
                    exchange.step = ExchangeStep::Answered(Box::new(response));
                }
            }
            let mut out = self.begin_output(ctx);
            self.resume(state, &mut out);
            let _ = self.finish(state, out, 0); // The driver is this call.
        });
    }

    fn end(&self) {
        let Some(mut state) = self.state.take() else { return };
        self.shared().counters.count_end();
        if let Some(driver) = state.driver.take() {
            driver.wake();
        }
        self.drop_exchanges(&mut state);
    }

    fn is_over(&self) -> bool {
        let state = self.state.take();
        let is_over = state.is_none();
        self.state.set(state);
        is_over
    }
}

/// The state of a connection while it is used. Dropping it puts the state back, also while a panic unwinds: the handler
/// that is dropped then still counts and ends what the state holds.
struct TakenState<'a, F> {
    cell: &'a Cell<Option<Box<ConnectionState<F>>>>,
    state: Option<Box<ConnectionState<F>>>,
}

impl<F> Drop for TakenState<'_, F> {
    #[inline]
    fn drop(&mut self) {
        self.cell.set(self.state.take());
    }
}

/// Returns the answer to a message that is refused: its status, and a line that says why.
fn refusal(error: MessageError) -> Response {
    (error.status(), Body::from(format!("{error}\n"))).into_response()
}

/// True if the rest of a request's body is not worth reading, or may never come, so that the connection cannot be used
/// for another request.
fn must_close_after(pipe: &BodyPipe) -> bool {
    pipe.awaits_continue() || (pipe.is_abandoned() && pipe.dropped() + pipe.missing() > MAX_SKIPPED)
}

/// Passes the bytes behind the request on to the handlers of the next protocol.
fn pass_rest_on<F>(state: &mut ConnectionState<F>, ctx: &Ctx<'_>) {
    let rest = state.unread.take();
    if !rest.is_empty() && ctx.is_removed() {
        ctx.fire_read(rest);
        if !ctx.is_in_read_round() {
            ctx.fire_read_complete();
        }
    }
}
