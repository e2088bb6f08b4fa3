//! The state of a connection, shared by its handler and by the futures that use it on the same loop.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use waterwheel_channel::{Channel, Ctx, Cumulation, Edit, LocalCtx};
use waterwheel_executor::Error;
use waterwheel_pool::Lease;

use super::call::{CallFailure, CallOutcome, ClientCall, UnsentCall};
use super::driver::DriverWaker;
use super::exchange::{
    ClientExchange, ExchangeTimers, RequestProgress, ResponseProgress, SentRequest,
};
use super::time_limits::ProgressTicker;
use crate::body::error::BodyError;
use crate::body::incoming::Incoming;
use crate::body::pipe::BodyPipe;
use crate::protocol::encoder::ConnectionField;
use crate::protocol::limits::MessageLimits;
use crate::protocol::response_decoder::ResponseDecoder;

/// A connection of a client: see the rules of the [module](super).
pub(in crate::client) struct ConnectionLink {
    ctx: OnceCell<LocalCtx>,
    channel: OnceCell<Rc<Channel>>,
    /// The number of exchanges so far.
    exchanges: Cell<u64>,
    /// True once the tunnel and TLS are there, if the connection needs them.
    is_prepared: Cell<bool>,
    /// True if the bytes of this connection are encrypted: files are copied.
    is_encrypted: Cell<bool>,
    pub(super) driver: DriverWaker,
    pub(super) ticker: ProgressTicker,
    pub(super) state: RefCell<LinkState>,
}

pub(super) struct LinkState {
    limits: MessageLimits,
    pub(super) decoder: ResponseDecoder,
    pub(super) unread: Cumulation,
    pub(super) exchange: Option<ClientExchange>,
    /// The last error of the pipeline: the cause of an end.
    last_error: Option<Error>,
}

impl ConnectionLink {
    pub(super) fn new(limits: MessageLimits) -> Rc<Self> {
        let state = LinkState {
            limits,
            decoder: ResponseDecoder::new(limits),
            unread: Cumulation::default(),
            exchange: None,
            last_error: None,
        };
        Rc::new(Self {
            ctx: OnceCell::new(),
            channel: OnceCell::new(),
            exchanges: Cell::new(0),
            is_prepared: Cell::new(false),
            is_encrypted: Cell::new(false),
            driver: DriverWaker::default(),
            ticker: ProgressTicker::default(),
            state: RefCell::new(state),
        })
    }

    pub(super) fn attach(&self, ctx: &Ctx<'_>) {
        // A handler is added once.
        let _ = self.ctx.set(ctx.to_local());
        let _ = self.channel.set(Rc::new(ctx.channel()));
    }

    pub(super) fn channel(&self) -> Option<Rc<Channel>> {
        self.channel.get().cloned()
    }

    pub(in crate::client) fn is_prepared(&self) -> bool {
        self.is_prepared.get()
    }

    pub(in crate::client) fn set_prepared(&self, is_encrypted: bool) {
        self.is_prepared.set(true);
        self.is_encrypted.set(is_encrypted);
    }

    /// Calls `f` with the context of the handler, or a little later; not if the connection is gone.
    pub(super) fn run(self: &Rc<Self>, f: impl FnOnce(&Rc<Self>, &Ctx<'_>) + 'static) -> bool {
        let link = self.clone();
        self.ctx.get().is_some_and(|ctx| ctx.run(move |ctx| f(&link, ctx)).is_ok())
    }

    /// Calls `f` with the context of the handler; `None` if the connection is gone, or cannot be called just now.
    pub(in crate::client) fn run_now<R>(&self, f: impl FnOnce(&Ctx<'_>) -> R) -> Option<R> {
        self.ctx.get()?.run_now(f).ok().flatten()
    }

    // The caller's side.

    /// True if a request can be sent, as far as known.
    pub(in crate::client) fn is_free(&self) -> bool {
        let is_idle = self.state.borrow().exchange.is_none();
        let is_open = self.channel().is_some_and(|channel| !channel.is_close_requested());
        is_idle && is_open && self.ctx.get().is_some_and(LocalCtx::is_live)
    }

    /// Sends a request on a connection that [is free](Self::is_free). The exchange takes the lease.
    pub(in crate::client) fn begin(
        self: &Rc<Self>,
        request: SentRequest,
        lease: Lease,
    ) -> ClientCall {
        let outcome = Rc::new(CallOutcome::default());
        let call = ClientCall::new(self.clone(), outcome.clone());
        let mut unsent = UnsentCall(Some(outcome));
        self.run(move |link, ctx| {
            if let Some(outcome) = unsent.0.take() {
                link.send_request(ctx, request, lease, outcome);
            }
        });
        call
    }

    fn send_request(
        self: &Rc<Self>,
        ctx: &Ctx<'_>,
        request: SentRequest,
        lease: Lease,
        outcome: Rc<CallOutcome>,
    ) {
        self.spawn_driver(ctx);
        let _ = ctx.last_write(); // Recorded from the first call on.
        let (limits, method) = (request.limits, request.method.clone());
        let wants_upgrade = request.headers.contains_key(http::header::UPGRADE);
        let keeps_alive = request.connection != ConnectionField::Close;
        let (head, sender) = request.encode(self.is_encrypted.get());
        let awaits_continue = sender.as_ref().is_some_and(|sender| sender.awaits_continue);
        let exchange = ClientExchange {
            outcome,
            lease,
            limits,
            is_connect: method == http::Method::CONNECT,
            wants_upgrade,
            sender,
            request: RequestProgress::Sending,
            response: ResponseProgress::Head,
            keeps_alive,
            interim_responses: 0,
            has_bytes: false,
            pipe: None,
            pause: None,
            timers: ExchangeTimers::default(),
        };
        let mut state = self.state.borrow_mut();
        state.decoder.expect(method);
        state.exchange = Some(exchange);
        drop(state);
        ctx.write_or_close(head);
        self.ticker.start(ctx, limits.body);
        if awaits_continue {
            self.schedule_continue(ctx);
        }
        self.drive(ctx);
        ctx.flush();
    }

    /// Closes the connection because the caller does not wait for its outcome any more.
    pub(super) fn cancel(self: &Rc<Self>, outcome: &Rc<CallOutcome>) {
        let outcome = outcome.clone();
        self.run(move |link, ctx| {
            let state = link.state.borrow();
            let is_same =
                state.exchange.as_ref().is_some_and(|it| Rc::ptr_eq(&it.outcome, &outcome));
            drop(state);
            if is_same {
                link.discard(ctx);
            }
        });
    }

    /// Takes the channel over for another protocol, after the end of HTTP. `None` also if that was another response than
    /// the one with this body: the connection may have been used again since.
    pub(in crate::client) fn take_over<T>(
        &self,
        body: &Incoming,
        initialiser: impl FnOnce(&mut Edit<'_>) -> Result<T, Error>,
    ) -> Option<Result<T, Error>> {
        self.run_now(|ctx| {
            let exchange = self.take_upgraded(ctx, |pipe| body.is_read_from(pipe))?;
            let upgraded = ctx.pipeline().edit(|edit| {
                let upgraded = initialiser(edit)?;
                edit.remove_if_present(ctx.slot())?;
                Ok::<_, Error>(upgraded)
            });
            let upgraded = match upgraded {
                Ok(upgraded) => upgraded,
                Err(error) => {
                    exchange.lease.discard();
                    return Some(Err(error));
                }
            };
            // The pool neither counts nor closes it any more.
            let _ = exchange.lease.into_channel();
            ctx.fire_active();
            let rest = self.state.borrow_mut().unread.take();
            if !rest.is_empty() {
                ctx.fire_read(rest);
                ctx.fire_read_complete();
            }
            drop(exchange.pause);
            Some(Ok(upgraded))
        })
        .flatten()
    }

    /// Ends the exchange that has opened a tunnel, for TLS in the tunnel. `None` if the proxy has sent anything behind
    /// its answer, or the connection is gone.
    pub(in crate::client) fn enter_tunnel(&self) -> Option<Lease> {
        let exchange = self.run_now(|ctx| self.take_upgraded(ctx, |_| true)).flatten()?;
        let mut state = self.state.borrow_mut();
        let is_clean = state.unread.take().is_empty();
        state.decoder = ResponseDecoder::new(state.limits);
        drop(state);
        drop(exchange.pause);
        if !is_clean {
            exchange.lease.discard();
            return None;
        }
        Some(exchange.lease)
    }

    /// Ends the exchange that has ended HTTP, if its pipe is the right one.
    fn take_upgraded(
        &self,
        ctx: &Ctx<'_>,
        is_right: impl Fn(&Rc<BodyPipe>) -> bool,
    ) -> Option<ClientExchange> {
        let mut state = self.state.borrow_mut();
        let exchange = state.exchange.take_if(|it| {
            it.response == ResponseProgress::Upgraded && it.pipe.as_ref().is_some_and(&is_right)
        })?;
        drop(state);
        Some(stop_timers(exchange, ctx))
    }

    // The end of an exchange.

    /// Ends the exchange if nothing of it is missing.
    pub(super) fn settle(&self, ctx: &Ctx<'_>) {
        let mut state = self.state.borrow_mut();
        let Some(exchange) = &state.exchange else { return };
        let is_over = match exchange.request {
            RequestProgress::Sending => !exchange.keeps_alive,
            RequestProgress::Sent(_) | RequestProgress::GivenUp => true,
        };
        if exchange.response != ResponseProgress::Complete || !is_over {
            return;
        }
        let is_reusable = exchange.keeps_alive && exchange.request != RequestProgress::GivenUp;
        let Some(exchange) = state.exchange.take() else { return };
        drop(state);
        self.exchanges.set(self.exchanges.get() + 1);
        let mut exchange = stop_timers(exchange, ctx);
        exchange.lease.set_reusable(is_reusable);
        // Gives the connection back, or closes it; may call hooks of the pool.
        drop(exchange);
    }

    /// Ends the exchange without a response, or its response without an end, and closes the connection.
    pub(super) fn fail(&self, ctx: &Ctx<'_>, failure: CallFailure, body_error: BodyError) {
        let exchange = self.state.borrow_mut().exchange.take();
        let Some(exchange) = exchange else { return };
        end_failed(stop_timers(exchange, ctx), failure, body_error);
    }

    /// Ends the exchange of a handler that is dropped without a call, because one of its calls has panicked: the source
    /// of a body, in most cases. Its timers end with the channel.
    pub(super) fn abandon(&self) {
        self.end_driver();
        let exchange = self.state.borrow_mut().exchange.take();
        let Some(exchange) = exchange else { return };
        let cause = self.channel.get().and_then(|channel| channel.close_cause());
        end_failed(exchange, CallFailure::Closed { cause, was_idle: false }, BodyError::Aborted);
    }

    /// Ends the exchange in which nobody is interested any more, and closes the connection.
    pub(super) fn discard(&self, ctx: &Ctx<'_>) {
        let cause = CallFailure::Closed { cause: None, was_idle: false };
        self.fail(ctx, cause, BodyError::Aborted);
    }

    /// Ends everything: the connection is closed.
    pub(super) fn end(&self, ctx: &Ctx<'_>) {
        let mut state = self.state.borrow_mut();
        let cause = state.last_error.take().or_else(|| ctx.channel().close_cause());
        let Some(exchange) = &state.exchange else { return };
        let was_idle = self.exchanges.get() > 0 && !exchange.has_bytes;
        let pipe = exchange.pipe.clone();
        // A body without a length ends with the connection, if that was closed in order.
        let is_complete = match cause {
            None => matches!(state.decoder.finish(), Ok(Some(_))),
            Some(_) => false,
        };
        drop(state);
        if let (true, Some(pipe)) = (is_complete, pipe) {
            pipe.finish(None);
        }
        self.fail(ctx, CallFailure::Closed { cause, was_idle }, BodyError::Aborted);
    }

    pub(super) fn keep_error(&self, error: Error) {
        let before = self.state.borrow_mut().last_error.replace(error);
        drop(before);
    }
}

/// Tells the caller of an exchange, or the reader of its response, and closes the connection.
fn end_failed(exchange: ClientExchange, failure: CallFailure, body_error: BodyError) {
    match &exchange.pipe {
        Some(pipe) => pipe.fail(body_error),
        None => exchange.outcome.complete(Err(failure)),
    }
    exchange.lease.discard();
}

fn stop_timers(mut exchange: ClientExchange, ctx: &Ctx<'_>) -> ClientExchange {
    for timer in std::mem::take(&mut exchange.timers).into_iter() {
        ctx.cancel(timer);
    }
    exchange
}
