//! `Pipeline`: the public handle to the pipeline of a channel.

use std::any::TypeId;
use std::fmt;
use std::rc::Rc;

use waterwheel_executor::Error;

use super::completion::Completion;
use super::dispatch::event::{
    BeginRead, Bind, Close, Connect, Deregister, Disconnect, Failure, Flush, Read, ReadComplete,
    ShutdownOutput, UserEvent, Write,
};
use super::dispatch::watched_handler::downcast;
use super::error::PipelineError;
use super::handler::Handler;
use super::message::Msg;
use super::slots::edit::Edit;
use super::slots::lookup::At;
use super::slots::name::Name;
use super::slots::slot_list::{HEAD, SlotId, TAIL};
use crate::address::{Address, ConnectTarget};
use crate::channel::core::ChannelCore;
use crate::channel::error::ChannelError;

/// The pipeline of a channel: its handlers in order, from the transport inward. Available on the
/// channel's loop only, from [`Ctx::pipeline`](super::Ctx::pipeline) and
/// [`Channel::with_pipeline`](crate::Channel::with_pipeline).
///
/// Inbound events fired here start at the first handler, as if they came from the transport. Outbound
/// operations start at the last handler.
///
/// ```
/// use waterwheel_channel::driver::TaskOnly;
/// use waterwheel_channel::{EventLoopGroup, Handler, local};
///
/// struct Pass;
///
/// impl Handler for Pass {}
///
/// let mut event_loop = EventLoopGroup::builder(TaskOnly).build_manual()?;
/// let (channel, _other) = local::pair();
/// let names = event_loop.on_loop(|here| {
///     let channel = here.register_with(channel, |_| Ok(()))?;
///     let names = here.with_pipeline(&channel, |pipeline| {
///         pipeline.add_last("second", Pass)?;
///         pipeline.add_before("second", "first", Pass)?;
///         let refused = pipeline.add_last("first", Pass).unwrap_err();
///         assert_eq!(refused.to_string(), "the pipeline already has a handler named `first`");
///         Ok::<_, waterwheel_channel::PipelineError>(pipeline.names())
///     });
///     Ok::<_, waterwheel_executor::Error>(names)
/// });
/// let names = names.expect("the loop runs")?.expect("the channel is open")?;
/// assert_eq!(names, ["first", "second"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Pipeline<'a> {
    core: &'a Rc<ChannelCore>,
}

impl<'a> Pipeline<'a> {
    pub(crate) fn new(core: &'a Rc<ChannelCore>) -> Self {
        Self { core }
    }

    /// Returns `Ok` if the channel is active, otherwise an error that says why it is not.
    pub(crate) fn expect_active(&self) -> Result<(), Error> {
        if self.core.is_active() {
            Ok(())
        } else if self.core.is_open() {
            Err(ChannelError::NotConnected.into())
        } else {
            Err(self.core.closed_error())
        }
    }

    /// Applies several changes as one: all changes that `f` makes, or none if `f` fails or the types
    /// would not fit. Then `on_added` of the new handlers and `on_removed` of the removed ones are
    /// called, in the order of the changes.
    ///
    /// # Errors
    /// The error of `f`; [`PipelineError`] if the types do not fit, or the channel is closed. A new
    /// handler whose `on_added` fails is removed; the other changes stay.
    pub fn edit<R, E: From<PipelineError>>(
        &self,
        f: impl FnOnce(&mut Edit<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        Edit::perform(self.core, f)
    }

    /// Adds a handler at the front, next to the transport.
    ///
    /// # Errors
    /// [`PipelineError`] tells what was wrong; the pipeline is unchanged.
    pub fn add_first(
        &self,
        name: impl Into<Name>,
        handler: impl Handler,
    ) -> Result<SlotId, PipelineError> {
        self.edit(|edit| edit.add_first(name, handler))
    }

    /// Adds a handler at the back.
    ///
    /// # Errors
    /// [`PipelineError`] tells what was wrong; the pipeline is unchanged.
    pub fn add_last(
        &self,
        name: impl Into<Name>,
        handler: impl Handler,
    ) -> Result<SlotId, PipelineError> {
        self.edit(|edit| edit.add_last(name, handler))
    }

    /// Adds a handler before another one: nearer to the transport.
    ///
    /// # Errors
    /// [`PipelineError`] tells what was wrong; the pipeline is unchanged.
    pub fn add_before<'b>(
        &self,
        at: impl Into<At<'b>>,
        name: impl Into<Name>,
        handler: impl Handler,
    ) -> Result<SlotId, PipelineError> {
        self.edit(|edit| edit.add_before(at, name, handler))
    }

    /// Adds a handler after another one: further from the transport.
    ///
    /// # Errors
    /// [`PipelineError`] tells what was wrong; the pipeline is unchanged.
    pub fn add_after<'b>(
        &self,
        at: impl Into<At<'b>>,
        name: impl Into<Name>,
        handler: impl Handler,
    ) -> Result<SlotId, PipelineError> {
        self.edit(|edit| edit.add_after(at, name, handler))
    }

    /// Removes a handler.
    ///
    /// # Errors
    /// [`PipelineError`]: there is no such handler, or the types of the remaining ones do not fit.
    pub fn remove<'b>(&self, at: impl Into<At<'b>>) -> Result<(), PipelineError> {
        self.edit(|edit| edit.remove(at))
    }

    /// Removes a handler if the pipeline has it. Returns true if it was removed.
    ///
    /// # Errors
    /// [`PipelineError`]: the types of the remaining handlers do not fit, or the channel is closed.
    pub fn remove_if_present<'b>(&self, at: impl Into<At<'b>>) -> Result<bool, PipelineError> {
        self.edit(|edit| edit.remove_if_present(at))
    }

    /// Replaces a handler by another one.
    ///
    /// # Errors
    /// [`PipelineError`] tells what was wrong; the pipeline is unchanged.
    pub fn replace<'b>(
        &self,
        at: impl Into<At<'b>>,
        name: impl Into<Name>,
        handler: impl Handler,
    ) -> Result<SlotId, PipelineError> {
        self.edit(|edit| edit.replace(at, name, handler))
    }

    /// Returns the slot of the handler with this name.
    #[must_use]
    pub fn slot(&self, name: &str) -> Option<SlotId> {
        let slots = self.core.pipeline.slots.borrow();
        slots.find_by_name(name).map(|at| slots.id(at))
    }

    /// Returns the slot of the first handler of type `H`.
    #[must_use]
    pub fn slot_of<H: Handler>(&self) -> Option<SlotId> {
        let slots = self.core.pipeline.slots.borrow();
        slots.find_by_type(TypeId::of::<H>()).map(|at| slots.id(at))
    }

    /// Calls `f` with the handler at `at`, which must be of type `H`. Returns `None` if there is no such
    /// handler, or if it is running at the moment.
    pub fn with_handler<'b, H: Handler, R>(
        &self,
        at: impl Into<At<'b>>,
        f: impl FnOnce(&mut H) -> R,
    ) -> Option<R> {
        let at = self.core.find_handler(at.into()).ok()?;
        let mut slots = self.core.pipeline.slots.borrow_mut();
        if slots.at(at).info()?.handler_type.id() != TypeId::of::<H>() {
            return None;
        }
        let handler = slots.at_mut(at).begin_call()?;
        drop(slots);
        let mut result = None;
        self.core.call(at, handler, |handler, _| {
            result = downcast::<H>(handler).map(f);
        });
        result
    }

    /// Returns the names of the handlers, in order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.core.handler_names()
    }

    /// Passes a message to the first handler, as if it was read from the transport.
    pub fn fire_read(&self, msg: impl Into<Msg>) {
        self.core.send_from(HEAD, Read(msg.into()));
    }

    /// Fires the end of a round of reads.
    pub fn fire_read_complete(&self) {
        self.core.send_from(HEAD, ReadComplete);
    }

    /// Fires a user event.
    pub fn fire_user_event(&self, event: impl Into<Msg>) {
        self.core.send_from(HEAD, UserEvent(event.into()));
    }

    /// Passes an error to the `on_error` of the first handler.
    pub fn fire_error(&self, error: Error) {
        self.core.send_from(HEAD, Failure(error));
    }

    /// Writes a message, through all handlers from the last to the first.
    pub fn write(&self, msg: impl Into<Msg>) {
        self.write_with(msg, Completion::none());
    }

    /// Writes a message; `done` receives the result.
    pub fn write_with(&self, msg: impl Into<Msg>, done: impl Into<Completion>) {
        self.core.send_from(TAIL, Write(msg.into(), done.into()));
    }

    /// Writes a message and flushes; `done` receives the result of the write.
    pub fn write_and_flush_with(&self, msg: impl Into<Msg>, done: impl Into<Completion>) {
        self.write_with(msg, done);
        self.flush();
    }

    /// Flushes all written messages.
    pub fn flush(&self) {
        self.core.send_from(TAIL, Flush);
    }

    /// Requests one round of reads.
    pub fn read(&self) {
        self.core.send_from(TAIL, BeginRead);
    }

    /// Binds the channel; `done` receives the result.
    pub fn bind_with(&self, to: impl Into<Address>, done: impl Into<Completion>) {
        self.core.send_from(TAIL, Bind(to.into(), done.into()));
    }

    /// Connects the channel; `done` receives the result.
    pub fn connect_with(&self, to: impl Into<ConnectTarget>, done: impl Into<Completion>) {
        self.core.send_from(TAIL, Connect(to.into(), done.into()));
    }

    /// Disconnects the channel, which closes it; `done` receives the result.
    pub fn disconnect_with(&self, done: impl Into<Completion>) {
        self.core.send_from(TAIL, Disconnect(done.into()));
    }

    /// Closes the channel; `done` receives the result.
    pub fn close_with(&self, done: impl Into<Completion>) {
        self.core.send_from(TAIL, Close(done.into()));
    }

    /// Deregisters the channel from its loop; `done` receives the result.
    pub fn deregister_with(&self, done: impl Into<Completion>) {
        self.core.send_from(TAIL, Deregister(done.into()));
    }

    /// Shuts down the output (half-close) after everything flushed was written; `done` receives the
    /// result. See [`Channel::shutdown_output`](crate::Channel::shutdown_output).
    pub fn shutdown_output_with(&self, done: impl Into<Completion>) {
        self.core.send_from(TAIL, ShutdownOutput(done.into()));
    }
}

impl fmt::Debug for Pipeline<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pipeline").field(&self.names()).finish()
    }
}
