//! `OrderedAnswers`: the handler of the pipeline that calls an `AsyncHandler`.

use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;

use waterwheel_channel::{
    Ctx, Events, HalfClosed, Handler, HandlerResult, Msg, Signature, TypeTag,
};

use super::async_handler::AsyncHandler;
use super::builder::{AnswerOptions, OrderedAnswersBuilder};
use super::call_driver::CallDriver;
use super::call_queue::{OrderedCalls, ordered_calls};

/// Answers requests by asynchronous calls and writes the answers in the order of the requests: for protocols whose
/// peers pipeline, such as RESP and HTTP/1.1. Add it after the codec.
///
/// ```
/// use std::time::Duration;
/// use waterwheel_async::{OrderedAnswers, handler_fn};
/// use waterwheel_channel::sleep;
/// use waterwheel_executor::Error;
/// use waterwheel_testkit::embedded::Embedded;
///
/// let mut channel = Embedded::new(|edit| {
///     let wait = handler_fn(|millis: u64| async move {
///         sleep(Duration::from_millis(millis)).await;
///         Ok::<_, Error>(format!("waited for {millis} ms"))
///     });
///     edit.add_last("answers", OrderedAnswers::new(wait))?;
///     Ok(())
/// })?;
/// channel.write_inbound(30u64);
/// channel.write_inbound(10u64);
/// channel.advance(Duration::from_millis(10));
/// assert!(channel.read_outbound_any().is_none(), "the answer to the second request waits for the first");
/// channel.advance(Duration::from_millis(20));
/// assert_eq!(channel.read_outbound::<String>().unwrap(), "waited for 30 ms");
/// assert_eq!(channel.read_outbound::<String>().unwrap(), "waited for 10 ms");
/// # Ok::<(), Error>(())
/// ```
///
/// 1. *Calls.* A request begins its call when it is read, and is polled at once; at most
///    [`max_concurrent`](OrderedAnswersBuilder::max_concurrent) requests are under way. Messages of other types pass.
/// 2. *Answers* are written in the order of the requests, as soon as no earlier one is missing. Those of a round of reads
///    are flushed at its end (`on_read_complete`), those to reads that another handler fires outside of a round in the
///    same turn of the loop, later ones at once; those that become ready in one turn share a flush. A call that is ready at its first poll costs no task and no allocation.
/// 3. *Back-pressure.* Reads are paused while `max_concurrent` requests are under way, and while the channel is not
///    writable; no call begins meanwhile. Messages that the decoder still finds in the same read are held. So at most
///    `max_concurrent` requests are under way, and those of one read are held, less the one that began last: at most
///    64 KiB by default, decoded (`ReceiveSizes`).
/// 4. *Errors.* If a call fails and [`answer_error`](AsyncHandler::answer_error) gives no answer, no later request is
///    answered: its call is dropped at once. When the earlier answers are written, the error is fired and the channel is
///    closed with it as the cause. A panic is reported with the name of the handler's type, and then ends the channel in
///    the same way, except that it is not fired.
/// 5. *Close.* All futures are dropped on the loop when the channel becomes inactive, before it is unregistered; nothing
///    that they hold outlives it. They are also dropped when the output is shut down: there is nothing to answer to.
/// 6. *Removal.* Calls are dropped, and requests that have not begun are passed on to the next handler.
/// 7. *End of the input.* With `allow_half_closure` everything is answered after the peer has finished. The event
///    [`HalfClosed::Input`] passes after the last answer; then the output is shut down, which closes the channel, unless
///    [`keep_output_open`](OrderedAnswersBuilder::keep_output_open) was set. Without `allow_half_closure` the channel is
///    closed at the end of the input, and calls under way are dropped.
/// 8. *Drain.* A drain of the loop waits for all requests that were read.
///
/// An answer that the encoder refuses is missing on the wire, so the channel is closed with the encoder's error.
pub struct OrderedAnswers<H> {
    calls: Rc<dyn OrderedCalls>,
    handler: PhantomData<fn() -> H>,
}

impl<H: AsyncHandler> OrderedAnswers<H> {
    /// Returns a handler with the default options.
    #[must_use]
    pub fn new(handler: H) -> Self {
        Self::with_options(handler, AnswerOptions::default())
    }

    /// Returns a builder, for other options.
    pub fn builder(handler: H) -> OrderedAnswersBuilder<H> {
        OrderedAnswersBuilder::new(handler)
    }

    pub(super) fn with_options(handler: H, options: AnswerOptions) -> Self {
        Self { calls: ordered_calls(handler, options), handler: PhantomData }
    }
}

impl<H: AsyncHandler> Handler for OrderedAnswers<H> {
    fn interest(&self) -> Events {
        Events::READ
            | Events::READ_COMPLETE
            | Events::USER_EVENT
            | Events::WRITABILITY_CHANGED
            | Events::INACTIVE
    }

    fn signature(&self) -> Signature {
        Signature::transparent()
            .inbound(TypeTag::list::<H::Request>(), &[])
            .answers(TypeTag::list::<H::Response>())
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        self.calls.hand_over(ctx);
    }

    #[inline]
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        if self.calls.on_read(ctx, msg) {
            CallDriver::spawn(self.calls.clone(), ctx);
        }
        Ok(())
    }

    #[inline]
    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.calls.flush_round(ctx);
        ctx.fire_read_complete();
        Ok(())
    }

    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        if self.calls.on_writability_changed(ctx) {
            CallDriver::spawn(self.calls.clone(), ctx);
        }
        ctx.fire_writability_changed();
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        match event.get() {
            Some(HalfClosed::Input) => self.calls.on_input_over(ctx, event),
            Some(HalfClosed::Output) => {
                self.calls.on_output_over(ctx);
                ctx.fire_user_event(event);
            }
            None => ctx.fire_user_event(event),
        }
        Ok(())
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        if let Some(event) = self.calls.end() {
            ctx.fire_user_event(event);
        }
        ctx.fire_inactive();
        Ok(())
    }
}

impl<H> Drop for OrderedAnswers<H> {
    fn drop(&mut self) {
        // After a panic of another handler, or at the end of the loop, there was neither `on_inactive` nor `on_removed`.
        drop(self.calls.end());
    }
}

impl<H> fmt::Debug for OrderedAnswers<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OrderedAnswers").field(&std::any::type_name::<H>()).finish()
    }
}
