//! Events as they are sent between the loop and an executor: everything in them is `Send`.

use std::rc::Rc;

use waterwheel_executor::Error;

use super::link::OffloadLink;
use super::remote_completion::RemoteCompletion;
use super::remote_context::RemoteCtx;
use super::remote_handler::RemoteHandler;
use crate::address::{Address, ConnectTarget};
use crate::channel::core::ChannelCore;
use crate::channel::error::ChannelError;
use crate::channel::handle::request::PendingReservation;
use crate::pipeline::dispatch::event::{
    Active, BeginRead, Bind, Close, Connect, Deregister, Disconnect, Failure, Flush, Inactive,
    Read, ReadComplete, Registered, ShutdownOutput, Unregistered, UserEvent, WritabilityChanged,
    Write,
};
use crate::pipeline::dispatch::watched_handler::HandlerMethod;
use crate::pipeline::handler::HandlerResult;
use crate::pipeline::message::Msg;

/// An event sent to a remote handler, or emitted by it.
pub(crate) enum RemoteEvent {
    Registered,
    Unregistered,
    Active,
    Inactive,
    Read(Msg),
    ReadComplete,
    UserEvent(Msg),
    WritabilityChanged,
    Failure(Error),
    Bind(Address, RemoteCompletion),
    Connect(ConnectTarget, RemoteCompletion),
    Disconnect(RemoteCompletion),
    Close(RemoteCompletion),
    Deregister(RemoteCompletion),
    ShutdownOutput(RemoteCompletion),
    BeginRead,
    /// The reservation counts the message as pending bytes until the event has arrived.
    Write(Msg, RemoteCompletion, PendingReservation),
    Flush,
}

impl RemoteEvent {
    /// True if the event skips a handler that has failed: lifecycle events of the channel, and a close, which
    /// happens anyway.
    pub(super) fn may_pass_failed_handler(&self) -> bool {
        use RemoteEvent::{Active, Close, Inactive, Registered, Unregistered};
        matches!(self, Registered | Unregistered | Active | Inactive | Close(_))
    }

    /// Sends the event onward from its slot. On the loop.
    pub(super) fn forward_from(self, core: &Rc<ChannelCore>, at: u32) {
        match self {
            RemoteEvent::Registered => core.send_from(at, Registered),
            RemoteEvent::Unregistered => core.send_from(at, Unregistered),
            RemoteEvent::Active => core.send_from(at, Active),
            RemoteEvent::Inactive => core.send_from(at, Inactive),
            RemoteEvent::Read(msg) => core.send_from(at, Read(msg)),
            RemoteEvent::ReadComplete => core.send_from(at, ReadComplete),
            RemoteEvent::UserEvent(event) => core.send_from(at, UserEvent(event)),
            RemoteEvent::WritabilityChanged => core.send_from(at, WritabilityChanged),
            RemoteEvent::Failure(error) => core.send_from(at, Failure(error)),
            RemoteEvent::Bind(to, done) => {
                core.send_from(at, Bind(to, core.restore_completion(done)))
            }
            RemoteEvent::Connect(to, done) => {
                core.send_from(at, Connect(to, core.restore_completion(done)))
            }
            RemoteEvent::Disconnect(done) => {
                core.send_from(at, Disconnect(core.restore_completion(done)))
            }
            RemoteEvent::Close(done) => core.send_from(at, Close(core.restore_completion(done))),
            RemoteEvent::Deregister(done) => {
                core.send_from(at, Deregister(core.restore_completion(done)))
            }
            RemoteEvent::ShutdownOutput(done) => {
                core.send_from(at, ShutdownOutput(core.restore_completion(done)))
            }
            RemoteEvent::BeginRead => core.send_from(at, BeginRead),
            RemoteEvent::Write(msg, done, reservation) => {
                drop(reservation);
                core.send_from(at, Write(msg, core.restore_completion(done)));
            }
            RemoteEvent::Flush => core.send_from(at, Flush),
        }
    }

    /// Fails the event's completion: the event will not be delivered.
    pub(super) fn fail(self, error: &Error) {
        match self {
            RemoteEvent::Bind(_, done)
            | RemoteEvent::Connect(_, done)
            | RemoteEvent::Disconnect(done)
            | RemoteEvent::Close(done)
            | RemoteEvent::Deregister(done)
            | RemoteEvent::ShutdownOutput(done)
            | RemoteEvent::Write(_, done, _) => done.fail(error.clone()),
            _ => {}
        }
    }

    /// True if the operation was cancelled. Writes are exempt: the outbound buffer skips a cancelled write when it
    /// reaches that write.
    fn is_cancelled(&self) -> bool {
        match self {
            RemoteEvent::Bind(_, done)
            | RemoteEvent::Connect(_, done)
            | RemoteEvent::Disconnect(done)
            | RemoteEvent::Close(done)
            | RemoteEvent::Deregister(done)
            | RemoteEvent::ShutdownOutput(done) => done.is_cancelled(),
            _ => false,
        }
    }

    /// Returns the method of the handler that the event calls.
    pub(super) fn method(&self) -> HandlerMethod {
        match self {
            RemoteEvent::Registered => HandlerMethod::on_registered,
            RemoteEvent::Unregistered => HandlerMethod::on_unregistered,
            RemoteEvent::Active => HandlerMethod::on_active,
            RemoteEvent::Inactive => HandlerMethod::on_inactive,
            RemoteEvent::Read(_) => HandlerMethod::on_read,
            RemoteEvent::ReadComplete => HandlerMethod::on_read_complete,
            RemoteEvent::UserEvent(_) => HandlerMethod::on_user_event,
            RemoteEvent::WritabilityChanged => HandlerMethod::on_writability_changed,
            RemoteEvent::Failure(_) => HandlerMethod::on_error,
            RemoteEvent::Bind(..) => HandlerMethod::bind,
            RemoteEvent::Connect(..) => HandlerMethod::connect,
            RemoteEvent::Disconnect(_) => HandlerMethod::disconnect,
            RemoteEvent::Close(_) => HandlerMethod::close,
            RemoteEvent::Deregister(_) => HandlerMethod::deregister,
            RemoteEvent::ShutdownOutput(_) => HandlerMethod::shutdown_output,
            RemoteEvent::BeginRead => HandlerMethod::read,
            RemoteEvent::Write(..) => HandlerMethod::write,
            RemoteEvent::Flush => HandlerMethod::flush,
        }
    }

    /// Calls the method of the handler for this event, and handles its result. On the executor.
    pub(super) fn deliver(
        self,
        handler: &mut dyn RemoteHandler,
        ctx: &RemoteCtx,
        link: &OffloadLink,
    ) {
        if self.is_cancelled() {
            return;
        }
        let result = match self {
            RemoteEvent::Registered => handler.on_registered(ctx),
            RemoteEvent::Unregistered => handler.on_unregistered(ctx),
            RemoteEvent::Active => handler.on_active(ctx),
            RemoteEvent::Inactive => handler.on_inactive(ctx),
            RemoteEvent::Read(msg) => handler.on_read(ctx, msg),
            RemoteEvent::ReadComplete => handler.on_read_complete(ctx),
            RemoteEvent::UserEvent(event) => handler.on_user_event(ctx, event),
            RemoteEvent::WritabilityChanged => handler.on_writability_changed(ctx),
            RemoteEvent::Failure(error) => {
                return link.report_on_error_failure(handler.on_error(ctx, error));
            }
            RemoteEvent::BeginRead => handler.read(ctx),
            RemoteEvent::Flush => handler.flush(ctx),
            RemoteEvent::Bind(to, done) => {
                return call_operation(link, done, |done| handler.bind(ctx, to, done));
            }
            RemoteEvent::Connect(to, done) => {
                return call_operation(link, done, |done| handler.connect(ctx, to, done));
            }
            RemoteEvent::Disconnect(done) => {
                return call_operation(link, done, |done| handler.disconnect(ctx, done));
            }
            RemoteEvent::Close(done) => {
                return call_operation(link, done, |done| handler.close(ctx, done));
            }
            RemoteEvent::Deregister(done) => {
                return call_operation(link, done, |done| handler.deregister(ctx, done));
            }
            RemoteEvent::ShutdownOutput(done) => {
                return call_operation(link, done, |done| handler.shutdown_output(ctx, done));
            }
            RemoteEvent::Write(msg, done, reservation) => {
                drop(reservation); // From now on the message belongs to the handler.
                return call_operation(link, done, |done| handler.write(ctx, msg, done));
            }
        };
        if let Err(error) = result {
            link.report_on_error_failure(handler.on_error(ctx, error));
        }
    }
}

/// Calls an operation of the handler. If it fails, or does not take its completion, the completion fails (rule 10).
fn call_operation(
    link: &OffloadLink,
    mut done: RemoteCompletion,
    call: impl FnOnce(&mut RemoteCompletion) -> HandlerResult,
) {
    let result = call(&mut done);
    if result.is_err() || !done.is_none() {
        let not_passed_on = || ChannelError::NotPassedOn { handler: link.name().to_owned() };
        let error = result.err().unwrap_or_else(|| Error::new(not_passed_on()));
        link.fail_operation(error, done);
    }
}
