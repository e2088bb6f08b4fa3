//! The handler of a bridge, at the end of its pipeline.

use std::fmt;
use std::rc::Rc;

use waterwheel_channel::{
    Ctx, Draining, Events, HalfClosed, Handler, HandlerResult, LocalJoin, Message, Msg, Signature,
    TypeTag,
};
use waterwheel_executor::Error;

use super::state::BridgeState;

/// Starts the task of a connection, on its loop.
pub(crate) type StartTask = Box<dyn FnOnce() -> LocalJoin<()>>;

/// The end of a pipeline whose messages futures read: see the rules of the [module](super).
pub(crate) struct BridgeHandler<In: Message> {
    state: Rc<BridgeState<In>>,
    task: ConnectionTask,
}

/// The task of a connection, which runs its `async fn`.
enum ConnectionTask {
    /// Futures use the bridge as they like.
    None,
    /// Starts when the channel is active.
    Waiting(StartTask),
    Started(LocalJoin<()>),
}

impl ConnectionTask {
    fn started(&self) -> Option<&LocalJoin<()>> {
        match self {
            Self::Started(task) => Some(task),
            Self::None | Self::Waiting(_) => None,
        }
    }
}

impl<In: Message> BridgeHandler<In> {
    pub(crate) fn new(state: Rc<BridgeState<In>>) -> Self {
        Self { state, task: ConnectionTask::None }
    }

    /// Creates a handler that starts a task when the channel is active.
    pub(crate) fn with_task(state: Rc<BridgeState<In>>, start: StartTask) -> Self {
        Self { state, task: ConnectionTask::Waiting(start) }
    }

    pub(crate) fn state(&self) -> &Rc<BridgeState<In>> {
        &self.state
    }

    fn start_task(&mut self) {
        self.task = match std::mem::replace(&mut self.task, ConnectionTask::None) {
            ConnectionTask::Waiting(start) => ConnectionTask::Started(start()),
            other => other,
        };
    }
}

impl<In: Message> Handler for BridgeHandler<In> {
    fn interest(&self) -> Events {
        Events::UNREGISTERED
            | Events::ACTIVE
            | Events::INACTIVE
            | Events::READ
            | Events::READ_COMPLETE
            | Events::USER_EVENT
            | Events::WRITABILITY_CHANGED
            | Events::ERROR
    }

    fn signature(&self) -> Signature {
        Signature::any().reads(TypeTag::list::<In>())
    }

    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.state.attach(ctx);
        if ctx.is_active() {
            self.start_task();
        }
        Ok(())
    }

    fn on_removed(&mut self, _: &Ctx<'_>) {
        self.state.detach();
        self.task = ConnectionTask::None;
    }

    fn on_unregistered(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        // A channel that is only deregistered may be registered again.
        if !ctx.channel().is_open() {
            self.state.end();
            self.task = ConnectionTask::None;
        }
        ctx.fire_unregistered();
        Ok(())
    }

    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.start_task();
        ctx.fire_active();
        Ok(())
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.state.end_input(self.state.channel().close_cause());
        self.state.wake_writer();
        ctx.fire_inactive();
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        match msg.take::<In>() {
            Ok(message) => self.state.push(message, ctx.event_loop(), self.task.started()),
            Err(other) => ctx.fire_read(other),
        }
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.state.end_round(ctx);
        ctx.fire_read_complete();
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.get() == Some(&HalfClosed::Input) {
            self.state.finish_input(ctx);
        } else if event.is::<Draining>() {
            self.state.begin_drain();
        }
        ctx.fire_user_event(event);
        Ok(())
    }

    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.state.wake_writer();
        ctx.fire_writability_changed();
        Ok(())
    }

    fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
        if let Err(error) = self.state.push_error(error) {
            ctx.fire_error(error);
        }
        Ok(())
    }
}

impl<In: Message> fmt::Debug for BridgeHandler<In> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BridgeHandler")
            .field("channel", self.state.channel())
            .finish_non_exhaustive()
    }
}
