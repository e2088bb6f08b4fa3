//! `Offloaded`: the handler on the loop that stands for a handler on another executor.

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use waterwheel_executor::{Error, EventExecutor, EventExecutorGroup};

use super::executor_side::{BuildHandler, RemoteHandlerState};
use super::link::{HandlerCommand, LinkOwner, OffloadLink};
use super::remote_completion::RemoteCompletion;
use super::remote_event::RemoteEvent;
use super::remote_handler::RemoteHandler;
use crate::address::{Address, ConnectTarget};
use crate::channel::error::ChannelError;
use crate::pipeline::completion::Completion;
use crate::pipeline::context::Ctx;
use crate::pipeline::handler::{Handler, HandlerResult};
use crate::pipeline::message::Msg;
use crate::pipeline::typed::signature::Signature;

/// A handler whose work is done by a [`RemoteHandler`] on another executor. It is added, found, replaced
/// and removed as any other handler.
///
/// All offloaded handlers of a channel that are given the same group run on the same executor of that
/// group. The channel keeps that executor from ending by itself.
///
/// A handler that is removed or replaced first receives everything that was queued for it. Events that
/// arrive meanwhile wait until then and skip the handler; no write is lost.
pub struct Offloaded<H> {
    executor: ExecutorChoice,
    signature: Signature,
    /// Builds the handler; taken when it is added.
    build: Option<BuildHandler>,
    /// Set when the handler is added.
    link: Option<Arc<OffloadLink>>,
    handler: PhantomData<fn() -> H>,
}

/// The executor, or the group, that an offloaded handler runs on.
enum ExecutorChoice {
    Group(EventExecutorGroup),
    Executor(EventExecutor),
}

impl<H: RemoteHandler> Offloaded<H> {
    /// Returns a handler that `build` creates on one executor of this group, where the handler also runs.
    pub fn new(group: &EventExecutorGroup, build: impl FnOnce() -> H + Send + 'static) -> Self {
        Self::with_executor(ExecutorChoice::Group(group.clone()), build)
    }

    /// Returns a handler that `build` creates on this executor, where the handler also runs.
    pub fn on(executor: &EventExecutor, build: impl FnOnce() -> H + Send + 'static) -> Self {
        Self::with_executor(ExecutorChoice::Executor(executor.clone()), build)
    }

    fn with_executor(executor: ExecutorChoice, build: impl FnOnce() -> H + Send + 'static) -> Self {
        let build: BuildHandler = Box::new(|| Box::new(build()));
        let signature = Signature::any();
        Self { executor, signature, build: Some(build), link: None, handler: PhantomData }
    }

    /// Declares the types of the messages that the handler accepts and emits. They are declared here
    /// because they are checked before the handler is built.
    #[must_use]
    pub fn with_signature(mut self, signature: Signature) -> Self {
        self.signature = signature;
        self
    }

    /// Returns the link to the executor.
    ///
    /// # Errors
    /// The handler was not added; it receives no events then.
    fn link(&self) -> Result<&Arc<OffloadLink>, Error> {
        self.link.as_ref().ok_or_else(|| Error::new(ChannelError::Gone))
    }

    fn send_event(&self, event: RemoteEvent) -> HandlerResult {
        self.link()?.send_command(HandlerCommand::Event(event));
        Ok(())
    }

    fn send_operation(
        &self,
        ctx: &Ctx<'_>,
        done: &mut Completion,
        event: impl FnOnce(RemoteCompletion) -> RemoteEvent,
    ) -> HandlerResult {
        let link = self.link()?;
        let done = ctx.core().keep_completion(link, done.take());
        link.send_command(HandlerCommand::Event(event(done)));
        Ok(())
    }
}

/// Every event stops here (rule 12): the default interest is [`Events::ALL`](crate::Events::ALL).
impl<H: RemoteHandler> Handler for Offloaded<H> {
    fn signature(&self) -> Signature {
        self.signature
    }

    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let Some(build) = self.build.take() else { unreachable!("a handler is added once") };
        let core = ctx.core();
        let executor = match &self.executor {
            ExecutorChoice::Group(group) => core.pin_executor(group),
            ExecutorChoice::Executor(executor) => executor.clone(),
        };
        let owner = LinkOwner {
            shared: core.shared().clone(),
            slot: ctx.slot(),
            name: ctx.name(),
            type_name: type_name::<H>(),
            executor,
        };
        let link = Arc::new(OffloadLink::new(owner, RemoteHandlerState::Unbuilt(build)));
        link.send_add()?;
        if let Some(info) = core.pipeline.slots.borrow_mut().at_mut(ctx.at()).info_mut() {
            info.cold_mut().offload_link = Some(link.clone());
        }
        self.link = Some(link);
        Ok(())
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        if let Some(link) = &self.link {
            ctx.core().let_slot_linger(ctx.at());
            link.send_command(HandlerCommand::Remove);
        }
    }

    fn on_registered(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.send_event(RemoteEvent::Registered)
    }

    fn on_unregistered(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.send_event(RemoteEvent::Unregistered)
    }

    fn on_active(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.send_event(RemoteEvent::Active)
    }

    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.send_event(RemoteEvent::Inactive)
    }

    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.send_event(RemoteEvent::Read(msg))
    }

    fn on_read_complete(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.send_event(RemoteEvent::ReadComplete)
    }

    fn on_user_event(&mut self, _: &Ctx<'_>, event: Msg) -> HandlerResult {
        self.send_event(RemoteEvent::UserEvent(event))
    }

    fn on_writability_changed(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.send_event(RemoteEvent::WritabilityChanged)
    }

    fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
        self.send_event(RemoteEvent::Failure(error))
    }

    fn bind(&mut self, ctx: &Ctx<'_>, to: Address, done: &mut Completion) -> HandlerResult {
        self.send_operation(ctx, done, |done| RemoteEvent::Bind(to, done))
    }

    fn connect(
        &mut self,
        ctx: &Ctx<'_>,
        to: ConnectTarget,
        done: &mut Completion,
    ) -> HandlerResult {
        self.send_operation(ctx, done, |done| RemoteEvent::Connect(to, done))
    }

    fn disconnect(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        self.send_operation(ctx, done, RemoteEvent::Disconnect)
    }

    fn close(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        self.send_operation(ctx, done, RemoteEvent::Close)
    }

    fn deregister(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        self.send_operation(ctx, done, RemoteEvent::Deregister)
    }

    fn shutdown_output(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        self.send_operation(ctx, done, RemoteEvent::ShutdownOutput)
    }

    fn read(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.send_event(RemoteEvent::BeginRead)
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        let reservation = ctx.core().shared().reserve_pending(msg.size_hint())?;
        self.send_operation(ctx, done, |done| RemoteEvent::Write(msg, done, reservation))?;
        ctx.core().update_backpressure(self.link()?);
        Ok(())
    }

    fn flush(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.send_event(RemoteEvent::Flush)
    }
}

impl<H> fmt::Debug for Offloaded<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Offloaded({})", type_name::<H>())
    }
}
