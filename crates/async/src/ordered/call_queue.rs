//! The calls of a connection: how they begin, are polled, answered in order, and end.

use std::cell::Cell;
use std::future::Future;
use std::mem;
use std::rc::Rc;
use std::task::{Poll, Waker};

use waterwheel_channel::{Ctx, Msg};
use waterwheel_executor::engine::drop_in_turn;
use waterwheel_executor::{Error, Origin};

use super::async_handler::AsyncHandler;
use super::builder::AnswerOptions;
use super::call_slot::{CallFailure, CallSlot};
use super::call_state::{AnswerPhase, Call, CallState};

/// The calls of a connection, without the type of their futures, which cannot be named.
pub(super) trait OrderedCalls {
    /// Begins a call, or holds the request; passes other messages on. Returns true if a driver has to be spawned.
    #[must_use]
    fn on_read(&self, ctx: &Ctx<'_>, msg: Msg) -> bool;

    /// Flushes the answers of a round of reads.
    fn flush_round(&self, ctx: &Ctx<'_>);

    /// Continues with the requests that were held while the channel was not writable, or pauses reads. Returns true
    /// if a driver has to be spawned.
    #[must_use]
    fn on_writability_changed(&self, ctx: &Ctx<'_>) -> bool;

    /// Fires the event at the end of the input when everything is answered.
    fn on_input_over(&self, ctx: &Ctx<'_>, event: Msg);

    /// Ends all calls: nothing can be answered any more.
    fn on_output_over(&self, ctx: &Ctx<'_>);

    /// Polls the calls that were woken, and writes the answers whose turn it is.
    fn run_woken(&self, ctx: &Ctx<'_>, driver: &Waker);

    /// Ends all calls because the handler is removed, and passes on what it holds.
    fn hand_over(&self, ctx: &Ctx<'_>);

    /// Ends all calls. Returns the event at the end of the input, if it was kept.
    fn end(&self) -> Option<Msg>;

    /// True after `end` or `hand_over`.
    fn is_over(&self) -> bool;
}

/// Returns the calls of a connection that this handler answers.
pub(super) fn ordered_calls<H: AsyncHandler>(
    handler: H,
    options: AnswerOptions,
) -> Rc<dyn OrderedCalls> {
    let make_call = |handler: Rc<H>, request: H::Request| async move {
        match handler.call(request).await {
            Err(error) => handler.answer_error(error),
            answer => answer,
        }
    };
    Rc::new(CallQueue::new(handler, make_call, options))
}

struct CallQueue<H: AsyncHandler, M, F> {
    handler: Rc<H>,
    /// Makes the future of a call.
    make_call: M,
    options: AnswerOptions,
    origin: Origin,
    /// Absent while it is used, and once the calls are over. Only one method uses it at a time: all of them are calls
    /// of the pipeline's handler.
    state: Cell<Option<StateBox<H, F>>>,
}

type StateBox<H, F> =
    Box<CallState<F, <H as AsyncHandler>::Request, <H as AsyncHandler>::Response>>;

impl<H, M, F> CallQueue<H, M, F>
where
    H: AsyncHandler,
    M: Fn(Rc<H>, H::Request) -> F,
    F: Future<Output = Result<H::Response, Error>>,
{
    fn new(handler: H, make_call: M, options: AnswerOptions) -> Self {
        let origin = Origin::labelled(std::any::type_name::<H>());
        let state = Cell::new(Some(Box::new(CallState::new())));
        Self { handler: Rc::new(handler), make_call, options, origin, state }
    }

    /// Calls `f` with the state, taken out of its cell: nothing is borrowed meanwhile. Returns `None` once the calls are
    /// over.
    fn with_state<R>(&self, f: impl FnOnce(&mut StateBox<H, F>) -> R) -> Option<R> {
        let mut state = self.state.take()?;
        let result = f(&mut state);
        self.state.set(Some(state));
        Some(result)
    }

    fn may_begin(&self, ctx: &Ctx<'_>, state: &StateBox<H, F>) -> bool {
        state.phase == AnswerPhase::Open
            && state.calls.len() < self.options.max_concurrent
            && ctx.is_writable()
            && !ctx.is_removed()
    }

    /// Begins a call and polls it for the first time.
    fn begin(&self, ctx: &Ctx<'_>, state: &mut StateBox<H, F>, request: H::Request) {
        let mut slot = state.take_spare().unwrap_or_else(|| CallSlot::new(self.origin));
        slot.put((self.make_call)(self.handler.clone(), request), state.driver.as_ref());
        match slot.poll() {
            Poll::Pending => state.calls.push_back(Call::Running(slot)),
            Poll::Ready(outcome) => {
                state.recycle(slot);
                match outcome {
                    Ok(answer) if state.calls.is_empty() => self.write(ctx, state, answer),
                    Ok(answer) => state.calls.push_back(Call::Answered(answer)),
                    Err(failure) => {
                        state.calls.push_back(Call::Failed(failure));
                        state.fail_after(state.calls.len() - 1);
                        self.answer_front(ctx, state);
                    }
                }
            }
        }
    }

    /// Begins the requests that are held, as many as may run.
    fn begin_held(&self, ctx: &Ctx<'_>, state: &mut StateBox<H, F>) {
        while !state.held.is_empty() && self.may_begin(ctx, state) {
            if let Some(request) = state.held.pop_front() {
                self.begin(ctx, state, request);
            }
        }
    }

    /// Writes the answers that no earlier call precedes.
    fn answer_front(&self, ctx: &Ctx<'_>, state: &mut StateBox<H, F>) {
        while let Some(call) = state.calls.pop_front_if(|call| !matches!(call, Call::Running(_))) {
            match call {
                Call::Answered(answer) => self.write(ctx, state, answer),
                Call::Failed(failure) => self.close(ctx, state, failure),
                Call::Running(_) => {}
            }
        }
    }

    fn write(&self, ctx: &Ctx<'_>, state: &mut StateBox<H, F>, answer: H::Response) {
        // A refused answer must not be replaced by the next one.
        ctx.write_or_close(answer);
        state.has_unflushed = true;
        // Above the high-water mark a flush writes at once: it may make room for the next call.
        if !ctx.is_writable() {
            self.flush(ctx, state);
        }
    }

    fn flush(&self, ctx: &Ctx<'_>, state: &mut StateBox<H, F>) {
        if mem::take(&mut state.has_unflushed) {
            ctx.flush();
        }
    }

    /// Leaves the flush to the end of the round of reads, or to the driver if another handler has fired the read outside
    /// of a round. Returns true if a driver has to be spawned.
    fn flush_later(&self, ctx: &Ctx<'_>, state: &mut StateBox<H, F>) -> bool {
        if !state.has_unflushed || ctx.is_in_read_round() {
            return false;
        }
        if let Some(driver) = &state.driver {
            driver.wake_by_ref();
        }
        !mem::replace(&mut state.has_driver, true)
    }

    /// Closes the channel because of a call without an answer, after the earlier answers were written.
    fn close(&self, ctx: &Ctx<'_>, state: &mut StateBox<H, F>, failure: CallFailure) {
        state.cancel();
        self.flush(ctx, state);
        let error = match failure {
            CallFailure::Error(error) => {
                ctx.fire_error(error.clone());
                error
            }
            CallFailure::Panic(error) => error,
        };
        let (local, channel) = (ctx.to_local(), ctx.channel());
        // A close alone would not wait for answers that the peer has yet to make room for.
        ctx.shutdown_output_then(move |_| {
            if local.run(move |ctx| ctx.close_because(error)).is_err() {
                drop(channel.close());
            }
        });
    }

    /// Adjusts the pause of reads and the guard against drains, and fires the end of the input when its time has come.
    /// Returns true if a driver has to be spawned.
    fn settle(&self, ctx: &Ctx<'_>, state: &mut StateBox<H, F>) -> bool {
        if state.is_idle() {
            state.hold = None;
            state.shrink();
            if let Some(event) = state.input_over.take() {
                self.pass_input_over(ctx, state, event);
            }
        } else if state.hold.is_none() {
            state.hold = Some(ctx.hold());
        }
        let pauses = match state.phase {
            AnswerPhase::Open => {
                state.calls.len() >= self.options.max_concurrent
                    || !state.held.is_empty()
                    || !ctx.is_writable()
            }
            AnswerPhase::Failing => true,
            AnswerPhase::Over => state.pause.is_some(),
        };
        if !pauses {
            state.pause = None;
        } else if state.pause.is_none() && ctx.is_active() {
            state.pause = Some(ctx.pause_reads());
        }
        !state.calls.is_empty() && !mem::replace(&mut state.has_driver, true)
    }

    fn pass_input_over(&self, ctx: &Ctx<'_>, state: &mut StateBox<H, F>, event: Msg) {
        self.flush(ctx, state);
        ctx.fire_user_event(event);
        if state.phase == AnswerPhase::Open && !self.options.keeps_output_open {
            ctx.shutdown_output();
        }
    }
}

impl<H, M, F> OrderedCalls for CallQueue<H, M, F>
where
    H: AsyncHandler,
    M: Fn(Rc<H>, H::Request) -> F,
    F: Future<Output = Result<H::Response, Error>>,
{
    fn on_read(&self, ctx: &Ctx<'_>, msg: Msg) -> bool {
        let request = match msg.take::<H::Request>() {
            Ok(request) => request,
            Err(other) => {
                ctx.fire_read(other);
                return false;
            }
        };
        let needs_driver = self.with_state(|state| {
            if state.phase != AnswerPhase::Open {
                drop_in_turn(request); // No answer could follow.
                return false;
            }
            if state.held.is_empty() && self.may_begin(ctx, state) {
                self.begin(ctx, state, request);
            } else {
                state.held.push_back(request);
            }
            let needs_driver = self.settle(ctx, state);
            needs_driver || self.flush_later(ctx, state)
        });
        needs_driver.unwrap_or(false)
    }

    fn flush_round(&self, ctx: &Ctx<'_>) {
        self.with_state(|state| self.flush(ctx, state));
    }

    fn on_writability_changed(&self, ctx: &Ctx<'_>) -> bool {
        let needs_driver = self.with_state(|state| {
            self.begin_held(ctx, state);
            self.flush(ctx, state);
            self.settle(ctx, state)
        });
        needs_driver.unwrap_or(false)
    }

    fn on_input_over(&self, ctx: &Ctx<'_>, event: Msg) {
        let mut event = Some(event);
        self.with_state(|state| {
            self.flush(ctx, state);
            state.input_over = event.take();
            // Nothing begins here, so there is no driver to spawn.
            let _ = self.settle(ctx, state);
        });
        if let Some(event) = event {
            ctx.fire_user_event(event);
        }
    }

    fn on_output_over(&self, ctx: &Ctx<'_>) {
        self.with_state(|state| {
            state.cancel();
            // The end of the input is read, which closes the channel.
            state.pause = None;
            let _ = self.settle(ctx, state);
        });
    }

    fn run_woken(&self, ctx: &Ctx<'_>, driver: &Waker) {
        self.with_state(|state| {
            if state.driver.is_none() {
                state.driver = Some(driver.clone());
            }
            let mut at = 0;
            while at < state.calls.len() {
                if let Call::Running(slot) = &mut state.calls[at]
                    && slot.take_mark(driver)
                    && let Poll::Ready(outcome) = slot.poll_woken()
                {
                    let has_failed = outcome.is_err();
                    let done = outcome.map_or_else(Call::Failed, Call::Answered);
                    if let Call::Running(slot) = mem::replace(&mut state.calls[at], done) {
                        state.recycle(slot);
                    }
                    if has_failed {
                        state.fail_after(at);
                    }
                }
                at += 1;
            }
            self.answer_front(ctx, state);
            self.begin_held(ctx, state);
            self.flush(ctx, state);
            let _ = self.settle(ctx, state); // The driver is this call.
        });
    }

    fn hand_over(&self, ctx: &Ctx<'_>) {
        let Some(mut state) = self.state.take() else { return };
        let held = mem::take(&mut state.held);
        let was_open = state.phase == AnswerPhase::Open && ctx.is_active();
        state.cancel();
        self.flush(ctx, &mut state);
        if was_open && !held.is_empty() {
            held.into_iter().for_each(|request| ctx.fire_read(request));
            ctx.fire_read_complete();
        }
        if let Some(event) = state.input_over.take() {
            ctx.fire_user_event(event);
        }
        if let Some(driver) = state.driver.take() {
            driver.wake();
        }
    }

    fn end(&self) -> Option<Msg> {
        let mut state = self.state.take()?;
        state.cancel();
        if let Some(driver) = state.driver.take() {
            driver.wake();
        }
        state.input_over.take()
    }

    fn is_over(&self) -> bool {
        let state = self.state.take();
        let is_over = state.is_none();
        self.state.set(state);
        is_over
    }
}
