//! One connection of a server: what its handler does with events.
//!
//! `requests.rs` reads requests and calls the service, `answers.rs` writes what is ready, `ending.rs` ends the connection.

mod answers;
mod ending;
mod requests;

use std::cell::Cell;
use std::future::Future;
use std::mem;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::{Ctx, LocalLoop, Msg};
use waterwheel_executor::{Error, Nanos};

use self::requests::refusal;
use crate::body::error::BodyError;
use crate::outbound::output::Output;
use crate::protocol::error::{Malformation, MessageError};
use crate::server::connection_state::{ConnectionPhase, ConnectionState};
use crate::server::deadlines::Wait;
use crate::server::exchange::ExchangeStep;
use crate::server::loop_state::{LoopServer, LoopShared};
use crate::server::service_call::SpareCalls;
use crate::service::request::Request;
use crate::service::service::{Response, Service};

/// A connection, without the type of its service's futures, which cannot be named.
///
/// The methods that return a boolean return true if a driver has to be spawned.
pub(super) trait HttpConnection {
    fn on_active(&self, ctx: &Ctx<'_>);
    #[must_use]
    fn on_read(&self, ctx: &Ctx<'_>, bytes: Bytes) -> bool;
    #[must_use]
    fn on_read_complete(&self, ctx: &Ctx<'_>) -> bool;
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
    let calls = SpareCalls::of(&server.shared.calls);
    Rc::new(ServedConnection { server, make_call, calls, state: Cell::new(Some(Box::new(state))) })
}

struct ServedConnection<S, M, F> {
    server: Rc<LoopServer<S>>,
    /// Makes the future of a call.
    make_call: M,
    calls: Rc<SpareCalls<F>>,
    /// Absent while it is used, and once the connection is over.
    state: Cell<Option<Box<ConnectionState<F>>>>,
}

/// The error of a channel whose peer does not read.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the client has read nothing of its answers for {0:?}")]
struct SlowClient(Duration);

impl<S, M, F> ServedConnection<S, M, F>
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
        // Requests that were read while the channel had no room are begun when it has: an event of the channel says so.
        let is_served = state.is_input_over && !state.is_held_back && ctx.is_writable();
        if is_idle && (state.is_draining || is_served) {
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
}

impl<S, M, F> HttpConnection for ServedConnection<S, M, F>
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

    fn on_read_complete(&self, ctx: &Ctx<'_>) -> bool {
        let needs_driver = self.with_state(|state| {
            let mut needs_driver = false;
            if state.has_read_request() && state.phase == ConnectionPhase::Open {
                let mut out = self.begin_output(ctx);
                self.start_read(state, &mut out);
                needs_driver = self.finish(state, out, 0);
            }
            if mem::take(&mut state.has_unflushed) {
                ctx.flush();
            }
            needs_driver
        });
        needs_driver.unwrap_or(false)
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
            match state.phase {
                ConnectionPhase::Open => {
                    let mut out = self.begin_output(ctx);
                    if state.exchanges.is_empty() && self.may_have_unread_answers(state, ctx) {
                        self.begin_close(state, &mut out);
                    }
                    // What is in flight has its driver.
                    let _ = self.finish(state, out, 0);
                }
                ConnectionPhase::Closing => {
                    state.set_hold(ctx, state.deadlines.wait() == Wait::End);
                }
                ConnectionPhase::Upgraded => {}
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
                    // Refused by transports that know no reset, which is no fault.
                    channel.set_option(resets).on_complete(drop);
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
                    let step = ExchangeStep::Answered(Box::new(response));
                    if let ExchangeStep::Called(call) = mem::replace(&mut exchange.step, step) {
                        self.calls.keep(call);
                    }
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
        let now = LocalLoop::current().map_or(Nanos(0), |here| here.now());
        self.drop_exchanges(&mut state, now);
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
