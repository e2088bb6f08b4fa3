//! What stands in a pipeline for a handler that runs elsewhere.

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use waterwheel_executor::{Error, EventExecutor, EventExecutorGroup};

use super::executor_side::{Build, Occupant};
use super::link::{Letter, Link, Place};
use super::remote_completion::RemoteCompletion;
use super::remote_event::Mail;
use super::remote_handler::RemoteHandler;
use crate::address::{Address, ConnectTarget};
use crate::channel::error::ChannelError;
use crate::pipeline::completion::Completion;
use crate::pipeline::context::Ctx;
use crate::pipeline::handler::{Handler, HandlerResult};
use crate::pipeline::message::Msg;
use crate::pipeline::typed::signature::Signature;

/// A handler for a pipeline whose work is done by a [`RemoteHandler`] on another executor. It is added,
/// found, replaced and removed as any other.
///
/// All offloaded handlers of a channel that are given the same group run on the same executor of it. The
/// channel keeps that executor from ending by itself.
///
/// Removing it, or replacing it, is no hurry: it first gets all that was on its way to it, and what
/// comes meanwhile waits behind that and then goes past. Nothing that was written is lost.
pub struct Offloaded<H> {
    at: At,
    signature: Signature,
    /// Until it is added.
    build: Option<Build>,
    /// From then on.
    link: Option<Arc<Link>>,
    handler: PhantomData<fn() -> H>,
}

enum At {
    Group(EventExecutorGroup),
    Executor(EventExecutor),
}

impl<H: RemoteHandler> Offloaded<H> {
    /// A handler that `build` makes on an executor of this group.
    pub fn new(group: &EventExecutorGroup, build: impl FnOnce() -> H + Send + 'static) -> Self {
        Self::at(At::Group(group.clone()), build)
    }

    /// A handler that `build` makes on this executor.
    pub fn on(executor: &EventExecutor, build: impl FnOnce() -> H + Send + 'static) -> Self {
        Self::at(At::Executor(executor.clone()), build)
    }

    fn at(at: At, build: impl FnOnce() -> H + Send + 'static) -> Self {
        let build: Build = Box::new(|| Box::new(build()));
        let signature = Signature::any();
        Self { at, signature, build: Some(build), link: None, handler: PhantomData }
    }

    /// The types of the messages it takes and gives: they are checked before it is built, so it is not
    /// asked for them.
    #[must_use]
    pub fn signed(mut self, signature: Signature) -> Self {
        self.signature = signature;
        self
    }

    /// # Errors
    /// It was not added: then nothing comes to it.
    fn link(&self) -> Result<&Arc<Link>, Error> {
        self.link.as_ref().ok_or_else(|| Error::new(ChannelError::Gone))
    }

    fn post(&self, mail: Mail) -> HandlerResult {
        self.link()?.post(Letter::Event(mail));
        Ok(())
    }

    fn ask(
        &self,
        ctx: &Ctx<'_>,
        done: &mut Completion,
        mail: impl FnOnce(RemoteCompletion) -> Mail,
    ) -> HandlerResult {
        let link = self.link()?;
        let done = ctx.core().leave(link, done.take());
        link.post(Letter::Event(mail(done)));
        Ok(())
    }
}

/// All events stop here (rule 12): the default interest is all of them.
impl<H: RemoteHandler> Handler for Offloaded<H> {
    fn signature(&self) -> Signature {
        self.signature
    }

    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let Some(build) = self.build.take() else { unreachable!("a handler is added once") };
        let core = ctx.core();
        let executor = match &self.at {
            At::Group(group) => core.pin(group),
            At::Executor(executor) => executor.clone(),
        };
        let place = Place {
            shared: core.shared().clone(),
            slot: ctx.slot(),
            name: ctx.name(),
            type_name: type_name::<H>(),
            executor,
        };
        let link = Arc::new(Link::new(place, Occupant::Unbuilt(build)));
        link.open()?;
        if let Some(about) = core.handlers.slots.borrow_mut().at_mut(ctx.at()).about_mut() {
            about.more_mut().offloaded = Some(link.clone());
        }
        self.link = Some(link);
        Ok(())
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        if let Some(link) = &self.link {
            ctx.core().keep_place(ctx.at());
            link.post(Letter::Removed);
        }
    }

    fn on_registered(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.post(Mail::Registered)
    }

    fn on_unregistered(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.post(Mail::Unregistered)
    }

    fn on_active(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.post(Mail::Active)
    }

    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.post(Mail::Inactive)
    }

    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.post(Mail::Read(msg))
    }

    fn on_read_complete(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.post(Mail::ReadComplete)
    }

    fn on_user_event(&mut self, _: &Ctx<'_>, event: Msg) -> HandlerResult {
        self.post(Mail::UserEvent(event))
    }

    fn on_writability_changed(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.post(Mail::WritabilityChanged)
    }

    fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
        self.post(Mail::Failure(error))
    }

    fn bind(&mut self, ctx: &Ctx<'_>, to: Address, done: &mut Completion) -> HandlerResult {
        self.ask(ctx, done, |done| Mail::Bind(to, done))
    }

    fn connect(
        &mut self,
        ctx: &Ctx<'_>,
        to: ConnectTarget,
        done: &mut Completion,
    ) -> HandlerResult {
        self.ask(ctx, done, |done| Mail::Connect(to, done))
    }

    fn disconnect(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        self.ask(ctx, done, Mail::Disconnect)
    }

    fn close(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        self.ask(ctx, done, Mail::Close)
    }

    fn deregister(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        self.ask(ctx, done, Mail::Deregister)
    }

    fn shutdown_output(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        self.ask(ctx, done, Mail::ShutdownOutput)
    }

    fn read(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.post(Mail::BeginRead)
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        let weight = ctx.core().shared().reserve_pending(msg.size_hint())?;
        self.ask(ctx, done, |done| Mail::Write(msg, done, weight))?;
        ctx.core().weigh_mail(self.link()?);
        Ok(())
    }

    fn flush(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.post(Mail::Flush)
    }
}

impl<H> fmt::Debug for Offloaded<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Offloaded({})", type_name::<H>())
    }
}
