//! The pipeline of a channel, as a whole.

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

/// The handlers of a channel, in order, from the transport inward. To be had on the loop only:
/// [`Ctx::pipeline`](super::Ctx::pipeline), [`Channel::with_pipeline`](crate::Channel::with_pipeline).
///
/// What is fired here comes to the first handler first, as if it came from the transport; what is
/// written here, to the last one first.
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
///         assert_eq!(refused.to_string(), "there is already a handler named `first`");
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

    /// Whether the channel is active; if not, why.
    pub(crate) fn expect_active(&self) -> Result<(), Error> {
        if self.core.is_active() {
            Ok(())
        } else if self.core.is_open() {
            Err(ChannelError::NotConnected.into())
        } else {
            Err(self.core.closed_error())
        }
    }

    /// Changes it: all that `f` asks for, or nothing if `f` fails or the types would not fit. Those that
    /// came and those that went are told at the end, in the order of the changes.
    ///
    /// # Errors
    /// What `f` returns; [`PipelineError`] if the types do not fit, or the channel is closed. A new
    /// handler whose `on_added` fails is removed, and the rest stays.
    pub fn edit<R, E: From<PipelineError>>(
        &self,
        f: impl FnOnce(&mut Edit<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        Edit::perform(self.core, f)
    }

    /// Puts a handler first, next to the transport.
    ///
    /// # Errors
    /// [`PipelineError`] names what was wrong; the pipeline is as it was.
    pub fn add_first(
        &self,
        name: impl Into<Name>,
        handler: impl Handler,
    ) -> Result<SlotId, PipelineError> {
        self.edit(|edit| edit.add_first(name, handler))
    }

    /// Puts a handler last.
    ///
    /// # Errors
    /// [`PipelineError`] names what was wrong; the pipeline is as it was.
    pub fn add_last(
        &self,
        name: impl Into<Name>,
        handler: impl Handler,
    ) -> Result<SlotId, PipelineError> {
        self.edit(|edit| edit.add_last(name, handler))
    }

    /// Puts a handler before another: nearer to the transport.
    ///
    /// # Errors
    /// [`PipelineError`] names what was wrong; the pipeline is as it was.
    pub fn add_before<'b>(
        &self,
        at: impl Into<At<'b>>,
        name: impl Into<Name>,
        handler: impl Handler,
    ) -> Result<SlotId, PipelineError> {
        self.edit(|edit| edit.add_before(at, name, handler))
    }

    /// Puts a handler behind another: further from the transport.
    ///
    /// # Errors
    /// [`PipelineError`] names what was wrong; the pipeline is as it was.
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
    /// [`PipelineError`]: it is not there, or what is left does not fit.
    pub fn remove<'b>(&self, at: impl Into<At<'b>>) -> Result<(), PipelineError> {
        self.edit(|edit| edit.remove(at))
    }

    /// Removes a handler if it is there. Returns whether it was.
    ///
    /// # Errors
    /// [`PipelineError`]: what is left does not fit, or the channel is closed.
    pub fn remove_if_present<'b>(&self, at: impl Into<At<'b>>) -> Result<bool, PipelineError> {
        self.edit(|edit| edit.remove_if_present(at))
    }

    /// Puts a handler in the place of another.
    ///
    /// # Errors
    /// [`PipelineError`] names what was wrong; the pipeline is as it was.
    pub fn replace<'b>(
        &self,
        at: impl Into<At<'b>>,
        name: impl Into<Name>,
        handler: impl Handler,
    ) -> Result<SlotId, PipelineError> {
        self.edit(|edit| edit.replace(at, name, handler))
    }

    /// The place of the handler with this name.
    #[must_use]
    pub fn slot(&self, name: &str) -> Option<SlotId> {
        let slots = self.core.pipeline.slots.borrow();
        slots.find_by_name(name).map(|at| slots.id(at))
    }

    /// The place of the first handler of this type.
    #[must_use]
    pub fn slot_of<H: Handler>(&self) -> Option<SlotId> {
        let slots = self.core.pipeline.slots.borrow();
        slots.find_by_type(TypeId::of::<H>()).map(|at| slots.id(at))
    }

    /// Calls `f` with the handler of this type in this place. `None` if there is none, or it runs at
    /// this very moment.
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

    /// The names of the handlers, in order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.core.handler_names()
    }

    /// Lets a message come in, to the first handler.
    pub fn fire_read(&self, msg: impl Into<Msg>) {
        self.core.send_from(HEAD, Read(msg.into()));
    }

    /// Tells the handlers that this was all for now.
    pub fn fire_read_complete(&self) {
        self.core.send_from(HEAD, ReadComplete);
    }

    /// Fires an event of the user's own.
    pub fn fire_user_event(&self, event: impl Into<Msg>) {
        self.core.send_from(HEAD, UserEvent(event.into()));
    }

    /// Lets an error come in.
    pub fn fire_error(&self, error: Error) {
        self.core.send_from(HEAD, Failure(error));
    }

    /// Writes a message, to the last handler first.
    pub fn write(&self, msg: impl Into<Msg>) {
        self.write_with(msg, Completion::none());
    }

    /// Writes a message, and tells `done`.
    pub fn write_with(&self, msg: impl Into<Msg>, done: impl Into<Completion>) {
        self.core.send_from(TAIL, Write(msg.into(), done.into()));
    }

    /// Writes a message and flushes, and tells `done` of the write.
    pub fn write_and_flush_with(&self, msg: impl Into<Msg>, done: impl Into<Completion>) {
        self.write_with(msg, done);
        self.flush();
    }

    /// Sends what was written.
    pub fn flush(&self) {
        self.core.send_from(TAIL, Flush);
    }

    /// Asks for more to be read.
    pub fn read(&self) {
        self.core.send_from(TAIL, BeginRead);
    }

    /// Binds the channel, and tells `done`.
    pub fn bind_with(&self, to: impl Into<Address>, done: impl Into<Completion>) {
        self.core.send_from(TAIL, Bind(to.into(), done.into()));
    }

    /// Connects the channel, and tells `done`.
    pub fn connect_with(&self, to: impl Into<ConnectTarget>, done: impl Into<Completion>) {
        self.core.send_from(TAIL, Connect(to.into(), done.into()));
    }

    /// Disconnects the channel, and tells `done`.
    pub fn disconnect_with(&self, done: impl Into<Completion>) {
        self.core.send_from(TAIL, Disconnect(done.into()));
    }

    /// Closes the channel, and tells `done`.
    pub fn close_with(&self, done: impl Into<Completion>) {
        self.core.send_from(TAIL, Close(done.into()));
    }

    /// Lets the channel leave its loop, and tells `done`.
    pub fn deregister_with(&self, done: impl Into<Completion>) {
        self.core.send_from(TAIL, Deregister(done.into()));
    }

    /// Writes what was flushed, tells the peer that this was all, and tells `done`: see
    /// [`Channel::shutdown_output`](crate::Channel::shutdown_output).
    pub fn shutdown_output_with(&self, done: impl Into<Completion>) {
        self.core.send_from(TAIL, ShutdownOutput(done.into()));
    }
}

impl fmt::Debug for Pipeline<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pipeline").field(&self.names()).finish()
    }
}
